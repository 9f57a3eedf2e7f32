"""Systems of different numbers of atoms, run together in padded rows, against each of them alone."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import H

import simkit
from simkit import md

SIZES = ((3, 3, 2), (3, 3, 3), (2, 2, 2))
TIMES = [0.0, 0.03, 0.06]
KEYS = jax.random.split(jax.random.key(5), len(SIZES))


def disordered(space, position, seed, cell=False):
    key = jax.random.key(seed)
    moved = position + 0.05 * jax.random.normal(key, position.shape)
    momentum = md.maxwell_boltzmann(key, jnp.ones(len(position)), 1.0)
    return md.Atoms(moved, momentum, None, space.vectors() if cell else None)


def members(cell=False):
    """Spaces and states of crystals of 72, 108 and 32 atoms."""
    starts = [md.crystal("fcc", 1.68, size) for size in SIZES]
    return [s.space for s in starts], [disordered(s.space, s.position, k, cell) for k, s in enumerate(starts)]


def wavy(atoms):
    """An embedding energy that an atom without neighbours has, too."""
    x = np.linspace(0.0, 1.0, 12)
    return md.EAM(
        1.0 + np.sin(atoms + x)[None],
        (1 - x[None, None]) ** 2,
        0.1 * (1 - x[None, None]) ** 2,
        density_step=0.5,
        distance_step=0.16,
        cutoff=1.6,
    )


PAIRS = md.LennardJones([1.0, 1.1], cutoff=1.7, truncation=md.Truncated(tail=True)) + md.CoulombDSF(
    damping=0.4, cutoff=1.6
)
ROWS = md.StillingerWeber(epsilon=0.5, sigma=0.9) + wavy(1.0) + md.HarmonicTrap(0.3, [1.0, 1.0, 1.0])
BONDS = [[0, 1], [2, 40], [70, 71], [3, 90]]


@eqx.filter_jit
def everything(potential, space, x, plan, kinds, real, second):
    """Energy, forces and virial, and derivatives of the energy, or of the forces, by all there is."""
    neighbours = plan.build(space, x, real)

    def both(point):
        potential, space, x = point
        if not second:
            return md.energy(potential, space, x, neighbours, plan, **kinds)
        return jnp.vdot(jnp.sin(jnp.arange(x.size)), md.forces(potential, space, x, neighbours, plan, **kinds))

    slopes = eqx.filter_grad(both)((potential, space, x))
    return md.gradients(potential, space, x, neighbours, plan, **kinds), slopes, plan.fits(neighbours.need)


@pytest.mark.long
@pytest.mark.parametrize(
    ("potential", "method", "less"),
    [
        (PAIRS, "clusters", None),
        (PAIRS, "dense", None),
        (PAIRS, "clusters", 8),  # all pairs stand in
        (ROWS, "dense", None),
        (PAIRS + md.Ewald(1.0, 0.4, (3, 3, 3)), "dense", None),
    ],
    ids=["clusters", "dense", "spare", "rows", "waves"],
)
def test_sums_know_no_padding(potential, method, less):
    """Of 72 atoms in 108 rows, of which the others stand among them."""
    start = md.crystal("fcc", 1.68, (3, 3, 2))
    x = disordered(start.space, start.position, 3).position
    spoilt = jnp.concatenate([x, x[:36] + 0.01])
    real, random = jnp.arange(108) < 72, np.random.default_rng(0)
    species = jnp.asarray(random.integers(0, 2, 108), jnp.int32)
    charge = jnp.asarray(random.normal(size=108))
    charge = charge - charge[:72].mean()
    plan = md.plan_neighbours(potential, start.space, spoilt, method=method, real=real)
    small = plan
    if less is not None:
        small = dataclasses.replace(
            plan, pairs=dataclasses.replace(plan.pairs, capacity=plan.pairs.capacity._replace(clusters=less))
        )
    kinds = lambda n: {"species": species[:n], "charge": charge[:n]}
    bonded = lambda bonds: (
        potential + md.HarmonicBond(bonds, stiffness=2.0, length=1.0) if potential is ROWS else potential
    )
    expected = everything(bonded(BONDS[:3]), start.space, x, plan, kinds(72), None, method == "dense")
    found = everything(bonded(BONDS), start.space, spoilt, small, kinds(108), real, method == "dense")
    assert found[2]
    assert expected[2]
    for a, b in zip(jax.tree.leaves(found[:2]), jax.tree.leaves(expected[:2]), strict=True):
        if a.shape != b.shape:
            np.testing.assert_array_equal(a[72:], 0)
            a = a[:72]
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11 * float(jnp.abs(b).max()) + 1e-13)


FLUID = md.LennardJones(cutoff=1.7, truncation=md.Shifted())


def together(system, spaces, atoms, mass=None):
    """The members in one ensemble, and each alone."""
    stack = md.stack_atoms(atoms)
    moves = system.dynamics.name.startswith(("Martyna", "stochastic cell"))
    over = {} if moves else {"space.lengths": jnp.stack([s.lengths for s in spaces])}
    if mass is not None:
        over["mass"] = stack.padded(mass, fill=1.0)
        system = dataclasses.replace(system, mass=over["mass"][1])
    system = stack.prepared(system, over)
    run = simkit.ensemble(
        system, stack.largest, TIMES, over=stack.over | over, step=H, key=KEYS[: len(atoms)], on_failure="raise"
    )
    alone = []
    for k, (space, y0) in enumerate(zip(spaces, atoms, strict=True)):
        own = dataclasses.replace(system, space=space, plan=None, mass=system.mass if mass is None else mass[k])
        alone.append((own, simkit.simulate(own, y0, TIMES, step=H, key=KEYS[k])))
    return system, stack, over, run, alone


def same(stack, run, alone):
    for found, (_, expected) in zip(stack.parted(run.ys), alone, strict=True):
        assert jax.tree.structure(found) == jax.tree.structure(expected.ys)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected.ys), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def mixed():
    """Members under friction that acts on atoms alone. The smallest cell is thinner than two cutoffs: several images count."""
    spaces, atoms = members()
    return together(md.Particles(FLUID, spaces[1], dynamics=md.Langevin(1.0, 2.0)), spaces, atoms)


@pytest.mark.slow
def test_members_of_different_sizes_run_as_each_alone(mixed):
    _, stack, _, run, alone = mixed
    same(stack, run, alone)
    assert stack.waste == pytest.approx(1 - 212 / 324)
    padding = jax.tree.map(lambda x: x[2], run.ys)
    np.testing.assert_array_equal(padding.momentum[:, 32:], 0)
    np.testing.assert_array_equal(padding.position[:, 32:], np.broadcast_to(stack.largest.position[32:], (3, 76, 3)))


@pytest.mark.slow
def test_outputs_count_atoms_alone(mixed):
    system, _, over, run, alone = mixed
    one = lambda lengths, y: dataclasses.replace(system, space=md.Orthorhombic(lengths)).outputs(0.0, y, None)
    found = eqx.filter_jit(eqx.filter_vmap(one))(over["space.lengths"], run.final())
    expected = [eqx.filter_jit(own.prepared(r.final()).outputs)(0.0, r.final(), None) for own, r in alone]
    for name, values in found.items():
        np.testing.assert_allclose(values, [row[name] for row in expected], rtol=1e-9, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dynamics",
    [
        md.NoseHoover(1.0, 0.3),
        md.StochasticRescaling(1.0, 0.1),
        md.MTK(1.0, 1.0, 0.3, 1.0),
        md.StochasticCellRescaling(1.0, 1.0, 0.1, 0.5, 0.1),
        md.Brownian(1.0, 5.0),
    ],
    ids=lambda dynamics: type(dynamics).__name__,
)
def test_every_bath_counts_atoms_alone(dynamics):
    spaces, atoms = members(isinstance(dynamics, md.MTK | md.StochasticCellRescaling))
    mass = [1.0 + np.arange(len(y0.position)) % 2 for y0 in atoms[:2]]
    system = md.Particles(FLUID, spaces[1], dynamics=dynamics)
    _, stack, _, run, alone = together(system, spaces[:2], atoms[:2], mass)
    same(stack, run, alone)


@pytest.mark.slow
def test_gradients_are_those_of_the_single_runs():
    """Under vmap, by a number that the members share and by their starts."""
    spaces, atoms = (found[:2] for found in members())
    system = md.Particles(FLUID, spaces[1])
    stack = md.stack_atoms(atoms)
    lengths = jnp.stack([s.lengths for s in spaces])
    system = stack.prepared(system, {"space.lengths": lengths})

    def loss(system, sigma, lengths, y0):
        put = simkit.core.Setup(system).put({"potential.sigma": sigma, "space.lengths": lengths}).system
        end = simkit.simulate(put, y0, [0.0, 0.03], step=H).final()
        return jnp.sum(jnp.sin(end.position) * end.momentum)

    def summed(sigma, atoms):
        return jnp.sum(jax.vmap(lambda lengths, y0: loss(system, sigma, lengths, y0))(lengths, atoms))

    by_sigma, by_atoms = jax.jit(jax.grad(summed, (0, 1)))(1.0, stack.atoms)
    expected = []
    for y0, own in zip(atoms, lengths, strict=True):
        alone = dataclasses.replace(system, space=md.Orthorhombic(own), plan=None).prepared(y0)
        expected.append(jax.jit(jax.grad(lambda sigma, y0, s=alone, own=own: loss(s, sigma, own, y0), (0, 1)))(1.0, y0))
    np.testing.assert_allclose(by_sigma, sum(found for found, _ in expected), rtol=1e-9)
    for found, (_, own) in zip(stack.parted(by_atoms), expected, strict=True):
        np.testing.assert_allclose(found.position, own.position, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(found.momentum, own.momentum, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(by_atoms.position[0, 72:], 0)


def test_what_cannot_be_stacked_is_refused():
    _, atoms = members()
    with pytest.raises(simkit.ArgumentError, match="states of atoms"):
        md.stack_atoms([atoms[0], dataclasses.replace(atoms[1], cell=jnp.eye(3))])
    with pytest.raises(simkit.ArgumentError, match="one entry for each of"):
        md.stack_atoms(atoms).padded([np.ones(72), np.ones(108), np.ones(31)])
