"""The kind of the methods that fit fields: matrix-free, in white coordinates."""

import abc

import equinox as eqx
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..core import traced


class AbstractFieldMethod(eqx.Module):
    """A method for fields, `fit(problem, method=...)` with which gives a `FieldFit`.

    - `tolerance`: of the gradient in white coordinates, relative to that at the first start.
    - `modes`: number of directions for the uncertainty, by Lanczos' method after the fit.
    """

    tolerance: eqx.AbstractVar[Float[Array, ""]]
    modes: eqx.AbstractVar[int]

    def check_tolerance(self) -> None:
        """Refuse a tolerance that no gradient can meet.

        **Raises:** an `ArgumentError`.
        """
        if not traced(self.tolerance) and not float(self.tolerance) >= 0:
            raise ArgumentError(
                f"Argument `tolerance` must be a number of at least 0, such as 1e-6, but it is {float(self.tolerance)}."
            )

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method in results."""
