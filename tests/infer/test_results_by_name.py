"""Results by name, and as tables of pandas and xarray."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import UnknownNameError


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
