"""Truncated data: SciPy's truncated distributions, information by quadrature, draws, fits without the bias of what is missing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special, stats

import simkit
from simkit import ArgumentError, DataError, Experiment, Free, Problem
from simkit.noise import (
    Combined,
    ContaminatedNormal,
    Correlated,
    Laplace,
    LogNormal,
    Normal,
    Poisson,
    StudentT,
    Truncated,
    information_of,
)
from simkit.odes import from_response

INF = np.inf
PAIRS = [
    (Normal(0.7), stats.norm(2.0, 0.7)),
    (Combined(0.5, 0.2), stats.norm(2.0, np.hypot(0.5, 0.4))),
    (LogNormal(0.4), stats.lognorm(0.4, scale=2.0)),
    (StudentT(0.6, 3.5), stats.t(3.5, 2.0, 0.6)),
    (Laplace(0.9), stats.laplace(2.0, 0.9)),
    (Poisson(), stats.poisson(2.0)),
]
LIMITS = [(1.0, INF), (-INF, 3.0), (1.0, 4.0), (6.0, INF)]


@pytest.mark.parametrize(("marginal", "peer"), PAIRS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_densities_and_tails_are_scipys(marginal, peer, limits):
    lower, upper = limits
    noise = Truncated(marginal, lower, upper)
    count = noise.domain == "count"
    last = np.ceil(upper) - 1 if count and np.isfinite(upper) else upper
    mass = peer.sf(lower) if not np.isfinite(upper) else peer.cdf(last) - peer.cdf(lower)
    values = (
        np.array([7.0, 8.0]) if lower > 4 else np.array([2.0]) if np.isfinite(lower + upper) else np.array([2.0, 2.0])
    )
    location = np.full(values.shape, 2.0)
    log_peer = (peer.logpmf if count else peer.logpdf)(values) - np.log(mass)
    np.testing.assert_allclose(noise.log_prob(jnp.asarray(values), jnp.asarray(location)), log_peer, rtol=1e-9)
    assert noise.log_prob(jnp.asarray(lower if np.isfinite(lower) else upper), jnp.asarray(2.0)) == -INF
    # From the side on which SciPy's tails keep their digits.
    between = (lambda a, b: peer.sf(a) - peer.sf(b)) if lower > 4 else (lambda a, b: peer.cdf(b) - peer.cdf(a))
    below, above = between(lower, values) / mass, between(values - count, last) / mass
    left, right = jax.tree.map(np.asarray, noise).log_tails(values, location)
    np.testing.assert_allclose([np.exp(left), np.exp(right)], [below, above], rtol=1e-8)
    sides = noise.log_cumulative(jnp.asarray(values), jnp.asarray(location))
    np.testing.assert_allclose(np.exp(sides), [below, between(values, last) / mass], rtol=1e-8, atol=1e-12)
    draws = np.asarray(noise.sample(jax.random.key(0), jnp.full(4000, 2.0)))
    assert ((draws > lower) & (draws < upper)).all()
    if count:
        seen = np.arange(lower + 1 if np.isfinite(lower) else 0, min(last, 40) + 1)
        expected = peer.pmf(seen) / mass * 4000
        usual = expected > 5
        chi = np.sum((np.array([np.sum(draws == k) for k in seen]) - expected)[usual] ** 2 / expected[usual])
        assert chi < stats.chi2.isf(1e-4, usual.sum())
    else:
        assert stats.kstest(draws, lambda x: between(lower, x) / mass).pvalue > 1e-4


@pytest.mark.parametrize("limits", [(1.0, INF), (0.5, 3.0)], ids=str)
@pytest.mark.parametrize(
    "marginal", [Normal(0.7), Combined(0.5, 0.2), LogNormal(0.4), StudentT(0.6, 3.5)], ids=lambda n: type(n).__name__
)
def test_information_is_the_variance_of_the_score(marginal, limits):
    """By SciPy's quadrature over differences of the density itself."""
    lower, upper = limits
    noise = Truncated(marginal, lower, upper)
    leaves, structure = jax.tree.flatten(noise)
    density = jax.jit(lambda y, a: jax.tree.unflatten(structure, a[1:]).log_prob(y, a[0]))
    score = jax.jit(jax.grad(lambda a, y: density(y, a)))
    at = [jnp.asarray(2.0), *leaves]

    end = upper if np.isfinite(upper) else 4000.0 if isinstance(marginal, StudentT) else 100.0
    found = information_of(noise, jnp.asarray([2.0])).matrix()[0]
    nodes = np.polynomial.legendre.leggauss(400)
    # In t with y = lower + (exp(t) - 1), so that heavy tails are reached.
    top = np.log1p(end - lower)
    t = 0.5 * top * (1 + nodes[0])
    y, w = lower + np.expm1(t), 0.5 * top * nodes[1] * np.exp(t)
    s = np.stack([np.asarray(x) for x in jax.vmap(lambda y: jnp.stack(score(at, y)))(jnp.asarray(y)).T])
    p = np.exp(np.asarray(jax.vmap(lambda y: density(y, at))(jnp.asarray(y))))
    expected = (s * p * w) @ s.T
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("bits", [64, 32])
def test_far_in_a_tail(bits):
    """Mills' ratio h: the variance of a normal tail is 1 - h (h - L), its mean h; by SciPy's scaled error function."""
    with jax.enable_x64(bits == 64):
        for limit in (0.0, 6.0, 11.0, 28.0, 60.0):
            h = np.sqrt(2 / np.pi) / special.erfcx(limit / np.sqrt(2))
            spread = np.sqrt(1 - h * (h - limit))
            noise = Truncated(Normal(1.0), lower=limit)
            found = noise.information(jnp.zeros(1)).entry(0, 0)
            # Of h - L digits are lost as the square of the limit.
            np.testing.assert_allclose(found, spread**2, rtol=1e-8 if bits == 64 and limit < 30 else 1e-2)
            draws = np.asarray(noise.sample(jax.random.key(0), jnp.zeros(4000)), float)
            assert (draws > limit).all() or bits == 32
            assert abs(draws.mean() - h) < 4 * spread / np.sqrt(4000) + (1e-6 * limit if bits == 32 else 0)
            mirror = Truncated(Normal(1.0), upper=-limit).sample(jax.random.key(0), jnp.zeros(10))
            assert bool(jnp.all(mirror <= -limit))


@pytest.mark.parametrize(("lower", "upper"), [(0.0, INF), (3.0, INF), (30.0, INF), (1.0, 9.0), (-INF, 6.0)])
def test_information_of_counts_is_the_sum_over_what_is_in_the_table(lower, upper):
    counts = np.arange(max(lower, -1) + 1, min(upper - 1, 400) + 1)
    for mean in (0.3, 2.0, 25.0):
        log_p = stats.poisson.logpmf(counts, mean)
        p = np.exp(log_p - special.logsumexp(log_p))
        score = counts / mean
        centre = p @ score
        expected = p @ (score - centre) ** 2
        found = Truncated(Poisson(), lower, upper).information(jnp.full(1, mean)).entry(0, 0)
        np.testing.assert_allclose(found, expected, rtol=1e-7)


def stars(noise, data, unit=1.0):
    line = from_response(lambda t, p: {"size": p["level"] + p["slope"] * t}, {"level": unit, "slope": unit})
    free = {"level": Free(start=unit), "slope": Free(start=unit)}
    name = "noise.size.marginal.scale" if isinstance(noise, Truncated) else "noise.size.scale"
    free[name] = Free(bounds=(0.01 * unit, 10.0 * unit), start=unit)
    return Problem(line, [Experiment("sky", *data, replicates=True)], free=free, noise={"size": noise})


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_a_fit_of_what_a_catalogue_shows(unit):
    """Half of the data below the limit are not there: SciPy's maximum of the truncated density, and the truth within its errors."""
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0.0, 4.0, 1500))
    y = 1.0 + 0.5 * t + 0.8 * rng.normal(size=t.size)
    keep = y > 1.5
    t, y = t[keep], y[keep]
    data = t, {"size": y * unit}
    problem = stars(Truncated(Normal(unit), 1.5 * unit), data, unit)
    fit = simkit.fit(problem, starts=1)

    def loss(a):
        return -np.sum(stats.norm.logpdf(y, a[0] + a[1] * t, a[2]) - stats.norm.logsf(1.5, a[0] + a[1] * t, a[2]))

    best = optimize.minimize(loss, [1.0, 0.5, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).x
    np.testing.assert_allclose(np.asarray(fit.estimate) / unit, best, rtol=2e-6)
    away = (np.asarray(fit.estimate) / unit - [1.0, 0.5, 0.8]) / (np.asarray(fit.standard_error) / unit)
    assert np.abs(away).max() < 3.5
    naive = simkit.fit(stars(Normal(unit), data, unit), starts=1)
    assert abs(float(naive.estimate[1]) / unit - 0.5) > 5 * float(naive.standard_error[1]) / unit
    assert not simkit.check(problem, fit, draws=20).warnings


def test_counts_without_zeros():
    """The zero-truncated Poisson distribution of parasites of hosts that have some: the closed condition of its maximum."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(1.3, size=900)
    counts = counts[counts > 0].astype(float)
    level = from_response(lambda t, p: {"n": p["mean"] + 0.0 * t}, {"mean": 1.0})
    made = Problem(
        level,
        [Experiment("hosts", np.arange(counts.size), {"n": counts})],
        free={"mean": Free(bounds=(0.01, 50.0), start=2.0)},
        noise={"n": Truncated(Poisson(), lower=0.0)},
    )
    fit = simkit.fit(made, starts=1)
    root = optimize.brentq(lambda m: m / -np.expm1(-m) - counts.mean(), 0.01, 50.0)
    np.testing.assert_allclose(fit["mean"], root, rtol=1e-5)
    # The information of one datum in closed form.
    m = root
    information = counts.size * (1 / (m * -np.expm1(-m)) - np.exp(-m) / np.expm1(-m) ** 2)
    np.testing.assert_allclose(fit.standard_error[0], information**-0.5, rtol=1e-5)


def test_single_precision_and_refusals():
    with jax.enable_x64(False):
        noise = Truncated(Normal(0.7), 1.0, 4.0)
        found = noise.log_prob(jnp.array([2.0, 3.0]), jnp.array([2.0, 9.0]))
        assert found.dtype == jnp.float32
        peer = stats.truncnorm((1 - 9) / 0.7, (4 - 9) / 0.7, 9, 0.7).logpdf(3.0)
        np.testing.assert_allclose(found[1], peer, rtol=1e-5)
        draws = noise.sample(jax.random.key(1), jnp.full(1000, 9.0))
        assert draws.dtype == jnp.float32
        assert bool(jnp.all((draws > 1.0) & (draws <= 4.0)))
    with pytest.raises(ArgumentError, match="must leave room for data of Normal, but `lower` is 2 and `upper` 1"):
        Truncated(Normal(1.0), 2.0, 1.0)
    with pytest.raises(ArgumentError, match="single numbers with a distribution function"):
        Truncated(Correlated(Normal(1.0), {"x": 0.5}))
    for nothing in (
        lambda: Truncated(Poisson(), 0.0, 1.0),
        lambda: Truncated(Poisson(), -3.0, 0.0),
        lambda: Truncated(LogNormal(1.0), -5.0, 0.0),
    ):
        with pytest.raises(ArgumentError, match="must leave room for data of"):
            nothing()
    assert Truncated(ContaminatedNormal(1.0), 0.0).domain == "real"
    with pytest.raises(DataError, match=r"must lie between 1.5 and inf, but 1 do not, such as 1.*are `Censored`"):
        stars(Truncated(Normal(1.0), 1.5), ([0.0, 1.0], {"size": [1.0, 2.0]}))
