"""Parts of a system that a study file describes by tables: potentials, dynamics, spaces."""

import dataclasses
import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np

from .. import md
from .._errors import StudyError, UnknownNameError, close_matches
from ..core import Metadata
from ._models import POTENTIAL_FILES, POTENTIALS, TRUNCATIONS
from ._section import Section, at_place, check_numbers, is_number

Files = Callable[[str], str]
"""The text of a data file by its name in the study."""

COULOMB = "energy length/charge^2"
"""The unit of Coulomb's constant, which the unit system knows."""

INVERSE = {"compressibility": "pressure"}
"""Arguments that are one over a dimension."""


def part(section: Section, key: str) -> Section:
    """The table at a key; a complaint shows how one looks."""
    value = section.table.get(key)
    section.read.add(key)
    if not isinstance(value, dict):
        raise section.error(key, f'must be a table such as {{ model = "..." }}, but it is `{value!r}`.')
    return Section(value, f"{section.place}.{key}", section.file)


def read_potential(section: Section, key: str, units: md.Units, files: Files) -> md.Potential:
    """A potential, or the sum of an array of them."""
    value = section.table.get(key)
    if not isinstance(value, list):
        return _potential(part(section, key), units, files)
    section.read.add(key)
    if not value or not all(isinstance(term, dict) for term in value):
        raise section.error(
            key, f'must be a table such as {{ model = "..." }}, or an array of them, but it is `{value!r}`.'
        )
    terms = [
        _potential(Section(term, f"{section.place}.{key}.{k}", section.file), units, files)
        for k, term in enumerate(value)
    ]
    return terms[0] if len(terms) == 1 else md.Sum(tuple(terms))


def _potential(table: Section, units: md.Units, files: Files) -> md.Potential:
    model = table.table.get("model")
    if model not in POTENTIAL_FILES:
        return read_part(table, POTENTIALS, "potential", units, also=tuple(POTENTIAL_FILES))
    table.need("file", "elements")
    table.read.add("model")
    elements = table.get("elements", "an array")
    if not elements or not all(isinstance(name, str) for name in elements):
        raise table.error("elements", f'must be names such as ["Si"], one a species, but it is `{elements}`.')
    name = str(table.get("file", "text"))
    table.finish()
    style = POTENTIAL_FILES[str(model)]
    with at_place(table.where()):
        tables = from_file(name, files, lambda path: style.read(path, elements))
        if tables.units != units:
            raise table.error(
                "file", f"has {tables.units.name} units, but the study has {units.name} ones. Set `units` in [system]."
            )
        return style.make(tables)


def from_file(name: str, files: Files, read: Callable[[Path], Any]) -> Any:
    """What a reader makes of a data file of the study; readers take paths, and the text may come out of a result file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(name).name
        path.write_text(files(name), encoding="utf-8")
        return read(path)


def read_part(
    table: Section, known: Mapping[str, Any], what: str, units: md.Units, *, also: tuple[str, ...] = ()
) -> Any:
    """What a table makes: `model` names the class, the other keys are its arguments."""
    table.need("model")
    model = str(table.get("model", "text"))
    if model not in known:
        raise UnknownNameError(
            f"{table.where('model')}: there is no {what} `{model}`. {close_matches(model, (*known, *also))}"
        )
    kind = known[model]
    return call(table, kind, units, what=f"`{model}`", skip=("model",))


def call(table: Section, kind: Callable[..., Any], units: md.Units, *, what: str, skip: tuple[str, ...] = ()) -> Any:
    """Call a class or a function with the entries of a table, each checked."""
    parameters = inspect.signature(kind).parameters
    given: dict[str, Any] = {}
    for key in table.table:
        if key in skip:
            continue
        if key not in parameters:
            raise UnknownNameError(f"{table.where()}: {what} has no `{key}`. {close_matches(key, parameters)}")
        given[key] = _argument(table, key, parameters[key].annotation, _metadata(kind, key), units)
    if _metadata(kind, "constant").unit == COULOMB and "constant" not in given:
        given["constant"] = units.coulomb
    for key, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and key not in given:
            raise StudyError(f"{table.where()} must give `{key}` to {what}, but it does not.")
    with at_place(table.where()):
        try:
            return kind(**given)
        except (TypeError, ValueError) as error:
            if isinstance(error, StudyError) or type(error).__module__.startswith("simkit"):
                raise
            raise StudyError(f"{table.where()} cannot be made into {what}: {str(error).splitlines()[0]}.") from error


def _argument(table: Section, key: str, annotation: Any, known: Metadata, units: md.Units) -> Any:
    value = table.table[key]
    if key == "truncation":
        return read_part(part(table, key), TRUNCATIONS, "truncation", units)
    if get_origin(annotation) is Literal:
        return table.name(key, get_args(annotation), f"value of `{key}`")
    if annotation is str:
        return table.get(key, "text")
    if annotation is bool:
        return table.get(key, "true or false")
    if annotation is int:
        return table.count(key)
    if not is_number(value) and not isinstance(value, list):
        raise table.error(key, f"must be a number or an array of numbers, but it is `{value!r}`.")
    check_numbers(table, key, value if isinstance(value, list) else [value])
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise table.error(key, "must be an array with rows of one length, but they differ.") from error
    lower, upper = known.support
    if np.any(~((array >= lower) & (array <= upper))) or (known.support.positive and np.any(array <= 0)):
        good = "positive" if known.support.positive else f"between {lower:g} and {upper:g}"
        raise table.error(key, f"must be {good}, but it is `{value!r}`.")
    if known.unit in md._units.DIMENSIONS:
        return units.inside(array.astype(float), known.unit)
    if key in INVERSE:
        return array / units.inside(1.0, INVERSE[key])
    return array if isinstance(value, list) else value


def _metadata(kind: Any, key: str) -> Metadata:
    """What is known about an argument that is a quantity."""
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if field.name == key:
            return field.metadata.get("simkit", Metadata())
    return Metadata()
