"""Fits of fields by Gauss-Newton with conjugate gradients, against dense linear algebra."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from heated_ring import SIZE, by_matrices, half, ring

import simkit
from simkit import Experiment, Free, GaussNewtonCG, Problem
from simkit.fields import Matern, TotalVariation
from simkit.fitting._linearised import linearised
from simkit.noise import Normal


def test_a_linear_problem_is_solved_as_by_matrices():
    prior = Matern(1.0, length=0.2, box=1.0, smoothness=2.5, mean=0.5)
    problem, truth = ring(prior)
    fit = simkit.fit(problem, method=GaussNewtonCG(tolerance=1e-10, modes=32))
    mean, covariance = by_matrices(problem, prior)
    # The gradient is 1e-10 of the first; the condition number in white coordinates some thousand.
    np.testing.assert_allclose(fit["y0"], mean, atol=1e-6)
    # 32 data: as many directions say everything.
    np.testing.assert_allclose(fit.standard_error("y0"), np.sqrt(np.diag(covariance)), rtol=1e-6)
    assert fit.status == 0
    assert fit.products < 3 * 32 + 32
    assert "converged" not in repr(fit)
    assert "warning" not in repr(fit)
    interval = np.asarray(fit.interval("y0"))
    # 48 correlated places: the truth lies in 90 % intervals at most of them.
    assert ((truth > interval[:, 0]) & (truth < interval[:, 1])).mean() > 0.7
    draws = np.asarray(fit.draws(jax.random.key(0), 4000))
    # 4000 draws: a standard deviation within 5 of its own errors, 1.1 %.
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(np.diag(covariance)), rtol=0.056)
    fewer = dataclasses.replace(fit, eigenvalues=fit.eigenvalues[:4], vectors=fit.vectors[:4])
    assert (np.asarray(fewer.standard_error("y0")) >= np.asarray(fit.standard_error("y0")) * (1 - 1e-9)).all()
    assert "more directions are known" in repr(fewer)


@pytest.mark.slow
def test_positive_fields_and_numbers_together_by_adaptive_steps():
    """The gradient of a density written out by hand vanishes; adaptive solves have tangents and adjoints as well."""
    prior = Matern(0.5, length=0.3, box=1.0, smoothness=2.5)
    more = {"rate": Free(dist.LogNormal(3.0, 0.3)), "noise.y.scale": Free(bounds=(0.01, 0.2), start=0.05)}
    problem, _ = ring(prior, "log", more, step=simkit.Adaptive(1e-9, 1e-9))
    fit = simkit.fit(problem, method=GaussNewtonCG(tolerance=1e-8))
    assert fit.status == 0
    assert float(fit["rate"]) == pytest.approx(20.0, rel=0.5)
    data = np.asarray(problem.data["y"][0])
    seen = np.isfinite(data)

    def objective(z):
        start, rate, scale = jnp.exp(prior.root(z[:SIZE])), jnp.exp(z[SIZE]), jnp.exp(z[SIZE + 1])
        modes = -2 * rate * (1 - jnp.cos(2 * jnp.pi * np.arange(SIZE) / SIZE))
        at = [jnp.fft.ifft(jnp.fft.fft(start) * jnp.exp(modes * t).astype(complex)).real for t in (0.05, 0.1)]
        pulls = jnp.where(seen, (jnp.stack(at) - jnp.where(seen, data, 0)) / scale, 0)
        misfit = 0.5 * jnp.sum(pulls**2) + float(seen.sum()) * jnp.log(scale)
        return misfit + 0.5 * jnp.sum(z[:SIZE] ** 2) + 0.5 * ((z[SIZE] - 3) / 0.3) ** 2 + z[SIZE]

    slope = jax.grad(objective)
    first, last = (np.linalg.norm(slope(z)) for z in (jnp.zeros(SIZE + 2).at[-2:].set([3.0, np.log(0.05)]), fit.z))
    # Solves with a relative tolerance of 1e-9 are some 1e-8 off, times pulls of some ten.
    assert last < 1e-6 * first
    with pytest.raises(simkit.ArgumentError, match="knows no uncertainty"):
        fit.interval("y0")


def test_a_fit_of_a_coarser_grid_starts_and_preconditions_that_of_a_finer_one():
    prior = Matern(1.0, length=0.2, box=1.0, smoothness=2.5, mean=0.5)
    problem, _ = ring(prior)
    cold = simkit.fit(problem, method=GaussNewtonCG())
    coarse = half(problem, prior)
    first = simkit.fit(coarse, method=GaussNewtonCG(tolerance=1e-3))
    warm = simkit.fit(problem, method=GaussNewtonCG(known=first))
    assert first["y0"].shape == (SIZE // 2,)
    # Both end at a gradient of 1e-6 of the first, no curvature is below 1, and a pixel moves by a scale of 1 at most.
    np.testing.assert_allclose(warm["y0"], cold["y0"], atol=1e-3)
    assert warm.status == 0
    assert warm.products < 0.6 * cold.products
    assert warm.coarse == 0
    inner = simkit.fit(problem, method=GaussNewtonCG(known=first, coarse=coarse))
    np.testing.assert_allclose(inner["y0"], cold["y0"], atol=1e-3)
    assert inner.status == 0
    assert inner.coarse == inner.products > 0
    # Relative to the start of the first fit, at which both grids have the same gradient.
    assert inner.first == pytest.approx(first.first, rel=0.05) == pytest.approx(cold.first, rel=0.05)
    with pytest.raises(simkit.ArgumentError, match="must have the unknown `y0` of the same kind and shape"):
        simkit.fit(ring(prior, "log")[0], method=GaussNewtonCG(known=first))
    edges = half(problem, TotalVariation(1.0, slope=0.1, box=1.0))
    with pytest.raises(simkit.ArgumentError, match="must have the unknown `y0` of the same kind and shape"):
        simkit.fit(problem, method=simkit.FieldLBFGS(coarse=edges))
    with pytest.raises(simkit.ArgumentError, match="`coarse` must have the unknowns of the problem"):
        simkit.fit(ring(prior, None, {"rate": Free(start=20.0)})[0], method=GaussNewtonCG(coarse=coarse))


def test_a_product_computes_no_step_again():
    """The linearisation holds what its products need: none of the field's cosines is left in them."""

    class Waves(simkit.PlainSystem):
        def vector_field(self, t, y, inputs):
            return jnp.cos(y)

        @classmethod
        def example(cls):
            return simkit.Example(cls(), jnp.ones(3), jnp.linspace(0.0, 1.0, 3))

    data = Experiment("waves", [0.5, 1.0], {"y": np.ones((2, 3))}, start=0.0)
    free = {"y0": Free(Matern(1.0, length=0.5, box=1.0))}
    problem = Problem(Waves(), data, free=free, noise={"y": Normal(0.1)}, y0=jnp.ones(3), solver="rk4", step=0.1)
    z = jnp.zeros(3)
    product = linearised(problem, z).product
    text = str(jax.make_jaxpr(product)(z))
    assert "scan" in text
    assert not re.search(r"\b(cos|sin)\b", text)


def test_what_a_fit_of_fields_cannot_do_is_refused_before_it_begins():
    more = {"noise.y.scale": Free(bounds=(0.01, 0.2), start=0.05)}
    problem, _ = ring(Matern(0.5, length=0.3, box=1.0), None, more)
    starts = np.append(np.zeros(SIZE), 0.05)
    with pytest.raises(simkit.ArgumentError, match=r"`noise.y.scale` has no curvature"):
        simkit.fit(problem, starts=starts, method=GaussNewtonCG(modes=5))
    with pytest.raises(simkit.ArgumentError, match="`windows` does not go with"):
        simkit.fit(problem, method=GaussNewtonCG(), windows=3)
    method = simkit.EnsembleSampler()
    with pytest.raises(simkit.ArgumentError, match="prior of fields, which `EnsembleSampler` does not know"):
        simkit.sample(problem, method=method, key=jax.random.key(0))
