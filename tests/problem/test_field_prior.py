"""Priors of fields, against kernels, dense normal distributions and closed forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import gamma, kv
from scipy.stats import multivariate_normal

import simkit
from simkit import Experiment, Free, Problem
from simkit.fields import Matern, resampled
from simkit.noise import Normal


def kernel(r, nu, length):
    """Matern's kernel of variance 1, by Bessel functions."""
    x = np.sqrt(2 * nu) * np.maximum(r, 1e-12) / length
    return 2 ** (1 - nu) / gamma(nu) * x**nu * kv(nu, x)


def covariance(prior, shape):
    """The covariance matrix of a prior on a small grid, from its root."""
    size = int(np.prod(shape))
    roots = jax.vmap(prior.root)(jnp.eye(size).reshape(size, *shape)).reshape(size, size)
    return np.asarray(roots @ roots.T)


def test_the_covariance_is_the_kernel_summed_over_images():
    prior = Matern(1.5, length=0.5, box=(2.0, 1.5), smoothness=4.5)
    shape = (24, 18)
    places = [np.arange(n) * side / n for n, side in zip(shape, (2.0, 1.5), strict=True)]
    x, y = np.meshgrid(*places, indexing="ij")
    shifts = itertools.product(range(-4, 5), repeat=2)
    expected = sum(kernel(np.hypot(x + 2.0 * i, y + 1.5 * j), 4.5, 0.5) for i, j in shifts)
    first = jnp.zeros(shape).at[0, 0].set(1.0)
    found = prior.root(prior.root(first))
    # The wavenumbers left out hold (1 + (k l)^2 / 2 nu)^-nu at k = 37: 1e-7 of the variance.
    np.testing.assert_allclose(found, 1.5**2 * expected, atol=3e-7 * 1.5**2)
    np.testing.assert_allclose(prior.variance(shape, jnp.float64), found[0, 0], rtol=1e-12)


@pytest.mark.parametrize(("end", "sign"), [("neumann", 1), ("dirichlet", -1)])
def test_ends_mirror_the_kernel(end, sign):
    prior = Matern(1.0, length=0.3, box=1.0, smoothness=4.5, ends=end)
    x = (np.arange(40) + 0.5) / 40
    expected = sum(
        kernel(abs(x[:, None] - x[None] + 2 * i), 4.5, 0.3) + sign * kernel(abs(x[:, None] + x[None] + 2 * i), 4.5, 0.3)
        for i in range(-3, 4)
    )
    found = covariance(prior, (40,))
    # The shortest wave has k = 40 pi: (1 + (k l)^2 / 9)^-4.5 is 1e-10.
    np.testing.assert_allclose(found, expected, atol=1e-9)
    np.testing.assert_allclose(prior.variance((40,), jnp.float64), np.diag(found), rtol=1e-12)


def test_the_density_is_that_of_a_dense_normal_distribution():
    """On two components of a small grid with three kinds of ends and a mean, and of its exponential."""
    shape = (2, 4, 3, 3)
    ends = ("periodic", "neumann", "dirichlet")
    mean = np.random.default_rng(0).normal(size=shape)
    prior = Matern(0.7, length=0.4, box=(1.0, 0.8, 1.2), mean=mean, ends=ends)
    matrix = covariance(prior, shape)
    assert np.abs(matrix[:36, 36:]).max() == 0  # components are independent
    x = mean + np.random.default_rng(1).normal(size=shape)
    expected = multivariate_normal(mean.ravel(), matrix).logpdf(x.ravel())
    assert float(prior.log_prob(jnp.asarray(x))) == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(prior.white(prior.root(jnp.asarray(x))), x, rtol=1e-10, atol=1e-12)
    single = prior.root(jnp.asarray(x, jnp.float32))
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, prior.root(jnp.asarray(x)), atol=1e-5)


class Fading(simkit.PlainSystem):
    """A field that fades, du/dt = -rate u."""

    rate: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)

    def vector_field(self, t, y, inputs):
        return -self.rate * y

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.ones((6, 5)), jnp.linspace(0.0, 1.0, 3))


def fading(free):
    data = Experiment("one", [1.0], {"y": np.full((1, 6, 5), 0.3)}, start=0.0)
    return Problem(Fading(), data, free=free, noise={"y": Normal(0.1)}, y0=jnp.ones((6, 5)), step=0.1)


def test_positive_fields_are_exponentials_of_white_coordinates():
    prior = Matern(0.5, length=0.5, box=(1.0, 1.0), mean=-1.0)
    problem = fading({"y0": Free(prior, transform="log"), "rate": Free(dist.LogNormal(0.0, 1.0))})
    white = np.random.default_rng(0).normal(size=30)
    z = jnp.asarray(np.append(white, 0.3))
    theta = problem.natural(z)
    matrix = covariance(prior, (6, 5))
    log = np.log(np.asarray(theta[:30]))
    np.testing.assert_allclose(log, -1 + np.asarray(prior.root(jnp.asarray(white).reshape(6, 5))).ravel(), rtol=1e-12)
    np.testing.assert_allclose(problem.coordinates(theta), z, rtol=1e-9)
    rate = float(dist.LogNormal(0.0, 1.0).log_prob(theta[30]))
    normal = multivariate_normal(np.full(30, -1.0), matrix).logpdf(log)
    assert float(problem.log_prior(theta)) == pytest.approx(normal - log.sum() + rate, rel=1e-10)
    assert float(problem.unknowns.log_prior_at(z)) == pytest.approx(normal + rate, rel=1e-10)
    assert "6 x 5 numbers, prior Matern, in (0, inf), moves in white coordinates, by its logarithm" in repr(problem)
    draws = np.log(simkit.prior_draws(problem, jax.random.key(0), 400)[:, :30])
    # 400 draws of 30 numbers, correlated over a third of the box: the mean variance within a tenth.
    assert draws.var(axis=0).mean() == pytest.approx(np.diag(matrix).mean(), rel=0.1)


def test_a_mean_with_a_shape_serves_several_fields_at_once():
    mean = np.linspace(-1.0, 2.0, 6)
    prior = Matern(1.0, length=0.3, box=1.0, mean=mean)
    white = jnp.asarray(np.random.default_rng(0).normal(size=(3, 6)))
    each = jnp.stack([mean + prior.root(x) for x in white])
    np.testing.assert_allclose(prior.field(white), each, rtol=1e-14, atol=1e-15)


def test_what_is_no_field_is_refused():
    prior = Matern(0.5, length=0.5, box=(1.0, 1.0))
    cases = {
        "single number": {"rate": Free(prior)},
        "must have no bounds": {"y0": Free(prior, bounds=(0.0, 1.0))},
        "box of at most as many lengths": {"y0": Free(Matern(1.0, length=1.0, box=(1.0, 1.0, 1.0)))},
        "mean in the prior of `y0` must be": {"y0": Free(Matern(1.0, length=1.0, box=(1.0, 1.0), mean=np.ones(3)))},
    }
    for text, free in cases.items():
        with pytest.raises(simkit.ArgumentError, match=text):
            fading(free)
    with pytest.raises(simkit.ArgumentError, match="`length` must be a positive number"):
        Matern(1.0, length=0.0, box=1.0)
    with pytest.raises(simkit.ArgumentError, match="`ends` must be one of periodic"):
        Matern(1.0, length=1.0, box=(1.0, 1.0), ends=("periodic",))
    with pytest.raises(simkit.ArgumentError, match=r"prior of fields.*GaussNewtonCG"):
        simkit.fit(fading({"y0": Free(prior)}))


@pytest.mark.parametrize("ends", ["periodic", "neumann", "dirichlet"])
def test_fields_on_other_grids_are_the_same_waves(ends):
    box = 2.0
    wave = {
        "periodic": lambda x: 1 + np.cos(2 * np.pi * x) - 0.5 * np.sin(np.pi * x),
        "neumann": lambda x: 1 + np.cos(1.5 * np.pi * x),
        "dirichlet": lambda x: np.sin(1.5 * np.pi * x),
    }[ends]
    at = lambda n: jnp.asarray(wave((np.arange(n) + 0.5) * box / n))
    two = jnp.stack([at(8), 2 * at(8)])
    # Rounding, of some ten operations.
    np.testing.assert_allclose(resampled(two, 15, ends), jnp.stack([at(15), 2 * at(15)]), atol=1e-12)
    np.testing.assert_allclose(resampled(at(15), 8, ends), at(8), atol=1e-12)
    prior = Matern(1.3, length=0.4, box=box, ends=ends)
    white = prior.white(at(8))
    np.testing.assert_allclose(prior.root(prior.moved(white, (15,))), at(15), atol=1e-12)
    with pytest.raises(simkit.ArgumentError, match="`shape` must hold a number of cells"):
        resampled(at(8), (4, 4), ends)
