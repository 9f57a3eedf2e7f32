"""A flow around its bodies: where they stand, the slope of the velocity, and what the fluid loses to each of them.

Free bodies and the fluid are one system: the slope of the velocity is linear in the pressure and in the accelerations of the
bodies, and these are linear in the pressure by Newton's law. The pressure is solved for with the accelerations put in, so that
added mass, of a body on itself and on others, is that of the scheme, and bodies of any number and density cost one solution.
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
from ._bodies import Standing, motions_of, stand, states_of, union
from ._contact import contact_forces, gaps, stiffness_on
from ._cut import Cut, cut
from ._free_body import BodyState, accelerated, inertia_of, modes_of, pushes_on, rate_of_body, told_of_body
from ._input_force import forces_on
from ._loads import loads
from ._momentum import advection, surrounded
from ._moving import Motion, continued, fastest, motion_of, taken_along
from ._obstacle import ALONE, bodies_of
from ._projection import Medium, Projected, Yielding, accelerations, pressure_in, project_through, yielding
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
    added: Callable[[Array, Array], Array] = jnp.add
    total = [
        tuple(functools.reduce(added, own) for own in zip(*fields, strict=True)) for fields in zip(*parts, strict=True)
    ]
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


class Ways(NamedTuple):
    """The ways in which free bodies move, one after the other: velocities at faces in a unit of each, masses, and forces but
    those of the fluid; how many each body has, and the forces of contact by body."""

    modes: Components
    masses: Array
    outer: Array
    counts: tuple[int, ...]
    contact: dict[str, Array]


def ways_of(system: Any, here: Near, states: Mapping[str, BodyState]) -> Ways:
    """The ways in which the free bodies of a flow move."""
    at, bodies = system.at, bodies_of(system)
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
    return Ways(modes, jnp.concatenate(masses), jnp.concatenate(outer), tuple(counts), touch)


def _load(ways: Ways, lost: Components) -> Array:
    """The force along each way, from the momentum that each face loses."""
    parts = zip(ways.modes, lost, strict=True)
    return functools.reduce(jnp.add, [jnp.tensordot(v, u, u.ndim) for v, u in parts])


def _held(ways: Ways, here: Near) -> Components:
    """The slope of the velocity in a unit of each acceleration, without pressure."""
    return tuple((1 - m)[None] * mode for m, mode in zip(here.cut.mobility, ways.modes, strict=True))


def _yielding(system: Any, here: Near, ways: Ways) -> tuple[Yielding, Array]:
    r"""The response of free bodies to the pressure, and the matrix of their masses with that of the faces that move with them.

    A face loses $-\nabla p - \partial_t u + s\,\phi a$ to a body, with the share s of it that is inside and the way $\phi$, and has
    $\partial_t u = (1 - m) \phi a - m \nabla p$. The load is therefore $-\langle (1 - m) \phi, \nabla p\rangle$, which is
    $\langle c, p\rangle$ with the divergence c of $(1 - m) \phi$, less $\langle (1 - m - s) \phi, \phi\rangle a$.
    """
    at = system.at
    held = _held(ways, here)
    carried = jax.vmap(
        lambda own, mode: _load(
            ways,
            tuple(
                at.inner(i, h - s * v) * at.volumes(i, v)
                for i, (h, s, v) in enumerate(zip(own, here.cut.inside, mode, strict=True))
            ),
        )
    )(held, ways.modes)
    matrix = jnp.diag(ways.masses) + carried
    return yielding(at, here.cut.mobility, jax.vmap(at.divergence)(held), matrix), matrix


def medium_of(system: Any, here: Near, states: Mapping[str, BodyState]) -> Medium:
    """The medium in which the pressure of a flow is solved for."""
    given = _yielding(system, here, ways_of(system, here, states))[0] if states else None
    return Medium(here.cut.mobility, given)


def around(system: Any, t: ArrayLike, y: StaggeredFlow, pushed: Components, inputs: Inputs) -> Around:
    """The flow around its bodies, from the slope of the velocity without pressure and bodies."""
    states = states_of(y)
    here = near(system, t, y.velocity[0].dtype, states)
    field, left = moved(system, here, pushed, y.velocity)
    forces = forces_on(system, t, y, inputs)
    if states:
        return _freed(system, states, here, (field, left), pushed, forces)
    found = through(system, field, here.cut.mobility, left)
    return Around(here, found, _lost(system, here, forces, pushed, found), {}, {})


def _freed(
    system: Any,
    states: Mapping[str, BodyState],
    here: Near,
    before: tuple[Components, Array | None],
    pushed: Components,
    forces: list[Any] | None,
) -> Around:
    """The flow and the accelerations of all free bodies, from the slope of the velocity without both."""
    at, (field, left) = system.at, before
    ways = ways_of(system, here, states)
    bodies, matrix = _yielding(system, here, ways)
    still = _lost(system, here, forces, pushed, Projected(field, jnp.zeros_like(at.divergence(field))))
    first = jnp.linalg.solve(matrix, _load(ways, still) + ways.outer)
    right = at.divergence(field) + jnp.tensordot(first, bodies.fields, 1)
    right = right if left is None else right + left
    medium = Medium(here.cut.mobility, bodies)
    pressure = pressure_in(at, medium, right, system.tolerance, system.iterations)
    found = first + accelerations(at, bodies, pressure)
    parts = zip(field, _held(ways, here), here.cut.mobility, at.gradient(pressure), strict=True)
    whole = Projected(tuple(f + jnp.tensordot(found, h, 1) - m * g for f, h, m, g in parts), pressure)
    lost = [
        a + at.inner(i, s * jnp.tensordot(found, v, 1)) * at.volumes(i, a)
        for i, (a, s, v) in enumerate(
            zip(_lost(system, here, forces, pushed, whole), here.cut.inside, ways.modes, strict=True)
        )
    ]
    slopes, begin = {}, 0
    for (name, motion), count in zip(motions_of(bodies_of(system)).items(), ways.counts, strict=True):
        place = here.bodies[name].place
        assert place is not None
        slopes[name] = accelerated(motion, at, states[name], place, found[begin : begin + count])
        begin += count
    return Around(here, whole, tuple(lost), slopes, ways.contact)


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
    width = at.finest
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
