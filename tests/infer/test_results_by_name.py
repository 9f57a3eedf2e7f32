"""Results by name, and as tables of pandas and xarray."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, UnknownNameError


@pytest.fixture(scope="module")
def problem():
    line = simkit.from_response(lambda x, p: p["slope"] * x + p["offset"], {"slope": 2.0, "offset": 0.0})
    data = simkit.Experiment("line", [1.0, 2.0, 3.0, 4.0], {"y": [2.1, 4.2, 5.9, 8.1]})
    free = {"slope": simkit.Free(bounds=(0.0, 9.0)), "offset": simkit.Free(bounds=(-5.0, 5.0))}
    return simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(0.1)})


def test_fit_by_name(problem):
    fit = simkit.fit(problem, starts=2, key=jax.random.key(0))
    slope, offset = np.polyfit([1.0, 2.0, 3.0, 4.0], [2.1, 4.2, 5.9, 8.1], 1)  # least squares by another program
    np.testing.assert_allclose([fit["slope"], fit["offset"]], [slope, offset], atol=2e-3)
    with pytest.raises(UnknownNameError, match=r"no parameter of this fit `slpe`\. Close matches: `slope`"):
        fit["slpe"]
    assert "slope" in fit
    assert "slpe" not in fit
    assert list(fit) == list(problem.names)
    assert len(fit) == 2
    assert fit
    frame = fit.to_frame()
    assert list(frame.index) == list(problem.names)
    assert frame.loc["slope", "estimate"] == float(fit["slope"])


def test_posterior_and_prediction_by_name(problem):
    draws = jnp.asarray(np.random.default_rng(0).normal([2.0, 0.1], 0.01, (2, 50, 2)))
    posterior = simkit.Posterior(
        draws=draws,
        log_density=jnp.zeros((2, 50)),
        diverging=jnp.zeros((2, 50), bool),
        steps=jnp.ones((2, 50), jnp.int32),
        accept=jnp.ones((2, 50)),
        names=problem.names,
        units=("1", "1"),
        method="made by hand",
    )
    np.testing.assert_array_equal(posterior["slope"], draws[..., problem.names.index("slope")])
    with pytest.raises(UnknownNameError, match="Close matches: `offset`"):
        posterior["ofset"]
    assert "slope" in posterior
    assert list(posterior) == list(problem.names)
    frame = posterior.to_frame()
    assert frame.index.names == ["chain", "draw"]
    assert frame.loc[(1, 7), "slope"] == float(draws[1, 7, problem.names.index("slope")])
    bands = simkit.predict(problem, posterior, [1.0, 2.0, 3.0], key=jax.random.key(1), count=40)
    table = bands.to_frame()
    assert list(table["time"]) == [1.0, 2.0, 3.0]
    assert set(table["output"]) == {"y"}
    np.testing.assert_array_equal(table["median"], bands.band("y")[1][0])


def test_trajectory_as_a_data_set():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    found = simkit.simulate(system, y0, times)
    data = found.to_xarray()
    assert data["hare"].attrs["units"] == "thousand"
    np.testing.assert_array_equal(data["hare"].sel(time=times[3]), found.ys.hare[3])
    many = simkit.ensemble(system, y0, times, over={"growth": jnp.asarray([0.5, 0.6])})
    assert many.to_xarray()["lynx"].dims == ("member", "time")


def test_the_model_at_the_estimate():
    decay = simkit.from_equations({"d x": "-rate*x"}, parameters={"rate": 1.0})
    times = np.linspace(0.5, 4.0, 8)
    start, drop = decay.State(x=2.0), {"x": 2.0 * np.exp(-0.7 * times)}
    own = [simkit.Experiment("late", times, drop, start=0.0), simkit.Experiment("twice", times, drop, start=0.0)]
    own[1].y0 = decay.State(x=4.0)
    problem = simkit.Problem(
        decay, own[:1], free={"rate": simkit.Free(bounds=(0.1, 3.0))}, noise={"x": simkit.noise.Normal(0.1)}, y0=start
    )
    fit = simkit.fit(problem, starts=1, key=jax.random.key(0))
    np.testing.assert_allclose(fit.system(problem).rate, 0.7, rtol=1e-3)  # type: ignore[attr-defined]
    found = fit.trajectory(problem, [0.0, 1.0, 5.0])
    np.testing.assert_allclose(found.times, [0.0, 1.0, 5.0])
    np.testing.assert_allclose(found.ys.x, 2.0 * np.exp(-0.7 * np.array([0.0, 1.0, 5.0])), rtol=2e-3)
    assert list(fit.trajectory(problem).times) == [0.0, *times]  # the start and the data
    both = simkit.Problem(decay, own, free={"rate": simkit.Free()}, noise={"x": simkit.noise.Normal(0.1)}, y0=start)
    np.testing.assert_allclose(fit.trajectory(both, [0.0], experiment="twice").ys.x, [4.0])
    with pytest.raises(UnknownNameError, match="`late`"):
        fit.trajectory(problem, experiment="latte")
    other = simkit.Problem(
        decay, own[:1], free={"y0.x": simkit.Free()}, noise={"x": simkit.noise.Normal(0.1)}, y0=start
    )
    with pytest.raises(ArgumentError, match="must be that of the fit, with the parameters"):
        fit.system(other)
