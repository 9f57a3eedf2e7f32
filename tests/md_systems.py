"""What the tests of molecular dynamics share: rattled lattices in every space, and the plain sum over all pairs and images."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from simkit.md import OpenSpace, Orthorhombic, Triclinic
from simkit.md.potentials._pair_terms import at_tables
from simkit.md.potentials._potential import BySpecies, is_table, parts


def lattice(counts, edge, seed=0, rattle=0.12, shift=-3.0):
    """Atoms on a rattled grid, with some of them outside the cell."""
    counts = tuple(counts)
    grid = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1).reshape(-1, len(counts))
    random = np.random.default_rng(seed)
    return edge * grid + random.uniform(-rattle, rattle, grid.shape) + shift, edge * np.array(counts, float)


SHEAR = {
    3: np.array([[1.0, 0.37, -0.43], [0.21, 1.0, 0.35], [-0.3, 0.45, 1.0]]),
    2: np.array([[1.0, 0.6], [-0.3, 1.0]]),
}


def configuration(kind, counts, edge=1.15, seed=0):
    """(space, positions) of a kind: "open", "orthorhombic" or "triclinic", in as many dimensions as there are counts."""
    x, lengths = lattice(counts, edge, seed)
    if kind == "open":
        return OpenSpace(len(counts)), jnp.asarray(x)
    if kind == "orthorhombic":
        return Orthorhombic(lengths), jnp.asarray(x)
    shear = SHEAR[len(counts)] / abs(np.linalg.det(SHEAR[len(counts)])) ** (1 / len(counts))
    return Triclinic(np.diag(lengths) @ shear), jnp.asarray(x @ shear)


def species_and_charges(atoms, seed=3):
    random = np.random.default_rng(seed)
    return jnp.asarray(random.integers(0, 2, atoms), jnp.int32), jnp.asarray(random.normal(size=atoms))


def plain_energy(potential, space, position, species=None, charge=None, reach=(1, 1, 1)):
    """Every pair at every image up to `reach` along each lattice vector, with nothing but automatic differentiation; no tails."""
    d = space.dimensions
    ranges = [range(-k, k + 1) if space.periodic else range(1) for k in reach[:d]]
    images = jnp.asarray(list(itertools.product(*ranges)), float) @ space.vectors()
    total = 0.0
    for part in parts(potential):

        def gather(leaf):
            if not is_table(leaf):
                return leaf
            return leaf.table[species[:, None], species[None, :]][None]

        coefficients = part.coefficients()
        constants = part.truncation.constants(at_tables(part, coefficients), part.cutoff)
        constants = jax.tree.map(lambda a: BySpecies(a) if a.ndim == 2 else a, constants)
        values, ends = jax.tree.map(gather, (coefficients, constants), is_leaf=is_table)
        apart = position[None, :, None] - position[None, None, :] + images[:, None, None]
        r2 = jnp.sum(apart**2, -1)
        inside = (r2 < part.cutoff**2) & (r2 > 1e-20)
        r2 = jnp.where(inside, r2, part.cutoff**2)
        wide = jax.tree.map(lambda a, shape=r2.shape: jnp.broadcast_to(a, shape) if a.ndim == 3 else a, (values, ends))
        u, slope = part.pair(r2, wide[0])
        u, _ = part.truncation.apply(r2, u, slope, wide[1], part.cutoff)
        if part.charged:
            u = u * (charge[:, None] * charge[None, :])[None]
        total = total + 0.5 * jnp.sum(jnp.where(inside, u, 0.0)) + part.self_energy(charge)
    return total


def reach_of(space, cutoff):
    """Images that atoms of `lattice` need: they span little more than one cell."""
    distances = np.asarray(space.plane_distances())
    return tuple(int(cutoff / w + 1.5) if np.isfinite(w) else 0 for w in distances)
