"""Constraints: lengths and what holds them, against closed forms, between the two ways of solving, and through derivatives."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from md_runs import KEY

import simkit
from simkit import md
from simkit.md.dynamics._constraint import bond_vectors

BOND, ANGLE = 1.1, math.radians(105.0)
MASS = (16.0, 1.0, 1.5)


def triangles(dynamics, count=27, spacing=3.0, settled=False, temperature=1.2):
    """Rigid triangles of Lennard-Jones atoms on a grid, turned at random, some of them across the faces of the cell."""
    turn, still = jax.random.split(KEY)
    axes = jnp.linalg.qr(jax.random.normal(turn, (count, 3, 3)))[0]
    side = math.ceil(count ** (1 / 3))
    centre = spacing * jnp.stack(jnp.meshgrid(*[jnp.arange(float(side))] * 3), -1).reshape(-1, 3)[:count]
    half, height = BOND * math.sin(ANGLE / 2), BOND * math.cos(ANGLE / 2)
    shape = jnp.array([[0.0, 0.0, 0.0], [half, height, 0.0], [-half, height, 0.0]])
    position = (centre[:, None] + jnp.einsum("ak,mkd->mad", shape, axes)).reshape(-1, 3)
    space = md.Orthorhombic(jnp.full(3, spacing * side))
    ends = np.arange(3 * count).reshape(-1, 3)
    mass = jnp.tile(jnp.array((16.0, 1.0, 1.0) if settled else MASS), count)
    held = (
        md.RigidWater(ends, BOND, ANGLE)
        if settled
        else md.Constraints(
            ends[:, [[0, 1], [0, 2], [1, 2]]].reshape(-1, 2), jnp.tile(jnp.array([BOND, BOND, 2 * half]), count)
        )
    )
    potential = md.LennardJones(cutoff=2.2, truncation=md.Switched(1.7))
    system = md.Particles(potential, space, mass=mass, dynamics=dynamics, constraints=held)
    # Images apart: molecules need not be whole.
    position = position.at[::4].add(jnp.array([spacing * side, 0.0, 0.0]))
    return system, md.Atoms(position, md.maxwell_boltzmann(still, mass, temperature))


def lengths(system, position):
    return jnp.linalg.norm(bond_vectors(system.constraints.bonds(), system.space, position), axis=-1)


@pytest.mark.parametrize("settled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_lengths_are_held_and_the_energy_is_conserved_to_second_order(settled):
    system, y0 = triangles(md.NVE(), settled=settled)
    system = system.prepared(y0)
    drifts = []
    for h in (0.004, 0.002):
        # From the second row on: the first has momenta that would change the lengths.
        ys = simkit.simulate(system, y0, np.linspace(0.0, 0.4, 11), step=h).ys
        energy = jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)["energy"]))(ys)
        drifts.append(np.ptp(energy[1:]))
    assert 3.3 < drifts[0] / drifts[1] < 4.7  # h^2, and what the next order adds at this step
    expected = lengths(system, y0.position)
    assert np.abs(jax.vmap(lambda x: lengths(system, x))(ys.position) - expected[None]).max() < 1e-12
    # Rounding of positions over h: 1e-15 * 16 / 0.002 an atom and step.
    assert np.abs(ys.momentum.sum(1)).max() < 1e-9
    e = 1e-6  # the rate of a length by differences: rounding 1e-16 / e
    velocity = ys.momentum[-1] / system.masses(y0.position)
    change = lengths(system, ys.position[-1] + e * velocity) - lengths(system, ys.position[-1] - e * velocity)
    assert np.abs(change).max() / (2 * e) < 1e-8


def test_the_closed_form_is_the_solution_of_the_iteration():
    system, y0 = triangles(md.NVE(), settled=True)
    ends = np.asarray(system.constraints.atoms)
    half = BOND * math.sin(ANGLE / 2)
    pairs = ends[:, [[0, 1], [0, 2], [1, 2]]].reshape(-1, 2)
    other = md.Constraints(pairs, jnp.tile(jnp.array([BOND, BOND, 2 * half]), len(ends)))
    mass, moved = system.masses(y0.position), y0.position + 0.05 * jax.random.normal(KEY, y0.position.shape)

    def placed(held, bond):
        held = dataclasses.replace(system, constraints=held).constraints
        return held.placed(system.space, mass, y0.position, moved * bond)

    found = [jax.jit(lambda b, held=held: placed(held, b))(1.0) for held in (system.constraints, other)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-13)
    slopes = [jax.jit(jax.jacfwd(lambda b, held=held: placed(held, b)))(1.0) for held in (system.constraints, other)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-11)


@pytest.mark.slow
def test_the_pressure_of_rigid_molecules_is_that_of_their_centres():
    """Far apart: the virial of what holds them takes away what their turning adds, at every moment."""
    system, y0 = triangles(md.NVE(), count=8, spacing=30.0)
    system = system.prepared(y0)
    y = simkit.simulate(system, y0, [0.0, 0.5], step=0.005).final()
    found = jax.jit(lambda y: system.outputs(0.0, y, None))(y)
    centre = y.momentum.reshape(-1, 3, 3).sum(1)
    np.testing.assert_allclose(found["pressure"], (centre**2).sum() / sum(MASS) / (3 * 60.0**3), rtol=1e-10)
    doubled = (np.asarray(y.momentum) ** 2 / np.asarray(system.masses(y.position))).sum()
    np.testing.assert_allclose(found["temperature"], doubled / (3 * 24 - 24 - 3), rtol=1e-12)


@pytest.mark.parametrize(
    "dynamics",
    [md.Langevin(1.5, 2.0), pytest.param(md.Andersen(1.5, 2.0), marks=pytest.mark.long)],
    ids=lambda dynamics: type(dynamics).__name__,
)
def test_baths_draw_the_kinetic_energy_of_the_freedom_that_is_left(dynamics):
    system, y0 = triangles(dynamics, count=8, spacing=300.0)
    ys = simkit.simulate(system, y0, np.arange(0.0, 600.0, 3.0), step=0.05, key=KEY).ys  # six relaxations apart
    drawn = (np.asarray(ys.momentum) ** 2 / np.asarray(system.masses(y0.position))).sum((1, 2))[5:] / 1.5
    freedom, n = 3 * 24 - 24, drawn.size
    # Standard deviations of mean and variance; the step, a twentieth of a turn, makes the temperature wrong by its square / 12.
    assert abs(drawn.mean() - freedom) < 4 * np.sqrt(2 * freedom / n) + 0.01 * freedom
    assert abs(drawn.var() - 2 * freedom) < 4 * np.sqrt((8 * freedom**2 + 48 * freedom) / n)


@pytest.mark.long
def test_derivatives_of_a_run():
    """By a parameter of the potential, the held lengths and momenta: reverse mode, forward mode and differences agree."""
    system, y0 = triangles(md.NVE(), count=8)
    system = system.prepared(y0)

    def loss(q):
        put = simkit.core.Setup(system, y0, None).put({"potential.sigma": 1.0 + q[0]}).system
        held = eqx.tree_at(lambda s: s.constraints.lengths, put, put.constraints.lengths * (1 + q[1]))
        start = md.Atoms(y0.position, y0.momentum * (1 + q[2]))
        end = simkit.simulate(held, start, [0.0, 0.02, 0.04], step=0.004).final()
        return jnp.mean(jnp.sum((end.position - y0.position) ** 2, -1)) + 1e-3 * jnp.mean(end.momentum[0])

    q = jnp.zeros(3)
    found = jax.jit(jax.grad(loss))(q)
    close(jax.jit(jax.jacfwd(loss))(q), found)
    compiled, e = jax.jit(loss), 1e-5
    expected = jnp.stack([(compiled(q + e * v) - compiled(q - e * v)) / (2 * e) for v in jnp.eye(3)])
    close(found, expected, 1e-6)  # differences: e^2, and rounding 1e-16 / e
    assert jnp.abs(found).min() > 1e-6


@pytest.mark.long
@pytest.mark.parametrize("cell", ["isotropic", "full"])
def test_the_energy_is_conserved_at_constant_pressure(cell):
    """Centres move with the cell, shapes do not; of second order in the step."""
    system, y0 = triangles(md.MTK(1.2, 2.0, 0.4, 2.0, cell=cell), spacing=3.0)
    system, drifts = system.prepared(y0), []
    for h in (0.004, 0.002):
        run = simkit.simulate(system, y0, np.linspace(0.0, 0.4, 11), step=h)
        energy = jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)["energy"]))(run.ys)
        drifts.append(np.ptp(energy[1:]))
    assert 3.3 < drifts[0] / drifts[1] < 4.7
    y = run.final()
    assert abs(np.linalg.det(y.cell) / np.linalg.det(run.ys.cell[0]) - 1) > 0.01  # the cell does move
    space = md.Triclinic(y.cell)
    found = jnp.linalg.norm(bond_vectors(system.constraints.bonds(), space, y.position), axis=-1)
    np.testing.assert_allclose(found, lengths(system, y0.position), rtol=1e-11)
    assert np.abs(run.ys.momentum.sum(1)).max() < 1e-9


@pytest.mark.slow
def test_rescaling_draws_the_volumes_of_an_ideal_gas_of_molecules():
    r"""$p(V) \propto V^{M-1} e^{-P V / k_B T}$ of M molecules, however many atoms they have."""
    temperature, count = 1.5, 6
    pressure = count * temperature / 300.0**3
    dynamics = md.StochasticCellRescaling(temperature, pressure, 0.05, 0.05, 1 / pressure)
    system, y0 = triangles(dynamics, count=count, spacing=150.0, temperature=temperature)
    ys = simkit.simulate(system, y0, np.arange(0.0, 500.0, 0.5), step=0.01, key=KEY).ys  # ten relaxations apart
    reduced = np.linalg.det(np.asarray(ys.cell))[20:] * pressure / temperature
    n = reduced.size
    # Euler's step in sqrt(V), a fifth of a relaxation, makes the variance wrong by a twentieth, allowed for here.
    assert abs(reduced.mean() - count) < 4 * np.sqrt(count / n) + count / 40
    assert abs(reduced.var() - count) < 4 * np.sqrt((2 * count**2 + 6 * count) / n) + count / 20


@pytest.mark.long
@pytest.mark.parametrize(
    "dynamics",
    [md.StochasticCellRescaling(1.5, 1.0, 0.1, 0.5, 0.1), md.MTK(1.5, 1.0, 0.4, 2.0)],
    ids=lambda dynamics: type(dynamics).__name__,
)
def test_the_pressure_of_atoms_is_what_is_held(dynamics):
    """What drives the cell is the pressure of the centres; that of the atoms, with what holds them, has the same mean."""
    system, y0 = triangles(dynamics, count=27, spacing=2.6, settled=True, temperature=1.5)
    run = simkit.simulate(system, y0, np.arange(0.0, 120.0, 0.2), step=0.004, key=KEY)
    found = md.averages(system, run, after=10.0)
    for name, expected in (("pressure", 1.0), ("temperature", 1.5)):
        average = found.average(name)
        assert average.error < 0.1
        assert abs(average.mean - expected) < 4 * average.error + 0.01


def test_molecules_of_different_sizes_are_padded():
    """A chain of four atoms, a pair and a triangle."""
    pairs = [[0, 1], [1, 2], [2, 3], [4, 5], [6, 7], [7, 8], [6, 8]]
    position = 2.0 * jax.random.normal(KEY, (10, 3))
    space, mass = md.OpenSpace(), jnp.linspace(1.0, 3.0, 10)[:, None]
    apart = jnp.linalg.norm(position[jnp.array(pairs)[:, 0]] - position[jnp.array(pairs)[:, 1]], axis=-1)
    held = md.Constraints(pairs, apart)
    assert held.count == 7
    moved = position + 0.1 * jax.random.normal(jax.random.key(5), position.shape)
    placed = jax.jit(lambda x: held.placed(space, mass, position, x))(moved)
    found = jnp.linalg.norm(placed[jnp.array(pairs)[:, 0]] - placed[jnp.array(pairs)[:, 1]], axis=-1)
    np.testing.assert_allclose(found, apart, rtol=1e-13)
    np.testing.assert_array_equal(placed[9], moved[9])
    np.testing.assert_allclose((mass * placed).sum(0), (mass * moved).sum(0), rtol=1e-12)


def test_what_cannot_be_is_refused():
    system, y0 = triangles(md.NVE(), count=8)
    far = md.Atoms(y0.position.at[1].add(0.5), y0.momentum)
    with pytest.raises(simkit.ArgumentError, match=r"atoms 0 and 1 \(from 0\)"):
        system.prepared(far)
    with pytest.raises(simkit.ArgumentError, match="keep constraints"):
        dataclasses.replace(system, dynamics=md.Brownian(1.0, 1.0)).prepared(y0)
    with pytest.raises(simkit.ArgumentError, match="no pair twice"):
        md.Constraints([[0, 1], [1, 0]], 1.0)
    with pytest.raises(simkit.ArgumentError, match="three atoms a molecule"):
        md.RigidWater([[0, 1, 1]], 1.0, 1.9)
