"""Provenance of results as HTML."""

import html
from collections.abc import Mapping

from ..io import Provenance
from ._tables import folded, scrolled


def provenance_section(made: Provenance, again: str, more: Mapping[str, str] | None = None) -> str:
    """Describe how results were made, with versions and checksums, the command that makes them `again`, and the kept texts."""
    rows = {
        "made": f"{made.date} (UTC)",
        "command": made.command,
        "seed": "" if made.seed is None else str(made.seed),
        "float type": made.float_type,
        "device": f"{made.device} ({made.devices})",
        "platform": made.platform,
        "versions": ", ".join(f"{name} {version}" for name, version in made.versions.items()),
        "seconds": ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in made.seconds.items()),
        "study": f"{made.study_name}, SHA-256 {made.study_sha256}" if made.study else "",
        **{f"models {name}": f"SHA-256 {digest}" for name, digest in made.models_sha256.items()},
        **{f"data {name}": f"SHA-256 {digest}" for name, digest in made.files_sha256.items()},
        **(more or {}),
    }
    lines = "".join(
        f'<tr><th scope="row">{html.escape(k)}</th><td>{html.escape(v)}</td></tr>' for k, v in rows.items() if v
    )
    parts = [scrolled(f'<table class="provenance">{lines}</table>', "provenance")]
    parts.append(again)
    if made.study:
        parts.append(folded("Study file", made.study))
    for name, text in {**made.models, **made.files}.items():
        shown = text if len(text) < 20000 else text[:20000] + "\n..."
        parts.append(folded(name, shown))
    return "\n".join(parts)
