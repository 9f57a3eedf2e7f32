"""How descents step, and how they end."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from simkit import Experiment, Free, Problem
from simkit.fitting import fit
from simkit.fitting._trust_region import _bent, _trust_step
from simkit.noise import Normal
from simkit.odes import from_response

TIMES = np.linspace(0.0, 3.0, 13)
SCATTER = np.array([0.3, -0.1, 0.25, -0.4, 0.05, 0.2, -0.3, 0.1, -0.15, 0.35, -0.2, 0.0, -0.1])


@pytest.mark.parametrize("radius", [1e-3, 0.1, 3.0])
def test_steps_with_second_derivatives_fill_the_ball(radius):
    """The minimum of a quadratic in a ball, whose secular equation SciPy solves: curvatures from 1e-3 to 1e3 in any order."""
    generator = np.random.default_rng(3)
    turn, _ = np.linalg.qr(generator.normal(size=(4, 4)))
    values, slope = np.array([1e3, 1e-3, 1.0, 30.0]), generator.normal(size=4)
    rows = np.sqrt(0.5 * values)[:, None] * turn.T
    spectrum = _bent(jnp.asarray(rows), jnp.asarray(rows.T @ rows), jnp.asarray(slope))
    step = np.asarray(_trust_step(spectrum, jnp.asarray(radius)))
    assert np.linalg.norm(step) == pytest.approx(radius, rel=1e-9)
    own = turn.T @ slope
    shift = scipy.optimize.brentq(lambda s: 1 / np.linalg.norm(own / (values + s)) - 1 / radius, 0, 1e6, xtol=1e-14)
    np.testing.assert_allclose(step, -turn @ (own / (values + shift)), rtol=1e-6, atol=1e-9 * radius)


def test_jumps_of_a_likelihood_end_a_descent():
    """A response with jumps of a fiftieth of its scatter, as of steps that adapt: before, starts took all of 5000 steps."""

    def response(x, p):
        jump = jnp.sign(jnp.sin(1e6 * (p["size"] + p["rate"]) + 37.0 * x))
        return p["size"] * jnp.exp(-p["rate"] * x) + 1e-3 * jump

    free = {"size": Free(bounds=(0.1, 10.0)), "rate": Free(bounds=(0.05, 5.0))}
    y = 2.0 * np.exp(-0.7 * TIMES) + 0.05 * SCATTER
    data = Experiment("decay", TIMES, {"y": y})
    result = fit(
        Problem(from_response(response, {"size": 1.0, "rate": 1.0}), data, free=free, noise={"y": Normal(0.05)}),
        starts=8,
    )
    rows = result.waterfall()
    assert max(row["iterations"] for row in rows) < 250
    assert {row["status"] for row in rows} <= {"converged", "no gain"}
    assert "no gain" in {row["status"] for row in rows}
    # By a tenth of the log likelihood no error bar tells them apart.
    assert result.agreeing() == 8
    smooth, _ = scipy.optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x), TIMES, y, (1.0, 1.0))
    assert np.all(np.abs(np.asarray(result.thetas) - smooth) < 0.5 * np.asarray(result.standard_error))
    if rows[0]["status"] == "no gain":
        assert "gained nothing any more" in repr(result)
