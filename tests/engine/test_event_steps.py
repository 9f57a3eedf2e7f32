"""Events between fixed steps: a step is cut at an event; against closed forms, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import simkit
from simkit.odes import HarmonicOscillator, OrnsteinUhlenbeck, from_function

TIMES = np.linspace(0.0, 3.0, 31)
STEP = simkit.Fixed(3)


def falling(t, y, p):
    return {"height": y["speed"], "speed": -p["g"] + 0.0 * y["speed"]}


def bounced(system, t, y, inputs):
    return {"height": y["height"], "speed": -0.8 * y["speed"]}


def height(system, t, y, inputs):
    return y["height"]


BOUNCE = simkit.Event(height, "down", bounced)


def ball(gravity, start, event=BOUNCE, **options):
    system = from_function(falling, {"g": gravity})
    y0 = {"height": start, "speed": 0.0}
    return simkit.simulate(system, y0, TIMES, solver="rk4", step=STEP, events=event, **options)


def bounces(gravity, start):
    """The times of the first three bounces."""
    return jnp.sqrt(2 * start / gravity) * jnp.array([1.0, 2.6, 3.88])


def decaying(t, y, p):
    return -p["rate"] * y


def dosed(system, t, y, inputs, dose):
    return y + dose


def doses(rate, at, amount, **options):
    system, event = from_function(decaying, {"rate": rate}), simkit.Event(at=at, values=amount, change=dosed)
    return simkit.simulate(system, 0.0 * rate, TIMES, events=event, **{"step": 0.02, "solver": "tsit5"} | options)


def superposed(rate, at, amount):
    """The sum of what every dose left."""
    since = TIMES[:, None] - jnp.where(jnp.isfinite(at), at, 4.0)[None]
    return jnp.sum(jnp.where(since >= 0, amount[None] * jnp.exp(-rate * since), 0.0), axis=1)


def test_a_ball_bounces_where_it_should_with_derivatives():
    gravity, start = jnp.asarray(9.81), jnp.asarray(2.0)

    def seen(gravity, start):
        found = ball(gravity, start)
        return found.events.times[:3], found.final()["height"], found

    def exact(gravity, start):
        times = bounces(gravity, start)
        since, speed = 3.0 - times[2], 0.512 * jnp.sqrt(2 * gravity * start)
        return times, speed * since - gravity / 2 * since**2

    *pair, found = seen(gravity, start)
    # the method is exact for a parabola: rounding of a hundred steps
    for a, b in zip(pair, exact(gravity, start), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert int(found.events.count) == 3
    assert found.status == simkit.Status.OK
    np.testing.assert_allclose(found.events.after["speed"][:3], -0.8 * found.events.before["speed"][:3], rtol=1e-14)
    assert int(found.steps) == 93
    slopes = jax.jacfwd(exact, (0, 1))(gravity, start)
    for mode in (jax.jacfwd, jax.jacrev):
        got = jax.jit(mode(lambda *x: seen(*x)[:2], (0, 1)))(gravity, start)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(slopes), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.slow
def test_second_derivatives():
    last = lambda start: ball(9.81, start).events.times[2]
    exact = lambda start: bounces(9.81, start)[2]
    for outer in (jax.jacfwd, jax.jacrev):
        got = jax.jit(outer(jax.jacfwd(last)))(jnp.asarray(2.0))
        np.testing.assert_allclose(got, jax.hessian(exact)(jnp.asarray(2.0)), rtol=1e-9)


def test_doses_are_a_superposition_with_derivatives():
    # one within a step, one at the start, one on a save time, two at one time, one that never comes
    at = jnp.array([1.2345, 0.0, 2.0, 0.77, 0.77, jnp.inf])
    amount = jnp.array([1.0, 2.0, 0.5, 0.3, 0.4, 9.0])
    rate = jnp.asarray(0.7)
    found, exact = doses(rate, at, amount), superposed(rate, at, amount)
    np.testing.assert_allclose(found.ys[1:], exact[1:], rtol=1e-10)  # order 5 with steps of a seventieth
    assert found.ys[0] == 0.0  # the start as it was given
    assert int(found.events.count) == 5
    np.testing.assert_array_equal(found.events.times[:5], [0.0, 0.77, 0.77, 1.2345, 2.0])
    # derivatives on the side on which the dose at 2 has happened, as the row there says
    late = lambda f: lambda *given: jnp.sum(jnp.stack([f(*given)[i] for i in (10, 20, 30)]))
    wanted = jax.grad(late(superposed), (0, 1, 2))(rate, at.at[5].set(2.9), amount.at[5].set(0.0))
    for mode in (jax.grad, jax.jacfwd):
        got = mode(late(lambda *given: doses(*given).ys), (0, 1, 2))(rate, at, amount)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a[..., :5] if a.ndim else a, b[..., :5] if b.ndim else b, rtol=1e-8)


@pytest.mark.parametrize("solver", [pytest.param("rodas5p", marks=pytest.mark.slow), "tsit5"])
def test_members_end_by_themselves(solver):
    system = from_function(decaying, {"rate": 1.0})
    rate = np.linspace(0.1, 2.0, 5)
    event = simkit.Event(lambda system, t, y, inputs: y - 0.3, "down", ends=True)
    found = simkit.ensemble(system, 1.0, TIMES, over={"rate": rate}, events=event, step=0.05, solver=solver)
    exact = np.log(1 / 0.3) / rate
    exact = np.where(exact <= 3.0, exact, np.inf)
    np.testing.assert_allclose(found.event_time, exact, rtol=1e-7)
    np.testing.assert_array_equal(np.isnan(found.ys), TIMES[None] > exact[:, None])
    np.testing.assert_array_equal(found.status, 0)
    assert int(found.steps[-1]) < int(found.steps[0]) == 60
    alone = [
        simkit.simulate(from_function(decaying, {"rate": r}), 1.0, TIMES, events=event, step=0.05, solver=solver)
        for r in rate[-1:]
    ]
    np.testing.assert_allclose(found.event_time[-1], alone[0].event_time, rtol=1e-13)


def test_a_symplectic_method_keeps_its_force_anew_after_a_kick():
    system, kick = HarmonicOscillator(mass=1.0, stiffness=1.0), np.pi / 2 + 0.001
    y0 = simkit.SeparableSystem.State(jnp.ones(()), jnp.zeros(()))

    def kicked(system, t, y, inputs):
        return simkit.SeparableSystem.State(y.position + 1.0, y.momentum)

    found = simkit.simulate(system, y0, TIMES, step=0.001, events=simkit.Event(at=[kick], change=kicked))
    since = TIMES - kick
    exact = np.where(since < 0, np.cos(TIMES), np.cos(TIMES) + np.cos(since))
    np.testing.assert_allclose(found.ys.position, exact, atol=1e-6)  # order 2: 0.001^2 over some periods


def test_inputs_jump_between_events():
    system = from_function(lambda t, y, p, inputs: inputs["flow"] - 0.0 * y, {})
    inputs = {"flow": simkit.PiecewiseConstant([0.0, 1.0], [0.0, 2.0])}
    full = simkit.Event(lambda system, t, y, inputs: y - 1.0, "up", lambda system, t, y, inputs: 0.0 * y)
    poured = simkit.Event(at=[1.0], change=lambda system, t, y, inputs: y + 0.5)
    found = simkit.simulate(system, 0.0, TIMES, inputs=inputs, step=0.03, events={"full": full, "poured": poured})
    # 0.5 at 1, full at 1.25, 1.75, 2.25, 2.75
    np.testing.assert_allclose(found.events.times[:5], [1.0, 1.25, 1.75, 2.25, 2.75], rtol=1e-12)
    np.testing.assert_allclose(found.ys[10], 0.5, rtol=1e-12)
    np.testing.assert_allclose(found.final(), 0.5, rtol=1e-11)


def test_a_ball_that_comes_to_rest_is_said_to_and_one_event_sets_off_another():
    dead = simkit.Event(height, "down", lambda system, t, y, inputs: {**y, "speed": -0.1 * y["speed"]})
    found = ball(9.81, 2.0, dead, on_failure="mark")
    assert found.status == simkit.Status.ENDLESS_EVENTS
    assert np.isnan(found.ys["height"][-1])
    assert np.isfinite(found.ys["height"][6])
    low = simkit.Event(lambda system, t, y, inputs: y["height"] + 1.0, "down", ends=True)
    drop = simkit.Event(height, "down", lambda system, t, y, inputs: {**y, "height": y["height"] - 2.0})
    found = ball(9.81, 2.0, {"low": low, "drop": drop})
    assert [row["event"] for row in found.events.table()] == ["drop", "low"]
    np.testing.assert_allclose(found.events.times[:2], bounces(9.81, 2.0)[0], rtol=1e-12)


def test_an_event_that_another_sets_off_does_not_repeat_the_first():
    floor = simkit.Event(height, None, bounced)  # at zero but for rounding, on either side
    turn = simkit.Event(lambda system, t, y, inputs: y["speed"])
    found = ball(9.81, 2.0, {"floor": floor, "turn": turn})
    times = np.asarray(bounces(9.81, 2.0))
    np.testing.assert_allclose(found.events["floor"].times[:4], [*times, np.inf], rtol=1e-12)
    tops = times + np.array([0.8, 0.64, 0.512]) * np.sqrt(2 * 2.0 / 9.81)
    np.testing.assert_allclose(np.sort(found.events["turn"].times[:6]), np.sort([*times, *tops]), rtol=1e-12)


@pytest.mark.slow
def test_noise_is_cut_at_known_times_and_conditions_are_looked_at_where_steps_end():
    system, y0, _, _ = OrnsteinUhlenbeck.example()
    system = OrnsteinUhlenbeck(reversion=1.0, mean=0.0, volatility=0.5)
    members, at = 4000, 0.4321
    jump = simkit.Event(at=[at], change=lambda system, t, y, inputs: type(y)(y.x + 3.0))
    times, key = np.array([0.0, 0.5, 1.0]), jax.random.key(0)
    over = {"y0.x": np.zeros(members)}
    found = simkit.ensemble(system, y0, times, over=over, key=key, step=0.05, events=jump)
    x = np.asarray(found.ys.x)
    for row, time in ((1, 0.5), (2, 1.0)):
        spread = np.sqrt(0.125 * (1 - np.exp(-2 * time)))
        # five standard errors, and the bias of Euler's steps of a twentieth
        assert abs(x[:, row].mean() - 3.0 * np.exp(-(time - at))) < 5 * spread / np.sqrt(members) + 0.05 * time
        np.testing.assert_allclose(x[:, row].std(), spread, rtol=0.1)
    up = simkit.Event(lambda system, t, y, inputs: y.x - 0.2, "up", lambda system, t, y, inputs: type(y)(0.0 * y.x))
    found = simkit.ensemble(system, y0, times, over={"y0.x": np.zeros(8)}, key=key, step=0.05, events=up)
    happened = np.asarray(found.events.happened)
    assert happened.any()
    steps = np.asarray(found.events.times)[happened] / 0.05
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
    assert (np.asarray(found.events.before.x)[happened] >= 0.2).all()


def test_time_runs_backwards():
    system = from_function(decaying, {"rate": 0.7})
    event = simkit.Event(lambda system, t, y, inputs: y - 2.0, "up", lambda system, t, y, inputs: 0.5 * y)
    found = simkit.simulate(system, 1.0, [3.0, 2.0, 0.5], events=event, step=0.01, solver="rk4")
    np.testing.assert_allclose(found.events.times[0], 3.0 - np.log(2) / 0.7, rtol=1e-9)
    np.testing.assert_allclose(found.ys[-1], 0.25 * np.exp(0.7 * 2.5), rtol=1e-8)  # 2 is reached twice


@pytest.mark.slow
def test_members_of_a_batch_and_of_a_mesh_have_their_own_derivatives():
    starts = jnp.array([0.4, 2.0, 30.0, 60.0])  # six, three, one and no bounce
    last = lambda start: ball(9.81, start).final()["height"]
    alone = jnp.stack([jax.jit(jax.grad(last))(start) for start in starts])
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(last)))(starts), alone, rtol=1e-11)
    forward = jax.jit(jax.vmap(jax.jacfwd(last)))(starts)
    np.testing.assert_allclose(forward, alone, rtol=1e-11)
    mesh = jax.make_mesh((2,), ("members",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("members")
    spread = jax.shard_map(jax.vmap(jax.grad(last)), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(jax.jit(spread)(starts), alone, rtol=1e-11)


@pytest.mark.slow
def test_reverse_mode_within_a_memory_bound_is_the_same():
    last = lambda start, **options: ball(9.81, start, **options).final()["height"]
    plain = jax.jit(jax.grad(last))(jnp.asarray(2.0))
    bounded = jax.jit(jax.grad(lambda start: last(start, gradient=simkit.Checkpointed(memory="8 kB"))))
    np.testing.assert_allclose(bounded(jnp.asarray(2.0)), plain, rtol=1e-12)


def test_an_input_that_jumps_at_time_zero():
    """The numbers next to zero are too small to be normal, and most machines take them for zero."""
    system = from_function(lambda t, y, p, inputs: {"x": inputs["push"] + 0.0 * y["x"]}, {})
    push = {"push": simkit.PiecewiseConstant([-1.0, 0.0], [0.0, 1.0])}
    found = simkit.simulate(system, {"x": 0.0}, [-1.0, 0.0, 2.0], inputs=push, solver="rk4", step=0.1)
    np.testing.assert_allclose(found.ys["x"], [0.0, 0.0, 2.0], atol=1e-14)


def test_small_units_in_single_precision():
    """Products of two conditions of 1e-25 are zero there; signs are not."""
    small = 1e-25
    with jax.enable_x64(False):
        first = ball(np.float32(9.81 * small), np.float32(2.0 * small)).events
        assert first.times.dtype == np.float32
        np.testing.assert_allclose(first.times[:3], bounces(9.81, 2.0), rtol=1e-5)
