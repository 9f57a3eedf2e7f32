"""The lynx and hare of Hudson Bay: eight parameters, many local minima, 16 of 16 starts."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from simkit import Experiment, Free, Problem
from simkit.fitting import fit
from simkit.fitting._local_model import objective
from simkit.noise import LogNormal
from simkit.odes import LotkaVolterra

TABLE = np.genfromtxt(
    pathlib.Path(__file__).parents[2] / "examples" / "data" / "hudson_bay.csv",
    delimiter=",",
    names=True,
    encoding="utf-8",
)


@pytest.fixture(scope="module")
def problem():
    free = {
        "growth": Free(dist.Normal(1.0, 0.5)),
        "predation": Free(dist.Normal(0.05, 0.05)),
        "death": Free(dist.Normal(1.0, 0.5)),
        "conversion": Free(dist.Normal(0.05, 0.05)),
        "y0.hare": Free(dist.LogNormal(np.log(10.0), 1.0)),
        "y0.lynx": Free(dist.LogNormal(np.log(10.0), 1.0)),
        "noise.hare.scale": Free(dist.LogNormal(-1.0, 1.0)),
        "noise.lynx.scale": Free(dist.LogNormal(-1.0, 1.0)),
    }
    data = Experiment("hudson bay", TABLE["year"], {"hare": TABLE["hare"], "lynx": TABLE["lynx"]}, start=1900.0)
    noise = {"hare": LogNormal(0.25), "lynx": LogNormal(0.25)}
    return Problem(LotkaVolterra(), data, y0=LotkaVolterra.State(30.0, 4.0), noise=noise, free=free, step=0.25)


@pytest.fixture(scope="module")
def result(problem):
    return fit(problem)


def test_starts_agree(problem, result):
    assert result.agreeing() >= 14
    assert result.agreeing() == (np.asarray(result.status) == 0).sum()
    # Other draws: the count must not be the luck of one key. The program is compiled already.
    others = [fit(problem, key=jax.random.key(k)) for k in (1, 2)]
    for other in others:
        assert other.agreeing() >= 14
        np.testing.assert_allclose(other.estimate, result.estimate, rtol=1e-6)
    assert result.identifiability() == []


def test_gradient_vanishes_and_errors_match_the_curvature(problem, result):
    """Finite differences of the objective itself, which know nothing of Fisher information."""
    value = jax.jit(lambda z: objective(z, problem))
    z, error = np.asarray(result.z), np.sqrt(np.diag(np.asarray(result.covariance)))
    h = 1e-3 * error

    def at(*moves):
        return float(value(jnp.asarray(z + sum((sign * h[i] * np.eye(8)[i] for i, sign in moves), np.zeros(8)))))

    slope = np.array([(at((i, 1)) - at((i, -1))) / 2e-3 for i in range(8)])
    # In units of 1 / standard error. The truncation is the third derivative times (1e-3)^2 / 6, some 1e-6; rounding is 1e-11.
    np.testing.assert_allclose(slope, 0, atol=1e-5)
    h *= 50  # the rounding of a second difference needs longer steps; its truncation is then some 5e-2 squared over 12
    hessian = np.array(
        [
            [
                (at((i, 1), (j, 1)) - at((i, 1), (j, -1)) - at((i, -1), (j, 1)) + at((i, -1), (j, -1)))
                / (4 * h[i] * h[j])
                for j in range(8)
            ]
            for i in range(8)
        ]
    )
    # Fisher information is the expected curvature, the Hessian the observed one: with 42 data they differ by some 10 %.
    np.testing.assert_allclose(error, np.sqrt(np.diag(np.linalg.inv(hessian))), rtol=0.2)
    # The posterior standard deviations of posteriordb; a posterior is wider than its curvature at the mode.
    reference = np.array([0.06305, 0.004155, 0.08937, 0.003528, 2.917, 0.5306, 0.04326, 0.04359])
    np.testing.assert_allclose(result.standard_error, reference, rtol=0.3)
