"""Two kinds of individuals: quantiles beside SciPy, the marginal likelihood beside its closed form, who belongs to which."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import simkit
from simkit import ArgumentError, Experiment, Free, Individual, Problem
from simkit.noise import Normal
from simkit.odes import from_response
from simkit.problem import Subpopulation
from simkit.problem._subpopulation import mixture_quantile

X = np.arange(3.0)
LEVEL = from_response(lambda x, p: p["level"] + 0.0 * x, {"level": 1.0})


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize(("share", "apart"), [(0.3, 4.0), (0.9, -2.5), (0.01, 12.0), (0.5, 0.0)])
def test_quantiles_and_their_derivatives(share, apart, bits):
    z = np.array([-6.0, -2.0, -0.3, 0.0, 0.524, 1.5, 5.0])

    def exact(z, share, apart):
        mixture = lambda u: (1 - share) * stats.norm.cdf(u) + share * stats.norm.cdf(u - apart) - stats.norm.cdf(z)
        upper = lambda u: stats.norm.sf(z) - (1 - share) * stats.norm.sf(u) - share * stats.norm.sf(u - apart)
        ends = z + min(apart, 0) - 1e-9, z + max(apart, 0) + 1e-9
        return optimize.brentq(upper if z > 0 else mixture, *ends, xtol=1e-14, rtol=1e-14)

    with jax.enable_x64(bits == 64):
        parts = jnp.asarray(z, jnp.zeros(()).dtype), jnp.asarray(share), jnp.asarray(apart)
        parts = tuple(jnp.asarray(x, parts[0].dtype) for x in parts)
        found = mixture_quantile(*parts)
        assert found.dtype == parts[0].dtype
        expected = np.array([exact(one, share, apart) for one in z])
        np.testing.assert_allclose(found, expected, atol=1e-8 if bits == 64 else 2e-3)
        if bits == 32:
            return
        slopes = jax.jacfwd(mixture_quantile, argnums=(0, 1, 2))(*parts)
        step, pick = 1e-5, [1, 2, 3, 4, 5]
        for which, own in enumerate((np.diagonal(slopes[0]), slopes[1], slopes[2])):
            moved = lambda sign, which=which: np.array(
                [exact(*(v + sign * step * (k == which) for k, v in enumerate((one, share, apart)))) for one in z[pick]]
            )
            np.testing.assert_allclose(own[np.array(pick)], (moved(1) - moved(-1)) / 2 / step, rtol=1e-5, atol=1e-6)
        bent = jax.grad(jax.grad(lambda z: mixture_quantile(z[None], parts[1], parts[2])[0]))(parts[0][2])
        sides = [
            float(jax.grad(lambda z: mixture_quantile(z[None], *parts[1:])[0])(parts[0][2] + h)) for h in (1e-5, -1e-5)
        ]
        np.testing.assert_allclose(bent, (sides[0] - sides[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def test_second_derivatives_hold_in_loops():
    """A rule of `custom_jvp` is lost where a loop is differentiated backwards and then again (JAX before 0.12)."""
    one = lambda x: mixture_quantile(x[None], jnp.asarray(0.3), jnp.asarray(2.0))[0]
    both = jnp.array([0.1, 0.2])
    looped = jax.hessian(lambda x: jax.lax.map(one, x).sum())(both)
    np.testing.assert_allclose(looped, jax.hessian(lambda x: one(x[0]) + one(x[1]))(both), rtol=1e-12)


def kinds(data, second=True):
    kind = Subpopulation(Free(bounds=(0.01, 0.99), start=0.5), Free(bounds=(0.5, 10.0), start=2.0))
    level = Individual(
        Free(bounds=(-20.0, 20.0), start=0.5),
        Free(bounds=(0.05, 5.0), start=0.5),
        transform="linear",
        subpopulation=kind if second else None,
    )
    runs = [Experiment(f"p{i}", X, {"y": row}) for i, row in enumerate(data)]
    free = {"level": level, "noise.y.scale": Free(bounds=(0.01, 2.0), start=0.3)}
    return Problem(LEVEL, runs, free=free, noise={"y": Normal(0.3)})


def test_a_fit_finds_two_kinds_of_individuals():
    """Sixty people of whom a third lies higher: the maximum of the exact likelihood, a mixture of normal distributions."""
    rng = np.random.default_rng(8)
    higher = rng.random(60) < 0.35
    own = 1.0 + 3.0 * higher + 0.5 * rng.normal(size=60)
    data = own[:, None] + 0.05 * rng.normal(size=(60, 3))
    problem = kinds(data)
    assert problem.names[:6] == ("level", "noise.y.scale", "level.spread", "level.share", "level.shift", "eta.level.p0")
    fit = simkit.fit(problem, starts=2)

    def loss(a):
        mean, noise, spread, share, shift = a
        covariance = spread**2 * np.ones((3, 3)) + noise**2 * np.eye(3)
        first, second = (
            stats.multivariate_normal(m * np.ones(3), covariance).logpdf(data) for m in (mean, mean + shift)
        )
        return -np.sum(np.logaddexp(np.log1p(-share) + first, np.log(share) + second))

    best = optimize.minimize(
        loss, [1.0, 0.05, 0.5, 0.35, 3.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}
    )
    # Laplace's approximation, with three data of an error of 0.05 in each; of 0.2 it is off by 0.14 standard errors.
    apart = (np.asarray(fit.estimate[:5]) - best.x) / np.asarray(fit.standard_error[:5])
    assert np.abs(apart).max() < 0.05
    assert abs(float(fit.log_likelihood) + best.fun) < 0.1
    belongs = np.asarray(problem.population.memberships(fit.estimate)["level"])
    mean, noise, spread, share, shift = best.x
    at = data.mean(axis=1)
    wide = np.hypot(spread, noise / np.sqrt(3))
    odds = share * stats.norm.pdf(at, mean + shift, wide) / (1 - share) / stats.norm.pdf(at, mean, wide)
    np.testing.assert_allclose(belongs, odds / (1 + odds), atol=0.05)
    np.testing.assert_array_equal(belongs > 0.5, higher)
    alone = simkit.fit(kinds(data, second=False), starts=1)
    assert float(fit.log_likelihood) > float(alone.log_likelihood) + 10


def test_what_does_not_go_with_a_second_kind():
    data = np.zeros((3, 3))
    with pytest.raises(ArgumentError, match=r"`SAEM` takes parameters that are normal on their scale"):
        simkit.fit(kinds(data), method=simkit.SAEM())
    runs = [
        Experiment(name, X, {"y": X}, occasions=f"{k}", individual=name[0]) for k, name in enumerate(["a1", "a2", "b1"])
    ]
    nobody = Individual(Free(start=1.0), 0, occasion_spread=Free(start=1.0), subpopulation=Subpopulation())
    with pytest.raises(ArgumentError, match=r"The spread of `level` .* is 0, so it cannot have a `subpopulation`"):
        Problem(LEVEL, runs, free={"level": nobody}, noise={"y": Normal(0.3)})
