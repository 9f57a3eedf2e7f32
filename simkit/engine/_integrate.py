"""The pure core of a simulation: traced, differentiated, batched; failures are values."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import (
    Event,
    Setup,
    StaticSystem,
    Status,
    StochasticSystem,
    System,
    SystemTerm,
    Trajectory,
    brownian_shape,
    by_member,
    check_derivative,
    guard,
    jump_times,
    stochastic_terms,
)
from ..reducers import Reducer
from ..solvers import Stepper
from ._adaptive import integrate_adaptive
from ._compilations import note_trace
from ._event import event_on_grid, integrate_to_event
from ._grid import fixed_grid
from ._mesh import alike_arrays
from ._reduce import cut_at, cut_between, reduce_rows, reduce_static
from ._step import Adaptive, Fixed


class Options(NamedTuple):
    """What a user may fix about the loops: lanes of an ensemble, bytes that the record of reverse mode may take."""

    lanes: int | None = None
    memory: int | None = None


class Method(eqx.Module):
    """How a system is integrated: the solver, the step rule and why they were taken."""

    solver: Stepper | None
    step: Adaptive | Fixed
    reason: str = eqx.field(static=True, default="given")


def integrate(
    setup: Setup, times: Array, method: Method, *, key: PRNGKeyArray | None = None, options: Options = Options()
) -> Trajectory:
    """The pure core of `simulate`: it marks failures, never raises them, and composes with every transformation."""
    return dispatch(setup.system, setup.y0, setup.inputs, times, method.solver, method.step, key, options)


def dispatch(
    system: System,
    y0: State,
    inputs: Inputs,
    times: Any,
    solver: Stepper | None,
    step: Adaptive | Fixed,
    key: PRNGKeyArray | None,
    options: Options = Options(),
    reduce: Mapping[str, Reducer] | None = None,
    event: Event | None = None,
) -> Trajectory:
    """Compile and run, once for all calls of one structure.

    It does what `equinox.filter_jit` does, arrays traced and everything else static, in a quarter of the time: on small
    systems the call would otherwise take as long as ten thousand steps.
    """
    frame, leaves = framed((system, y0, inputs, times, solver, step, key, reduce, event), options)
    return _compiled(frame, leaves)


_ARRAYS = (jax.Array, np.ndarray, np.generic)


class Frame(NamedTuple):
    """What of a call is no array: hashable, it selects the compiled function."""

    structure: Any
    held: tuple[tuple[int, type, Any], ...]
    options: Any

    def filled(self, leaves: list[Any]) -> Any:
        """The arguments of the call."""
        leaves = list(leaves)
        for i, _, leaf in self.held:
            leaves.insert(i, leaf)
        return jax.tree.unflatten(self.structure, leaves)


def framed(arguments: Any, options: Any) -> tuple[Frame, list[Any]]:
    """A call taken apart: what selects the compiled function, and its arrays."""
    leaves, structure = jax.tree.flatten(arguments)
    held = tuple((i, type(x), x) for i, x in enumerate(leaves) if not isinstance(x, _ARRAYS))
    for i, _, _ in reversed(held):
        del leaves[i]
    return Frame(structure, held, options), leaves


@functools.partial(jax.jit, static_argnums=0)
def _compiled(frame: Frame, leaves: list[Any]) -> Trajectory:
    system, y0, inputs, times, solver, step, key, reduce, event = frame.filled(leaves)
    noted = {"system": system, "y0": y0, "inputs": inputs, "times": times, "solver": solver, "step": step, "key": key}
    note_trace("simulate", noted | asked_beside(reduce, event))
    return trajectory_of(system, y0, inputs, times, solver, step, key, frame.options, reduce, event)


def asked_beside(reduce: Any, event: Any) -> dict[str, Any]:
    """What else a program depends on, if anything, by name."""
    return ({"reduce": reduce} if reduce else {}) | ({} if event is None else {"event": event})


def trajectory_of(
    system: Any,
    y0: State,
    inputs: Inputs,
    times: Array,
    solver: Any,
    step: Adaptive | Fixed,
    key: Any,
    options: Options,
    reduce: Mapping[str, Reducer] | None = None,
    event: Event | None = None,
) -> Trajectory:
    """The trajectory of one member, to be traced."""
    if reduce:
        return reduced_trajectory(system, y0, inputs, times, solver, step, key, options, reduce)
    if event is not None:
        return event_trajectory(system, y0, inputs, times, solver, step, key, options, event)
    system, y0, inputs = guard((system, y0, inputs))
    if isinstance(system, StaticSystem):
        zero = jnp.zeros((), int)
        ys = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (times.shape[0], *leaf.shape)), y0)
        return Trajectory(times, ys, zero + int(Status.OK), zero, zero, zero, "none")
    state = by_member(lambda system, y: system.encode(y), system, y0)
    check_derivative(system, state, times[0], inputs)
    if isinstance(step, Fixed):
        states, status, counts = _integrate_fixed(system, state, inputs, times, solver, step, key, options.memory)
        finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(states)]).all()
        status = jnp.where((status == Status.OK) & ~finite, int(Status.NON_FINITE), status)
    else:
        states, status, counts, _ = integrate_adaptive(
            system, state, inputs, times, solver, step, options.lanes, options.memory
        )
    accepted, rejected = counts
    evaluations = (accepted + rejected) * solver.evaluations
    name = type(solver).__name__
    ys = by_member(lambda system, states: jax.vmap(system.decode)(states), system, states)
    return Trajectory(times, ys, status, accepted, rejected, evaluations, name)


def _integrate_fixed(
    system: Any, state: Any, inputs: Any, times: Array, solver: Any, step: Fixed, key: Any, memory: Any
) -> Any:
    terms, jumps = _terms(system, state, inputs, times, solver, key), jump_times(inputs)
    states = fixed_grid(terms, solver, state, times, step.substeps, jumps, memory=memory)
    return states, jnp.asarray(int(Status.OK)), _fixed_counts(times, jumps, step)


def _fixed_counts(times: Array, jumps: Array | None, step: Fixed) -> tuple[Array, Array]:
    windows = times.shape[0] - 1 + (0 if jumps is None else jumps.shape[0])
    return jnp.asarray(windows * step.substeps), jnp.asarray(0)


def _terms(system: Any, state: Any, inputs: Any, times: Array, solver: Any, key: Any) -> Any:
    """What the solver steps, with its random path where the system is stochastic."""
    if isinstance(system, StochasticSystem):
        if key is None:
            raise ArgumentError(
                f"`{type(system).__name__}` is stochastic, so argument `key` must be a random key, such as `jax.random.key(0)`."
            )
        shape = brownian_shape(system, times[0], state, inputs)
        return stochastic_terms(system, inputs, diffrax.UnsafeBrownianPath(shape, key, solver.levy_area))
    return SystemTerm(system, inputs)


def reduced_trajectory(
    system: Any,
    y0: State,
    inputs: Inputs,
    times: Array,
    solver: Any,
    step: Adaptive | Fixed,
    key: Any,
    options: Options,
    reducers: Mapping[str, Reducer],
) -> Trajectory:
    """The trajectory of one member whose rows are reduced: it holds the start, the end and the results."""
    system, y0, inputs = guard((system, y0, inputs))
    ends = times[jnp.array([0, -1])]
    if isinstance(system, StaticSystem):
        zero = jnp.zeros((), int)
        results = reduce_static(system, y0, times, reducers)
        ys = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), y0)
        return Trajectory(ends, ys, zero + int(Status.OK), zero, zero, zero, "none", reduced=results)
    state = by_member(lambda system, y: system.encode(y), system, y0)
    check_derivative(system, state, times[0], inputs)
    system, state, inputs, times = alike_arrays((system, state, inputs, times))
    jumps, memory = jump_times(inputs), None if options.memory is None else options.memory // 2
    if isinstance(step, Fixed):
        terms = _terms(system, state, inputs, times, solver, key)
        inside = None if jumps is None else jnp.zeros(0, times.dtype)

        def solve(state: State, points: Array, length: Array) -> Any:
            states = fixed_grid(terms, solver, state, points, step.substeps, inside, memory=memory)
            return states, jnp.asarray(int(Status.OK)), (jnp.asarray(0), jnp.asarray(0)), length

        pieces = cut_at(times, jumps, state)
        found = reduce_rows(solve, system, state, pieces, reducers, memory=memory)
        accepted, rejected = _fixed_counts(times, jumps, step)
    else:

        def solve(state: State, points: Array, length: Array) -> Any:
            return integrate_adaptive(system, state, inputs, points, solver, step, options.lanes, memory, length)

        pieces = cut_between(times, jumps, state)
        limit = step.max_steps
        found = reduce_rows(solve, system, state, pieces, reducers, max_steps=limit, memory=memory)
        accepted, rejected = found.accepted, found.rejected
    last = jax.tree.map(lambda x: jnp.where(found.status == Status.OK, x, jnp.nan), system.decode(found.state))
    ys = jax.tree.map(lambda first, last: jnp.stack([first, last]), system.decode(state), last)
    evaluations, name = (accepted + rejected) * solver.evaluations, type(solver).__name__
    return Trajectory(ends, ys, found.status, accepted, rejected, evaluations, name, reduced=dict(found.totals))


def event_trajectory(
    system: Any,
    y0: State,
    inputs: Inputs,
    times: Array,
    solver: Any,
    step: Adaptive | Fixed,
    key: Any,
    options: Options,
    event: Event,
) -> Trajectory:
    """The trajectory of one member that ends at an event."""
    system, y0, inputs, event = guard((system, y0, inputs, event))
    state = by_member(lambda system, y: system.encode(y), system, y0)
    check_derivative(system, state, times[0], inputs)
    if isinstance(step, Fixed):
        states, status, counts = _integrate_fixed(system, state, inputs, times, solver, step, key, options.memory)
        states, time, final = event_on_grid(system, inputs, times, states, event)
        status, searched = jnp.where(jnp.isnan(time), int(Status.NON_FINITE), status), jnp.asarray(0)
    else:
        states, status, counts, searched, time, final = integrate_to_event(
            system, state, inputs, times, solver, step, event, options.lanes, options.memory
        )
    accepted, rejected = counts
    evaluations = (accepted + rejected + searched) * solver.evaluations
    decoded = lambda system, states, final: (jax.vmap(system.decode)(states), system.decode(final))
    (ys, final), name = by_member(decoded, system, states, final), type(solver).__name__
    trajectory = Trajectory(times, ys, status, accepted, rejected, evaluations, name)
    return dataclasses.replace(trajectory, event_time=time, event_state=final)
