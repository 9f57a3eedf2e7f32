"""Tables as functions of time: straight lines, splines and monotone curves between given points."""

from typing import Any, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from .._errors import ArgumentError
from .._types import Inputs, Time, Vector
from ._mirrored import MirroredSignal
from ._quantity import quantity
from ._signals import AbstractSignal, check_table, jump_times, repeated
from ._slopes import monotone_slopes, spline_slopes

Kind: TypeAlias = Literal["linear", "cubic", "monotone"]

LEAST = {"linear": 1, "cubic": 4, "monotone": 2}
"""The fewest points of a table."""

MOST_KINKS = 1000
"""Adaptive steps end at the kinks of tables with up to so many points: with more, each step would be as short as an interval."""


class Interpolated(AbstractSignal):
    r"""A curve through the given points, constant before the first and after the last or, `periodic`, repeated.

    - "linear": straight lines. Adaptive steps end at the points, where the slope jumps, if there are at most 1,000 of them.
    - "cubic": the cubic spline with a continuous second derivative, "not a knot" at the ends, as SciPy's `CubicSpline`. It may
        overshoot.
    - "monotone": cubic pieces that rise and fall as the table does and never overshoot, as SciPy's `PchipInterpolator`; the slope
        is continuous, the second derivative is not.

    **Arguments:**

    - `times` (shape `(n,)`, increasing) and `values` (shape `(n,)`); at least 4 points for "cubic", 2 for "monotone".
    - `kind`: "linear", "cubic" or "monotone".
    - `periodic`: whether the curve repeats itself with the period `times[-1] - times[0]`; the last value is then the first. Not for
        "linear", whose kinks in later periods no step would end on.

    **Good values:** "monotone" for measured weather, demand or doses, "cubic" for smooth controls, "linear" where the data mean
    lines.

    **Raises:** an `ArgumentError`. **References:** Fritsch and Carlson (1980), SIAM Journal on Numerical Analysis 17:238,
    doi:10.1137/0717021; de Boor (1978), A Practical Guide to Splines, chapter IV.

    ```python
    import simkit

    light = simkit.Interpolated([0.0, 6.0, 12.0, 18.0, 24.0], [0.0, 0.2, 1.0, 0.2, 0.0], kind="monotone", periodic=True)
    print(light(36.0))  # prints 1.0
    ```
    """

    times: Vector = quantity()
    values: Vector = quantity()
    kind: Kind = eqx.field(static=True, default="linear")
    periodic: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.kind not in LEAST:
            raise ArgumentError(
                f'Argument `kind` must be "linear", "cubic" or "monotone", but it is {self.kind!r}. Numbers that hold until the '
                "next one are a `simkit.PiecewiseConstant(times, values)`."
            )
        check_table(self.times, self.values, "Interpolated")
        if not hasattr(self.times, "shape"):  # a tree of something else than arrays, inside a transformation
            return
        least, count = LEAST[self.kind] + self.periodic, self.times.shape[-1]
        if count < least:
            raise ArgumentError(
                f'A table of the kind "{self.kind}" must have at least {least} points, but it has {count}.'
            )
        if not self.periodic:
            return
        if self.kind == "linear":
            raise ArgumentError(
                'Argument `periodic` must be False for the kind "linear", but it is True. Take `kind="monotone"`, or repeat '
                "the table."
            )
        if not isinstance(self.values, Tracer):
            first, last = (
                float(np.asarray(self.values)[..., 0].ravel()[0]),
                float(np.asarray(self.values)[..., -1].ravel()[0]),
            )
            if abs(last - first) > 1e-12 * max(abs(first), abs(last)):
                raise ArgumentError(
                    f"The last value of a periodic table must be its first, {first:g}, but it is {last:g}."
                )

    def __call__(self, t: Time) -> Array:
        return jnp.interp(t, self.times, self.values) if self.kind == "linear" else curve_of(self)(t)

    def jumps(self) -> Float[Array, " jumps"]:
        return jnp.zeros((0,), self.times.dtype)

    def length(self) -> int:
        return self.times.shape[0]

    def padded(self, length: int) -> "Interpolated":
        return eqx.tree_at(
            lambda s: (s.times, s.values), self, (repeated(self.times, length), repeated(self.values, length))
        )


class Curve(AbstractSignal):
    """Cubic pieces with known slopes at the points: a smooth table while a simulation runs, whose slopes are found once."""

    times: Array
    values: Array
    slopes: Array
    periodic: bool = eqx.field(static=True)

    def __call__(self, t: Time) -> Array:
        first, last = self.times[0], self.times[-1]
        t = jnp.asarray(t, self.times.dtype)
        t = first + jnp.mod(t - first, last - first) if self.periodic else jnp.clip(t, first, last)
        i = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, self.times.shape[0] - 2)
        h = self.times[i + 1] - self.times[i]
        x = (t - self.times[i]) / jnp.where(h > 0, h, 1)
        y, rise = self.values[i], self.values[i + 1] - self.values[i]
        a, b = h * self.slopes[i], h * self.slopes[i + 1]
        return y + x * (a + x * (3 * rise - 2 * a - b + x * (a + b - 2 * rise)))

    def jumps(self) -> Float[Array, " jumps"]:
        return jnp.zeros((0,), self.times.dtype)

    def length(self) -> int:
        return self.times.shape[0]

    def padded(self, length: int) -> "Curve":
        return self


def curve_of(table: Interpolated) -> Curve:
    """The cubic pieces of a smooth table."""
    times, values = table.times, table.values.astype(table.times.dtype)
    if table.periodic:
        values = jnp.where(times >= times[-1], values[0], values)
    slopes = (spline_slopes if table.kind == "cubic" else monotone_slopes)(times, values, table.periodic)
    return Curve(times, values, slopes, table.periodic)


def with_curves(inputs: Inputs) -> Inputs:
    """Signals in which smooth tables have their slopes: what a solve reads at each stage of each step."""
    smooth = lambda signal: isinstance(signal, Interpolated) and signal.kind != "linear"
    return jax.tree.map(lambda signal: curve_of(signal) if smooth(signal) else signal, inputs, is_leaf=callable)


def stop_times(inputs: Inputs) -> Float[Array, " stops"] | None:
    """The times at which adaptive steps end: jumps of signals, and kinks, at which derivatives of the solution jump; or None.

    A kink's time has no effect on the solution but through the values, so that no derivative is taken by it here.
    """
    signals = jax.tree.leaves(inputs, is_leaf=callable)
    kinks = [kinks_of(signal) for signal in signals]
    found = [times for times in (jump_times(inputs), *kinks) if times is not None]
    return jnp.concatenate(found) if found else None


def kinks_of(signal: Any) -> Array | None:
    """Return the times at which a signal has a kink: all points of lines, both ends of a smooth curve, else none."""
    if isinstance(signal, MirroredSignal):
        kinks = kinks_of(signal.inner)
        return None if kinks is None else -kinks
    if not isinstance(signal, Interpolated | Curve) or signal.periodic or signal.times.shape[0] > MOST_KINKS:
        return None
    lines = isinstance(signal, Interpolated) and signal.kind == "linear"
    return jax.lax.stop_gradient(signal.times if lines else signal.times[jnp.array([0, -1])])
