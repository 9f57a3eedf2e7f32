"""Parameters of individuals between two ends, and covariates that are missing: closed forms, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats

import simkit
from simkit import ArgumentError, Experiment, Free, Individual, Problem
from simkit.fitting._marginal import marginal
from simkit.noise import Normal
from simkit.odes import from_response

X = np.array([0.0, 1.0, 2.0])
LINE = from_response(lambda x, p: p["level"] + p["slope"] * x, {"level": 1.0, "slope": 0.0})
FORWARD = {"logit": scipy.special.logit, "probit": scipy.special.ndtri}
BACK = {"logit": scipy.special.expit, "probit": scipy.special.ndtr}


def seen(scale, low=0.2, high=0.8, slope=0.1):
    """A system whose output is g of a parameter between `low` and `high`: linear in normal deviations."""
    curve = {"logit": lambda u: jnp.log(u) - jnp.log1p(-u), "probit": jax.scipy.special.ndtri}[scale]
    return from_response(
        lambda x, p: curve((p["share"] - low) / (high - low)) + p["slope"] * x, {"share": 0.5, "slope": slope}
    )


def runs(weights, rng=None):
    rng = np.random.default_rng(0) if rng is None else rng
    return [
        Experiment(f"p{i}", X, {"y": rng.normal(size=3) + 0.3}, covariates={"weight": w}) for i, w in enumerate(weights)
    ]


def of_shares(scale, weights):
    share = Individual(
        Free(bounds=(0.2, 0.8), start=0.5), Free(start=0.6), {"weight": Free(start=0.4)}, transform=scale
    )
    free = {"share": share, "slope": Free(start=0.1), "noise.y.scale": Free(start=0.5)}
    return Problem(seen(scale), runs(weights), free=free, noise={"y": Normal(0.5)})


def closed_form(problem, theta, scale, weights):
    """The negative log likelihood where a missing weight is N(0.5, 2^2)."""
    mean, slope, noise, spread, effect = theta
    total = 0.0
    for weight, data in zip(weights, problem.dataset.values["y"], strict=True):
        absent = isinstance(weight, dist.Distribution)
        level = FORWARD[scale]((mean - 0.2) / 0.6) + effect * (0.5 if absent else weight)
        between = spread**2 + (2.0 * effect if absent else 0.0) ** 2
        covariance = between * np.ones((3, 3)) + noise**2 * np.eye(3)
        total -= scipy.stats.multivariate_normal(level + slope * X, covariance).logpdf(np.asarray(data))
    return total


@pytest.mark.parametrize("scale", ["logit", "probit"])
@pytest.mark.parametrize("bits", [64, 32])
def test_the_marginal_likelihood_between_two_ends_and_with_missing_covariates_is_the_closed_form(scale, bits):
    absent = dist.Normal(0.5, 2.0)
    weights = [0.3, absent, -1.0, absent, 0.8]
    theta = np.array([0.4, 0.1, 0.5, 0.6, 0.4])
    with jax.enable_x64(bits == 64):
        problem = of_shares(scale, weights)
        assert problem.names[5:] == (*(f"eta.share.p{i}" for i in range(5)), "xi.weight.p1", "xi.weight.p3")
        eta, xi = np.linspace(-1.0, 1.0, 5), np.array([0.7, -0.3])
        full = jnp.asarray(np.concatenate([theta, eta, xi]), problem.bounds.dtype)
        known = np.array([0.3, 0.5 + 2.0 * 0.7, -1.0, 0.5 - 2.0 * 0.3, 0.8])
        shares = 0.2 + 0.6 * BACK[scale](FORWARD[scale](1 / 3) + 0.4 * known + 0.6 * eta)
        values = problem.population.values(full)
        np.testing.assert_allclose(values[0], shares, rtol=1e-12 if bits == 64 else 2e-6)
        back = problem.population.with_deviations(0 * full, problem.population.deviations(full))
        np.testing.assert_array_equal(back[5:], full[5:])
        lean = problem.lean()
        at = jax.jit(lambda z: marginal(lean, z))(problem.coordinates(full))
        value = float(at.value - at.penalty)
    expected = closed_form(problem, theta, scale, weights)
    np.testing.assert_allclose(value, expected, rtol=1e-11 if bits == 64 else 3e-6)


def test_the_scale_follows_from_the_support_and_bounds():
    two = [Experiment(name, X, {"y": X}) for name in "ab"]
    made = lambda **free: Problem(seen("logit"), two, free=free, noise={"y": Normal(0.1)}).population
    assert made(share=Individual(Free(bounds=(0.2, 0.8)), transform="probit")).links[0] == ("probit", 0.2, 0.8)
    assert made(share=Individual(Free(bounds=(0.2, 0.8)))).links[0].scale == "linear"
    with pytest.raises(ArgumentError, match=r'"logit" of the individuals. `share` needs two ends.*Give the mean both'):
        made(share=Individual(Free(start=0.5), transform="logit"))
    with pytest.raises(ArgumentError, match=r"must be one of .*but it is 'sqrt'"):
        made(share=Individual(Free(start=0.5), transform="sqrt"))


def test_missing_covariates_that_contradict_each_other_are_refused():
    def made(*given):
        experiments = [
            Experiment(f"{i}", X, {"y": X}, individual="ab"[i // 2], covariates={"weight": w})
            for i, w in enumerate(given)
        ]
        effect = Individual(Free(start=1.0), effects={"weight": Free(start=0.0)})
        return Problem(LINE, experiments, free={"level": effect}, noise={"y": Normal(0.1)})

    absent = dist.LogNormal(0.0, 0.5)
    same = made(absent, absent, 1.0, 1.0)
    assert same.names[-1] == "xi.weight.a"
    theta = jnp.concatenate([jnp.array([1.0, 0.0, 2.0]), jnp.array([0.0, 0.0, 1.0])])
    np.testing.assert_allclose(same.population.values(theta)[0], [1 + 2 * np.exp(0.5), 3.0], rtol=1e-12)
    for other in (1.0, dist.LogNormal(0.0, 0.6), dist.Normal(0.0, 0.5)):
        with pytest.raises(ArgumentError, match=r"`weight` of `a` must be one finite number .* or one distribution"):
            made(absent, other, 1.0, 1.0)
    with pytest.raises(ArgumentError, match=r"one normal or log-normal distribution.*Model the groups of a category"):
        made(dist.Bernoulli(0.5), absent, 1.0, 1.0)
    with pytest.raises(ArgumentError, match=r"`SAEM` needs the covariates of all individuals, but `weight` is missing"):
        simkit.fit(same, method=simkit.SAEM())


def test_saem_between_two_ends_finds_the_maximum_of_the_closed_form():
    """A share of eighty animals: the exact maximum of the likelihood, which is normal on the scale of the logit."""
    rng = np.random.default_rng(4)
    weights = rng.normal(size=80)
    phi = -0.4 + 0.5 * weights + 0.7 * rng.normal(size=80)
    experiments = [
        Experiment(f"p{i}", X, {"y": phi[i] + 0.3 * rng.normal(size=3)}, covariates={"weight": weights[i]})
        for i in range(80)
    ]
    share = Individual(Free(bounds=(0.2, 0.8), start=0.5), effects={"weight": Free(start=0.0)}, transform="logit")
    free = {"share": share._replace(spread=Free(bounds=(0.01, 5.0), start=0.5)), "noise.y.scale": Free(start=0.5)}
    problem = Problem(seen("logit", slope=0.0), experiments, free=free, noise={"y": Normal(0.5)})
    fitted = simkit.fit(problem, method=simkit.SAEM(chains=10))
    means = np.array([e.data["y"].mean() for e in experiments])
    design = np.stack([np.ones(80), weights], axis=1)
    found = np.linalg.lstsq(design, means, rcond=None)[0]
    apart = np.array([e.data["y"] - e.data["y"].mean() for e in experiments])
    noise = np.sqrt((apart**2).sum() / 160)
    spread = np.sqrt(np.mean((means - design @ found) ** 2) - noise**2 / 3)
    mean = 0.2 + 0.6 * scipy.special.expit(found[0])
    # Standard errors of a balanced analysis of variance are ten times these.
    np.testing.assert_allclose(fitted["share"], mean, atol=0.002)
    np.testing.assert_allclose(fitted["share.weight"], found[1], atol=0.01)
    np.testing.assert_allclose(fitted["share.spread"], spread, atol=0.01)
    np.testing.assert_allclose(fitted["noise.y.scale"], noise, rtol=0.01)
