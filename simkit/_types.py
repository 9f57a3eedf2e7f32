"""Types that public signatures share."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from jax.typing import ArrayLike
from jaxtyping import Array, Float

if TYPE_CHECKING:

    class Scalar:
        """The annotation of a quantity: its constructor takes a number or an array, and its field is an array."""

        @overload
        def __get__(self, instance: None, owner: type) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: type) -> Array: ...
        def __get__(self, instance: object, owner: type) -> Any: ...
        def __set__(self, instance: object, value: ArrayLike) -> None: ...

    class Vector(Scalar):
        """The annotation of a quantity of several numbers: its constructor takes a sequence, too."""

        def __set__(self, instance: object, value: ArrayLike | Sequence[ArrayLike]) -> None: ...

else:
    Scalar = Float[Array, ""]
    Vector = Float[Array, " n"]

State: TypeAlias = Any
"""A pytree of float arrays: what a system changes, as users see it."""

Inputs: TypeAlias = Any
"""A pytree of signals (callables of time); a system receives their values."""

if TYPE_CHECKING:
    Time: TypeAlias = Any
else:
    Time: TypeAlias = ArrayLike
"""A time or a length of time; a method of a subclass may ask for an array, or for a float."""

Outputs: TypeAlias = Any
"""A pytree of named quantities that can be measured."""
