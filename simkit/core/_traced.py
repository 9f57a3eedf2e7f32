"""Whether numbers are known or stand for something that is being traced."""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp


def traced(*trees: Any) -> bool:
    """Whether any leaf of the trees is traced."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def tracing(*trees: Any) -> bool:
    """Whether someone traces this call, be it that no leaf of the trees is traced."""
    return traced(trees, jnp.zeros(()) + 0)
