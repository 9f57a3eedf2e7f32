"""Fits in any units: boxes, bounds, coordinates and rescaled studies."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from rescaled import Rescaled

import simkit
from simkit.fitting._inside import inside, margin

LINE = simkit.odes.from_response(lambda x, p: p["a"] * x, {"a": 1.0})
X = np.linspace(1.0, 2.0, 10)


@pytest.mark.parametrize(
    ("bounds", "true"), [((1e-33, 1e-27), 3e-30), ((1e-14, 1e-10), 2e-12), ((1.0, 1.0 + 1e-9), 1.0 + 4e-10)]
)
def test_narrow_and_small_boxes(bounds, true):
    """A margin of 1e-10 turned boxes inside out: an estimate of -1e-10, or one on both bounds."""
    scatter = 1e-2 * min(true, bounds[1] - bounds[0])
    problem = simkit.Problem(
        LINE,
        simkit.Experiment("line", X, {"y": true * X}),
        free={"a": simkit.Free(bounds=bounds)},
        noise={"y": simkit.noise.Normal(scatter)},
    )
    found = simkit.fit(problem, starts=4, key=jax.random.key(0))
    # Data without noise: what is left is far below the standard error.
    assert abs(float(found.estimate[0]) - true) < 1e-3 * float(found.standard_error[0])
    assert found.agreeing() == 4
    assert not found.identifiability()


def test_margins_are_shares_of_boxes():
    box = jnp.array([[0.0, jnp.inf], [0.0, 1e12], [1e-33, 1e-27], [5.0, 5.0 + 1e-11], [-2.0, 3.0]])
    low, high = margin(box).T
    assert (low[:2] < 1e-7).all()
    assert low[0] > 0
    np.testing.assert_allclose([low[2], high[2], low[4]], [1e-43, 1e-37, 2e-10])
    assert (box[:, 0] < inside(box[:, 0], box)).all()
    assert (inside(box[:, 0], box) < inside(jnp.where(jnp.isinf(box[:, 1]), 1e30, box[:, 1]), box)).all()


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_a_bound_at_zero_has_no_unit(unit):
    decay = simkit.odes.from_response(
        lambda x, p: p["a"] * jnp.exp(-x) + p["leak"], {"a": jnp.asarray(1.0), "leak": jnp.asarray(0.1)}
    )
    x, random = np.linspace(0.0, 5.0, 20), np.random.default_rng(1)
    data = np.exp(-x) - 0.01 + 0.02 * random.standard_normal(20)
    free = {"a": simkit.Free(bounds=(0.0, None), start=0.5 * unit)}
    problem = simkit.Problem(
        decay,
        simkit.Experiment("decay", x, {"y": unit * data}),
        free=free | {"leak": simkit.Free(bounds=(0.0, None), start=0.3 * unit)},
        noise={"y": simkit.noise.Normal(0.02 * unit)},
    )
    found = simkit.fit(problem, starts=3, key=jax.random.key(0))
    # Least squares of the exponential alone.
    assert abs(float(found.estimate[0]) / unit / ((data @ np.exp(-x)) / np.sum(np.exp(-2 * x))) - 1) < 1e-6
    assert 0 < found.estimate[1] < 1e-12 * unit
    intervals = np.asarray(found.interval()) / unit
    assert intervals[1, 0] == 0
    assert 0 < intervals[1, 1] < 0.02
    assert any("`leak` ended on its lower bound" in sentence for sentence in found.identifiability())


def test_positive_bounds_over_decades_are_walked_by_logarithm():
    data = simkit.Experiment("line", X, {"y": X})
    logarithmic = lambda **free: simkit.Problem(
        LINE, data, free={"a": simkit.Free(**free)}, noise={"y": simkit.noise.Normal(0.1)}
    ).log[0]
    assert logarithmic(bounds=(1e-3, 1e3))
    assert logarithmic(prior=dist.LogNormal(0.0, 1.0))
    assert logarithmic(prior=dist.LogUniform(1e-3, 1e3))
    assert not logarithmic(bounds=(0.5, 2.0))
    assert not logarithmic(bounds=(0.0, 1e3))
    assert not logarithmic(bounds=(1e-3, 1e3), transform="linear")
    assert not logarithmic(prior=dist.Uniform(1e-3, 1e3))


def pelts(size: float, span: float, unit: float) -> simkit.Problem:
    """Lotka and Volterra's equations in other units of states, time and parameters."""
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    times, random = np.linspace(0.0, 15.0, 16), np.random.default_rng(0)
    seen = simkit.simulate(system, y0, times).ys
    scatter = lambda values: np.asarray(values) * (1 + 0.05 * random.standard_normal(len(times)))
    inner = jax.tree.map(lambda x: x * unit, system)
    return simkit.Problem(
        Rescaled(inner, size, span, unit),
        simkit.Experiment(
            "pelts", times * span, {"hare": scatter(seen.hare) * size, "lynx": scatter(seen.lynx) * size}
        ),
        y0=jax.tree.map(lambda x: x * size, y0),
        free={
            "inner.growth": simkit.Free(bounds=(0.05 * unit, 5.0 * unit)),
            "inner.death": simkit.Free(bounds=(0.05 * unit, 5.0 * unit)),
            "y0.hare": simkit.Free(bounds=(5.0 * size, 100.0 * size)),
            "noise.hare.scale": simkit.Free(bounds=(1e-2 * size, 1e2 * size)),
        },
        noise={"hare": simkit.noise.Normal(2.0 * size), "lynx": simkit.noise.Normal(2.0 * size)},
        solver=simkit.solvers.Tsit5(),
    )


def test_a_study_in_other_units_has_the_same_estimates():
    starts = np.array([[0.6, 0.7, 35.0, 3.0], [0.4, 1.0, 25.0, 1.0]])
    found = {}
    for size, span, unit in ((1.0, 1.0, 1.0), (1e-30, 1e30, 1e30), (1e30, 1e-30, 1e-30), (1e-9, 1.0, 1.0)):
        units = np.array([unit, unit, size, size])
        result = simkit.fit(pelts(size, span, unit), starts=starts * units)
        found[size, span] = np.asarray(result.estimate) / units, np.asarray(result.standard_error) / units
        assert result.agreeing() == 2
    first, *others = found.values()
    for estimate, error in others:
        # Six digits; the optimum itself is known to 1e-9 standard errors.
        np.testing.assert_allclose(estimate, first[0], rtol=1e-6)
        np.testing.assert_allclose(error, first[1], rtol=1e-4)
