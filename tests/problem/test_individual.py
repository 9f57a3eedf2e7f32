"""Parameters of individuals: where they stand, what they become, and what is refused."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError, Experiment, Free, Individual, Problem, UnknownNameError
from simkit.noise import Normal
from simkit.odes import from_response

LINE = from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 1.0, "slope": 2.0})
X = np.array([0.0, 1.0, 2.0])


def visits(**weights):
    """Two visits of Ann and one each of Bob and Cid."""
    rows = [("ann 1", "ann"), ("bob", None), ("ann 2", "ann"), ("cid", None)]
    found = []
    for name, individual in rows:
        own = {"weight": weights[individual or name]} if weights else {}
        found.append(Experiment(name, X, {"y": X}, individual=individual, covariates=own))
    return found


def problem(experiments=None, **free):
    return Problem(LINE, experiments or visits(), free=free, noise={"y": Normal(0.1)})


def test_values_of_individuals():
    level = Individual(Free(bounds=(0.0, 9.0)), Free(), {"weight": Free()}, correlated=True)
    slope = Individual(Free(bounds=(0.1, 9.0)), Free(), correlated=True, transform="log")
    made = problem(visits(ann=-1.0, bob=0.5, cid=2.0), level=level, slope=slope)
    assert made.names[:6] == (
        "level",
        "slope",
        "level.spread",
        "slope.spread",
        "level.weight",
        "correlation.slope.level",
    )
    assert made.names[6:9] == ("eta.level.ann", "eta.level.bob", "eta.level.cid")
    assert made.names[-1] == "eta.slope.cid"
    eta = np.array([[0.3, -1.0, 0.7], [0.2, 1.1, -0.4]])
    theta = jnp.concatenate([jnp.array([3.0, 2.0, 0.5, 0.25, 0.4, 0.6]), jnp.asarray(eta.ravel())])
    levels = 3.0 + 0.4 * np.array([-1.0, 0.5, 2.0]) + 0.5 * eta[0]
    slopes = 2.0 * np.exp(0.25 * (0.6 * eta[0] + 0.8 * eta[1]))
    owner = [0, 1, 0, 2]
    expected = levels[owner][:, None] + slopes[owner][:, None] * X
    np.testing.assert_allclose(made.predict(theta)["y"], expected, rtol=1e-12)
    np.testing.assert_allclose(made.population.values(theta), [levels, slopes], rtol=1e-12)
    np.testing.assert_allclose(made.population.correlation(theta), [[1, 0.6], [0.6, 1]], rtol=1e-12)
    white = -0.5 * np.sum(eta**2) - 3 * np.log(2 * np.pi) + float(dist.HalfNormal(1.0).log_prob(0.25))
    again = problem(visits(ann=-1.0, bob=0.5, cid=2.0), level=level, slope=slope._replace(spread=None))
    np.testing.assert_allclose(again.log_prior(theta), white, rtol=1e-12)


def test_correlations_of_three():
    """The root is lower triangular with rows of length 1, whatever the partial correlations."""
    model = from_response(lambda x, p: p["a"] + p["b"] * x + p["c"] * x**2, {"a": 1.0, "b": 1.0, "c": 1.0})
    free = {name: Individual(Free(start=1.0), correlated=True) for name in "abc"}
    made = Problem(model, visits(), free=free, noise={"y": Normal(0.1)})
    theta = jnp.zeros(len(made.names)).at[6:9].set(jnp.array([0.5, -0.3, 0.9]))
    root = made.population.root(theta)
    np.testing.assert_allclose(np.sum(root**2, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(np.triu(root, 1), 0.0)
    correlation = np.asarray(made.population.correlation(theta))
    # The last number is the correlation of b and c once a is known.
    partial = (correlation[2, 1] - correlation[1, 0] * correlation[2, 0]) / np.sqrt(
        (1 - correlation[1, 0] ** 2) * (1 - correlation[2, 0] ** 2)
    )
    np.testing.assert_allclose([correlation[1, 0], correlation[2, 0], partial], [0.5, -0.3, 0.9], rtol=1e-12)


def test_a_parameter_of_another_name():
    """A free name that stands for a path through `set`."""
    experiments = visits()
    made = Problem(
        LINE, experiments, free={"b": Individual(Free(start=1.0))}, noise={"y": Normal(0.1)}, set={"slope": "b"}
    )
    assert made.target("b") == "slope"
    assert made.unit("eta.b.ann") == "1"
    theta = jnp.array([2.0, 0.5, 1.0, 0.0, -1.0])
    np.testing.assert_allclose(made.predict(theta)["y"][:, 1] - 1.0, [2.5, 2.0, 2.5, 1.5], rtol=1e-12)


def test_refusals():
    with pytest.raises(ArgumentError, match="at least two individuals, but there is only `one`"):
        problem([Experiment("one", X, {"y": X})], level=Individual())
    with pytest.raises(ArgumentError, match="At least two parameters must be correlated, but only `level` is"):
        problem(level=Individual(correlated=True))
    with pytest.raises(UnknownNameError, match="no covariate \\(of experiment `ann 1`\\) `wieght`"):
        problem(visits(ann=1.0, bob=1.0, cid=1.0), level=Individual(effects={"wieght": Free()}))
    experiments = visits(ann=1.0, bob=1.0, cid=1.0)
    experiments[2].covariates["weight"] = 2.0
    with pytest.raises(ArgumentError, match="`weight` of `ann` must be one finite number in all of its experiments"):
        problem(experiments, level=Individual(effects={"weight": Free()}))
    with pytest.raises(ArgumentError, match="`Marginal` is for populations"):
        simkit.fit(problem(level=Free(start=1.0)), method=simkit.Marginal())
