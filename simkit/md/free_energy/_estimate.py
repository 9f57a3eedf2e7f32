"""A number with its standard error."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import traced


class Estimate(eqx.Module):
    """A value and its standard error, of the same shape. Derivatives are those of the value; the error has none."""

    value: Float[Array, "*shape"]
    error: Float[Array, "*shape"]

    def __repr__(self) -> str:
        if traced(self):
            return "Estimate(traced)"
        value, error = np.asarray(self.value), np.asarray(self.error)
        if value.ndim == 0:
            return f"{float(value):.6g} +- {float(error):.2g}"
        rows = np.ravel(value), np.ravel(error)
        return "[" + ", ".join(f"{a:.6g} +- {b:.2g}" for a, b in zip(*rows, strict=True)) + "]"


def errors_of(covariance: Float[Array, "n n"]) -> Float[Array, " n"]:
    """Standard errors of numbers with this covariance."""
    return jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), 0))


def difference_of(values: Float[Array, " n"], covariance: Float[Array, "n n"], first: int, second: int) -> Estimate:
    """The second of correlated numbers less the first."""
    variance = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    return Estimate(values[second] - values[first], jnp.sqrt(jnp.maximum(variance, 0)))


def as_floats(name: str, values: Any) -> Array:
    """An array of floats of what an argument gives, in its own float type."""
    try:
        found = jnp.asarray(values)
    except (TypeError, ValueError):
        raise ArgumentError(f"Argument `{name}` must be numbers, but it is {shown(values)}. Give an array.") from None
    return found if jnp.issubdtype(found.dtype, jnp.floating) else found.astype(jnp.result_type(float))
