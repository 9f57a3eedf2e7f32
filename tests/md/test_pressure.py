"""Dynamics that hold a pressure: what is conserved and drawn, the room in a cell that shrinks, and derivatives."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from md_runs import KEY, H, fluid, ideal

import simkit
from simkit import md
from simkit.md.dynamics._dynamics import Pull

RESCALED = md.StochasticCellRescaling(0.8, 1.0, 0.1, 0.5, 0.1)


def energies(system, y0, run):
    system = system.prepared(y0)
    return jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)["energy"]))(run.ys)


@pytest.mark.long
@pytest.mark.parametrize("cell", ["full", "axes", "isotropic"])
def test_the_energy_of_the_extended_system_is_conserved_to_second_order(cell):
    system, y0 = fluid(temperature=0.8, dynamics=md.MTK(0.8, 1.0, 0.4, 2.0, cell=cell))
    drifts = []
    for h in (H, H / 2):
        run = simkit.simulate(system, y0, np.linspace(0.0, 0.5, 11), step=h)
        drifts.append(np.ptp(energies(system, y0, run)))
    assert np.abs(run.ys.momentum.sum(1)).max() < 1e-12
    assert abs(np.linalg.det(run.ys.cell[-1]) / np.linalg.det(run.ys.cell[0]) - 1) > 0.05  # the cell does move
    assert 3.3 < drifts[0] / drifts[1] < 4.7  # h^2, and what the next order adds at this step


@pytest.mark.parametrize("cell", ["isotropic", "axes", "full"])
def test_half_a_step_and_its_inverse(cell):
    """To rounding, of a state whose thermostats and cell are in motion."""
    system, y0 = fluid(dynamics=md.MTK(0.8, 1.0, 0.4, 2.0, cell=cell))
    state = system.encode(y0)
    force = Pull(0.3 * y0.momentum, jnp.array([[5.0, 1.0, 2.0], [1.0, -3.0, 0.5], [2.0, 0.5, 4.0]]))
    h = jnp.asarray(0.02)
    carry = system.opened(h, system.opened(h, state, force), force)
    back = system.closed(h, system.closed(h, carry, force), force)
    assert jnp.abs(carry.thermostat.rate).max() > 1e-4
    np.testing.assert_allclose(back.momentum, y0.momentum, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(back.thermostat.rate, 0.0, atol=1e-14)


@pytest.mark.parametrize(
    "dynamics", [md.MTK(0.8, 1.0, 0.4, 2.0), RESCALED], ids=lambda dynamics: type(dynamics).__name__
)
def test_a_run_goes_on_from_a_save_time_bit_for_bit(dynamics):
    """Where more than one window remains: a single one is no loop, and its chains differ by rounding."""
    system, y0 = fluid(dynamics=dynamics)
    whole = simkit.simulate(system, y0, [0.0, 0.1, 0.2, 0.3], step=H, key=KEY)
    middle = jax.tree.map(lambda x: x[1], whole.ys)
    rest = simkit.simulate(system, middle, [0.1, 0.2, 0.3], step=H, key=KEY)
    jax.tree.map(np.testing.assert_array_equal, rest.final(), whole.final())
    found = eqx.filter_jit(system.prepared(y0).outputs)(0.0, whole.final(), None)
    np.testing.assert_allclose(found["volume"] * found["density"], 108.0)
    if isinstance(dynamics, md.MTK):
        kinetic = 0.5 * (np.asarray(whole.ys.momentum) ** 2).sum((1, 2))
        assert np.ptp(energies(system, y0, whole)) < 0.05 * np.ptp(kinetic)


@pytest.mark.slow
def test_rescaling_draws_the_volumes_of_an_ideal_gas():
    r"""$p(V) \propto V^{N-1} e^{-P V / k_B T}$: the centre of mass, which moves with the cell, carries no pressure."""
    temperature, count = 1.5, 8
    pressure = count * temperature / 1000.0**3
    dynamics = md.StochasticCellRescaling(temperature, pressure, 0.05, 0.05, 1 / pressure)
    system, y0, _ = ideal(dynamics, count=count)
    ys = simkit.simulate(system, y0, np.arange(0.0, 1000.0, 0.5), step=0.005, key=KEY).ys  # ten relaxations apart
    reduced = np.linalg.det(np.asarray(ys.cell))[20:] * pressure / temperature
    n = reduced.size
    # A gamma number of shape N: mean N, variance N, that of its estimate (2 N^2 + 6 N) / n. The step is a tenth of a relaxation:
    # Euler's in sqrt(V) makes the variance wrong by h / (4 tau), a fortieth, allowed for here.
    assert abs(reduced.mean() - count) < 4 * np.sqrt(count / n)
    assert abs(reduced.var() - count) < 4 * np.sqrt((2 * count**2 + 6 * count) / n) + count / 40


@pytest.mark.long
def test_a_cell_that_shrinks_gets_its_room():
    system, y0 = fluid(cells=4, dynamics=md.StochasticCellRescaling(0.8, 30.0, 0.1, 0.1, 0.1))
    times = [0.0, 0.25, 0.5]
    run = simkit.simulate(system, y0, times, step=H, key=KEY)
    assert run.status == 0
    assert jnp.linalg.det(run.final().cell) < 0.75 * jnp.linalg.det(run.ys.cell[0])
    # With all pairs there is nothing that could be too small.
    space = md.Orthorhombic(jnp.full(3, 6.5))
    plan = md.plan_neighbours(system.potential, space, y0.position * 0.95, method="dense")
    every = simkit.simulate(dataclasses.replace(system, plan=plan), y0, times, step=H, key=KEY)
    np.testing.assert_allclose(run.final().cell, every.final().cell, rtol=1e-9)  # rounding, enlarged by chaos
    prepared = system.prepared(y0)
    inside = jax.jit(lambda y: simkit.simulate(prepared, y, times, step=H, key=KEY))(y0)
    assert inside.status == 0
    np.testing.assert_allclose(inside.final().cell, every.final().cell, rtol=1e-9)


@pytest.mark.parametrize(
    "dynamics",
    [RESCALED, pytest.param(md.MTK(0.8, 1.0, 0.4, 2.0), marks=pytest.mark.long)],
    ids=lambda dynamics: type(dynamics).__name__,
)
def test_derivatives_of_a_run(dynamics):
    """By a parameter, the pressure, the cell at the start and momenta: reverse mode, forward mode and differences agree."""
    system, y0 = fluid(cells=3, dynamics=dynamics)
    system = system.prepared(y0)

    def loss(q):
        named = {"potential.sigma": 1.0 + q[0], "dynamics.pressure": 1.0 + q[1]}
        put = simkit.core.Setup(system, y0, None).put(named)
        moved = dataclasses.replace(put.system, space=md.Orthorhombic(system.space.lengths * (1 + q[2])))
        start = md.Atoms(y0.position * (1 + q[2]), y0.momentum * (1 + q[3]))
        end = simkit.simulate(moved, start, [0.0, 0.05], step=H, key=KEY).final()
        return jnp.linalg.det(end.cell) + jnp.mean(jnp.sum((end.position - y0.position) ** 2, -1))

    q = jnp.zeros(4)
    found = jax.jit(jax.grad(loss))(q)
    close(jax.jit(jax.jacfwd(loss))(q), found)
    compiled, e = jax.jit(loss), 1e-5
    expected = jnp.stack([(compiled(q + e * v) - compiled(q - e * v)) / (2 * e) for v in jnp.eye(4)])
    close(found, expected, 1e-6)  # differences: e^2, and rounding 1e-16 / e
    assert jnp.abs(found).min() > 1e-6


def test_open_space_has_no_pressure_to_hold():
    system, y0 = fluid(dynamics=RESCALED)
    with pytest.raises(simkit.ArgumentError, match="periodic"):
        dataclasses.replace(system, space=md.OpenSpace()).prepared(y0)
