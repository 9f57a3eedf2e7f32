"""Simulations and problems as components: schemas of their inputs and outputs beside their endpoints."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from .._doors import check_kind, shown
from .._errors import ArgumentError, SimkitError, check_known
from .._types import Inputs, State
from ..core import Metadata, Setup, System, as_float_array, check_system, dotted, named_leaves, started
from ..engine import Adaptive, Checkpointed, Courant, Fixed, simulate
from ..fitting import some_start
from ..problem import Problem
from ._endpoints import Endpoints, endpoints
from ._schema import field, nested, schema

Arrays = Mapping[str, Array]


class Component(NamedTuple):
    """A simulation or a problem with one interface of values and derivatives.

    - `endpoints`: its functions, which take nested dictionaries, or models of `schemas`.
    - `inputs`: dotted name -> default, or a shape and a type where there is none; `words`: their descriptions.
    - `outputs`: dotted name -> shape and type.
    """

    endpoints: Endpoints
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    words: Mapping[str, str]

    def defaults(self) -> dict[str, Any]:
        """Inputs for `endpoints`: nested dictionaries of all that have a default.

        Those without one are to be added: `endpoints` names what is missing.
        """
        return nested({name: value for name, value in self.inputs.items() if isinstance(value, np.ndarray)})

    def schemas(self) -> tuple[Any, Any]:
        """The models of pydantic `InputSchema` and `OutputSchema`, whose arrays are differentiable.

        **Raises:** a `MissingPackageError` where tesseract-core is not installed.
        """
        inputs = schema("InputSchema", "Inputs of a component of simkit.", self.inputs, self.words)
        return inputs, schema("OutputSchema", "Outputs of a component of simkit.", self.outputs, {})


def from_system(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    names: Sequence[str] | None = None,
    observables: Mapping[str, Callable[..., Array]] | None = None,
    solver: Any = None,
    step: float | Adaptive | Courant | Fixed | None = None,
    inputs: Inputs = None,
    gradient: Checkpointed | None = None,
) -> Component:
    """Make a component of a simulation.

    Its inputs are the numbers of the system, of its initial state and of its inputs, by their paths (`growth`, `y0.hare`), each
    with the value given here as its default. Its outputs are the saved states by their paths, shape `(times, ...)`. A position n
    in a path is called `item_n`.

    **Arguments:**

    - `system`, `y0`, `times`, `solver`, `step`, `inputs`, `gradient`: as in `simulate`.
    - `names`: the paths that become inputs; by default all of them.
    - `observables`: name -> a pure function of (system, trajectory); these are then the outputs, in place of the states.

    **Raises:** an `UnknownNameError` with close matches, and what `simulate` raises where a simulation cannot be made. One that
    fails later gives NaN.

    ```python
    from simkit import odes, tesseract

    system, y0, times, _ = odes.LotkaVolterra.example()
    component = tesseract.from_system(system, y0, times, names=["growth", "y0.hare"])
    ```
    """
    check_system(system)
    setup, times = Setup(system, started(y0), inputs), as_float_array(times)
    chosen = setup.names() if names is None else tuple(names)
    known = {name: (setup.get(name), setup.metadata(name)) for name in chosen}

    def run(given: Arrays) -> Arrays:
        at = setup.put(given)
        how = {"solver": solver, "step": step, "inputs": at.inputs, "gradient": gradient}
        found = simulate(at.system, at.y0, times, on_failure="mark", **how)
        if observables is None:
            return named_leaves(found.ys)
        return {name: jnp.asarray(f(at.system, found)) for name, f in observables.items()}

    return _component(run, known)


def from_problem(problem: Problem) -> Component:
    """Make a component of a problem.

    Its inputs are the free parameters in natural units, by their names; their defaults are where a fit begins, `Free.start`
    or else a draw of the prior. Its outputs are the predictions at the times of the data, by the names of outputs and with the axis
    of experiments first, and the numbers `log_likelihood`, `log_prior` and `log_posterior`.

    **Raises:** an `ArgumentError` where an output of the problem has one of these names.
    """
    check_kind("problem", problem, Problem, "a problem", "Make one: `simkit.Problem(system, experiments, free=...)`.")
    unknowns = problem.unknowns
    densities = ("log_likelihood", "log_prior", "log_posterior")

    def run(given: Arrays) -> Arrays:
        theta = jnp.concatenate([jnp.ravel(given[block.name]) for block in unknowns.blocks])
        found = problem.predict(theta)
        if taken := [name for name in densities if name in found]:
            raise ArgumentError(f"An output of a component must not be called `{taken[0]}`, but one of the problem is.")
        likelihood, prior = problem.log_likelihood(theta)[0], problem.log_prior(theta)
        return found | dict(zip(densities, (likelihood, prior, likelihood + prior), strict=True))

    starts = _starts(problem)
    known = {block.name: (starts[block.span].reshape(block.shape), Metadata()) for block in unknowns.blocks}
    return _component(run, known)


def _starts(problem: Problem) -> Array:
    """The free parameters where a fit begins, natural units; NaN for those that can be neither given nor drawn."""
    given = problem.unknowns.starts
    if np.isfinite(np.asarray(given)).all():
        return given
    try:
        drawn = problem.natural(some_start(problem))
    except SimkitError:  # neither a prior nor bounds
        return given
    return jnp.where(jnp.isfinite(given), given, drawn)


def _component(run: Callable[[Arrays], Arrays], known: Mapping[str, tuple[Array, Metadata]]) -> Component:
    values = {name: np.asarray(value) for name, (value, _) in known.items()}
    shaped = {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in values.items()}
    inputs = {name: value if np.isfinite(value).all() else shaped[name] for name, value in values.items()}
    words = {name: _described(metadata) for name, (_, metadata) in known.items()}
    outputs = dict(jax.eval_shape(run, shaped))
    shapes = tuple((name, shape.shape) for name, shape in shaped.items())
    return Component(endpoints(functools.partial(_by_names, run, shapes)), inputs, outputs, words)


def _by_names(
    run: Callable[[Arrays], Arrays], shapes: tuple[tuple[str, tuple[int, ...]], ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    known = {".".join(map(field, name.split("."))): name for name, _ in shapes}
    leaves = dotted(given)
    for name in leaves:
        check_known(name, known, "input of this component")
    values = {}
    for name, path in known.items():
        if name not in leaves:
            raise ArgumentError(
                f"The inputs must hold all of {', '.join(f'`{one}`' for one in known)}, but `{name}` is missing. Add its value."
            )
        values[path] = leaves[name]
    for name, shape in shapes:
        values[name] = _checked(name, values[name], shape)
    return nested(run(values))


def _checked(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """Return an input as an array of its shape."""
    try:
        array = as_float_array(value)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"The input `{name}` must be a number or an array of them, but it is {shown(value)}."
        ) from None
    if array.shape != shape:
        raise ArgumentError(f"The input `{name}` must have the shape {shape}, but it has {array.shape}.")
    return array


def _described(metadata: Metadata) -> str:
    return metadata.doc if metadata.unit == "1" else f"{metadata.doc} ({metadata.unit})".strip()
