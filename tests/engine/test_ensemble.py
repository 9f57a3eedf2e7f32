"""Members solved together take the steps that they take alone: `ensemble` and `vmap` against a loop of `simulate`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close

import simkit
from simkit.engine import _ensemble
from simkit.engine._ensemble import in_chunks
from simkit.odes import from_function
from simkit.solvers import Rodas5P, Tsit5

STEP = simkit.Adaptive(1e-7, 1e-9)
# The same arithmetic compiled twice differs in the last bit, which some hundred steps of a non-stiff orbit let grow.
ROUNDING = 1e-12


def oscillator(mu):
    """Van der Pol: the larger `mu`, the stiffer."""
    return from_function(lambda t, y, p: jnp.stack([y[1], p["mu"] * (1 - y[0] ** 2) * y[1] - y[0]]), {"mu": mu})


def one(mu, start, times, solver, step=STEP):
    y0 = jnp.stack([start, jnp.zeros_like(start)])
    return simkit.simulate(oscillator(mu), y0, times, solver=solver, step=step, on_failure="mark")


def compare(found, singles, tolerance=ROUNDING):
    """States to rounding, and every count as it is alone."""
    close(found.ys, np.stack([s.ys for s in singles]), tolerance)
    for name in ("status", "steps", "rejected"):
        np.testing.assert_array_equal(getattr(found, name), [getattr(s, name) for s in singles], err_msg=name)


MU = np.array([0.1, 30.0, 1.0, 8.0, 0.5, 60.0, 2.0, 4.0, 0.2, 15.0, 100.0])
SOLVERS = pytest.mark.parametrize("solver", [Tsit5(), Rodas5P()], ids=["Tsit5", "Rodas5P"])


@SOLVERS
@pytest.mark.parametrize("count", [2, 60])
def test_members_equal_single_solves(solver, count):
    """Eleven members, from mild to stiff, in four lanes: lanes are refilled; and by vmap, each in a lane of its own."""
    times = jnp.linspace(0.0, 3.0, count)
    starts = jnp.linspace(1.0, 2.0, len(MU))
    alone = jax.jit(lambda mu, start: one(mu, start, times, solver))
    singles = [alone(mu, start) for mu, start in zip(jnp.asarray(MU), starts, strict=True)]
    assert max(s.steps for s in singles) > 3 * min(s.steps for s in singles)  # heterogeneous indeed
    found = simkit.ensemble(
        oscillator(1.0),
        jnp.zeros(2),
        times,
        over={"mu": MU, "y0": jnp.stack([starts, jnp.zeros_like(starts)], axis=1)},
        lanes=4,
        devices=jax.devices()[:1],
        solver=solver,
        step=STEP,
    )
    compare(found, singles)
    compare(jax.vmap(lambda mu, start: one(mu, start, times, solver))(jnp.asarray(MU), starts), singles)


def test_a_queue_longer_than_the_lanes_and_times_of_each_members_own():
    """More members than any number of lanes by default, over spans of different length, in a shuffled order."""
    rng = np.random.default_rng(3)
    members = 300
    mu = jnp.asarray(rng.permutation(np.geomspace(0.1, 20.0, members)))
    ends = jnp.asarray(rng.uniform(0.5, 2.0, members))
    solve = lambda mu, end: one(mu, jnp.asarray(1.5), jnp.stack([0 * end, 0.3 * end, end]), Tsit5())
    found = jax.jit(jax.vmap(solve))(mu, ends)
    alone = jax.jit(solve)
    chosen = rng.choice(members, 25, replace=False)
    compare(jax.tree.map(lambda x: x[chosen], found), [alone(mu[i], ends[i]) for i in chosen])
    assert (found.status == 0).all()


def test_one_member():
    times = jnp.linspace(0.0, 2.0, 4)
    alone = one(jnp.asarray(3.0), jnp.asarray(1.5), times, Tsit5())
    found = simkit.ensemble(
        oscillator(1.0), jnp.array([1.5, 0.0]), times, over={"mu": jnp.array([3.0])}, solver=Tsit5(), step=STEP
    )
    compare(found, [alone])


def test_nested_batches_are_one_queue():
    mu, starts, times = jnp.array([0.5, 5.0, 20.0]), jnp.array([1.0, 2.0]), jnp.linspace(0.0, 2.0, 3)
    solve = lambda mu, start: one(mu, start, times, Tsit5())
    found = jax.jit(jax.vmap(jax.vmap(solve, in_axes=(None, 0)), in_axes=(0, None)))(mu, starts)
    alone = jax.jit(solve)
    for i in range(3):
        compare(jax.tree.map(lambda x, i=i: x[i], found), [alone(mu[i], start) for start in starts])


def test_members_that_fail_are_marked_one_by_one():
    """The others are as they are alone, and what a failed member saved before it failed stays."""
    times = jnp.linspace(0.0, 3.0, 7)
    step = simkit.Adaptive(1e-7, 1e-9, max_steps=400)
    mu = jnp.array([1.0, jnp.nan, 3.0, 1e6, 1e300, 0.5])
    solve = lambda mu: one(mu, jnp.asarray(1.5), times, Tsit5(), step)
    alone = jax.jit(solve)
    singles = [alone(m) for m in mu]
    for lanes in (None, 2):
        found = simkit.ensemble(
            oscillator(1.0),
            jnp.array([1.5, 0.0]),
            times,
            over={"mu": mu},
            lanes=lanes,
            devices=jax.devices()[:1],
            solver=Tsit5(),
            step=step,
        )
        failed = np.asarray(found.status) != 0
        np.testing.assert_array_equal(failed, [False, True, False, True, True, False])
        np.testing.assert_array_equal(found.status, [s.status for s in singles])
        np.testing.assert_array_equal(np.isnan(found.ys), np.isnan(np.stack([s.ys for s in singles])))
        healthy = np.flatnonzero(~failed)
        compare(jax.tree.map(lambda x, h=healthy: x[h], found), [singles[i] for i in healthy])


@pytest.mark.parametrize("times", [[0.0, 3.0], [0.0, 0.5, 1.0, 3.0]], ids=["final state", "saved"])
def test_a_state_that_grows_to_infinity_is_a_failure(times):
    # The stages stay finite and their errors cancel, so that no step is rejected.
    growth = from_function(lambda t, y, p: p["k"] + 0 * y, {"k": 1.0})
    found = simkit.ensemble(growth, jnp.ones(1), jnp.array(times), over={"k": jnp.array([1.0, 1e308, 2.0])})
    np.testing.assert_array_equal(found.status, [0, int(simkit.Status.NON_FINITE), 0])
    np.testing.assert_allclose(found.ys[::2, -1, 0], [4.0, 7.0], rtol=1e-12)


def test_all_members_fail():
    times = jnp.linspace(0.0, 3.0, 4)
    found = simkit.ensemble(
        oscillator(1.0),
        jnp.array([1.5, 0.0]),
        times,
        over={"mu": jnp.full(5, jnp.nan)},
        lanes=2,
        devices=jax.devices()[:1],
        solver=Tsit5(),
        step=STEP,
    )
    assert (found.status != 0).all()
    np.testing.assert_array_equal(found.ys[:, 0], np.tile([1.5, 0.0], (5, 1)))
    assert np.isnan(found.ys[:, 1:]).all()


@pytest.mark.parametrize(
    ("members", "size", "turn"), [(5, 8, 5), (20, 8, 7), (300, 256, 152), (201, 256, 208), (1001, 1000, 504)]
)
def test_turns_are_of_equal_length_and_fill_vectors(members, size, turn):
    """Three hundred members in turns of 256 took the time of 512, and odd lengths three times that of even ones."""
    seen = []

    def twice(x):
        seen.append(x.shape[0])
        return 2 * x

    values = jnp.arange(float(members))
    np.testing.assert_array_equal(in_chunks(twice, (values,), size), 2 * values)
    assert seen == [turn]
    np.testing.assert_array_equal(jax.grad(lambda x: jnp.sum(in_chunks(twice, (x,), size)))(values), 2.0)


def test_members_with_noise_step_together_and_draw_what_they_draw_alone(monkeypatch):
    """Diffrax took half the time of turns of 256 members."""
    system, y0, _, _ = simkit.odes.OrnsteinUhlenbeck.example()
    key, rates = jax.random.key(2), np.linspace(0.5, 1.5, 300)
    sizes = []

    def chunked(function, members, size):
        sizes.append(size)
        return in_chunks(function, members, size)

    monkeypatch.setattr(_ensemble, "in_chunks", chunked)

    def run(over, **options):
        return simkit.ensemble(
            system, y0, [0.0, 0.5, 1.0], over={"reversion": over}, step=simkit.Fixed(5), key=key, **options
        )

    whole = run(rates)
    close(whole.ys.x, run(rates, lanes=37).ys.x, ROUNDING)
    assert set(sizes) == {_ensemble.STOCHASTIC_LANES, 37}
    sizes.clear()
    bounded = lambda over: (
        run(over, gradient=simkit.Checkpointed(memory="1 MiB")).ys.x
    )  # which the members of a turn share
    jax.eval_shape(bounded, rates)
    assert sizes == [_ensemble.FIXED_LANES]
