"""Reviews of flows in a layer: names, shapes, walls, steps that cannot be stable, and what a layer does not resolve."""

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..._doors import shown
from ..._errors import ArgumentError
from ..._types import Inputs
from ...core import Seen, check_numbers, tracing
from ..grids._boundary import NoSlip
from ..grids._checks import check_value
from ..grids._compiled import compiled
from ..grids._values import check_steady
from ..spectral._review import REACH, SHARE, TAIL

ROUNDING = 1e4
"""Rounding errors of the largest value of a field, below which all of its modes together say nothing."""

_admitted_before = Seen()
"""Admitted parts of starts that were reviewed."""


def check_flow(flow: Any) -> None:
    """Refuse numbers of a flow that do not fit its layer.

    **Raises:** an `ArgumentError`.
    """
    d = flow.layer.dimensions
    if flow.coriolis is not None:
        if d == 2:
            nx, nz = flow.layer.shape
            raise ArgumentError(
                "Argument `coriolis` of PlaneLayerFlow must be None in two dimensions, since rotation turns the flow along y. Take "
                f"`PlaneLayer(({nx}, 1, {nz}), ...)`, in which nothing changes along y."
            )
        check_value("coriolis", flow.coriolis)
    if flow.force is not None and flow.bulk_velocity is not None:
        raise ArgumentError(
            "Arguments `force` and `bulk_velocity` of PlaneLayerFlow must not both be given: a given mean velocity has the force "
            "that it needs. Give one of them."
        )
    for name in ("force", "bulk_velocity"):
        value = getattr(flow, name)
        check_finite(f"Argument `{name}` of PlaneLayerFlow", value)
        if value is not None and value.shape not in ((), (d - 1,)):
            raise ArgumentError(
                f"Argument `{name}` of PlaneLayerFlow must be a number, along x, or have the shape ({d - 1},) of the directions "
                f"along the walls, but has the shape {value.shape}."
            )
    for wall in flow.walls:
        check_steady(wall, "of PlaneLayerFlow")
        velocity = wall.velocity if isinstance(wall, NoSlip) else None
        check_finite("The velocity of a wall of PlaneLayerFlow", velocity)
        if velocity is not None and velocity.shape not in ((), (d,)):
            raise ArgumentError(
                f"The velocity of a wall of PlaneLayerFlow must be one number or have the shape ({d},), the last component 0, but "
                f"has the shape {velocity.shape}."
            )
        if velocity is not None and velocity.ndim and not tracing(velocity) and float(velocity[-1]) != 0:
            raise ArgumentError(
                f"A wall of PlaneLayerFlow moves along itself only, but one has the velocity {float(velocity[-1]):g} across. "
                "Write 0 as the last component."
            )


def check_finite(what: str, value: Any) -> None:
    """Refuse numbers that are not finite, where they are known.

    **Raises:** an `ArgumentError`.
    """
    if value is not None and not tracing(value) and not np.isfinite(np.asarray(value)).all():
        raise ArgumentError(
            f"{what} must be finite, but is {np.asarray(value).tolist()}. Write numbers in consistent units."
        )


def added(system: Any, t: ArrayLike, y: Any, inputs: Inputs) -> Any:
    """Contribution of the source of a system to the slopes of its fields.

    **Raises:** an `ArgumentError` for what is no state of the layer.
    """
    found = system.source(t, y, inputs)
    _check_fields(system, found, "source", "Argument `source` of PlaneLayerFlow must return")
    return found


def _check_fields(system: Any, y: Any, prefix: str, opening: str) -> None:
    """Refuse what is no state of the layer."""
    if not isinstance(y, system.State):
        raise ArgumentError(
            f"{opening} a `LayerState`, but it is {shown(y)}. Write `PlaneLayerFlow.State(velocity, scalars)`."
        )
    if set(y.scalars) != set(system.scalars):
        raise ArgumentError(
            f"{opening} a state with the scalars of the flow, {sorted(system.scalars)}, but it has {sorted(y.scalars)}. "
            "Build it with `flow.start(...)`."
        )
    system.layer.check_field(y.velocity, f"{prefix}.velocity", (system.layer.dimensions,))
    for name, field in y.scalars.items():
        system.layer.check_field(field, f"{prefix}.scalars.{name}")


def review_layer(system: Any, y0: Any, step: float | None, solver: object) -> None:
    """Refuse a start of another layer and a step that cannot be stable; warn of a start that is not admitted as it is.

    **Raises:** an `ArgumentError`.
    """
    _check_fields(system, y0, "y0", "Argument `y0` of PlaneLayerFlow must be")
    check_numbers(system)
    if not all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(y0)):
        return  # the solve says where
    known = (system, *jax.tree.leaves(y0))
    admitted = _admitted_before.get(known)
    if admitted is None:
        admitted = _admitted(system, y0)
        _warn_of_parts(y0, admitted)
        if all(isinstance(x, jax.Array) for x in jax.tree.leaves(known)):
            _admitted_before.put(known, admitted)
    if step is not None:
        _check_step(system, admitted, step, solver)


@compiled
def _admitted(system: Any, y: Any) -> Any:
    """A state without what a flow cannot have."""
    return system.decode(system.encode(y))


@compiled
def _encoded(system: Any, y: Any) -> Any:
    """The modes of a state."""
    return system.encode(y)


def _warn_of_parts(y0: Any, admitted: Any) -> None:
    """Warn of a start of which a part is taken out."""
    for given, kept in zip(jax.tree.leaves(y0), jax.tree.leaves(admitted), strict=True):
        whole = float(max(np.mean(np.asarray(x, float) ** 2) for x in (given, kept)))
        lost = float(np.mean((np.asarray(given, float) - np.asarray(kept, float)) ** 2))
        if lost > 1e-6 * whole:
            warnings.warn(
                f"The start of PlaneLayerFlow has a part that has divergence, does not meet the walls or is too short a wave, "
                f"{lost / whole:.2g} of the whole, which is taken out. Build it with `flow.start(...)`, or take more points.",
                stacklevel=5,
            )
            break


def _check_step(system: Any, y0: Any, step: float, solver: object) -> None:
    """Refuse a step in which the start is carried too far, rotation turns it too far, or buoyancy lifts it too far."""
    layer, name = system.layer, type(solver).__name__
    speeds = np.abs(np.asarray(y0.velocity, float))
    largest = [2 * np.pi * cutoff / length for cutoff, length in zip(layer.cutoffs, layer.lengths, strict=False)]
    heights = layer.heights()
    gaps = np.gradient(heights)
    largest = [*(np.full(1, k) for k in largest), 2 * np.pi / 3 / gaps]
    carried = sum(speed * k for speed, k in zip(speeds, largest, strict=True))
    frequency, turning = float(np.max(carried)), 0.0 if system.coriolis is None else abs(float(system.coriolis))
    turning += _buoyant(system, y0)
    diffusivity = min(float(x) for x in (system.viscosity, *(one.diffusivity for one in system.scalars.values())))
    damping = diffusivity * float(sum(k[0] ** 2 for k in largest[:-1]))
    reach = REACH.get(name, 2.8)
    stable = lambda h: _advanced(h, frequency, damping, turning) <= reach
    if stable(step):
        return
    shorter = next((step * 0.95**k for k in range(1, 1000) if stable(step * 0.95**k)), 0.0)
    raise ArgumentError(
        f"Argument `step` must be at most {shorter:.3g} for `{name}` to be stable with the speeds and the buoyancy of the start of "
        f"PlaneLayerFlow on its points, but it is {step:.3g}. Take shorter steps or, with `step=Adaptive()`, leave them to the "
        "error estimate."
    )


def _buoyant(system: Any, y0: Any) -> float:
    r"""The rate at which buoyancy moves the start, $\sqrt{\sum |B| \Delta s / L}$, with the range $\Delta s$ of each scalar."""
    ranges = {name: float(np.ptp(np.asarray(field, float))) for name, field in y0.scalars.items()}
    lifted = sum(abs(float(system.scalars[name].buoyancy)) * spread for name, spread in ranges.items())
    return math.sqrt(lifted / system.layer.depth)


def _advanced(step: float, frequency: float, damping: float, turning: float) -> float:
    r"""The largest phase by which a step carries a wave, where damping d makes a step h as short as $(1 - e^{-d h})/d$.

    `frequency` and `damping` are those of the shortest waves along the walls; a wave s times as long as they are is carried
    at $1/s$ and damped at $1/s^2$ of their rates.
    """
    share = np.linspace(0.02, 1.0, 50)
    rate = share**2 * damping * step
    slowed = np.where(rate > 0, -np.expm1(-rate) / np.where(rate > 0, rate, 1.0), 1.0)
    return float(np.max((share * frequency + turning) * step * slowed))


def note_layer(system: Any, t: ArrayLike, y: Any) -> str:
    """A sentence where a field has piled up in the shortest waves or the highest modes across of a last state."""
    modes = _encoded(system, y)
    count = system.transforms.stokes.mixing.shape[-1]
    parts = [(modes.velocity[..., :count], y.velocity)]
    parts += [(x, y.scalars[name]) for name, x in modes.scalars.items()]
    parts += [(modes.velocity[..., count:], y.velocity)] if system.layer.dimensions == 3 else []
    shares = [_tail(np.asarray(x), np.asarray(field), system.layer.cutoffs) for x, field in parts]
    if not max(shares) > SHARE:
        return ""
    return (
        f"At the end, time {float(jnp.asarray(t)):.6g}, PlaneLayerFlow is not resolved by its layer: {max(shares):.1%} of a "
        f"field's variance lies beyond {TAIL:.0%} of its waves or modes across. Take more points, or more viscosity or diffusion."
    )


def _tail(modes: np.ndarray, field: np.ndarray, cutoffs: tuple[int, ...]) -> float:
    """The share of the variance in the last quarter of the waves or of the modes across; 0 where all of it is rounding."""
    largest = float(np.abs(field).max())
    if largest == 0:
        return 0.0
    power = np.sum((modes / largest).astype(float) ** 2, axis=2)
    power[0, 0] = 0.0
    total = power.sum()
    if not total > (ROUNDING * np.finfo(modes.dtype).eps) ** 2:
        return 0.0
    x = np.arange(power.shape[0])[:, None, None] > max(TAIL * cutoffs[0], 1)
    size = power.shape[1]
    second = cutoffs[1] if len(cutoffs) == 2 else 0
    y = np.minimum(np.arange(size), size - np.arange(size))[None, :, None] > max(TAIL * second, 1)
    across = np.arange(power.shape[2])[None, None] >= TAIL * power.shape[2]
    return float(power[np.broadcast_to(x | y | across, power.shape)].sum() / total)
