"""Stress and heat through the faces of a gas, of order 2 from means of cells, or of order 6 from values at their centres."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..grids._cells import cells
from ._gas import Rows
from ._means import REACH, inner, mean_of


class Stencils(NamedTuple):
    """Weights of the pairs of cells beside a face or a centre, the nearest pair first.

    - `across`: of differences, for the derivative across a face; `at_face`: of sums, for the value there.
    - `along`: of differences around a cell, for the derivative at its centre.
    """

    across: tuple[float, ...]
    at_face: tuple[float, ...]
    along: tuple[float, ...]


SECOND = Stencils((1.0,), (1 / 2,), (1 / 2,))
SIXTH = Stencils((2250 / 1920, -125 / 1920, 9 / 1920), (150 / 256, -25 / 256, 3 / 256), (45 / 60, -9 / 60, 1 / 60))

STIFFNESS = 1.55
"""The factor by which steps by viscosity are shorter with `SIXTH`: its largest rate, over cells of alternating signs, by that of
`SECOND` (2.483 / 2 for the derivative, 1.242 for the values at centres)."""

AROUND = len(SIXTH.across) + 2 * REACH
"""Ghost cells along each axis for `SIXTH`: for derivatives, values at centres and means over faces."""


class Fluid(NamedTuple):
    """Viscosity, conductivity of p / rho, and the widths of cells."""

    viscosity: Any
    conduction: Any
    spacings: Sequence[float]


def viscous_flux(fields: Rows, axis: int, fluid: Fluid, stencils: Stencils) -> Rows:
    """Mass, stress and heat through the faces across an axis.

    - `fields`: velocities and p / rho, with as many ghost cells along the axis as `stencils` have pairs, and no fewer along others.

    Returns rows without these ghost cells.
    """
    r, d = len(stencils.across), len(fields) - 1
    n = fields[0].shape[axis] - 2 * r

    def trimmed(x: Array, skip: int) -> Array:
        for other in range(d):
            if other not in (axis, skip):
                x = cells(x, other, r, x.shape[other] - r)
        return x

    def faces(x: Array, weights: Sequence[float], sign: int) -> Array:
        above = lambda k: cells(x, axis, r + k, r + k + n + 1)
        below = lambda k: cells(x, axis, r - 1 - k, r - k + n)
        found = [w * (above(k) + sign * below(k)) for k, w in enumerate(weights)]
        return sum(found[1:], found[0])

    def derivative(x: Array, by: int) -> Array:
        """Return the derivative at the faces."""
        if by == axis:
            return faces(trimmed(x, axis), stencils.across, -1) / fluid.spacings[axis]
        x = trimmed(x, by)
        m = x.shape[by]
        around = lambda k: cells(x, by, r + k + 1, m - r + k + 1) - cells(x, by, r - k - 1, m - r - k - 1)
        central = [w * around(k) for k, w in enumerate(stencils.along)]
        return faces(sum(central[1:], central[0]) / fluid.spacings[by], stencils.at_face, 1)

    velocity = fields[:-1]
    expansion = sum(derivative(velocity[i], i) for i in range(d))
    stress = [fluid.viscosity * (derivative(velocity[i], axis) + derivative(velocity[axis], i)) for i in range(d)]
    stress[axis] = stress[axis] - fluid.viscosity * (2 / 3) * expansion
    at_face = [faces(trimmed(u, axis), stencils.at_face, 1) for u in velocity]
    work = sum(s * u for s, u in zip(stress, at_face, strict=True))
    heat = fluid.conduction * derivative(fields[-1], axis)
    return [jnp.zeros_like(heat), *stress, work + heat]


def mean_viscous_flux(centres: Rows, smooth: Array, axis: int, fluid: Fluid) -> Rows:
    """Means over the faces across an axis of mass, stress and heat, of order 6.

    - `centres`: velocities and p / rho at the centres of cells, with `AROUND` less `REACH` ghost cells along each axis.
    - `smooth`: how smooth the gas is there.
    """
    r, width = len(SIXTH.across), centres[0].shape[axis]
    fields = [cells(x, axis, REACH, width - REACH) for x in centres]
    flux = jnp.stack(viscous_flux(fields, axis, fluid, SIXTH))
    below, above = (cells(smooth, axis, i, i + flux.shape[axis + 1]) for i in (r + REACH - 1, r + REACH))
    share = jnp.minimum(below, above)
    others = [other for other in range(share.ndim) if other != axis]
    for other in others:
        share = cells(share, other, r, share.shape[other] - r)
    for other in others:
        share = inner(share, other)
        flux = mean_of(flux, other + 1, share[None])
    return list(flux)
