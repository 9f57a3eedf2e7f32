"""Profiles of predictions and plans beside what is known in closed form for straight lines, and by other means for curves."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import simkit
from simkit import ArgumentError, Experiment, Free, Problem, UnknownNameError
from simkit.noise import Normal
from simkit.odes import from_response

X = np.linspace(0.0, 3.0, 9)
SCATTER = 0.2 * np.array([0.3, -1.1, 0.9, -0.4, 0.5, 1.2, -0.3, 0.1, -0.7])
LINE = from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 1.0})
DECAY = from_response(lambda x, p: p["size"] * jnp.exp(-p["rate"] * x), {"size": 2.0, "rate": 0.5})
FLAT = Free(bounds=(-50.0, 50.0))


@pytest.fixture(scope="module")
def line():
    data = Experiment("line", X, {"y": 1.0 + 2.0 * X + SCATTER})
    problem = Problem(LINE, data, free={"a": FLAT, "b": FLAT}, noise={"y": Normal(0.2)})
    return problem, simkit.fit(problem, starts=1)


def test_a_straight_line_has_the_exact_interval(line):
    problem, fit = line
    times = np.array([-2.0, 1.5, 10.0])
    found = simkit.profile_prediction(problem, fit, "y", times, level=0.9)
    rows = np.stack([np.ones(3), times], 1)
    design = np.stack([np.ones_like(X), X], 1)
    covariance = 0.04 * np.linalg.inv(design.T @ design)
    width = 1.6448536269514722 * np.sqrt(np.einsum("tp,pq,tq->t", rows, covariance, rows))
    middle = rows @ np.linalg.lstsq(design, 1.0 + 2.0 * X + SCATTER, rcond=None)[0]
    np.testing.assert_allclose(found.estimate, middle, rtol=1e-9)
    np.testing.assert_allclose(found.intervals, np.stack([middle - width, middle + width], 1), rtol=1e-7)
    assert "intervals at 90%" in repr(found)
    assert not np.asarray(found.is_open).any()


def test_a_curve_has_the_interval_of_a_constrained_fit():
    """The same by scipy: in the fit with a given prediction the size follows from the rate."""
    y = 2.0 * np.exp(-0.8 * X) + SCATTER
    free = {name: Free(bounds=(1e-3, 50.0), transform="log", start=1.0) for name in ("size", "rate")}
    problem = Problem(DECAY, Experiment("decay", X, {"y": y}), free=free, noise={"y": Normal(0.2)})
    fit = simkit.fit(problem, starts=1)
    found = simkit.profile_prediction(problem, fit, "y", 5.0)

    def objective(rate, value):
        return 0.5 * np.sum(((y - value * np.exp(rate * (5.0 - X))) / 0.2) ** 2)

    def best(value):
        return scipy.optimize.minimize_scalar(lambda r: objective(r, value), bounds=(0.01, 5.0), method="bounded").fun

    lowest = scipy.optimize.minimize_scalar(lambda v: best(np.exp(v)), bounds=(-8.0, 0.0), method="bounded")
    middle = np.exp(lowest.x)
    excess = lambda value: best(value) - lowest.fun - 1.9207294103470532
    expected = [scipy.optimize.brentq(excess, 1e-3 * middle, middle), scipy.optimize.brentq(excess, middle, 8 * middle)]
    # The bounded search stops at 1e-5 of its range, and the last points of the profile are joined by a line.
    np.testing.assert_allclose(np.asarray(found.intervals)[0], expected, rtol=2e-3)
    low, high = np.asarray(found.intervals)[0]
    assert high - float(found.estimate[0]) > 1.2 * (float(found.estimate[0]) - low)


def _information(times):
    design = np.stack([np.ones(len(times)), np.asarray(times)], 1)
    return design.T @ design / 0.04


def test_the_next_measurement_of_a_straight_line(line):
    """D-optimal: at the ends, and the gain is half the logarithm of 1 + variance of the prediction over that of a datum."""
    problem, fit = line
    times = np.linspace(-1.0, 5.0, 13)
    found = simkit.plan(problem, fit, times, count=2)
    rows = np.stack([np.ones_like(times), times], 1)
    variance = np.einsum("tp,pq,tq->t", rows, np.asarray(fit.covariance), rows)
    np.testing.assert_allclose(found.gain[0, 0], 0.5 * np.log(1 + variance / 0.04), rtol=1e-10)
    # One after the other: the determinant of the information with each candidate, by brute force.
    times_so_far, chosen, volumes = list(X), [], []
    for _ in range(3):
        every = [np.linalg.slogdet(_information([*times_so_far, t]))[1] for t in times]
        volumes.append(np.linalg.slogdet(_information(times_so_far))[1])
        chosen.append(float(times[int(np.argmax(every))]))
        times_so_far.append(chosen[-1])
    assert [time for _, _, time in found.chosen] == chosen[:2]
    assert set(chosen) == {-1.0, 5.0}
    errors = np.sqrt(np.diag(np.linalg.inv(_information([*X, *chosen[:2]]))))
    np.testing.assert_allclose(found.standard_error[-1], errors, rtol=1e-9)
    np.testing.assert_allclose(np.sum(found.chosen_gain), 0.5 * (volumes[2] - volumes[0]), rtol=1e-9)
    assert "at 5 " in repr(found)


def test_refusals(line):
    problem, fit = line
    with pytest.raises(UnknownNameError, match="no output with data `z`"):
        simkit.profile_prediction(problem, fit, "z", 1.0)
    with pytest.raises(ArgumentError, match="`level` must lie between 0 and 1"):
        simkit.profile_prediction(problem, fit, "y", 1.0, level=95.0)
    with pytest.raises(ArgumentError, match="`count` must be a positive integer"):
        simkit.plan(problem, fit, 1.0, count=0)


def test_correlated_outputs_are_planned_together():
    # Two outputs of one slope, with known errors and their correlation: the information of a sample is x^2 1' R^-1 1 / s^2.
    rho, scale, x = 0.6, 0.5, np.array([1.0, 2.0, 3.0])
    line = simkit.odes.from_response(lambda t, p: {"a": p["b"] * t, "c": p["b"] * t}, {"b": 1.0})
    noise = {
        "a": simkit.noise.Normal(scale),
        "c": simkit.noise.Correlated(simkit.noise.Normal(scale), {"a": rho}),
    }
    data = simkit.Experiment("line", x, {"a": x + 0.1, "c": x - 0.2})
    problem = simkit.Problem(line, data, free={"b": simkit.Free(bounds=(-9.0, 9.0))}, noise=noise)
    fit = simkit.fit(problem, starts=1)
    both = simkit.plan(problem, fit, [1.0, 4.0])
    assert both.chosen == (("a and c", "line", 4.0),)
    one = np.ones(2) @ np.linalg.inv([[1.0, rho], [rho, 1.0]]) @ np.ones(2) / scale**2
    known = np.sum(x**2) * one
    np.testing.assert_allclose(both.gain[0, 0], 0.5 * np.log1p(np.array([1.0, 16.0]) * one / known), rtol=1e-9)
    np.testing.assert_allclose(both.standard_error[1], (known + 16 * one) ** -0.5, rtol=1e-9)
    assert simkit.plan(problem, fit, [1.0, 4.0], outputs=both.outputs).chosen == both.chosen  # as it names them/
    # Of one of them alone its own scatter counts.
    alone = simkit.plan(problem, fit, [4.0], outputs="c")
    np.testing.assert_allclose(alone.gain[0, 0, 0], 0.5 * np.log1p(16 / scale**2 / known), rtol=1e-9)


@pytest.mark.parametrize("white", [0.0, 0.1])
def test_the_next_measurement_of_an_autocorrelated_line(white):
    """By generalised least squares in NumPy: the determinant of the information with each candidate and those chosen before."""
    x, scale, time = np.array([0.0, 0.4, 1.0, 1.3, 2.0, 3.0]), 0.2, 0.8
    system = simkit.odes.from_response(lambda t, p: {"y": p["a"] + p["b"] * t}, {"a": 0.0, "b": 1.0})
    data = simkit.Experiment("line", x, {"y": 1.0 + 2.0 * x + 0.1 * np.cos(5 * x)})
    noise = {"y": simkit.noise.Autocorrelated(scale, time, white)}
    free = {name: simkit.Free(bounds=(-9.0, 9.0)) for name in ("a", "b")}
    problem = simkit.Problem(system, data, free=free, noise=noise)
    times = np.array([-1.0, 0.2, 1.15, 2.5, 3.0, 3.2, 5.0])
    found = simkit.plan(problem, simkit.fit(problem, starts=1), times, count=3)

    def volume(at):
        at = np.asarray(at)
        kernel = scale**2 * np.exp(-np.abs(at[:, None] - at[None]) / time) + white**2 * np.eye(len(at))
        design = np.stack([np.ones_like(at), at], 1)
        return np.linalg.slogdet(design.T @ np.linalg.solve(kernel, design))[1]

    so_far, gains = list(x), []
    for k in range(3):
        # Without white noise a datum at the time of another says what that one says.
        new = [0.0 if white == 0 and t in so_far else volume([*so_far, t]) - volume(so_far) for t in times]
        gains.append(0.5 * np.array(new))
        assert found.chosen[k] == ("y", "line", float(times[int(np.argmax(new))]))
        so_far.append(found.chosen[k][2])
    np.testing.assert_allclose(found.gain[0, 0], gains[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.chosen_gain, [np.max(gain) for gain in gains], rtol=1e-6)


def test_each_datum_of_a_process_tells_its_scatter_alike():
    """Of a process without white noise n data tell the logarithm of its scale to 1/sqrt(2 n), wherever they are."""
    x = np.array([0.0, 0.4, 1.0, 1.3, 2.0])
    system = simkit.odes.from_response(lambda t, p: {"y": p["a"] + 0.0 * t}, {"a": 0.0})
    data = simkit.Experiment("rest", x, {"y": 0.2 * np.cos(7 * x)})
    free = {"noise.y.scale": simkit.Free(bounds=(0.01, 9.0))}
    problem = simkit.Problem(system, data, free=free, noise={"y": simkit.noise.Autocorrelated(0.2, 0.5)})
    found = simkit.plan(problem, simkit.fit(problem, starts=1), [0.7, 3.0, 9.0], count=2)
    np.testing.assert_allclose(found.gain[0, 0], 0.5 * np.log1p(1 / 5), rtol=1e-6)
    np.testing.assert_allclose(found.chosen_gain[1], 0.5 * np.log1p(1 / 6), rtol=1e-6)
