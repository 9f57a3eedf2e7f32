"""How long the steps are: fixed, a number of substeps, or adaptive."""

import functools
import math
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError
from ..core import as_float_array


def _optional(value: Any) -> Array | None:
    return None if value is None else as_float_array(value)


class Adaptive(eqx.Module):
    """Steps as long as the error estimate allows: local error below `atol + rtol |y|`.

    **Arguments:**

    - `rtol`, `atol`: relative and absolute tolerance; by default, and good for fits, 1e-6 and 1e-9 where the state is float64,
        1e-4 and 1e-6 in a shorter float type. 1e-3 and 1e-6 suit a first look. `rtol` must be at least 10 machine epsilons;
        `atol` should lie below the smallest state that matters.
    - `max_steps`: after how many steps, accepted and rejected, to give up.
    - `budget`: the same as a number that programs read while they run, so that another one compiles nothing; no more than
        `max_steps`, which is taken where there is none.
    """

    rtol: Any = eqx.field(default=None, converter=_optional)  # a number on its way in, an array or None ever after
    atol: Any = eqx.field(default=None, converter=_optional)
    max_steps: int = eqx.field(static=True, default=16384)
    budget: Any = eqx.field(default=None, converter=_optional)

    def __check_init__(self):
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if value is None or isinstance(value, jax.core.Tracer):
                continue
            if not (math.isfinite(float(value)) and float(value) > 0):
                raise ArgumentError(f"Argument `{name}` must be a positive number, but it is {float(value)!r}.")
        if self.max_steps < 1:
            raise ArgumentError(f"Argument `max_steps` must be at least 1, but it is {self.max_steps}.")

    def completed(self, dtype: Any) -> "Adaptive":
        """The rule with the tolerances that were left open, as they suit a state of this float type."""
        if self.rtol is not None and self.atol is not None:
            return self
        default = default_tolerances(np.dtype(dtype))
        rtol, atol = (d if given is None else given for given, d in zip((self.rtol, self.atol), default, strict=True))
        return Adaptive(rtol, atol, self.max_steps, self.budget)

    def numbers(self) -> tuple[Any, Any]:
        """What the loop reads of the rule, once completed: the tolerances."""
        return self.rtol, self.atol

    def most(self) -> Any:
        """How many steps may be tried."""
        return self.max_steps if self.budget is None else jnp.minimum(self.budget, self.max_steps)


class Courant(eqx.Module):
    """Steps as long as what is carried on a grid allows: `number` times the system's `longest_step`, and at most that long.

    Derivatives hold the lengths of the steps.

    **Arguments:**

    - `number`: the largest Courant number. 0.5 is safe for shocks in two dimensions, 0.9 for smooth flow with three or four
        stages; at most 1 where a scheme keeps its bounds only up to there.
    - `max_steps`: after how many steps, accepted and rejected, to give up.

    Courant, Friedrichs and Lewy (1928), Math. Annalen 100:32.
    """

    number: Any = eqx.field(default=0.5, converter=as_float_array)
    max_steps: int = eqx.field(static=True, default=65536)

    def __check_init__(self):
        known = not isinstance(self.number, jax.core.Tracer)
        if known and not (math.isfinite(float(self.number)) and float(self.number) > 0):
            raise ArgumentError(f"Argument `number` must be a positive number, but it is {float(self.number)!r}.")
        if self.max_steps < 1:
            raise ArgumentError(f"Argument `max_steps` must be at least 1, but it is {self.max_steps}.")

    def completed(self, dtype: Any) -> "Courant":
        """The rule itself: nothing of it depends on a float type."""
        return self

    def numbers(self) -> tuple[Any, Any]:
        """What the loop reads of the rule: the number, and nothing."""
        return self.number, 0.0

    def most(self) -> Any:
        """How many steps may be tried."""
        return self.max_steps


Varying: TypeAlias = Adaptive | Courant
"""Rules by which each step finds the length of the next."""


@functools.cache
def default_tolerances(dtype: np.dtype) -> tuple[Array, Array]:
    """Relative and absolute tolerance that suit a float type, in that type."""
    rtol, atol = (1e-6, 1e-9) if float(np.finfo(dtype).eps) < 1e-12 else (1e-4, 1e-6)
    with jax.ensure_compile_time_eval():  # they are remembered, so they must be no part of what is being traced
        return jnp.asarray(rtol, dtype), jnp.asarray(atol, dtype)


class Fixed(eqx.Module):
    """A number of equal steps between two consecutive times, so that every time is the end of a step."""

    substeps: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if not isinstance(self.substeps, int) or self.substeps < 1:
            raise ArgumentError(f"Argument `substeps` must be an integer of at least 1, but it is {self.substeps!r}.")


def as_step(step: Any, times: Any) -> Varying | Fixed:
    """A step rule from what a user wrote: a float is a fixed step, at most this long."""
    if isinstance(step, Adaptive | Courant | Fixed):
        return step
    if isinstance(step, bool) or not isinstance(step, int | float | np.number):
        raise ArgumentError(
            f"Argument `step` must be a number (a fixed step, at most this long), `Fixed(substeps)`, `Adaptive(rtol, atol)` "
            f"or `Courant(number)`, but it is {step!r}."
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
