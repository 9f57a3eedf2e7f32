"""A flow around its bodies: where they stand, the slope of the velocity, and what the fluid loses to each of them.

Free bodies and the fluid are one system: the slope of the velocity is linear in the accelerations of the bodies, so that the
pressure is solved once without them and once for a unit of each way in which a body moves. The loads of these are the added
masses, of a body on itself and on others. Newton's law is then a system of one to three equations for each body, whatever the
densities.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._types import Inputs
from ._bodies import ALONE, Standing, bodies_of, motions_of, stand, states_of, union
from ._contact import contact_forces, gaps, stiffness_on
from ._cut import Cut, cut
from ._free_body import BodyState, accelerated, inertia_of, modes_of, pushes_on, rate_of_body, told_of_body
from ._input_force import forces_on
from ._loads import loads
from ._momentum import advection, surrounded
from ._moving import Motion, continued, fastest, motion_of, taken_along
from ._projection import Projected, project_through
from ._staggered import Components
from ._state import StaggeredFlow


class Near(NamedTuple):
    """All bodies at a time, as the faces see them; the motion is None where all are at rest."""

    bodies: dict[str, Standing]
    distance: Callable[..., Array]
    cut: Cut
    motion: Motion | None


class Around(NamedTuple):
    """The slope of the velocity around bodies with the pressure, the momentum that each face loses to them in a unit of time,
    the slopes of the states of free ones, and the forces of contact on these."""

    near: Near
    found: Projected
    lost: Components
    slopes: dict[str, BodyState]
    contact: dict[str, Array]


def near(system: Any, t: ArrayLike, dtype: DTypeLike, free: Mapping[str, BodyState]) -> Near:
    """The bodies of a flow as they stand and move at a time; free ones by their states."""
    bodies = stand(system, t, dtype, free)
    distance = union(bodies)
    motions = [None if body.place is None else motion_of(system.at, body.place) for body in bodies.values()]
    found = cut(system.at, distance, dtype)
    if all(motion is None for motion in motions):
        return Near(bodies, distance, found, None)
    parts = [
        [body.share(part) for part in motion]
        for body, motion in zip(bodies.values(), motions, strict=True)
        if motion is not None
    ]
    total = [tuple(sum(own[1:], own[0]) for own in zip(*fields, strict=True)) for fields in zip(*parts, strict=True)]
    return Near(bodies, distance, found, Motion(*total))


def moved(system: Any, here: Near, field: Components, velocity: Components) -> tuple[Components, Array | None]:
    """The slope without pressure, and the divergence that it shall take away where the body moves."""
    at = system.at
    if here.motion is not None:
        beside = _advected(system, continued(at, here.distance, here.motion, velocity))
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


@eqx.filter_jit
def admitted(system: Any, t: ArrayLike, velocity: Components, free: Mapping[str, BodyState]) -> Components:
    """A velocity with that of bodies that move inside them, without divergence."""
    here = near(system, t, velocity[0].dtype, free)
    assert here.motion is not None
    parts = zip(here.cut.mobility, velocity, here.motion.velocity, strict=True)
    joined = tuple(m * u + (1 - m) * v for m, u, v in parts)
    return through(system, joined, here.cut.mobility).velocity


def around(system: Any, t: ArrayLike, y: StaggeredFlow, pushed: Components, inputs: Inputs) -> Around:
    """The flow around its bodies, from the slope of the velocity without pressure and bodies."""
    states = states_of(y)
    here = near(system, t, y.velocity[0].dtype, states)
    field, left = moved(system, here, pushed, y.velocity)
    found = through(system, field, here.cut.mobility, left)
    lost = _lost(system, here, forces_on(system, t, y, inputs), pushed, found)
    still = Around(here, found, lost, {}, {})
    return _freed(system, states, still) if states else still


def _freed(system: Any, states: Mapping[str, BodyState], still: Around) -> Around:
    """The flow and the accelerations of all free bodies, from the flow with bodies that are not accelerated."""
    at, here = system.at, still.near
    bodies = bodies_of(system)
    motions = motions_of(bodies)
    places = {name: body.place for name, body in here.bodies.items()}
    touch = contact_forces(system.contact, at, system.boundaries, bodies, places, motions)
    parts, outer, masses, counts = [], [], [], []
    for name, motion in motions.items():
        body = here.bodies[name]
        assert body.place is not None
        kept = motion.kept(at.dimensions)
        inertia = inertia_of(motion, bodies[name].distance, at, body.distance, body.place.centre)
        push = pushes_on(motion, inertia, states[name])
        parts.append(body.share(modes_of(motion, at, body.place)))
        outer.append((push + touch[name] if name in touch else push)[kept])
        masses.append(inertia.mass[kept])
        counts.append(len(kept))
    modes = tuple(jnp.concatenate(own) for own in zip(*parts, strict=True))
    held = tuple((1 - m)[None] * mode for m, mode in zip(here.cut.mobility, modes, strict=True))
    answers = jax.vmap(lambda field: through(system, field, here.cut.mobility))(held)

    def given(answer: Projected, mode: Components) -> Components:
        parts = zip(at.gradient(answer.pressure), answer.velocity, here.cut.inside, mode, strict=True)
        lost = [(at.inner(i, -g - u) + at.inner(i, s * v)) * at.volumes(i, u) for i, (g, u, s, v) in enumerate(parts)]
        return tuple(lost)

    losses = jax.vmap(given)(answers, modes)
    load = lambda lost: jnp.stack(
        [sum(jnp.sum(v[k] * u) for v, u in zip(modes, lost, strict=True)) for k in range(sum(counts))]
    )
    added = -jax.vmap(load)(losses)
    known = load(still.lost) + jnp.concatenate(outer)
    found = jnp.linalg.solve(jnp.diag(jnp.concatenate(masses)) + added.T, known)
    sum_of = lambda parts: jnp.tensordot(found, parts, 1)
    joined = lambda own, others: tuple(a + sum_of(b) for a, b in zip(own, others, strict=True))
    whole = Projected(joined(still.found.velocity, answers.velocity), still.found.pressure + sum_of(answers.pressure))
    slopes, first = {}, 0
    for (name, motion), count in zip(motions.items(), counts, strict=True):
        place = places[name]
        assert place is not None
        slopes[name] = accelerated(motion, at, states[name], place, found[first : first + count])
        first += count
    return Around(here, whole, joined(still.lost, losses), slopes, touch)


def outputs_of_bodies(system: Any, y: StaggeredFlow, beside: Around, pressure: Array) -> dict[str, Any]:
    """Loads on all bodies and the states of free ones: as they are for one alone, else by the name of each."""
    found, states, d = {}, states_of(y), system.at.dimensions
    for name, body in beside.near.bodies.items():
        centre = None if body.place is None else body.place.centre
        own: dict[str, Any] = loads(system.at, body.obstacle, body.share(beside.lost), pressure, centre)
        if name in states:
            own |= told_of_body(states[name], name == ALONE)
        if name in beside.contact:
            own["contact"] = beside.contact[name][:d]
        found[name] = own
    return found.get(ALONE, found)


def rate_of_bodies(system: Any, here: Near) -> Array:
    """The rate of what moves by itself and is moved, for the length of steps."""
    at, bodies = system.at, bodies_of(system)
    assert here.motion is not None
    width = min(at.grid.spacing(axis) for axis in range(at.dimensions))
    rate = fastest(here.motion, here.cut) / width
    motions, own = motions_of(bodies), []
    if not motions:
        return rate
    places = {name: body.place for name, body in here.bodies.items()}
    found = [] if system.contact is None else gaps(at, system.boundaries, bodies, places, motions)
    for name, motion in motions.items():
        body = here.bodies[name]
        assert body.place is not None
        inertia = inertia_of(motion, bodies[name].distance, at, body.distance, body.place.centre)
        own.append(rate_of_body(motion, inertia, stiffness_on(system.contact, found, name, width), width))
    return rate + functools.reduce(jnp.maximum, own)


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
