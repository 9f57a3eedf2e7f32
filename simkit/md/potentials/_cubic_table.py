"""Tables on even grids joined by cubic polynomials, with the slopes at the knots that LAMMPS takes."""

from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Coefficients: TypeAlias = tuple[Array, Array, Array, Array]


def cubics(values: Float[Array, "*tables knots"]) -> Coefficients:
    r"""Coefficients, highest power first, of $c_3 p^3 + c_2 p^2 + c_1 p + c_0$ between a knot (p = 0) and the next (p = 1).

    The slope at a knot is the five-point difference, (f[-2] - 8 f[-1] + 8 f[+1] - f[+2]) / 12, next to an end the three-point and
    at an end the one-sided difference. Behind the last knot the slope goes on.

    **Source:** the description of the pair style in https://docs.lammps.org/pair_eam.html, and tables of its results.
    """
    v = values
    inner = ((v[..., :-4] - v[..., 4:]) + 8 * (v[..., 3:-1] - v[..., 1:-3])) / 12
    rise = jnp.diff(v)
    ends = rise[..., :1], 0.5 * (v[..., 2:3] - v[..., :1]), 0.5 * (v[..., -1:] - v[..., -3:-2]), rise[..., -1:]
    slope = jnp.concatenate([*ends[:2], inner, *ends[2:]], axis=-1)
    here, there = slope[..., :-1], slope[..., 1:]
    square, cube = 3 * rise - 2 * here - there, here + there - 2 * rise
    last = jnp.zeros_like(v[..., :1])
    return jnp.concatenate([cube, last], -1), jnp.concatenate([square, last], -1), slope, v


def found(coefficients: Coefficients, knot: Int[Array, "*n"]) -> Coefficients:
    """Return the values at a knot, counted through all tables."""
    c3, c2, c1, c0 = (c.reshape(-1).at[knot].get(mode="promise_in_bounds") for c in coefficients)
    return c3, c2, c1, c0


def polynomial(coefficients: Coefficients, p: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The value at a fraction p of an interval."""
    c3, c2, c1, c0 = coefficients
    return ((c3 * p + c2) * p + c1) * p + c0
