"""Fits of fields by L-BFGS in white coordinates, against dense linear algebra and against Gauss-Newton."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from heated_ring import SIZE, Heat, by_matrices, half, ring

import simkit
from simkit import Experiment, FieldLBFGS, Free, GaussNewtonCG, Problem
from simkit.fields import Matern
from simkit.fitting._shells import edges_to, probed
from simkit.noise import Normal

PRIOR = Matern(1.0, length=0.2, box=1.0, smoothness=2.5, mean=0.5)


def test_a_linear_problem_is_solved_as_by_matrices_on_one_grid_and_through_a_coarser_one():
    problem, _ = ring(PRIOR)
    mean, covariance = by_matrices(problem, PRIOR)
    fit = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-10, modes=32))
    # The gradient is 1e-10 of the first; the condition number in white coordinates some thousand.
    np.testing.assert_allclose(fit["y0"], mean, atol=1e-6)
    np.testing.assert_allclose(fit.standard_error("y0"), np.sqrt(np.diag(covariance)), rtol=1e-6)
    assert fit.status == 0
    assert fit.before == 0
    assert "warning" not in repr(fit)
    through = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-10, coarse=half(problem, PRIOR)))
    np.testing.assert_allclose(through["y0"], mean, atol=1e-6)
    assert through.before > 0
    assert through.linearisations < fit.linearisations
    assert f"{through.before} linearisations on coarser grids before" in repr(through)
    # Fewer changes in memory than steps: the oldest make place, and the same minimum is found.
    forgetful = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-8, memory=2))
    np.testing.assert_allclose(forgetful["y0"], mean, atol=1e-4)
    assert forgetful.status == 0
    assert forgetful.linearisations > 3


def test_shells_hold_the_mean_information_of_their_waves():
    """On a ring that is seen everywhere the information is diagonal in waves: its eigenvalues are the shells' numbers."""
    random = np.random.default_rng(1)
    data = Experiment("ring", [0.01], {"y": random.normal(size=(1, SIZE))}, start=0.0)
    problem = Problem(Heat(), data, free={"y0": Free(PRIOR)}, noise={"y": Normal(0.05)}, y0=jnp.ones(SIZE), step=0.001)
    shells = probed(problem, jnp.ones(SIZE), jnp.zeros(SIZE), jax.random.key(0))
    (found,) = shells.information
    edges = edges_to(SIZE / 2)
    assert found.size == edges.size + 1
    waves = np.arange(6)
    decay = np.exp(-2 * 20.0 * (1 - np.cos(2 * np.pi * waves / SIZE)) * 0.01)
    variances = np.asarray(PRIOR.spectrum(jnp.asarray((2 * np.pi * waves) ** 2), SIZE))
    # Heun's steps of 0.001 are some 1e-6 off the exponential; up to the fifth, each shell holds one wavenumber.
    np.testing.assert_allclose(found[:6], variances * (decay / 0.05) ** 2, rtol=1e-4)
    divided = shells.divided(problem.unknowns, jnp.ones(SIZE), jnp.ones(SIZE))
    np.testing.assert_allclose(divided, 1 / (1 + found[0]), rtol=1e-9)


@pytest.mark.slow
def test_positive_fields_with_numbers_and_bounds_end_where_gauss_newton_ends():
    prior = Matern(0.5, length=0.3, box=1.0, smoothness=2.5)
    # The scale of the noise is 0.05: its lower bound holds it.
    more = {"rate": Free(dist.LogNormal(3.0, 0.3)), "noise.y.scale": Free(bounds=(0.08, 0.2), start=0.1)}
    problem, _ = ring(prior, "log", more)
    newton = simkit.fit(problem, method=GaussNewtonCG(tolerance=1e-9))
    secant = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-9))
    assert secant.status == 0
    assert float(secant["noise.y.scale"]) == pytest.approx(0.08, rel=1e-6)
    assert secant.objective == pytest.approx(newton.objective, abs=1e-9)
    np.testing.assert_allclose(secant.z, newton.z, atol=1e-6)


def test_single_precision_ends_at_what_it_resolves():
    problem, _ = ring(PRIOR)
    wanted = by_matrices(problem, PRIOR)[0]
    with jax.enable_x64(False):
        fit = simkit.fit(ring(Matern(1.0, length=0.2, box=1.0, smoothness=2.5, mean=0.5))[0], method=FieldLBFGS())
    assert fit.z.dtype == jnp.float32
    assert fit.status == 0
    np.testing.assert_allclose(fit["y0"], wanted, atol=5e-3)


def test_other_unknowns_on_the_coarser_grid_and_steps_that_fail_are_said():
    problem, _ = ring(PRIOR)
    with pytest.raises(simkit.ArgumentError, match="`coarse` must have the unknowns of the problem"):
        simkit.fit(ring(PRIOR, None, {"rate": Free(start=20.0)})[0], method=FieldLBFGS(coarse=(half(problem, PRIOR),)))
    with pytest.raises(simkit.ArgumentError, match="`windows` does not go with `FieldLBFGS`"):
        simkit.fit(problem, method=FieldLBFGS(), windows=3)
    few = simkit.fit(problem, method=FieldLBFGS(max_steps=3))
    assert few.status == 1
    assert "warning" in repr(few)
    with pytest.raises(simkit.SimulationError, match="the given starts"):
        simkit.fit(problem, method=FieldLBFGS(), starts=np.full(SIZE, 1e200))
