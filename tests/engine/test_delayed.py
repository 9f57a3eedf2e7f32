"""Systems with delays against solutions on paper: values, derivatives, transformations, refusals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Adaptive, Scalar, quantity
from simkit.core import Status
from simkit.engine.delayed._ring import last_before


class Feedback(simkit.DelayedSystem):
    """x'(t) = -rate x(t - lag), whose solution by the method of steps is a polynomial in each interval."""

    rate: Scalar = quantity(1.0)
    lag: Scalar = quantity(1.0)

    def delayed_field(self, t, y, inputs, past):
        return {"x": -self.rate * past(t - self.lag)["x"]}

    def lags(self, t, y, inputs):
        return self.lag

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": 1.0}, jnp.linspace(0.0, 4.0, 9))


def solution(t, rate, lag, y0):
    """The method of steps for a constant history: a sum of (-rate)^k (t - (k - 1) lag)^k / k!."""
    terms = range(math.floor(t / lag + 1) + 1)
    return y0 * sum((-rate) ** k * (t - (k - 1) * lag) ** k / math.factorial(k) for k in terms)


TIMES = np.array([0.0, 0.4, 1.3, 2.1, 3.7, 4.3])
POINT = 1.0, 1.1, 0.7


def simulated(rate, lag, y0, rtol=1e-9):
    return simkit.simulate(Feedback(rate, lag), {"x": y0}, TIMES, step=Adaptive(rtol)).ys["x"]


def exact(rate, lag, y0):
    return np.array([solution(t, rate, lag, y0) for t in TIMES])


def slopes_of(function, point, h=1e-5):
    """Central differences of an exact solution, right to some 1e-10."""
    found = []
    for i in range(len(point)):
        up, down = list(point), list(point)
        up[i] += h
        down[i] -= h
        found.append((function(*up) - function(*down)) / (2 * h))
    return found


def test_values_are_those_of_the_method_of_steps():
    # The solution is a polynomial of degree at most 5 here, which a method of order 5 integrates to rounding.
    np.testing.assert_allclose(simulated(*POINT), exact(*POINT), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("way", [jax.jacfwd, jax.jacrev])
def test_derivatives_by_rate_lag_and_start(way):
    found = jax.jit(way(simulated, argnums=(0, 1, 2)))(*POINT)
    for one, expected in zip(found, slopes_of(exact, POINT), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_second_derivatives_by_the_lag():
    found = jax.jit(jax.jacfwd(jax.jacrev(lambda lag: simulated(POINT[0], lag, POINT[2])[-1])))(POINT[1])
    h = 1e-4
    values = [exact(POINT[0], POINT[1] + k * h, POINT[2])[-1] for k in (-1, 0, 1)]
    np.testing.assert_allclose(found, (values[0] - 2 * values[1] + values[2]) / h**2, rtol=1e-4)


def jumping(t, rate, lag, before):
    """x' = -rate x(t - lag) from 1 with the history `before`, up to two lags: the slope jumps after one."""
    if t <= lag:
        return 1 - rate * before * t
    s = t - lag
    return 1 - rate * before * lag - rate * (s - rate * before * s**2 / 2)


def jumped(rate, lag, before):
    params = {"rate": rate, "lag": lag, "before": before}
    f = lambda t, y, past, p: -p["rate"] * past(t - p["lag"])
    system = simkit.odes.from_delayed_function(f, params, lags="lag", history=lambda t, p: p["before"])
    return simkit.simulate(system, 1.0, [0.0, 0.5, 1.5, 2.1], step=Adaptive(1e-9)).ys


@pytest.mark.parametrize("way", [jax.jacfwd, jax.jacrev])
def test_a_history_that_jumps_at_the_start(way):
    """The slope jumps a lag after the start, so a derivative by the lag that held all ends of steps would be wrong."""
    point = 0.8, 1.1, 0.4
    expected = lambda *p: np.array([1.0, *(jumping(t, *p) for t in (0.5, 1.5, 2.1))])
    np.testing.assert_allclose(jumped(*point), expected(*point), rtol=1e-9)
    for one, slope in zip(way(jumped, argnums=(0, 1, 2))(*point), slopes_of(expected, point), strict=True):
        np.testing.assert_allclose(one, slope, rtol=1e-7, atol=1e-8)


def pantograph(share, rtol=1e-9, solver=None):
    """x' = x(share t), whose lag vanishes at the start; the solution is a power series."""
    params = {"share": share}
    f = lambda t, y, past, p: past(p["share"] * t)
    system = simkit.odes.from_delayed_function(f, params, lags=lambda t, y, p: (1 - p["share"]) * t)
    return simkit.simulate(system, 1.0, [0.0, 1.0, 2.0], step=Adaptive(rtol), solver=solver).ys


def series(share):
    return np.array([sum(share ** (k * (k - 1) / 2) * t**k / math.factorial(k) for k in range(40)) for t in range(3)])


@pytest.mark.parametrize("solver", ["tsit5", "rodas5p"])
def test_a_lag_that_varies_and_vanishes(solver):
    np.testing.assert_allclose(pantograph(0.5, 1e-8, solver), series(0.5), rtol=2e-7)


@pytest.mark.slow
@pytest.mark.parametrize("way", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_steps_that_reach_into_themselves(way):
    np.testing.assert_allclose(way(pantograph)(0.5), slopes_of(series, (0.5,))[0], rtol=1e-6, atol=1e-8)


def test_a_stiff_step_is_longer_than_its_lag():
    """y' = -k (y(t - lag) - cos t) settles on the real part of A exp(i t) with i A = -k (A exp(-i lag) - 1)."""
    f = lambda t, y, past, p: -p["k"] * (past(t - p["lag"]) - jnp.cos(t))
    system = simkit.odes.from_delayed_function(f, {"k": 1000.0, "lag": 1e-5}, lags="lag")
    found = simkit.simulate(system, 0.0, [0.0, 2.0], solver="rodas5p")
    amplitude = 1000 / (1j + 1000 * np.exp(-1e-5j))
    np.testing.assert_allclose(found.ys[-1], (amplitude * np.exp(2j)).real, rtol=1e-6)
    assert found.steps < 1000  # 2e5 would be as long as the lag


def test_data_as_history_are_read_and_differentiated():
    """x' = x(t - 1) from a history of lines: the integral of the lines."""
    points = jnp.array([-1.0, -0.5, 0.0])

    def last(values):
        history = simkit.Interpolated(points, values)
        f = lambda t, y, past, p: past(t - p["lag"])
        system = simkit.odes.from_delayed_function(f, {"lag": 1.0}, lags="lag", history=history)
        return simkit.simulate(system, 0.0, [0.0, 1.0]).ys[-1]

    values = jnp.array([1.0, 3.0, -1.0])
    np.testing.assert_allclose(last(values), 0.25 * 1 + 0.5 * 3 - 0.25 * 1, rtol=1e-12)
    np.testing.assert_allclose(jax.grad(last)(values), [0.25, 0.5, 0.25], rtol=1e-12)


def test_a_start_at_zero_has_the_size_that_its_history_gives_it():
    """A tolerance for states near 1 would leave the small one without a digit."""
    f = lambda t, y, past, p: jnp.sin(9 * past(t - 1.0) / p["size"]) * p["size"]

    def last(size):
        history = lambda t, p: p["size"] * (0.3 + t)
        system = simkit.odes.from_delayed_function(f, {"size": size}, lags=lambda t, y, p: 1.0, history=history)
        return simkit.simulate(system, 0.0, [0.0, 2.0]).final() / size

    np.testing.assert_allclose(last(1e-12), last(1.0), rtol=1e-9)


def test_a_trajectory_says_how_many_steps_were_kept():
    found = simkit.simulate(small(64), 1.0, [0.0, 1.0])
    assert found.kept_steps == 64
    assert "ring of the last 64 steps" in repr(found)


def test_ensemble_members_are_those_of_single_simulations():
    lags = np.linspace(0.5, 2.0, 5)
    members = simkit.ensemble(Feedback(), {"x": 1.0}, TIMES, over={"lag": lags})
    assert (members.status == 0).all()
    for lag, row in zip(lags, members.ys["x"], strict=True):
        np.testing.assert_allclose(row, [solution(t, 1.0, lag, 1.0) for t in TIMES], rtol=1e-5, atol=1e-5)


def test_vmap_of_gradients():
    lags = jnp.array([0.6, 1.1])
    last = lambda lag: simulated(1.0, lag, 0.7)[-1]
    found = jax.jit(jax.vmap(jax.grad(last)))(lags)
    np.testing.assert_allclose(found, [slopes_of(exact, (1.0, float(x), 0.7))[1][-1] for x in lags], rtol=1e-6)


def test_a_lag_that_holds_too_many_steps_is_a_status():
    found = simkit.simulate(small(4), 1.0, [0.0, 5.0], step=Adaptive(1e-8), on_failure="mark")
    assert found.status == Status.HISTORY_FULL
    assert simkit.simulate(small(512), 1.0, [0.0, 5.0], step=Adaptive(1e-8)).status == 0
    with pytest.raises(simkit.SimulationError, match="kept_steps"):
        simkit.simulate(small(4), 1.0, [0.0, 5.0], step=Adaptive(1e-8))


def reading(lag, declared, **options):
    """x' = -past(t - lag), with another lag declared."""
    f = lambda t, y, past, p: -past(t - p["lag"])
    lags = lambda t, y, p: p["declared"]
    return simkit.odes.from_delayed_function(f, {"lag": lag, "declared": declared}, lags=lags, **options)


@pytest.mark.parametrize("solver", ["tsit5", "rodas5p"])
def test_a_past_that_is_not_known_is_a_status(solver):
    """Beyond the declared lags: not kept any more, not yet there, or before the history begins."""
    options = {"step": Adaptive(1e-8), "on_failure": "mark", "solver": solver}
    gone = simkit.simulate(reading(2.0, 0.1, kept_steps=4), 1.0, [0.0, 1.9, 5.0], **options)
    assert gone.status == Status.HISTORY_FULL
    np.testing.assert_allclose(gone.ys, [1.0, -0.9, np.nan], rtol=1e-9)
    assert simkit.simulate(reading(-0.5, 1.0), 1.0, [0.0, 1.0], **options).status == Status.BAD_LAG
    history = simkit.Interpolated([-1.0, 0.0], [1.0, 1.0])
    early = simkit.simulate(reading(1.5, 0.5, history=history), 1.0, [0.0, 1.0], **options)
    assert early.status == Status.HISTORY_SHORT


def test_undeclared_lags_that_are_kept_are_served():
    """A longer one while the ring holds it, and a shorter one by steps that are no longer than that."""
    for lag, declared in ((1.0, 0.4), (0.3, 1.0)):
        found = simkit.simulate(reading(lag, declared), 1.0, [0.0, 1.2, 2.0], step=Adaptive(1e-9))
        np.testing.assert_allclose(found.ys, [solution(t, 1.0, lag, 1.0) for t in (0, 1.2, 2.0)], rtol=1e-6, atol=1e-7)


def test_a_member_whose_past_is_not_known_leaves_gradients_of_others_alone():
    def total(rate):
        f = lambda t, y, past, p: -p["rate"] * past(t - p["lag"])
        system = simkit.odes.from_delayed_function(f, {"rate": rate, "lag": 1.0}, lags=lambda t, y, p: 1.0)
        members = simkit.ensemble(system, 1.0, [0.0, 1.5], over={"lag": jnp.array([1.0, -0.5])})
        return jnp.sum(members.filled().ys)

    np.testing.assert_allclose(
        jax.grad(total)(1.0), slopes_of(lambda r: solution(1.5, r, 1.0, 1.0), (1.0,))[0], rtol=1e-5
    )


def small(kept):
    f = lambda t, y, past, p: jnp.sin(20 * t) - past(t - p["lag"])
    return simkit.odes.from_delayed_function(f, {"lag": 2.0}, lags="lag", kept_steps=kept)


def test_lags_that_are_not_positive_or_too_long_are_refused():
    with pytest.raises(simkit.ArgumentError, match="must be positive"):
        simkit.simulate(Feedback(lag=-1.0), {"x": 1.0}, [0.0, 1.0])
    history = simkit.Interpolated([-1.0, 0.0], [1.0, 1.0])
    f = lambda t, y, past, p: -past(t - p["lag"])
    system = simkit.odes.from_delayed_function(f, {"lag": 1.5}, lags="lag", history=history)
    with pytest.raises(simkit.ArgumentError, match="before its history"):
        simkit.simulate(system, 1.0, [0.0, 1.0])
    members = simkit.ensemble(system, 1.0, [0.0, 1.0], over={"lag": [0.5, 1.5, -0.1]})
    assert members.status.tolist() == [Status.OK, Status.HISTORY_SHORT, Status.BAD_LAG]


def test_failed_members_leave_gradients_of_others_alone():
    def total(rate):
        members = simkit.ensemble(Feedback(rate=rate), {"x": 1.0}, TIMES, over={"lag": jnp.array([1.1, -1.0])})
        return jnp.sum(members.filled().ys["x"])

    expected = slopes_of(lambda rate: exact(rate, 1.1, 1.0).sum(), (1.0,))[0]
    np.testing.assert_allclose(jax.grad(total)(1.0), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"step": 0.1}, "must be `Adaptive"),
        ({"solver": "bdf"}, "one step"),
    ],
)
def test_what_is_not_served_is_refused(options, match):
    with pytest.raises(simkit.ArgumentError, match=match):
        simkit.simulate(Feedback(), {"x": 1.0}, [0.0, 1.0], **options)


def test_runs_backwards_are_refused():
    with pytest.raises(simkit.ArgumentError, match="delays"):
        simkit.simulate(Feedback(), {"x": 1.0}, [1.0, 0.0])


def test_what_would_run_one_step_alone_is_refused():
    """A step sees the past, so that none can be looked at by itself."""
    system, y0, times, _ = simkit.odes.MackeyGlass.example()
    with pytest.raises(simkit.ArgumentError, match="sees its past"):
        simkit.inspect.locate(system, y0, times)


def test_the_last_step_before_a_time_in_a_ring():
    """Against NumPy, in rings of any size, partly filled, just filled and gone round, with steps without length."""
    generator = np.random.default_rng(0)
    for kept in (2, 3, 10, 33):
        for total in (0, 1, kept // 2, kept, kept + 1, 3 * kept - 1):
            times = np.sort(np.round(generator.uniform(0.0, 5.0, max(total, 1)), 1))
            ring = np.full(kept, np.inf)
            for i, time in enumerate(times):
                ring[i % kept] = time
            oldest = total - min(total, kept)
            for side in (*times[oldest:], 2.53, 9.0, -1.0):
                expected = max(np.searchsorted(times[oldest:], side, side="right"), 1) - 1
                found = last_before(jnp.asarray(ring), jnp.asarray(oldest), jnp.asarray(side))
                assert int(found) == expected
