"""Tests for arrays whose values nobody knows yet, or no process alone."""

import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import PyTree

from .._processes import spread


def traced(*trees: PyTree) -> bool:
    """Tell whether any leaf of the trees is a tracer."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def tracing(*trees: PyTree) -> bool:
    """Tell whether this call is being traced, even where no leaf of the trees is a tracer."""
    return traced(trees, jnp.zeros(()) + 0)


def unknown(*trees: PyTree) -> bool:
    """Tell whether this process cannot look at the values of some array of the trees: a tracer, or one that several hold."""
    return traced(*trees) or spread(*trees)
