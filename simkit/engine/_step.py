"""How long the steps are: fixed, a number of substeps, or adaptive."""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..core import as_float_array


class Adaptive(eqx.Module):
    """Steps as long as the error estimate allows: local error below `atol + rtol |y|`.

    **Arguments:**

    - `rtol`, `atol`: relative and absolute tolerance, at least 10 machine epsilons relative. Good values: 1e-6 and 1e-9 for
        fits, 1e-3 and 1e-6 for a first look. `atol` should lie below the smallest state that matters.
    - `max_steps`: after how many steps, accepted and rejected, to give up.
    """

    rtol: Float[Array, ""] = eqx.field(default=1e-6, converter=as_float_array)  # pyright: ignore
    atol: Float[Array, ""] = eqx.field(default=1e-9, converter=as_float_array)  # pyright: ignore
    max_steps: int = eqx.field(static=True, default=16384)

    def __check_init__(self):
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not isinstance(value, jax.core.Tracer) and not (math.isfinite(float(value)) and float(value) > 0):
                raise ArgumentError(f"Argument `{name}` must be a positive number, but it is {float(value)!r}.")
        if self.max_steps < 1:
            raise ArgumentError(f"Argument `max_steps` must be at least 1, but it is {self.max_steps}.")


class Fixed(eqx.Module):
    """A number of equal steps between two consecutive times, so that every time is the end of a step."""

    substeps: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if not isinstance(self.substeps, int) or self.substeps < 1:
            raise ArgumentError(f"Argument `substeps` must be an integer of at least 1, but it is {self.substeps!r}.")


def as_step(step: Any, times: Any) -> Adaptive | Fixed:
    """A step rule from what a user wrote: a float is a fixed step, at most this long."""
    if isinstance(step, Adaptive | Fixed):
        return step
    if isinstance(step, bool) or not isinstance(step, int | float | np.number):
        raise ArgumentError(
            f"Argument `step` must be a number (a fixed step, at most this long), `Fixed(substeps)` or `Adaptive(rtol, atol)`, "
            f"but it is {step!r}."
        )
    if not (math.isfinite(step) and step > 0):
        raise ArgumentError(f"Argument `step` must be positive, but it is {step!r}.")
    if isinstance(times, jax.core.Tracer):
        raise ArgumentError(
            "A step length needs times that are known while tracing, but here they are traced. Give `step=Fixed(substeps)`, "
            "the number of steps between two consecutive times."
        )
    longest = float(np.max(np.diff(np.asarray(times, float)), initial=0.0))
    return Fixed(max(1, math.ceil(longest / step - 1e-6)))
