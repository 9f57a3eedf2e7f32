"""Distribution functions of noise models against SciPy and against numbers of many digits by mpmath."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as stats

from simkit import noise as models
from simkit.problem._cumulative import normal_sides, student_sides

LOCATIONS = np.array([0.5, 1.5, 4.0, 30.0])
VALUES = np.array([0.0, 1.0, 2.0, 7.0, 40.0])

# Single precision: logarithms of gamma functions. SciPy rounds a probability near 1 before it takes the logarithm.
LOOSE = {np.float64: {"rtol": 1e-9, "atol": 1e-15}, np.float32: {"rtol": 2e-4, "atol": 1e-6}}

PEERS = {
    "Normal": (models.Normal(0.7), lambda m: stats.norm(m, 0.7)),
    "Combined": (models.Combined(0.5, 0.2), lambda m: stats.norm(m, np.hypot(0.5, 0.2 * m))),
    "LogNormal": (models.LogNormal(0.4), lambda m: stats.lognorm(0.4, scale=m)),
    "StudentT": (models.StudentT(0.6, 3.5), lambda m: stats.t(3.5, m, 0.6)),
    "Laplace": (models.Laplace(0.9), lambda m: stats.laplace(m, 0.9)),
    "LogLaplace": (models.LogLaplace(0.3), lambda m: stats.loglaplace(1 / 0.3, scale=m)),
    "Poisson": (models.Poisson(), stats.poisson),
    "NegativeBinomial": (models.NegativeBinomial(6.0), lambda m: stats.nbinom(6.0, 6.0 / (6.0 + m))),
}


def _case(name):
    noise, peer = PEERS[name]
    location, value = (x.ravel() for x in np.meshgrid(LOCATIONS, VALUES))
    if noise.domain == "positive":
        value = value + 0.25
    return noise, peer(location), value, location


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_both_sides_equal_scipy(name, dtype):
    noise, peer, value, location = _case(name)
    noise = jax.tree.map(lambda x: x.astype(dtype), noise)
    found = noise.log_cumulative(jnp.asarray(value, dtype), jnp.asarray(location, dtype))
    for mine, theirs in zip(found, (peer.logcdf(value), peer.logsf(value)), strict=True):
        assert mine.dtype == dtype
        # SciPy's logarithms of t, Laplace and counts end where the probability or its complement underflows.
        kept = np.isfinite(theirs) & (theirs > -30) & (np.abs(theirs) > 1e-12)
        assert kept.sum() >= 8
        np.testing.assert_allclose(np.asarray(mine, float)[kept], theirs[kept], **LOOSE[dtype])


@pytest.mark.parametrize("name", PEERS)
def test_slopes_equal_differences(name):
    noise, _, value, location = _case(name)
    told = lambda m, n: (
        noise.log_cumulative(jnp.asarray(value), m)[0] if n is None else n.log_cumulative(jnp.asarray(value), m)[0]
    )
    at, (rise, own) = (
        jnp.asarray(location),
        jax.grad(lambda m, n: told(m, n).sum(), argnums=(0, 1))(jnp.asarray(location), noise),
    )
    step = 1e-5
    np.testing.assert_allclose(
        rise, (told(at * (1 + step), noise) - told(at * (1 - step), noise)) / (2 * step * at), rtol=1e-6, atol=1e-8
    )
    leaves, structure = jax.tree.flatten(noise)
    for i, slope in enumerate(jax.tree.leaves(own)):
        moved = [structure.unflatten([*leaves[:i], leaves[i] * s, *leaves[i + 1 :]]) for s in (1 + step, 1 - step)]
        difference = (told(at, moved[0]).sum() - told(at, moved[1]).sum()) / (2 * step * leaves[i])
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-8)


# mpmath 1.3 with 40 digits: log(ncdf(z)).
FAR_NORMAL = {-5.0: -15.064998393988725, -40.0: -804.6084420137539, -1e4: -50000010.12927891}
# log(betainc(nu/2, 1/2, 0, nu/(nu + z^2), regularized=True)/2): freedom 30 at 40, freedom 2.5 at 1e4.
FAR_STUDENT = {(-40.0, 30.0): -62.546234647299176, (-1e4, 2.5): -23.355272498800846}

# log(gammainc(n + 1, m, inf, regularized=True)) at 3 counts of a mean of 300, and its complement at 300 of 20;
# log(betainc(300, 4, 0, 300 / 1300, regularized=True)), 3 counts of a mean of 1000 at a concentration of 300.
FAR_POISSON = {(3.0, 300.0, 0): -284.67039548997651, (300.0, 20.0, 1): -538.82904250790064}
FAR_BINOMIAL = -425.34571131246095


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tails_are_right_far_out(dtype):
    z = jnp.asarray(list(FAR_NORMAL), dtype)
    below, above = normal_sides(z)
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(below, list(FAR_NORMAL.values()), rtol=4 * eps)
    np.testing.assert_array_equal(np.asarray(normal_sides(-z)[1]), np.asarray(below))
    assert np.all(np.asarray(above) <= 0)
    # The hazard far out is |z| + 1 / |z| - 2 / |z|^3 + ...: Mills' ratio.
    slope = jax.vmap(jax.grad(lambda z: normal_sides(z)[0]))(z)
    x = -np.asarray(z, float)
    np.testing.assert_allclose(np.asarray(slope)[1:], (x + 1 / x - 2 / x**3)[1:], rtol=max(4 * eps, 1e-8))
    rtol = 2e-12 if dtype == np.float64 else 3e-6  # logarithms of gamma functions take some digits
    number = lambda *x: [jnp.asarray(each, dtype) for each in x]
    for (z, freedom), known in FAR_STUDENT.items():
        np.testing.assert_allclose(student_sides(*number(z, freedom))[0], known, rtol=rtol)
    for (count, mean, side), known in FAR_POISSON.items():
        np.testing.assert_allclose(models.Poisson().log_cumulative(*number(count, mean))[side], known, rtol=rtol)
    noise = jax.tree.map(lambda x: x.astype(dtype), models.NegativeBinomial(300.0))
    np.testing.assert_allclose(noise.log_cumulative(*number(3.0, 1000.0))[0], FAR_BINOMIAL, rtol=10 * rtol)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_nan_far_out(name, dtype):
    noise = jax.tree.map(lambda x: x.astype(dtype), PEERS[name][0])
    value, location = (jnp.asarray(x, dtype) for x in ([0.0 if noise.domain != "positive" else 1e-3, 1e4], [1e4, 1e-3]))
    for side in (0, 1):
        found = noise.log_cumulative(value, location)[side]
        slopes = jax.grad(lambda m, n, side=side: n.log_cumulative(value, m)[side].sum(), argnums=(0, 1))(
            location, noise
        )
        assert not np.isnan(found).any()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes)), (side, slopes)


def test_student_is_cauchy_and_normal_at_its_ends():
    z = jnp.asarray([-50.0, -1.0, -1e-3, 0.0, 0.3, 2.0, 1e5])
    cauchy = student_sides(z, jnp.asarray(1.0))
    np.testing.assert_allclose(cauchy[0], stats.cauchy.logcdf(z), rtol=1e-10, atol=1e-14)
    # At freedom 1e8 the difference from the normal distribution is of order z^4 / freedom.
    np.testing.assert_allclose(student_sides(z[1:6], jnp.asarray(1e8))[0], stats.norm.logcdf(z[1:6]), rtol=1e-6)
