"""Particles: what is conserved, what a thermostat draws, what a list of neighbours must not change, and derivatives of runs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from md_runs import KEY, H, fluid, ideal

import simkit
from simkit import md


def energies(system, y0, run):
    system = system.prepared(y0)
    return jax.jit(jax.vmap(lambda y: system.invariants(0.0, y)["energy"]))(run.ys)


def test_energy_is_conserved_to_second_order_and_momentum_to_rounding():
    system, y0 = fluid(temperature=0.3)
    drifts = []
    for h in (H, H / 2):
        run = simkit.simulate(system, y0, np.linspace(0.0, 0.3, 7), step=h)
        assert run.status == 0
        drifts.append(np.ptp(energies(system, y0, run)))
        assert np.abs(run.ys.momentum.sum(1)).max() < 1e-12
    assert 3.3 < drifts[0] / drifts[1] < 4.7  # h^2, and what the next order adds at this step


def test_time_can_be_reversed():
    """To rounding, which chaos enlarges hundredfold in this time."""
    system, y0 = fluid()
    times = np.array([0.0, 0.5])
    end = simkit.simulate(system, y0, times, step=H).final()
    back = simkit.simulate(system, md.Atoms(end.position, -end.momentum), times, step=H).final()
    np.testing.assert_allclose(back.position, y0.position, atol=1e-10)


def test_a_run_goes_on_from_a_save_time_bit_for_bit():
    for dynamics in (md.NVE(), md.Langevin(1.0, 1.0), md.StochasticRescaling(1.0, 0.1)):
        system, y0 = fluid(dynamics=dynamics)
        whole = simkit.simulate(system, y0, [0.0, 0.1, 0.2], step=H, key=KEY)
        middle = jax.tree.map(lambda x: x[1], whole.ys)
        rest = simkit.simulate(system, middle, [0.1, 0.2], step=H, key=KEY)
        jax.tree.map(np.testing.assert_array_equal, rest.final(), whole.final())


@pytest.mark.slow
def test_lists_change_nothing():
    """Clusters with a thin skin and with a thick one, and all pairs."""
    system, y0 = fluid(cells=4)
    ends = []
    for skin, method in ((0.1, "clusters"), (0.6, "clusters"), (0.3, "dense")):
        plan = md.plan_neighbours(system.potential, system.space, y0.position, skin=skin, method=method)
        run = simkit.simulate(dataclasses.replace(system, plan=plan), y0, [0.0, 0.2], step=H)
        ends.append((run.final().position, int(run.lists.built)))
    assert ends[0][1] > ends[1][1] >= 1
    for position, _ in ends[1:]:
        np.testing.assert_allclose(position, ends[0][0], atol=1e-11)


def test_a_system_that_is_not_prepared_says_so_inside_jit():
    system, y0 = fluid()
    with pytest.raises(simkit.ArgumentError, match="prepared"):
        jax.jit(lambda y: simkit.simulate(system, y, [0.0, 0.05], step=H).status)(y0)


def test_an_ensemble_over_temperatures():
    system, y0 = fluid(dynamics=md.Langevin(1.0, 5.0))
    temperatures = np.array([0.5, 1.0, 2.0])
    members = simkit.ensemble(
        system,
        y0,
        [0.0, 0.1],
        over={"dynamics.temperature": temperatures},
        step=H,
        key=jax.random.split(KEY, 3),
        devices=jax.devices()[:1],
    )
    for i, temperature in enumerate(temperatures):
        alone = dataclasses.replace(system, dynamics=md.Langevin(temperature, 5.0))
        run = simkit.simulate(alone, y0, [0.0, 0.1], step=H, key=jax.random.split(KEY, 3)[i])
        np.testing.assert_allclose(members.ys.position[i], run.ys.position, atol=1e-11)


@pytest.mark.slow
def test_nose_hoover_chains_conserve_their_energy_and_hold_the_temperature():
    system, y0 = fluid(temperature=0.8, dynamics=md.NoseHoover(0.8, 0.4))
    drifts = []
    for h in (H, H / 2):
        run = simkit.simulate(system, y0, np.linspace(0.0, 0.5, 11), step=h)
        drifts.append(np.ptp(energies(system, y0, run)))
    assert 3.3 < drifts[0] / drifts[1] < 4.7
    # The start is a disordered crystal, whose potential energy the thermostat takes up: some ten periods.
    times = np.arange(0.0, 30.0, 0.25)
    ys = simkit.simulate(system, y0, times, step=H).ys
    freedom, skipped = 3 * 108 - 3, 20
    found = (np.asarray(ys.momentum) ** 2).sum((1, 2))[skipped:] / freedom
    # Fluctuations are those of the canonical ensemble, sqrt(2 / freedom), and oscillate: some 40 of 100 rows are independent.
    assert abs(found.mean() / 0.8 - 1) < 4 * np.sqrt(2 / freedom / 40)
    assert 0.6 < found.std() / (0.8 * np.sqrt(2 / freedom)) < 1.5


def test_chains_go_back_in_time():
    """Half a coupling and its inverse: to rounding."""
    system, y0 = fluid(dynamics=md.NoseHoover(0.8, 0.4))
    state = system.prepared(y0).encode(y0)
    h = jnp.asarray(0.01)
    carry = system.opened(h, state, 0.3 * y0.momentum)
    back = system.closed(h, carry, 0.3 * y0.momentum)
    np.testing.assert_allclose(back.momentum, y0.momentum, rtol=1e-13)
    np.testing.assert_allclose(back.thermostat.momentum, 0.0, atol=1e-12)


def test_langevin_draws_momenta_and_diffuses_as_it_should():
    temperature, friction = 1.5, 2.0
    system, y0, mass = ideal(md.Langevin(temperature, friction))
    end = simkit.simulate(system, y0, [0.0, 4.0, 8.0], step=0.05, key=KEY).ys
    scaled = (np.asarray(end.momentum)[1:] / np.sqrt(np.asarray(mass)[:, None] * temperature)).ravel()
    # Means of n independent numbers: 4 standard deviations of mean and of variance.
    n = scaled.size
    assert abs(scaled.mean()) < 4 / np.sqrt(n)
    assert abs(scaled.var() - 1) < 4 * np.sqrt(2 / n)
    x = friction * 4.0
    moved = np.asarray(end.position[2] - end.position[1]) ** 2 * np.asarray(mass)[:, None] * friction**2 / temperature
    assert abs(moved.mean() / (2 * (x - 1 + np.exp(-x))) - 1) < 4 * np.sqrt(2 / moved.size)


def test_stochastic_rescaling_draws_the_canonical_kinetic_energy():
    temperature = 1.5
    system, y0, mass = ideal(md.StochasticRescaling(temperature, 0.05), count=8)
    times = np.arange(0.0, 400.0, 1.0)  # twenty relaxations apart
    ys = simkit.simulate(system, y0, times, step=0.1, key=KEY).ys
    doubled = (np.asarray(ys.momentum) ** 2 / np.asarray(mass)[:, None]).sum((1, 2))[20:] / temperature
    freedom, n = 21, 380
    assert abs(doubled.mean() - freedom) < 4 * np.sqrt(2 * freedom / n)
    # The variance of a chi-squared number is 2 f, that of its estimate (8 f^2 + 48 f) / n.
    assert abs(doubled.var() - 2 * freedom) < 4 * np.sqrt((8 * freedom**2 + 48 * freedom) / n)
    total = 0.5 * doubled * temperature + np.asarray(ys.thermostat)[20:]
    np.testing.assert_allclose(total, total[0], rtol=1e-9)  # no forces: the heat accounts for all


@pytest.mark.slow
def test_derivatives_of_a_run():
    """By a parameter, the cell and the start: reverse mode, forward mode and differences agree."""
    system, y0 = fluid(cells=3)
    plan = md.plan_neighbours(system.potential, system.space, y0.position, method="clusters")
    system = dataclasses.replace(system, plan=plan)

    def loss(q, memory=None):
        put = simkit.core.Setup(system, y0, None).put({"potential.sigma": 1.0 + q[0], "mass": 1.0 + q[1]})
        space = md.Orthorhombic(system.space.lengths * (1 + q[2]))
        moved = dataclasses.replace(put.system, space=space)
        start = md.Atoms(y0.position * (1 + q[2]), y0.momentum * (1 + q[3]))
        gradient = None if memory is None else simkit.Checkpointed(memory)
        run = simkit.simulate(moved, start, [0.0, 0.05, 0.1], step=H, gradient=gradient)
        return jnp.mean(jnp.sum((run.ys.position - y0.position[None]) ** 2, -1)) + 1e-3 * jnp.mean(
            run.ys.momentum[-1, 0]
        )

    q = jnp.zeros(4)
    found = jax.jit(jax.grad(loss))(q)
    close(jax.jit(jax.jacfwd(loss))(q), found)
    compiled, e = jax.jit(loss), 1e-5
    expected = jnp.stack([(compiled(q + e * v) - compiled(q - e * v)) / (2 * e) for v in jnp.eye(4)])
    close(found, expected, 1e-6)  # differences: e^2, and rounding 1e-16 / e
    close(jax.jit(jax.grad(lambda q: loss(q, "260 KiB")))(q), found)


def test_a_potential_of_no_family_is_refused():
    class Field(md.Potential):
        @property
        def charged(self):
            return False

    system, y0 = fluid()
    both = dataclasses.replace(system, potential=system.potential + Field())
    with pytest.raises(simkit.ArgumentError, match="`Field` is neither"):
        both.prepared(y0)


def test_what_particles_do_not_take_is_refused():
    system, y0 = fluid()
    run = lambda **asked: simkit.simulate(system, y0, [0.0, 0.05], **asked)
    with pytest.raises(simkit.ArgumentError, match="brings its own step"):
        run(solver=simkit.solvers.Tsit5())
    with pytest.raises(simkit.ArgumentError, match="`step` must be given"):
        run()


@pytest.mark.slow
def test_a_problem_of_particles_is_fitted():
    """Momenta of atoms after a while, of which the energy scale of the potential is found again."""
    system, y0 = fluid(temperature=0.2)
    times = np.array([0.05, 0.1])
    kinetic = lambda depth: (
        simkit.simulate(
            dataclasses.replace(system, potential=dataclasses.replace(system.potential, epsilon=depth)),
            y0,
            [0.0, *times],
            step=H,
        ).ys.momentum
    )
    data = {"kinetic_energy": 0.5 * np.sum(np.asarray(kinetic(jnp.asarray(1.1))) ** 2, axis=(1, 2))[1:]}
    experiment = simkit.Experiment(times=times, data=data, name="melt", start=0.0, y0=y0)
    problem = simkit.Problem(
        system,
        experiment,
        free={"potential.epsilon": simkit.Free(bounds=(0.5, 2.0), start=0.9)},
        noise={"kinetic_energy": simkit.noise.Normal(0.1)},
        step=H,
    )
    found = simkit.fit(problem, starts=1)
    np.testing.assert_allclose(found.estimate[0], 1.1, rtol=1e-6)
