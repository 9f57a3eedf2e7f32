"""Small numbers of the states of a part: probes at all times, and totals of reducers."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import Inputs, State
from ..core import System, at_time, named_leaves
from ..engine import first_totals, next_totals
from ..reducers import Reducer
from ..stores import check_names

Probe = str | Callable[..., Any]


class Measured(NamedTuple):
    """Numbers of a part.

    - `probes`: name -> values with a leading axis of times; those at the first time belong to the part before.
    - `totals`: the totals of the reducers after the last time, by name.
    - `reduced`: what they would give if the run ended here, by name.
    """

    probes: dict[str, Any]
    totals: dict[str, Any]
    reduced: dict[str, Any]


def as_probes(probes: Any) -> dict[str, Probe]:
    """Probes by name; a list of names are outputs.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(probes, list | tuple) and all(isinstance(name, str) for name in probes):
        probes = {name: name for name in probes}
    if probes is None:
        return {}
    fine = isinstance(probes, Mapping) and all(
        isinstance(name, str) and (isinstance(probe, str) or callable(probe)) for name, probe in probes.items()
    )
    if not fine:
        raise ArgumentError(
            'Argument `probes` must be names of outputs, such as `["pressure"]`, or functions by name, such as '
            f'`{{"highest": lambda system, t, y: y.height.max()}}`, but it is {shown(probes)}.'
        )
    named: Any = probes
    for name, probe in named.items():
        if not isinstance(probe, str) and not _takes_three(probe):
            raise ArgumentError(
                f"Probe `{name}` must be a function (system, t, y), such as `lambda system, t, y: y.height.max()`, but it takes "
                "other arguments."
            )
    return dict(named)


def _takes_three(probe: Callable[..., Any]) -> bool:
    try:
        inspect.signature(probe).bind(None, None, None)
    except ValueError:  # of a function of C nothing is known
        return True
    except TypeError:
        return False
    return True


@eqx.filter_jit
def measure(
    system: System,
    times: Array,
    states: State,
    inputs: Inputs,
    probes: Mapping[str, Probe],
    reducers: Mapping[str, Reducer],
    totals: Mapping[str, Any] | None,
) -> Measured:
    """The numbers of one part; `totals` are those at its first time, None at the start of the run."""
    rows: Any = (times, states)
    # Reducers are given the states of the solver.
    each: Any = (times, jax.vmap(system.encode)(states))
    begun: Any = totals
    if begun is None:
        first: Any = jax.tree.map(lambda x: x[0], each)
        begun = first_totals(system, first[0], first[1], reducers)
    later: Any = jax.tree.map(lambda x: x[1:], each)
    ended, _ = jax.lax.scan(lambda held, row: (next_totals(system, row[0], row[1], reducers, held), None), begun, later)
    values = jax.lax.map(lambda row: _probed(system, row[0], row[1], inputs, probes), rows)
    return Measured(values, ended, _ended(ended, reducers))


def forms(
    system: System, t: Any, y0: Any, inputs: Inputs, probes: Mapping[str, Probe], reducers: Mapping[str, Reducer]
) -> tuple[Any, Any]:
    """The shapes of the totals of reducers and of their results.

    **Raises:** an `UnknownNameError` for probes of outputs that the system does not have.
    """
    probed = jax.eval_shape(lambda t, y: _probed(system, t, y, inputs, probes), t, y0)
    totals = jax.eval_shape(lambda t, y: first_totals(system, t, system.encode(y), reducers), t, y0)
    ended = jax.eval_shape(lambda totals: _ended(totals, reducers), totals)
    check_names({"frames": y0, "probes": probed, "totals": totals, "reduced": ended})
    return totals, ended


def _probed(system: System, t: Any, y: Any, inputs: Inputs, probes: Mapping[str, Probe]) -> dict[str, Any]:
    outputs: dict[str, Any] = {}
    if any(isinstance(probe, str) for probe in probes.values()):
        outputs = named_leaves(system.outputs(t, y, at_time(inputs, t)))

    def value(probe: Probe) -> Any:
        if not isinstance(probe, str):
            return probe(system, t, y)
        check_known(probe, outputs, f"output of `{type(system).__name__}`")
        return outputs[probe]

    found = {name: value(probe) for name, probe in probes.items()}
    for name, got in found.items():
        leaves = jax.tree.leaves(got)
        if not leaves or not all(eqx.is_array_like(leaf) for leaf in leaves):
            raise ArgumentError(f"Probe `{name}` must return numbers, but it returns {shown(got)}.")
    return found


def _ended(totals: Mapping[str, Any], reducers: Mapping[str, Reducer]) -> dict[str, Any]:
    return {name: jax.tree.map(jnp.asarray, reducer.finish(totals[name])) for name, reducer in reducers.items()}
