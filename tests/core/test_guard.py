import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

from simkit.core import by_member


def rooted(x):
    """Finite everywhere, but its masked branch has an infinite slope at zero: 0 * inf on the way back."""
    return jnp.where(x > 0, jnp.sqrt(jnp.maximum(x, 0.0)), 0.0)


def test_a_nan_of_a_finite_result_stays_nan():
    guarded = lambda x: by_member(rooted, x)
    x = jnp.array([0.0, 4.0])
    for slope in (jax.grad(guarded), jax.grad(lambda x: jnp.sum(jax.vmap(guarded)(x[None])))):
        np.testing.assert_array_equal(jax.jit(jax.vmap(slope))(x), [np.nan, 0.25])
    assert jax.hessian(guarded)(x[1]) == -0.25 * 4.0**-1.5


def test_a_zero_cotangent_stays_zero():
    """Nobody asks for the result, so that no slope of it matters."""
    unasked = lambda x: 0 * by_member(rooted, x) + x**3
    assert jax.jit(jax.grad(unasked))(0.0) == 0.0
    assert jax.jit(jax.jacfwd(jax.grad(unasked)))(0.0) == 0.0


def test_a_result_that_is_not_finite_has_no_derivative_but_nan():
    """Its slope is finite, but the value is not."""
    squared = lambda x: by_member(lambda x: x**2, x)
    for function in (squared, jax.vmap(squared)):
        x = jnp.full(() if function is squared else (2,), 1e200)
        assert np.isnan(jax.jit(jax.grad(lambda x, f=function: jnp.sum(f(x))))(x)).all()


def test_a_member_that_is_not_finite_leaves_the_others_their_share():
    own = jnp.array([0.0, 4.0, 9.0])
    masked = lambda shared, x: jnp.where(x > 0, by_member(lambda s, x: s / x, shared, x), 0.0)
    total = lambda shared, own: jnp.sum(jax.vmap(lambda x: masked(shared, x))(own))
    bare = lambda shared: jnp.sum(jnp.where(own > 0, shared / own, 0.0))
    assert jnp.isnan(jax.grad(bare)(2.0))
    for wrap in (jax.jit, lambda f: f):
        np.testing.assert_allclose(wrap(jax.grad(total))(2.0, own), 1 / 4 + 1 / 9, rtol=1e-15)
        np.testing.assert_allclose(wrap(jax.jacfwd(total))(2.0, own[1:]), 1 / 4 + 1 / 9, rtol=1e-15)
    nested = lambda shared: jnp.sum(jax.vmap(lambda row: total(shared, row))(jnp.stack([own, own])))
    np.testing.assert_allclose(jax.grad(nested)(2.0), 2 * (1 / 4 + 1 / 9), rtol=1e-15)
    each = jax.vmap(jax.grad(lambda shared, x: masked(shared, x)), in_axes=(None, 0))(2.0, own)
    np.testing.assert_allclose(each, [0.0, 1 / 4, 1 / 9], rtol=1e-15)


def test_members_on_other_devices_are_kept_apart_as_well():
    own = jnp.array([0.0, 4.0, 9.0, 16.0])
    masked = lambda shared, x: jnp.where(x > 0, by_member(lambda s, x: s / x, shared, x), 0.0)
    mesh = jax.make_mesh((2,), ("m",), axis_types=(AxisType.Auto,))
    for checked in (True, False):
        spread = jax.shard_map(
            jax.vmap(masked, in_axes=(None, 0)),
            mesh=mesh,
            in_specs=(PartitionSpec(), PartitionSpec("m")),
            out_specs=PartitionSpec("m"),
            check_vma=checked,
        )
        slope = jax.jit(jax.grad(lambda shared, spread=spread: jnp.sum(spread(shared, own))))(jnp.asarray(2.0))
        np.testing.assert_allclose(slope, 1 / 4 + 1 / 9 + 1 / 16, rtol=1e-15)


def test_what_members_share_stays_shared_where_nothing_is_differentiated():
    weights, own = jnp.ones((3, 3)), jnp.ones((5, 3))

    def shapes(function):
        program = jax.make_jaxpr(function)(weights).pretty_print()
        return "5,3,3" in program

    mapped = lambda w: jax.vmap(lambda x: by_member(lambda w, x: w @ x, w, x))(own)
    assert not shapes(mapped)
    assert shapes(jax.grad(lambda w: jnp.sum(mapped(w))))


def test_what_a_function_closes_over_is_differentiated_by():
    slope = jax.jit(jax.grad(lambda k: by_member(lambda x: k * x, jnp.asarray(3.0))))(2.0)
    assert slope == 3.0
    np.testing.assert_array_equal(jax.hessian(lambda k: by_member(lambda x: k**2 * x, jnp.asarray(3.0)))(2.0), 6.0)


def test_arguments_that_are_no_arrays_pass():
    def function(words, x, count):
        return {"y": words["scale"] * x * count}

    found = jax.grad(lambda x: by_member(function, {"scale": 2.0, "name": "no number"}, x, jnp.asarray(3))["y"])
    assert found(1.0) == 6.0
