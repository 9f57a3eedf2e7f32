"""One function over many members: batched on a device, spread over all of them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import PyTree


def over_members(
    function: Callable[[Any, Any], Any], shared: PyTree, members: PyTree, *, together: bool = False
) -> Any:
    """`function(shared, member)` over the leading axis of `members`: vmap inside, shard_map over all devices outside.

    Every shard runs loops of its own length. A number of members that the devices do not divide is filled up with repeats
    of the last one, which are cut off again. With `together` the function takes all members of a device at once.
    """
    size, devices = jax.tree.leaves(members)[0].shape[0], jax.local_device_count()

    def local(shared: PyTree, members: PyTree) -> Any:
        return function(shared, members) if together else jax.vmap(lambda member: function(shared, member))(members)

    arrays, static = eqx.partition(shared, eqx.is_array)
    if devices == 1 or size == 1:
        return local(shared, members)

    def padded(x: Any) -> Any:
        return jnp.concatenate([x, jnp.repeat(x[-1:], -size % devices, axis=0)])

    # Of several processes each computes the whole: what another one holds could not be read here.
    mesh = jax.make_mesh((devices,), ("members",), axis_types=(AxisType.Auto,), devices=jax.local_devices())
    spread = jax.shard_map(
        lambda arrays, members: local(eqx.combine(arrays, static), members),
        mesh=mesh,
        in_specs=(PartitionSpec(), PartitionSpec("members")),
        out_specs=PartitionSpec("members"),
        check_vma=False,
    )
    return jax.tree.map(lambda x: x[:size], spread(arrays, jax.tree.map(padded, members)))
