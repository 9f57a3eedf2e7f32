"""reproduce: run the study of a result file again, and compare number by number."""

from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from ...core import named_leaves
from ...infer import Posterior
from ...io import Results, provenance
from ._run import Found

TOLERANCE = 1e-6
"""Relative to the largest magnitude in an array: rounding differences of another compiler stay below it, other physics does not."""


class Comparison(NamedTuple):
    """One part of the results against itself.

    `verdict` is "bitwise equal", "equal to tolerance" or "different"; `text` says where first, and by how much.
    """

    part: str
    verdict: str
    text: str


def compare(part: str, old: PyTree, new: PyTree) -> Comparison:
    """Two results of one kind, array by array."""
    before, after = named_leaves(old), named_leaves(new)
    if set(before) != set(after):
        return Comparison(part, "different", f"the names differ: {sorted(set(before) ^ set(after))}")
    verdict, text = "bitwise equal", ""
    for name in before:
        a, b = np.asarray(before[name]), np.asarray(after[name])
        if a.shape != b.shape:
            return Comparison(part, "different", f"{name} had the shape {a.shape}, now it has {b.shape}")
        same = (a == b) | (np.isnan(a) & np.isnan(b)) if np.issubdtype(a.dtype, np.floating) else a == b
        if same.all():
            continue
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        where = f"first at {name}{list(place) if place else ''}: {a[place]!s} before, {b[place]!s} now"
        scale = float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0))
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True):
            return Comparison(part, "different", where)
        verdict, text = "equal to tolerance", text or where
    return Comparison(part, verdict, text)


def compare_draws(old: Posterior, new: Posterior) -> str:
    """Return the distance of the means of two posteriors in posterior standard deviations, where draws differ."""
    a, b = (np.asarray(posterior.flat(), float) for posterior in (old, new))
    apart = np.abs(a.mean(axis=0) - b.mean(axis=0)) / np.maximum(a.std(axis=0), 1e-300)
    worst = int(np.argmax(apart))
    return f"posterior means differ by at most {apart[worst]:.3f} standard deviations ({old.names[worst]})"


def comparisons(results: Results, found: Found) -> list[Comparison]:
    """All parts that a result file holds against what a new run found."""
    rows = []
    parts = ("fit", "sparse_fit", "field_fit", "posterior", "prediction", "profiles", "averages", "assimilation")
    for part in parts:
        old, new = getattr(results, part), getattr(found, part)
        if old is None or new is None:
            continue
        row = compare(part, old, new)
        if part == "posterior" and row.verdict == "different" and old.draws.shape == new.draws.shape:
            row = row._replace(text=f"{row.text}; {compare_draws(old, new)}")
        rows.append(row)
    return rows


def changes(results: Results) -> list[str]:
    """List the differences between the circumstances then and now."""
    then, now = results.provenance, provenance()
    rows = [
        f"{name} {version} then, {now.versions[name]} now"
        for name, version in then.versions.items()
        if now.versions.get(name, version) != version
    ]
    for name in ("device", "devices", "float_type"):
        before, after = getattr(then, name), getattr(now, name)
        if before != after:
            rows.append(f"{name.replace('_', ' ')} {before} then, {after} now")
    return rows
