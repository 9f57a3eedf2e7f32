"""The discrete flow of many members at once: what an attempted step does, and its tangents of any order.

Members stand on the last axis of every array: lanes, a structure of arrays, although systems and steppers are written for one.
`lane_flow` makes the flow of a member, `lifted` that of its tangents, whose state is the pair of a state and T tangents. Step
ends and errors are those of the state and are held in every derivative.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..._types import State, Time
from ...core import just_after, just_before, scaled
from ...solvers import Memory
from ..kernels._components import MOST_COMPONENTS, MOST_IN_KERNEL, MOST_OPERATIONS, apart_of, evaluated, operations
from ..kernels._mode import NotInKernel
from ..kernels._objects import apart, apart_lanes, boxed, unboxed
from ..kernels._strict import STRICT
from ._leap import LaneEvents, lane_events
from ._member import Member
from ._midpoint import midpoint

SAFETY = 0.9
"""Safety factor: share of the longest acceptable step that is tried."""

SHORT = 1e-6
"""The first step where states and slopes say nothing about its length, as a share of the span."""

Operands = Any
"""A list of arrays that derivatives are taken by, or a pair: operands, and tangents of some of their leaves."""


class Carried(NamedTuple):
    """Memory of lanes. Methods of one step have no more than the first part.

    `moving`, what derivatives pass through; `fresh`, whether a start made it rather than a step; `kept`, what outlives a rejected
    attempt and has no derivatives: lanes last, but without an axis for them where there is only one.
    """

    moving: Any
    fresh: Any = None
    kept: Any = None


class Flow(NamedTuple):
    """Functions on lanes; `y` and `dense` are trees of the flow's own making, `memory` is a `Carried`."""

    begin: Callable[[Operands], Any]  # -> y
    start: Callable[[Operands, Any, Any, Any], Any]  # ops, fixed, t, y -> memory
    first: Callable[..., Array]  # ops, fixed, t, end, y -> length of the first step
    stop: Callable[..., Array]  # ops, fixed, t, end -> where a step has to end: the next jump or the end
    step: Callable[..., Any]  # ops, fixed, t, t1, y, memory -> y1, memory, dense, squared error, growth or None
    polynomial: Callable[..., Any]  # ops, fixed, dense -> tuple of increments, trees like y
    pack: Callable[[Any], list[Any]]  # y -> arrays, components before lanes
    unpack: Callable[[Sequence[Any]], Any]
    apart: Callable[[Array], Array]  # an array, computed once whatever reads it
    jumps: bool
    order: int
    events: LaneEvents | None = None  # of states without tangents
    leap: Callable[..., Any] = lambda ops, fixed, t, y, *_: y  # ops, fixed, t, y, path, numbers -> y after its events
    height: int = 0  # orders of tangents
    root: Any = None  # the flow without tangents, where it is another one
    again: Callable[..., Any] | None = (
        None  # ops, fixed, t, t1, y, moving, fresh, y1 -> y1, moving, dense: a step of a method of several steps, known y1
    )

    linked: bool = False  # whether cotangents pass through the memory of a one-step method

    @property
    def multistep(self) -> bool:
        """Tell whether a step depends on earlier ones."""
        return self.again is not None

    def rooted(self, tree: PyTree) -> Any:
        """Operands, states or memories without their tangents."""
        for _ in range(self.height):
            tree = tree[0]
        return tree


def lane_flow(
    member: Member,
    shared: Sequence[bool],
    fixed_shared: Sequence[bool],
    lanes: int,
    exact: bool,
    zero: Array,
    strict: bool = False,
) -> Flow:
    """The flow of a member over lanes.

    **Arguments:**

    - `shared`, `fixed_shared`: which operands all members have in common; those have no lane axis.
    - `lanes`: how many; one lane is computed without an axis for it.
    - `exact`: whether derivatives by the times of jumps are wanted, which cost four evaluations a step.
    - `zero`: a zero that varies over a mesh as the operands do, for programs that are traced with numbers of their kind.
    - `strict`: whether it is one for a kernel, of components alone; its operands are taken apart already.

    **Raises:** with `strict` a `NotInKernel` where the member is too large for it.
    """
    jumping = member.stop_count > 0
    t, y = jax.ShapeDtypeStruct((), member.time), member.ops[0]
    each = t if member.longest is not None else jax.ShapeDtypeStruct(y.shape, member.time)
    numerics = [t, t, t, each]  # most steps, length of the first one, relative and absolute tolerance
    fixed = [*member.fixed, *numerics]
    memory, exact, exact_events = Carried(member.memory), exact and member.jump_count > 0, exact
    functions = {
        "start": (functools.partial(_start, member), (t, y)),
        "first": (functools.partial(first_step, member), (t, t, y)),
        "step": (functools.partial(_step, member, exact), (t, t, y, memory)),
        "polynomial": (member.polynomial, (member.dense,)),
    }
    if jumping:
        functions["stop"] = functools.partial(_stop, member), (t, t)
    if member.happenings is not None and member.happenings.found:
        functions["marks"] = member.happenings.marks, (t, y)
    if member.multistep:
        functions["again"] = functools.partial(_again, member, exact), ()
    # The equations of a method of several steps are solved in loops, which components do not pass; nor do Brownian trees.
    loops = member.multistep or member.noisy
    wanted = strict or ((lanes > 1 or SCALARS) and not loops)
    traced: dict[str, _Traced] = {}
    keyed = any(jnp.issubdtype(x.dtype, jax.dtypes.extended) for x in (*member.ops, *member.fixed))
    small = wanted and y.size <= MOST_COMPONENTS and not (keyed or member.noisy)
    if small:
        like = lambda x: jnp.zeros(x.shape, x.dtype) + zero.astype(x.dtype)
        examples = {name: jax.tree.map(like, (list(member.ops), fixed, *rest)) for name, (_, rest) in functions.items()}
        traced = {name: _Traced(f, examples[name]) for name, (f, _) in functions.items()}
        size = sum(operations(program.jaxpr.jaxpr, strict) for program in traced.values())
        small = size <= (MOST_IN_KERNEL if strict else MOST_OPERATIONS)
    if strict and not small:
        raise NotInKernel("a member too large for components")
    if small:
        over = functools.partial(_on_components, shared=shared, fixed_shared=fixed_shared, lanes=lanes, strict=strict)
        call = {name: over(program) for name, program in traced.items()}
    else:
        call = {name: _on_arrays(f, shared, fixed_shared, lanes) for name, (f, _) in functions.items()}
    split = (lambda x: [x[i] for i in range(y.size)]) if small else lambda x: x
    flow = Flow(
        begin=lambda ops: list(ops[0]) if strict else split(ops[0]),
        start=call["start"],
        first=call["first"],
        stop=call["stop"] if jumping else lambda ops, fixed, t, end: end,
        step=call["step"],
        polynomial=call["polynomial"],
        pack=(lambda y: [boxed(y, (len(y),))]) if strict else (lambda y: [jnp.stack(y)]) if small else lambda y: [y],
        unpack=lambda leaves: split(leaves[0]),
        apart=(lambda x: x) if strict else lambda x: apart_of([x])[0],
        jumps=jumping,
        order=member.order,
        again=call.get("again"),
    )
    if member.happenings is None:
        return flow
    on_arrays = lambda f: _on_arrays(f, shared, fixed_shared, lanes)
    happenings, leap = lane_events(
        member, call.get("marks"), on_arrays, jnp.stack if small else lambda x: x, split, exact_events
    )
    return flow._replace(events=happenings, leap=leap)


SCALARS = jax.__version_info__ >= (0, 11)
"""Flag: split single lanes into components as well. Older XLA for CPUs takes so long to start an operation that fewer ones win."""


class _Traced:
    """A function of one member as a program."""

    def __init__(self, function: Callable[..., Any], example: PyTree):
        self.jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*example)
        self.arguments = jax.tree.structure(example[2:])
        self.out = jax.tree.structure(shapes)


def _on_components(
    program: _Traced, shared: Sequence[bool], fixed_shared: Sequence[bool], lanes: int, strict: bool = False
) -> Callable[..., Any]:
    """A program over lanes, arrays apart from scalars being lists of components."""
    avals = [v.aval for v in program.jaxpr.jaxpr.invars]
    results = [v.aval for v in program.jaxpr.jaxpr.outvars]

    def call(ops: PyTree, fixed: PyTree, *arguments: PyTree) -> Any:
        held = [(x, s) for xs, ss in ((ops, shared), (fixed, fixed_shared)) for x, s in zip(xs, ss, strict=True)]
        values = [apart(x) if s else apart_lanes(x) for x, s in held]
        given = program.arguments.flatten_up_to(arguments)
        values += [boxed(x, aval.shape) for x, aval in zip(given, avals[len(values) :], strict=True)]
        found = evaluated(program.jaxpr.jaxpr, program.jaxpr.consts, values, STRICT if strict else None)
        return program.out.unflatten([unboxed(x, lanes, aval) for x, aval in zip(found, results, strict=True)])

    return call


def _on_arrays(
    function: Callable[..., Any], shared: Sequence[bool], fixed_shared: Sequence[bool], lanes: int
) -> Callable[..., Any]:
    """A function over lanes on the last axis; one lane is computed without an axis for it."""
    ops_axes = [None if s else -1 for s in shared]
    fixed_axes = [None if s else -1 for s in fixed_shared]

    def call(ops: PyTree, fixed: PyTree, *arguments: PyTree) -> Any:
        if lanes > 1:
            axes = (ops_axes, fixed_axes, *(-1 for _ in arguments))
            return jax.vmap(function, in_axes=axes, out_axes=-1)(ops, fixed, *arguments)
        ops = [x if s else x[..., 0] for x, s in zip(ops, shared, strict=True)]
        fixed = [x if s else x[..., 0] for x, s in zip(fixed, fixed_shared, strict=True)]
        arguments = _but_kept(lambda x: x[..., 0], arguments)
        return _but_kept(lambda x: jnp.expand_dims(x, -1), function(ops, fixed, *arguments))

    return call


def _but_kept(function: Callable[[Array], Array], tree: PyTree) -> Any:
    """A function of all arrays but what is kept: with an axis for one lane there XLA would copy large factors in every step."""
    memory = lambda x: isinstance(x, Carried)

    def mapped(x: Any) -> Any:
        if memory(x):
            return jax.tree.map(function, x._replace(kept=None))._replace(kept=x.kept)
        return function(x)

    return jax.tree.map(mapped, tree, is_leaf=memory)


def _moving(ops: Operands, active: Sequence[int]) -> tuple[list[Array], list[Array], Callable[..., Operands]]:
    """The leaves of operands with tangents, those tangents, and the way from such leaves to all operands."""
    base, dots = ops
    leaves, structure = jax.tree.flatten(base)

    def filled(moving: Sequence[Array]) -> Operands:
        merged = list(leaves)
        for i, value in zip(active, moving, strict=True):
            merged[i] = value
        return jax.tree.unflatten(structure, merged)

    return [leaves[i] for i in active], dots, filled


def lifted(flow: Flow, active: Sequence[int]) -> Flow:
    """The flow of states and tangents. Its operands are pairs: those of `flow`, and tangents of their leaves `active`."""

    def pushed(function: Callable[..., Any], primals: PyTree, tangents: PyTree, aux: bool = False) -> Any:
        push = lambda *dots: jax.jvp(function, primals, dots, has_aux=aux)
        return jax.vmap(push, out_axes=(None, 0, None) if aux else (None, 0))(*tangents)

    def begin(ops: Operands) -> Any:
        moving, dots, filled = _moving(ops, active)
        return pushed(lambda moving: flow.begin(filled(moving)), (moving,), (dots,))

    def start(ops: Operands, fixed: PyTree, t: Time, y: State) -> Any:
        moving, dots, filled = _moving(ops, active)

        def begin(moving: PyTree, y: State) -> Any:
            memory = flow.start(filled(moving), fixed, t, y)
            return memory.moving, memory._replace(moving=None)

        value, tangent, held = pushed(begin, (moving, y[0]), (dots, y[1]), aux=True)
        return held._replace(moving=(value, tangent))

    def step(ops: Operands, fixed: PyTree, t: Time, t1: Time, y: State, memory: PyTree) -> Any:
        moving, dots, filled = _moving(ops, active)

        def advance(moving: PyTree, y: State, past: PyTree) -> Any:
            y1, after, dense, error, growth = flow.step(filled(moving), fixed, t, t1, y, memory._replace(moving=past))
            return (y1, after.moving, dense), (after._replace(moving=None), error, growth)

        primals, tangents = (moving, y[0], memory.moving[0]), (dots, y[1], memory.moving[1])
        value, tangent, (held, error, growth) = pushed(advance, primals, tangents, aux=True)
        y1, past, dense = zip(value, tangent, strict=True)
        return y1, held._replace(moving=past), dense, error, growth

    def again(
        ops: Operands, fixed: PyTree, t: Time, t1: Time, y: State, past: PyTree, fresh: Array, solved: PyTree
    ) -> Any:
        assert flow.again is not None
        retake = flow.again
        moving, dots, filled = _moving(ops, active)
        advance = lambda moving, y, past: retake(filled(moving), fixed, t, t1, y, past, fresh, solved[0])
        value, tangent = pushed(advance, (moving, y[0], past[0]), (dots, y[1], past[1]))
        return tuple(zip(value, tangent, strict=True))

    def leap(ops: Operands, fixed: PyTree, t: Time, y: State, path: Array, numbers: Array) -> Any:
        moving, dots, filled = _moving(ops, active)
        jump = lambda moving, y: flow.leap(filled(moving), fixed, t, y, path, numbers)
        return pushed(jump, (moving, y[0]), (dots, y[1]))

    def polynomial(ops: Operands, fixed: PyTree, dense: PyTree) -> Any:
        base = ops[0]
        value = flow.polynomial(base, fixed, dense[0])
        tangent = jax.vmap(lambda d: flow.polynomial(base, fixed, d))(dense[1])  # dense output enters linearly
        return tuple(zip(value, tangent, strict=True))

    def pack(y: State) -> list[Array]:
        return [*flow.pack(y[0]), *jax.vmap(flow.pack)(y[1])]

    def unpack(leaves: Sequence[Array]) -> Any:
        half = len(leaves) // 2
        return flow.unpack(leaves[:half]), jax.vmap(flow.unpack)(list(leaves[half:]))

    return raised(
        flow,
        begin=begin,
        start=start,
        pack=pack,
        unpack=unpack,
        step=step,
        polynomial=polynomial,
        leap=leap,
        again=again if flow.multistep else None,
    )


def raised(flow: Flow, **functions: Any) -> Flow:
    """A flow of one order of tangents more, by its own `functions`; step ends and lengths are those of states alone."""
    return flow._replace(
        first=lambda ops, fixed, t, end, y: flow.first(ops[0], fixed, t, end, y[0]),
        stop=lambda ops, fixed, t, end: flow.stop(ops[0], fixed, t, end),
        height=flow.height + 1,
        root=flow.root or flow,
        **functions,
    )


def _start(member: Member, ops: PyTree, fixed: PyTree, t: Time, y: State) -> Carried:
    memory = member.start(ops, fixed, t, y)
    return Carried(memory.past, t == t, memory.kept) if member.multistep else Carried(memory)


def _step(member: Member, exact: bool, ops: PyTree, fixed: PyTree, t: Time, t1: Time, y: State, memory: Carried) -> Any:
    rtol, atol = fixed[-2:]
    before = Memory(memory.moving, memory.kept, (rtol, atol)) if member.multistep else memory.moving
    y1, after, dense, error, growth = member.step(ops, fixed, t, t1, y, before)
    memory = Carried(after.past, t != t, after.kept) if member.multistep else Carried(after)
    if member.longest is None:
        scale = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(y1))
        square = jnp.mean(jnp.square(jnp.abs(error) / scale)) if y.size else jnp.zeros_like(t)
    else:  # as an error is that grows as the order's power of the step and reaches its tolerance at the Courant number
        most = rtol * member.longest(ops, fixed, t, y)
        square = jnp.where(jnp.all(jnp.isfinite(y1)), ((t1 - t) / most) ** (2 * member.order), jnp.nan)
    if exact or member.resumed is not None:
        y1 = _moved_with_jump(member, ops, fixed, t1, y1)
    return y1, memory, dense, jax.lax.stop_gradient(square), growth


def _again(
    member: Member,
    exact: bool,
    ops: PyTree,
    fixed: PyTree,
    t: Time,
    t1: Time,
    y: State,
    past: PyTree,
    fresh: Array,
    solved: Array,
) -> Any:
    assert member.again is not None
    # Few steps are the first of a start, and a constrained system solves equations for it.
    past = jax.lax.cond(fresh, lambda: member.start(ops, fixed, t, y).past, lambda: past)
    y1, past, dense = member.again(ops, fixed, t, t1, y, past, solved)
    return _moved_with_jump(member, ops, fixed, t1, y1) if exact else y1, past, dense


def _stop(member: Member, ops: PyTree, fixed: PyTree, t: Time, end: Any) -> Any:
    stops = jax.lax.stop_gradient(member.stops(ops, fixed))
    return jnp.min(jnp.where((stops > t) & (stops < end), stops, end))


def _moved_with_jump(member: Member, ops: PyTree, fixed: PyTree, t1: Time, y1: State) -> Any:
    """The state where a step ends at a jump, as a function of the jump's time.

    To move the jump by delta is to follow the old field for delta and the new one back. Delta is zero, its derivatives are
    not; two midpoint steps make the first and the second exact. In between a constrained member goes over to the algebraic
    equations that hold after the jump.
    """
    jumps = member.jumps(ops, fixed)
    held = jax.lax.stop_gradient(jumps)
    here = just_before(held) == t1
    delta = jnp.sum(jnp.where(here, jumps - held, 0)) / jnp.maximum(jnp.sum(here, dtype=t1.dtype), 1)
    t2 = just_after(just_after(t1))

    field = functools.partial(member.field, ops, fixed)

    def jumped(y: State) -> Any:
        y = midpoint(field, t1, delta, y)
        y = y if member.resumed is None else member.resumed(ops, fixed, t2 + delta, y)
        return midpoint(field, t2 + delta, -delta, y)

    if member.resumed is not None:
        return jax.lax.cond(jnp.any(here), jumped, lambda y: y, y1)
    return jnp.where(jnp.any(here), jumped(y1), y1)


def first_step(member: Member, ops: PyTree, fixed: PyTree, t: Time, end: Any, y: State) -> Any:
    """The length of the first step: the one given, that of a Courant number, or that of `first_length`."""
    given, rtol, atol = fixed[-3:]
    if member.longest is not None:
        h = SAFETY * rtol * member.longest(ops, fixed, t, y)
        h = jnp.where(jnp.isfinite(h), h, SHORT * (end - t))
        return jax.lax.stop_gradient(jnp.where(given > 0, given, h))
    scale = atol + rtol * jnp.abs(y)
    h = first_length(functools.partial(member.field, ops, fixed), t, end - t, y, scale, member.order)
    if member.multistep:
        given = jnp.minimum(given, h)  # it may be that of a step of a higher order, and the first one has order 1
    # A shorter step would end where it began.
    h = jnp.maximum(jnp.where(given > 0, given, h), 4 * jnp.finfo(h.dtype).eps * jnp.abs(t).astype(h.dtype))
    return jax.lax.stop_gradient(h)


def first_length(field: Callable[[Any, Any], Array], t: Time, span: Array, y: State, scale: Array, order: int) -> Array:
    """The length of a first step of a method of an order, where the error of each state is to be below `scale`.

    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.4.
    """
    norm = lambda x: jnp.sqrt(jnp.mean(jnp.square(jnp.abs(x) / scale))) if y.size else jnp.zeros_like(t)
    slope = field(t, y)
    d0, d1 = norm(y), norm(slope)
    small = (d0 < 1e-5) | (d1 * span < 1e-5)
    h0 = jnp.where(small, SHORT * span, 0.01 * d0 / jnp.where(small, 1, d1))
    d2 = norm(field(t + h0, y + scaled(h0, slope)) - slope) / h0
    # The book's formula adds up powers of a time, so it holds in one unit of time alone: here that is 100 h0, in which the state
    # changes by its own size.
    unit = 100 * h0
    largest = jnp.maximum(d1 * unit, d2 * unit * unit)
    flat = largest <= 1e-15
    bent = unit * (0.01 / jnp.where(flat, 1, largest)) ** (1 / order)
    h = jnp.minimum(unit, jnp.where(flat, jnp.maximum(SHORT * span, 1e-3 * h0), bent))
    return jnp.where(jnp.isfinite(h), h, SHORT * span)
