"""The kind of the methods that fit fields: matrix-free, in white coordinates."""

import abc

import equinox as eqx
from jaxtyping import Array, Float


class AbstractFieldMethod(eqx.Module):
    """A method for fields, `fit(problem, method=...)` with which gives a `FieldFit`.

    - `tolerance`: of the gradient in white coordinates, relative to that at the first start.
    - `modes`: number of directions for the uncertainty, by Lanczos' method after the fit.
    """

    tolerance: eqx.AbstractVar[Float[Array, ""]]
    modes: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method in results."""
