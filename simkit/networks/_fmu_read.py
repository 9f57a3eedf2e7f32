"""Reading of functional mock-up units as systems."""

import hashlib
import math
import os
import xml.etree.ElementTree as xml
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._doors import check_kind, check_mapping, shown
from .._errors import ArgumentError, DataError, check_known
from ..stores import input_bytes, reading
from ._fmu_calls import fmpy_package
from ._fmu_system import FMUSystem, StaticFMU
from ._fmu_unit import Unit, Variable, started

REALS = ("Real", "Float64")
OTHERS = {"Integer": int, "Int32": int, "Boolean": bool, "Enumeration": int, "String": str}
"""Types of FMI beside floating-point numbers whose start values can be set, and Python's for them."""


def read_fmu(
    path: str | Path,
    *,
    parameters: Sequence[str] | None = None,
    outputs: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> FMUSystem | StaticFMU:
    r"""Read a functional mock-up unit for model exchange, FMI 2.0 or 3.0, as a system.

    $$\frac{dx}{dt} = f(t, x, u, p), \qquad y = g(t, x, u, p)$$

    f and g are calls of the library in the file, which runs as code of this process: read units that you trust. The system is
    simulated, differentiated, fitted and sampled like any other: by the unit's directional derivatives where it gives them and they
    are those of its slopes, by central differences elsewhere (relative error 1e-9 to 1e-5). A change of parameters takes another
    instance of the unit, so that no evaluation remembers another.

    **Arguments:**

    - `path`: a file that ends with `.fmu`, with a library for this machine.
    - `parameters`: the names of those that become parameters of the system; by default all floating-point ones. Others keep the
        values of the file.
    - `outputs`: names of further floating-point variables that become outputs, beside those of the unit.
    - `values`: name -> start value, in place of the file's, of any type: structural and Boolean parameters too.

    **Returns:** a system whose parameters, states, inputs and outputs have the names and units of the file. `start()` is its state
    after the unit's own initialisation, `unit.span` the times of its default experiment. One without states is a `StaticFMU`.

    **Raises:** a `DataError` for a file that is no unit, an `ArgumentError` for a unit without model exchange or without a library
    for this machine, one with events, arrays or no library of this version, an `UnknownNameError` for a name that it does not have.

    **Reference:** Modelica Association (2022, 2024), Functional Mock-up Interface 2.0.4 and 3.0.2, https://fmi-standard.org.
    """
    check_kind("path", path, str | os.PathLike, "the path of a unit", "Write `read_fmu('model.fmu')`.")
    check_mapping("values", values or {}, "start values", '{"mass": 2.0}')
    path = Path(path).absolute()
    with reading(path, "functional mock-up unit"):
        content = input_bytes(path, "functional mock-up unit")
    known = _description(path)
    _check_taken(path, known)
    rows = {one.name: one for one in known.modelVariables}
    slopes = [unknown.variable for unknown in known.derivatives]
    given = _values(rows, values or {})
    own = [one.name for one in known.modelVariables if _is_parameter(one)]
    chosen = own if parameters is None else list(_names("parameters", parameters, own, "parameter of the unit"))
    declared = [one.variable for one in known.outputs if one.variable.type in REALS]
    further = [rows[name] for name in _names("outputs", outputs, [*rows], "variable of the unit")]
    for one in further:
        if one.type not in REALS:
            raise ArgumentError(f"The output `{one.name}` must be a floating-point number, but its type is {one.type}.")
    states = [one.derivative for one in slopes]
    seen = {one.name for one in states}
    observed = {one.name: one for one in (*declared, *further) if one.name not in seen}
    inputs = [one for one in known.modelVariables if _is_input(one)]
    taken = [rows[name] for name in chosen]
    _check_scalars([*states, *slopes, *inputs, *taken, *observed.values()])
    set_alone = [name for name in given if name not in chosen and rows[name] not in inputs]
    unit = Unit(
        path=str(path),
        digest=hashlib.sha256(content).hexdigest(),
        states=_variables(states, given),
        slopes=_variables(slopes, given),
        inputs=_variables(inputs, given),
        parameters=_variables(taken, given),
        outputs=_variables(observed.values(), {}),
        fixed=tuple((rows[name].type, rows[name].valueReference, given[name]) for name in set_alone),
        indicators=_indicators(known),
        exact=("states", "inputs", "parameters") if _gives_derivatives(path) else (),
        span=_span(known.defaultExperiment),
    )
    unit = started(unit)
    kind = FMUSystem if states else StaticFMU
    return kind({one.name: one.start for one in unit.parameters}, unit)


def _description(path: Path) -> Any:
    fmpy = fmpy_package()
    try:
        with zipfile.ZipFile(path) as archive:
            archive.getinfo("modelDescription.xml")
        return fmpy.read_model_description(str(path), validate=False)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"The file `{path}` is no functional mock-up unit: {error}.") from error
    except Exception as error:  # FMPy raises plain exceptions for what it cannot read
        raise DataError(f"The model description of `{path}` cannot be read: {error}") from error


def _check_taken(path: Path, known: Any) -> None:
    """Refuse units of kinds that no system can be made of."""
    name = f"The unit `{path.name}`"
    if not known.fmiVersion.startswith(("2.", "3.")):
        raise ArgumentError(f"{name} must be of FMI 2.0 or 3.0, but it is of {known.fmiVersion}.")
    if known.modelExchange is None:
        raise ArgumentError(
            f"{name} must be one for model exchange, but it is one for co-simulation alone, whose equations are hidden in its own "
            "steps. Export it for model exchange."
        )
    remembered = [one.name for one in known.modelVariables if _is_remembered(one)]
    if _indicators(known) and remembered:
        listed = ", ".join(f"`{name}`" for name in remembered[:6]) + (", ..." if len(remembered) > 6 else "")
        raise ArgumentError(
            f"{name} has events and discrete variables, {listed}, which remember what has been. A system follows from time, "
            "states, inputs and parameters alone: write it with `events` of a system."
        )
    if not known.derivatives and not any(one.variable.type in REALS for one in known.outputs):
        raise ArgumentError(f"{name} must have continuous states or floating-point outputs, but it has neither.")
    platforms = fmpy_package().supported_platforms(str(path))
    here = fmpy_package().platform_tuple if known.fmiVersion.startswith("3") else fmpy_package().platform
    if here not in platforms and fmpy_package().platform not in platforms:
        raise ArgumentError(
            f"{name} must hold a library for this machine, {here}, but it holds {', '.join(platforms) or 'none'}. Where it holds "
            "sources, `fmpy compile` adds one."
        )


def _check_scalars(variables: Iterable[Any]) -> None:
    for one in variables:
        if one.dimensions:
            raise ArgumentError(f"The variable `{one.name}` of the unit must be a single number, but it is an array.")
        if one.type not in REALS:
            raise ArgumentError(
                f"The variable `{one.name}` must be a floating-point number, but its type is {one.type}."
            )


def _indicators(known: Any) -> int:
    return known.numberOfEventIndicators or len(getattr(known, "eventIndicators", ()))


def _is_remembered(one: Any) -> bool:
    """Tell whether a variable keeps its value from event to event."""
    return one.variability == "discrete" and one.causality in ("local", "output")


def _is_input(one: Any) -> bool:
    """Tell whether a variable is an input that follows time; discrete ones keep their start values, as integers do."""
    return one.causality == "input" and one.type in REALS and one.variability != "discrete"


def _is_parameter(one: Any) -> bool:
    return (
        one.causality == "parameter"
        and one.variability in ("fixed", "tunable")
        and one.type in REALS
        and one.start is not None
        and not one.dimensions
    )


def _names(argument: str, names: Sequence[str], known: Sequence[str], what: str) -> Sequence[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"Argument `{argument}` must be a list of names, but it is {shown(names)}.")
    for name in names:
        check_known(name, known, what)
    return names


def _values(rows: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Start values that are given, each as its variable's type."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        check_known(name, [*rows], "variable of the unit")
        kind = float if rows[name].type in REALS else OTHERS.get(rows[name].type)
        is_right = kind is not None and (isinstance(value, bool) == (kind is bool))
        try:
            found[name] = kind(value) if kind and is_right else None
        except (TypeError, ValueError):
            found[name] = None
        if found[name] is not None and rows[name].start is None:
            raise ArgumentError(
                f"The variable `{name}` must have a start value that can be set, but the unit calculates it."
            )
        if found[name] is None or (kind is float and not math.isfinite(found[name])):
            raise ArgumentError(
                f"The start value of `{name}` must be of type {rows[name].type}, and finite, but it is {shown(value)}."
            )
    return found


def _variables(ones: Iterable[Any], given: Mapping[str, Any]) -> tuple[Variable, ...]:
    def start(one: Any) -> float | None:
        value = given.get(one.name, one.start)
        return None if value is None else float(value)

    return tuple(
        Variable(one.name, one.valueReference, start(one), one.unit or "1", one.description or "") for one in ones
    )


def _gives_derivatives(path: Path) -> bool:
    """Tell whether the unit declares directional derivatives; FMPy reads the word of FMI 2.0 alone."""
    with zipfile.ZipFile(path) as archive:
        part = xml.fromstring(archive.read("modelDescription.xml")).find("ModelExchange")
    words = ("providesDirectionalDerivative", "providesDirectionalDerivatives")
    return part is not None and any(part.get(word) in ("true", "1") for word in words)


def _span(experiment: Any) -> tuple[float, float]:
    """The first and the last time of the default experiment."""
    begin = float(getattr(experiment, "startTime", None) or 0.0)
    end = getattr(experiment, "stopTime", None)
    return begin, float(end) if end is not None else begin + 1.0
