"""Particles with inputs that change while they move, and with events that end a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from md_runs import KEY, ideal

import simkit
from simkit import md

OPEN = md.OpenSpace()
REST = md.Atoms(jnp.array([[1.0, 0.0, 0.0], [0.5, 0.2, 0.0]]), jnp.zeros((2, 3)))


@pytest.fixture(scope="module")
def driven():
    """Charges 1 and -2 in a field along x that a table gives, for two units of time."""
    system = md.Particles(md.ElectricField([0.0, 0.0, 0.3]), OPEN, charge=jnp.array([1.0, -2.0])).prepared(REST)

    def end(values):
        ramp = simkit.Interpolated([0.0, 2.0], values)
        inputs = {"potential.field.0": ramp}
        return simkit.simulate(system, REST, [0.0, 1.0, 2.0], step=0.02, inputs=inputs, on_failure="mark").final()

    return system, jax.jit(end), jax.jit(jax.jacrev(lambda values: end(values).position[0, 0]))


def test_a_field_over_time(driven):
    """E = a (1 - t/2) + b t/2: the momentum is its integral, exact for the trapezoid that kicks make; positions err by h^2 / 12 of
    the field's change."""
    _, end, slope = driven
    found = end(jnp.array([0.5, 2.0]))
    np.testing.assert_allclose(found.momentum[:, 0], [2.5, -5.0], rtol=1e-12)
    np.testing.assert_allclose(found.position[:, 0], [1 + 0.5 * 4 / 3 + 2 * 2 / 3, 0.5 - 2 * 2.0], rtol=1e-4)
    np.testing.assert_allclose(found.momentum[:, 2], [0.6, -1.2], rtol=1e-12)
    np.testing.assert_allclose(slope(jnp.array([0.5, 2.0])), [4 / 3, 2 / 3], rtol=1e-4)


def test_members_with_inputs_of_their_own(driven):
    system, end, _ = driven
    tables = np.array([[0.5, 2.0], [1.0, -1.0]])
    ramp = {"potential.field.0": simkit.Interpolated([0.0, 2.0], [0.0, 0.0])}
    over = {"inputs.potential.field.0.values": tables}
    run = simkit.ensemble(system, REST, [0.0, 1.0, 2.0], over=over, step=0.02, inputs=ramp, devices=jax.devices()[:1])
    for k, table in enumerate(tables):
        np.testing.assert_allclose(run.ys.position[k, -1], end(jnp.asarray(table)).position, rtol=1e-12, atol=1e-12)


def test_a_temperature_ramp():
    """The temperature follows with a lag of 1/(2 friction): 450 numbers, four standard deviations."""
    system, y0, mass = ideal(md.Langevin(1.0, 5.0))
    inputs = {"dynamics.temperature": simkit.Interpolated([0.0, 4.0], [0.5, 2.5])}
    run = simkit.simulate(system, y0, [0.0, 2.0, 4.0], step=0.05, key=KEY, inputs=inputs)
    found = (np.asarray(run.ys.momentum) ** 2 / np.asarray(mass)[:, None]).mean((1, 2))[1:]
    assert (np.abs(found / np.array([1.45, 2.45]) - 1) < 4 * np.sqrt(2 / 450)).all()


def test_outputs_see_inputs(driven):
    system = driven[0]
    strong = system.outputs(0.0, REST, {"potential.field.0": jnp.asarray(2.0)})["potential_energy"]
    np.testing.assert_allclose(strong, -2.0 * (1.0 - 2 * 0.5))


def test_what_cannot_be_an_input_is_refused(driven):
    run = lambda inputs: simkit.simulate(driven[0], REST, [0.0, 0.1], step=0.02, inputs=inputs)
    with pytest.raises(simkit.ArgumentError, match="A cell moves by its dynamics"):
        run({"space.lengths": 1.0})
    with pytest.raises(simkit.UnknownNameError, match=r"potential\.fields"):
        run({"potential.fields": 1.0})


@pytest.fixture(scope="module")
def swings():
    """Atoms in a trap, which pass its centre after a quarter of a period: the run, and how its time depends on the stiffness."""
    passing = simkit.Event(lambda system, t, y, inputs: y.position[0, 0], "down", ends=True)
    system = md.Particles(md.HarmonicTrap(1.0, jnp.zeros(3)), OPEN).prepared(REST)

    def run(stiffness):
        put = simkit.core.Setup(system).put({"potential.stiffness": stiffness}).system
        return simkit.simulate(put, REST, np.linspace(0.0, 6.0, 61), step=0.01, events=passing, on_failure="mark")

    return system, passing, jax.jit(run)(1.0), jax.jit(jax.grad(lambda k: run(k).event_time))(1.0)


@pytest.mark.slow
def test_an_event_ends_a_run(swings):
    """The time errs by the step's h^2/24 and by the cubic between save times, (0.1)^4/384 of the position."""
    _, _, run, slope = swings
    np.testing.assert_allclose(run.event_time, np.pi / 2, rtol=1e-5)
    np.testing.assert_allclose(slope, -np.pi / 4, rtol=1e-4)
    np.testing.assert_allclose(run.event_state.momentum[0, 0], -1.0, rtol=1e-4)
    assert int(run.steps) == 160  # the step's window is the last that is computed
    assert jnp.isfinite(run.ys.position[:16]).all()
    assert jnp.isnan(run.ys.position[16:]).all()


def test_every_member_ends_by_itself(swings):
    system, passing, _, _ = swings
    run = simkit.ensemble(
        system,
        REST,
        np.linspace(0.0, 6.0, 61),
        over={"potential.stiffness": np.array([1.0, 0.25, 0.01])},
        step=0.01,
        events=passing,
        devices=jax.devices()[:1],
    )
    np.testing.assert_allclose(run.event_time[:2], [np.pi / 2, np.pi], rtol=1e-5)
    assert jnp.isinf(run.event_time[2])
    assert jnp.isfinite(run.ys.position[2]).all()


def kicked(system, t, y, inputs):
    return md.Atoms(y.position, y.momentum.at[:, 0].add(1.0))


def bounced(system, t, y, inputs):
    """Return the state after a hard wall that the first atom has hit."""
    return md.Atoms(y.position, y.momentum.at[0, 0].multiply(-1.0))


def test_a_kick_at_a_known_time_with_its_derivatives():
    """cos(t) and, after the kick, sin(t - s) more; steps of 0.01 err by h^2 / 24 of the phase."""
    system = md.Particles(md.HarmonicTrap(1.0, jnp.zeros(3)), OPEN).prepared(REST)

    def run(at):
        event = simkit.Event(at=jnp.stack([at, jnp.asarray(jnp.inf)]), change=kicked)
        return simkit.simulate(system, REST, [0.0, 0.5, 1.0, 2.0], step=0.01, events=event, on_failure="mark")

    at = jnp.asarray(0.777)
    found = jax.jit(run)(at)
    times, since = found.times, jnp.maximum(found.times - at, 0.0)
    np.testing.assert_allclose(found.ys.position[:, 0, 0], np.cos(times) + np.sin(since), rtol=1e-4)
    assert int(found.events.count) == 1
    np.testing.assert_allclose(found.events.times[0], at, rtol=1e-14)
    moved = found.events.after.momentum - found.events.before.momentum
    np.testing.assert_allclose(moved[0, :, 0], 1.0, rtol=1e-12)
    last = lambda at: run(at).final().position[0, 0]
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(mode(last))(at), -np.cos(2.0 - 0.777), rtol=1e-4)


def test_a_wall_is_met_where_a_step_ends():
    """Without the wall the position would be cos(t); with it |cos(t)|, but for a step that each event is late, there and back."""
    system = md.Particles(md.HarmonicTrap(1.0, jnp.zeros(3)), OPEN).prepared(REST)
    wall = simkit.Event(lambda system, t, y, inputs: y.position[0, 0], "down", bounced)
    last = simkit.Event(lambda system, t, y, inputs: t - 4.995, "up", ends=True)
    times = np.linspace(0.0, 6.0, 7)
    run = simkit.ensemble(
        system,
        REST,
        times,
        over={"potential.stiffness": np.array([1.0, 0.0001])},
        step=0.01,
        events={"wall": wall, "last": last},
        devices=jax.devices()[:1],
    )
    np.testing.assert_allclose(run.events.times[0, :3], [np.pi / 2, 3 * np.pi / 2, 5.0], atol=0.04)
    np.testing.assert_allclose(run.ys.position[0, :5, 0, 0], np.abs(np.cos(times[:5])), atol=0.03)
    assert jnp.isnan(run.ys.position[0, 6:]).all()
    np.testing.assert_array_equal(run.events.count, [3, 1])
    np.testing.assert_array_equal(run.status, 0)
    assert int(run.steps[0]) == 500


def test_reducers_and_events_of_particles_are_refused(driven):
    event = simkit.Event(at=[0.05], change=kicked)
    with pytest.raises(simkit.ArgumentError, match="must not be given together for particles"):
        simkit.simulate(driven[0], REST, [0.0, 0.1], step=0.02, events=event, reduce={"mean": simkit.reducers.Mean()})
