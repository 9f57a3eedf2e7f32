"""The data of a problem, as files keep them and plots show them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp

from ..core import Setup, at_time, named_leaves, started
from ._measure import outputs_by_name
from ._problem import Problem


class Observed(NamedTuple):
    """Data by experiment.

    `times` has the shape (experiment, point), padded with the last time; `data` maps output name to values of that shape, NaN
    where missing; `errors` holds known relative sizes of the scatter, `units` units; `labels` names the experiments. `sets` maps
    outputs with censored data to the lower and the upper ends of what is known of each datum: the datum itself where it is exact.
    """

    labels: tuple[str, ...]
    times: Any
    data: Mapping[str, Any]
    errors: Mapping[str, Any]
    units: Mapping[str, str]
    sets: Mapping[str, tuple[Any, Any]] = MappingProxyType({})


def observed(problem: Problem) -> Observed:
    """The data of a problem with the units of its outputs."""
    rows = next(iter(problem.data.values())).shape[1]
    sets = {name: limits.ends(problem.data[name]) for name, limits in problem.dataset.limits.items()}
    return Observed(problem.labels, problem.times[:, -rows:], problem.data, problem.errors, output_units(problem), sets)


def output_units(problem: Problem) -> dict[str, str]:
    """Output name -> unit, "1" where none is declared, as for observables; outputs in a dictionary have those of the state."""
    setup = problem.setup(jnp.ones((problem.size,), problem.bounds.dtype))
    start = problem.times[0, 0]
    outputs = setup.system.outputs(start, started(setup.y0), at_time(setup.inputs, start))
    held = named_leaves(outputs)
    states = named_leaves(setup.y0) if isinstance(outputs, dict) else {}

    def unit(name: str) -> str:
        if name not in held or name not in outputs_by_name(outputs):
            return "1"
        return Setup(setup.y0 if name in states else outputs).metadata(name).unit

    return {name: unit(name) for name in problem.data}
