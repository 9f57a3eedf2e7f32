"""Derivatives of what is not finite are NaN, whatever the mode, the lane and what was asked of a simulation; masked, they are 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.odes import from_function
from simkit.solvers import Tsit5

TIMES = np.array([0.0, 0.2, 0.4, 1.0])
STEPS = {"adaptive": simkit.Adaptive(1e-6, 1e-9), "fixed": simkit.Fixed(20)}


def trapped(k, step, **asked):
    """The other branch is never taken, and its slope is infinite."""

    def field(t, y, p):
        return -p["k"] * jnp.where(y > 0.01, y, jnp.sqrt(0 * y))

    system = from_function(field, {"k": k})
    return simkit.simulate(system, 1.0, TIMES, solver=Tsit5(), step=step, on_failure="mark", **asked)


def exploding(grow, shared, step, **asked):
    """Infinite at time 1 / grow."""
    system = from_function(lambda t, y, p: p["grow"] * y**2 + p["shared"] * t, {"grow": grow, "shared": shared})
    return simkit.simulate(system, 1.0, TIMES, solver=Tsit5(), step=step, on_failure="mark", **asked)


SHOWN = {
    "states": ({}, lambda found: jnp.sum(found.ys[1:])),
    "reducer": ({"reduce": {"mean": simkit.reducers.Mean()}}, lambda found: jnp.sum(found.reduced["mean"])),
    "event": (
        {"events": simkit.Event(lambda system, t, y, inputs: y - 0.8, "down", ends=True)},
        lambda found: found.event_time + jnp.sum(found.event_state),
    ),
}


SHOWS = [pytest.param(name, marks=[] if name == "states" else [pytest.mark.slow]) for name in SHOWN]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shown", SHOWS)
def test_a_nan_of_a_member_that_succeeds_stays_nan(step, shown):
    asked, show = SHOWN[shown]
    value = lambda k: show(trapped(k, STEPS[step], **asked))

    @jax.jit
    def found(k):
        ks = jnp.stack([k, 1.1 * k])
        return (
            value(k),
            jax.jvp(value, (k,), (jnp.ones_like(k),))[1],
            jax.grad(value)(k),
            jax.vmap(jax.grad(value))(ks),
            jax.grad(lambda k: jnp.sum(jax.vmap(value)(k * jnp.array([1.0, 1.1]))))(k),
        )

    first, forward, *reverse = found(jnp.asarray(1.0))
    assert np.isfinite(first)
    assert np.isfinite(forward)  # `where` picks the slope of the branch that is taken
    assert all(np.isnan(x).all() for x in reverse)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shown", SHOWS)
def test_a_failed_member_is_nan_in_value_and_derivatives_unless_it_is_left_out(step, shown):
    """Two of three members fail; what they share with the third gets its derivative alone, or NaN if they are not left out."""
    asked, show = SHOWN[shown]
    if shown == "event":  # which only the member that succeeds comes to
        asked = {"events": simkit.Event(lambda system, t, y, inputs: y - 1.02, "up", ends=True)}
        grow = jnp.array([np.nan, 0.1, np.inf])
    else:
        grow = jnp.array([3.0, 0.1, np.nan])

    def members(shared, grow, masked):
        def one(grow):
            found = exploding(grow, shared, STEPS[step], **asked)
            return jnp.where(found.status == 0, show(found), 0.0) if masked else show(found)

        return jax.vmap(one)(grow)

    @jax.jit
    def found(shared, grow):
        total = lambda masked: lambda shared, grow: jnp.sum(members(shared, grow, masked))
        return (
            members(shared, grow, False),
            jax.jvp(lambda shared: members(shared, grow, False), (shared,), (jnp.ones_like(shared),))[1],
            jax.grad(total(False), argnums=(0, 1))(shared, grow),
            jax.grad(total(True), argnums=(0, 1))(shared, grow),
            jax.grad(lambda shared: members(shared, grow[1:2], False)[0])(shared),
        )

    values, forward, (common, own), (masked, masked_own), alone = found(jnp.asarray(0.5), grow)
    lost = np.array([True, False, True])
    np.testing.assert_array_equal(np.isnan(values) | np.isinf(values), lost)
    np.testing.assert_array_equal(np.isnan(forward), lost)
    assert np.isnan(common)
    np.testing.assert_array_equal(np.isnan(own), lost)
    np.testing.assert_allclose(masked, alone, rtol=1e-9)  # the same sums in another order
    np.testing.assert_array_equal(masked_own[lost], 0.0)


@pytest.mark.parametrize("step", STEPS)
def test_states_before_a_failure_keep_their_derivatives(step):
    early = lambda grow: exploding(grow, 0.0 * grow, STEPS[step]).ys[1]
    late = lambda grow: exploding(grow, 0.0 * grow, STEPS[step]).final()
    grow = jnp.asarray(3.0)  # y = 1 / (1 - grow t), dy / dgrow = t y^2
    exact = 0.2 / (1 - 0.6) ** 2
    found = jax.jit(lambda grow: (jax.grad(early)(grow), jax.jacfwd(early)(grow), jax.grad(late)(grow)))(grow)
    found = [float(x) for x in found]
    assert found[0] == pytest.approx(exact, rel=1e-3)  # the error of 20 fixed steps close to the pole
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert np.isnan(found[2])


@pytest.mark.parametrize("step", STEPS)
def test_what_a_function_closes_over_is_lost_as_well(step):
    def final(k):
        system = from_function(lambda t, y, p: k * p["grow"] * y**2, {"grow": 3.0})
        return simkit.simulate(system, 1.0, TIMES, solver=Tsit5(), step=STEPS[step], on_failure="mark").final()

    assert np.isnan(jax.jit(jax.grad(final))(1.0))


def test_second_derivatives_with_a_failed_member():
    """With fixed steps one member of two fails; second derivatives by what they share are those of the other."""

    def total(shared, grow):
        def one(grow):
            return jnp.sum(exploding(grow, shared, STEPS["fixed"]).filled().ys ** 2)

        return jnp.sum(jax.vmap(one)(grow))

    orders = {
        "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f)),
        "forward over reverse": lambda f: jax.jacfwd(jax.grad(f)),
    }
    both, one = jnp.array([0.1, 3.0]), jnp.array([0.1])
    found = jax.jit(
        lambda s: {name: (d(lambda s: total(s, both))(s), d(lambda s: total(s, one))(s)) for name, d in orders.items()}
    )
    for name, (with_failed, alone) in found(jnp.asarray(0.5)).items():
        np.testing.assert_allclose(with_failed, alone, rtol=1e-9, err_msg=name)  # the same sums in another order
        assert abs(alone) > 1e-3
