"""Functional mock-up units (FMI 2.0) of systems of equations."""

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._doors import check_kind, shown
from .._errors import ArgumentError
from .._types import Inputs
from ..core import Input, Metadata
from ..stores import write_whole
from ._equation_source import set_inputs, start_numbers
from ._equation_system import EquationSystem
from ._expression import TIME
from ._fmu_code import c_lines, c_number, c_tangents
from ._fmu_runtime import FUNCTIONS, TYPES

LONGEST_SPAN = 1.0
"""The end of the default experiment where no times are given."""


class _Variable(NamedTuple):
    """A variable of an FMU."""

    name: str
    causality: str
    variability: str
    known: Metadata
    start: float | None = None
    derivative_of: int | None = None


def write_fmu(
    system: EquationSystem,
    y0: Any,
    path: str | Path,
    *,
    times: tuple[float, float] = (0.0, LONGEST_SPAN),
    inputs: Inputs = None,
    compiler: str | None = None,
) -> Path:
    """Write a system of equations as a functional mock-up unit, FMI 2.0, for model exchange and co-simulation.

    Parameters, inputs and outputs keep their names and units. The unit holds C source, and a library for this machine where there
    is a C compiler; importers that compile sources take it elsewhere. Co-simulation steps by the method of Dormand and Prince to
    the tolerance of the experiment, 1e-8 by default: it suits equations that are not stiff, and others go by model exchange with
    the importer's solver. Directional derivatives go by the states, inputs and parameters. Conditions in formulas raise no events.

    **Arguments:**

    - `system`: what `from_equations` made, or a study with `[system.equations]` holds; its numbers become the start values.
    - `y0`: its initial state, of single numbers.
    - `path`: the file, whose name ends with `.fmu`.
    - `times`: the first and the last time of the default experiment.
    - `inputs`: name -> number or `Constant`, the start values of inputs; by default the defaults that they declare, or 0.
    - `compiler`: the name of a C compiler; by default the first of `cc`, `gcc` and `clang` that there is. `"none"`: source alone.

    **Returns:** the path.

    **Raises:** an `ArgumentError` for a system of another kind, a state or an input that cannot be written, a compiler that is not
    there or that fails.

    **Reference:** Modelica Association (2022), Functional Mock-up Interface 2.0.4, https://fmi-standard.org.

    ```python
    import simkit
    tank = simkit.from_equations(
        {"d level": "(inflow - drain*level)/area"},
        parameters={"drain": 0.2, "area": simkit.quantity(2.0, unit="m^2")},
        inputs={"inflow": simkit.Input("m^3/s", default=0.5)},
    )
    simkit.networks.write_fmu(tank, {"level": 1.0}, "tank.fmu", times=(0.0, 60.0))
    ```
    """
    remedy = "Write its equations as text for `simkit.from_equations`."
    check_kind("system", system, EquationSystem, "a system of equations as text", remedy)
    path = Path(path)
    if path.suffix != ".fmu":
        raise ArgumentError(f'Argument `path` must end with ".fmu", but it is "{path}".')
    begin, end = _span(times)
    rows = _variables(system, y0, inputs)
    source = _source(system, rows)
    guid = "{" + hashlib.sha256(source.encode()).hexdigest()[:32] + "}"
    source = source.replace("THE_GUID", guid)
    files = {
        "modelDescription.xml": _description(system, rows, guid, (begin, end)),
        f"sources/{system.equations.name}.c": source.encode(),
    }
    if library := _library(source, compiler):
        files[f"binaries/{_platform()}/{system.equations.name}{_suffix()}"] = library
    write_whole(path, lambda target: _zip(target, files))
    return path


def _zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)  # whose date is always the same


def _span(times: Any) -> tuple[float, float]:
    """The first and the last time of the default experiment."""
    try:
        found = np.asarray(times, float)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.shape != (2,) or not np.isfinite(found).all() or not found[0] < found[1]:
        raise ArgumentError(
            f"Argument `times` must increase from a first to a last time, both finite, but it is {shown(times)}."
        )
    return float(found[0]), float(found[1])


def _variables(system: EquationSystem, y0: Any, inputs: Inputs) -> list[_Variable]:
    """States, their derivatives, parameters, inputs and outputs, in the order of their references."""
    equations = system.equations
    states = [name for name, _ in equations.rates]
    start, units = start_numbers(y0, states), dict(equations.states)
    declared = set_inputs(equations, inputs)
    rows = [_Variable(name, "output", "continuous", units[name], start[name]) for name in states]
    rows += [
        _Variable(f"der({name})", "local", "continuous", Metadata(), None, place + 1)
        for place, name in enumerate(states)
    ]
    for name, _, known in equations.parameters:
        value = float(np.asarray(getattr(system, name), float))
        rows.append(_Variable(name, "parameter", "tunable", known, value))
    rows += [
        _Variable(name, "input", "continuous", _of_input(one), one.default or 0.0) for name, one in declared.items()
    ]
    return rows + [_Variable(name, "output", "continuous", Metadata()) for name, _ in equations.observed]


def _of_input(declared: Input) -> Metadata:
    return Metadata(unit=declared.unit, doc=declared.doc)


def _source(system: EquationSystem, rows: list[_Variable]) -> str:
    """The C source."""
    formulas, rates, observed = system.equations.compiled
    symbols, directions = {f"time:{TIME}": "t"}, {}
    sorts = system.equations.sorts()
    for place, row in enumerate(rows):
        if row.name in sorts:
            symbol = f"{sorts[row.name]}:{row.name}"
            symbols[symbol], directions[symbol] = f"r[{place}]", f"v[{place}]"

    def function(name: str, roots: tuple[int, ...]) -> str:
        lines = c_lines(formulas, roots, symbols) + [f"found[{i}] = n{node};" for i, node in enumerate(roots)]
        return "\n".join([f"static void {name}(double t, const double r[], double found[]) {{", *lines, "}"])

    def along(name: str, roots: tuple[int, ...]) -> str:
        lines = c_lines(formulas, roots, symbols) + c_tangents(formulas, roots, directions)
        lines += [f"found[{i}] = d{node};" for i, node in enumerate(roots)]
        head = f"static void {name}_along(double t, const double r[], const double v[], double found[]) {{"
        return "\n".join([head, *lines, "}"])

    heading = [
        f"#define SIZE {len(rows)}",
        f"#define STATES {len(rates)}",
        f"#define OUTPUTS {len(rows) - len(observed)}",
        '#define GUID "THE_GUID"',
    ]
    numbers = ", ".join(c_number(row.start or 0.0) for row in rows)
    start = f"static const double START[SIZE] = {{{numbers}}};"
    parts = [
        make(name, roots) for make in (function, along) for name, roots in (("slopes", rates), ("outputs", observed))
    ]
    return "\n".join([*heading, TYPES, start, *parts, FUNCTIONS])


def _description(system: EquationSystem, rows: list[_Variable], guid: str, span: tuple[float, float]) -> bytes:
    """The model description."""
    name = system.equations.name
    attributes = {"fmiVersion": "2.0", "modelName": name, "guid": guid, "generationTool": "simkit"}
    root = xml.Element("fmiModelDescription", attributes, numberOfEventIndicators="0")
    same = {"modelIdentifier": name, "canGetAndSetFMUstate": "true", "canSerializeFMUstate": "true"}
    same["providesDirectionalDerivative"] = "true"
    steps = {"canHandleVariableCommunicationStepSize": "true"}
    for kind, more in (("ModelExchange", {}), ("CoSimulation", steps)):
        part = xml.SubElement(root, kind, {**same, **more})
        xml.SubElement(xml.SubElement(part, "SourceFiles"), "File", name=f"{name}.c")
    units = sorted({row.known.unit for row in rows} - {"1"})
    if units:
        listed = xml.SubElement(root, "UnitDefinitions")
        for unit in units:
            xml.SubElement(listed, "Unit", name=unit)
    xml.SubElement(root, "DefaultExperiment", startTime=repr(span[0]), stopTime=repr(span[1]), tolerance="1e-8")
    variables = xml.SubElement(root, "ModelVariables")
    for place, row in enumerate(rows):
        own = {"name": row.name, "valueReference": str(place), "causality": row.causality}
        own |= {"variability": row.variability}
        own |= {"description": row.known.doc} if row.known.doc else {}
        if row.start is not None and row.causality == "output":
            own["initial"] = "exact"
        variable = xml.SubElement(variables, "ScalarVariable", own)
        real = {} if row.known.unit == "1" else {"unit": row.known.unit}
        real |= {} if row.start is None else {"start": repr(row.start)}
        real |= {} if row.derivative_of is None else {"derivative": str(row.derivative_of)}
        xml.SubElement(variable, "Real", real)
    structure = xml.SubElement(root, "ModelStructure")
    outputs = [i + 1 for i, row in enumerate(rows) if row.causality == "output"]
    slopes = [i + 1 for i, row in enumerate(rows) if row.derivative_of is not None]
    computed = [i for i in outputs if rows[i - 1].start is None]
    for kind, members in (
        ("Outputs", outputs),
        ("Derivatives", slopes),
        ("InitialUnknowns", sorted(computed + slopes)),
    ):
        if members:
            part = xml.SubElement(structure, kind)
            for index in members:
                xml.SubElement(part, "Unknown", index=str(index))
    xml.indent(root)
    return xml.tostring(root, encoding="utf-8", xml_declaration=True)


def _library(source: str, compiler: str | None) -> bytes | None:
    """The compiled source, None where there is no compiler or none is wanted."""
    if compiler == "none":
        return None
    found = compiler or next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if found is None:
        return None
    if shutil.which(found) is None:
        raise ArgumentError(
            f'Argument `compiler` must be a program that there is, or "none", but `{found}` is not found.'
        )
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder) / "model.c", Path(folder) / f"model{_suffix()}"
        text.write_text(source, encoding="utf-8")
        command = [found, "-shared", "-fPIC", "-O2", "-o", str(made), str(text), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ArgumentError(f"The compiler `{found}` failed: {done.stderr.strip()[:400]}")
        return made.read_bytes()


def _platform() -> str:
    """The folder of FMI 2.0 for libraries of this machine."""
    system = {"win32": "win", "darwin": "darwin"}.get(sys.platform, "linux")
    is_arm = platform.machine().lower() in ("arm64", "aarch64")
    return f"aarch64-{system}" if is_arm and system == "linux" else f"{system}{64 if sys.maxsize > 2**32 else 32}"


def _suffix() -> str:
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
