"""[profile] of a study file: which parameters have a profile likelihood made."""

from typing import Any

from ._keys import Key, Table
from ._section import Section

MOST_PROFILES = 20
"""A PEtab problem, which has no [profile], gets profiles where it has no more parameters than this."""


PROFILE = Table(
    "profile likelihoods",
    {
        "names": Key("an array", "the parameters; all of them without it"),
        "points": Key("count", "points on each side of the optimum", least=2),
        "level": Key("number", "the level of the intervals", 0.95),
    },
)


def read_profile(section: Section, asked: bool) -> dict[str, Any]:
    """[profile]: `names`, `points` and `level` of `simkit.profile`; nothing where it is not asked for."""
    names = section.get("names", "an array")
    if names is not None and not (names and all(isinstance(name, str) for name in names)):
        raise section.error("names", f"must be names of parameters, but it is `{names}`.")
    found = PROFILE.read(section)
    section.finish()
    if not 0 < found["level"] < 1:
        raise section.error("level", f"must lie between 0 and 1, but it is {found['level']:g}.")
    return found if asked else {}
