"""Correlations between the priors of a study file."""

from ...problem import GaussianCopula
from ._section import Section, at_place


def read_dependence(section: Section) -> tuple[GaussianCopula, ...]:
    """The copulas of `[dependence.NAME]`, each with the unknowns that it joins."""
    found = []
    for key in section.table:
        part = Section(section.get(key, "a table"), f"dependence.{key}", section.file)
        part.need("names", "correlation")
        names, given = part.get("names", "an array"), part.table["correlation"]
        matrix = part.numbers("correlation") if isinstance(given, list) else part.number("correlation")
        part.finish()
        with at_place(part.where()):
            found.append(GaussianCopula(names, matrix))  # pyright: ignore[reportArgumentType]
    return tuple(found)
