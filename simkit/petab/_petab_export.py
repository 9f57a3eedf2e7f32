"""Problems written as PEtab: an SBML model of rate rules, and tables."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import libsbml
import numpy as np
import numpyro.distributions as dist
from jax.typing import ArrayLike
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import State
from ..core import DelayedSystem, Setup, StaticSystem, named_leaves, started
from ..networks import TIME, Formulas, Graph, Printer, identifier, time_as
from ..problem import Problem
from ._copy import copied
from ._load import PEtab
from ._noises import WRITTEN
from ._sbml_system import SBMLSystem
from ._traced_formulas import traced

YAML = """format_version: 1
parameter_file: parameters.tsv
problems:
- sbml_files: [model.xml]
  condition_files: [conditions.tsv]
  observable_files: [observables.tsv]
  measurement_files: [measurements.tsv]
"""


def write(problem: Problem | PEtab, folder: str | Path, *, nominal: ArrayLike | Sequence[float] | None = None) -> Path:
    """Write a problem as PEtab version 1: `problem.yaml`, four tables and an SBML model, in a folder.

    What `load` gave is written as it was read: its YAML file, its model and its tables, with these nominal values.

    The vector field and the outputs are traced and become formulas: each state is a species with a rate rule, each parameter one
    of the model, a dot in a name two underscores.

    **Arguments:**

    - `problem`: ordinary differential equations without inputs, with normal, log-normal or Laplace noise; or what `load` gave.
    - `folder`: where the files go; it is made where it is not there.
    - `nominal`: values of the free parameters for the table, such as `fit(problem).estimate`; by default their starts, or 1, or the
        nominal values that were read.

    **Returns:** the path of the YAML file.

    **Raises:** an `ArgumentError` that names what PEtab has no words for.
    """
    folder = Path(folder)
    if isinstance(problem, PEtab):
        return copied(problem, folder, nominal)
    _check(problem)
    folder.mkdir(parents=True, exist_ok=True)
    known = np.asarray(problem.starts if nominal is None else nominal, float)
    parts = _Parts(problem, np.where(np.isfinite(known), known, _inside(problem)))
    (folder / "model.xml").write_text(parts.model(), encoding="utf-8")
    for name in ("parameters", "conditions", "observables", "measurements"):
        with (folder / f"{name}.tsv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows(getattr(parts, name)())
    path = folder / "problem.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


def _inside(problem: Problem) -> np.ndarray:
    bounds = np.asarray(problem.bounds, float)
    return np.clip(np.ones(len(bounds)), np.maximum(bounds[:, 0], -1e300), np.minimum(bounds[:, 1], 1e300))


def _check(problem: Problem) -> None:
    system, kind = problem.base.system, type(problem.base.system).__name__
    wrong = {
        "a system with equations in time": isinstance(system, StaticSystem),
        "a system that was not read from SBML (give what `simkit.petab.load` gave)": isinstance(system, SBMLSystem),
        "no delays": isinstance(system, DelayedSystem),
        "no protocol": problem.protocol is not None,
        "no inputs": bool(jax.tree.leaves(problem.base.inputs)),
        "independent priors": bool(problem.unknowns.joints),
        "no derived numbers": problem.model.derived is not None,
        "no observables beside the outputs of its system": bool(problem.observables),
        "experiments that start at 0 (`Experiment(..., start=0.0)`)": bool(
            np.any(np.asarray(problem.times)[:, 0] != 0)
        ),
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise ArgumentError(
                f"A problem to be written as PEtab must have {what}, but that of `{kind}` has not. {_WAY}"
            )
    for name, values in problem.data.items():
        if values.ndim > 2:
            raise ArgumentError(f"Data to be written as PEtab must be numbers, but those of `{name}` are arrays.")
        if name in problem.dataset.limits:
            raise ArgumentError(f"Data to be written as PEtab must not be censored, but those of `{name}` are. {_WAY}")
        noise = problem.base.noise[name]
        if type(noise) not in WRITTEN:
            raise ArgumentError(f"The noise of `{name}` must be one that PEtab has, but it is {type(noise).__name__}.")


_WAY = "Write such a problem by hand, or keep it in Python."


class _Parts:
    def __init__(self, problem: Problem, nominal: np.ndarray):
        self.problem, self.nominal, self.graph = problem, nominal, Graph()
        setup = problem.model.base_setup(0)
        self.base = [self._values(problem.model.base_setup(i)) for i in range(len(problem.labels))]
        others = [name for name in problem.names if name not in self.base[0] or name.startswith("y0.")]
        words = {path: identifier(path.removeprefix("y0.")) for path in self.base[0]}
        words |= {f"free {name}": identifier(name) for name in others}
        self.ids = _unique(words | {f"observable_{name}": identifier(f"observable_{name}") for name in problem.data})
        self.free = {name: self.ids[f"free {name}" if name in others else name] for name in problem.names}
        node = lambda path: self.graph.symbol(self.ids[path])
        held = named_leaves(setup.system)
        elements = {path: _elements(path, np.shape(leaf), node) for path, leaf in held.items()}
        state = {
            path: _elements(f"y0.{path}", np.shape(leaf), node)
            for path, leaf in named_leaves(started(setup.y0)).items()
        }
        # In the order of the leaves, which is that of the trace's arguments.
        arguments = (setup.system, jnp.zeros(()), started(setup.y0))
        nodes = ([*elements.values()], np.asarray(self.graph.symbol(TIME)), [*state.values()])
        kind = type(setup.system).__name__

        def call(method: str) -> Any:
            leaves, structure = jax.tree.flatten(setup.system)
            floats = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array | np.ndarray)]

            def function(values: list[Any], t: Array, y: State) -> Any:
                put = list(leaves)
                for i, value in zip(floats, values, strict=True):
                    put[i] = value
                return getattr(jax.tree.unflatten(structure, put), method)(t, y, setup.inputs)

            given = [leaves[i] for i in floats]
            return traced(function, (given, *arguments[1:]), nodes, self.graph, f"`{method}` of `{kind}`")

        rates = {f"y0.{name}": x for name, x in named_leaves(call("vector_field")).items()}
        self.rates = {
            ".".join([path, *map(str, place)]): int(nodes[place])
            for path, nodes in rates.items()
            for place in np.ndindex(nodes.shape)
        }
        self.measured = {name: int(x) for name, x in named_leaves(call("outputs")).items() if name in problem.data}
        self.printer = Printer(Formulas(tuple(self.graph.nodes)), {}, time_as("time", lambda name: name))

    def _values(self, setup: Setup) -> dict[str, float]:
        """Every number of a setup but its noise by the path of the element."""
        found = {}
        for path, leaf in Setup(setup.system, started(setup.y0)).leaves().items():
            for place in np.ndindex(np.shape(leaf)):
                found[".".join([path, *map(str, place)])] = float(np.asarray(leaf)[place])
        return found

    def model(self) -> str:
        document = libsbml.SBMLDocument(3, 1)
        model = document.createModel()
        model.setId(identifier(type(self.problem.base.system).__name__))
        room = model.createCompartment()
        room.setId("compartment_")
        room.setSize(1.0)
        room.setConstant(True)
        room.setSpatialDimensions(3)
        for path, value in self.base[0].items():
            moves = path in self.rates
            made = model.createSpecies() if moves else model.createParameter()
            made.setId(self.ids[path])
            made.setConstant(not moves)
            if moves:
                made.setCompartment("compartment_")
                made.setInitialConcentration(value)
                made.setHasOnlySubstanceUnits(False)
                made.setBoundaryCondition(True)
            else:
                made.setValue(value)
        for path, node in self.rates.items():
            rule = model.createRateRule()
            rule.setVariable(self.ids[path])
            text = self.printer.text(node)
            tree = libsbml.parseL3Formula(text)
            assert tree is not None, text
            rule.setMath(tree)
        return str(libsbml.writeSBMLToString(document))

    def parameters(self) -> list[Sequence[Any]]:
        head = ("parameterId", "parameterScale", "lowerBound", "upperBound", "nominalValue", "estimate")
        head += ("objectivePriorType", "objectivePriorParameters")
        rows: list[Sequence[Any]] = [head]
        problem = self.problem
        bounds = np.asarray(problem.bounds, float)
        for i, (name, log, prior) in enumerate(zip(problem.names, problem.log, problem.priors, strict=True)):
            lower, upper = bounds[i]
            if log and lower == 0:
                lower = np.finfo(float).tiny
            kind, numbers, whole = _prior(name, prior)
            scale = "log" if log else "lin"
            if whole and not log:
                raise ArgumentError(
                    f"`{name}` must move by its logarithm to be written with its prior, but moves linearly."
                )
            limits = repr(float(lower)), repr(float(upper)), repr(float(self.nominal[i]))
            rows.append((self.free[name], scale, *limits, 1, kind, numbers))
        return rows

    def conditions(self) -> list[Sequence[Any]]:
        """Return the values that differ between experiments, or are a free parameter of another name."""
        problem, free = self.problem, set(self.problem.names)
        columns: dict[str, list[str]] = {}
        for path, first in self.base[0].items():
            index, constant = problem.table.get(path, (None, None))
            own = []
            for e, base in enumerate(self.base):
                i = -1 if index is None else int(index[e])
                value = base[path] if constant is None else float(np.asarray(constant)[e])
                own.append(self.free[problem.names[i]] if i >= 0 else repr(value))
            same = all(x == repr(first) for x in own)
            itself = path in free and all(x == self.ids[path] for x in own)
            if not same and not itself:
                columns[self.ids[path]] = own
        rows = [
            [f"experiment_{e + 1}", label, *(own[e] for own in columns.values())]
            for e, label in enumerate(problem.labels)
        ]
        return [["conditionId", "conditionName", *columns], *rows]

    def observables(self) -> list[Sequence[Any]]:
        rows: list[Sequence[Any]] = [
            (
                "observableId",
                "observableName",
                "observableFormula",
                "noiseFormula",
                "observableTransformation",
                "noiseDistribution",
            )
        ]
        for name in self.problem.data:
            if name not in self.measured:
                raise ArgumentError(f"The data `{name}` must be those of an output that is one number, but are not.")
            own = self.ids[f"observable_{name}"]
            kind, transform = WRITTEN[type(self.problem.base.noise[name])]
            scale = f"noiseParameter1_{own}" + (f" * noiseParameter2_{own}" if name in self.problem.errors else "")
            rows.append((own, name, self.printer.text(self.measured[name]), scale, transform, kind))
        return rows

    def measurements(self) -> list[Sequence[Any]]:
        problem = self.problem
        rows: list[Sequence[Any]] = [
            ("observableId", "simulationConditionId", "time", "measurement", "noiseParameters")
        ]
        times = np.asarray(problem.times, float)[:, 1:]
        for name, data in problem.data.items():
            path = f"noise.{name}.scale"
            index, constant = problem.table.get(path, (None, None))
            values = np.asarray(data, float)
            for e, row in np.argwhere(np.isfinite(values)):
                i = -1 if index is None else int(index[e])
                known = problem.base.noise[name].scale if constant is None else np.asarray(constant)[e]
                scale = self.free[problem.names[i]] if i >= 0 else repr(float(known))
                if name in problem.errors:
                    scale += f"; {float(problem.errors[name][e, row])!r}"
                where = self.ids[f"observable_{name}"], f"experiment_{e + 1}"
                rows.append((*where, repr(float(times[e, row])), repr(float(values[e, row])), scale))
        return rows


def _elements(path: str, shape: tuple[int, ...], node: Callable[[str], int]) -> np.ndarray:
    places = list(np.ndindex(shape))
    return np.array([node(".".join([path, *map(str, place)])) for place in places], int).reshape(shape)


def _unique(words: Mapping[str, str]) -> dict[str, str]:
    """Words of which no two are the same."""
    found: dict[str, str] = {}
    for key, word in words.items():
        while word in found.values() or word in ("time", "compartment_"):
            word += "_"
        found[key] = word
    return found


def _number(x: Any) -> float:
    return float(np.asarray(x))


def _prior(name: str, prior: object) -> tuple[str, str, bool]:
    """The type of a prior, its numbers, and whether it is on the scale of the parameter, which must then be logarithmic."""
    if prior is None:
        return "", "", False
    pair = lambda a, b: f"{float(a)!r}; {float(b)!r}"
    if isinstance(prior, dist.LogNormal):
        return "logNormal", pair(prior.loc, prior.scale), False
    if isinstance(prior, dist.LogUniform):
        return "parameterScaleUniform", pair(math.log(_number(prior.low)), math.log(_number(prior.high))), True
    if isinstance(prior, dist.Uniform):
        return "uniform", pair(prior.low, prior.high), False
    if isinstance(prior, dist.Normal):
        return "normal", pair(prior.loc, prior.scale), False
    if isinstance(prior, dist.Laplace):
        return "laplace", pair(prior.loc, prior.scale), False
    raise ArgumentError(f"The prior of `{name}` must be one that PEtab has, but it is {type(prior).__name__}.")
