"""Profile likelihoods."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from simkit import ArgumentError, Experiment, Free, Problem, UnknownNameError, petab
from simkit.fitting import fit, profile
from simkit.fitting._local_model import objective
from simkit.noise import Normal
from simkit.odes import from_response

BOEHM = pathlib.Path(__file__).parents[2] / "data/petab/Boehm_JProteomeRes2014/Boehm_JProteomeRes2014.yaml"
TIMES = np.linspace(0.0, 3.0, 13)
SCATTER = np.array([0.3, -0.1, 0.25, -0.4, 0.05, 0.2, -0.3, 0.1, -0.15, 0.35, -0.2, 0.0, -0.1])


@pytest.fixture(scope="module")
def line():
    system = from_response(lambda x, p: p["intercept"] + p["slope"] * x, {"intercept": 0.0, "slope": 1.0})
    free = {name: Free(bounds=(-50.0, 50.0)) for name in ("intercept", "slope")}
    data = Experiment("line", TIMES, {"y": 1.0 + 2.0 * TIMES + SCATTER})
    return Problem(system, data, free=free, noise={"y": Normal(0.2)})


@pytest.fixture(scope="module")
def product():
    """The data see left * right alone."""
    system = from_response(lambda x, p: p["left"] * p["right"] * jnp.exp(-x), {"left": 1.0, "right": 1.0})
    free = {"left": Free(bounds=(1e-9, 1e9), transform="log"), "right": Free(bounds=(0.1, 10.0), transform="log")}
    data = Experiment("decay", TIMES, {"y": 2.0 * np.exp(-TIMES) + 0.05 * SCATTER})
    return Problem(system, data, free=free, noise={"y": Normal(0.05)})


def test_profile_of_a_gaussian_is_the_quadratic(line):
    result = fit(line, starts=6)
    found = profile(line, result, level=0.95)
    error = np.asarray(result.standard_error)[:, None]
    quadratic = 0.5 * ((np.asarray(found.values) - np.asarray(result.estimate)[:, None]) / error) ** 2
    # Differences of objectives of size 10, so rounding of 1e-14.
    np.testing.assert_allclose(found.differences, quadratic, rtol=1e-10, atol=1e-12)
    width = 1.959963984540054 * error
    np.testing.assert_allclose(
        found.intervals, np.asarray(result.estimate)[:, None] + np.concatenate([-width, width], 1), rtol=1e-9
    )
    assert not np.asarray(found.is_open).any()
    assert found.threshold == pytest.approx(3.841458820694124 / 2)
    assert found.interval("slope") == tuple(np.asarray(found.intervals)[1])
    assert "slope" in repr(found)


def test_one_name_alone(line):
    result = fit(line, starts=6)
    found = profile(line, result, names=["slope"], points=3, level=0.68)
    assert found.names == ("slope",)
    assert found.values.shape[0] == 1


def test_flat_directions_are_open(product):
    result = fit(product, starts=6)
    found = profile(product, result)
    # `right` alone is bounded, so `left` is limited to product / bounds and `right` by its own bounds.
    total = float(result.estimate[0] * result.estimate[1])
    width = 1.959963984540054 * 0.05 / np.sqrt(np.sum(np.exp(-2 * TIMES)))
    np.testing.assert_array_equal(found.is_open, [[False, False], [True, True]])
    np.testing.assert_allclose(found.intervals[1], [0.1, 10.0], rtol=1e-6)
    # The profile is flat up to where `right` is on its bound, and has its kink near the end: interpolated between values 5 % apart.
    np.testing.assert_allclose(found.interval("left"), [(total - width) / 10, (total + width) / 0.1], rtol=0.03)
    shown = np.isfinite(np.asarray(found.values[1]))
    np.testing.assert_allclose(found.differences[1][shown], 0, atol=1e-9)
    assert "open below and above" in repr(found)


def test_arguments_are_checked(line):
    result = fit(line, starts=6)
    with pytest.raises(UnknownNameError, match="slope"):
        profile(line, result, names=["slop"])
    with pytest.raises(ArgumentError, match="`level`"):
        profile(line, result, level=1.0)
    with pytest.raises(ArgumentError, match="`points`"):
        profile(line, result, points=1)
    other = line.with_data({"y": np.asarray(line.data["y"])[0] + 0.01})
    with pytest.raises(ArgumentError, match="must be a fit of the same data"):
        profile(other, result)
    assert profile(other, fit(other, starts=2), names=["slope"], points=3).names == ("slope",)


@pytest.mark.slow
def test_profiles_stay_on_their_branch():
    """Boehm et al. (2014): two parameters that the data hardly see lead a refit astray, to optima that lie 9.3 and 11.4 above."""
    problem = petab.load(BOEHM).problem
    result = fit(problem, starts=8, screen=3)
    assert float(result.objective[0]) == pytest.approx(138.2220, abs=1e-3)
    found = profile(problem, result, names=["k_phos", "k_exp_homo", "k_imp_hetero"])
    for name, differences in zip(found.names, np.asarray(found.differences), strict=True):
        near = differences[differences < 2 * found.threshold]
        middle = int(np.argmin(near))
        assert len(near) > 8, name
        assert np.all(np.diff(near[: middle + 1]) <= 0), name
        assert np.all(np.diff(near[middle:]) >= 0), name
    # SciPy's optimum of the others, from where they are best, with the parameter held at a value of the profile.
    place = problem.names.index("k_phos")
    k = int(np.argmin(np.abs(np.asarray(found.differences[0]) - 1.0)))
    others = np.arange(result.z.size) != place
    held = jnp.asarray(result.z).at[place].set(jnp.log(found.values[0, k]))
    value = jax.jit(jax.value_and_grad(lambda x: objective(held.at[np.flatnonzero(others)].set(x), problem)))
    bounds = np.asarray(problem.coordinate_bounds())[others]
    best = minimize(
        lambda x: [np.asarray(y, float) for y in value(jnp.asarray(x))],
        np.asarray(result.z)[others],
        jac=True,
        bounds=bounds,
        method="L-BFGS-B",
    )
    assert float(found.differences[0, k]) <= best.fun - float(result.objective[0]) + 1e-3
