"""An adaptive solve as one operation of JAX, closed under every transformation.

Three primitives call each other in their rules: `solve` (states and, where its plan has orders of tangents, those), `tangent` (the
tangents alone, linear in the tangents of the operands) and `adjoint` (its transpose). The tangent of an operation is the same
operation one order higher, so derivatives of any order and in any nesting are exact for the discrete solution with its steps
held. Under `vmap` a batch becomes more members of the same queue: `vmap(simulate)` is an ensemble in lanes with refill.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Primitive, Var
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jaxtyping import Array, PyTree

from ..._types import State
from ...linear import shielded
from ..batching._mesh import alike, origin, shaped
from ._adjoint import adjoint
from ._lanes import solve
from ._plan import Plan
from ._sizes import Numerics

FIGURES = 5  # beside the states: status, accepted and rejected steps, length of the step that would come next, end


def _numerics(plan: Plan, y0: Array, times: Array, record: bool = False) -> Numerics:
    member, copies = plan.member, sum(math.prod(axes) for axes in plan.output_directions)
    numbers = y0.shape[-1] * copies
    found = plan.sizes.numerics(y0.shape[0], numbers, times.shape[-1])
    past = copies * member.past_numbers() if member.multistep else None
    kept = member.kept_numbers()
    return plan.sizes.with_record(found, numbers, y0.dtype.itemsize, past, kept) if record else found


# ---- what the primitives compute ----


def _solve(*values: Array, plan: Plan) -> list[Array]:
    leaves, fixed, times, _ = plan.split(values)
    numerics = _numerics(plan, leaves[0], times)
    flow = plan.flow(numerics.lanes, bool(plan.orders), origin(leaves, times))
    found = solve(flow, plan.layout(), plan.nested(leaves), fixed, times, numerics, leaves[0].shape[0], plan.room)
    ys = []
    for leaf, axes in zip(jax.tree.leaves(found.ys), plan.output_directions, strict=True):
        ys.append(jnp.moveaxis(leaf, (0, 1), (len(axes), len(axes) + 1)))
    return [*ys, *found[1 : 1 + FIGURES], *(found.log or ())]


def _tangent(*values: Array, plan: Plan) -> list[Array]:
    states = len(plan.output_directions)
    return _solve(*values[:-1], plan=plan)[states // 2 : states]


def _adjoint(
    *values: Array, plan: Plan, directions: int, active: tuple[int, ...], live: tuple[bool, ...]
) -> list[Array]:
    leaves, fixed, times, (cost, *given) = plan.split(values)
    numerics = _numerics(plan, leaves[0], times, record=True)
    given = iter(given)
    cotangents = []
    for axes, alive in zip(plan.output_directions, live, strict=True):
        height = len(axes)
        cotangents.append(jnp.moveaxis(next(given), (1 + height, 2 + height), (1, 2)) if alive else None)
    flow = plan.flow(numerics.lanes, True, origin(leaves, times))
    ops = plan.nested(leaves)
    return adjoint(flow, plan.layout(), ops, fixed, times, cost, cotangents, active, numerics, directions)


# ---- shapes ----


def _states(plan: Plan, y0: State, times: Any) -> list[tuple[tuple[int, ...], Any]]:
    members, size = y0.shape
    return [((*axes, members, times.shape[-1] + plan.room, size), y0.dtype) for axes in plan.output_directions]


def _solve_shape(*values: PyTree, plan: Plan) -> Any:
    leaves, _, times, _ = plan.split(values)
    each, whole = leaves[0].shape[:1], jnp.dtype("int32")
    counts, ends, room = [(each, whole)] * 3, [(each, times.dtype)] * 2, (*each, plan.room)
    log = [counts[0], (room, times.dtype), (room, whole)] if plan.room else []
    return shaped(values, [*_states(plan, leaves[0], times), *counts, *ends, *log])


def _tangent_shape(*values: PyTree, plan: Plan) -> Any:
    leaves, _, times, _ = plan.split(values)
    states = _states(plan, leaves[0], times)
    return shaped(values, states[len(states) // 2 :])


def _adjoint_shape(
    *values: PyTree, plan: Plan, directions: int, active: tuple[int, ...], live: tuple[bool, ...]
) -> Any:
    return shaped(values, [((directions, *values[i].shape), values[i].dtype) for i in active])


# ---- batches ----


def _merged(plan: Plan, count: int, values: Sequence[Any], dims: Sequence[Any], unshare: Sequence[int] = ()) -> Any:
    """A batch of solves as one solve with more members; also its plan."""
    roots, heights = plan.roots, plan.heights
    end = len(roots)
    touched = {roots[i] for i in range(end) if dims[i] is not None} | set(unshare)
    shared = tuple(s and root not in touched for root, s in enumerate(plan.shared))
    members = values[0].shape[0] if dims[0] is None else values[0].shape[1]
    merged = []

    def into(x: Any, dim: Any, height: int, was_shared: bool) -> Any:
        if dim is None:
            x = jnp.broadcast_to(jnp.expand_dims(x, height), (*x.shape[:height], count, *x.shape[height:]))
        else:
            x = jnp.moveaxis(x, dim, height)
        if was_shared:
            x = jnp.expand_dims(x, height + 1)
            x = jnp.broadcast_to(x, (*x.shape[: height + 1], members, *x.shape[height + 2 :]))
        return x.reshape(*x.shape[:height], count * members, *x.shape[height + 2 :])

    for x, dim, root, height in zip(values[:end], dims[:end], roots, heights, strict=True):
        merged.append(x if shared[root] else into(x, dim, height, plan.shared[root]))
    fixed_shared = []
    for x, dim, was in zip(values[end:], dims[end:], plan.fixed_shared, strict=False):
        fixed_shared.append(was and dim is None)
        merged.append(x if fixed_shared[-1] else into(x, dim, 0, was))
    end += len(plan.fixed_shared)
    times_shared = plan.times_shared and dims[end] is None
    merged.append(values[end] if times_shared else into(values[end], dims[end], 0, plan.times_shared))
    plan = plan._replace(shared=shared, fixed_shared=tuple(fixed_shared), times_shared=times_shared)
    return plan, merged, into


def _parted(x: Any, count: int, height: int) -> Any:
    """The members of an output as a batch of members."""
    return x.reshape(*x.shape[:height], count, x.shape[height] // count, *x.shape[height + 1 :])


def _batch_size(values: Sequence[Any], dims: Sequence[Any]) -> int:
    return next(x.shape[dim] for x, dim in zip(values, dims, strict=True) if dim is not None)


def _only_last_tangents(plan: Plan, dims: Sequence[Any]) -> bool:
    if not plan.orders:
        return False
    end = len(plan.roots)
    first = end - len(plan.orders[-1].active)
    return all(dim is None for i, dim in enumerate(dims) if not first <= i < end)


def _more_directions(plan: Plan, count: int, values: Sequence[Any], dims: Sequence[Any]) -> tuple[Plan, list[Any]]:
    """A batch of tangents of one solve as one solve with more directions."""
    end = len(plan.roots)
    order = plan.orders[-1]
    values = list(values)
    for i in range(end - len(order.active), end):
        x = values[i]
        if dims[i] is None:
            x = jnp.broadcast_to(x[:, None], (x.shape[0], count, *x.shape[1:]))
        else:
            x = jnp.moveaxis(x, dims[i], 1)
        values[i] = x.reshape(-1, *x.shape[2:])
    order = order._replace(directions=order.directions * count)
    return plan._replace(orders=(*plan.orders[:-1], order)), values


def _solve_batch(values: Sequence[Any], dims: Sequence[Any], *, plan: Plan) -> Any:
    count = _batch_size(values, dims)
    heights = [len(axes) for axes in plan.output_directions]
    if _only_last_tangents(plan, dims):
        directions = plan.orders[-1].directions
        plan, values = _more_directions(plan, count, values, dims)
        out = _solve_p.bind(*values, plan=plan)
        half = len(heights) // 2
        dots = [x.reshape(directions, count, *x.shape[1:]) for x in out[half : 2 * half]]
        return [*out[:half], *dots, *out[2 * half :]], [*[None] * half, *[1] * half, *[None] * (len(out) - 2 * half)]
    plan, merged, _ = _merged(plan, count, values, dims)
    out = _solve_p.bind(*alike(merged), plan=plan)
    heights += [0] * (len(out) - len(heights))
    return [_parted(x, count, height) for x, height in zip(out, heights, strict=True)], heights


def _tangent_batch(values: Sequence[Any], dims: Sequence[Any], *, plan: Plan) -> Any:
    count = _batch_size(values, dims)
    heights = [len(axes) for axes in plan.output_directions]
    heights = heights[len(heights) // 2 :]
    if _only_last_tangents(plan, dims):
        directions = plan.orders[-1].directions
        plan, values = _more_directions(plan, count, values, dims)
        out = _tangent_p.bind(*values, plan=plan)
        return [x.reshape(directions, count, *x.shape[1:]) for x in out], [1] * len(out)
    plan, merged, into = _merged(plan, count, values[:-1], dims[:-1])
    cost = into(values[-1], dims[-1], 0, False)
    out = _tangent_p.bind(*alike([*merged, cost]), plan=plan)
    return [_parted(x, count, height) for x, height in zip(out, heights, strict=True)], heights


def _adjoint_batch(
    values: Sequence[Any],
    dims: Sequence[Any],
    *,
    plan: Plan,
    directions: int,
    active: tuple[int, ...],
    live: tuple[bool, ...],
) -> Any:
    count = _batch_size(values, dims)
    end = len(plan.roots) + len(plan.fixed_shared) + 2
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
        out = _adjoint_p.bind(*values[:end], *given, plan=plan, directions=more, active=active, live=live)
        return [x.reshape(directions, count, *x.shape[1:]) for x in out], [1] * len(out)
    roots, was = plan.roots, plan.shared
    plan, merged, into = _merged(plan, count, values[: end - 1], dims[: end - 1], [roots[i] for i in active])
    cost = into(values[end - 1], dims[end - 1], 0, False)
    heights = [len(axes) for axes, alive in zip(plan.output_directions, live, strict=True) if alive]
    given = [into(x, dim, 1 + height, False) for x, dim, height in zip(values[end:], dims[end:], heights, strict=True)]
    values = alike([*merged, cost, *given])
    out = _adjoint_p.bind(*values, plan=plan, directions=directions, active=active, live=live)
    found = []
    for i, x in zip(active, out, strict=True):
        x = _parted(x, count, 1 + plan.heights[i])
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


def _solve_partial(trace: Any, *tracers: Any, plan: Plan) -> Any:
    """States known, tangents not: what reverse mode starts from."""
    end = len(plan.roots)
    first = end - len(plan.orders[-1].active) if plan.orders else end
    known = [*tracers[:first], *tracers[end:]]
    if first == end or not all(t.is_known() for t in known) or all(t.is_known() for t in tracers):
        return trace.default_process_primitive(_solve_p, tracers, {"plan": plan})
    out = _solve_p.bind(*[t.pval.get_known() for t in known], plan=plan.lower())
    states = len(plan.lower().output_directions)
    _, steps, rejected, *_ = out[states:]
    cost = steps + rejected
    dots = trace.default_process_primitive(_tangent_p, [*tracers, cost], {"plan": plan})
    return [*out[:states], *dots, *out[states:]]


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
    values = [*primals[:end], *_dots(tangents, active), *primals[end:]]
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
    found = _adjoint_p.bind(
        *alike([*rest, *given]), plan=plan.lower(), directions=order.directions, active=order.active, live=live
    )
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
) -> Any:
    end = len(plan.roots)
    rest = end + len(plan.fixed_shared) + 2
    bind = functools.partial(_adjoint_p.bind, directions=directions, active=active)
    out = bind(*primals, plan=plan, live=live)
    parts = []
    if not all(_zero(x) for x in tangents[rest:]):
        given = [ad.instantiate_zeros(x) for x in tangents[rest:]]
        parts.append(bind(*alike([*primals[:rest], *given]), plan=plan, live=live))
    moving = [i for i in range(end) if not _zero(tangents[i])]
    if moving:
        given = [x[:, None] for x in primals[rest:]]
        values = [*primals[:end], *_dots(tangents, moving), *primals[end:rest], *given]
        higher = (*(False for _ in live), *live)
        parts.append(bind(*alike(values), plan=plan.higher(moving), live=higher))
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
) -> Any:
    end = len(plan.roots)
    rest = end + len(plan.fixed_shared) + 2
    result: list[Any] = [None] * len(values)
    moving = [i for i, x in zip(active, cotangents, strict=True) if not _zero(x)]
    dots = [x for x in cotangents if not _zero(x)]
    if not dots:
        return [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in values]
    if any(ad.is_undefined_primal(x) for x in values[:end]):
        return _curvature_transpose(moving, dots, values, plan, live)
    found = _tangent_p.bind(*alike([*values[:end], *dots, *values[end:rest]]), plan=plan.higher(moving, directions))
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
    first, rest = end - len(order.active), end + len(plan.fixed_shared) + 2
    changed = plan.lower().higher(moving)

    def one(z: Sequence[Array], w: Sequence[Array]) -> list[Array]:
        operands = [*values[:first], *[x[None] for x in z], *values[end:rest], *[x[None] for x in w]]
        return _adjoint_p.bind(*alike(operands), plan=changed, directions=1, active=order.active, live=live)

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


_solve_p = _primitive("solve_members", _solve, _solve_shape, _solve_jvp, None, _solve_batch)
_tangent_p = _primitive(
    "solve_members_tangent", _tangent, _tangent_shape, _tangent_jvp, _tangent_transpose, _tangent_batch
)
_adjoint_p = _primitive(
    "solve_members_adjoint", _adjoint, _adjoint_shape, _adjoint_jvp, _adjoint_transpose, _adjoint_batch
)
pe.custom_partial_eval_rules[_solve_p] = _solve_partial
pe.partial_eval_jaxpr_custom_rules[_solve_p] = _solve_recomputed

solve_members: Callable[..., list[Array]] = lambda *values, plan: _solve_p.bind(*alike(values), plan=plan)
