"""Tests for tracers."""

import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import PyTree


def traced(*trees: PyTree) -> bool:
    """Tell whether any leaf of the trees is a tracer."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def tracing(*trees: PyTree) -> bool:
    """Tell whether this call is being traced, even where no leaf of the trees is a tracer."""
    return traced(trees, jnp.zeros(()) + 0)
