"""Operations on components as kernels have them: nothing is stacked."""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._control import INDEXED, LOOPED, Evaluate
from ._emit import DROPPED
from ._mode import NotInKernel
from ._objects import boxed, over_lanes

Rules = Mapping[str, Callable[..., list[np.ndarray]]]
"""Operation -> function of what evaluates programs, the equation, and arrays of objects."""

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
"""Numbers of bits by which the rounds of Threefry rotate (Salmon et al. 2011, doi:10.1145/2063384.2063405, table 2)."""


def _threefry(_: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """The cipher of JAX's random numbers, written out."""
    shape = np.broadcast_shapes(*(value.shape for value in values))
    found = np.empty(shape, object), np.empty(shape, object)
    for place in np.ndindex(shape):
        first, second, x, y = (np.broadcast_to(value, shape)[place] for value in values)
        word = lambda x: jnp.asarray(x, jnp.uint32)
        keys = word(first), word(second), word(first) ^ word(second) ^ word(0x1BD11BDA)
        x, y = word(x) + keys[0], word(y) + keys[1]
        for i in range(5):
            for turn in ROTATIONS[i % 2]:
                x = x + y
                y = x ^ (y << word(turn) | y >> word(32 - turn))
            x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + word(i + 1)
        found[0][place], found[1][place] = x, y
    return list(found)


def _bits(_: Evaluate, eqn: Any, value: np.ndarray) -> list[np.ndarray]:
    """The bits of numbers, those of wider ones as two words each, the lower one first."""
    kind, given = np.dtype(eqn.params["new_dtype"]), np.dtype(eqn.invars[0].aval.dtype)
    parts = 2 if kind == np.uint32 and given.itemsize == 8 else 1
    if parts == 1 and kind.itemsize != given.itemsize:
        raise NotInKernel("bits of numbers of other sizes")
    found = np.empty((*value.shape, parts), object)
    for place in np.ndindex(value.shape):
        x = jnp.asarray(value[place], given)
        if parts == 1:
            found[*place, 0] = jax.lax.bitcast_convert_type(x, kind)
            continue
        whole = jax.lax.bitcast_convert_type(x, jnp.uint64)
        for i in range(2):
            found[*place, i] = (whole >> jnp.asarray(32 * i, jnp.uint64)).astype(jnp.uint32)
    return [found if parts == 2 else found[..., 0]]


def _linear_solve(evaluated: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """Linear equations on components, with the rule for their derivatives: what solves them holds the matrix."""
    lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    ends = np.cumsum([lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve])
    *consts, right = (values[a:b] for a, b in zip([0, *ends], [*ends, len(values)], strict=True))
    lanes = max((x.shape[0] for v in values for x in v.reshape(-1) if jnp.ndim(x)), default=0)
    shapes = [(v.shape, atom.aval.dtype) for v, atom in zip(right, eqn.invars[ends[-1] :], strict=True)]

    def flat(found: Sequence[np.ndarray]) -> list[Array]:
        pairs = zip(found, shapes, strict=True)
        wide = lambda x, dtype: over_lanes(x, lanes, dtype) if lanes else jnp.asarray(x, dtype)
        return [wide(x, dtype) for value, (_, dtype) in pairs for x in value.reshape(-1)]

    def parted(held: Sequence[Array]) -> list[np.ndarray]:
        sizes = np.cumsum([0, *(math.prod(shape) for shape, _ in shapes)])
        parts = [list(held[a:b]) for a, b in itertools.pairwise(sizes)]
        return [boxed(x if shape else x[0], shape) for x, (shape, _) in zip(parts, shapes, strict=True)]

    def by(program: Any, own: Sequence[np.ndarray]) -> Any:
        return lambda x: flat(evaluated(program.jaxpr, program.consts, [*own, *parted(x)]))

    product, solve = by(programs.matvec, consts[0]), by(programs.solve, consts[2])
    backward = None if programs.transpose_solve is None else by(programs.transpose_solve, consts[3])
    transposed = None if backward is None else lambda _, b: backward(b)
    found = jax.lax.custom_linear_solve(product, flat(right), lambda _, b: solve(b), transposed)
    return parted(found)


def _same(_: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    return list(values)


def _held(_: Evaluate, eqn: Any, value: np.ndarray) -> list[np.ndarray]:
    result = np.empty(value.shape, object)
    for place in np.ndindex(value.shape):
        result[place] = jax.lax.stop_gradient(value[place])
    return [result]


def _reduced(by: Callable[..., Any], _: Evaluate, eqn: Any, value: np.ndarray) -> list[np.ndarray]:
    axes = eqn.params["axes"]
    rest = [i for i in range(value.ndim) if i not in axes]
    rows = value.transpose(*rest, *axes).reshape(*(value.shape[i] for i in rest), -1)
    nothing = {"reduce_or": False, "reduce_and": True}.get(eqn.primitive.name)
    if not rows.shape[-1] and nothing is None:
        raise NotInKernel("a reduction of nothing")
    found = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(found.shape):
        found[place] = by(*rows[place]) if rows.shape[-1] else nothing
    return [found]


def _extreme(of_two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The greatest or the least of numbers, of whose tangents the mean of those that are it: a chain would weigh them unevenly."""

    @jax.custom_jvp
    def extreme(*values: Array) -> Array:
        return functools.reduce(of_two, values)

    @extreme.defjvp
    def rule(values: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
        found = extreme(*values)
        shares = [(x == found).astype(found.dtype) for x in values]
        total = functools.reduce(jnp.add, [share * dot for share, dot in zip(shares, tangents, strict=True)])
        return found, total / functools.reduce(jnp.add, shares)

    def call(*values: Any) -> Any:
        lanes = max((x.shape[0] for x in values if jnp.ndim(x)), default=0)
        wide = [over_lanes(x, lanes, jnp.result_type(x)) if lanes else jnp.asarray(x) for x in values]
        return extreme(*wide) if jnp.issubdtype(wide[0].dtype, jnp.inexact) else functools.reduce(of_two, wide)

    return call


def _chain(by: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *values: functools.reduce(by, values)


STRICT: Rules = {
    **INDEXED,
    **dict.fromkeys(DROPPED, _same),
    "stop_gradient": _held,
    "threefry2x32": _threefry,
    "bitcast_convert_type": _bits,
    "custom_linear_solve": _linear_solve,
    "reduce_max": functools.partial(_reduced, _extreme(jnp.maximum)),
    "reduce_min": functools.partial(_reduced, _extreme(jnp.minimum)),
    "reduce_prod": functools.partial(_reduced, _chain(lambda a, b: a * b)),
    "reduce_or": functools.partial(_reduced, _chain(lambda a, b: a | b)),
    "reduce_and": functools.partial(_reduced, _chain(lambda a, b: a & b)),
}
"""Rules of programs of which derivatives may be taken."""

FINAL: Rules = {**STRICT, **LOOPED}
"""Rules of programs of which all derivatives have been taken."""
