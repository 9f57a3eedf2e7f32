"""The bodies of a flow: by name, which of them are free, as they stand at a time, and how they start."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._doors import check_entries, check_mapping, shown
from ..._errors import ArgumentError
from ...core import tracing
from ..grids._boundary import Boundaries
from ..grids._checks import check_vector
from ..grids._grid import Grid
from ._contact import called, check_contact, gaps, looked_at, pairs
from ._free_body import BodyState, FreeMotion, as_state_of_body, check_free, check_state_of_body
from ._moving import Kinematics, distance_from, kinematics, standing
from ._obstacle import ALONE, Obstacle, bodies_of, check_body, moves, with_images
from ._scalars import TAKEN

EXAMPLE = '{"left": fluids.Obstacle(shape)}'


class Standing(NamedTuple):
    """A body at a time: as it stands, its signed distance, and its place, None at rest.

    `own` tells which faces of each component have no other body closer; None where there is one body alone.
    """

    obstacle: Obstacle
    distance: Any
    place: Kinematics | None
    own: tuple[Array, ...] | None

    def share(self, parts: tuple[Array, ...]) -> tuple[Array, ...]:
        """The values of its own faces, and 0 for others."""
        if self.own is None:
            return parts
        return tuple(jnp.where(own, part, 0) for own, part in zip(self.own, parts, strict=True))


def motions_of(bodies: Mapping[str, Obstacle]) -> dict[str, FreeMotion]:
    """The motions of the free ones among the bodies."""
    return {name: body.motion for name, body in bodies.items() if isinstance(body.motion, FreeMotion)}


def states_of(y: Any) -> dict[str, BodyState]:
    """The states of free bodies in the state of a flow."""
    return dict(y.bodies) if y.body is None else {ALONE: y.body}


def stand(system: Any, t: ArrayLike, dtype: DTypeLike, free: Mapping[str, BodyState]) -> dict[str, Standing]:
    """All bodies at a time; free ones by their states."""
    at, found = system.at, {}
    for name, body in bodies_of(system).items():
        place = kinematics(body, at, t, dtype, free.get(name))
        stands = standing(body, at, place)
        found[name] = Standing(stands, with_images(stands.distance, at.periods), place, None)
    if len(found) == 1:
        return found
    owned = []
    for i in range(at.dimensions):
        x = at.mesh(i, dtype)
        nearest = jnp.argmin(jnp.stack([jax.lax.stop_gradient(body.distance(x)) for body in found.values()]), axis=0)
        owned.append([nearest == k for k in range(len(found))])
    return {name: body._replace(own=tuple(own[k] for own in owned)) for k, (name, body) in enumerate(found.items())}


def union(bodies: Mapping[str, Standing]) -> Any:
    """The signed distance of all bodies together."""
    distances = [body.distance for body in bodies.values()]

    def least(x: tuple[Array, ...]) -> Array:
        found = distances[0](x)
        for distance in distances[1:]:
            found = jnp.minimum(found, distance(x))
        return found

    return least


def as_obstacles(
    grid: Grid, boundaries: Boundaries, obstacle: Any, obstacles: Any, scalars: Any
) -> dict[str, Obstacle]:
    """Bodies by name, without that of `obstacle`, all checked.

    **Raises:** an `ArgumentError`.
    """
    if obstacle is not None:
        check_obstacle(grid, obstacle, "Argument `obstacle`")
    if obstacles is None:
        return {}
    check_mapping("obstacles", obstacles, "bodies", EXAMPLE)
    check_entries("obstacles", obstacles, Obstacle, "an Obstacle", f"Write `{EXAMPLE}`.")
    if obstacle is not None:
        raise ArgumentError("Argument `obstacles` must hold all bodies, but `obstacle` is given. Leave it out.")
    for name, body in obstacles.items():
        if not name.isidentifier() or name in (*TAKEN, "smagorinsky", "wall_stress", *scalars):
            raise ArgumentError(
                f"The name of a body must be a word that no output and no scalar has, but one is {name!r}. Take another one."
            )
        check_obstacle(grid, body, f"Entry `{name}` of argument `obstacles`")
    return dict(sorted(obstacles.items()))


def check_obstacle(grid: Grid, obstacle: Any, what: str) -> None:
    """Refuse what is no body, and numbers of one that do not suit the grid.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(obstacle, Obstacle):
        raise ArgumentError(
            f"{what} must be an Obstacle, such as `Obstacle(Disk(centre, radius))`, but it is {obstacle!r}."
        )
    check_body(obstacle.distance)
    free = isinstance(obstacle.motion, FreeMotion)
    if free:
        check_free(obstacle, grid.dimensions, grid.devices)
    elif obstacle.motion is not None:
        if not callable(obstacle.motion):
            raise ArgumentError(
                f"Argument `motion` of an Obstacle must be a function of time, but it is {shown(obstacle.motion)}. Write "
                "`lambda t: jnp.stack([...])` with a component for each axis."
            )
        try:
            jax.eval_shape(obstacle.motion, jnp.zeros(()))
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise ArgumentError(
                "Argument `motion` of an Obstacle must be a function that JAX can trace, but it asks for the time as a number. "
                "Write it with `jax.numpy`: `lambda t: jnp.stack([...])`."
            ) from error
    if obstacle.pivot is not None:
        check_vector(obstacle.pivot, grid.dimensions, "pivot")
    if obstacle.taps is not None and np.shape(obstacle.taps) != (2, grid.dimensions):
        raise ArgumentError(
            f"Argument `taps` of an Obstacle must be two points, shape (2, {grid.dimensions}), but it has the shape "
            f"{np.shape(obstacle.taps)}."
        )


def check_bodies(system: Any) -> None:
    """Refuse a contact that does not suit the bodies of a system.

    **Raises:** an `ArgumentError`.
    """
    bodies = bodies_of(system)
    check_contact(system.contact, bodies, motions_of(bodies), system.boundaries)


def bodies_at_start(system: Any, body: Any, bodies: Any, dtype: DTypeLike) -> dict[str, BodyState]:
    """The states of all free bodies from what a user gave.

    **Raises:** an `ArgumentError` for bodies that are not free, free ones left out, and other shapes.
    """
    free = motions_of(bodies_of(system))
    if body is not None and ALONE not in free:
        also = f" Write `bodies` with {', '.join(free)}." if free else " Leave it out."
        raise ArgumentError(f"Argument `body` needs an obstacle with a `FreeMotion`.{also}")
    if ALONE in free:
        if bodies is not None:
            raise ArgumentError("Argument `bodies` needs `obstacles`. Write `body` for the one of `obstacle`.")
        given: Mapping[str, Any] = {ALONE: body}
        if body is None:
            raise ArgumentError(
                "Argument `body` must be the place of the free body, such as `[1.0, 2.0]`, but is not given."
            )
    else:
        given = {} if bodies is None else bodies
        check_mapping("bodies", given, "places of free bodies", '{"left": [1.0, 2.0]}')
        if set(given) != set(free):
            raise ArgumentError(
                f"Argument `bodies` must hold the places of the free bodies, {', '.join(free) or 'of which there are none'}, but "
                f"holds {', '.join(given) or 'none'}. Write a centre for each by name."
            )
    name_of = lambda name: f"bodies[{name!r}]" if name else "body"
    return {
        name: as_state_of_body(motion, system.at.dimensions, given[name], name_of(name), dtype)
        for name, motion in free.items()
    }


def packed(states: Mapping[str, Any]) -> dict[str, Any]:
    """States of free bodies as the state of a flow has them: `body` and `bodies`."""
    return {"body": states[ALONE]} if ALONE in states else {"bodies": dict(states)}


def check_states(system: Any, y0: Any) -> None:
    """Refuse a state whose free bodies are not those of the system, overlap, or stand outside the box.

    **Raises:** an `ArgumentError`.
    """
    free, states = motions_of(bodies_of(system)), states_of(y0)
    if set(states) - set(free) and ALONE in states:
        raise ArgumentError("Argument `y0` holds a free body, but the system has none. `start` makes a state.")
    for name in free:
        check_state_of_body(states.get(name), system.at.dimensions, f"y0.bodies[{name!r}]" if name else "y0.body")
    if set(states) - set(free):
        raise ArgumentError(
            f"Argument `y0` holds the free bodies {', '.join(states)}, but the system has {', '.join(free) or 'none'}. "
            "`start(bodies=...)` makes a state."
        )
    check_places(system, None, states)


def check_places(system: Any, time: ArrayLike | None, states: Mapping[str, BodyState]) -> None:
    """Refuse free bodies that overlap others or walls, or stand outside the box; without a time moved ones are left out.

    **Raises:** an `ArgumentError`.
    """
    if not states or tracing((system, states, time)):
        return
    at, dtype = system.at, jnp.asarray(system.viscosity).dtype
    bodies = {
        name: body for name, body in bodies_of(system).items() if name in states or time is not None or not moves(body)
    }
    places = {
        name: kinematics(body, at, 0.0 if time is None else time, dtype, states.get(name))
        for name, body in bodies.items()
    }
    for name, state in states.items():
        for axis, (low, length) in enumerate(zip(at.grid.origin, at.grid.lengths, strict=True)):
            where = float(state.centre[axis])
            if at.walls[axis] and not low < where < low + length:
                raise ArgumentError(
                    f"{called(name, True)} must start inside the box, from {low:g} to {low + length:g} along axis {axis}, "
                    f"but its centre is at {where:g}. Move it inside."
                )
    for gap in gaps(at, system.boundaries, bodies, places, states):
        least = float(jnp.min(gap.sizes))
        if least < 0:
            other = f"the {gap.second}" if gap.wall else f"the body {gap.second!r}"
            raise ArgumentError(
                f"{called(gap.first, True)} must not overlap {other} at the start, but does by {-least:.3g}. "
                "Move them apart."
            )
    distances = {name: distance_from(body, at, places[name]) for name, body in bodies.items()}
    for first, second in pairs(bodies, states):
        if sum(looked_at(bodies[first], bodies[second], at.dimensions)) == 1:
            continue  # the gap of a disk is exact
        centres = at.mesh(None, dtype)
        if bool(jnp.any((distances[first](centres) < 0) & (distances[second](centres) < 0))):
            raise ArgumentError(
                f"The bodies {first!r} and {second!r} must not overlap at the start, but do. Move them apart."
            )
