import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

from simkit.core import guard


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
