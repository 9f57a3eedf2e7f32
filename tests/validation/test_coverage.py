"""How often nominal 90 % intervals hold the truth, for every noise model, by standard errors, profiles and sampling.

Data sets are large enough for asymptotic theory (400 data, two to four unknowns): intervals of smaller ones are too short by a
share of some p / n, whoever computes them. Of Laplace's distribution, which has a kink, the share is of order 1 / sqrt(n): standard
errors of its location held the truth in 87 to 88 % of sets of 400 data (profiles in 89 to 90), so that fits
of it get 3,200.

`pytest -m long -s tests/validation/test_coverage.py` prints the table of the validation page.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit.fitting._profile import threshold
from simkit.problem._noise import NOISES

LEVEL = 0.9
WIDTH = 1.6448536269514722

TRUE = {
    "normal": ((2.0, 3.0), simkit.noise.Normal(0.8)),
    "combined": ((2.0, 3.0), simkit.noise.Combined(1.2, 0.15)),
    "log_normal": ((2.0, 3.0), simkit.noise.LogNormal(0.2)),
    "student_t": ((2.0, 3.0), simkit.noise.StudentT(0.8, 3.0)),
    "laplace": ((2.0, 3.0), simkit.noise.Laplace(0.8)),
    "log_laplace": ((2.0, 3.0), simkit.noise.LogLaplace(0.2)),
    "poisson": ((2.0, 3.0), simkit.noise.Poisson()),
    "negative_binomial": ((2.0, 3.0), simkit.noise.NegativeBinomial(4.0)),
}


@functools.cache
def line(name, count, uninformed=False):
    """A problem whose data are to be replaced, and the true values of its unknowns: offset, slope, the noise model's numbers."""
    values, noise = TRUE[name]
    x = np.linspace(0.0, 4.0, count)
    system = simkit.odes.from_response(lambda x, p: p["offset"] + p["slope"] * x, {"offset": 2.0, "slope": 3.0})
    numbers = {f"noise.y.{field}": float(getattr(noise, field)) for field in vars(noise)}
    truth = dict(zip(("offset", "slope"), values, strict=True)) | numbers
    between = {key: (value / 30, value * 30) for key, value in truth.items()}
    if uninformed:  # flat in the logarithm, as for a positive number of unknown size
        free = {key: simkit.Free(dist.LogUniform(*ends), bounds=ends) for key, ends in between.items()}
    else:
        free = {key: simkit.Free(bounds=ends, transform="log") for key, ends in between.items()}
    data = {"y": np.full(count, 1.0)}
    problem = simkit.Problem(system, simkit.Experiment("line", x, data), free=free, noise={"y": noise})
    return problem, jnp.array(list(truth.values()))


@eqx.filter_jit
def simulated(problem, truth, keys):
    return jax.vmap(lambda key: problem.simulate_data(truth, key))(keys)


@eqx.filter_jit
def fitted(problem, truth, data):
    """For each set and unknown: is the truth in the interval by the standard error, and in that of the profile?

    A profile's interval holds the truth where the best objective with the unknown held there is within the threshold of the best.
    """
    method = simkit.GaussNewton(max_steps=100)
    true, count = problem.coordinates(truth), len(problem.names)

    def one(data):
        own = problem.with_data(data)
        end = method.descend(own, true, jnp.zeros(count, bool))
        rows = end.model.rows
        error = jnp.sqrt(jnp.diag(jnp.linalg.inv(rows.T @ rows + jnp.diag(end.model.curvature))))

        def held(which):
            other = method.descend(own, jnp.where(which, true, end.z), which)
            return other.model.value - end.model.value

        above = jax.lax.map(held, jnp.eye(count, dtype=bool))
        return jnp.abs(end.z - true) < WIDTH * error, above < threshold(LEVEL)

    return jax.lax.map(one, data, batch_size=100)


def told(name, way, problem, share, sets):
    cells = ", ".join(f"{n.removeprefix('noise.y.')} {100 * s:.1f}" for n, s in zip(problem.names, share, strict=True))
    print(f"| {name} | {way} | {sets} | {cells} |")


def held_by_fits(name, sets):
    problem, truth = line(name, 3200 if name.endswith("laplace") else 400)
    data = simulated(problem.lean(), truth, jax.random.split(jax.random.key(1), sets))
    by_error, by_profile = (np.asarray(x).mean(axis=0) for x in fitted(problem.lean(), truth, data))
    told(name, "standard error", problem, by_error, sets)
    told(name, "profile", problem, by_profile, sets)
    return by_error, by_profile


# Shares and residuals correlated in time have tests of coverage of their own (tests/problem: test_autocorrelated.py,
# test_binomial.py); those of two outputs are beside closed forms (test_correlated.py).
ALONE = [
    name
    for name, kind in NOISES.items()
    if name not in ("autocorrelated", "correlated", "truncated") and kind.domain != "share"
]


@pytest.mark.long
@pytest.mark.parametrize("name", ALONE)
def test_intervals_of_fits_hold_the_truth_as_often_as_they_say(name):
    # 2,000 sets have a binomial error of 0.67 points, so that 87 to 93 % is 4.5 of them; with 300 sets it would be 1.7
    for share in held_by_fits(name, 2000):
        assert np.all((share > 0.87) & (share < 0.93)), share


@pytest.mark.long
@pytest.mark.parametrize("name", ALONE)
def test_intervals_of_posteriors_hold_the_truth_as_often_as_they_say(name):
    sets, count = 300, 400
    problem, truth = line(name, count, uninformed=True)
    data = simulated(problem.lean(), truth, jax.random.split(jax.random.key(2), sets))
    held = []
    for i in range(sets):
        own = problem.with_data({"y": np.asarray(data["y"])[i, :, :count]})
        start = simkit.fit(own, starts=np.asarray(truth)[None])
        posterior = simkit.sample(own, start=start, chains=2, draws=300, warmup=100, key=jax.random.key(i))
        low, high = np.quantile(posterior.flat(), [0.05, 0.95], axis=0)
        held.append((low < np.asarray(truth)) & (np.asarray(truth) < high))
    share = np.mean(held, axis=0)
    told(name, "sampling", problem, share, sets)
    # 300 sets: a binomial error of 1.7 points at 90 % and of 1.9 at 87 %. The 87 to 93 % that are asked for, and 1.3 errors more,
    # are 3.2 errors from 90 %: passed by chance once in 700 per unknown, of which there are 25. The mean over unknowns, which are
    # nearly independent, is to lie within the 3 points themselves. Profiles on the same sets stand in docs/validation.md.
    assert np.all(np.abs(share - LEVEL) < 0.055), share
    assert abs(share.mean() - LEVEL) < 0.03, share


@pytest.mark.slow
def test_the_prior_is_what_moves_posteriors_of_the_freedom_of_student_t():
    """Exact posteriors of 2,000 sets, without a sampler: importance sampling around the optimum, with JAX's own density.

    Flat priors hold scale and freedom in 87.6 and 85.3 of a hundred sets, log-uniform ones in 89.2 and 88.6.
    """
    x, truth = jnp.linspace(0.0, 4.0, 400), jnp.log(jnp.array([2.0, 3.0, 0.8, 3.0]))

    def log_likelihood(z, y):
        offset, slope, scale, freedom = jnp.exp(z)
        return jnp.sum(jax.scipy.stats.t.logpdf(y, freedom, offset + slope * x, scale))

    def ranks(key):
        """The share of the posterior below the truth, of each unknown, with both priors."""
        drawn, normal, mixed = jax.random.split(key, 3)
        offset, slope, scale, freedom = jnp.exp(truth)
        y = offset + slope * x + scale * jax.random.t(drawn, freedom, (400,))
        minus = lambda z: -log_likelihood(z, y)

        def newton(z, _):
            values, vectors = jnp.linalg.eigh(jax.hessian(minus)(z))
            step = vectors @ ((vectors.T @ jax.grad(minus)(z)) / jnp.maximum(jnp.abs(values), 1e-3))
            return z - step * jnp.minimum(1.0, 0.5 / jnp.max(jnp.abs(step))), None

        best = jax.lax.scan(newton, truth, None, length=15)[0]
        values, vectors = jnp.linalg.eigh(jax.hessian(minus)(best))
        # Student's t with 5 degrees of freedom, a fifth wider than the posterior.
        spread = jax.random.chisquare(mixed, 5.0, (4000,)) / 5.0
        u = 1.2 * jax.random.normal(normal, (4000, 4)) / jnp.sqrt(spread)[:, None]
        z = best[None] + u @ (vectors / jnp.sqrt(jnp.maximum(values, 1e-3))[None]).T
        proposed = -4.5 * jnp.log1p(jnp.sum((u / 1.2) ** 2, axis=1) / 5.0)
        weight = jax.lax.map(lambda z: log_likelihood(z, y), z, batch_size=500) - proposed
        weight = jnp.where(jnp.all(jnp.abs(z - truth[None]) < np.log(30.0), axis=1), weight, -jnp.inf)
        below = (z < truth[None]).astype(z.dtype)
        return jnp.stack([jax.nn.softmax(weight + more) @ below for more in (jnp.sum(z, axis=1), 0.0)])

    found = np.asarray(jax.jit(lambda keys: jax.lax.map(ranks, keys))(jax.random.split(jax.random.key(5), 2000)))
    flat, logarithmic = ((found > 0.05) & (found < 0.95)).mean(axis=0)
    print(flat, logarithmic)
    # A binomial error of 0.7 points.
    assert flat[3] < 0.87
    assert np.all((logarithmic > 0.87) & (logarithmic < 0.93))
