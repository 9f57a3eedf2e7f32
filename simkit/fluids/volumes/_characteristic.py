r"""Fluxes of a gas by its characteristic variables, of the order of the reconstruction in any number of dimensions.

Reconstruction along an axis gives means over faces. The flux of a mean is not the mean of the flux, by an amount of order 2, so
that the means become values at the middles of faces, and the fluxes there means again, by differences along the faces
(`_means`). Both fade where the flow is not smooth along the faces. Rows are those of `_gas`: lists of arrays of one shape.

Buchmueller and Helzel (2014), J. Sci. Comput. 61:343; for waves Toro (2009), Riemann Solvers and Numerical Methods for Fluid
Dynamics, section 3.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..grids._apart import apart
from ..grids._cells import cells
from ..grids._reconstruction import Reconstruction
from ._gas import Rows, along, at_faces, back, positive, to_conserved, to_primitive
from ._means import inner, mean_of, smoothness, value_of
from ._riemann import RiemannSolver

VARIABLES = {"primitive": "primitive", "characteristic": "characteristic"}
"""Variables that are reconstructed, by their names in study files."""

TRANSVERSE = 4
"""Ghost cells along the faces: two for the values at their middles, two for the means of the fluxes."""


class Waves(NamedTuple):
    """The state about which the equations are linear at a face: velocities across and along it, speed of sound, enthalpy."""

    across: Array
    others: list[Array]
    sound: Array
    enthalpy: Array
    gamma: Array

    @classmethod
    def between(cls, below: Rows, above: Rows, gamma: Array) -> "Waves":
        """The waves of the mean of two gases, rows of density, velocities and pressure with the one across in front."""
        density, across, *others, pressure = (0.5 * (a + b) for a, b in zip(below, above, strict=True))
        square = gamma * pressure / density
        kinetic = 0.5 * (across * across + sum(u * u for u in others))
        return cls(across, others, jnp.sqrt(square), square / (gamma - 1) + kinetic, gamma)

    def strengths(self, rows: Rows) -> Rows:
        """Strengths of the waves in conserved rows: sound leftwards, entropy, shear, sound rightwards."""
        density, across, *others, energy = rows
        u, c = self.across, self.sound
        kinetic = 0.5 * (u * u + sum(t * t for t in self.others))
        work = u * across + sum(t * m for t, m in zip(self.others, others, strict=True))
        pressure = (self.gamma - 1) / (c * c) * (kinetic * density - work + energy)
        push = (across - u * density) / c
        shear = [m - t * density for t, m in zip(self.others, others, strict=True)]
        return [0.5 * (pressure - push), density - pressure, *shear, 0.5 * (pressure + push)]

    def conserved(self, strengths: Rows) -> Rows:
        """The conserved rows that waves of given strengths make."""
        left, entropy, *shear, right = strengths
        u, c = self.across, self.sound
        both, push = left + right, c * (right - left)
        density = both + entropy
        kinetic = 0.5 * (u * u + sum(t * t for t in self.others))
        energy = self.enthalpy * both + u * push + kinetic * entropy
        energy = energy + sum(t * s for t, s in zip(self.others, shear, strict=True))
        return [
            density,
            u * density + push,
            *(t * density + s for t, s in zip(self.others, shear, strict=True)),
            energy,
        ]


def flux_through(
    rows: Rows,
    axis: int,
    pad: Callable[[Rows, int, int], Rows],
    reconstruction: Reconstruction,
    riemann: RiemannSolver,
    gamma: Array,
) -> Rows:
    """The mean flux of mass, momenta and energy through the faces across an axis.

    - `rows`: density, velocities and pressure of the means of cells.
    - `pad`: `(rows, axis, ghosts) -> rows` with ghost cells at both ends of an axis.
    """
    n, ghosts = rows[0].shape[axis], reconstruction.ghosts
    faces = [other for other in range(rows[0].ndim) if other != axis] if reconstruction.order > 2 else []
    for other in faces:
        rows = pad(rows, other, TRANSVERSE)
    wide = along(pad(rows, axis, ghosts + 1), axis)
    lower, upper = apart(lambda wide: _edges(wide, axis, n, reconstruction, gamma), wide)
    mean = [cells(x, axis, ghosts, ghosts + n + 2) for x in wide]
    smooth = jnp.ones_like(mean[0])
    for other in faces:
        lower, upper, smooth = apart(partial(_at_middles, axis=other + 1), lower, upper, smooth)
        mean = [inner(x, other) for x in mean]

    def through(mean: Rows, lower: Array, upper: Array) -> tuple[Array, Array]:
        """The flux between states of which those that are not positive give way to the mean, and where they are."""
        below, above = to_primitive(list(lower), gamma), to_primitive(list(upper), gamma)
        good = positive(mean, below, above, gamma)
        return jnp.stack(riemann(*at_faces(good, mean, below, above, axis), gamma)), good

    flux, good = apart(through, mean, lower, upper)
    if faces:
        smooth = jnp.where(good, smooth, 0)
        smooth = jnp.minimum(cells(smooth, axis, 0, n + 1), cells(smooth, axis, 1, n + 2))
    for other in faces:
        smooth = inner(smooth, other)
        flux = mean_of(flux, other + 1, smooth[None])
    return back(list(flux), axis)


def _edges(wide: Rows, axis: int, n: int, reconstruction: Reconstruction, gamma: Array) -> tuple[Array, Array]:
    """Conserved means over the lower and the upper face of the cells -1 to n, from rows with ghost cells.

    Quantities are the first axis, so that one formula serves all of them: less to compile.
    """
    ghosts = reconstruction.ghosts
    conserved = to_conserved(wide, gamma)
    stencils = [[cells(x, axis, i, i + n + 2) for x in conserved] for i in range(2 * ghosts + 1)]
    if not ghosts:
        return jnp.stack(stencils[0]), jnp.stack(stencils[0])
    sides = []
    for side in (0, 1):
        below, above = ([cells(x, axis, ghosts + i, ghosts + i + n + 2) for x in wide] for i in (side - 1, side))
        waves = Waves.between(below, above, gamma)
        strengths = apart(
            lambda waves, stencils: [jnp.stack(waves.strengths(rows)) for rows in stencils], waves, stencils
        )
        found = apart(lambda strengths: reconstruction.edges(*strengths)[side], strengths)  # noqa: B023
        sides.append(jnp.stack(waves.conserved(list(found))))
    return sides[0], sides[1]


def _at_middles(lower: Array, upper: Array, smooth: Array, axis: int) -> tuple[Array, Array, Array]:
    """Return values at the middles of faces along an axis, where the flow is smooth, and how smooth it is."""
    here = jnp.minimum(smoothness(lower, axis), smoothness(upper, axis))
    smooth = jnp.minimum(here, inner(smooth, axis - 1))

    return value_of(lower, axis, smooth[None]), value_of(upper, axis, smooth[None]), smooth
