"""Signals: inputs to a system as functions of time, whose numbers are quantities with names."""

import abc
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from .._doors import shown
from .._errors import ArgumentError
from .._types import Inputs, Scalar, Time, Vector
from ._quantity import POSITIVE, as_float_array, quantity


class AbstractSignal(eqx.Module):
    """An input as a function of time. Where it jumps it says so, so that no step straddles a jump."""

    @abc.abstractmethod
    def __call__(self, t: Time) -> Array:
        """The value at time t."""

    @abc.abstractmethod
    def jumps(self) -> Float[Array, " jumps"]:
        """The times of the discontinuities; an empty array for a continuous signal."""

    @abc.abstractmethod
    def length(self) -> int:
        """The number of rows of the signal's table; 0 where it has none."""

    @abc.abstractmethod
    def padded(self, length: int) -> "AbstractSignal":
        """The same function of time with a table of `length` rows, so that signals of different length can be stacked."""


class Constant(AbstractSignal):
    """The same value at all times."""

    value: Scalar = quantity()

    def __call__(self, t: Time) -> Array:
        return self.value

    def jumps(self) -> Float[Array, " jumps"]:
        return jnp.zeros((0,), self.value.dtype)

    def length(self) -> int:
        return 0

    def padded(self, length: int) -> "Constant":
        return self


class PiecewiseConstant(AbstractSignal):
    """Piecewise constant: `values[i]` from `times[i]` on, `values[0]` before.

    **Arguments:** `times` (shape `(n,)`, increasing) and `values` (shape `(n,)`).
    """

    times: Vector = quantity()
    values: Vector = quantity()

    def __check_init__(self):
        check_table(self.times, self.values, "PiecewiseConstant")

    def __call__(self, t: Time) -> Array:
        index = jnp.searchsorted(self.times, t, side="right") - 1
        return self.values[jnp.maximum(index, 0)]

    def jumps(self) -> Float[Array, " jumps"]:
        return self.times

    def length(self) -> int:
        return self.times.shape[0]

    def padded(self, length: int) -> "PiecewiseConstant":
        return eqx.tree_at(
            lambda s: (s.times, s.values), self, (repeated(self.times, length), repeated(self.values, length))
        )


class Pulses(AbstractSignal):
    """Rectangular pulses: amount `amounts[i]` delivered at a constant rate during `duration` from `times[i]` on.

    The value is a rate, amount per time, so that the integral over a pulse is its amount; pulses that overlap add up.
    A dose into a compartment is a short pulse.

    **Arguments:** `times` (shape `(n,)`), `amounts` (shape `(n,)`) and `duration` (positive, one for all pulses).
    """

    times: Vector = quantity()
    amounts: Vector = quantity()
    duration: Scalar = quantity(support=POSITIVE)

    def __check_init__(self):
        check_table(self.times, self.amounts, "Pulses", increasing=False)
        if not isinstance(self.duration, jax.Array) or isinstance(self.duration, Tracer):
            return
        if not np.all(np.asarray(self.duration) > 0):
            shortest = float(np.min(np.asarray(self.duration)))
            raise ArgumentError(f"The `duration` of `Pulses` must be positive, but it is {shortest:g}.")

    def __call__(self, t: Time) -> Array:
        on = (t >= self.times) & (t < self.times + self.duration)
        return jnp.sum(jnp.where(on, self.amounts, 0)) / self.duration

    def jumps(self) -> Float[Array, " jumps"]:
        return jnp.concatenate([self.times, self.times + self.duration])

    def length(self) -> int:
        return self.times.shape[0]

    def padded(self, length: int) -> "Pulses":
        amounts = _pad(self.amounts, (0, length - self.amounts.shape[0]), mode="constant")
        return eqx.tree_at(lambda s: (s.times, s.amounts), self, (repeated(self.times, length), amounts))


class Function(AbstractSignal):
    """A plain function of time, taken to be continuous. Its numbers are not quantities: they have no path."""

    function: Callable[[Any], Any] = eqx.field(static=True)

    def __call__(self, t: Time) -> Array:
        value = self.function(t)
        # A Python number stays weakly typed, so that a float32 simulation stays one.
        return value if hasattr(value, "dtype") else jnp.asarray(float(value))

    def jumps(self) -> Float[Array, " jumps"]:
        return jnp.zeros((0,))

    def length(self) -> int:
        return 0

    def padded(self, length: int) -> "Function":
        return self


def at_time(inputs: Inputs, t: Time) -> Any:
    """The values of a pytree of signals at time t, which is what a system receives; numbers pass as they are."""
    return jax.tree.map(lambda signal: signal(t) if callable(signal) else signal, inputs, is_leaf=callable)


def jump_times(inputs: Inputs) -> Float[Array, " jumps"] | None:
    """The times at which any signal of a pytree jumps, unsorted; None where no signal can."""
    signals = jax.tree.leaves(inputs, is_leaf=callable)
    jumps = [signal.jumps() for signal in signals if isinstance(signal, AbstractSignal)]
    jumps = [times for times in jumps if times.size]
    return jnp.concatenate(jumps) if jumps else None


def as_signals(inputs: Inputs, dtype: Any = None) -> Inputs:
    """A pytree of signals in which plain numbers have become constants; those of Python in this float type.

    **Raises:** an `ArgumentError` where one is neither a signal nor a number.
    """
    if inputs is None:
        return None
    return jax.tree.map(
        lambda signal: _as_signal(signal, dtype), inputs, is_leaf=lambda part: part is None or callable(part)
    )


def _as_signal(signal: Any, dtype: Any) -> Any:
    if callable(signal) and not isinstance(signal, type):
        # Modules and partial applications are trees with numbers of their own.
        return signal if isinstance(signal, eqx.Module | jax.tree_util.Partial) else Function(signal)
    try:
        if signal is None or isinstance(signal, str):
            raise TypeError("neither a signal nor a number")
        python = isinstance(signal, int | float) and not isinstance(signal, bool)
        return Constant(jnp.asarray(signal, dtype) if python and dtype is not None else as_float_array(signal))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"Argument `inputs` must hold signals or numbers, but one is {shown(signal)}. "
            "`simkit.Interpolated(times, values)` makes a signal of a table."
        ) from error


def repeated(values: Array | np.ndarray, length: int) -> Array:
    """A row whose last entry is repeated up to a length."""
    return _pad(values, (0, length - values.shape[0]), mode="edge")


def _pad(values: Array | np.ndarray, width: tuple[int, int], mode: Literal["edge", "constant"]) -> Array:
    if isinstance(values, Tracer):
        return jnp.pad(values, width, mode=mode)
    # In NumPy: JAX would compile a program of its own for every length.
    return jnp.asarray(np.pad(np.asarray(values), width, mode=mode), values.dtype)


def check_table(times: Any, values: PyTree, name: str, increasing: bool = True) -> None:
    """Refuse a table whose times do not increase, or that are not as many as its values.

    **Raises:** an `ArgumentError`.
    """
    if not hasattr(times, "shape"):  # a tree of something else than arrays, inside a transformation
        return
    if times.ndim == 0 or times.shape[-1] == 0 or times.shape != values.shape:
        raise ArgumentError(
            f"The times and values of `{name}` must be one-dimensional and equally long, but their shapes are "
            f"{times.shape} and {values.shape}."
        )
    if increasing and not isinstance(times, Tracer) and not np.all(np.diff(np.asarray(times, float)) > 0):
        raise ArgumentError(f"The times of `{name}` must increase, but they are {np.asarray(times)}.")
