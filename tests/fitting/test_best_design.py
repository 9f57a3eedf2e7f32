"""Expected information of designs beside closed forms, and the search for the best one."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit.fitting._best_design import _placed
from simkit.fitting._information_gain import bounds_of, pool

SPREADS, SCATTER = np.array([1.0, 2.0]), 0.5


def _line(x, noise=None, **more):
    line = simkit.odes.from_response(lambda x, p: p["a"] + p["b"] * x, {"a": 0.0, "b": 1.0})
    free = {name: simkit.Free(dist.Normal(0.0, s)) for name, s in zip("ab", SPREADS, strict=True)}
    data = simkit.Experiment("line", x, {"y": np.ones(len(x))})
    noise = {"y": simkit.noise.Normal(SCATTER) if noise is None else noise}
    return simkit.Problem(line, data, free=free | more, noise=noise)


def _exact(x):
    """Half the logarithm of the determinant by which a linear measurement shrinks a normal prior."""
    rows = np.stack([np.ones_like(x), x], axis=1)
    return 0.5 * np.linalg.slogdet(np.eye(2) + np.diag(SPREADS**2) @ rows.T @ rows / SCATTER**2)[1]


@pytest.mark.slow
def test_the_bounds_hold_the_closed_form_of_a_linear_model():
    x = np.array([-0.3, 0.1, 0.2, 0.4])
    found = simkit.expected_information(_line(x), draws=2000)
    # 4 standard errors: one in 16 000 on each side.
    assert found.lower - 4 * found.error < _exact(x) < found.upper + 4 * found.error
    # The bounds differ by the weight of one draw among 2000.
    assert 0 < found.upper - found.lower < 0.05
    again = simkit.expected_information(_line(x), draws=2000)
    assert float(again.lower) == float(found.lower)
    # A bound of few draws is at most their logarithm, and says so.
    few = simkit.expected_information(_line(np.linspace(-1.0, 1.0, 4) * 100), draws=4)
    assert few.lower <= np.log(4) + 1e-9
    assert "Take more" in repr(few)


@pytest.mark.slow
def test_the_best_design_of_a_line_is_at_both_ends():
    problem = _line(np.array([-0.3, 0.1, 0.2, 0.4]))
    found = simkit.design(problem, {"times": (-1.0, 1.0)}, starts=3)
    ends = np.array([-1.0, -1.0, 1.0, 1.0])
    np.testing.assert_allclose(np.sort(found.values["times"][0]), ends, atol=1e-6)
    assert found.gain.lower - 4 * found.gain.error < _exact(ends) < found.gain.upper + 4 * found.gain.error
    assert found.gain.lower > found.before.upper
    new = found.problem(problem)
    np.testing.assert_allclose(new.times, found.values["times"])
    assert "times" in repr(found)


@pytest.mark.slow
def test_a_dose_and_times_are_designed_by_gradients():
    decay = simkit.from_function(lambda t, y, p: {"x": -p["k"] * y["x"]}, {"k": 1.0})
    data = simkit.Experiment("assay", [1.0, 2.0], {"x": np.ones(2)}, start=0.0, y0={"x": 1.0})
    free = {"k": simkit.Free(dist.LogNormal(0.0, 0.3))}
    problem = simkit.Problem(decay, data, free=free, noise={"x": simkit.noise.Normal(0.05)})
    z = pool(problem, None, jax.random.key(1), 50)

    @jax.jit
    def gain(dose, times):
        values = {"y0.x": dose[None], "times": times[None]}
        return jnp.mean(bounds_of(_placed(problem, values), z, jax.random.key(2)).lower)

    place = jnp.asarray(1.5), jnp.asarray([0.4, 1.7])
    slope = jax.jit(jax.grad(gain, argnums=(0, 1)))(*place)
    # Central differences with steps of 1e-4 err by 1e-8, and by the tolerance of the solve, 1e-6, over the step.
    h = 1e-4
    np.testing.assert_allclose(
        slope[0], (gain(place[0] + h, place[1]) - gain(place[0] - h, place[1])) / (2 * h), rtol=0.03
    )
    for i in range(2):
        step = h * jnp.eye(2)[i]
        numeric = (gain(place[0], place[1] + step) - gain(place[0], place[1] - step)) / (2 * h)
        np.testing.assert_allclose(slope[1][i], numeric, rtol=0.03, atol=0.02)
    found = simkit.design(problem, {"y0.x": (0.1, 4.0), "times": (0.1, 10.0)}, starts=2, steps=100, draws=60)
    assert float(found.values["y0.x"][0]) == 4.0  # of an additive error the largest dose is best
    # For a known k the best time is 1 / k; over the prior both lie near.
    assert 0.4 < np.asarray(found.values["times"]).min() < np.asarray(found.values["times"]).max() < 2.5


def test_what_cannot_be_designed_is_refused():
    problem = _line([0.0, 1.0])
    for over, words in (
        ({"a": (0.0, 1.0)}, "is free"),
        ({"times": (1.0, 0.0)}, "two finite numbers"),
        ({}, "must name something"),
        ({"times": (0.0, np.inf)}, "two finite numbers"),
    ):
        with pytest.raises(simkit.ArgumentError, match=words):
            simkit.design(problem, over)
    with pytest.raises(simkit.UnknownNameError):
        simkit.design(problem, {"dose": (0.0, 1.0)})
    with pytest.raises(simkit.ArgumentError, match="no derivative"):
        simkit.design(_line([0.0, 1.0], simkit.noise.Poisson()), {"times": (0.0, 1.0)})
    with pytest.raises(simkit.ArgumentError, match="known"):
        simkit.expected_information(problem, known=3)


def test_a_design_put_in_takes_the_programs_of_the_problem_before():
    line = simkit.odes.from_response(lambda x, p: p["a"] + p["curve"] * x, {"a": 0.0, "curve": 1.0})
    data = simkit.Experiment("line", [-0.3, 0.1, 0.2, 0.4], {"y": np.ones(4)}, set={"curve": 0.0})
    noise = {"y": simkit.noise.Normal(SCATTER)}
    problem = simkit.Problem(line, data, free={"a": simkit.Free(dist.Normal(0.0, 1.0))}, noise=noise)
    values = {"curve": jnp.array([0.5]), "times": jnp.array([[-1.0, 0.0, 0.5, 1.0]])}
    new = _placed(problem, values)
    # What compiled programs are found by: shapes, types and whether these are weak.
    assert jax.tree.map(jax.typeof, new) == jax.tree.map(jax.typeof, problem)
