"""Slopes at the points of a table, of the piecewise cubic curves through them.

A table may repeat its last point, so that tables of different length can be stacked: intervals of length 0 have no effect.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Row = Float[Array, " n"]


class Sides(NamedTuple):
    """Lengths and mean slopes of the intervals on both sides of every point, 0 where there is none; and the last point."""

    left: Row
    right: Row
    rise_left: Row
    rise_right: Row
    last: Bool[Array, " n"]


def sides_of(times: Row, values: Row, periodic: bool) -> Sides:
    """The intervals beside the points of a table; of a periodic one, the last interval stands left of the first point."""
    h = jnp.diff(times)
    rise = jnp.where(h > 0, jnp.diff(values) / jnp.where(h > 0, h, 1), 0)
    none = jnp.zeros(1, h.dtype)
    before, after = lambda x: jnp.concatenate([none, x]), lambda x: jnp.concatenate([x, none])
    found = Sides(before(h), after(h), before(rise), after(rise), (after(h) == 0) & (before(h) > 0))
    if not periodic:
        return found
    end, end_rise = (jnp.sum(jnp.where(found.last, x, 0)) for x in (found.left, found.rise_left))
    return found._replace(left=found.left.at[0].set(end), rise_left=found.rise_left.at[0].set(end_rise))


def monotone_slopes(times: Row, values: Row, periodic: bool) -> Row:
    """Slopes of a curve that rises and falls as its table does (PCHIP).

    The weighted harmonic mean of the slopes on both sides, 0 at an extremum; at the ends a formula of three points, cut off.
    Fritsch and Butland (1984), SIAM Journal on Scientific and Statistical Computing 5:300, doi:10.1137/0905021.
    """
    left, right, d_left, d_right, last = sides_of(times, values, periodic)
    w_left, w_right = 2 * right + left, right + 2 * left
    same = d_left * d_right > 0
    a, b = jnp.where(same, d_left, 1), jnp.where(same, d_right, 1)
    mean = jnp.where(same, (w_left + w_right) / jnp.where(same, w_left / a + w_right / b, 1), 0)
    if periodic:
        return jnp.where(last, mean[0], mean)
    first = jnp.arange(len(times)) == 0
    begin = _end(right, _shifted(right, -1), d_right, _shifted(d_right, -1))
    end = _end(left, _shifted(left, 1), d_left, _shifted(d_left, 1))
    return jnp.where(first, begin, jnp.where(last, end, mean))


def _end(h: Row, further: Row, rise: Row, next_rise: Row) -> Row:
    """The slope at an end, from the two intervals next to it; that of the only interval where there is one."""
    total = h + further
    slope = ((2 * h + further) * rise - h * next_rise) / jnp.where(total > 0, total, 1)
    slope = jnp.where(jnp.sign(slope) == jnp.sign(rise), slope, 0)
    steep = (jnp.sign(rise) != jnp.sign(next_rise)) & (jnp.abs(slope) > 3 * jnp.abs(rise))
    return jnp.where(further > 0, jnp.where(steep, 3 * rise, slope), rise)


def spline_slopes(times: Row, values: Row, periodic: bool) -> Row:
    """Slopes of the cubic spline: its second derivative is continuous, its third at the points next to the ends ("not a knot").

    de Boor (1978), A Practical Guide to Splines, chapter IV.
    """
    left, right, d_left, d_right, last = sides_of(times, values, periodic)
    first = jnp.arange(len(times)) == 0
    if periodic:
        return _closed_spline(left, right, 3 * (right * d_left + left * d_right), first, last)
    inner = ~first & ~last & (left > 0)
    left2, right2 = _shifted(left, 1), _shifted(right, -1)
    begin = _not_a_knot(right, right2, d_right, _shifted(d_right, -1))
    end = _not_a_knot(left, left2, d_left, _shifted(d_left, 1))
    pick = lambda inside, at_first, at_last, else_: jnp.where(
        inner, inside, jnp.where(first, at_first, jnp.where(last, at_last, else_))
    )
    return tridiagonal(
        pick(right, 0, left + left2, 0),
        pick(2 * (left + right), right2, left2, 1),
        pick(left, right + right2, 0, 0),
        pick(3 * (right * d_left + left * d_right), begin, end, 0),
    )


def _not_a_knot(h: Row, further: Row, rise: Row, next_rise: Row) -> Row:
    total = h + further
    return ((h + 2 * total) * further * rise + h**2 * next_rise) / jnp.where(total > 0, total, 1)


def _closed_spline(left: Row, right: Row, wanted: Row, first: Array, last: Array) -> Row:
    """The slopes of a periodic spline: a cyclic system, which is a tridiagonal one and a product (Sherman and Morrison)."""
    before_last = jnp.concatenate([last[1:], jnp.zeros(1, bool)])
    gone = ~first & (last | (left == 0))
    at = lambda mask, x: jnp.sum(jnp.where(mask, x, 0))
    diagonal = jnp.where(gone, 1, 2 * (left + right))
    corner, other = at(first, right), at(before_last, left)
    pivot = -at(first, diagonal)
    diagonal = diagonal - jnp.where(first, pivot, 0) - jnp.where(before_last, corner * other / pivot, 0)
    lower, upper = jnp.where(first | gone, 0, right), jnp.where(before_last | gone, 0, left)
    column = jnp.where(first, pivot, 0) + jnp.where(before_last, other, 0)
    row = jnp.where(first, 1, 0) + jnp.where(before_last, corner / pivot, 0)
    y = tridiagonal(lower, diagonal, upper, jnp.where(gone, 0, wanted))
    z = tridiagonal(lower, diagonal, upper, column)
    found = y - z * (row @ y) / (1 + row @ z)
    return jnp.where(last, found[0], found)


def tridiagonal(lower: Row, diagonal: Row, upper: Row, right: Row) -> Row:
    """The solution of a tridiagonal system by elimination without pivots, of which those of splines need none."""

    def down(above: tuple[Array, Array], row: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        low, middle, up, wanted = row
        pivot = middle - low * above[0]
        found = up / pivot, (wanted - low * above[1]) / pivot
        return found, found

    def back(below: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        found = row[1] - row[0] * below
        return found, found

    zero = 0 * right[0]
    _, rows = jax.lax.scan(down, (zero, zero), (lower, diagonal, upper, right))
    return jax.lax.scan(back, zero, rows, reverse=True)[1]


def _shifted(x: Row, places: int) -> Row:
    """Entry i - places at place i, 0 where there is none."""
    none = jnp.zeros(1, x.dtype)
    return jnp.concatenate([none, x[:-1]]) if places > 0 else jnp.concatenate([x[1:], none])
