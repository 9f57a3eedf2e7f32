"""Values that are computed once, whatever reads them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import PyTree


def apart(function: Callable[..., Any], *arguments: PyTree) -> Any:
    """`function(*arguments)`, whose arrays are made once and stored.

    XLA on CPU would compute them again for each of their readers, every shifted read counted; versions of it drop an optimization
    barrier before they decide that. A branch on what is known only while running they all respect. The other one is taken where the
    first number is not a number, and gives no numbers. Derivatives make again what they need, from the arguments.
    """
    if jax.default_backend() != "cpu":
        return lax.optimization_barrier(function(*lax.optimization_barrier(arguments)))
    first = jax.tree.leaves(arguments)[0].reshape(-1)[0]
    found = jax.eval_shape(function, *arguments)
    missing = lambda *_: jax.tree.map(lambda x: _nothing(x.shape, x.dtype), found)
    return lax.cond(first == first, jax.checkpoint(function), missing, *arguments)


def _nothing(shape: tuple[int, ...], dtype: DTypeLike) -> Any:
    return jnp.full(shape, jnp.nan if jnp.issubdtype(dtype, jnp.inexact) else 0, dtype)
