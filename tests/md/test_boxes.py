"""Cells of different sizes in one list of neighbours, against each of them alone."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import H

import simkit
from simkit import md
from simkit.md.neighbours._energy import Gradients

TIMES = [0.0, 0.03, 0.06]
SIZES = ((3, 3, 2), (4, 3, 4), (2, 2, 2))  # of the smallest cell several images count
FLUID = md.LennardJones(cutoff=1.7, truncation=md.Shifted())
SKEW = np.array([[0.0, 0.7, 0.3], [0.0, 0.0, 0.4], [0.0, 0.0, 0.0]])


def members(skewed=False):
    """Spaces and states of 72, 192 and 32 atoms, far from their cells."""
    starts = [md.crystal("fcc", 1.68, size) for size in SIZES]
    spaces = [md.Triclinic(s.space.vectors() + (k - 1.0) * SKEW) if skewed else s.space for k, s in enumerate(starts)]
    keys = jax.random.split(jax.random.key(0), len(SIZES))
    moved = [s.position + 0.05 * jax.random.normal(key, s.position.shape) for key, s in zip(keys, starts, strict=True)]
    momenta = [md.maxwell_boltzmann(key, jnp.ones(len(x)), 1.0) for key, x in zip(keys, moved, strict=True)]
    return spaces, [md.Atoms(x + 7.0 * k, p) for k, (x, p) in enumerate(zip(moved, momenta, strict=True))]


def joined(skewed=False):
    spaces, atoms = members(skewed)
    boxes = md.Boxes(spaces, [len(y.position) for y in atoms])
    return boxes, boxes.joined(atoms)


def close(found, expected, rtol=1e-9):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(jnp.abs(b).max()) + 1e-13)


@eqx.filter_jit
def everything(system, atoms, weights):
    """Outputs and forces; derivatives of weighted energies and of pressures, reverse mode, by all numbers and positions."""
    lists = system.listed(atoms)

    def loss(point):
        system, position = point
        there = eqx.tree_at(lambda a: a.position, atoms, position)
        found = system.gradients_on(there, lists)
        return jnp.sum(weights * (system.energy_on(there, lists) + 0.1 * jnp.trace(found.virial, axis1=-2, axis2=-1)))

    return (
        system.outputs(0.0, atoms, None),
        system.gradients_on(atoms, lists),
        eqx.filter_grad(loss)((system, atoms.position)),
    )


def test_forces_are_those_of_all_pairs_and_images():
    """By loops over images in NumPy."""
    spaces, atoms = (found[::2] for found in members(skewed=True))
    boxes = md.Boxes(spaces, [72, 32])
    both = boxes.joined(atoms)
    found = md.Particles(FLUID, boxes).prepared(both).gradients(both)
    images = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 3), -1).reshape(-1, 3)
    for k, (space, own) in enumerate(zip(spaces, atoms, strict=True)):
        x, vectors = np.asarray(space.wrap(own.position)), np.asarray(space.vectors())
        d = x[:, None, None] - x[None, :, None] + images @ vectors
        r2 = np.sum(d * d, -1)
        near = (r2 > 0) & (r2 < FLUID.cutoff**2)
        inverse = 1 / np.where(near, r2, 1.0) ** 3
        at_end = 4 * (FLUID.cutoff**-12 - FLUID.cutoff**-6)
        energy = 0.5 * np.sum(np.where(near, 4 * (inverse**2 - inverse) - at_end, 0))
        push = np.where(near, 24 * (2 * inverse**2 - inverse) / np.where(near, r2, 1.0), 0)
        virial = -0.5 * np.einsum("ijk,ijkc,ijkd->cd", push, d, d)
        close(
            Gradients(found.energy[k], found.forces[boxes.of == k], found.virial[k]),
            Gradients(energy, np.einsum("ijk,ijkc->ic", push, d), virial),
        )


@pytest.mark.slow
@pytest.mark.parametrize("skewed", [False, True], ids=["orthorhombic", "triclinic"])
def test_every_cell_is_as_it_is_alone(skewed):
    """Energies, forces, pressures; derivatives by parameters, cells and positions: with species, charges and tails."""
    boxes, atoms = joined(skewed)
    random, count = np.random.default_rng(0), sum(boxes.counts)
    species = jnp.asarray(random.integers(0, 2, count), jnp.int32)
    charge = jnp.asarray(random.normal(size=count))
    tailed = md.LennardJones([1.0, 1.1], cutoff=1.9, truncation=md.Truncated(tail=True))
    potential = tailed + md.CoulombDSF(damping=0.4, cutoff=1.6)
    weights = jnp.asarray([1.0, -0.7, 0.3])
    system = md.Particles(potential, boxes, species=species, charge=charge).prepared(atoms)
    outputs, sums, (slopes, by_position) = everything(system, atoms, weights)
    assert system.fits(system.listed(atoms))
    total = None
    for k, (space, own) in enumerate(zip(boxes.spaces, boxes.parted(atoms), strict=True)):
        rows = boxes.of == k
        alone = md.Particles(potential, space, species=species[rows], charge=charge[rows]).prepared(own)
        expected, gradients, (by, position) = everything(alone, own, weights[k])
        close({name: value[k] for name, value in outputs.items()}, expected)
        close(Gradients(sums.energy[k], sums.forces[rows], sums.virial[k]), gradients)
        close((by_position[rows], slopes.charge[rows]), (position, by.charge))
        by_cell = by.space.lattice if skewed else by.space.lengths
        lattice = slopes.space.lattices[k]
        close(lattice if skewed else jnp.diagonal(lattice), by_cell)
        total = by.potential if total is None else jax.tree.map(jnp.add, total, by.potential)
    close(slopes.potential, total)


@pytest.mark.slow
def test_two_dimensions():
    starts = [md.crystal("square", 1.1, (6, 7)), md.crystal("square", 1.1, (9, 5))]
    boxes = md.Boxes([s.space for s in starts], [42, 45])
    atoms = boxes.joined([md.Atoms(s.position + 0.1 * jnp.sin(7 * s.position), 0 * s.position) for s in starts])
    system = md.Particles(md.LennardJones(cutoff=1.9), boxes).prepared(atoms)
    found = system.gradients(atoms)
    for k, (space, own) in enumerate(zip(boxes.spaces, boxes.parted(atoms), strict=True)):
        expected = md.Particles(md.LennardJones(cutoff=1.9), space).prepared(own).gradients(own)
        close(Gradients(found.energy[k], found.forces[boxes.of == k], found.virial[k]), expected)


@pytest.mark.slow
def test_a_run_is_that_of_every_cell_alone_and_so_is_its_gradient():
    """Under jit, by a number that all share; through lists made anew on the way."""
    boxes, atoms = joined()
    system = md.Particles(FLUID, boxes, skin=0.1).prepared(atoms)

    def spread(system, y0, sigma):
        put = simkit.core.Setup(system, y0, None).put({"potential.sigma": sigma}).system
        run = simkit.simulate(put, y0, TIMES, step=H, on_failure="mark")
        return jnp.sum(jnp.sin(run.final().position) * run.final().momentum), run

    both = eqx.filter_jit(lambda system, y0: jax.value_and_grad(lambda s: spread(system, y0, s), has_aux=True)(1.0))
    (value, run), slope = both(system, atoms)
    assert run.status == 0
    assert run.lists.built > 1
    total, slopes = 0.0, 0.0
    for space, y0, found in zip(boxes.spaces, boxes.parted(atoms), boxes.parted(run.ys), strict=True):
        alone = dataclasses.replace(system, space=space, plan=None).prepared(y0)
        (part, expected), by = both(alone, y0)
        close(found, expected.ys)
        total, slopes = total + part, slopes + by
    np.testing.assert_allclose(value, total, rtol=1e-9)
    np.testing.assert_allclose(slope, slopes, rtol=1e-8)


@pytest.mark.slow
def test_without_room_a_run_says_so_inside_and_gets_it_outside():
    boxes, atoms = joined()
    system = md.Particles(FLUID, boxes).prepared(atoms)
    less = system.plan.pairs.capacity._replace(units=64, clusters=16)
    small = eqx.tree_at(lambda s: s.plan.pairs, system, dataclasses.replace(system.plan.pairs, capacity=less))

    def end(sigma):
        put = simkit.core.Setup(small, atoms, None).put({"potential.sigma": sigma}).system
        run = simkit.simulate(put, atoms, TIMES, step=H, on_failure="mark")
        return jnp.sum(run.final().position), run.status

    slope, status = jax.jit(jax.grad(end, has_aux=True))(1.0)
    assert status == int(simkit.Status.NO_ROOM)
    assert np.isnan(slope)
    found, expected = (simkit.simulate(s, atoms, TIMES, step=H) for s in (small, system))
    np.testing.assert_allclose(found.final().position, expected.final().position, atol=1e-11)


@pytest.mark.slow
def test_atoms_of_one_cell_forget_those_of_the_others():
    """Friction and noise, in an ensemble: temperatures are one a cell; energies of Newton's equations are conserved in each."""
    boxes, atoms = joined()
    system = md.Particles(FLUID, boxes, dynamics=md.Langevin(1.0, 2.0)).prepared(atoms)
    run = simkit.ensemble(
        system, atoms, TIMES, over={"potential.sigma": [1.0, 0.9]}, step=H, key=jax.random.split(jax.random.key(0), 2)
    )
    last = jax.tree.map(lambda x: x[1], run.final())
    momenta = boxes.parted(last.momentum)
    expected = [jnp.sum(p**2) / (3 * len(p)) for p in momenta]
    np.testing.assert_allclose(system.outputs(0.0, last, None)["temperature"], expected, rtol=1e-12)
    newton = md.Particles(md.LennardJones(cutoff=1.7, truncation=md.Switched(1.2)), boxes)
    moved = simkit.simulate(newton, atoms, [0.0, 0.5], step=0.002)
    newton = newton.prepared(atoms)
    energies = [newton.invariants(0.0, y)["energy"] for y in (atoms, moved.final())]
    np.testing.assert_allclose(energies[1], energies[0], rtol=2e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"potential": md.StillingerWeber()}, "sum over pairs"),
        ({"dynamics": md.NoseHoover(1.0, 0.1)}, "every atom for itself"),
        ({"exclusions": [[0, 1]]}, "exclusions"),
    ],
)
def test_what_would_join_cells_is_refused(changes, words):
    boxes, atoms = joined()
    with pytest.raises(simkit.ArgumentError, match=words):
        dataclasses.replace(md.Particles(FLUID, boxes), **changes).prepared(atoms)


def test_wrong_cells_are_refused():
    spaces, atoms = members()
    with pytest.raises(simkit.ArgumentError, match="cells of as many dimensions"):
        md.Boxes([spaces[0], md.OpenSpace()], [1, 2])
    with pytest.raises(simkit.ArgumentError, match="how many atoms"):
        md.Boxes(spaces, [72, 0, 1])
    boxes = md.Boxes(spaces, [72, 192, 32])
    with pytest.raises(simkit.ArgumentError, match=r"states of \(72, 192, 32\) atoms"):
        boxes.joined(atoms[:2])
    twice = eqx.tree_at(lambda y: y.position, boxes.joined(atoms), replace_fn=lambda x: x.at[73].set(x[72]))
    with pytest.raises(simkit.ArgumentError, match="atoms 72 and 73"):
        md.Particles(FLUID, boxes).prepared(twice)
    with pytest.raises(simkit.ArgumentError, match="one cell"):
        md.minimise(md.Particles(FLUID, boxes), boxes.joined(atoms))
