"""Types that public signatures share."""

from typing import TYPE_CHECKING, Any, TypeAlias

from jaxtyping import Array, Float

if TYPE_CHECKING:
    # A quantity's constructor takes any number and its field is an array; no annotation says both.
    Scalar: TypeAlias = Any
    Vector: TypeAlias = Any
else:
    Scalar = Float[Array, ""]
    Vector = Float[Array, " n"]

State: TypeAlias = Any
"""A pytree of float arrays: what a system changes, as users see it."""

Inputs: TypeAlias = Any
"""A pytree of signals (callables of time); a system receives their values."""

Outputs: TypeAlias = Any
"""A pytree of named quantities that can be measured."""
