"""Fixed steps of many small members as one kernel.

A solve with fixed steps is an operation of JAX here, so that a batch of them is one operation with more members. Its derivatives
are those of `fixed_grid`, which takes its place as soon as any are asked for.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.flatten_util import ravel_pytree
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from ..._types import State
from ...core import BrownianPath, ConstrainedSystem, DelayedSystem, DiscreteSystem
from ...solvers import AbstractSplitStepper, Reversible, WithJumps
from ..batching._mesh import varies
from ..kernels._components import MOST_COMPONENTS, evaluated
from ..kernels._emit import rewritten
from ..kernels._launch import EVEN_LANES, Block, Given, Made, launch
from ..kernels._mode import NotInKernel, mode
from ..kernels._objects import boxed
from ..kernels._strict import STRICT


@dataclasses.dataclass(frozen=True, eq=False)
class Posed:
    """A solve as programs on arrays; compared by identity."""

    whole: Any  # operands -> the flat states at all times
    step: Any  # operands, y, t, until, h, start of the window, number of the step -> the flat state after it
    captured: tuple[int, int]  # how many operands behind the first ones either reads of its surroundings
    substeps: int
    times: int
    numbers: int
    dtype: Any


def grid_of_members(
    whole: Callable[..., State], terms: Any, solver: Any, state: State, times: Array, substeps: int
) -> State | None:
    """`whole(terms, solver, state, times)`, the states at all times, as an operation whose batches are kernels.

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
    if flat.size > MOST_COMPONENTS or varies((leaves, times)) or not times.shape[0] > 1:
        return None
    parts = lambda leaves: eqx.combine(jax.tree.unflatten(structure, leaves), static)

    def rows(leaves: list[Array], times: Array) -> Array:
        return jax.vmap(lambda y: ravel_pytree(y)[0])(whole(*parts(leaves), times))

    def step(leaves: list[Array], y: Array, t: Array, until: Array, h: Array, begin: Array, number: Array) -> Array:
        terms, solver, _ = parts(leaves)
        if isinstance(terms.path, BrownianPath):
            terms = dataclasses.replace(terms, path=terms.path.at(begin, number))
        start = unravel(y)
        return ravel_pytree(solver.advance(terms, t, until, h, start, solver.init(terms, t, start)).state)[0]

    t = times[0]
    programs = jax.make_jaxpr(rows)(leaves, times), jax.make_jaxpr(step)(leaves, flat, *(t for _ in range(5)))
    read = [[x for x in program.consts if isinstance(x, jax.core.Tracer)] for program in programs]
    posed = Posed(*programs, (len(read[0]), len(read[1])), substeps, times.shape[0], flat.size, flat.dtype)
    found = _grid_p.bind(*leaves, times, flat, *read[0], *read[1], posed=posed, own=None, members=None)
    return jax.vmap(unravel)(found)


def _consts(posed: Posed, values: Sequence[Any], which: int) -> list[Any]:
    """The constants of a program, those that it reads of its surroundings from the operands."""
    first, second = posed.captured
    end = len(values) - second
    read = iter(values[end - first : end] if which == 0 else values[end:])
    program = (posed.whole, posed.step)[which]
    return [next(read) if isinstance(x, jax.core.Tracer) else x for x in program.consts]


def _leaves(posed: Posed, values: Sequence[Any]) -> Sequence[Any]:
    return values[: len(values) - sum(posed.captured) - 2]


def _by_scan(posed: Posed, own: tuple[bool, ...] | None, *values: Any) -> Array:
    """The states as XLA computes them."""

    def one(*values: Any) -> Array:
        leaves, times = _leaves(posed, values), values[len(_leaves(posed, values))]
        return jax.core.eval_jaxpr(posed.whole.jaxpr, _consts(posed, values, 0), *leaves, times)[0]

    if own is None:
        return one(*values)
    return jax.vmap(one, in_axes=tuple(0 if x else None for x in own))(*values)


def _grid(*values: Array, posed: Posed, own: tuple[bool, ...] | None, members: int | None) -> Array:
    if own is None or members is None:
        return _by_scan(posed, None, *values)
    try:
        return _in_kernel(posed, own, members, values)
    except NotInKernel:
        return _by_scan(posed, own, *values)


def _in_kernel(posed: Posed, own: tuple[bool, ...], members: int, values: Sequence[Array]) -> Array:
    given = [Given(jnp.moveaxis(x, 0, -1) if mine else x, mine) for x, mine in zip(values, own, strict=True)]
    windows, numbers, place = posed.times - 1, posed.numbers, len(_leaves(posed, values))

    def body(block: Block) -> None:
        operands = [np.empty(0, object) if i == place else block.operand(i) for i in range(len(given))]
        consts, leaves = _consts(posed, operands, 1), list(_leaves(posed, operands))

        def step(y: list[Array], *numbers_of_step: Array) -> list[Array]:
            given = [*leaves, boxed(y, (numbers,)), *(boxed(x, ()) for x in numbers_of_step)]
            found = evaluated(posed.step.jaxpr, consts, given, STRICT)[0]
            return [jnp.broadcast_to(jnp.asarray(x, posed.dtype), block.lanes) for x in found]

        def window(i: Array, y: list[Array]) -> list[Array]:
            row = lambda i: block.gathered(place, jnp.full(block.lanes, i, jnp.int32))
            begin, end = row(i), row(i + 1)
            h = (end - begin) / posed.substeps

            def one(j: Array, y: list[Array]) -> list[Array]:
                number = jnp.broadcast_to(j.astype(h.dtype), block.lanes)
                t = begin + number * h
                return rewritten(step)(y, t, jnp.minimum(t + h, end), h, begin, number)

            y = _repeat(posed.substeps, one, y)
            for c, value in enumerate(y):
                block.put(0, c * windows + i, value)
            return y

        start = operands[place + 1]
        _repeat(windows, window, [jnp.broadcast_to(x, block.lanes) for x in start])

    (found,) = launch(body, given, [Made(numbers * windows, posed.dtype)], members, EVEN_LANES)
    rows = jnp.moveaxis(found.reshape(numbers, windows, members), -1, 0).swapaxes(1, 2)
    flat = values[place + 1]
    first = jnp.broadcast_to(flat if own[place + 1] else flat[None], (members, numbers))
    return jnp.concatenate([first[:, None], rows], axis=1)


def _repeat(count: int, body: Callable[[Array, Any], Any], carry: Any) -> Any:
    """`carry = body(i, carry)` for i = 0, ... `count - 1`."""
    if count == 1:
        return body(jnp.zeros((), jnp.int32), carry)
    last = jnp.full((), count, jnp.int32)
    step = lambda c: (c[0] + 1, c[1], body(c[0], c[2]))
    return jax.lax.while_loop(lambda c: c[0] < c[1], step, (jnp.zeros((), jnp.int32), last, carry))[2]


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
    count = next(x.shape[dim] for x, dim in zip(values, dims, strict=True) if dim is not None)
    values = [x if dim is None else jnp.moveaxis(x, dim, 0) for x, dim in zip(values, dims, strict=True)]
    batched = [dim is not None for dim in dims]
    if own is None or members is None:
        return _grid_p.bind(*values, posed=posed, own=tuple(batched), members=count), 0

    def joined(x: Array, new: bool, mine: bool) -> Array:
        if not (new or mine):
            return x
        x = x if new else jnp.broadcast_to(x[None], (count, *x.shape))
        x = x if mine else jnp.broadcast_to(x[:, None], (count, members, *x.shape[1:]))
        return x.reshape(count * members, *x.shape[2:])

    values = [joined(x, new, mine) for x, new, mine in zip(values, batched, own, strict=True)]
    both = tuple(a or b for a, b in zip(batched, own, strict=True))
    found = _grid_p.bind(*values, posed=posed, own=both, members=count * members)
    return found.reshape(count, members, *found.shape[1:]), 0


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, posed: Posed, own: Any, members: Any) -> Any:
    dots = [ad.instantiate_zeros(x) for x in tangents]
    return jax.jvp(functools.partial(_by_scan, posed, own), tuple(primals), tuple(dots))


_grid_p = Primitive("fixed_steps_of_members")
_grid_p.def_impl(lambda *values, **known: jax.jit(functools.partial(_grid, **known))(*values))
_grid_p.def_abstract_eval(_shape)
mlir.register_lowering(_grid_p, mlir.lower_fun(_grid, multiple_results=False))
ad.primitive_jvps[_grid_p] = _jvp
batching.primitive_batchers[_grid_p] = _batch
