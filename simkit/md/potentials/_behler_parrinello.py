"""High-dimensional neural network potentials of Behler and Parrinello."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..files._n2p2_files import NetworkTable, SymmetryFunction
from ._many_body import AtomicPotential, AtomView
from ._symmetry_functions import RADIAL, WEIGHTED, Group, Pairs, grouped, values_of


class BehlerParrinello(AtomicPotential):
    r"""A learned potential: of each atom a neural network on symmetry functions of its neighbours,

    $$U = \sum_i \Big[ u_0^{e_i} + N^{e_i}\big(s^{e_i} (G_i - c^{e_i})\big) \Big]$$

    with one network N an element e. Symmetry functions G are sums over neighbours (types 2, 12 and 20 of n2p2) and over
    pairs of neighbours (3, 9, 13, 21, 22), such as

    $$G^2 = \sum_j e^{-\eta (r_{ij} - r_s)^2} f_c(r_{ij}), \qquad
    G^3 = 2^{1 - \zeta} \sum_{j < k} (1 + \lambda \cos\theta_{jik})^\zeta e^{-\eta (r_{ij}^2 + r_{ik}^2 + r_{jk}^2)}
    f_c(r_{ij}) f_c(r_{ik}) f_c(r_{jk})$$

    Weights, biases, centres, factors and the energies of single atoms are arrays, by which there are derivatives; so a published
    potential can be trained on, with `EnergiesAndForces`. The symmetry functions themselves are fixed.

    **Fields:**

    - `layers`: for each species the weights (from, to) and biases of its layers.
    - `centres`, `factors`: for each species what is subtracted from its symmetry functions, and by which they are multiplied.
    - `offsets`: the energy of an atom of each species, `scale`: the energy of a network's output of 1.

    **Made by:** `BehlerParrinello.from_table(read_n2p2(folder, ["H", "O"]))`.

    **Reference:** Behler and Parrinello (2007), doi:10.1103/PhysRevLett.98.146401, eqs. 4 to 6; Behler (2011),
    doi:10.1063/1.3553717; Bircher, Singraber and Dellago (2021), doi:10.1088/2632-2153/abf817, for types 20 to 25.
    """

    layers: tuple[tuple[tuple[Array, Array], ...], ...]
    centres: tuple[Array, ...]
    factors: tuple[Array, ...]
    offsets: Array
    scale: Array
    least: float = eqx.field(static=True)
    functions: tuple[tuple[SymmetryFunction, ...], ...] = eqx.field(static=True)
    numbers: tuple[int, ...] = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    activations: str = eqx.field(static=True)
    normalised: bool = eqx.field(static=True)
    cutoff: float | None = eqx.field(static=True)

    def __init__(self, table: NetworkTable, functions: tuple[tuple[SymmetryFunction, ...], ...], energy: float):
        """See `from_table`; `functions` in the lengths of the system."""
        as_array = lambda x: jnp.asarray(x, float)
        self.layers = jax.tree.map(as_array, table.layers)
        self.centres, self.factors = jax.tree.map(as_array, (table.centres, table.factors))
        self.offsets, self.scale = as_array(table.offsets * energy), as_array(table.energy * energy)
        self.least, self.functions, self.numbers = table.least, functions, table.atomic_numbers
        self.places, self.activations, self.normalised = table.places, table.activations, table.normalised
        self.cutoff = max(f.cutoff for row in functions for f in row)

    @classmethod
    def from_table(cls, table: Any, *, length: float = 1.0, energy: float = 1.0) -> "BehlerParrinello":
        """The potential of a `NetworkTable` that `read_n2p2` read; species are its elements in their order.

        **Arguments:** `length`, `energy`: what the unit of the files is in the numbers of the simulation. Most potentials are in
        bohr and hartree: for a system in angstrom and electron volts 0.529177210903 and 27.211386245988.

        **Raises:** an `ArgumentError` for another table, or a unit that is not positive.
        """
        if not isinstance(table, NetworkTable):
            raise ArgumentError(
                f"Argument `table` must be a `NetworkTable` of `read_n2p2`, but is a `{type(table).__name__}`."
            )
        if not (length > 0 and energy > 0):
            raise ArgumentError(f"Arguments `length` and `energy` must be positive, but are {length} and {energy}.")
        return cls(table, tuple(tuple(_scaled(f, length) for f in row) for row in table.functions), energy)

    @property
    def species_count(self) -> int | None:
        return len(self.functions) if len(self.functions) > 1 else None

    def atom_energies(self, view: AtomView) -> Array:
        row = view.distance.shape[1]
        species = jnp.zeros(view.distance.shape, jnp.int32) if view.species is None else view.gather(view.species)
        place = jnp.asarray(np.array(self.places, np.int32))[species]
        groups, found = grouped(self.functions)

        def values(near: Array, r: Array, components: tuple[Array, ...], place: Array) -> tuple[Array, ...]:
            """The symmetry functions of one atom, as those of an atom of each species."""
            pairs = self._pairs(near, r, components, place)
            whole = [values_of(group, pairs) for group in groups]
            return tuple(
                jnp.stack([_chosen(groups[g], whole[g][k, m], others) for g, k, m, others in one]) for one in found
            )

        # Arrays over pairs of neighbours are to fit into the second-level cache.
        batch = max(1, TRIPLES // row**2)
        rows = view.mask, view.distance, view.components, place
        every = lax.map(jax.checkpoint(lambda row: values(*row)), rows, batch_size=batch)
        total = jnp.zeros_like(view.distance[:, 0])
        own = None if view.species is None else view.own(view.species)
        for k, one in enumerate(every):
            energies = self._network(k, one)
            total = total + (energies if own is None else jnp.where(own == k, energies, 0))
        return total

    def _network(self, k: int, values: Array) -> Array:
        """The energies of atoms of one species."""
        dtype = values.dtype
        cast = lambda x: x.astype(dtype)
        x = (values - cast(self.centres[k])[None]) * cast(self.factors[k])[None] + self.least
        for (weights, bias), letter in zip(self.layers[k], self.activations, strict=True):
            x = x @ cast(weights) + cast(bias)[None]
            x = ACTIVATED[letter](x / weights.shape[0] if self.normalised else x)
        return x[:, 0] * cast(self.scale) + cast(self.offsets[k])

    def _pairs(self, near: Array, r: Array, components: tuple[Array, ...], place: Array) -> Pairs:
        """Distances and angles of the neighbours of one atom."""
        elements = jnp.arange(len(self.numbers), dtype=jnp.int32)
        weights = (place[:, None] == elements[None]).astype(r.dtype)
        charge = jnp.asarray(np.array(self.numbers, float), r.dtype)[place]
        square = functools.reduce(jnp.add, [(a[None] - a[:, None]) ** 2 for a in components])
        both = near[:, None] & near[None] & (square > 0) & ~jnp.eye(len(r), dtype=bool)
        assert self.cutoff is not None
        across = jnp.sqrt(jnp.where(both, square, self.cutoff**2))
        cosine = functools.reduce(jnp.add, [(a / r)[:, None] * (a / r)[None] for a in components])
        return Pairs(r, near, weights, charge, across, both, jnp.where(both, cosine, 0))

    def __repr__(self) -> str:
        counts = ", ".join(str(len(row)) for row in self.functions)
        return f"BehlerParrinello({counts} symmetry functions a species, cutoff {self.cutoff:.6g})"


TRIPLES = 16384
"""Pairs of neighbours, of all atoms that are evaluated together."""


def _chosen(group: Group, part: Array, others: tuple[int, ...]) -> Array:
    """The value for neighbours of these elements, of values by element."""
    if group.kind in WEIGHTED:
        others = (0,) if group.kind in RADIAL else (0, 0)
    twice = len(others) == 2 and others[0] == others[1]  # both orders of a pair of one element
    return 0.5 * part[others] if twice else part[others]


ACTIVATED = {
    "l": lambda x: x,
    "t": jnp.tanh,
    "s": jax.nn.sigmoid,
    "p": jax.nn.softplus,
    "r": jax.nn.relu,
    "g": lambda x: jnp.exp(-0.5 * x * x),
    "c": jnp.cos,
    "S": lambda x: jax.nn.sigmoid(-x),
    "e": lambda x: jnp.exp(-x),
    "h": lambda x: x * x,
}
"""Activation functions by their letter in `input.nn`."""


def _scaled(f: SymmetryFunction, length: ArrayLike) -> SymmetryFunction:
    """The symmetry function in other lengths."""
    unit = float(length)  # pyright: ignore[reportArgumentType]
    if f.kind >= 20:
        left, right, *angles = f.numbers
        return SymmetryFunction(f.kind, f.sorting, f.shape, f.others, (left * unit, right * unit, *angles))
    eta, shift, spread, power, end, alpha = f.numbers
    numbers = (eta / unit**2, shift * unit, spread, power, end * unit, alpha)
    return SymmetryFunction(f.kind, f.sorting, f.shape, f.others, numbers)
