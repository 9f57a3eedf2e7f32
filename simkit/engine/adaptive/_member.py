"""One member of an ensemble as programs on arrays: traced once, whatever its derivatives and however many there are."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, PyTree

from ..._types import Inputs, State, Time
from ...core import BrownianTree, ConstrainedSystem, NamedEvents, SystemTerm, at_time, jump_times, stop_times
from ...linear import calls_library
from ...solvers import Memory, Step, Stepper, consistent, slope_of
from ..task._flat import Flattening
from ._happening import EventFunctions, Happenings, trace_happenings
from ._program import Ledger, Program, inexact

LINKED = 64, 16384
"""Fewest and most numbers of a state whose steps are linked by their memory."""
STARTING_ORDER = 2
"""Power of its length to which the error of the first step of a method of several steps grows: it has order 1."""


@dataclasses.dataclass(frozen=True, eq=False)
class Member:
    """Programs of a system and a stepper on flat arrays; compared by identity.

    `ops` are the numbers that derivatives are taken by, the initial state first; `fixed` are all others.
    """

    field: Program  # t, y -> dy/dt
    start: Program  # t, y -> what the stepper remembers
    step: Program  # t, t1, y, memory -> y1, memory, dense output, error estimate, growth of the next step
    polynomial: Program  # dense output -> increments q: y(theta) = y + sum_j theta**(j + 1) q[j]
    jumps: Program  # -> the times at which inputs jump
    stops: Program  # -> those and the times of kinks, at which steps end
    jump_count: int
    stop_count: int
    order: int
    ops: tuple[jax.ShapeDtypeStruct, ...]  # of one member
    fixed: tuple[jax.ShapeDtypeStruct, ...]
    memory: Any  # shapes
    dense: Any
    time: Any  # type of times
    noisy: bool = False  # whether steps read a Brownian path
    happenings: Happenings | None = None  # of its events
    longest: Program | None = None  # t, y -> the step of Courant number 1, where that rules
    resumed: Program | None = None  # t, y -> the state on which a constrained member goes on where an input has jumped
    again: Program | None = None  # t, t1, y, past, y1 -> y1, past, dense output: of a method of several steps

    @property
    def calls_library(self) -> bool:
        """Tell whether the vector field calls LAPACK."""
        return calls_library(self.field.jaxpr.jaxpr)

    @property
    def multistep(self) -> bool:
        """Tell whether a step depends on earlier ones, so that its first state alone does not determine it."""
        return self.again is not None

    def linked(self, lanes: int) -> bool:
        """Tell whether cotangents of a one-step method pass from step to step through its memory too, such as its first slope.

        Otherwise the memory is made again from the state, which is one evaluation of the field a step more. One lane of a state
        that is neither small, so that steps are kernels, nor so large that the record would hold fewer steps.
        """
        memory = jax.tree.leaves(self.memory)
        plain = not self.multistep and self.happenings is None and self.stop_count == 0
        sized = LINKED[0] <= math.prod(self.ops[0].shape) <= LINKED[1]
        return lanes == 1 and plain and sized and bool(memory) and all(map(inexact, memory))

    def kept_numbers(self) -> int:
        """Return how many numbers outlive a rejected attempt."""
        return sum(math.prod(x.shape) for x in jax.tree.leaves(self.memory.kept)) if self.multistep else 0


class _Parts:
    """System, inputs, solver and events taken apart: numbers that derivatives are taken by, other numbers, and the rest."""

    def __init__(self, whole: PyTree) -> None:
        self.leaves, self.structure = jax.tree.flatten(whole)
        kind = lambda x: "static" if not hasattr(x, "dtype") else "ops" if inexact(x) else "fixed"
        self.kinds = [kind(x) for x in self.leaves]

    def of(self, kind: str) -> list[Any]:
        """The leaves of one kind."""
        return [x for x, k in zip(self.leaves, self.kinds, strict=True) if k == kind]

    def filled(self, ops: Sequence[Any], fixed: Sequence[Any]) -> Any:
        """The whole, with numbers from the operands of a member, of which the first is its state."""
        held = {"ops": iter(ops[1:]), "fixed": iter(fixed)}
        values = [x if kind == "static" else next(held[kind]) for x, kind in zip(self.leaves, self.kinds, strict=True)]
        return jax.tree.unflatten(self.structure, values)

    def rebuilt(self, ops: Sequence[Any], fixed: Sequence[Any]) -> tuple[SystemTerm, Stepper]:
        """The term and the solver."""
        system, inputs, solver, _, path = self.filled(ops, fixed)
        return SystemTerm(system, inputs, path, apart=True), solver


def trace_member(
    system: Any,
    state: PyTree,
    inputs: Inputs,
    solver: Stepper,
    t: Array,
    events: NamedEvents | None = None,
    bounded: bool = False,
    between: bool = False,
    path: BrownianTree | None = None,
) -> tuple[Member, list[Any], list[Any], Flattening]:
    """The member's programs, its operands (the flat state first), its other numbers, and the way between states and flat ones.

    With `between` the error of a step includes that of its dense output. Steps that read a `path` end at its save times, since
    between the ends of a step nothing is known of it.
    """
    way, parts = Flattening(system, state), _Parts((system, inputs, solver, events, path))
    flat, ravel, unravel = way.flat(state), way.flat, way.state
    ledger = Ledger([flat, *parts.of("ops")], parts.of("fixed"))
    filled, rebuilt = parts.filled, parts.rebuilt

    def field(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Any:
        return ravel(slope_of(rebuilt(ops, fixed)[0], t, unravel(y)))

    def begin(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Any:
        term, solver = rebuilt(ops, fixed)
        return solver.init(term, t, unravel(y))

    def advance(ops: PyTree, fixed: PyTree, t: Time, t1: Time, y: State, memory: PyTree) -> Any:
        term, solver = rebuilt(ops, fixed)
        found = solver.advance(term, t, t1, t1 - t, unravel(y), memory)
        return ravel(found.state), found.memory, found.dense, _error(found, between, ravel), found.growth

    def retake(ops: PyTree, fixed: PyTree, t: Time, t1: Time, y: State, past: PyTree, solved: Array) -> Any:
        term, solver = rebuilt(ops, fixed)
        found = solver.advance(term, t, t1, t1 - t, unravel(y), Memory(past, solved=solved))
        return ravel(found.state), found.memory.past, found.dense

    def polynomial(ops: PyTree, fixed: PyTree, dense: PyTree) -> Any:
        return tuple(ravel(q) for q in solver.polynomial(dense))

    def times_of(find: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda ops, fixed: _times(find(rebuilt(ops, fixed)[0]), t.dtype)

    def of_events(ops: PyTree, fixed: PyTree) -> Any:
        system, inputs, _, events, _ = filled(ops, fixed)
        return system, inputs, events

    def longest(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Any:
        system, inputs, *_ = filled(ops, fixed)
        return system.longest_step(t, unravel(y), at_time(inputs, t))

    def resume(ops: PyTree, fixed: PyTree, t: Time, y: State) -> Any:
        return ravel(consistent(rebuilt(ops, fixed)[0], t, unravel(y))[0])

    start = Program(begin, (t, flat), ledger)
    memory, again = jax.tree.unflatten(start.out, start.shapes), None
    if solver.multistep:
        again = Program(retake, (t, t, flat, memory.past, flat), ledger)
        memory = memory._replace(tolerances=(t, jnp.broadcast_to(t, flat.shape)))
    step = Program(advance, (t, t, flat, memory), ledger)
    dense = jax.tree.unflatten(step.out, step.shapes)[2]
    jump = Program(times_of(lambda term: jump_times(term.inputs)), (), ledger)
    stop = Program(times_of(_stops), (), ledger)
    increments = Program(polynomial, (dense,), ledger)
    slope = Program(field, (t, flat), ledger)
    bound = Program(longest, (t, flat), ledger) if bounded else None
    algebraic = isinstance(system, ConstrainedSystem)
    resumed = Program(resume, (t, flat), ledger) if algebraic and bool(jump.shapes[0].shape[0]) else None
    happenings = None
    if events is not None:
        functions = EventFunctions(events, of_events, field, resume if algebraic else None, way, t.dtype)
        happenings = trace_happenings(functions, flat, t, ledger)
    member = Member(
        field=slope,
        start=start,
        step=step,
        polynomial=increments,
        jumps=jump,
        stops=stop,
        ops=tuple(map(_shape, ledger.ops)),
        fixed=tuple(map(_shape, ledger.fixed)),
        memory=memory,
        dense=dense,
        time=t.dtype,
        jump_count=jump.shapes[0].shape[0],
        stop_count=stop.shapes[0].shape[0],
        noisy=path is not None,
        happenings=happenings,
        longest=bound,
        resumed=resumed,
        again=again,
        order=STARTING_ORDER if solver.multistep else solver.order,
    )
    return member, ledger.ops, ledger.fixed, way


def _shape(x: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _times(found: Array | None, dtype: DTypeLike) -> Array:
    return jnp.zeros(0, dtype) if found is None else found.astype(dtype)


def _stops(term: SystemTerm) -> Array | None:
    """The times at which steps end: those of the inputs, and save times where a Brownian path is read."""
    found = stop_times(term.inputs)
    if term.path is None:
        return found
    inside = term.path.times[1:-1]
    return inside if found is None else jnp.concatenate([found.astype(inside.dtype), inside])


def _error(step: Step, between: bool, ravel: Callable[[Any], Array]) -> Array:
    """The error estimate of a step, with `between` in each state the larger one of its end and of its dense output."""
    error = ravel(step.error)
    if not between or step.between is None:
        return error
    missed = ravel(step.between)
    return jnp.where(jnp.abs(missed) > jnp.abs(error), missed, error)
