"""Elementary functions that languages of formulas share, by the names that they share."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp

ELEMENTARY: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "exp": jnp.exp,
        "abs": jnp.abs,
        "floor": jnp.floor,
        "sin": jnp.sin,
        "cos": jnp.cos,
        "tan": jnp.tan,
        "sec": lambda x: 1 / jnp.cos(x),
        "csc": lambda x: 1 / jnp.sin(x),
        "cot": lambda x: 1 / jnp.tan(x),
        "sinh": jnp.sinh,
        "cosh": jnp.cosh,
        "tanh": jnp.tanh,
    }
)
"""Functions that mean the same in MathML, PEtab and the formulas of force fields."""
