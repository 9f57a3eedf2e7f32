import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

from simkit.problem import NOISES, Laplace, LogLaplace, LogNormal, NegativeBinomial, Normal, Poisson, StudentT

VALUES = np.array([1.0, 2.0, 5.0, 9.0])
LOCATIONS = np.array([1.5, 2.5, 4.0, 7.0])

# Density of SciPy for the same datum, and whether the datum is a count.
PEERS = {
    "normal": (Normal(0.7), lambda v, m: stats.norm.logpdf(v, m, 0.7)),
    "log_normal": (LogNormal(0.4), lambda v, m: stats.lognorm.logpdf(v, 0.4, scale=m)),
    "student_t": (StudentT(0.6, 3.5), lambda v, m: stats.t.logpdf(v, 3.5, m, 0.6)),
    "laplace": (Laplace(0.9), lambda v, m: stats.laplace.logpdf(v, m, 0.9)),
    # log(value) is Laplace around log(location): the density of the value takes 1 / value.
    "log_laplace": (LogLaplace(0.3), lambda v, m: stats.laplace.logpdf(np.log(v), np.log(m), 0.3) - np.log(v)),
    "poisson": (Poisson(), stats.poisson.logpmf),
    "negative_binomial": (NegativeBinomial(6.0), lambda v, m: stats.nbinom.logpmf(v, 6.0, 6.0 / (6.0 + m))),
}


@pytest.mark.parametrize("name", list(NOISES))
def test_density_equals_scipy(name):
    noise, peer = PEERS[name]
    np.testing.assert_allclose(
        noise.log_prob(jnp.array(VALUES), jnp.array(LOCATIONS)), peer(VALUES, LOCATIONS), rtol=1e-10
    )


@pytest.mark.parametrize("name", list(NOISES))
def test_information_is_the_mean_squared_score_of_own_samples(name):
    """E[score^2] = information checks density, sampler and information against each other."""
    noise, _ = PEERS[name]
    noise = NegativeBinomial(40.0) if name == "negative_binomial" else noise  # its second entry is exact for large ones
    location, count = jnp.array(30.0), 200_000
    data = noise.sample(jax.random.key(1), jnp.full(count, location))

    @jax.jit
    @jax.vmap
    def score(value):
        return jax.grad(lambda m, n: n.log_prob(value, m), argnums=(0, 1))(location, noise)

    for scores, expected in zip(
        jax.tree.leaves(score(data)), jax.tree.leaves(noise.information(location)), strict=True
    ):
        squares = np.asarray(scores) ** 2
        # five standard errors of the mean; the concentration's closed form is good to a few per cent
        margin = (
            1e-12 + 5 * squares.std() / np.sqrt(count) + (0.1 * float(expected) if name == "negative_binomial" else 0)
        )
        assert abs(squares.mean() - float(expected)) < margin


@pytest.mark.parametrize("name", list(NOISES))
def test_float32_stays_float32(name):
    noise = jax.tree.map(lambda x: x.astype(jnp.float32), PEERS[name][0])
    value, location = jnp.asarray(VALUES, jnp.float32), jnp.asarray(LOCATIONS, jnp.float32)
    assert noise.log_prob(value, location).dtype == jnp.float32
    assert noise.sample(jax.random.key(0), location).dtype == jnp.float32
    assert {leaf.dtype for leaf in jax.tree.leaves(noise.information(location))} == {jnp.dtype(jnp.float32)}
