"""With fixed steps, members that fail leave the others their gradient, by what they share as well."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import simkit
from simkit.odes import OrnsteinUhlenbeck, Pendulum, from_function
from simkit.solvers import SRA1, Tsit5, VelocityVerlet


def blowing_up(t, y, p, inputs):
    """Runs into infinity at t = 1 / (grow y0); NaN with NaN."""
    return p["grow"] * y**2 + p["shared"] * jnp.sin(p["shared"] * t) + inputs["feed"]


def plain(shared, own):
    system = from_function(blowing_up, {"grow": own, "shared": shared})
    feed = simkit.PiecewiseConstant(times=jnp.asarray([0.0, 0.31]), values=jnp.stack([shared, 2 * shared]))
    return {"system": system, "y0": 2 * shared * jnp.ones(1), "inputs": {"feed": feed}, "solver": Tsit5()}


def separable(shared, own):
    """Without length the velocity is infinite."""
    return {"system": Pendulum(mass=shared, length=own), "y0": Pendulum.example()[1], "solver": VelocityVerlet()}


def stochastic(shared, own):
    system = OrnsteinUhlenbeck(reversion=shared, mean=own)
    return {"system": system, "y0": OrnsteinUhlenbeck.example()[1], "solver": SRA1(), "key": jax.random.key(3)}


# What members share, what is their own, and who of them succeeds.
CASES = {
    plain: (0.5, [0.1, 5.0, 0.2, np.nan, 0.3, 1e200], [0, 2, 4]),
    separable: (0.8, [1.0, 0.0, 1.5, np.nan, 2.0, -np.inf], [0, 2, 4]),
    stochastic: (1.2, [0.1, np.inf, 0.2, np.nan, 0.3, -np.inf], [0, 2, 4]),
}
TIMES = np.array([0.0, 0.4, 1.0])


def one(case, shared, own, memory=None):
    """What a member shows if it succeeds, and its status."""
    call = case(shared, own)
    system, y0 = call.pop("system"), call.pop("y0")
    gradient = None if memory is None else simkit.Checkpointed(memory)
    found = simkit.simulate(system, y0, TIMES, step=simkit.Fixed(40), gradient=gradient, on_failure="mark", **call)
    shown = sum(jnp.sum(x**2) for x in jax.tree.leaves(found.filled().ys))
    return jnp.where(found.status == 0, shown, 0.0), found.status


def total(case, shared, own, memory=None):
    values, status = jax.vmap(lambda own: one(case, shared, own, memory))(own)
    return jnp.sum(values), status


def alone(case, derivative):
    """The derivatives of those that succeed, each by itself."""
    shared, own, sound = CASES[case]
    function = jax.jit(derivative(lambda shared, own: one(case, shared, own)[0]))
    return [function(jnp.asarray(shared), jnp.asarray(own[i])) for i in sound]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # the same sums in another order: rounding of 80 steps


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("memory", [None, 1500])
def test_the_gradient_of_the_others_is_theirs(case, memory):
    shared, own, sound = CASES[case]
    slope = jax.grad(lambda shared, own: total(case, shared, own, memory), argnums=(0, 1), has_aux=True)
    (common, each), status = jax.jit(slope)(jnp.asarray(shared), jnp.asarray(own))
    assert list(np.flatnonzero(np.asarray(status) == 0)) == sound
    expected = alone(case, lambda f: jax.grad(f, argnums=(0, 1)))
    close(common, sum(s[0] for s in expected))
    close(each[np.array(sound)], [s[1] for s in expected])
    np.testing.assert_array_equal(np.delete(each, sound), 0.0)


def test_the_hessian_as_well():
    shared, own, _ = CASES[plain]
    found = jax.jit(jax.hessian(lambda shared: total(plain, shared, jnp.asarray(own))[0]))(jnp.asarray(shared))
    close(found, sum(alone(plain, jax.hessian)))


@pytest.mark.parametrize("checked", [True, False])
def test_on_several_devices(checked):
    shared, own, _ = CASES[plain]
    mesh = jax.make_mesh((2,), ("m",), axis_types=(AxisType.Auto,))
    specs = {"in_specs": (PartitionSpec(), PartitionSpec("m")), "out_specs": PartitionSpec("m")}
    member = lambda shared, own: jax.vmap(lambda own: one(plain, shared, own)[0])(own)
    spread = jax.shard_map(member, mesh=mesh, check_vma=checked, **specs)
    slope = jax.jit(jax.grad(lambda shared: jnp.sum(spread(shared, jnp.asarray(own)))))
    close(slope(jnp.asarray(shared)), sum(alone(plain, jax.grad)))


def test_an_ensemble_in_turns():
    """More turns than one, the last of them filled up, by a value that is shared."""
    grow = jnp.asarray([0.1, 5.0, 0.2, 0.3, 8.0])

    def shown(shared, grow):
        system = from_function(lambda t, y, p: p["grow"] * y**2 + p["shared"], {"grow": 1.0, "shared": shared})
        found = simkit.ensemble(system, 1.0, TIMES, over={"grow": grow}, solver=Tsit5(), step=simkit.Fixed(40), lanes=2)
        return jnp.sum(found.filled().final())

    slope = jax.jit(jax.grad(shown))
    close(slope(0.5, grow), slope(0.5, grow[np.array([0, 2, 3])]))


def test_states_after_a_failure_are_nan_and_never_infinite():
    """With y' = grow y^2 and RK4 an overflow is infinite in the row in which it happens, and in all that follow."""
    system = from_function(lambda t, y, p: p["grow"] * y**2, {"grow": 1.0})
    grow, times = jnp.asarray([0.1, 3.0, 1e100]), jnp.linspace(0.0, 2.0, 5)
    found = simkit.ensemble(system, 1.0, times, over={"grow": grow}, solver=simkit.solvers.RK4(), step=simkit.Fixed(4))
    assert list(found.status) == [0, 1, 1]
    np.testing.assert_array_equal(np.isnan(found.ys), [[False] * 5, [False, False, *[True] * 3], [False, *[True] * 4]])
    assert not np.isinf(found.ys).any()
