"""Parts of a system that a study file describes by tables: potentials, dynamics, spaces."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import numpy as np
from jax.typing import ArrayLike

from ... import md
from ..._errors import StudyError, UnknownNameError, close_matches
from ...core import Metadata, Support
from ...md import DIMENSIONS, Sum
from ...stores import READERS, Reader, reader_of, readers_of
from ._files import Files, from_file, no_files
from ._names import DYNAMICS, POTENTIALS, TRUNCATIONS
from ._section import Section, at_place, check_given, is_number

FAMILIES = (md.Truncation, md.Dynamics, md.Potential)
"""Families of which an argument may be a member, given as a table of its own."""

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
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def _potential(table: Section, units: md.Units, files: Files) -> md.Potential:
    with at_place(table.where("model")):
        reader = _reader(table.table.get("model"))
    if reader is None:
        return read_part(table, POTENTIALS, "potential", units, also=readers_of("potential"), files=files)
    table.need("file", "elements")
    table.read.add("model")
    elements = table.get("elements", "an array")
    if not elements or not all(isinstance(name, str) for name in elements):
        raise table.error("elements", f'must be names such as ["Si"], one a species, but it is `{elements}`.')
    name = str(table.get("file", "text"))
    table.finish()
    with at_place(table.where()):
        tables = from_file(name, files, lambda path: reader.read(path, elements))
        if tables.units != units:
            raise table.error(
                "file", f"has {tables.units.name} units, but the study has {units.name} ones. Set `units` in [system]."
            )
        return tables if reader.make is None else reader.make(tables)


def _reader(model: object) -> Reader | None:
    """The reader of the file of a potential; None where a table gives the potential."""
    if not isinstance(model, str) or (model not in READERS.own and model in POTENTIALS):
        return None
    return reader_of(model, "potential")


def read_part(
    table: Section,
    known: Mapping[str, Any],
    what: str,
    units: md.Units,
    *,
    also: Sequence[str] = (),
    files: Files = no_files,
) -> Any:
    """Make a part from a table: `model` names the class, the other keys are its arguments."""
    table.need("model")
    model = str(table.get("model", "text"))
    if model not in known:
        raise UnknownNameError(
            f"{table.where('model')}: there is no {what} `{model}`. {close_matches(model, (*known, *also))}"
        )
    with at_place(table.where("model")):
        kind = known[model]
    return call(table, kind, units, what=f"`{model}`", skip=("model",), files=files)


def call(
    table: Section,
    kind: Callable[..., Any],
    units: md.Units,
    *,
    what: str,
    skip: tuple[str, ...] = (),
    files: Files = no_files,
) -> Any:
    """Call a class or a function with the entries of a table, each checked."""
    parameters = inspect.signature(kind).parameters
    given: dict[str, Any] = {}
    for key in table.table:
        if key in skip:
            continue
        if key not in parameters:
            raise UnknownNameError(f"{table.where()}: {what} has no `{key}`. {close_matches(key, parameters)}")
        given[key] = _argument(table, key, parameters[key].annotation, _metadata(kind, key), units, files)
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


def _argument(table: Section, key: str, annotation: object, known: Metadata, units: md.Units, files: Files) -> Any:
    value, choices = table.table[key], (annotation, *get_args(annotation))
    family = next((family for family in FAMILIES if any(_is_of(choice, family) for choice in choices)), None)
    if key == "truncation" or family is md.Truncation:
        return read_part(part(table, key), TRUNCATIONS, "truncation", units)
    if family is md.Dynamics:
        return read_part(part(table, key), DYNAMICS, "dynamics", units)
    if family is md.Potential:
        return read_potential(table, key, units, files)
    for choice in choices:
        if get_origin(choice) is tuple:
            return _whole_numbers(table, key, choice, alone=int in choices and choice is not annotation)
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
    check_given(table, key, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise table.error(key, "must be an array with rows of one length, but they differ.") from error
    check_support(table, key, array, known.support, f"`{value!r}`")
    if known.unit in DIMENSIONS:
        return units.inside(array.astype(float), known.unit)
    if key in INVERSE:
        return array / units.inside(1.0, INVERSE[key])
    return array if isinstance(value, list) else value


def check_support(table: Section, key: str, array: ArrayLike, support: Support, shown: str) -> None:
    """Refuse numbers outside of the support of their quantity."""
    (lower, upper), array = support, np.asarray(array)
    if np.any(~((array >= lower) & (array <= upper))) or (support.positive and np.any(array <= 0)):
        good = "positive" if support.positive else f"between {lower:g} and {upper:g}"
        raise table.error(key, f"must be {good}, but it is {shown}.")


def _is_of(choice: object, family: type) -> bool:
    return isinstance(choice, type) and get_origin(choice) is None and issubclass(choice, family)


def _whole_numbers(table: Section, key: str, annotation: object, *, alone: bool) -> Any:
    """A tuple of whole numbers, or one of them where it may stand alone."""
    kinds = get_args(annotation)
    if alone and not isinstance(table.table[key], list):
        return table.count(key, least=0)
    numbers = table.numbers(key)
    count = None if Ellipsis in kinds else len(kinds)
    if not all(isinstance(n, int) for n in numbers) or count not in (None, len(numbers)):
        many = "" if count is None else f"{count} "
        raise table.error(key, f"must be an array of {many}whole numbers, but it is `{numbers}`.")
    return tuple(numbers)


def _metadata(kind: object, key: str) -> Metadata:
    """Return the metadata of an argument that is a quantity."""
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if field.name == key:
            return field.metadata.get("simkit", Metadata())
    return Metadata()
