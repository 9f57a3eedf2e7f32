"""Jump-diffusions: laws against closed forms and a published table, bits, derivatives, and what does not go with jumps."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import simkit
from simkit import Adaptive, Fixed, StochasticSystem, quantity
from simkit.filters import KalmanFilter, ParticleFilter
from simkit.noise import Normal
from simkit.solvers import SRA1, EulerMaruyama, Milstein

MEMBERS = 20_000


class Merton(StochasticSystem):
    """A price in the measure without risk, whose jumps multiply it by log-normal factors of mean 1 + k."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "diagonal"
    interest: simkit.Scalar = quantity(0.08)
    volatility: simkit.Scalar = quantity(0.125)
    rate: simkit.Scalar = quantity(1.0)
    centre: simkit.Scalar = quantity(0.0)
    width: simkit.Scalar = quantity(0.2)

    def drift(self, t, y, inputs):
        k = jnp.exp(self.centre + 0.5 * self.width**2) - 1
        return (self.interest - jax.lax.stop_gradient(self.rate) * k) * y

    def diffusion(self, t, y, inputs):
        return self.volatility * y

    def jump_rate(self, t, y, inputs):
        return self.rate

    def jump(self, t, y, inputs, key):
        return y * jnp.exp(self.centre + self.width * jax.random.normal(key, (), y.dtype))

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.array(100.0), jnp.linspace(0.0, 0.25, 6))


class LogMerton(Merton):
    """The logarithm of the price: steps of any length are exact."""

    noise_kind: ClassVar = "additive"

    def drift(self, t, y, inputs):
        k = jnp.exp(self.centre + 0.5 * self.width**2) - 1
        return self.interest - self.rate * k - 0.5 * self.volatility**2

    def diffusion(self, t, y, inputs):
        return self.volatility

    def jump(self, t, y, inputs, key):
        return y + self.centre + self.width * jax.random.normal(key, (), y.dtype)


class ShotNoise(StochasticSystem):
    """dx = -theta x dt + sigma dW + z dN, with exponential z."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "additive"
    theta: simkit.Scalar = quantity(1.0)
    sigma: simkit.Scalar = quantity(0.5)
    rate: simkit.Scalar = quantity(3.0)
    size: simkit.Scalar = quantity(0.4)

    def drift(self, t, y, inputs):
        return {"x": -self.theta * y["x"]}

    def diffusion(self, t, y, inputs):
        return {"x": self.sigma}

    def jump_rate(self, t, y, inputs):
        return self.rate

    def jump(self, t, y, inputs, key):
        return {"x": y["x"] + self.size * jax.random.exponential(key, (), y["x"].dtype)}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"x": jnp.array(1.0)}, jnp.linspace(0.0, 1.0, 5))


class Unjumping(ShotNoise):
    """The same without jumps, by a rate of zero."""

    def jump_rate(self, t, y, inputs):
        return 0.0


class Hawkes(StochasticSystem):
    """A rate that each jump raises and that falls back, dr = decay (base - r) dt + kick dN, and a number that is pushed."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "additive"
    decay: simkit.Scalar = quantity(2.0)
    base: simkit.Scalar = quantity(1.0)
    kick: simkit.Scalar = quantity(1.0)

    def drift(self, t, y, inputs):
        return {"r": self.decay * (self.base - y["r"]), "x": jnp.zeros_like(y["x"])}

    def diffusion(self, t, y, inputs):
        return {"r": jnp.zeros_like(y["r"]), "x": jnp.ones_like(y["x"])}

    def jump_rate(self, t, y, inputs):
        return y["r"]

    def jump(self, t, y, inputs, key):
        return {"r": y["r"] + self.kick, "x": y["x"] + 1}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"r": jnp.array(3.0), "x": jnp.array(0.0)}, jnp.array([0.0, 1.0]))


class ThinnedHawkes(Hawkes):
    """The same with its bound: from start to end of a step the rate falls towards its base."""

    def jump_bound(self, t, until, y, inputs):
        return jnp.maximum(y["r"], self.base)


class Arrivals(StochasticSystem):
    """A count of arrivals whose rate is a wave in time."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "additive"
    rate: simkit.Scalar = quantity(2.0)
    top: simkit.Scalar = quantity(4.0)

    drift = diffusion = lambda self, t, y, inputs: jnp.zeros_like(y)

    def jump_rate(self, t, y, inputs):
        return self.rate * (1 + jnp.sin(4 * t))

    def jump_bound(self, t, until, y, inputs):
        return self.top

    def jump(self, t, y, inputs, key):
        return y + 1

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.array(0.0), jnp.array([0.0, 1.0]))


def last(system, path, *, step, times=None, solver=None, members=MEMBERS, seed=0):
    y0, own = system.example()[1:3]
    found = simkit.ensemble(
        system,
        y0,
        own if times is None else times,
        over={path: np.full(members, float(simkit.core.Setup(system).get(path)))},
        solver=solver,
        step=step,
        key=jax.random.key(seed),
    )
    assert not found.failures()
    return jax.tree.map(lambda y: np.asarray(y[:, -1]), found.ys)


def merton_call(strike, time, system):
    """Merton's series (1976): prices of Black and Scholes, weighted by the probabilities of the numbers of jumps."""
    interest, volatility, rate, centre, width = (
        float(getattr(system, name)) for name in ("interest", "volatility", "rate", "centre", "width")
    )
    mean = math.exp(centre + 0.5 * width**2)
    price = 0.0
    for n in range(60):
        spread = math.sqrt(volatility**2 + n * width**2 / time)
        own = interest - rate * (mean - 1) + n * math.log(mean) / time
        d = (math.log(100 / strike) + (own + 0.5 * spread**2) * time) / (spread * math.sqrt(time))
        value = 100 * scipy.stats.norm.cdf(d) - strike * math.exp(-own * time) * scipy.stats.norm.cdf(
            d - spread * math.sqrt(time)
        )
        price += scipy.stats.poisson.pmf(n, rate * mean * time) * value
    return price


HAUG = {80: 21.96, 90: 12.75, 100: 5.08, 110: 1.69, 120: 0.84}
"""Haug (1998), The Complete Guide to Option Pricing Formulas, page 9: calls on 100 for a quarter, volatility 0.25 of which three
quarters of the variance are jumps, one a year, interest 0.08."""


def test_option_prices_by_merton_and_haug():
    width = math.sqrt(0.75) * 0.25
    system = LogMerton(volatility=0.125, centre=-0.5 * width**2, width=width)
    assert all(abs(merton_call(k, 0.25, system) - value) < 0.01 for k, value in HAUG.items())
    system = dataclasses.replace(system, rate=4.0)  # another, with as many jumps as paths
    y0 = jnp.log(100.0)
    found = simkit.ensemble(
        system, y0, [0.0, 0.25], over={"rate": np.full(MEMBERS, 4.0)}, step=0.125, key=jax.random.key(0)
    )
    price = np.exp(np.asarray(found.ys[:, -1]))
    for strike in HAUG:
        paid = math.exp(-0.08 * 0.25) * np.maximum(price - strike, 0)
        assert abs(paid.mean() - merton_call(strike, 0.25, system)) < 4.5 * paid.std() / math.sqrt(MEMBERS)
    assert found.solver.startswith("SRA1 with jumps")


def test_moments_of_shot_noise():
    """Cumulants of a sum of independent parts: those of the Ornstein-Uhlenbeck process and of exponential shots that decay."""
    x, s = last(ShotNoise(), "rate", step=0.05)["x"], ShotNoise()
    theta, sigma, rate, size = (float(v) for v in (s.theta, s.sigma, s.rate, s.size))
    shots = lambda n: rate * math.factorial(n) * size**n * (1 - math.exp(-n * theta)) / (n * theta)
    k = {n: shots(n) for n in range(1, 7)}
    k[1] += math.exp(-theta)
    k[2] += sigma**2 * (1 - math.exp(-2 * theta)) / (2 * theta)
    widths = (
        math.sqrt(k[2]),
        math.sqrt(k[4] + 2 * k[2] ** 2),
        math.sqrt(k[6] + 9 * k[4] * k[2] + 9 * k[3] ** 2 + 6 * k[2] ** 3),
    )
    # The steps are of order 2: (theta h)^2 / 6 = 4e-4 of each, a twentieth of five standard errors.
    for n, width in zip((1, 2, 3), widths, strict=True):
        assert abs(scipy.stats.kstat(x, n) - k[n]) < 5 * width / math.sqrt(MEMBERS)


def test_arrivals_at_a_rate_that_changes_with_time():
    """Numbers of arrivals by thinning are those of Poisson with the integral of the rate, by a chi-squared test."""
    counts = last(Arrivals(), "rate", step=0.25)
    mean = 2.0 * (1 + (1 - math.cos(4.0)) / 4)
    expected = scipy.stats.poisson.pmf(np.arange(10), mean)
    expected = MEMBERS * np.append(expected, 1 - expected.sum())
    seen = np.bincount(np.minimum(counts, 10).astype(int), minlength=11)
    assert scipy.stats.chisquare(seen, expected).pvalue > 1e-4


def test_weak_order_with_and_without_a_bound():
    """A rate that depends on the state: exact times with a bound; frozen over a step an error that halves with it."""
    decay, kick, r0 = 2.0, 1.0, 3.0
    limit = decay * 1.0 / (decay - kick)
    exact = limit + (r0 - limit) * math.exp(-(decay - kick))
    errors, widths = [], []
    for step in (0.25, 0.125):
        r = last(Hawkes(), "kick", step=step)["r"]
        errors.append(r.mean() - exact)
        widths.append(r.std() / math.sqrt(MEMBERS))
    thinned = last(ThinnedHawkes(), "kick", step=0.125)["r"]
    # Between jumps SRA1 errs by its third power: (decay h)^2 / 6, 1 % of what decays.
    assert abs(thinned.mean() - exact) < 4.5 * thinned.std() / math.sqrt(MEMBERS) + 0.01
    ratio, width = errors[0] / errors[1], math.hypot(widths[0] / errors[1], errors[0] * widths[1] / errors[1] ** 2)
    assert errors[1] > 8 * widths[1]
    assert abs(ratio - 2) < 4.5 * width + 0.25  # and what is of second order


def test_weak_order_of_the_method_is_kept_between_jumps():
    """The mean price under steps that are cut at jumps, by its renewal equation; it tends to the exact one with order 1."""
    system = Merton(interest=1.0, rate=1.0, centre=0.2, width=0.1)
    k = math.exp(0.2 + 0.005) - 1

    def factor(h, points=1001):
        """m(s) = e^-s (1 + a s) + (1 + k) int_0^s e^-u (1 + a u) m(s - u) du, of the mean over a step of length s."""
        s = np.linspace(0, h, points)
        first = np.exp(-s) * (1 + (1 - k) * s)
        m = np.ones(points)
        for i in range(1, points):
            weights = np.full(i + 1, h / (points - 1))
            weights[[0, -1]] /= 2
            known = (1 + k) * np.sum(weights[1:] * first[1 : i + 1] * m[i - 1 :: -1][:i])
            m[i] = (first[i] + known) / (1 - (1 + k) * weights[0])
        return m[-1]

    exact = 100 * math.exp(1.0)
    means = [100 * factor(h) ** round(1 / h) for h in (0.25, 0.125, 0.0625)]
    assert 1.8 < (exact - means[1]) / (exact - means[2]) < 2.2
    found = last(system, "rate", step=0.25, times=[0.0, 1.0], solver=Milstein())
    width = found.std() / math.sqrt(MEMBERS)
    assert abs(found.mean() - means[0]) < 4.5 * width < exact - means[0]


def test_a_member_has_the_same_bits_alone_and_in_any_batch():
    keys = jax.random.split(jax.random.key(3), 300)
    system, y0, times, _ = ShotNoise.example()
    run = lambda keys: simkit.ensemble(
        system, y0, times, over={"rate": np.full(len(keys), 3.0)}, step=0.1, key=keys
    ).ys["x"]
    whole, few = run(keys), run(keys[5:8])
    alone = simkit.simulate(system, y0, times, step=0.1, key=keys[6]).ys["x"]
    np.testing.assert_array_equal(whole[6], alone)
    np.testing.assert_array_equal(few[1], alone)


def test_without_jumps_in_a_step_the_path_is_that_of_the_method():
    class Diffusing(ShotNoise):
        jump_rate = StochasticSystem.jump_rate
        jump = StochasticSystem.jump

    _, y0, times, _ = ShotNoise.example()
    plain, never = (simkit.simulate(s, y0, times, step=0.1, key=jax.random.key(1)) for s in (Diffusing(), Unjumping()))
    np.testing.assert_array_equal(plain.ys["x"], never.ys["x"])
    assert plain.solver.startswith("SRA1 (")
    assert never.solver.startswith("SRA1 with jumps")


def test_single_precision():
    system = simkit.cast(ShotNoise(), jnp.float32)
    y = simkit.ensemble(
        system,
        {"x": jnp.float32(1.0)},
        jnp.linspace(0, 1, 3, dtype=jnp.float32),
        over={"rate": np.full(4000, 3.0, np.float32)},
        step=0.1,
        key=jax.random.key(2),
    ).ys["x"]
    assert y.dtype == jnp.float32
    mean = math.exp(-1) + 3.0 * 0.4 * (1 - math.exp(-1))
    assert abs(float(y[:, -1].mean()) - mean) < 5 * float(y[:, -1].std()) / math.sqrt(4000)


def end_of(system, **values):
    system = dataclasses.replace(system, **values)
    return simkit.simulate(
        system, 100.0, jnp.array([0.0, 1.0]), solver=Milstein(), step=Fixed(10), key=jax.random.key(7)
    ).final()


def test_derivatives_along_a_path():
    system = Merton(rate=3.0)
    of = lambda volatility, width: end_of(system, volatility=volatility, width=width)
    reverse = jax.grad(of, (0, 1))(0.2, 0.3)
    forward = jax.jacfwd(of, (0, 1))(0.2, 0.3)
    np.testing.assert_allclose(reverse, forward, rtol=1e-11)
    h = 1e-5  # round-off over h is 1e-11, h squared 1e-10
    numeric = [(of(0.2 + h, 0.3) - of(0.2 - h, 0.3)) / (2 * h), (of(0.2, 0.3 + h) - of(0.2, 0.3 - h)) / (2 * h)]
    np.testing.assert_allclose(reverse, numeric, rtol=1e-7)
    assert reverse[1] != 0  # the path has jumps


@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd])
def test_derivatives_by_the_rate_are_refused(derivative):
    with pytest.raises(simkit.ArgumentError, match="changes the rate of the jumps of `Merton`"):
        derivative(lambda rate: end_of(Merton(), rate=rate))(1.0)
    _, y0, times, _ = Hawkes.example()
    with pytest.raises(simkit.ArgumentError, match="changes the rate of the jumps of `Hawkes`"):
        derivative(
            lambda decay: simkit.simulate(Hawkes(decay=decay), y0, times, step=0.5, key=jax.random.key(0)).final()["x"]
        )(1.0)
    with pytest.raises(simkit.ArgumentError, match="no derivative by its times"):
        derivative(
            lambda end: simkit.simulate(
                Merton(), 100.0, jnp.array([0.0, 1.0]) * end, solver=Milstein(), step=Fixed(2), key=jax.random.key(0)
            ).final()
        )(1.0)


class Wandering(ShotNoise):
    """A random walk with jumps of normal sizes, whose increments are a mixture of normal numbers."""

    def drift(self, t, y, inputs):
        return {"x": jnp.zeros_like(y["x"])}

    def jump(self, t, y, inputs, key):
        return {"x": y["x"] + 1 + self.size * jax.random.normal(key, (), y["x"].dtype)}


SEEN = np.array([1.3, 1.2, 3.4])


FREE = {"sigma": simkit.Free(bounds=(0.1, 2.0)), "rate": simkit.Free(bounds=(0.5, 10.0))}


def problem(likelihood, free=FREE, **rest):
    return simkit.Problem(
        Wandering(),
        simkit.Experiment("a", [0.5, 1.0, 1.5], {"x": SEEN}, start=0.0, y0={"x": 1.0}),
        free=free,
        noise={"x": Normal(scale=0.3)},
        likelihood=likelihood,
        **rest,
    )


def mixture(sigma, rate):
    """The log likelihood, a sum over the numbers of jumps between the data."""
    total, each = 0.0, range(9)
    for counts in ((i, j, k) for i in each for j in each for k in each):
        spread = np.cumsum([0.5 * sigma**2 + 0.4**2 * n for n in counts])
        covariance = np.minimum(spread[:, None], spread[None]) + 0.09 * np.eye(3)
        density = scipy.stats.multivariate_normal.pdf(SEEN, 1 + np.cumsum(counts), covariance)
        total += math.prod(scipy.stats.poisson.pmf(n, 0.5 * rate) for n in counts) * density
    return math.log(total)


def test_likelihood_by_particles():
    found = problem(ParticleFilter(1000, key=jax.random.key(0)), step=0.25, solver=EulerMaruyama())
    theta = jnp.array([0.5, 1.5])
    keys = jax.random.split(jax.random.key(1), 16)
    of = jax.jit(jax.vmap(lambda key: found.likelihood.with_key(key).log_prob(theta, found.model, found.dataset)[0]))
    ratio = np.exp(np.asarray(of(keys)) - mixture(0.5, 1.5))  # 1 in the mean
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std(ddof=1) / 4
    assert ratio.std() < 0.3


def test_derivatives_of_a_likelihood_by_particles():
    """By what the rate does not depend on, in the mean the score of the exact likelihood; else refused."""
    key = jax.random.key(0)
    numerics = {"step": 0.25, "solver": EulerMaruyama()}
    found = problem(ParticleFilter(1000, key=key), {"sigma": simkit.Free(bounds=(0.1, 2.0))}, **numerics)
    keys = jax.random.split(jax.random.key(1), 16)
    of = lambda sigma, key: found.likelihood.with_key(key).log_prob(sigma[None], found.model, found.dataset)[0]
    slopes = np.asarray(jax.jit(jax.vmap(jax.grad(of), (None, 0)))(jnp.array(0.5), keys))
    exact = (mixture(0.5 + 1e-4, 3.0) - mixture(0.5 - 1e-4, 3.0)) / 2e-4
    # The score of an estimate of 1000 particles has a bias of the order of its variance.
    assert abs(slopes.mean() - exact) < 4.5 * slopes.std(ddof=1) / 4 + slopes.var()
    free = problem(ParticleFilter(10, key=key), **numerics)
    with pytest.raises(simkit.ArgumentError, match="changes the rate"):
        jax.grad(lambda theta: free.log_likelihood(theta)[0])(jnp.array([0.5, 1.5]))


def test_filters_that_do_not_know_jumps_refuse():
    with pytest.raises(simkit.ArgumentError, match="`Wandering` jumps at random times: take `ParticleFilter`"):
        problem(KalmanFilter())
    guided = ParticleFilter(10, key=jax.random.key(0), proposal="guided")
    with pytest.raises(simkit.ArgumentError, match='`Wandering` jumps at random times: take `proposal="bootstrap"`'):
        problem(guided, step=0.05, solver=EulerMaruyama())
    blind = problem(ParticleFilter(10, key=jax.random.key(0)), step=0.05, solver=EulerMaruyama())
    with pytest.raises(simkit.ArgumentError, match="StochasticSystem without jumps"):
        simkit.filters.states(blind, [0.5, 3.0], paths=2, backward=True, key=jax.random.key(1))


def test_what_does_not_go_with_jumps_is_refused():
    system, y0, times, _ = ShotNoise.example()
    key = jax.random.key(0)
    with pytest.raises(
        simkit.ArgumentError, match="Adaptive steps follow a Brownian path alone, but `ShotNoise` jumps"
    ):
        simkit.simulate(system, y0, times, step=Adaptive(1e-3), key=key)
    event = simkit.Event(lambda system, t, y, inputs: y["x"] - 2)
    with pytest.raises(simkit.ArgumentError, match="do not go with random jumps yet, but `ShotNoise` jumps"):
        simkit.simulate(system, y0, times, step=0.1, key=key, events=event)
    with pytest.raises(simkit.ArgumentError, match="do not go with random jumps yet, but `ShotNoise` jumps"):
        simkit.ensemble(system, y0, times, over={"rate": np.ones(2)}, step=0.1, key=key, events=event)
    with pytest.raises(simkit.ArgumentError, match="parts of `Coupled` have no random jumps yet"):
        simkit.Coupled({"a": system})
    with pytest.raises(simkit.ArgumentError, match="models of `Patches` have no random jumps yet"):
        simkit.Patches(system, [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(simkit.ArgumentError, match="A linear system is made of the drift"):
        simkit.control.linearise(system, y0, {"push": 0.0})


def test_half_of_a_jump_is_refused():
    class Silent(ShotNoise):
        jump_rate = StochasticSystem.jump_rate

    class Formless(ShotNoise):
        def jump(self, t, y, inputs, key):
            return y["x"]

    class Manifold(ShotNoise):
        def jump_rate(self, t, y, inputs):
            return jnp.ones(2)

    _, y0, times, _ = ShotNoise.example()
    for kind, words in (
        (Silent, "`Silent` defines `jump`, but not `jump_rate`"),
        (Formless, "`jump` of `Formless` must return the state"),
        (Manifold, "must return one number, but the shape is"),
    ):
        with pytest.raises(simkit.ArgumentError, match=words):
            simkit.simulate(kind(), y0, times, step=0.1, key=jax.random.key(0))


def test_rates_that_cannot_be_end_the_run():
    _, y0, times, _ = Arrivals.example()
    run = lambda system: simkit.simulate(system, y0, times, step=0.5, key=jax.random.key(0))
    with pytest.raises(simkit.SimulationError, match="above its bound"):
        run(Arrivals(rate=8.0, top=2.0))
    with pytest.raises(simkit.SimulationError, match="more than 16 candidates of jumps in a step"):
        run(Arrivals(rate=50.0, top=100.0))


def test_inputs_that_the_rate_alone_reads_are_read(recwarn):
    class Driven(ShotNoise):
        def jump_rate(self, t, y, inputs):
            return inputs["pace"]

    _, y0, times, _ = ShotNoise.example()
    simkit.simulate(Driven(), y0, times, step=0.1, key=jax.random.key(0), inputs={"pace": 2.0}, solver=SRA1())
    assert not recwarn.list
