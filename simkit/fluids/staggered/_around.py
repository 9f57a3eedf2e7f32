"""A flow around its body: where the body stands, the slope of the velocity, and what the fluid loses to the body.

A free body and the fluid are one system: the slope of the velocity is linear in the acceleration of the body, so that the pressure
is solved once without it and once for a unit of each way in which the body moves. The loads of these are the added mass. Newton's
law is then a system of one to three equations, whatever the densities.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._types import Inputs
from ._cut import Cut, cut
from ._free_body import BodyState, FreeMotion, accelerated, inertia_of, modes_of, pushes_on
from ._input_force import forces_on
from ._momentum import advection, surrounded
from ._moving import Kinematics, Motion, continued, kinematics, motion_of, standing, taken_along
from ._obstacle import Obstacle, with_images
from ._projection import Projected, project_through
from ._staggered import Components
from ._state import StaggeredFlow


class Near(NamedTuple):
    """A body at a time, as the faces see it; place and motion are None at rest."""

    body: Obstacle
    cut: Cut
    place: Kinematics | None
    motion: Motion | None


class Around(NamedTuple):
    """The slope of the velocity around a body with the pressure, the momentum that each face loses to the body in a unit of time,
    and the slope of the state of a free one."""

    near: Near
    found: Projected
    lost: Components
    slope: BodyState | None


def near(system: Any, t: ArrayLike, dtype: DTypeLike, body: BodyState | None = None) -> Near:
    """The body of a flow as it stands and moves at a time; a free one by its state."""
    place = kinematics(system.obstacle, system.at, t, dtype, body)
    stands = standing(system.obstacle, system.at, place)
    found = cut(system.at, with_images(stands.distance, system.at.periods), dtype)
    return Near(stands, found, place, None if place is None else motion_of(system.at, place))


def moved(system: Any, here: Near, field: Components, velocity: Components) -> tuple[Components, Array | None]:
    """The slope without pressure, and the divergence that it shall take away where the body moves."""
    at = system.at
    if here.motion is not None:
        body = with_images(here.body.distance, at.periods)
        beside = _advected(system, continued(at, body, here.motion, velocity))
        field = tuple(f + a - b for f, a, b in zip(field, _advected(system, velocity), beside, strict=True))
        found, rate = taken_along(at, here.cut, here.motion, field, velocity, system.viscosity)
        return found, rate * at.divergence(velocity)
    parts = zip(here.cut.mobility, field, here.cut.friction, velocity, strict=True)
    return tuple(m * f - system.viscosity * c * u for m, f, c, u in parts), None


def _advected(system: Any, velocity: Components) -> Components:
    flow = surrounded(system.at, system.boundaries, velocity)
    return tuple(advection(system.at, system.boundaries, flow, i, system.flux) for i in range(system.at.dimensions))


def through(system: Any, field: Components, mobility: Components, left: Array | None = None) -> Projected:
    """A field without divergence beside a body of these mobilities."""
    return project_through(system.at, field, mobility, system.tolerance, system.iterations, left)


def around(system: Any, t: ArrayLike, y: StaggeredFlow, pushed: Components, inputs: Inputs) -> Around:
    """The flow around its body, from the slope of the velocity without pressure and body."""
    here = near(system, t, y.velocity[0].dtype, y.body)
    field, left = moved(system, here, pushed, y.velocity)
    found = through(system, field, here.cut.mobility, left)
    lost = _lost(system, here, forces_on(system, t, y, inputs), pushed, found)
    motion = None if system.obstacle is None else system.obstacle.motion
    still = Around(here, found, lost, None)
    if not isinstance(motion, FreeMotion) or y.body is None:
        return still
    return _freed(system, here, y.body, motion, still)


def _freed(system: Any, here: Near, body: BodyState, motion: FreeMotion, still: Around) -> Around:
    """The flow and the acceleration of a free body, from the flow with a body that is not accelerated."""
    at, place = system.at, here.place
    assert place is not None
    modes, kept = modes_of(motion, at, place), motion.kept(at.dimensions)
    held = tuple((1 - m)[None] * mode for m, mode in zip(here.cut.mobility, modes, strict=True))
    answers = jax.vmap(lambda field: through(system, field, here.cut.mobility))(held)

    def given(answer: Projected, mode: Components) -> Components:
        parts = zip(at.gradient(answer.pressure), answer.velocity, here.cut.inside, mode, strict=True)
        lost = [(at.inner(i, -g - u) + at.inner(i, s * v)) * at.volumes(i, u) for i, (g, u, s, v) in enumerate(parts)]
        return tuple(lost)

    losses = jax.vmap(given)(answers, modes)
    load = lambda lost: jnp.stack(
        [sum(jnp.sum(v[k] * u) for v, u in zip(modes, lost, strict=True)) for k in range(len(kept))]
    )
    inertia = inertia_of(motion, system.obstacle, at, here.body, still.lost[0].dtype)
    outer = pushes_on(motion, inertia, body)[kept]
    added = -jax.vmap(load)(losses)
    found = jnp.linalg.solve(jnp.diag(inertia.mass[kept]) + added.T, load(still.lost) + outer)
    sum_of = lambda parts: jnp.tensordot(found, parts, 1)
    joined = lambda own, others: tuple(a + sum_of(b) for a, b in zip(own, others, strict=True))
    slope = Projected(joined(still.found.velocity, answers.velocity), still.found.pressure + sum_of(answers.pressure))
    return Around(here, slope, joined(still.lost, losses), accelerated(motion, at, body, place, found))


def _lost(system: Any, here: Near, forces: list[Any] | None, pushed: Components, found: Projected) -> Components:
    """The momentum that each face loses to the body in a unit of time; forces on what is inside are none of the fluid's."""
    at, inside = system.at, here.cut.inside
    if forces is not None:
        pushed = tuple(p - s * f for p, s, f in zip(pushed, inside, forces, strict=True))
    parts = zip(pushed, at.gradient(found.pressure), found.velocity, strict=True)
    lost = [at.inner(i, f - g - u) * at.volumes(i, f) for i, (f, g, u) in enumerate(parts)]
    if here.motion is None:
        return tuple(lost)
    # What is inside moves with the body: its momentum is none that the fluid lost.
    parts = zip(lost, inside, here.motion.acceleration, strict=True)
    return tuple(a + s * b * at.volumes(i, a) for i, (a, s, b) in enumerate(parts))
