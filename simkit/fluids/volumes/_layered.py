"""The states of layers of shallow water, their heads, and what flows between two columns of them."""

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core import POSITIVE, quantity
from ..grids._apart import apart
from ._water import water_flux

Layers = Sequence[Array]


class LayeredWater(eqx.Module):
    """Layers of water in every cell, the uppermost first: heights `(layers, *shape)`, velocities `(dimensions, layers, *shape)`."""

    height: Float[Array, "n ..."] = quantity(unit="m", support=POSITIVE)
    velocity: Float[Array, "d n ..."] = quantity(unit="m/s")


class ConservedLayers(eqx.Module):
    """Heights of layers, and their discharges for each width, height times velocity."""

    height: Float[Array, "n ..."]
    discharge: Float[Array, "d n ..."]


def surfaces(height: Layers, bed: Array) -> list[Array]:
    """The height at which the upper surface of each layer stands."""
    found = [bed + height[-1]]
    for h in height[-2::-1]:
        found.append(found[-1] + h)
    return found[::-1]


def heads(surface: Layers, density: Array) -> list[Array]:
    """The pressure in each layer over its density and gravity, by the surfaces of the layers: alike along a layer at rest."""
    found = [surface[0]]
    for k, level in enumerate(surface[1:], 1):
        above = density[k - 1] / density[k]
        found.append(above * found[-1] + (1 - above) * level)
    return found


def added(parts: Layers) -> Array:
    """The sum over layers."""
    return functools.reduce(jnp.add, parts)


def layered_flux(
    left: list[Layers], right: list[Layers], whole: tuple[Array, Array], gravity: Array, contrast: Array
) -> list[list[Array]]:
    r"""Fluxes of height and of the discharges across a face and along it, without pressure; zero where both sides rest alike.

    - `left`, `right`: heights, velocities across and velocities along, each by layers; `whole`: the heights of both columns;
        `contrast`: the density of the lowest layer less that of the uppermost, over the former.

    The flow of the column, its height and mean velocity, is that of Harten, Lax and van Leer's solver of one layer, so that the
    fast wave has the dissipation that it needs. What departs from it has that of Rusanov with the bound
    $\sqrt{g\, c\, H / 4}$ of the speed of internal waves, c the contrast, so that the slow waves are not smeared at the speed of
    the fast one. That bound follows from Rayleigh's quotient: a displacement w that vanishes at the bottom and at the surface has
    $\max w^2 \le (H / 4) \int w_z^2$.
    """
    (hl, ul, *tl), (hr, ur, *tr) = left, right
    slow, more, push, sl, sr = apart(_of_columns, hl, ul, hr, ur, whole, gravity, contrast)
    rusanov = lambda fl, fr, a, b: 0.5 * (fl + fr) - 0.5 * slow * (b - a)
    heights, discharges = [], []
    for ha, hb, ua, ub, a, b in zip(hl, hr, ul, ur, sl, sr, strict=True):
        qa, qb = ha * ua, hb * ub
        heights.append(rusanov(qa, qb, ha, hb) + jnp.where(more > 0, a, b) * more)
        discharges.append(rusanov(qa * ua, qb * ub, qa, qb) + (a + b) * push)
    carried = lambda pair: [f * jnp.where(f > 0, a, b) for f, a, b in zip(heights, *pair, strict=True)]
    return [heights, discharges, *map(carried, zip(tl, tr, strict=True))]


def _of_columns(
    hl: Layers, ul: Layers, hr: Layers, ur: Layers, whole: tuple[Array, Array], gravity: Array, contrast: Array
) -> tuple[Any, ...]:
    """The slow speed, what the fluxes of columns have beyond it, of height and half of that of discharge, and shares of layers."""
    wl, wr = whole
    (vl, sl), (vr, sr) = _column(hl, ul), _column(hr, ur)
    mass, across = water_flux([wl, vl], [wr, vr], gravity)
    slow = jnp.sqrt(gravity * jnp.maximum(contrast, 0) / 4 * jnp.maximum(jnp.maximum(wl, wr), jnp.finfo(wl.dtype).tiny))
    slow = slow + functools.reduce(jnp.maximum, [jnp.abs(u) for u in (*ul, *ur)])
    rusanov = lambda fl, fr, a, b: 0.5 * (fl + fr) - 0.5 * slow * (b - a)
    pl, pr, half = wl * vl, wr * vr, 0.5 * gravity
    more = mass - rusanov(pl, pr, wl, wr)
    push = 0.5 * (across - rusanov(pl * vl + half * wl * wl, pr * vr + half * wr * wr, pl, pr))
    return slow, more, push, sl, sr


def _column(height: Layers, velocity: Layers) -> tuple[Array, list[Array]]:
    """The mean velocity of a column, and the share of each layer in it; layers of no height get an equal one."""
    total = added(height)
    wet = total > 0
    share = [jnp.where(wet, h / jnp.where(wet, total, 1), 1 / len(height)) for h in height]
    return added([s * u for s, u in zip(share, velocity, strict=True)]), share


def characteristics(height: np.ndarray, velocity: np.ndarray, density: np.ndarray, gravity: float) -> np.ndarray:
    """The speeds of long waves along an axis, `(..., 2 layers)`, from heights and velocities `(..., layers)`.

    They are the eigenvalues of the equations, complex where these are not hyperbolic.
    """
    n = len(density)
    weight = np.where(np.arange(n)[None, :] < np.arange(n)[:, None], density[None, :] / density[:, None], 1.0)
    matrix = np.zeros((*height.shape[:-1], 2 * n, 2 * n))
    places = np.arange(n)
    matrix[..., places, places] = matrix[..., n + places, n + places] = velocity
    matrix[..., places, n + places] = height
    matrix[..., n:, :n] = gravity * weight
    return np.linalg.eigvals(matrix)
