"""Trees whose numbers have no derivatives."""

from typing import Any

import jax
from jaxtyping import PyTree


def held(tree: PyTree) -> Any:
    """A tree whose arrays have no derivatives; what is no array stays."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.Array) else x, tree)
