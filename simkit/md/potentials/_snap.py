"""Spectral neighbour analysis potentials."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from ..._errors import ArgumentError
from ..files._snap_files import SnapTable
from ._bispectrum import bispectrum, components, fields_of, sphere, upper_rows, weighted_sum
from ._many_body import AtomicPotential, AtomView
from ._surroundings import taken


class SNAP(AtomicPotential):
    r"""A spectral neighbour analysis potential: a polynomial in the bispectrum components of the density of neighbours,

    $$U = \sum_i \Big[ \beta_0^{e_i} + \beta^{e_i} \cdot B_i + \tfrac{1}{2} B_i^T \alpha^{e_i} B_i \Big]$$

    The density lies on the sphere in four dimensions, where a neighbour at (x, y, z) has the angle
    $\theta_0 = \mathrm{rfac0}\, \pi (r - r_{min}) / (r_c - r_{min})$ and the weight $w_j f_c(r)$, with
    $f_c = (1 + \cos \pi \tfrac{r - r_{min}}{r_c - r_{min}}) / 2$:

    $$U^j_{m m'} = w_{self}\, \delta_{m m'} + \sum_k w_k f_c(r_{ik}) u^j_{m m'}(\theta_0, \hat r_{ik}), \qquad
    B_{j_1 j_2 j} = \sum_{m m'} (U^j_{m m'})^* \sum C\, C\, U^{j_1} U^{j_2}$$

    with Clebsch-Gordan coefficients C. Coefficients are arrays by which there are derivatives: a published potential can be trained
    on, by `EnergiesAndForces`; energies and forces of a linear one are linear in them.

    **Fields:**

    - `constant`, `linear`, `quadratic`: coefficients of each species, shape (species,), (species, components) and (species,
        components, components); the last symmetric, or None.
    - `weight`: shape (species,), of each as a neighbour.

    **Made by:** `SNAP.from_table(read_snap("Ta06A.snapcoeff", "Ta06A.snapparam", ["Ta"]))`. Published potentials are mostly fitted
    beside a repulsion of nuclei, a pair style `zbl` to be added: `read_lammps` does both.

    Forces are the derivative of this energy for any coefficients. With components by triples of elements (`chemflag`) those of
    LAMMPS are its derivative only where coefficients of equal components are equal, such as those of the triples (a, b, c) and (c,
    b, a) of $B_{j 0 j}$; with others, as random ones, energies agree and forces do not.

    **Reference:** Thompson, Swiler, Trott, Foiles and Tucker (2015), doi:10.1016/j.jcp.2014.12.018, eqs. 4 to 17; Wood and Thompson
    (2018), doi:10.1063/1.5017641, for quadratic ones; Cusentino, Wood and Thompson (2020), doi:10.1021/acs.jpca.0c02450, for
    components by triples of elements.
    """

    constant: Array
    linear: Array
    quadratic: Array | None
    weight: Array
    radius: tuple[float, ...] = eqx.field(static=True)
    inner: tuple[tuple[float, ...], ...] | None = eqx.field(static=True)
    twice: int = eqx.field(static=True)
    factor: float = eqx.field(static=True)
    rfac0: float = eqx.field(static=True)
    rmin0: float = eqx.field(static=True)
    flags: tuple[str, ...] = eqx.field(static=True)
    cutoff: float | None = eqx.field(static=True)

    def __init__(self, table: SnapTable, length: float, energy: float):
        """See `from_table`."""
        as_array = lambda x: jnp.asarray(x, float)
        self.constant, self.linear = as_array(table.constant * energy), as_array(table.linear * energy)
        self.quadratic = None if table.quadratic is None else as_array(table.quadratic * energy)
        self.weight = as_array(table.weight)
        self.radius = tuple((table.radius * length).tolist())
        self.inner = None if table.inner is None else tuple(map(tuple, (table.inner * length).tolist()))
        self.twice, self.factor, self.rfac0, self.rmin0 = table.twice, table.factor, table.rfac0, table.rmin0 * length
        self.flags = tuple(name for name, value in table.flags.items() if value)
        self.cutoff = 2 * max(self.radius) * self.factor

    @classmethod
    def from_table(cls, table: Any, *, length: float = 1.0, energy: float = 1.0) -> "SNAP":
        """The potential of a `SnapTable` that `read_snap` read; species are its elements in their order.

        **Arguments:** `length`, `energy`: what the unit of the files, mostly angstrom and electron volt, is in the numbers of the
        simulation.

        **Raises:** an `ArgumentError` for another table, or a unit that is not positive.
        """
        if not isinstance(table, SnapTable):
            raise ArgumentError(
                f"Argument `table` must be a `SnapTable` of `read_snap`, but is a `{type(table).__name__}`."
            )
        if not (length > 0 and energy > 0):
            raise ArgumentError(f"Arguments `length` and `energy` must be positive, but are {length} and {energy}.")
        return cls(table, length, energy)

    @property
    def species_count(self) -> int | None:
        return len(self.radius) if len(self.radius) > 1 else None

    @property
    def channels(self) -> int:
        """Number of densities of an atom: one, or one an element of neighbours."""
        return len(self.radius) if "chem" in self.flags else 1

    def atom_energies(self, view: AtomView) -> Array:
        own, theirs = jnp.zeros(len(view.distance), jnp.int32), jnp.zeros(view.distance.shape, jnp.int32)
        if len(self.radius) > 1 and view.species is not None:
            own, theirs = view.own(view.species), view.gather(view.species)
        given = own, theirs, self._rotations(view, own, theirs)
        size = max(1, PLACES // view.distance.shape[1])
        blocks = -(-len(own) // size)

        def cut(x: Array) -> Array:
            """Arrays of atoms in blocks, the last of which ends in copies of the last atom."""
            rows = jnp.minimum(jnp.arange(blocks * size, dtype=jnp.int32), len(own) - 1)
            return taken(x, rows).reshape(blocks, size, *x.shape[1:])

        # In a loop of its own, so that what is kept for each neighbour stays in the cache, and cosines are computed once.
        each = lax.map(jax.checkpoint(lambda block: self._energies(*block)), jax.tree.map(cut, given))
        return each.reshape(-1)[: len(own)]

    def _energies(self, own: Array, theirs: Array, given: tuple[Array, ...]) -> Array:
        """The energies of a block of atoms, from rotations and weights of their neighbours."""
        functions = self._functions(own, theirs, given)
        count = self.channels
        scale, zero = self._normalised(), self._zero()[own]
        if self.quadratic is None:
            constant = self.constant[own] - jnp.sum(self.linear[own] * zero, axis=1)
            linear = (self.linear * scale[None])[own].T
            return constant + weighted_sum(functions, linear.reshape(count, count, count, -1, len(own)))
        found = bispectrum(functions).reshape(-1, len(own)).T * scale[None] - zero
        energies = self.constant[own] + jnp.sum(found * self.linear[own], axis=1)
        for k in range(len(self.radius)):
            squares = 0.5 * jnp.einsum("ak,kl,al->a", found, self.quadratic[k], found, precision="highest")
            energies = energies + jnp.where(own == k, squares, 0)
        return energies

    def _normalised(self) -> Array:
        """Factors of the components, shape (components,)."""
        j = np.array([j for _, _, j in components(self.twice)] * self.channels**3)
        return jnp.asarray(1.0 / (j + 1) if "bnorm" in self.flags else np.ones(len(j)), self.linear.dtype)

    def _zero(self) -> Array:
        """Components of atoms without neighbours, where these are taken off, shape (species, components)."""
        species, count = len(self.radius), self.channels
        j = np.array([j for _, _, j in components(self.twice)])
        one = (np.ones(len(j)) if "bnorm" in self.flags else j + 1.0) * ("bzero" in self.flags)
        found = np.zeros((species, count, count, count, len(j)))
        if count == 1 or "wselfall" in self.flags:
            found[:] = one
        else:
            found[(np.arange(species),) * 4] = one
        return jnp.asarray(found.reshape(species, -1), self.linear.dtype)

    def _rotations(self, view: AtomView, own: Array, species: Array) -> tuple[Array, ...]:
        """Cayley-Klein parameters of the neighbours (four numbers), and their weights."""
        r, dtype = view.distance, view.distance.dtype
        by_pair = lambda table: jnp.asarray(np.add.outer(table, table), dtype)[own[:, None], species]
        reach = by_pair(np.array(self.radius) * self.factor)
        inside = view.mask & (r < reach)
        share = (jnp.where(inside, r, reach) - self.rmin0) / (reach - self.rmin0)
        weight = jnp.where(inside, self.weight.astype(dtype)[species], 0)
        if "switch" in self.flags:
            weight = weight * 0.5 * (jnp.cos(np.pi * jnp.maximum(share, 0)) + 1)
        if self.inner is not None:
            middle, half = (by_pair(np.array(row) / 2) for row in self.inner)
            weight = weight * 0.5 * (1 + jnp.sin(0.5 * np.pi * jnp.clip((r - middle) / half, -1, 1)))
        angle = self.rfac0 * np.pi * share
        sign = jnp.where(angle < 0, -1, 1).astype(dtype)  # nearer than rmin0 the sine stays positive
        cosine, sine = sign * jnp.cos(angle), sign * jnp.sin(angle) / r
        x, y, z = view.components
        return cosine, -sine * z, sine * y, -sine * x, weight

    def _functions(self, own: Array, species: Array, given: tuple[Array, ...]) -> list[list[Array]]:
        """The density of the neighbours of each channel, as functions on the sphere."""
        *numbers, weight = given
        functions = []
        for k in range(self.channels):
            mine = weight if self.channels == 1 else jnp.where(species == k, weight, 0)
            upper = upper_rows(self.twice, (numbers[0], numbers[1]), (numbers[2], numbers[3]), mine)
            density = [jnp.stack([jnp.sum(re, axis=-1), jnp.sum(im, axis=-1)]) for re, im in upper]
            alone = self.channels == 1 or "wselfall" in self.flags
            functions.append(fields_of(density, 1.0 if alone else (own == k).astype(weight.dtype)))
        return functions

    def __repr__(self) -> str:
        kind = "linear" if self.quadratic is None else "quadratic"
        points = len(sphere(self.twice).weight)
        return (
            f"SNAP({kind}, {self.linear.shape[1]} components a species, twojmax {self.twice}, {points} points, "
            f"cutoff {self.cutoff:.6g})"
        )


PLACES = 1024
"""Places of neighbours of a block of atoms: some hundred numbers are kept for each."""
