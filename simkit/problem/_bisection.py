"""Bisection inside compiled programs, of many numbers at once."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array


def bisected(beyond: Callable[[Array], Array], low: Array, high: Array, count: int) -> tuple[Array, Array]:
    """The ends of intervals halved so often around the places at which `beyond` turns true."""

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        over = beyond(middle)
        return jnp.where(over, ends[0], middle), jnp.where(over, middle, ends[1])

    return jax.lax.fori_loop(0, count, halve, (low, high))
