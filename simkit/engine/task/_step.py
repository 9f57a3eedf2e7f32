"""Step size rules: fixed, a number of substeps, or adaptive."""

import functools
import math
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import as_float_array
from ._flat import ByLeaf


def _optional(value: Any) -> Array | ByLeaf | None:
    if isinstance(value, str | complex):
        raise ArgumentError(
            f"A tolerance of `Adaptive` must be a positive number, but it is {value!r}. Write `Adaptive(1e-6)`."
        )
    return value if value is None or isinstance(value, ByLeaf) else as_float_array(value)


class Adaptive(eqx.Module):
    """Steps as long as the error estimate allows: local error below `atol + rtol |y|`.

    **Arguments:**

    - `rtol`: relative tolerance; by default, and good for fits, 1e-6 where the state is float64, 1e-4 in a shorter float type. 1e-3
        suits a first look. It must be at least 10 machine epsilons.
    - `atol`: absolute tolerance, in the unit of the states: one number for all of them, or an array with one for each number of the
        flat (encoded) state. By default each state has its own, $10^{-3}$ `rtol` times its size ($10^{-2}$ in a shorter float
        type): 1e-9 for a state of size 1. The size is that of the start; of a state that starts at zero, what its rate makes of
        it in the time in which the others change; of an array of more than 32 numbers, and of wave amplitudes, the largest of
        them. A `Problem` also looks at its data.
        A number that is given should lie below the smallest state that matters.
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
            if value is None or isinstance(value, jax.core.Tracer | ByLeaf):
                continue
            known = np.asarray(value)
            if not (np.isfinite(known) & (known > 0)).all() or (name == "rtol" and known.ndim):
                shown = known.item() if known.size == 1 else known.tolist()
                raise ArgumentError(f"Argument `{name}` must be a positive number, but it is {shown!r}.")
            if name == "rtol" and known.dtype.kind == "f" and known >= 1:
                raise ArgumentError(
                    f"Argument `rtol` must lie below 1, but it is {known.item()!r}: errors as large as the state."
                )
        if not isinstance(self.max_steps, int | np.integer) or self.max_steps < 1:
            raise ArgumentError(
                f"Argument `max_steps` must be a whole number of at least 1, but it is {self.max_steps!r}."
            )

    def completed(self, dtype: DTypeLike) -> "Adaptive":
        """The rule with a relative tolerance, if it was left open, as it suits a state of this float type."""
        if self.rtol is not None:
            return self
        return Adaptive(default_tolerance(np.dtype(dtype)), self.atol, self.max_steps, self.budget)

    def scaled(self, sizes: Any) -> "Adaptive":
        """The rule, once completed, with an absolute tolerance for each state of these sizes, an array or `ByLeaf`."""

        def tolerance(sizes: Array) -> Array:
            dtype = sizes.dtype
            share = 1e-3 if float(np.finfo(dtype).eps) < 1e-12 else 1e-2
            # Above the numbers that processors take for zero.
            atol = jnp.maximum(share * jnp.asarray(self.rtol, dtype) * sizes, float(np.finfo(dtype).tiny))
            return jax.lax.stop_gradient(atol)

        return Adaptive(self.rtol, jax.tree.map(tolerance, sizes), self.max_steps, self.budget)

    def numbers(self) -> tuple[Any, Any]:
        """Return the numbers that the loop reads of the completed rule: the tolerances."""
        return self.rtol, self.atol

    def most(self) -> Any:
        """Return the largest number of attempted steps."""
        return self.max_steps if self.budget is None else jnp.minimum(self.budget, self.max_steps)


PLAIN = Adaptive()
"""The rule where none is given; made once, since to make one takes as long as a thousand steps of a small system."""


class Courant(eqx.Module):
    """Steps as long as what is carried on a grid allows: `number` times the system's `longest_step`, and at most that long.

    Derivatives hold the lengths of the steps: they are those of the solution on the steps that were taken, and leave out how these
    lengths follow the parameters. Both are derivatives of the exact solution up to the error of the scheme, and differ from each
    other by as much.

    **Arguments:**

    - `number`: the largest Courant number, at most 1: beyond it something crosses more than a cell in a step, which no explicit
        scheme follows. 0.5 is safe for shocks in two dimensions, 0.9 for smooth flow with three or four stages.
    - `max_steps`: after how many steps, accepted and rejected, to give up.

    Courant, Friedrichs and Lewy (1928), Math. Annalen 100:32.
    """

    number: Any = eqx.field(default=0.5, converter=as_float_array)
    max_steps: int = eqx.field(static=True, default=65536)

    def __check_init__(self):
        known = not isinstance(self.number, jax.core.Tracer)
        if known and not (math.isfinite(float(self.number)) and float(self.number) > 0):
            raise ArgumentError(f"Argument `number` must be a positive number, but it is {float(self.number)!r}.")
        if known and float(self.number) > 1:
            raise ArgumentError(
                f"Argument `number` of `Courant` must be at most 1, the step in which something crosses a cell, but it is "
                f"{float(self.number):g}. Good numbers are 0.5 with shocks and 0.9 for smooth flow."
            )
        if self.max_steps < 1:
            raise ArgumentError(f"Argument `max_steps` must be at least 1, but it is {self.max_steps}.")

    def completed(self, dtype: DTypeLike) -> "Courant":
        """The rule itself: nothing of it depends on a float type."""
        return self

    def numbers(self) -> tuple[Any, Any]:
        """Return the numbers that the loop reads of the rule: the Courant number and a zero."""
        return self.number, 0.0

    def most(self) -> Any:
        """Return the largest number of attempted steps."""
        return self.max_steps


Varying: TypeAlias = Adaptive | Courant
"""Rules by which each step finds the length of the next."""


@functools.cache
def default_tolerance(dtype: np.dtype) -> Array:
    """The relative tolerance that suits a float type, in that type."""
    rtol = 1e-6 if float(np.finfo(dtype).eps) < 1e-12 else 1e-4
    with jax.ensure_compile_time_eval():  # it is remembered, so it must be no part of what is being traced
        return jnp.asarray(rtol, dtype)


@functools.cache
def plain(dtype: np.dtype) -> Adaptive:
    """Return the completed `PLAIN` rule for a state of this float type."""
    return Adaptive(default_tolerance(dtype))


class Fixed(eqx.Module):
    """A number of equal steps between two consecutive times, so that every time is the end of a step."""

    substeps: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        if not isinstance(self.substeps, int) or self.substeps < 1:
            raise ArgumentError(f"Argument `substeps` must be an integer of at least 1, but it is {self.substeps!r}.")


LONGEST_RUN = 3600.0
"""A step length that makes a run longer than these seconds is refused; a number of steps, `Fixed(substeps)`, is not."""

QUICKEST_STEP = 1e-7
"""Seconds: no loop of compiled code takes a step in less. The time of a run is estimated from below."""


def check_count(length: Any, step: Fixed, times: Any) -> None:
    """Refuse a step length that makes more steps than can be meant."""
    windows = max(len(times) - 1, 1)
    count = step.substeps * windows
    seconds = QUICKEST_STEP * count
    if seconds > LONGEST_RUN:
        most = math.floor(LONGEST_RUN / QUICKEST_STEP / windows)
        raise ArgumentError(
            f"Argument `step` is {float(length):g}, which makes {count:.3g} steps from time {float(times[0]):g} to "
            f"{float(times[-1]):g}: at least {seconds / 3600:.3g} hours. Take a longer step or `step=Adaptive()`; if it is meant, "
            f"give the number of steps between two times, such as `step=Fixed({most})`, which is not refused."
        )


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
    fixed = Fixed(max(1, math.ceil(longest / step - 1e-6)))
    check_count(step, fixed, np.asarray(times))
    return fixed
