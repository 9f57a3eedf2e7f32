"""A body that moves freely in a flow on a staggered grid: its numbers, its state, and Newton's law without the fluid."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import as_float_array, quantity, traced, tracing
from ..grids._checks import check_value
from ..grids._images import nearest_image
from ._moving import Kinematics
from ._obstacle import Box, Disk, Obstacle
from ._staggered import Components, Staggered


class BodyState(eqx.Module):
    """The state of a free body: centre and velocity, shape (dimensions,), and in two dimensions its angle and angular velocity."""

    centre: Array = quantity(doc="centre of the body")
    velocity: Array = quantity(doc="velocity of the body")
    angle: Any = quantity(None, doc="angle by which the body has turned", optional=True)
    spin: Any = quantity(None, doc="angular velocity of the body", optional=True)


class FreeMotion(eqx.Module):
    r"""Motion of an `Obstacle` by what fluid, weight, springs and dampers do to it: `Obstacle(shape, motion=FreeMotion(...))`.

    $$m \ddot x = F + (m - m_f)\,g - k\,(x - x_0) - c\,\dot x, \qquad I \ddot\varphi = T$$

    with the mass $m = \sigma V$ for each unit of the fluid's density (in two dimensions of its depth as well), the displaced
    $m_f = V$, the volume V, and the force F and torque T of the fluid. Both are solved together with the pressure, added mass
    included, so that light bodies and those without mass are as stable as heavy ones. The origin of the shape's coordinates is
    its centre of mass. `IncompressibleFlow.start(body=[1.0, 2.0])` puts it in its place, `start(bodies={"left": [1.0, 2.0]})`
    those of `obstacles`.

    - `density`: $\sigma$, of the body over that of the fluid, 0 or more.
    - `gravity`: g, shape (dimensions,). The pressure of a fluid at rest is not part of the state, so that a `force` on the fluid
        must not hold it again.
    - `stiffness`, `damping`: k and c of a spring and a damper, for each unit of the fluid's density (and of depth); a number, or
        one for each axis.
    - `anchor`: $x_0$, where the spring is at rest, shape (dimensions,).
    - `axes`: along which it moves; by default, None, all of them.
    - `turns`: whether it turns, in two dimensions; in three no body does.

    Volume and moment of inertia of a `Disk` or `Box` are exact; those of other shapes are sums over the cells. Bodies of any
    number cost one solution of the pressure. A `Contact` holds them off each other and off walls; a body whose centre leaves the
    box by an end makes the run fail.

    **Good values:** twelve or more cells across; steps by `Courant(0.5)`, which know the body's speed, its fall and its spring.

    **Raises:** an `ArgumentError` for a negative density, stiffness or damping, numbers of another shape, a spring without an
    anchor, axes that are none, or a `turns` that is no truth value.
    """

    density: Any = quantity(doc="density of the body over that of the fluid")
    gravity: Any = quantity(None, doc="acceleration by gravity", optional=True)
    stiffness: Any = quantity(None, doc="stiffness of a spring by the density of the fluid", optional=True)
    damping: Any = quantity(None, doc="damping by the density of the fluid", optional=True)
    anchor: Any = quantity(None, doc="where the spring is at rest", optional=True)
    axes: tuple[int, ...] | None = eqx.field(static=True, default=None)
    turns: bool = eqx.field(static=True, default=True)

    def __init__(
        self,
        density: ArrayLike = 1.0,
        *,
        gravity: ArrayLike | Sequence[Any] | None = None,
        stiffness: ArrayLike | Sequence[Any] | None = None,
        damping: ArrayLike | Sequence[Any] | None = None,
        anchor: ArrayLike | Sequence[Any] | None = None,
        axes: Sequence[int] | None = None,
        turns: bool = True,
    ):
        check_value("density", density)
        if not traced(density) and float(np.asarray(density)) < 0:
            raise ArgumentError(
                f"Argument `density` must not be negative, but it is {float(np.asarray(density)):g}. Write that of the body over "
                "that of the fluid, such as `density=2.0`."
            )
        if stiffness is not None and anchor is None:
            raise ArgumentError("Argument `anchor` must be given with `stiffness`: it is where the spring is at rest.")
        if not isinstance(turns, bool | np.bool_):
            raise ArgumentError(f"Argument `turns` of FreeMotion must be True or False, but it is {shown(turns)}.")
        if axes is not None and not (
            isinstance(axes, list | tuple)
            and axes
            and all(isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < 3 for axis in axes)
        ):
            raise ArgumentError(
                f"Argument `axes` of FreeMotion must hold axes of the grid, but it is {shown(axes)}. Write `(1,)`."
            )
        self.density = density
        given = {"gravity": gravity, "stiffness": stiffness, "damping": damping, "anchor": anchor}
        for name, value in given.items():
            setattr(self, name, None if value is None else _numbers(name, value, name in ("stiffness", "damping")))
        self.axes, self.turns = None if axes is None else tuple(axes), bool(turns)

    def kept(self, dimensions: int) -> np.ndarray:
        """The places of the ways to move that it has, among one an axis and, in two dimensions, the turn."""
        axes = range(dimensions) if self.axes is None else self.axes
        return np.array([*sorted(set(axes)), *([2] if dimensions == 2 and self.turns else [])])


def _numbers(name: str, value: Any, positive: bool = False) -> Array:
    try:
        found = as_float_array(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold numbers, but it is {shown(value)}.") from error
    if traced(found):
        return found
    if not np.isfinite(np.asarray(found)).all():
        raise ArgumentError(f"Argument `{name}` must be finite, but it is {np.asarray(found).tolist()}.")
    if positive and np.any(np.asarray(found) < 0):
        raise ArgumentError(
            f"Argument `{name}` of FreeMotion must not be negative, but it is {np.asarray(found).tolist()}: it would drive the "
            "body away. Write 0 or more, or a force by the `motion` of a body that is moved."
        )
    return found


class Inertia(NamedTuple):
    """Mass along each axis and, in two dimensions, moment of inertia; volume of the body, both by the density of the fluid."""

    mass: Array
    volume: Array


def check_free(obstacle: Obstacle, dimensions: int, devices: Any) -> None:
    """Refuse numbers of a free body that do not suit the grid.

    **Raises:** an `ArgumentError`.
    """
    motion, body = obstacle.motion, obstacle.distance
    for name, shapes in (("gravity", 1), ("anchor", 1), ("stiffness", 0), ("damping", 0)):
        value = getattr(motion, name)
        if value is not None and jnp.shape(value) not in (((dimensions,),) if shapes else ((), (dimensions,))):
            raise ArgumentError(
                f"Argument `{name}` of FreeMotion must have {'' if shapes else 'one number or '}the shape ({dimensions},), but it "
                f"has {jnp.shape(value)}."
            )
    if any(axis >= dimensions for axis in motion.axes or ()):
        raise ArgumentError(
            f"Argument `axes` of FreeMotion must hold axes of the grid, which has {dimensions}, but it is {motion.axes}."
        )
    if isinstance(body, Disk | Box) and not traced(body.centre) and np.any(np.asarray(body.centre) != 0):
        raise ArgumentError(
            "The `centre` of the shape of a free body must be the origin of its own coordinates, but it is "
            f"{np.asarray(body.centre).tolist()}. Write zeros, and give the place by `start(body=...)`."
        )
    if devices:
        raise ArgumentError("A free body needs a grid on one device. Leave `devices` of the Grid out.")


def as_state_of_body(motion: FreeMotion, dimensions: int, body: Any, name: str, dtype: DTypeLike) -> BodyState:
    """The state of a free body that a user gave by its centre or as a whole.

    **Raises:** an `ArgumentError` for another shape.
    """
    if not isinstance(body, BodyState):
        body = BodyState(_numbers(name, body), jnp.zeros(dimensions, dtype))
    check_state_of_body(body, dimensions, name)
    turns = dimensions == 2 and motion.turns
    number = lambda x: jnp.asarray(0.0 if x is None else x, dtype) if turns else None
    return BodyState(
        jnp.asarray(body.centre, dtype), jnp.asarray(body.velocity, dtype), number(body.angle), number(body.spin)
    )


def check_state_of_body(body: Any, dimensions: int, name: str) -> None:
    """Refuse what is no state of a body, or one of another dimension.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(body, BodyState) or any(x.shape != (dimensions,) for x in (body.centre, body.velocity)):
        shapes = f"of the shapes {body.centre.shape} and {body.velocity.shape}" if isinstance(body, BodyState) else ""
        found = shapes or shown(body)
        raise ArgumentError(
            f"Argument `{name}` must hold the centre and the velocity of the free body, each of the shape ({dimensions},), but it "
            f"is {found}. `start` makes it of a place."
        )
    for told, value in (("angle", body.angle), ("spin", body.spin)):
        if value is not None and np.shape(value) != ():
            raise ArgumentError(f"The `{told}` in argument `{name}` must be one number, but it is {shown(value)}.")
    parts = {"centre": body.centre, "velocity": body.velocity, "angle": body.angle, "spin": body.spin}
    for told, value in parts.items():
        if value is not None and not tracing(value) and not np.all(np.isfinite(np.asarray(value))):
            raise ArgumentError(f"The `{told}` in argument `{name}` must be finite, but it is {shown(value)}.")


def told_of_body(body: BodyState, alone: bool) -> dict[str, Array]:
    """Outputs of a free body; `alone` is one beside whose velocity that of the fluid is."""
    found = {"centre": body.centre, "velocity_of_body" if alone else "velocity": body.velocity}
    return found if body.angle is None else found | {"angle": body.angle, "spin": body.spin}


def inertia_of(motion: FreeMotion, shape: Any, at: Staggered, distance: Any, centre: Array) -> Inertia:
    """The mass and the moment of inertia about its centre of a free body, of which `distance` is that from where it stands."""
    d, dtype = at.dimensions, centre.dtype
    if isinstance(shape, Disk):
        r = jnp.asarray(shape.radius, dtype)
        ball = len(shape.centre) == 3
        volume = 4 / 3 * jnp.pi * r**3 if ball else jnp.pi * r**2
        if d == 3 and not ball:
            volume = volume * at.grid.lengths[2]
        square = 0.5 * r**2
    elif isinstance(shape, Box):
        volume, square = jnp.prod(shape.lengths), jnp.sum(shape.lengths[:2] ** 2) / 12
    else:
        x = at.mesh(None, dtype)
        width = at.finest
        share = jnp.clip(0.5 - distance(x) * (1 / width), 0, 1)
        weight = share * jnp.asarray(at.grid.volumes(), dtype)
        volume = jnp.sum(weight)
        arms = [nearest_image(a - c, 0.0, period) for a, c, period in zip(x, centre, at.periods, strict=True)]
        square = jnp.sum(weight * (arms[0] ** 2 + arms[1] ** 2)) / volume
    mass = jnp.asarray(motion.density, dtype) * volume
    return Inertia(jnp.stack([*[mass] * d, *([mass * square] if d == 2 else [])]), volume)


def pushes_on(motion: FreeMotion, inertia: Inertia, body: BodyState) -> Array:
    """Forces on a free body but those of the fluid, along each axis and, in two dimensions, its turn."""
    found = jnp.zeros_like(body.centre)
    if motion.gravity is not None:
        found = found + (inertia.mass[0] - inertia.volume) * motion.gravity.astype(found.dtype)
    if motion.stiffness is not None:
        found = found - motion.stiffness.astype(found.dtype) * (body.centre - motion.anchor.astype(found.dtype))
    if motion.damping is not None:
        found = found - motion.damping.astype(found.dtype) * body.velocity
    return jnp.concatenate([found, jnp.zeros(1, found.dtype)]) if len(found) == 2 else found


def modes_of(motion: FreeMotion, at: Staggered, place: Kinematics) -> Components:
    """The velocities at the faces of each component in a unit of each way to move, stacked."""
    dtype, found = place.centre.dtype, []
    for i in range(at.dimensions):
        x = at.mesh(i, dtype)
        parts = []
        for way in motion.kept(at.dimensions):
            turn = int(way) == at.dimensions
            parts.append(place.across(at, x, i) if turn else jnp.full(x[0].shape, float(int(way) == i), dtype))
        found.append(jnp.stack(parts))
    return tuple(found)


def accelerated(motion: FreeMotion, at: Staggered, body: BodyState, place: Kinematics, found: Array) -> BodyState:
    """The slope of the state of a free body; not a number where its centre is outside of the box."""
    d = at.dimensions
    whole = jnp.zeros(3 if d == 2 else d, found.dtype).at[motion.kept(d)].set(found)
    inside = jnp.asarray(True)
    for axis, (low, length) in enumerate(zip(at.grid.origin, at.grid.lengths, strict=True)):
        if at.walls[axis]:
            inside = inside & (body.centre[axis] > low) & (body.centre[axis] < low + length)
    push = jnp.where(inside, whole[:d], jnp.nan)
    spin = None if body.spin is None else place.spin
    return BodyState(place.speed, push, spin, None if body.spin is None else whole[2])


def rate_of_body(motion: FreeMotion, found: Inertia, stiffness: Any, width: float) -> Array:
    """The rate at which a free body swings on its spring or contacts of a stiffness, or begins to fall, for the length of steps.

    The fluid around adds about the displaced mass.
    """
    whole = found.mass[0] + found.volume
    dtype, rate = whole.dtype, jnp.zeros_like(whole)
    if motion.stiffness is not None:
        rate = rate + jnp.sqrt(jnp.max(motion.stiffness).astype(dtype) / whole)
    if motion.damping is not None:
        rate = rate + jnp.max(motion.damping).astype(dtype) / whole
    if motion.gravity is not None:
        push = jnp.abs(found.mass[0] - found.volume) / whole * jnp.max(jnp.abs(motion.gravity)).astype(dtype)
        rate = rate + jnp.where(push > 0, jnp.sqrt(jnp.where(push > 0, push, 1) * (1 / width)), 0)
    stiff = 2 * jnp.asarray(stiffness, dtype) / whole  # two equal bodies swing against each other
    return rate + jnp.where(stiff > 0, jnp.sqrt(jnp.where(stiff > 0, stiff, 1)), 0)
