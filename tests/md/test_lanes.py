"""Listed pairs of many molecules, summed side by side, against the same pairs summed as a list."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import md

LENNARD_JONES = "4*e*(s6*s6 - s6) + q/r; s6 = (s/r)^6"


def molecules(sizes, seed=0):
    """Places of atoms on jittered lattices, one molecule far from the next, and all pairs that are not next to each other."""
    random = np.random.default_rng(seed)
    first = np.cumsum(sizes) - sizes
    shape = lambda n: np.array(list(itertools.product(range(4), repeat=3)), float)[:n]
    position = np.concatenate(
        [shape(n) + 0.1 * random.normal(size=(n, 3)) + [50.0 * k, 0, 0] for k, n in enumerate(sizes)]
    )
    pairs = [(a + f, b + f) for n, f in zip(sizes, first, strict=True) for a in range(n) for b in range(a + 2, n)]
    pairs = random.permutation(np.array(pairs))
    swapped = random.random(len(pairs)) < 0.5
    return jnp.asarray(position), np.where(swapped[:, None], pairs[:, ::-1], pairs), random


def system_of(pairs, parameters, kind=None, formula=LENNARD_JONES):
    return md.Particles(md.FormulaTerms(formula, pairs, parameters, kind), md.OpenSpace())


def as_list(system):
    return eqx.tree_at(lambda s: s.potential.lanes, system, ())


def close(found, expected, tolerance=1e-12):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(np.abs(b).max(initial=0.0)))


@pytest.mark.parametrize("by_kind", [False, True])
def test_lanes_are_the_list(by_kind):
    """Energy, forces, virial, derivatives by parameters, and the Hessian, of odd and even numbers of atoms."""
    x, pairs, random = molecules(np.array([4, 5, 9, 12, 12, 12, 13, 17, 20, 21]))
    own = lambda: random.uniform(0.5, 1.0, 3 if by_kind else len(pairs))
    kind = random.integers(0, 3, len(pairs)) if by_kind else None
    system = system_of(pairs, {"e": own(), "s": 0.8, "q": own()}, kind)
    atoms = md.Atoms(x, jnp.zeros_like(x))
    system = system.prepared(atoms)
    assert system.potential.lanes
    listed = as_list(system)
    close(system.gradients(atoms), listed.gradients(atoms))
    close(system.energy(atoms), listed.energy(atoms))

    @eqx.filter_jit
    def slopes(system, direction):
        floats, rest = eqx.partition(system, eqx.is_inexact_array)
        work = lambda floats, x: jnp.vdot(
            eqx.combine(floats, rest).gradients(md.Atoms(x, jnp.zeros_like(x))).forces, direction
        )
        return jax.grad(work, argnums=(0, 1))(floats, x)

    direction = jnp.asarray(random.normal(size=x.shape))
    found, expected = slopes(system, direction), slopes(listed, direction)
    close(found, expected, 1e-11)
    assert min(float(jnp.abs(a).max()) for a in jax.tree.leaves(found[0].potential)) > 0


def test_many_blocks_of_molecules():
    """Over 128 molecules of one size class, of which the last block has fewer, in single precision."""
    sizes = np.random.default_rng(1).integers(5, 8, 1700)
    x, pairs, _ = molecules(sizes)
    atoms = md.Atoms(x.astype(jnp.float32), jnp.zeros_like(x, jnp.float32))
    system = simkit.cast(system_of(pairs, {"k": 2.0}, formula="k/r"), jnp.float32).prepared(atoms)
    assert max(len(lanes.atoms) for lanes in system.potential.lanes) == 2
    found, expected = system.gradients(atoms), as_list(system).gradients(atoms)
    np.testing.assert_allclose(found.forces, expected.forces, rtol=0, atol=1e-5)  # forces of up to 6, rounded to 6e-8
    np.testing.assert_allclose(found.energy, expected.energy, rtol=1e-5)


def test_members_of_an_ensemble_of_one_molecule():
    x, pairs, random = molecules(np.array([30]))
    system = system_of(pairs, {"e": 1.0, "s": 0.8, "q": random.normal(size=len(pairs))})
    system = system.prepared(md.Atoms(x, jnp.zeros_like(x)))
    assert system.potential.lanes
    members = x[None] + 0.05 * jnp.asarray(random.normal(size=(5, *x.shape)))
    of = lambda system: jax.vmap(lambda x: system.gradients(md.Atoms(x, jnp.zeros_like(x))))(members)
    close(of(system), of(as_list(system)))


def test_lists_stay_lists():
    """Few of the pairs inside molecules, a pair twice, few pairs, formulas of more than a distance: no lanes."""
    _, pairs, _ = molecules(np.array([20, 20, 20]))
    lanes = lambda pairs, formula="k*r": md.FormulaTerms(formula, pairs, {"k": 1.0}).lanes
    assert lanes(pairs)
    assert not lanes(np.stack([np.arange(400), np.arange(1, 401)], axis=1))
    assert not lanes(np.concatenate([pairs, pairs[:1, ::-1]]))
    assert not lanes(pairs[:100])
    assert not lanes(pairs, "k*distance(p1, p2)")


def test_missing_atoms_and_coincident_ones_are_not_numbers():
    x, pairs, _ = molecules(np.array([20, 20, 20]))
    system = system_of(pairs, {"k": 1.0}, formula="k/r").prepared(md.Atoms(x, jnp.zeros_like(x)))
    fewer, same = x[:-1], x.at[2].set(x[0])
    assert jnp.isnan(system.energy(md.Atoms(fewer, jnp.zeros_like(fewer))))
    found = system.gradients(md.Atoms(same, jnp.zeros_like(same)))
    assert not jnp.isfinite(found.energy)
    assert jnp.isnan(found.forces[0]).all()
    spring = system_of(pairs, {"k": 1.0}, formula="k*r^2").prepared(md.Atoms(x, jnp.zeros_like(x)))
    close(spring.gradients(md.Atoms(same, jnp.zeros_like(same))), as_list(spring).gradients(md.Atoms(same, 0 * same)))


def test_periodic_cells_take_the_list():
    """Images nearest to each other are a matter of the list: energies there do not depend on lanes."""
    x, pairs, _ = molecules(np.array([20, 20]))
    term = md.FormulaTerms("k/r", pairs, {"k": 1.0})
    assert term.lanes
    system = md.Particles(term, md.Orthorhombic([110.0, 40.0, 40.0]))
    shifted = x + jnp.array([[0.0, 39.0, 0.0]])
    apart = [system.prepared(md.Atoms(y, 0 * y)).energy(md.Atoms(y, 0 * y)) for y in (x, shifted % 40.0)]
    close(apart[0], md.Particles(term, md.OpenSpace()).prepared(md.Atoms(x, 0 * x)).energy(md.Atoms(x, 0 * x)))


def test_other_atoms_put_in_place_are_not_numbers():
    """A layout of pairs that are no longer there must not give the old energy."""
    x, pairs, _ = molecules(np.array([12, 12, 13, 17, 20, 21]))
    system = system_of(pairs, {"e": 1.0, "s": 0.8, "q": 0.3})
    atoms = md.Atoms(x, jnp.zeros_like(x))
    system = system.prepared(atoms)
    shifted = eqx.tree_at(lambda s: s.potential.atoms, system, system.potential.atoms[::-1])
    assert np.isfinite(system.energy(atoms))
    assert np.isnan(shifted.energy(atoms))
    fewer = dataclasses.replace(system.potential, atoms=system.potential.atoms[50:])
    other = eqx.tree_at(lambda s: s.potential, system, fewer)
    close(other.energy(atoms), as_list(other).energy(atoms))
