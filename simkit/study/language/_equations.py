"""[system.equations] of a study file: a system from equations as text."""

import math
from typing import Any

from ..._errors import SimkitError, StudyError, UnknownNameError
from ...core import POSITIVE, REAL, UNIT_INTERVAL, Input, Support, quantity
from ...networks import EquationSystem, from_equations
from ._section import Section, is_number

SUPPORTS = {"real": REAL, "positive": POSITIVE, "unit_interval": UNIT_INTERVAL}
SHOWN = 'such as { value = 0.8, unit = "1/day", support = "positive", doc = "growth rate" }'
KEYS = ("name", "equations", "parameters", "states", "inputs", "outputs")


def read_equations(section: Section) -> tuple[str, EquationSystem]:
    """The name and the system of a table [system] with `equations`; messages name the place in the file."""
    if "model" in section:
        raise StudyError(f"{section.where()} must give `model` or `equations`, one of them, but gives both.")
    name = str(section.get("name", "text", "Equations"))
    if not name.isidentifier():
        raise section.error("name", f'must be one word of letters, digits and _, such as "Pond", but it is `{name}`.')
    tables = {key: section.section(key) for key in KEYS[1:]}
    section.finish()
    parameters = {key: _parameter(tables["parameters"], key) for key in tables["parameters"].table}
    states = {key: _state(tables["states"], key) for key in tables["states"].table}
    inputs = {key: _input(tables["inputs"], key) for key in tables["inputs"].table}
    try:
        system = from_equations(
            tables["equations"].table,
            parameters=parameters,
            states=states,
            inputs=inputs,
            outputs=tables["outputs"].table,
            name=name,
        )
    except UnknownNameError as error:
        raise UnknownNameError(f"{tables['equations'].where()}: {error}") from error
    except SimkitError as error:
        raise StudyError(f"{tables['equations'].where()}: {error}") from error
    return name, system


def check_start(section: Section, system: EquationSystem) -> None:
    """Refuse an initial value of what has no equation."""
    names = [name for name, _ in system.equations.rates]
    for key in section.table:
        if key not in names:
            raise UnknownNameError(
                f'{section.where()}: `{key}` has no equation. Add "d {key}" = "..." to [system.equations], or take the value out. '
                f"States are {', '.join(f'`{name}`' for name in names)}."
            )


def _parameter(table: Section, key: str) -> Any:
    part = _part(table, key, "value")
    part.need("value")
    return quantity(part.number("value"), **_known(part))


def _state(table: Section, key: str) -> Any:
    value = table.table[key]
    if isinstance(value, str):
        return quantity(unit=value)
    return quantity(**_known(_part(table, key, "unit")))


def _input(table: Section, key: str) -> Input:
    part = _part(table, key, "default")
    default, unit, doc = part.number("default"), part.get("unit", "text", "1"), part.get("doc", "text", "")
    part.finish()
    _check_unit(part, unit)
    return Input(unit, default, doc)


def _part(table: Section, key: str, alone: str) -> Section:
    """The table of a name; a number alone is one of its entries."""
    value = table.table[key]
    if is_number(value):
        value = {alone: value}
    if not isinstance(value, dict):
        raise table.error(key, f"must be a number or a table {SHOWN}, but it is `{value!r}`.")
    return Section(value, f"{table.place}.{key}", table.file)


def _known(part: Section) -> dict[str, Any]:
    """Unit, support and description of a quantity."""
    unit, doc = part.get("unit", "text", "1"), part.get("doc", "text", "")
    _check_unit(part, unit)
    support = _support(part)
    part.finish("value")
    return {"unit": unit, "support": support, "doc": doc}


def _check_unit(part: Section, unit: str) -> None:
    if not unit.strip() or (is_number_text(unit) and unit != "1"):
        raise part.error(
            "unit", f'must be a unit as text, such as "1/day" ("1" where there is none), but it is `{unit!r}`.'
        )


def is_number_text(text: str) -> bool:
    """Tell whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _support(part: Section) -> Support:
    given = part.table.get("support", "real")
    part.read.add("support")
    if isinstance(given, str) and given in SUPPORTS:
        return SUPPORTS[given]
    if isinstance(given, list) and len(given) == 2 and all(map(is_number, given)):
        lower, upper = map(float, given)
        if lower < upper and not (math.isnan(lower) or math.isnan(upper)):
            return Support(lower, upper)
        raise part.error("support", f"must have a lower end below the upper one, but it is `{given}`.")
    raise part.error(
        "support", f'must be "real", "positive", "unit_interval" or [lower, upper], but it is `{given!r}`.'
    )
