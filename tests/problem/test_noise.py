import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

import simkit
from simkit.problem._autocorrelated import Autocorrelated
from simkit.problem._contaminated import ContaminatedNormal
from simkit.problem._correlated import Correlated
from simkit.problem._expected_information import expected_information, information_of
from simkit.problem._information import Information, weighted
from simkit.problem._noise import (
    NOISES,
    Combined,
    Laplace,
    LogLaplace,
    LogNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    StudentT,
)
from simkit.problem._zero_inflated import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson

VALUES = np.array([1.0, 2.0, 5.0, 9.0])
LOCATIONS = np.array([1.5, 2.5, 4.0, 7.0])

# Density of SciPy for the same datum, and whether the datum is a count.
PEERS = {
    # Of one datum alone.
    "autocorrelated": (Autocorrelated(0.6, 2.0, 0.3), lambda v, m: stats.norm.logpdf(v, m, np.hypot(0.6, 0.3))),
    "correlated": (Correlated(Normal(0.6)), lambda v, m: stats.norm.logpdf(v, m, 0.6)),
    "normal": (Normal(0.7), lambda v, m: stats.norm.logpdf(v, m, 0.7)),
    "contaminated_normal": (
        ContaminatedNormal(0.6, 0.1, 4.0),
        lambda v, m: np.log(0.9 * stats.norm.pdf(v, m, 0.6) + 0.1 * stats.norm.pdf(v, m, 2.4)),
    ),
    "combined": (Combined(0.5, 0.2), lambda v, m: stats.norm.logpdf(v, m, np.hypot(0.5, 0.2 * m))),
    "log_normal": (LogNormal(0.4), lambda v, m: stats.lognorm.logpdf(v, 0.4, scale=m)),
    "student_t": (StudentT(0.6, 3.5), lambda v, m: stats.t.logpdf(v, 3.5, m, 0.6)),
    "laplace": (Laplace(0.9), lambda v, m: stats.laplace.logpdf(v, m, 0.9)),
    # log(value) is Laplace around log(location): the density of the value takes 1 / value.
    "log_laplace": (LogLaplace(0.3), lambda v, m: stats.laplace.logpdf(np.log(v), np.log(m), 0.3) - np.log(v)),
    "poisson": (Poisson(), stats.poisson.logpmf),
    "negative_binomial": (NegativeBinomial(6.0), lambda v, m: stats.nbinom.logpmf(v, 6.0, 6.0 / (6.0 + m))),
    # Away from zero the counts of a mixture.
    "zero_inflated_poisson": (ZeroInflatedPoisson(0.3), lambda v, m: np.log(0.7) + stats.poisson.logpmf(v, m)),
    "zero_inflated_negative_binomial": (
        ZeroInflatedNegativeBinomial(0.3, 6.0),
        lambda v, m: np.log(0.7) + stats.nbinom.logpmf(v, 6.0, 6.0 / (6.0 + m)),
    ),
}


# Shares of successes, grades and truncated data have tests of their own (test_binomial.py, test_ordinal.py, test_truncated.py).
OF_NUMBERS = [
    name
    for name, kind in NOISES.items()
    if kind.domain != "share" and name not in ("ordered", "categorical", "truncated")
]


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_density_equals_scipy(name):
    noise, peer = PEERS[name]
    np.testing.assert_allclose(
        noise.log_prob(jnp.array(VALUES), jnp.array(LOCATIONS)), peer(VALUES, LOCATIONS), rtol=1e-10
    )


def _products(noise, location, count, key):
    """Products of scores of a model's own draws: mean and standard error of the mean, shape (number, number)."""
    data = noise.sample(key, jnp.full(count, location))

    @jax.jit
    @jax.vmap
    def score(value):
        found = jax.grad(lambda m, n: n.log_prob(value, m), argnums=(0, 1))(location, noise)
        return jnp.stack(jax.tree.leaves(found))

    scores = np.asarray(score(data))
    each = scores[:, :, None] * scores[:, None]
    return each.mean(axis=0), each.std(axis=0) / np.sqrt(count)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_information_is_the_mean_product_of_scores_of_own_samples(name):
    """E[score score^T] = information checks density, sampler and every entry of the matrix against each other."""
    noise, _ = PEERS[name]
    location = jnp.array(3.0)
    mean, error = _products(noise, location, 200_000, jax.random.key(1))
    # five standard errors of the mean
    assert np.all(np.abs(mean - np.asarray(noise.information(location).matrix())) < 1e-10 + 5 * error)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_information_at_many_places(name):
    rng = np.random.default_rng(2)
    for i in range(12):
        numbers = np.exp(rng.uniform(-1.5, 1.5, len(jax.tree.leaves(PEERS[name][0]))))
        numbers = numbers + (2.5 if name == "student_t" else 0)  # below 2 fourth moments of the scores have long tails
        if name.startswith("zero_inflated"):
            numbers[0] = numbers[0] / 5
        if name == "contaminated_normal":
            numbers = [numbers[0], numbers[1] / 10, 1.5 + numbers[2]]
        if name == "correlated":
            numbers = [Normal(numbers[0])]
        noise, location = type(PEERS[name][0])(*numbers), jnp.array(np.exp(rng.uniform(-1.0, 4.0)))
        mean, error = _products(noise, location, 400_000, jax.random.key(i))
        # 12 places of up to 6 entries and 8 models: 5.5 standard errors are passed by chance once in 50,000
        expected = np.asarray(noise.information(location).matrix())
        rounding = 1e-10 * (1 + np.abs(expected).max())
        assert np.all(np.abs(mean - expected) < rounding + 5.5 * error), numbers


@pytest.mark.parametrize(("k", "mean"), [(0.3, 0.5), (2.0, 5.0), (6.0, 40.0), (50.0, 3.0), (300.0, 900.0), (3e4, 7.0)])
def test_information_of_a_concentration_is_the_sum_over_counts(k, mean):
    counts = np.arange(0, 40_000.0)
    survivor = stats.nbinom.sf(counts, k, k / (k + mean))
    # E[psi'(k) - psi'(k + Y)] = sum_j P(Y > j) / (k + j)^2; taken with the other term, so that little cancels
    exact = np.sum(survivor * ((k + counts) ** -2.0 - 1 / (k * (k + mean))))
    found = float(NegativeBinomial(k).information(jnp.array(mean)).matrix()[1, 1])
    # the last has 1e-12 / 1e-10 of cancellation in the sum too, and a normal's value here: 1 / k and rounding
    np.testing.assert_allclose(found, exact, rtol=1e-6 if k < 100 else 2e-2)


class Shifted(simkit.noise.AbstractNoise):
    """A Student t without a stated information."""

    scale: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)
    freedom: simkit.Scalar = simkit.quantity(4.0, support=simkit.POSITIVE)
    domain = "real"

    def log_prob(self, value, location):
        return StudentT(self.scale, self.freedom).log_prob(value, location)

    def sample(self, key, location):
        return StudentT(self.scale, self.freedom).sample(key, location)


def test_information_that_a_model_does_not_state_is_found_from_draws():
    places = jnp.linspace(1.0, 5.0, 40)
    found = np.asarray(information_of(Shifted(0.6, 5.0), places).matrix().sum(axis=0))
    exact = np.asarray(StudentT(0.6, 5.0).information(places).matrix().sum(axis=0))
    size = np.sqrt(np.diag(exact))
    # 50,000 draws: a standard error of 0.5 % of products of order 1, and 4.3 % of the square of the score of
    # freedom, whose kurtosis is 90
    np.testing.assert_allclose(found / size / size[:, None], exact / size / size[:, None], atol=0.15)


def test_derivative_of_an_information_from_draws_counts_that_the_draws_change():
    """For counts, whose draws have no derivative: information k / (m (k + m)) of the mean."""
    of_mean = lambda m: expected_information(NegativeBinomial(4.0), m).rows[0][0].mean()
    slope = jax.jvp(of_mean, (jnp.full(400, 6.0),), (jnp.ones(400),))[1]
    exact = jax.grad(lambda m: 4.0 / (m * (4.0 + m)))(6.0)  # -0.0178
    np.testing.assert_allclose(slope, exact, rtol=0.15)  # weights of the draws' scores: 1 / sqrt(20,000) times some ten


def test_rows_and_pulls_give_information_and_gradient():
    """Also where the matrix is singular: a combined error has two independent scores for three numbers."""
    rng, noise = np.random.default_rng(0), Combined(0.5, 0.2)
    location, value = jnp.array(rng.uniform(1, 9, 6)), jnp.array(rng.uniform(1, 9, 6))
    seen = jnp.array([True, True, False, True, True, True])
    blocks = [jnp.array(rng.normal(size=(6, 4))) for _ in range(3)]
    score = lambda m, a, b: -jnp.sum(jnp.where(seen, Combined(a, b).log_prob(value, m), 0))
    spread = [jnp.full(6, x) for x in (0.5, 0.2)]
    pulls = jax.grad(score, argnums=(0, 1, 2))(location, *spread)
    found = noise.information(location)
    rows, scaled, rest = weighted(found, seen, pulls, blocks)
    matrix = np.where(np.asarray(seen)[:, None, None], found.matrix(), 0)
    stacked = np.stack(blocks, axis=1)
    whole = np.einsum("dip,dij,djq->pq", stacked, matrix, stacked)
    gradient = np.einsum("dp,d->p", np.concatenate(blocks), np.concatenate(pulls))
    together = np.concatenate(rows)
    np.testing.assert_allclose(together.T @ together, whole, rtol=1e-10)
    left = np.concatenate(blocks).T @ np.concatenate(rest)
    np.testing.assert_allclose(together.T @ np.concatenate(scaled) + left, gradient, rtol=1e-10)
    # The location's pull is the standardised residual itself.
    z = np.where(seen, (location - value) / np.hypot(0.5, 0.2 * location), 0)
    np.testing.assert_allclose(scaled[0], z, rtol=1e-10)


def test_wrong_informations_are_refused():
    class Old(simkit.noise.AbstractNoise):
        scale: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)
        domain = "real"

        def log_prob(self, value, location):
            return Normal(self.scale).log_prob(value, location)

        def sample(self, key, location):
            return location

        def information(self, location):
            return location, self

    with pytest.raises(simkit.ArgumentError, match=r"must return an `Information`, but it returns a tuple"):
        information_of(Old(), jnp.ones(2))
    with pytest.raises(simkit.ArgumentError, match="lower triangle"):
        Information([[1.0], [1.0]])


def test_standard_errors_of_a_scale_and_a_freedom():
    """Against the curvature of the likelihood at the optimum; a diagonal information gave errors 28 % too small."""
    rng, x = np.random.default_rng(0), np.linspace(0, 4, 400)
    y = 5 * x + 0.5 * rng.standard_t(3.0, size=400)
    line = simkit.odes.from_response(lambda x, p: p["a"] * x, {"a": 5.0})
    free = {"a": (1.0, 10.0), "noise.y.scale": (0.01, 10.0), "noise.y.freedom": (0.5, 100.0)}
    problem = simkit.Problem(
        line,
        simkit.Experiment("c", x, {"y": y}),
        noise={"y": StudentT(1.0, 4.0)},
        free={name: simkit.Free(bounds=bounds) for name, bounds in free.items()},
    )
    found = simkit.fit(problem, starts=3)
    curvature = jax.jit(jax.hessian(lambda t: -problem.log_likelihood(t)[0]))(jnp.asarray(found.estimate))
    # expected and observed information differ by 1 / sqrt(400) times a factor of order 1
    np.testing.assert_allclose(found.standard_error, np.sqrt(np.diag(np.linalg.inv(curvature))), rtol=0.1)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_tails_equal_the_distribution_function(name):
    noise = jax.tree.map(np.asarray, PEERS[name][0])
    below, above = noise.log_tails(VALUES, LOCATIONS)
    log_prob = np.asarray(PEERS[name][0].log_prob(jnp.array(VALUES), jnp.array(LOCATIONS)))
    if noise.domain == "count":
        mass = lambda n: np.exp(np.asarray(PEERS[name][0].log_prob(jnp.arange(n + 1.0), jnp.array(LOCATIONS[i])))).sum()
        for i, value in enumerate(VALUES):
            np.testing.assert_allclose(np.exp(below[i]), mass(value), rtol=1e-9)
        np.testing.assert_allclose(np.exp(below) + np.exp(above), 1 + np.exp(log_prob), rtol=1e-12)
    else:
        np.testing.assert_allclose(np.exp(below) + np.exp(above), 1, rtol=1e-12)
        step = 1e-5  # a central difference of it is the density, to 1e-10 / 1e-5 of rounding
        high, low = (np.exp(noise.log_tails(VALUES + s, LOCATIONS)[0]) for s in (step, -step))
        np.testing.assert_allclose((high - low) / (2 * step), np.exp(log_prob), rtol=1e-5, atol=1e-10)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_float32_stays_float32(name):
    noise = jax.tree.map(lambda x: x.astype(jnp.float32), PEERS[name][0])
    value, location = jnp.asarray(VALUES, jnp.float32), jnp.asarray(LOCATIONS, jnp.float32)
    assert noise.log_prob(value, location).dtype == jnp.float32
    assert noise.sample(jax.random.key(0), location).dtype == jnp.float32
    assert {leaf.dtype for leaf in jax.tree.leaves(information_of(noise, location))} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize("concentration", [1e12, 1e16])
def test_a_large_concentration_is_nearly_poisson(concentration):
    """log NB - log Poisson = -((v - m)^2 - v) / (2 k) + O(1 / k^2); the difference of logarithms of Gamma lost all digits."""
    value, mean = jnp.array([0.0, 7.0, 1000.0]), jnp.array([3.0, 3.0, 900.0])
    found = NegativeBinomial(concentration).log_prob(value, mean)
    expected = Poisson().log_prob(value, mean) - ((value - mean) ** 2 - value) / (2 * concentration)
    np.testing.assert_allclose(found, expected, atol=2e-12)  # logarithms of factorials of 5,900 round by 1e-12


@pytest.mark.parametrize("model", [Poisson(), NegativeBinomial(1e8)])
def test_counts_that_cannot_be_drawn_are_nan_and_large_ones_are_drawn(model):
    """Draws of 32 bits ended at 2147483647; of a negative, infinite or missing mean they were -1 or 0."""
    means = jnp.array([-1.0, jnp.nan, jnp.inf, 0.0, 3.0])
    found = np.asarray(model.sample(jax.random.key(0), means))
    np.testing.assert_array_equal(np.isnan(found), [True, True, True, False, False])
    count, mean = 4000, 2.0**33
    found = np.asarray(model.sample(jax.random.key(1), jnp.full(count, mean)))
    variance = mean if isinstance(model, Poisson) else mean + mean**2 / 1e8
    # Five standard errors, of the mean and of the variance.
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / count)
    assert abs(found.var() / variance - 1) < 5 * np.sqrt(2 / count)
    np.testing.assert_array_equal(found, np.round(found))


def test_a_contaminated_normal_has_the_sides_of_its_tails():
    noise = ContaminatedNormal(0.6, 0.1, 4.0)
    value, location = np.array([-30.0, 1.0, 2.0, 60.0]), np.array([1.5, 1.2, 2.0, 7.0])
    found = noise.log_cumulative(jnp.array(value), jnp.array(location))
    for mine, theirs in zip(found, jax.tree.map(np.asarray, noise).log_tails(value, location), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-16)


@pytest.mark.parametrize("wide", [1.5, 10.0, 100.0])
def test_information_of_a_contaminated_normal_by_adaptive_quadrature(wide):
    noise = ContaminatedNormal(0.6, 0.07, wide)

    def product(value, i, j):
        scores = jax.tree.leaves(jax.grad(lambda m, n: n.log_prob(value, m), argnums=(0, 1))(jnp.asarray(0.0), noise))
        return scores[i] * scores[j] * jnp.exp(noise.log_prob(value, jnp.asarray(0.0)))

    exact = np.zeros((4, 4))
    nodes, weights = np.polynomial.legendre.leggauss(64)
    edges = np.concatenate([[0.0], np.geomspace(0.1, 6.0 * wide, 30)])
    at = np.concatenate([0.5 * (b - a) * nodes + 0.5 * (a + b) for a, b in itertools.pairwise(edges)])
    weight = np.concatenate([0.5 * (b - a) * weights for a, b in itertools.pairwise(edges)])
    for i in range(4):
        for j in range(4):
            values = jax.vmap(lambda v, i=i, j=j: product(v, i, j))(
                jnp.concatenate([jnp.asarray(at), -jnp.asarray(at)])
            )
            exact[i, j] = np.asarray(values) @ np.concatenate([weight, weight])
    found = np.asarray(noise.information(jnp.asarray(0.0)).matrix())
    size = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(found / size / size[:, None], exact / size / size[:, None], atol=1e-8)
