"""Starts made of other numbers, and arrays of free parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import simkit
from simkit import fluids
from simkit.odes import ExponentialDecay


class Doubled(simkit.Start):
    """Half of what decays."""

    half: jax.Array = simkit.quantity(unit="mol")

    def state(self):
        return ExponentialDecay.State(2 * self.half)


def test_a_start_stands_for_its_state():
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    half = Doubled(y0.amount / 2)
    whole, again = (simkit.simulate(system, start, times) for start in (y0, half))
    assert jax.tree.structure(whole.ys) == jax.tree.structure(again.ys)
    np.testing.assert_array_equal(whole.ys.amount, again.ys.amount)
    members = simkit.ensemble(system, half, times, over={"y0.half": np.array([1.0, 2.0])})
    np.testing.assert_allclose(members.ys.amount[:, 0], [2.0, 4.0])


def test_the_numbers_of_a_start_are_fitted():
    system = simkit.odes.ExponentialDecay()
    times = np.array([0.0, 1.0, 2.0])
    problem = simkit.Problem(
        system,
        simkit.Experiment("decay", times, {"amount": 6.0 * np.exp(-0.5 * times)}),
        y0=Doubled(1.0),
        free={"rate": simkit.Free(dist.LogNormal(-1.0, 1.0)), "y0.half": simkit.Free(bounds=(0.1, 10.0))},
        noise={"amount": simkit.noise.Normal(0.01)},
    )
    found = simkit.fit(problem, starts=2, key=jax.random.key(0))
    # The prior pulls the rate by less than a hundredth of its error.
    np.testing.assert_allclose(found.estimate, [0.5, 3.0], atol=0.01)
    assert problem.unit("y0.half") == "mol"


def test_the_path_of_an_array_frees_each_element():
    line = simkit.odes.from_response(lambda x, p: p["a"][0] + p["a"][1] * x, {"a": jnp.array([0.0, 1.0])})
    x = np.arange(5.0)
    free = simkit.Free(bounds=(-10.0, 10.0))
    problem = simkit.Problem(
        line,
        simkit.Experiment("line", x, {"y": 1.0 + 2.0 * x}),
        free={"a": free},
        noise={"y": simkit.noise.Normal(0.1)},
    )
    assert problem.names == ("a.0", "a.1")
    np.testing.assert_allclose(problem.predict(jnp.array([1.0, 2.0]))["y"][0], 1.0 + 2.0 * x)


def test_weights_of_waves_are_a_random_field_of_a_given_size():
    grid = fluids.Grid((12, 12))
    weights = jax.random.normal(jax.random.key(0), (4000, 28))
    fields = jax.vmap(lambda w: fluids.SmoothVorticity(grid, waves=3, weights=w, size=2.0).state().vorticity)(weights)
    # 4000 draws of 144 correlated values: the root mean square scatters by less than a hundredth.
    assert abs(float(jnp.sqrt(jnp.mean(fields**2))) / 2.0 - 1) < 0.01
    assert abs(float(jnp.mean(fields))) < 1e-12


def test_fields_take_reverse_mode():
    grid = fluids.Grid((16, 16))
    start = fluids.SmoothVorticity(grid, waves=2)
    problem = simkit.Problem(
        fluids.SpectralFlow2D(grid),
        simkit.Experiment("flow", [0.0, 1.0], {"energy": [1.0, 1.0]}),
        y0=start,
        free={"y0.weights": simkit.Free(dist.Normal(0.0, 1.0))},
        noise={"energy": simkit.noise.Normal(0.1)},
        step=0.5,
    )
    assert len(problem.names) == 12
    assert problem.default_gradient == "reverse"
