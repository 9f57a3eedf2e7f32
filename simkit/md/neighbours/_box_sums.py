"""Energies, virials and outputs of many cells at once, one a cell."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ..dynamics._brownian import Brownian
from ..dynamics._dynamics import Dynamics
from ..dynamics._langevin import Langevin
from ..dynamics._nve import NVE
from ..potentials._pair_terms import at_tables
from ..potentials._potential import Potential
from ..potentials._terms import Terms, terms_of
from ..space._atoms import Atoms
from ..space._boxes import Boxes, summed
from ..space._space import Space
from ._brick import flat
from ._pair_sums import Point

if TYPE_CHECKING:
    from ..dynamics._dynamics import Body

SEPARATE = (NVE, Langevin, Brownian)
"""Dynamics in which every atom moves for itself."""


def check_boxes(
    space: Space, potential: Potential, dynamics: Dynamics, constraints: object, exclusions: object
) -> None:
    """Refuse what would join the cells, and what is not done for several of them."""
    if not isinstance(space, Boxes):
        return
    many = [type(part).__name__ for part in terms_of(potential).many]
    if many:
        raise ArgumentError(
            f"Argument `potential` must be a sum over pairs for atoms in `Boxes`, but has {', '.join(many)}. Run such members "
            "padded to one size, by `stack_atoms`."
        )
    if not isinstance(dynamics, SEPARATE):
        raise ArgumentError(
            f"Argument `dynamics` must move every atom for itself in `Boxes`, as {', '.join(kind.__name__ for kind in SEPARATE)} "
            f"do, but {type(dynamics).__name__} would join the cells. Run members padded to one size, by `stack_atoms`."
        )
    if constraints is not None or exclusions is not None:
        raise ArgumentError(
            "Arguments `constraints` and `exclusions` must be None for atoms in `Boxes`, but are given. Run members padded to "
            "one size, by `stack_atoms`."
        )


def box_virial(space: Boxes, slopes: Array, inside: Array, by: Point, point: Point) -> Array:
    """The derivative of each cell's energy by a deformation, (boxes, d, d)."""
    d = space.dimensions
    lever = summed(slopes[:, :, None] * inside[:, None, :], space)
    deformed = jnp.einsum("bkc,bkd->bcd", by.vectors, point.vectors)
    return lever + flat(flat(deformed, d).swapaxes(1, 2), d).swapaxes(1, 2)


def box_ends(
    terms: Terms, space: Boxes, position: Array, species: Array | None, charge: Array | None
) -> tuple[Array, Array]:
    """Return for each cell the self-energies of charges, the tails of pair potentials in a uniform fluid, and the virial of the
    tails."""
    counts = np.asarray(space.counts)
    total = virial = jnp.zeros(len(counts), position.dtype)
    for part in terms.pairs:
        if charge is not None and part.charged:
            each = jax.vmap(lambda q, part=part: jnp.asarray(part.self_energy(q[None]), position.dtype))(charge)
            total = total + summed(each, space)
        tail = part.truncation.tail(at_tables(part, part.coefficients()), part.cutoff, space.dimensions)
        if tail is None:
            continue
        volume = space.volume().astype(position.dtype)
        u, lever = (_uniform(a.astype(position.dtype), space, species) / volume for a in tail)
        total, virial = total + u, virial + lever
    return total, virial


def _uniform(table: Array, space: Boxes, species: Array | None) -> Array:
    if table.ndim == 0:
        return 0.5 * jnp.asarray(space.counts, table.dtype) ** 2 * table
    assert species is not None, "refused before"
    rows = (species[:, None] == jnp.arange(len(table), dtype=jnp.int32)[None]).astype(table.dtype)
    numbers = summed(rows, space)
    return 0.5 * jnp.einsum("bs,st,bt->b", numbers, table, numbers)


def doubled_kinetic_of_boxes(space: Boxes, body: "Body", dynamics: Dynamics, atoms: Atoms) -> Array:
    """Twice the kinetic energy of each cell."""
    if isinstance(dynamics, Brownian):  # the mean
        return dynamics.doubled_kinetic(body, atoms)
    return summed(jnp.sum(atoms.momentum**2 / body.mass, axis=1), space)
