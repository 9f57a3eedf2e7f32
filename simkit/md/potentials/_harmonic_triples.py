"""Harmonic angles of whichever neighbours are near."""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import quantity
from ..files._three_body_files import NB3B, ThreeBodyTable
from ._many_body import AtomView
from ._triples import Table, TriplePotential, Triples, by_pair, by_triple, numbers_of_table


class HarmonicTriples(TriplePotential):
    r"""Harmonic angles between all pairs of neighbours of an atom that are near enough, without a list of bonds,

    $$U = \sum_i \sum_{j<k} k_{ijk} (\theta_{jik} - \theta_{0,ijk})^2, \qquad r_{ij} < r_{c,ijj},\quad r_{ik} < r_{c,ikk}$$

    for layered minerals, in which the bonds of metals and oxygens change. The energy jumps where a neighbour comes or goes, as it
    does in LAMMPS (pair style `nb3b/harmonic`).

    **Arguments:** numbers, or one for each triple of species, the atom in the middle first, shape (species, species, species).
    Energies of (i, j, k) and (i, k, j) count as their mean.

    - `stiffness`: k, an energy over the square of a radian; `theta0`: in radians.
    - `reach`: of it only the entries (i, j, j) matter, the cutoffs of pairs.

    **Source:** https://docs.lammps.org/pair_nb3b.html.
    """

    stiffness: Triples = quantity(unit="energy", doc="of the angles")
    theta0: Triples = quantity(unit="rad", doc="angle without energy")
    reach: Triples = quantity(unit="length", doc="cutoff of a neighbour")
    cutoff: Any = eqx.field(static=True)  # a float

    def __init__(self, stiffness: Table, theta0: Table, reach: Table):
        self.stiffness, self.theta0, self.reach = stiffness, theta0, reach
        self.cutoff = float(np.max(np.diagonal(np.atleast_3d(np.asarray(reach, float)), axis1=1, axis2=2)))

    @classmethod
    def from_table(cls, table: ThreeBodyTable) -> "HarmonicTriples":
        """The potential of a `ThreeBodyTable` that `read_nb3b` read."""
        stiffness, degrees, reach = numbers_of_table(table, NB3B, "read_nb3b")
        return cls(stiffness, np.deg2rad(degrees), reach)

    def _numbers(self) -> tuple[Array, ...]:
        return self.stiffness, self.theta0, self.reach

    def atom_energies(self, view: AtomView) -> Array:
        *_, reach = by_pair(self._numbers(), view)
        stiffness, theta0, _ = by_triple(self._numbers(), view)
        near = view.mask & (view.distance < reach)
        both = near[:, :, None] & near[:, None, :] & ~jnp.eye(near.shape[1], dtype=bool)[None]
        direction = [x / view.distance for x in view.components]
        times = lambda i, j: direction[i][:, :, None] * direction[j][:, None, :]
        axes = range(len(direction))
        cosine = functools.reduce(jnp.add, [times(i, i) for i in axes])
        # By the cross product, as a cosine near one has lost the angle. In a row the angle has no derivative: 0.
        square = functools.reduce(jnp.add, [(times(i, j) - times(j, i)) ** 2 for i in axes for j in axes if i < j])
        bent = both & (square > 0)
        sine = jnp.where(bent, jnp.sqrt(jnp.where(bent, square, 1.0)), 0.0)
        angle = jnp.arctan2(sine, jnp.where(both, cosine, 1.0))
        return 0.5 * jnp.sum(jnp.where(both, stiffness * (angle - theta0) ** 2, 0), axis=(1, 2))
