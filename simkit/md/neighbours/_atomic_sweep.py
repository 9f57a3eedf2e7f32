"""The sweep of energies that are sums over atoms, each of which sees its own neighbours only: a block of atoms at a time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from ..potentials._many_body import AtomicPotential, AtomView
from ..potentials._surroundings import Rows, components_of, seen
from ._derivative_rule import Sweep
from ._manual import varying_like
from ._pair_sums import Point, Wanted, along

PLACES = 8192
"""Number of places in all rows of a block: some twenty arrays of this size fit into the second-level cache."""


class _Sums(NamedTuple):
    """Derivatives by positions and by the shifts of the images are kept by component."""

    energy: Array
    position: list[Array]
    shifts: list[Array]
    terms: Any


class AtomicSweep(Sweep):
    """Sum over all potentials of this family; positions of the point are wrapped as the lists say."""

    potentials: tuple[AtomicPotential, ...] = eqx.field(static=True)  # without their arrays
    periodic: bool = eqx.field(static=True)
    images: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # lattice vectors to add, by the numbers in the lists
    dtype: str = eqx.field(static=True)  # of distances and energies

    def __call__(
        self, wanted: Wanted, fixed: PyTree, point: Point, direction: Point | None = None
    ) -> tuple[Array, Point]:
        everything = fixed, point, direction
        point, direction = varying_like(point, everything), varying_like(direction, everything)
        return along(lambda point: self._summed(wanted, fixed, point), point, direction)

    def _summed(self, wanted: Wanted, fixed: PyTree, point: Point) -> tuple[Array, Point]:
        x, lists = point.position, fixed.lists
        atoms, d = x.shape
        images = jnp.asarray(self.images, x.dtype)
        every = [x[:, c] for c in range(d)]
        shifts = [images @ point.vectors[:, c] for c in range(d)] if self.periodic else None
        size = min(max(PLACES // lists.neighbour.shape[1], 1), atoms)
        zero = jax.tree.map(jnp.zeros_like, _Sums(x[0, 0], every, shifts or [], point.terms))

        def body(sums: _Sums, number: Array) -> tuple[_Sums, None]:
            begin = jnp.minimum(number * size, atoms - size)  # the last block goes over some atoms again, for nothing
            own = begin + jnp.arange(size, dtype=jnp.int32)
            cut = lambda a: lax.dynamic_slice_in_dim(a, begin, size)
            rows = Rows(cut(lists.neighbour), cut(lists.image), cut(lists.listed) & (own >= number * size)[:, None])
            apart = components_of(rows, [cut(a) for a in every], every, shifts)
            counts = own >= number * size
            counts = counts if fixed.real is None else counts & cut(fixed.real)
            energy = lambda apart, terms: self._energy(fixed, terms, rows, own, counts, apart)
            if wanted == "energy":
                return sums._replace(energy=sums.energy + energy(apart, point.terms)), None
            if wanted == "force":
                found, slopes = jax.value_and_grad(energy)(apart, point.terms)
                terms = sums.terms
            else:
                found, (slopes, by) = jax.value_and_grad(energy, (0, 1))(apart, point.terms)
                terms = jax.tree.map(jnp.add, sums.terms, by)
            position, moved = [], sums.shifts
            for total, slope in zip(sums.position, slopes, strict=True):
                total = total.at[rows.neighbour].add(slope, mode="promise_in_bounds")
                position.append(total.at[own].add(-jnp.sum(slope, axis=1), mode="promise_in_bounds"))
            if wanted == "gradient" and self.periodic:
                both = zip(sums.shifts, slopes, strict=True)
                moved = [total.at[rows.image].add(slope, mode="promise_in_bounds") for total, slope in both]
            return _Sums(sums.energy + found, position, moved, terms), None

        sums, _ = lax.scan(body, zero, jnp.arange(-(-atoms // size), dtype=jnp.int32))
        vectors = jnp.zeros_like(point.vectors)
        if self.periodic:
            vectors = jnp.stack([images.T @ by for by in sums.shifts], axis=1)
        charge = None if point.charge is None else jnp.zeros_like(point.charge)
        return sums.energy, Point(sums.terms, vectors, jnp.stack(sums.position, axis=1), charge)

    def _energy(
        self, fixed: PyTree, terms: PyTree, rows: Rows, own: Array, real: Array, components: Sequence[Array]
    ) -> Array:
        total = jnp.zeros((), components[0].dtype)
        low = jnp.dtype(self.dtype)
        components = [a.astype(low) for a in components]
        for skeleton, floats, arrays in zip(self.potentials, terms, fixed.arrays, strict=True):
            potential = eqx.combine(jax.tree.map(lambda a: a.astype(low), floats), arrays, skeleton)
            cutoff: Any = skeleton.cutoff
            found = seen(rows.listed, components, cutoff)
            view = AtomView(None, None, fixed.species, None, rows.neighbour, *found, own)
            total = total + jnp.sum(jnp.where(real, potential.atom_energies(view).astype(total.dtype), 0))
        return total
