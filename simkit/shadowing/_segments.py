"""Tangents along the segments of one run, and the least squares that choose among them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree


class Traced(NamedTuple):
    """Functions of one run's states, flat, and of the parameters.

    - `rows(values, state) -> (rows, n)`: the states at the times of a segment.
    - `slope(values, state, t) -> (n,)`: the time derivative, at any time the same.
    - `quantity(values, state) -> ()`: what is averaged.
    """

    rows: Callable[[Any, Any], Any]
    slope: Callable[[Any, Any, Any], Any]
    quantity: Callable[[Any, Any], Any]


class Segments(NamedTuple):
    """Numbers of each segment of a run, of M homogeneous tangents and P inhomogeneous ones, and of the whole run.

    `square` (M, M) and `mixed` (M, P): integrals of products of tangents perpendicular to the slope; `factor` (M, M) and
    `shift` (M, P): the coefficients of a segment are factor @ those of the one before + shift; `along` (M,), `direct` (P,): the
    change of the integral of the quantity by a tangent without and with the parameters; `leap` (M + P,), the time by which each
    tangent is ahead at the end, and `value`: the integral of the quantity and, at the end, the quantity itself. `reach`: how far
    the states get from the first one, `size`: the largest state, `pace`: the integral of the square of the slope.
    """

    square: Array
    mixed: Array
    factor: Array
    shift: Array
    along: Array
    direct: Array
    leap: Array
    value: Array
    reach: Array
    size: Array
    pace: Array


def segments_of(traced: Traced, values: Array, state: Array, begin: Array, weights: Array, count: int) -> Segments:
    """Follow tangents over `count` segments; `begin` (M, n) are those to start with, `weights` of each row of an integral."""
    parameters = values.size
    start = jnp.zeros((), state.dtype)
    eye = jnp.eye(parameters, dtype=values.dtype)

    def across(tangents: Array, slope: Array) -> tuple[Array, Array]:
        """Tangents perpendicular to the slope, and the time by which they are ahead."""
        ahead = tangents @ slope / (slope @ slope)
        return tangents - ahead[:, None] * slope[None], ahead

    def pushed(state: Array, moves: Array, by: Array) -> tuple[Array, Array]:
        one = lambda move, by: jax.jvp(traced.rows, (values, state), (by, move))
        return jax.vmap(one, out_axes=(None, 0))(moves, by)

    def segment(carry: tuple[Array, Array, Array], _: None) -> Any:
        state, free, driven = carry
        moves = jnp.concatenate([free, driven])
        by = jnp.concatenate([jnp.zeros((free.shape[0], parameters), values.dtype), eye])
        rows, tangents = pushed(state, moves, by)
        slopes = jax.vmap(lambda y: traced.slope(values, y, start))(rows)
        beside, ahead = jax.vmap(across, (1, 0), (1, 1))(tangents, slopes)
        products = jnp.einsum("irn,jrn,r->ij", beside, beside, weights)
        change = lambda y, move, by: jax.jvp(traced.quantity, (values, y), (by, move))[1]
        changes = jax.vmap(lambda move, by: jax.vmap(change, (0, 0, None))(rows, move, by))(tangents, by)
        size = free.shape[0]
        q, r = jnp.linalg.qr(beside[:size, -1].T)
        driven = beside[size:, -1]
        inside = driven @ q
        quantity = jax.vmap(lambda y: traced.quantity(values, y))(rows)
        found = Segments(
            products[:size, :size],
            products[:size, size:],
            r,
            inside.T,
            changes[:size] @ weights,
            changes[size:] @ weights,
            ahead[:, -1],
            jnp.stack([quantity @ weights, quantity[-1]]),
            jnp.max(jnp.linalg.norm(rows - rows[:1], axis=1)),
            jnp.max(jnp.linalg.norm(rows, axis=1)),
            jnp.sum(slopes**2, axis=1) @ weights,
        )
        return (rows[-1], q.T, driven - inside @ q.T), found

    first, _ = across(begin, traced.slope(values, state, start))
    q, _ = jnp.linalg.qr(first.T)
    driven = jnp.zeros((parameters, state.size), state.dtype)
    return jax.lax.scan(segment, (state, q.T, driven), None, length=count)[1]


def slopes_of_average(found: Segments, span: float) -> tuple[float, np.ndarray]:
    """The average of a run of length `span`, and its derivative by each parameter."""
    own: PyTree = jax.tree.map(lambda x: np.asarray(x, float), found)
    size = own.square.shape[-1]
    mean = own.value[:, 0].sum() / span
    gap = (mean - own.value[:, 1])[:, None]
    along, direct = own.along + gap * own.leap[:, :size], own.direct + gap * own.leap[:, size:]
    chosen = _coefficients(own.square, own.mixed, own.factor, own.shift)
    return mean, (direct.sum(axis=0) + np.einsum("km,kmp->p", along, chosen)) / span


def _coefficients(square: np.ndarray, mixed: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The coefficients a_i (segments, M, P) that minimise sum_i a_i' C_i a_i + 2 d_i' a_i where a_{i+1} = R_i a_i + b_i."""
    from scipy.linalg import solveh_banded  # a quarter of a second to import

    count, size, parameters = mixed.shape
    inverse = np.linalg.inv(square)
    alone = -inverse @ mixed
    if count == 1:
        return alone
    # With multipliers m_i of the conditions a_{i+1} - R_i a_i = b_i: a_i = alone_i - C_i^-1 (m_{i-1} - R_i' m_i).
    scaled = factor @ inverse
    diagonal = (scaled @ factor.mT)[:-1] + inverse[1:]
    lower = -scaled[1:-1]  # of row i + 1, column i
    right = (alone[1:] - factor[:-1] @ alone[:-1] - shift[:-1]).reshape(-1, parameters)
    total = (count - 1) * size
    band = np.zeros((2 * size, total))
    for i in range(size):
        for j in range(size):
            if i >= j:
                band[i - j, j::size] = diagonal[:, i, j]
            if count > 2:
                band[size + i - j, j : total - size : size] = lower[:, i, j]
    multipliers = solveh_banded(band, right, lower=True).reshape(count - 1, size, parameters)
    none = np.zeros((1, size, parameters))
    before, after = np.concatenate([none, multipliers]), np.concatenate([multipliers, none])
    return alone - inverse @ (before - factor.mT @ after)
