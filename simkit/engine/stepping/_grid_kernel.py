"""Fixed steps of many small members as one kernel.

A solve with fixed steps is an operation of JAX here, so that a batch of them is one operation with more members. So are its
tangents (`_grid_tangents.py`) and its gradient (`_grid_adjoint.py`); derivatives of higher orders are those of `fixed_grid`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.flatten_util import ravel_pytree
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from ..._types import State
from ...core import BrownianPath, ConstrainedSystem, DelayedSystem, DiscreteSystem
from ...solvers import AbstractSplitStepper, Reversible, WithJumps
from ..batching._mesh import varies
from ..batching._paired import paired
from ..kernels._back import MOST_DERIVATIVES
from ..kernels._components import MOST_COMPONENTS
from ..kernels._emit import has_rules, rewritten
from ..kernels._launch import EVEN_LANES, Block, Made, launch
from ..kernels._mode import NotInKernel, mode
from ._fixed_grid import ends_of, points_of
from ._grid_adjoint import pulled
from ._grid_posed import Posed, Steps, by_scan, fronted, given_of, joined, of_active, repeat
from ._grid_tangents import pushed


def grid_of_members(
    grid: Callable[..., State],
    terms: Any,
    solver: Any,
    state: State,
    times: Array,
    *,
    substeps: int,
    jumps: Array | None,
    memory: int | None,
) -> State | None:
    """`grid(terms, solver, state, times, jumps=jumps)`, the states at all times, as an operation whose batches are kernels.

    None where kernels are not written for such a solve.
    """
    kinds = {leaf.dtype for leaf in jax.tree.leaves(state)} | {times.dtype}
    special = (ConstrainedSystem, DelayedSystem, DiscreteSystem)
    served = mode() != "off" and len(kinds) == 1 and jnp.issubdtype(times.dtype, jnp.floating)
    if (
        not served
        or isinstance(solver, AbstractSplitStepper | WithJumps | Reversible)
        or isinstance(terms.system, special)
    ):
        return None
    arrays, static = eqx.partition((terms, solver, state), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    flat, unravel = ravel_pytree(state)
    if flat.size > MOST_COMPONENTS or varies((leaves, times, jumps)) or not times.shape[0] > 1:
        return None
    parts = lambda leaves: eqx.combine(jax.tree.unflatten(structure, leaves), static)
    points, no_more = points_of(times, jumps), None if jumps is None else jnp.zeros(0, times.dtype)

    def rows(leaves: list[Array], points: Array) -> Array:
        return jax.vmap(lambda y: ravel_pytree(y)[0])(grid(*parts(leaves), points, jumps=no_more))

    def step(leaves: list[Array], y: Array, t: Array, until: Array, h: Array, begin: Array, number: Array) -> Array:
        terms, solver, _ = parts(leaves)
        if isinstance(terms.path, BrownianPath):
            terms = dataclasses.replace(terms, path=terms.path.at(begin, number))
        start = unravel(y)
        return ravel_pytree(solver.advance(terms, t, until, h, start, solver.init(terms, t, start)).state)[0]

    t = points[0]
    programs = jax.make_jaxpr(rows)(leaves, points), jax.make_jaxpr(step)(leaves, flat, *(t for _ in range(5)))
    read = [[x for x in program.consts if isinstance(x, jax.core.Tracer)] for program in programs]
    counts = len(read[0]), len(read[1])
    posed = Posed(*programs, counts, substeps, points.shape[0], flat.size, flat.dtype, memory)
    windows = jnp.stack(ends_of(points[:-1], points[1:], jumps is not None))
    found = _grid_p.bind(*leaves, points, windows, flat, *read[0], *read[1], posed=posed, own=None, members=None)
    return jax.vmap(unravel)(found if jumps is None else found[jnp.searchsorted(points, times)])


def _grid(*values: Array, posed: Posed, own: tuple[bool, ...] | None, members: int | None) -> Array:
    if own is None or members is None:
        return by_scan(posed, None, *values)
    try:
        return _in_kernel(posed, own, members, values)
    except NotInKernel:
        return by_scan(posed, own, *values)


def _in_kernel(posed: Posed, own: tuple[bool, ...], members: int, values: Sequence[Array]) -> Array:
    windows, numbers, place = posed.times - 1, posed.numbers, posed.place_of_points(values) + 2

    def body(block: Block) -> None:
        steps = Steps(posed, block, len(values))

        def window(i: Array, y: list[Array]) -> list[Array]:
            begin, end = steps.ends(i)
            y = repeat(posed.substeps, lambda j, y: rewritten(steps.step)(y, begin, end, j), y)
            for c, value in enumerate(y):
                block.put(0, c * windows + i, value)
            return y

        repeat(windows, window, steps.start())

    made = [Made(numbers * windows, posed.dtype)]
    (found,) = launch(body, given_of(values, own), made, members, EVEN_LANES)
    rows = jnp.moveaxis(found.reshape(numbers, windows, members), -1, 0).swapaxes(1, 2)
    flat = values[place]
    first = jnp.broadcast_to(flat if own[place] else flat[None], (members, numbers))
    return jnp.concatenate([first[:, None], rows], axis=1)


def _shape(*values: Any, posed: Posed, own: Any, members: int | None) -> Any:
    rows = posed.times, posed.numbers
    return jax.core.ShapedArray(rows if members is None else (members, *rows), posed.dtype)


def _batch(
    values: Sequence[Any],
    dims: Sequence[int | None],
    *,
    posed: Posed,
    own: tuple[bool, ...] | None,
    members: int | None,
) -> Any:
    count, values, batched = fronted(values, dims)
    if own is None or members is None:
        return _grid_p.bind(*values, posed=posed, own=tuple(batched), members=count), 0
    values, own = joined(values, batched, own, count, members)
    found = _grid_p.bind(*values, posed=posed, own=own, members=count * members)
    return found.reshape(count, members, *found.shape[1:]), 0


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, posed: Posed, own: Any, members: Any) -> Any:
    """The tangents as a linear map whose transpose is an operation too.

    What has no kernel is differentiated as XLA's program at once, which keeps on the way what its transpose reads.
    """
    active = tuple(i for i, x in enumerate(tangents) if not isinstance(x, ad.Zero))
    values, dots = list(primals), [tangents[i] for i in active]
    if not _has_derivatives(posed, own, active, values):
        return jax.jvp(functools.partial(of_active, posed, own, active, values), [values[i] for i in active], dots)
    known = posed, own, members, active
    found = _grid_p.bind(*values, posed=posed, own=own, members=members)
    return found, paired(functools.partial(pushed, *known), functools.partial(pulled, *known), values, dots)


def _has_derivatives(
    posed: Posed, own: tuple[bool, ...] | None, active: Sequence[int], values: Sequence[Array]
) -> bool:
    """Tell whether a kernel may differentiate such a solve. Functions that state their own derivatives would lose them there."""
    shapes = [values[i].shape if own is None or not own[i] else values[i].shape[1:] for i in active]
    return not has_rules(posed.step.jaxpr) and posed.numbers + sum(map(math.prod, shapes)) <= MOST_DERIVATIVES


_grid_p = Primitive("fixed_steps_of_members")
_grid_p.def_impl(lambda *values, **known: jax.jit(functools.partial(_grid, **known))(*values))
_grid_p.def_abstract_eval(_shape)
mlir.register_lowering(_grid_p, mlir.lower_fun(_grid, multiple_results=False))
ad.primitive_jvps[_grid_p] = _jvp
batching.primitive_batchers[_grid_p] = _batch
