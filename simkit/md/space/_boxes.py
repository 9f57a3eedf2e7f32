"""Many periodic cells at once, each with atoms of its own."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from ..._errors import ArgumentError
from ...core import quantity
from ._atoms import Atoms
from ._space import Orthorhombic, Space, Triclinic, inverse, times


class Boxes(Space):
    """Periodic cells of different sizes side by side, whose atoms do not see each other: a batch that costs what its atoms cost.

    The atoms of all cells are the rows of one `Atoms`, those of the first cell first. They share one list of neighbours, without
    padding to the largest. Energies, temperatures and pressures are then one a cell, shape (boxes,), and forces one an atom.

    **Arguments:**

    - `spaces`: `Orthorhombic` or `Triclinic` cells, all in two or all in three dimensions.
    - `counts`: how many atoms each has.

    **Good values:** cells of some hundred atoms or more, of like density. All have the same potential, temperature and step; where
    those differ, `stack_atoms` makes members of an ensemble.

    **Raises:** an `ArgumentError` for a cell without atoms, and for open space.

    ```python
    import jax.numpy as jnp
    import simkit
    from simkit import md

    starts = [md.crystal("fcc", 1.7, repeats) for repeats in ((3, 3, 3), (3, 3, 4))]
    boxes = md.Boxes([s.space for s in starts], [len(s.position) for s in starts])
    atoms = boxes.joined([md.Atoms(s.position, 0.1 * jnp.sin(s.position)) for s in starts])
    run = simkit.simulate(md.Particles(md.LennardJones(cutoff=1.6), boxes), atoms, [0.0, 0.1], step=0.005)
    print([own.position.shape for own in boxes.parted(run.final())])
    ```
    """

    counts: tuple[int, ...] = eqx.field(static=True)
    skewed: bool = eqx.field(static=True)
    lattices: Float[Array, "boxes d d"] = quantity(unit="length", doc="lattice vectors of every cell as rows")

    def __init__(self, spaces: Sequence[Space], counts: Sequence[int]):
        spaces, counts = list(spaces), tuple(int(count) for count in counts)
        known = all(isinstance(space, Orthorhombic | Triclinic) for space in spaces)
        if not spaces or not known or len({space.dimensions for space in spaces}) > 1:
            raise ArgumentError(
                "Argument `spaces` must be `Orthorhombic` or `Triclinic` cells of as many dimensions, at least one, but they are "
                f"{[type(space).__name__ for space in spaces]} of {[space.dimensions for space in spaces]} dimensions."
            )
        if len(counts) != len(spaces) or min(counts) < 1:
            raise ArgumentError(
                f"Argument `counts` must say of each of the {len(spaces)} cells how many atoms it has, at least one, but is "
                f"{counts}."
            )
        self.lattices = jnp.stack([space.vectors() for space in spaces])
        self.counts = counts
        self.skewed = any(isinstance(space, Triclinic) for space in spaces)

    @property
    def dimensions(self) -> int:
        return self.lattices.shape[-1]

    @property
    def periodic(self) -> bool:
        return True

    @property
    def of(self) -> Array:
        """The cell of every atom."""
        return jnp.asarray(np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts))

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Every cell as a space of its own."""
        kind = Triclinic if self.skewed else lambda vectors: Orthorhombic(jnp.diagonal(vectors))
        return tuple(kind(vectors) for vectors in self.lattices)

    def vectors(self) -> Array:
        return self.lattices

    def volume(self) -> Array:
        return jax.vmap(lambda vectors: Triclinic(vectors).volume())(self.lattices)

    def plane_distances(self) -> Array:
        """Return the plane distances of all cells, shape (boxes, d)."""
        return jax.vmap(lambda vectors: Triclinic(vectors).plane_distances())(self.lattices)

    def wrap(self, position: Array) -> Array:
        """Wrap the positions of all atoms."""
        return position - self._rounded(jnp.floor, position)

    def displacement(self, a: Array, b: Array) -> Array:
        """Return the displacement between two rows of every atom, to the nearest image in the cell of that atom."""
        return a - b - self._rounded(jnp.round, a - b)

    def scaled(self, strain: Array) -> "Boxes":
        return eqx.tree_at(
            lambda s: (s.lattices, s.skewed), self, (self.lattices @ (jnp.eye(len(strain)) + strain.T), True)
        )

    def joined(self, members: Sequence[Atoms]) -> Atoms:
        """One `Atoms` of those of every cell."""
        members = list(members)
        sizes = tuple(len(member.position) for member in members)
        if sizes != self.counts or any(member.cell is not None or member.count is not None for member in members):
            raise ArgumentError(
                f"Argument `members` must be states of {self.counts} atoms without a cell or padding, but has {sizes} atoms."
            )
        return Atoms(*(jnp.concatenate([row(m) for m in members]) for row in (_position, _momentum)))

    def parted(self, states: PyTree) -> list[Any]:
        """The rows of each cell, of `Atoms` or an array with an axis of all atoms, the last but one, and any axes before it."""
        edges, total = np.cumsum(self.counts)[:-1].tolist(), sum(self.counts)

        def rows(x: Array) -> list[Array]:
            split = x.ndim > 1 and x.shape[-2] == total
            return jnp.split(x, edges, axis=-2) if split else [x] * len(self.counts)

        leaves, tree = jax.tree.flatten(states)
        return [jax.tree.unflatten(tree, own) for own in zip(*map(rows, leaves), strict=True)]

    def _rounded(self, whole: Callable[[Array], Array], x: Array) -> Array:
        images = lax.stop_gradient(whole(times(x, jax.vmap(inverse)(self.lattices)[self.of])))
        return times(images, self.lattices[self.of])


def _position(atoms: Atoms) -> Array:
    return atoms.position


def _momentum(atoms: Atoms) -> Array:
    return atoms.momentum


def boxes_of(space: Space) -> Array | None:
    """The cell of every atom, where there are several."""
    return space.of if isinstance(space, Boxes) else None


def of_row(a: Array, of: Array | None) -> Array:
    """Gather per-cell values to the rows; one cell is broadcast."""
    return a if of is None else a[of]


def summed(a: Array, space: Boxes) -> Array:
    """The sum over the atoms of every cell."""
    return jax.ops.segment_sum(a, space.of, len(space.counts), indices_are_sorted=True)


def check_one_cell(space: Space) -> None:
    """Refuse several cells where one is expected."""
    if isinstance(space, Boxes):
        raise ArgumentError(
            "The space must be one cell here, but it is `Boxes` of several. Take them apart: `boxes.spaces` are cells, and "
            "`boxes.parted(states)` the atoms of each."
        )
