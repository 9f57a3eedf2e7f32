import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

from simkit.core import by_member, guard


def hopeless(x):
    """Finite everywhere, but its masked branch has an infinite slope at zero: 0 * inf on the way back."""
    y = guard(x)
    return jnp.where(y > 0, jnp.sqrt(jnp.maximum(y, 0.0)), 0.0)


def test_a_cotangent_that_is_not_finite_becomes_zero():
    assert jnp.isnan(jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(0.0))
    assert jax.grad(hopeless)(0.0) == 0.0
    assert jax.grad(hopeless)(4.0) == 0.25


def test_the_guard_composes():
    x = jnp.array([0.0, 4.0])
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.grad(hopeless)))(x), [0.0, 0.25])
    assert jax.jvp(hopeless, (4.0,), (1.0,))[1] == 0.25
    assert jax.hessian(hopeless)(4.0) == -0.25 * 4.0**-1.5
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    spread = jax.shard_map(
        jax.vmap(jax.grad(hopeless)),
        mesh=mesh,
        in_specs=PartitionSpec("x"),
        out_specs=PartitionSpec("x"),
        check_vma=False,
    )
    np.testing.assert_array_equal(spread(x), [0.0, 0.25])


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
