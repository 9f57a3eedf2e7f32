"""Distinct optima: told apart by their parameters, weighed, and recognised where one is the image of another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import Experiment, Free, Problem
from simkit.fitting._symmetry import images
from simkit.noise import Normal
from simkit.odes import from_response

X = np.linspace(1.0, 2.0, 10)
SQUARE = from_response(lambda x, p: p["a"] ** 2 * x, {"a": 1.0})
PRODUCT = from_response(lambda x, p: p["a"] * p["b"] * x, {"a": 1.0, "b": 1.0})
KEY = jax.random.key(0)


def problem_of(system, x, y, free, scale):
    return Problem(system, Experiment("e", x, {"y": y}), free=free, noise={"y": Normal(scale)})


def square(free=Free(bounds=(-5.0, 5.0)), scale=0.1):
    return problem_of(SQUARE, X, 4 * X, {"a": free}, scale)


def test_starts_at_the_two_signs_do_not_agree():
    result = simkit.fit(square(), starts=16, key=KEY)
    optimum = np.asarray(result.optimum)
    assert set(optimum) == {0, 1}
    assert result.agreeing() == (optimum == 0).sum() < 16
    assert len(set(np.sign(np.asarray(result.thetas)[optimum == 0].ravel()))) == 1
    best, other = result.optima()
    assert best["starts"] + other["starts"] == 16
    assert best["share"] == pytest.approx(0.5, abs=1e-6)  # by symmetry
    assert other["estimate"]["a"] == pytest.approx(-best["estimate"]["a"], rel=1e-9)
    assert other["image"] == "optimum 1 with `a` of the other sign"
    (sentence,) = result.identifiability()
    assert "2 distinct optima hold comparable parts" in sentence
    assert "a bound keeps one of them" in sentence
    for text in (repr(result), result._repr_html_()):
        assert "of 16 starts agree" in text
        assert "of the other sign" in text
    old = dataclasses.replace(result, optimum=None, log_mass=None, covariances=None)  # as older files give it back
    assert old.agreeing() == 16
    assert len(old.optima()) == 1
    one = simkit.fit(square(Free(bounds=(0.0, 5.0))), starts=16, key=KEY)
    assert one.agreeing() == 16
    assert one.identifiability() == []
    assert len(one.optima()) == 1


def test_masses_are_those_of_the_integral_on_a_grid():
    """Two unequal modes: the prior prefers one. Their masses are integrals of the posterior over each half line."""
    problem = square(Free(dist.Normal(1.0, 1.5)), scale=1.0)
    result = simkit.fit(problem, starts=16, key=KEY)
    a = np.linspace(-6.0, 6.0, 4001)
    density = np.exp(jax.vmap(problem.log_posterior)(jnp.asarray(a)[:, None]))
    step = a[1] - a[0]
    right, left = density[a > 0].sum() * step, density[a < 0].sum() * step
    best, other = result.optima()
    assert best["estimate"]["a"] > 0 > other["estimate"]["a"]
    # Laplace's error is of order (standard error / estimate)^2 = (0.05 / 2)^2, here times a few.
    np.testing.assert_allclose(np.exp([best["log_mass"], other["log_mass"]]), [right, left], rtol=5e-3)
    assert best["share"] == pytest.approx(right / (right + left), rel=5e-3)
    assert 0.1 < left / right < 0.3
    assert other["image"] == ""
    assert "`TemperedSMC`" in result.identifiability()[0]


@pytest.mark.slow
def test_mass_at_a_bound_and_in_logarithms():
    """The data pull an intercept below its bound; the integral over the rest of the box is known from a grid."""
    line = from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 0.0, "slope": 1.0})
    free = {"level": Free(bounds=(0.0, 5.0), transform="linear"), "slope": Free(bounds=(0.1, 5.0), transform="log")}
    problem = problem_of(line, X, 2 * X - 0.6, free, 0.3)
    result = simkit.fit(problem, starts=4, key=KEY)
    level, slope = np.meshgrid(np.linspace(0, 2, 401), np.linspace(0.1, 3, 401), indexing="ij")
    value = jax.vmap(problem.log_posterior)(jnp.asarray(np.stack([level.ravel(), slope.ravel()], axis=1)))
    weight = np.full(401, 1.0)
    weight[0] = weight[-1] = 0.5
    exact = np.sum(np.exp(np.asarray(value)).reshape(401, 401) * weight[:, None]) * (2 / 400) * (2.9 / 400)
    # Correlation with what is on a bound is not in the half width: half as much again, which decides nothing.
    assert abs(result.optima()[0]["log_mass"] - np.log(exact)) < 0.5


def test_switched_labels_of_a_mixture():
    decay = lambda x, p: p["share"] * jnp.exp(-p["first"] * x) + (1 - p["share"]) * jnp.exp(-p["second"] * x)
    mixture = from_response(decay, {"share": 0.5, "first": 1.0, "second": 2.0})
    x = np.linspace(0.0, 4.0, 15)
    y = 0.3 * np.exp(-0.4 * x) + 0.7 * np.exp(-3.0 * x)
    rate = Free(bounds=(0.05, 20.0), transform="log")
    free = {"share": Free(bounds=(0.0, 1.0)), "first": rate, "second": rate}
    result = simkit.fit(problem_of(mixture, x, y, free, 0.01), starts=16, key=KEY)
    best, other = result.optima()[:2]
    assert other["image"] == "optimum 1 with `first` and `second` exchanged and `share` as 1 minus its value"
    assert best["share"] == pytest.approx(other["share"], rel=1e-6)
    assert "an ordering keeps one of them" in result.identifiability()[0]


def test_aliases_of_an_oscillation():
    """Sampled once a unit of time, cos(2 t) is also cos((2 pi - 2) t) and cos((2 pi + 2) t)."""
    wave = from_response(lambda x, p: jnp.cos(p["omega"] * x), {"omega": 1.0})
    x = np.arange(12.0)
    result = simkit.fit(
        problem_of(wave, x, np.cos(2 * x), {"omega": Free(bounds=(0.5, 10.0))}, 0.1), starts=60, key=KEY
    )
    rows = [row for row in result.optima() if row["above_best"] < 0.1]
    found = sorted(row["estimate"]["omega"] for row in rows)
    np.testing.assert_allclose(found, [2.0, 2 * np.pi - 2, 2 * np.pi + 2], rtol=1e-6)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert all("pi" in row["image"] for row in rows[1:])
    assert all(row["starts"] > 0 for row in result.optima())


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_large_numbers_are_no_turns(scale):
    """Every large number is a multiple of pi within its standard error; an angle that is known well is one by no chance."""
    bounds = np.array([[-2.5, 2.5]]) * scale
    of = lambda places, errors: images(
        ("a",), ("",), np.array(places)[:, None], np.zeros(2), np.array(errors)[:, None], bounds
    )
    assert of([-1.71607 * scale, 1.7191 * scale], [0.0105 * scale] * 2) == [None, None]
    assert of([2.0, 2.0 + 2 * np.pi], [0.01, 0.01])[1].words == "`a` more by 2 pi"


@pytest.mark.parametrize("transform", [pytest.param("log", marks=pytest.mark.slow), "linear"])
def test_a_ridge_is_one_optimum(transform):
    """Only the product is known: straight in logarithms, a hyperbola in plain numbers."""
    free = {name: Free(bounds=(0.1, 10.0), transform=transform) for name in "ab"}
    result = simkit.fit(problem_of(PRODUCT, X, 4 * X, free, 0.1), starts=12, key=KEY)
    assert np.ptp(np.asarray(result.thetas)[:, 0]) > 1  # the starts are spread over it
    assert len(result.optima()) == 1
    assert result.agreeing() == 12
    (sentence,) = result.identifiability()
    assert "do not constrain" in sentence


def test_two_ridges_are_two_optima():
    free = {name: Free(bounds=(-5.0, 5.0)) for name in "ab"}
    result = simkit.fit(problem_of(PRODUCT, X, 4 * X, free, 0.1), starts=12, key=KEY)
    assert len(result.optima()) == 2
    for number in (0, 1):
        signs = np.sign(np.asarray(result.thetas)[np.asarray(result.optimum) == number])
        assert (signs == signs[0]).all()


def test_an_optimum_that_few_starts_found_is_doubted():
    result = simkit.fit(square(Free(bounds=(0.0, 5.0))), starts=16, key=KEY)
    assert result.identifiability() == []
    label, mass = jnp.asarray([0, 0] + 14 * [1]), jnp.array([0.0, -50.0])
    seldom = dataclasses.replace(
        result, optimum=label, log_mass=mass, covariances=jnp.stack([jnp.asarray(result.covariance)] * 2)
    )
    (sentence,) = seldom.identifiability()
    assert "2 of 16 starts ended at the best optimum" in sentence
    assert "`starts=64`" in sentence
