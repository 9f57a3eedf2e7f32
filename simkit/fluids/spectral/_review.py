"""Reviews of spectral systems: what a grid resolves, before and after a run."""

import warnings
from typing import Any

import jax
import numpy as np
import scipy.fft
from jax.typing import ArrayLike
from jaxtyping import PyTree

from ..._errors import ArgumentError
from ..._processes import gathered, spread
from ..._types import State
from ...core import Seen, check_numbers
from ._waves import Waves

TAIL, SHARE = 0.75, 1e-2
"""Waves above this part of the highest kept are the tail; with more than this share of the variance a field is not resolved."""


REACH = {"ETDRK4": 2.8, "CNRK3": 1.7, "ETDRK2": 1.0}
"""Reach along the imaginary axis within which a method is stable undamped; others have 2.8, a rule of thumb of RK4 and RK3."""

_resolved, _speeds = Seen(), Seen()
"""Systems and starts without a complaint, and their speeds: a run from the same start transforms no field again."""


def review_spectral(system: Any, y0: State, step: float | None, solver: object) -> None:
    """Warn of a start that the grid does not resolve or that is not admitted as it is; refuse a step that cannot be stable.

    **Raises:** an `ArgumentError` that names the longest stable step.
    """
    known = (system, *jax.tree.leaves(y0))
    if _resolved.get(known):
        if step is not None:
            _check_step(system, y0, step, solver)
        return
    check_numbers(system)
    leaves = [np.asarray(x) for x in jax.tree.leaves(y0)]
    if not all(np.isfinite(x).all() for x in leaves):
        return  # the solve says where
    d, name = system.grid.dimensions, type(system).__name__
    for x in leaves:
        if x.shape[x.ndim - d :] != system.grid.shape:
            raise ArgumentError(
                f"Argument `y0` of {name} must hold fields that end in the shape {system.grid.shape} of its grid, but one has the "
                f"shape {x.shape}."
            )
    share = max(_tail(system.waves, x) for x in leaves)
    if share > SHARE:
        warnings.warn(
            f"The start of {name} is not resolved by its grid: {share:.1%} of a field's variance lies in the shortest waves, and "
            f"those beyond index {system.waves.cutoffs} are left out. Take more cells, or a smoother start.",
            stacklevel=4,
        )
    lost = system.unheard(y0)
    silent = lost is None or lost[1] <= 1e-6
    if lost is not None and not silent:
        warnings.warn(
            f"The start of {name} has {lost[0]}, {lost[1]:.2g} of the whole, which is taken out.", stacklevel=4
        )
    if silent and share <= SHARE and _lasting(known):
        _resolved.put(known)
    if step is not None:
        _check_step(system, y0, step, solver)


def _lasting(known: PyTree) -> bool:
    """Tell whether all arrays are immutable JAX arrays."""
    return all(isinstance(x, jax.Array) for x in jax.tree.leaves(known))


def _tail(waves: Waves, field: np.ndarray) -> float:
    """The share of a field's variance in waves near and beyond the cutoffs."""
    d, shape = waves.grid.dimensions, waves.grid.shape
    modes: Any = scipy.fft.rfftn(field, axes=tuple(range(-d, 0)), norm="forward")
    power = modes.real**2 + modes.imag**2
    power[..., 1 : (shape[-1] + 1) // 2] *= 2  # for the half that is not there
    power[(..., *[0] * d)] = 0
    high = np.zeros(power.shape[power.ndim - d :], bool)
    for axis, (n, cutoff) in enumerate(zip(shape, waves.cutoffs, strict=True)):
        index = np.fft.rfftfreq(n, 1 / n) if axis == d - 1 else np.abs(np.fft.fftfreq(n, 1 / n))
        high |= (index > max(TAIL * cutoff, 1)).reshape([-1 if i == axis else 1 for i in range(d)])
    total = power.sum()
    # Where a field is constant but for rounding, its waves say nothing.
    return float(power[..., high].sum() / total) if total > 1e-20 * np.abs(field).max() ** 2 else 0.0


LINES = 8
"""Number of lines along each axis on which the waves of a last state are examined: a whole transform would take as long as a
step."""


def note_spectral(system: Any, t: ArrayLike, y: State) -> str:
    """A sentence where energy has piled up in the shortest waves of a state in which a simulation ended."""
    known = lambda x: x if spread(x) else np.asarray(x)
    share = max(_tail_on_lines(system.waves, known(x)) for x in jax.tree.leaves(y))
    if not share > SHARE:
        return ""
    return (
        f"At the end, time {t:.6g}, {type(system).__name__} is not resolved by its grid: {share:.1%} of a field's variance lies in "
        f"its shortest waves, those beyond {TAIL:.0%} of the highest kept. Take more cells, or more viscosity or damping."
    )


def _tail_on_lines(waves: Waves, field: np.ndarray | jax.Array) -> float:
    """The share of the variance along lines in waves near and beyond the cutoffs, the largest of all axes."""
    d, shares, largest = waves.grid.dimensions, [0.0], float(abs(field).max())
    for axis, cutoff in zip(range(-d, 0), waves.cutoffs, strict=True):
        lines = field
        for other in range(-d, 0):
            if other != axis:
                lines = lines[(..., slice(None, None, -(-lines.shape[other] // LINES)), *[slice(None)] * (-1 - other))]
        lines = gathered(lines)
        power = np.abs(np.fft.fft(lines, axis=axis)) ** 2
        power = np.moveaxis(power, axis, -1).reshape(-1, power.shape[axis]).sum(0)
        index = np.abs(np.fft.fftfreq(power.size, 1 / power.size))
        total, high = power[1:].sum(), index > max(TAIL * cutoff, 1)
        if total > 1e-20 * (1 + largest**2) * field.size:
            shares.append(float(power[high].sum() / total))
    return max(shares)


def _check_step(system: Any, y0: State, step: float, solver: object) -> None:
    known = (system, *jax.tree.leaves(y0))
    if (speeds := _speeds.get(known)) is None:
        speeds = system.speeds(y0)
        speeds = np.zeros(system.grid.dimensions) if speeds is None else np.asarray(speeds)
        if _lasting(known):
            _speeds.put(known, speeds)
    waves, name = system.waves, type(solver).__name__
    frequency = float(np.sum(speeds * np.asarray(waves.largest)))
    reach = REACH.get(name, 2.8)
    if step * frequency <= reach:
        return
    # What is damped as fast as it is carried stays stable.
    rates = np.real(np.asarray(system.linear()))
    damping = float(np.min(-rates[(slice(None), *waves.cutoffs)]))
    if damping >= frequency:
        return
    raise ArgumentError(
        f"Argument `step` must be at most {reach / frequency:.3g} for `{name}` to be stable with the speeds of the start of "
        f"{type(system).__name__} on its grid, but it is {step:.3g}. Take shorter steps or, with `step=Adaptive()`, leave them to "
        "the error estimate."
    )
