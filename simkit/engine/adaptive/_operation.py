"""An adaptive solve as one operation of JAX, closed under every transformation.

Four primitives call each other in their rules: `solve` (states and, where its plan has orders of tangents, those), `recorded` (the
same with a record for the adjoint), `tangent` (the tangents alone, linear in the tangents of the operands) and `adjoint` (its
transpose). The tangent of an operation is the same
operation one order higher, so derivatives of any order and in any nesting are exact for the discrete solution with its steps
held. Under `vmap` a batch becomes more members of the same queue: `vmap(simulate)` is an ensemble in lanes with refill.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Primitive, Var
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jaxtyping import Array, PyTree

from ...linear import shielded
from ..batching._mesh import alike, origin
from ._adjoint import adjoint
from ._adjoint_kernel import adjoint_in_kernel
from ._carried import carried_numerics, completed_kept, joined_kept, kept_shapes, nothing_kept, numbers_of, parted_kept
from ._kernel import solve_in_kernel
from ._lanes import solve
from ._merging import batch_size, merged, more_directions, only_last_tangents, parted
from ._plan import Plan
from ._shapes import adjoint_shape, solve_shape, tangent_shape
from ._sizes import Numerics

FIGURES = 5  # beside the states: status, accepted and rejected steps, length of the step that would come next, end


def _numerics(plan: Plan, y0: Array, times: Array, record: bool = False) -> Numerics:
    numbers, past, kept = numbers_of(plan, *y0.shape)
    found = plan.sizes.numerics(y0.shape[0], numbers, times.shape[-1])
    return plan.sizes.with_record(found, numbers, y0.dtype.itemsize, past, kept) if record else found


# ---- what the primitives compute ----


def _solve(*values: Array, plan: Plan, keeps: bool = False) -> list[Array]:
    leaves, fixed, times, _ = plan.split(values)
    if not keeps and (found := solve_in_kernel(plan, leaves, fixed, times)) is not None:
        return [*_directions_first(plan, found.ys), *found[1 : 1 + FIGURES], *(found.log or ())]
    numerics = (carried_numerics(plan, leaves[0], times) if keeps else None) or _numerics(plan, leaves[0], times)
    flow = plan.flow(numerics.lanes, bool(plan.orders), origin(leaves, times))
    members = leaves[0].shape[0]
    found = solve(flow, plan.layout(), plan.nested(leaves), fixed, times, numerics, members, plan.room, keeps)
    ys = _directions_first(plan, found.ys)
    return [*ys, *found[1 : 1 + FIGURES], *(found.log or ()), *jax.tree.leaves(found.kept)]


def _directions_first(plan: Plan, ys: PyTree) -> list[Array]:
    """States and tangents with the axes of directions before those of members and times."""
    pairs = zip(jax.tree.leaves(ys), plan.output_directions, strict=True)
    return [jnp.moveaxis(leaf, (0, 1), (len(axes), len(axes) + 1)) for leaf, axes in pairs]


def _tangent(*values: Array, plan: Plan) -> list[Array]:
    states = len(plan.output_directions)
    return _solve(*values[: _ends(plan)], plan=plan)[states // 2 : states]


def _ends(plan: Plan) -> int:
    """Return the number of values of a solve; its tangent and its adjoint take the cost and the record behind them."""
    return len(plan.roots) + len(plan.fixed_shared) + 1


def _adjoint(
    *values: Array, plan: Plan, directions: int, active: tuple[int, ...], live: tuple[bool, ...], kept: int
) -> list[Array]:
    leaves, fixed, times, (cost, *given) = plan.split(values)
    record, given = given[:kept], iter(given[kept:])
    cotangents = []
    for axes, alive in zip(plan.output_directions, live, strict=True):
        height = len(axes)
        cotangents.append(jnp.moveaxis(next(given), (1 + height, 2 + height), (1, 2)) if alive else None)
    if not kept:
        found = adjoint_in_kernel(plan, leaves, fixed, times, cotangents, active, directions)
        if found is not None:
            return found
    numerics = carried_numerics(plan, leaves[0], times) if kept else _numerics(plan, leaves[0], times, record=True)
    assert numerics is not None
    flow = plan.flow(numerics.lanes, True, origin(leaves, times))
    ops = plan.nested(leaves)
    return adjoint(flow, plan.layout(), ops, fixed, times, cost, cotangents, active, numerics, directions, record)


# ---- batches ----


def _solve_batch(values: Sequence[Any], dims: Sequence[Any], *, plan: Plan) -> Any:
    count = batch_size(values, dims)
    heights = [len(axes) for axes in plan.output_directions]
    if only_last_tangents(plan, dims):
        directions = plan.orders[-1].directions
        plan, values = more_directions(plan, count, values, dims)
        out = _solve_p.bind(*values, plan=plan)
        half = len(heights) // 2
        dots = [x.reshape(directions, count, *x.shape[1:]) for x in out[half : 2 * half]]
        return [*out[:half], *dots, *out[2 * half :]], [*[None] * half, *[1] * half, *[None] * (len(out) - 2 * half)]
    plan, joined, _ = merged(plan, count, values, dims)
    out = _solve_p.bind(*alike(joined), plan=plan)
    heights += [0] * (len(out) - len(heights))
    return [parted(x, count, height) for x, height in zip(out, heights, strict=True)], heights


def _recorded_batch(values: Sequence[Any], dims: Sequence[Any], *, plan: Plan) -> Any:
    count, ends = batch_size(values, dims), len(plan.output_directions) + FIGURES
    whole, joined, _ = merged(plan, count, values, dims)
    kept = kept_shapes(whole, joined[0], joined[-1])
    inner = [jax.ShapeDtypeStruct(_without(x.shape, dim), x.dtype) for x, dim in zip(values, dims, strict=True)]
    mine = kept_shapes(plan, inner[0], inner[-1])
    if only_last_tangents(plan, dims) or not kept:
        out, axes = _solve_batch(values, dims, plan=plan)
        nothing, places = nothing_kept(mine, count)
        return [*out, *nothing], [*axes, *places]
    out = _recorded_p.bind(*alike(joined), plan=whole)
    heights = [*(len(axes) for axes in plan.output_directions), *[0] * FIGURES]
    found, places = parted_kept(out[ends:], count)
    found, places = completed_kept(plan, found, places, mine, count)
    return [*(parted(x, count, h) for x, h in zip(out[:ends], heights, strict=True)), *found], [*heights, *places]


def _without(shape: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
    return shape if dim is None else (*shape[:dim], *shape[dim + 1 :])


def _tangent_batch(values: Sequence[Any], dims: Sequence[Any], *, plan: Plan) -> Any:
    count = batch_size(values, dims)
    heights = [len(axes) for axes in plan.output_directions]
    heights = heights[len(heights) // 2 :]
    if only_last_tangents(plan, dims):
        directions = plan.orders[-1].directions
        plan, values = more_directions(plan, count, values, dims)
        out = _tangent_p.bind(*values, plan=plan)
        return [x.reshape(directions, count, *x.shape[1:]) for x in out], [1] * len(out)
    ends = _ends(plan)
    plan, joined, into = merged(plan, count, values[:ends], dims[:ends])
    cost = into(values[ends], dims[ends], 0, False)
    kept = joined_kept(plan.lower(), joined, values[ends + 1 :], dims[ends + 1 :], count)
    out = _tangent_p.bind(*alike([*joined, cost, *kept]), plan=plan)
    return [parted(x, count, height) for x, height in zip(out, heights, strict=True)], heights


def _adjoint_batch(
    values: Sequence[Any],
    dims: Sequence[Any],
    *,
    plan: Plan,
    directions: int,
    active: tuple[int, ...],
    live: tuple[bool, ...],
    kept: int,
) -> Any:
    count, ends = batch_size(values, dims), _ends(plan)
    end = ends + 1 + kept
    if all(dim is None for dim in dims[:end]):
        given = []
        for x, dim in zip(values[end:], dims[end:], strict=True):
            x = (
                jnp.broadcast_to(x[:, None], (x.shape[0], count, *x.shape[1:]))
                if dim is None
                else jnp.moveaxis(x, dim, 1)
            )
            given.append(x.reshape(-1, *x.shape[2:]))
        more = directions * count
        out = _adjoint_p.bind(*values[:end], *given, plan=plan, directions=more, active=active, live=live, kept=kept)
        return [x.reshape(directions, count, *x.shape[1:]) for x in out], [1] * len(out)
    roots, was = plan.roots, plan.shared
    plan, joined, into = merged(plan, count, values[:ends], dims[:ends], [roots[i] for i in active])
    cost = into(values[ends], dims[ends], 0, False)
    record = joined_kept(plan, joined, values[ends + 1 : end], dims[ends + 1 : end], count)
    heights = [len(axes) for axes, alive in zip(plan.output_directions, live, strict=True) if alive]
    given = [into(x, dim, 1 + height, False) for x, dim, height in zip(values[end:], dims[end:], heights, strict=True)]
    values, kept = alike([*joined, cost, *record, *given]), len(record)
    out = _adjoint_p.bind(*values, plan=plan, directions=directions, active=active, live=live, kept=kept)
    found = []
    for i, x in zip(active, out, strict=True):
        x = parted(x, count, 1 + plan.heights[i])
        found.append(jnp.sum(x, axis=2 + plan.heights[i]) if was[roots[i]] else x)
    return found, [1 + plan.heights[i] for i in active]


# ---- derivatives ----


def _zero(x: Any) -> bool:
    return isinstance(x, ad.Zero)


def _no_tangent(x: Any) -> Any:
    return ad.Zero(jax.typeof(x).to_tangent_aval())


def _dots(tangents: Sequence[Any], active: Sequence[int]) -> list[Any]:
    return [tangents[i][None] for i in active]


def _solve_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, plan: Plan) -> Any:
    end = len(plan.roots)
    active = [i for i in range(end) if not _zero(tangents[i])]
    if not active:
        out = _solve_p.bind(*primals, plan=plan)
        return out, [_no_tangent(x) for x in out]
    values = [*primals[:end], *_dots(tangents, active), *primals[end:]]
    out = _solve_p.bind(*alike(values), plan=plan.higher(active))
    states = len(plan.output_directions)
    figures = out[2 * states :]
    dots = [x[0] for x in out[states : 2 * states]]
    return [*out[:states], *figures], [*dots, *[_no_tangent(x) for x in figures]]


def _recorded_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, plan: Plan) -> Any:
    states, end = len(plan.output_directions), len(plan.roots)
    active = [i for i in range(end) if not _zero(tangents[i])]
    out = _recorded_p.bind(*primals, plan=plan)
    dots = [_no_tangent(x) for x in out]
    if active:
        values = [
            *primals[:end],
            *_dots(tangents, active),
            *primals[end:],
            _cost(out, states),
            *out[states + FIGURES :],
        ]
        found = _tangent_p.bind(*alike(values), plan=plan.higher(active))
        dots[:states] = [x[0] for x in found]
    return out, dots


def _cost(out: Sequence[Any], states: int) -> Array:
    """The number of attempts of each member."""
    return out[states + 1] + out[states + 2]


def _solve_partial(trace: Any, *tracers: Any, plan: Plan) -> Any:
    """States known, tangents not: what reverse mode starts from."""
    end = len(plan.roots)
    first = end - len(plan.orders[-1].active) if plan.orders else end
    known = [*tracers[:first], *tracers[end:]]
    if first == end or not all(t.is_known() for t in known) or all(t.is_known() for t in tracers):
        return trace.default_process_primitive(_solve_p, tracers, {"plan": plan})
    values, lower = [t.pval.get_known() for t in known], plan.lower()
    solve = _recorded_p if kept_shapes(lower, values[0], values[-1]) else _solve_p
    out = solve.bind(*values, plan=lower)
    states = len(lower.output_directions)
    ends = states + (len(out) if solve is _solve_p else FIGURES)
    dots = trace.default_process_primitive(_tangent_p, [*tracers, _cost(out, states), *out[ends:]], {"plan": plan})
    return [*out[:states], *dots, *out[states:ends]]


def _solve_recomputed(saveable: Any, unknown: Sequence[bool], known_later: Sequence[bool], eqn: JaxprEqn) -> Any:
    """Rule of `jax.checkpoint` for a solve: the states are known at once, and all is computed again for the tangents."""
    plan = eqn.params["plan"]
    end = len(plan.roots)
    first = end - len(plan.orders[-1].active) if plan.orders else end
    needed = [x for x, later in zip(eqn.invars, known_later, strict=True) if isinstance(x, Var) and not later]
    if not any(unknown):
        policy = saveable(_solve_p, *[x.aval for x in eqn.invars], **eqn.params)
        again = policy is False or type(policy).__name__ == "RecomputeType"
        later = [again] * len(eqn.outvars)
        return eqn, eqn if again else None, [False] * len(later), later, needed if again else []
    if first == end or any(unknown[:first]) or any(unknown[end:]):
        return None, eqn, [True] * len(eqn.outvars), [True] * len(eqn.outvars), needed
    half = len(plan.output_directions) // 2
    tangents = [half <= i < 2 * half for i in range(len(eqn.outvars))]
    outvars = [x for x, tangent in zip(eqn.outvars, tangents, strict=True) if not tangent]
    invars = [*eqn.invars[:first], *eqn.invars[end:]]
    known = eqn.replace(invars=invars, outvars=outvars, params={"plan": plan.lower()})
    return known, eqn, tangents, [True] * len(tangents), needed


def _tangent_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, plan: Plan) -> Any:
    end = len(plan.roots)
    first = end - len(plan.orders[-1].active)
    out = _tangent_p.bind(*primals, plan=plan)
    if all(_zero(x) for x in tangents[:first]):
        if all(_zero(x) for x in tangents[first:end]):
            return out, [_no_tangent(x) for x in out]
        dots = [ad.instantiate_zeros(x) for x in tangents[first:end]]
        return out, _tangent_p.bind(*alike([*primals[:first], *dots, *primals[end:]]), plan=plan)
    active = [i for i in range(end) if not _zero(tangents[i])]
    # What the solve kept is not what one with tangents keeps.
    values = [*primals[:end], *_dots(tangents, active), *primals[end : _ends(plan) + 1]]
    found = _tangent_p.bind(*alike(values), plan=plan.higher(active))
    return out, [x[0] for x in found[len(found) // 2 :]]


def _tangent_transpose(cotangents: Sequence[Any], *values: PyTree, plan: Plan) -> Any:
    end = len(plan.roots)
    order = plan.orders[-1]
    first = end - len(order.active)
    live = tuple(not _zero(x) for x in cotangents)
    result: list[Any] = [None] * len(values)
    if not any(live):
        for i in range(first, end):
            result[i] = ad.Zero(values[i].aval) if ad.is_undefined_primal(values[i]) else None
        return result
    given = [x for x in cotangents if not _zero(x)]
    rest = [*values[:first], *values[end:]]
    known = {
        "directions": order.directions,
        "active": order.active,
        "live": live,
        "kept": len(values) - _ends(plan) - 1,
    }
    found = _adjoint_p.bind(*alike([*rest, *given]), plan=plan.lower(), **known)
    for i, x in zip(range(first, end), found, strict=True):
        result[i] = x if ad.is_undefined_primal(values[i]) else None
    return result


def _adjoint_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    plan: Plan,
    directions: int,
    active: tuple[int, ...],
    live: tuple[bool, ...],
    kept: int,
) -> Any:
    end, cost = len(plan.roots), _ends(plan) + 1
    rest = cost + kept
    bind = functools.partial(_adjoint_p.bind, directions=directions, active=active)
    out = bind(*primals, plan=plan, live=live, kept=kept)
    parts = []
    if not all(_zero(x) for x in tangents[rest:]):
        given = [ad.instantiate_zeros(x) for x in tangents[rest:]]
        parts.append(bind(*alike([*primals[:rest], *given]), plan=plan, live=live, kept=kept))
    moving = [i for i in range(end) if not _zero(tangents[i])]
    if moving:
        given = [x[:, None] for x in primals[rest:]]
        values = [*primals[:end], *_dots(tangents, moving), *primals[end:cost], *given]
        higher = (*(False for _ in live), *live)
        parts.append(bind(*alike(values), plan=plan.higher(moving), live=higher, kept=0))
    if not parts:
        return out, [_no_tangent(x) for x in out]
    return out, [sum(pieces[1:], pieces[0]) for pieces in zip(*parts, strict=True)]


def _adjoint_transpose(
    cotangents: Sequence[Any],
    *values: PyTree,
    plan: Plan,
    directions: int,
    active: tuple[int, ...],
    live: tuple[bool, ...],
    kept: int,
) -> Any:
    end = len(plan.roots)
    rest = _ends(plan) + 1 + kept
    result: list[Any] = [None] * len(values)
    moving = [i for i, x in zip(active, cotangents, strict=True) if not _zero(x)]
    dots = [x for x in cotangents if not _zero(x)]
    if not dots:
        return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in values]
    if any(ad.is_undefined_primal(x) for x in values[:end]):
        bare = [*values[: rest - kept], *values[rest:]]
        found = _curvature_transpose(moving, dots, bare, plan, live)
        return [*found[: rest - kept], *[None] * kept, *found[rest - kept :]]
    values_of_tangent = [*values[:end], *dots, *values[end:rest]]
    found = _tangent_p.bind(*alike(values_of_tangent), plan=plan.higher(moving, directions))
    found = [x for x, alive in zip(found, live, strict=True) if alive]
    for i, x in zip(range(rest, len(values)), found, strict=True):
        result[i] = x if ad.is_undefined_primal(values[i]) else None
    return result


def _curvature_transpose(
    moving: Sequence[int], dots: Sequence[Any], values: Sequence[Any], plan: Plan, live: tuple[bool, ...]
) -> list[Any]:
    """The transpose of an adjoint by the tangents among its operands, which `_adjoint_jvp` makes.

    Such an adjoint is z -> D2F[d, z] w, with the second derivative of a lower solve: symmetric in z and d, which change places.
    """
    end = len(plan.roots)
    order = plan.orders[-1]
    first, rest = end - len(order.active), _ends(plan) + 1
    changed = plan.lower().higher(moving)

    def one(z: Sequence[Array], w: Sequence[Array]) -> list[Array]:
        operands = [*values[:first], *[x[None] for x in z], *values[end:rest], *[x[None] for x in w]]
        known = {"directions": 1, "active": order.active, "live": live, "kept": 0}
        return _adjoint_p.bind(*alike(operands), plan=changed, **known)

    found = jax.vmap(one)(list(dots), list(values[rest:]))
    result: list[Any] = [None] * len(values)
    for i, x in zip(range(first, end), found, strict=True):
        result[i] = jnp.sum(x, axis=0) if ad.is_undefined_primal(values[i]) else None
    return result


def _primitive(name: str, compute: Any, shape: Any, jvp: Any, transpose: Any, batch: Any) -> Primitive:
    compute, primitive = _without_batched_calls(compute), Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(lambda *values, **known: jax.jit(functools.partial(compute, **known))(*values))
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=True))
    ad.primitive_jvps[primitive] = jvp
    if transpose is not None:
        ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    return primitive


def _without_batched_calls(compute: Callable[..., list[Array]]) -> Callable[..., list[Array]]:
    """A field of the user that calls LAPACK does so for one member after the other; here all derivatives are taken already."""

    @functools.wraps(compute)
    def computed(*values: Array, plan: Plan, **known: PyTree) -> list[Array]:
        function = functools.partial(compute, plan=plan, **known)
        on_processor = jax.default_backend() == "cpu"
        return (shielded(function) if on_processor and plan.member.calls_library else function)(*values)

    return computed


_solve_p = _primitive("solve_members", _solve, solve_shape, _solve_jvp, None, _solve_batch)
_recorded_p = _primitive(
    "solve_members_recorded",
    functools.partial(_solve, keeps=True),
    functools.partial(solve_shape, keeps=True),
    _recorded_jvp,
    None,
    _recorded_batch,
)
_tangent_p = _primitive(
    "solve_members_tangent", _tangent, tangent_shape, _tangent_jvp, _tangent_transpose, _tangent_batch
)
_adjoint_p = _primitive(
    "solve_members_adjoint", _adjoint, adjoint_shape, _adjoint_jvp, _adjoint_transpose, _adjoint_batch
)
pe.custom_partial_eval_rules[_solve_p] = _solve_partial
pe.partial_eval_jaxpr_custom_rules[_solve_p] = _solve_recomputed

solve_members: Callable[..., list[Array]] = lambda *values, plan: _solve_p.bind(*alike(values), plan=plan)
