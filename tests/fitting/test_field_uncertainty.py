"""Standard errors of fields beside the exact posterior of a Gaussian process, with more directions than there are data."""

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fields
from simkit.noise import Normal
from simkit.odes import from_response

SIZE = 24
PRIOR = fields.Matern(0.7, length=3.0, box=12.0, smoothness=1.5, ends="neumann", mean=0.2)


def exact(places, data, scale):
    """Mean and standard deviations by the formula for Gaussian processes."""
    root = np.stack([np.asarray(PRIOR.root(jnp.asarray(e))) for e in np.eye(SIZE)]).T
    prior = root @ root.T
    cross = prior[:, places]
    gain = np.linalg.solve(cross[places] + scale**2 * np.eye(len(places)), cross.T)
    return 0.2 + gain.T @ (data - 0.2), np.sqrt(np.diag(prior - cross @ gain))


@pytest.mark.parametrize(("count", "scale", "rtol"), [(10, 0.1, 1e-6), (24, 0.1, 1e-6), (10, 1e-6, 1e-3)])
def test_more_directions_than_data_leave_the_standard_errors_of_the_posterior(count, scale, rtol):
    """Lanczos' method ran on with what rounding leaves, and standard errors became 0 where it had counted a direction twice."""
    places = np.arange(count) * (2 if count < SIZE else 1)
    data = 0.2 + np.random.default_rng(0).normal(size=count)
    system = from_response(lambda t, p: {"y": p["field"][places]}, {"field": jnp.zeros(SIZE)})
    problem = simkit.Problem(
        system,
        simkit.Experiment("one", [0.0], {"y": data[None]}),
        free={"field": simkit.Free(PRIOR)},
        noise={"y": Normal(scale)},
    )
    mean, spread = exact(places, data, scale)
    few = simkit.fit(problem, method=simkit.GaussNewtonCG(modes=3))
    assert "warning: more directions are known by the data" in repr(few)
    for modes in (SIZE, SIZE + 6):
        found = simkit.fit(problem, method=simkit.GaussNewtonCG(modes=modes))
        np.testing.assert_allclose(found["field"], mean, atol=1e-5)
        ends = np.asarray(found.interval("field", 0.6826894921370859))
        np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, spread, rtol=rtol)
