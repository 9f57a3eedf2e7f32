"""Numbers that are functions of the free parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError, Experiment, Free, Individual, Problem, UnknownNameError

X = np.linspace(0.1, 5.0, 40)
Y = 0.4 * np.exp(-0.5 * X) + 0.6 * np.exp(-3.0 * X) + 0.01 * np.random.default_rng(0).standard_normal(40)


def both(x, p):
    return p["a"] * jnp.exp(-p["k1"] * x) + (1 - p["a"]) * jnp.exp(-p["k2"] * x)


SYSTEM = simkit.odes.from_response(both, {"a": 0.4, "k1": 1.0, "k2": 2.0})
NOISE = {"y": simkit.noise.Normal(0.01)}
ORDERED = {
    "a": Free(bounds=(0.0, 1.0)),
    "k1": Free(dist.LogNormal(0.0, 1.0)),
    "gap": Free(dist.LogNormal(0.0, 1.0)),
}
DERIVED = {"k2": lambda p: p["k1"] + p["gap"]}
THETA = jnp.array([0.37, 0.48, 2.3])


def posed(free=ORDERED, derived=DERIVED, experiments=None, **more):
    return Problem(
        SYSTEM, experiments or Experiment("one", X, {"y": Y}), free=free, derived=derived, noise=NOISE, **more
    )


def plain():
    return posed({name: Free(bounds=(0.0, 10.0)) for name in ("a", "k1", "k2")}, None)


def test_densities_and_gradients_are_those_of_the_numbers_that_follow():
    problem, other = posed(), plain()
    moved = lambda theta: other.log_likelihood(jnp.array([theta[0], theta[1], theta[1] + theta[2]]))[0]
    ours = lambda theta: problem.log_likelihood(theta)[0]
    np.testing.assert_allclose(ours(THETA), moved(THETA), rtol=1e-13)
    np.testing.assert_allclose(jax.grad(ours)(THETA), jax.grad(moved)(THETA), rtol=1e-10)
    np.testing.assert_allclose(jax.hessian(ours)(THETA), jax.hessian(moved)(THETA), rtol=1e-8)
    np.testing.assert_allclose(problem.derive(THETA)["k2"], 2.78)
    assert other.derive(THETA) == {}
    expected = dist.LogNormal(0.0, 1.0).log_prob(THETA[1:]).sum()  # the priors are those of what is free
    np.testing.assert_allclose(problem.log_prior(THETA), expected, rtol=1e-13)


def test_the_fit_is_that_of_the_plain_problem():
    free = {name: Free(bounds=(1e-3, 10.0)) for name in ("k1", "gap")} | {"a": Free(bounds=(0.0, 1.0))}
    ordered = simkit.fit(posed(free), starts=4, key=jax.random.key(0))
    other = simkit.fit(plain(), starts=4, key=jax.random.key(0))
    values = dict(zip(ordered.names, ordered.estimate, strict=True))
    known = dict(zip(other.names, other.estimate, strict=True))
    pair = sorted([known["k1"], known["k2"]])
    np.testing.assert_allclose([values["k1"], values["k1"] + values["gap"]], pair, rtol=1e-4)


def test_what_is_derived_is_named_by_sets_and_stands_in_each_experiment():
    experiments = [
        Experiment("slow", X, {"y": Y}, set={"k2": "twice"}),
        Experiment("fast", X, {"y": Y}, set={"k2": "thrice"}),
    ]
    derived = {"twice": lambda p: 2 * p["k1"], "thrice": lambda p: 3 * p["k1"]}
    problem = posed({"k1": Free(bounds=(0.1, 2.0)), "a": Free(bounds=(0.0, 1.0))}, derived, experiments)
    theta = jnp.array([0.5, 0.4])
    for label, factor in (("slow", 2), ("fast", 3)):
        assert problem.setup(theta, label).system.parameters["k2"] == pytest.approx(0.5 * factor)
    predicted = problem.predict(theta)["y"]
    np.testing.assert_allclose(predicted[1], both(X, {"a": 0.4, "k1": 0.5, "k2": 1.5}), rtol=1e-12)


def test_an_array_of_unknowns_gives_one_number():
    free = {"shares": Free(bounds=(0.0, 1.0)), "k1": Free(bounds=(0.1, 2.0))}
    problem = posed(free, {"a": lambda p: 0.5 * p["shares"] ** 2})
    assert problem.setup(jnp.array([0.6, 1.0])).system.parameters["a"] == pytest.approx(0.18)
    assert problem.unit("shares") == ""
    assert "derived a" in repr(problem)


def test_draws_keep_the_order_and_derived_numbers_follow():
    posterior = simkit.sample(posed(), key=jax.random.key(0), draws=100)
    found = jax.vmap(posed().derive)(posterior.flat())["k2"]
    assert found.shape == (400,)
    assert (found > posterior.flat()[:, 1]).all()
    # The data were made with a rate of 3, which 40 of them tell to some 0.1.
    assert abs(float(found.mean()) - 2.8) < 0.5


def test_closed_forms_are_not_taken_for_what_is_read():
    """The best scale of noise by itself is not the best one where another number follows from it."""
    free = {"noise.y.scale": Free(bounds=(1e-3, 1.0)), "k1": Free(bounds=(0.1, 2.0))}
    tied = posed(free, {"a": lambda p: p["noise.y.scale"]})
    assert tied.closed == ()
    alone = posed({**free, "gap": Free(bounds=(0.1, 5.0))})
    assert len(alone.closed) == 1


@pytest.mark.parametrize(
    ("free", "derived", "words"),
    [
        (ORDERED, {"k1": lambda p: p["gap"]}, "free or derived, but it is both"),
        (ORDERED, {"k2": lambda p: p["gaps"]}, "gaps"),
        (ORDERED, {"k2": lambda p: jnp.ones(2)}, "an array of shape (2,)"),
        (ORDERED, {"k2": lambda p: "late"}, "returns 'late'"),
        (ORDERED, {"k2": 3.0}, "derived"),
        (ORDERED, {"k3": lambda p: p["gap"]}, "k3"),
        (ORDERED, {"k2": lambda p: p["k1"]}, "gap"),
        (ORDERED, [1.0], "derived"),
    ],
)
def test_wrong_derivations_are_sentences(free, derived, words):
    with pytest.raises((ArgumentError, UnknownNameError, TypeError)) as caught:
        posed(free, derived)
    assert words in str(caught.value)


def test_individuals_are_refused():
    free = ORDERED | {"a": Individual(Free(bounds=(0.0, 1.0)), Free(bounds=(0.01, 1.0)))}
    with pytest.raises(ArgumentError, match="Individual"):
        posed(free)
