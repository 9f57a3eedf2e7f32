"""Draws of fields by randomised maximum a posteriori, against the posterior of linear problems by matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from heated_ring import by_matrices, half, ring

import simkit
from simkit import Experiment, FieldLBFGS, Free, Problem, randomised_draws
from simkit.fields import Matern, TotalVariation
from simkit.noise import Laplace, Normal

PRIOR = Matern(1.0, length=0.2, box=1.0, smoothness=2.5, mean=0.5)
DRAWS = 200


def whitened(draws, mean, covariance):
    """Draws less their mean, in units of the covariance."""
    root = np.linalg.cholesky(covariance)
    return np.linalg.solve(root, (np.asarray(draws) - mean).T).T


@pytest.mark.slow
@pytest.mark.parametrize("through", [False, True])
def test_draws_of_a_linear_problem_are_those_of_its_posterior(through):
    """White draws: squares of all numbers have the mean 1, with a variance of 2 / (n d); those of the means of draws too."""
    problem, _ = ring(PRIOR)
    mean, covariance = by_matrices(problem, PRIOR)
    fit = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-8))
    method = FieldLBFGS(tolerance=1e-8, coarse=half(problem, PRIOR)) if through else FieldLBFGS(tolerance=1e-8)
    draws = randomised_draws(problem, fit, DRAWS, key=jax.random.key(1), method=method)
    white = whitened(draws, mean, covariance)
    size = white.shape[1]
    assert abs(np.mean(white**2) - 1) < 4.5 * np.sqrt(2 / (DRAWS * size))
    assert abs(np.mean(white.mean(axis=0) ** 2) * DRAWS - 1) < 4.5 * np.sqrt(2 / size)
    # Off the diagonal: each product has the variance 1 / n, a square of it 1 / n on average with a variance of 2 / n^2.
    products = (white.T @ white / DRAWS)[np.triu_indices(size, 1)]
    assert abs(np.mean(products**2) * DRAWS - 1) < 4.5 * np.sqrt(2 / products.size) + 4 / DRAWS


class Line(simkit.StaticSystem):
    """A field and a level that are seen together."""

    a: jax.Array
    level: simkit.Scalar = simkit.quantity(1.0)

    def outputs(self, t, y, inputs):
        return {"x": self.a + jnp.log(self.level)}

    @classmethod
    def example(cls):
        return simkit.Example(cls(jnp.zeros(4)), None, np.zeros(1))


def line(unit=1.0, noise=None, prior=None, level=None):
    values = unit * np.array([[0.3, np.nan, -0.2, 0.9, 0.4, 0.1, -0.3, 0.2]])
    own = Matern(unit, length=0.3, box=1.0) if prior is None else prior
    free = {"a": Free(own)} | ({} if level is None else {"level": level})
    return Problem(
        Line(jnp.zeros(8)),
        Experiment("one", [0.0], {"x": values}),
        free=free,
        noise={"x": Normal(0.5 * unit) if noise is None else noise},
    )


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_missing_data_units_and_numbers_beside_fields(unit):
    level = Free(dist.LogNormal(0.0, 0.7), transform="log") if unit == 1.0 else None
    problem = line(unit, level=level)
    fit = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-9))
    draws = np.asarray(randomised_draws(problem, fit, DRAWS, key=jax.random.key(2)))
    prior = np.asarray(jax.vmap(problem.unknowns.pairs[0][1].root)(jnp.eye(8)))
    spread = prior @ prior.T
    seen = np.delete(np.eye(8), 1, axis=0)
    if level is not None:
        draws = np.concatenate([draws[:, :8], np.log(draws[:, 8:])], axis=1)
        spread = np.block([[spread, np.zeros((8, 1))], [np.zeros((1, 8)), np.full((1, 1), 0.49)]])
        seen = np.concatenate([seen, np.ones((7, 1))], axis=1)
    gain = spread @ seen.T @ np.linalg.inv(seen @ spread @ seen.T + 0.25 * unit**2 * np.eye(7))
    mean = gain @ np.delete(np.asarray(problem.data["x"]).ravel(), 1)
    covariance = spread - gain @ seen @ spread
    white = whitened(draws, mean, covariance)
    # The last number alone, of which a mode in natural units would lie a third of its deviation below.
    assert abs(draws[:, -1].mean() - mean[-1]) < 4 * np.sqrt(covariance[-1, -1] / DRAWS)
    assert abs(np.mean(white**2) - 1) < 4.5 * np.sqrt(2 / white.size)


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (lambda: line(noise=Laplace(0.5)), "normal errors of known size, but `x` has `Laplace`"),
        (lambda: line(level=Free(dist.HalfNormal(1.0))), "but that of `level` is a `HalfNormal`"),
        (lambda: line(prior=TotalVariation(1.0, slope=0.1, box=1.0)), "needs Gaussian priors of fields"),
    ],
)
def test_what_is_refused(problem, text):
    problem = problem()
    fit = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-2))
    with pytest.raises(simkit.ArgumentError, match=text):
        randomised_draws(problem, fit, 2, key=jax.random.key(0))


def test_a_draw_that_does_not_end_is_told():
    problem = line()
    fit = simkit.fit(problem, method=FieldLBFGS())
    with pytest.raises(simkit.SimulationError, match="Draw 0 of 3 did not converge"):
        randomised_draws(problem, fit, 3, key=jax.random.key(0), method=FieldLBFGS(tolerance=1e-12, max_steps=1))
