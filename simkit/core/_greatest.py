"""One branch for all members of a batch."""

import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Shaped


@custom_vmap
def greatest(value: Shaped[Array, ""]) -> Shaped[Array, ""]:
    """The greatest value of a batch, of truths whether it is so for any member.

    All do together what one of them needs: a branch remains a branch, and a loop ends for all at once.
    """
    return value


@greatest.def_vmap
def _(size: int, batched: list[bool], value: Array) -> tuple[Array, bool]:
    return greatest(jnp.max(value, axis=0) if batched[0] else value), False
