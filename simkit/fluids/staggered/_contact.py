"""Forces that hold bodies off each other and off walls, and the gaps between them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ...core import POSITIVE, quantity
from ..grids._boundary import Boundaries, FreeSlip, NoSlip, WallModel, pieces_of
from ..grids._checks import check_value
from ._moving import Kinematics, distance_from, turned
from ._obstacle import Box, Disk, Obstacle
from ._staggered import Staggered
from ._surface import TriangleSurface


class Contact(eqx.Module):
    r"""A repulsive force of short range between the bodies of an `IncompressibleFlow`, and between them and walls.

    $$F = s \left(1 - \frac{g}{r}\right)^2 \quad (g < r), \qquad F = 0 \quad (g \ge r)$$

    with the gap g between two surfaces. It acts along the line of the gap, on both bodies with opposite signs, and turns those
    that are no disks. It is the gradient of $s\,r\,(1 - g/r)^3/3$, so that it takes no energy: what a collision loses is lost to
    the fluid. Bodies at rest and moved ones give it and do not feel it. Walls are ends with `NoSlip`, `WallModel` or `FreeSlip`.

    - `strength`: s, the force where surfaces touch, for each unit of the fluid's density (and of depth in two dimensions), in
        length³/time² or length⁴/time².
    - `reach`: r, the gap below which it acts, in the grid's unit of length.

    The gap of a `Disk` from anything with a distance is exact. Corners of a `Box` and of a `TriangleSurface` are looked at one by
    one, each with the full force: two boxes crosswise do not see their edges. A function of your own is held off disks, boxes and
    triangles, since these have places to look at; two functions, or a function and a wall, are refused where one of them is free.

    **Good values:** a reach of 1.5 to 2 cells, what the flow no longer resolves; a strength of 10 to 50 times the largest force
    that presses bodies together, such as the weight in the fluid $|\sigma - 1|\,V g$: at rest on a wall a body then stands at
    0.7 to 0.85 of the reach. Steps by `Courant(0.5)` know its stiffness.

    **Raises:** an `ArgumentError` for numbers that are not positive.

    Glowinski, Pan, Hesla and Joseph (1999), Int. J. Multiphase Flow 25:755, for the force.
    """

    strength: Any = quantity(support=POSITIVE, doc="force at touch by the density of the fluid")
    reach: Any = quantity(unit="length", support=POSITIVE, doc="gap below which the force acts")

    def __init__(self, strength: ArrayLike, reach: ArrayLike):
        check_value("strength", strength, positive=True)
        check_value("reach", reach, positive=True)
        self.strength, self.reach = strength, reach

    def energy(self, gap: Array) -> Array:
        """The energy of gaps, by the density of the fluid."""
        near = jnp.maximum(1 - gap / self.reach.astype(gap.dtype), 0)
        return (self.strength * self.reach).astype(gap.dtype) / 3 * near**3

    def stiffness(self, gap: Array) -> Array:
        """The derivative of the force by the gap, without its sign."""
        near = jnp.maximum(1 - gap / self.reach.astype(gap.dtype), 0)
        return 2 * (self.strength / self.reach).astype(gap.dtype) * near


class Gap(NamedTuple):
    """Gaps between points of a body and another body, or a wall whose place is told by `second`."""

    first: str
    second: str
    wall: bool
    sizes: Array


class _Points(NamedTuple):
    """Places on a body and the distance of its surface from them; `exact` where nothing else of it can be closer."""

    places: Array
    radius: Array
    exact: bool


def _points(shape: Any, dimensions: int) -> _Points | None:
    if isinstance(shape, Disk) and len(shape.centre) == dimensions:
        return _Points(shape.centre[None], shape.radius, True)
    if isinstance(shape, Box) and len(shape.centre) == dimensions:
        signs = np.stack(np.meshgrid(*[[-0.5, 0.5]] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)
        places = shape.centre[None] + jnp.asarray(signs, shape.lengths.dtype) * shape.lengths[None]
        return _Points(places, jnp.zeros((), places.dtype), False)
    if isinstance(shape, TriangleSurface):
        return _Points(shape.corners, jnp.zeros((), shape.corners.dtype), False)
    return None


def looked_at(first: Obstacle, second: Obstacle, dimensions: int) -> tuple[bool, bool]:
    """Tell whether points of the first body are looked at, and whether those of the second are."""
    a, b = (_points(body.distance, dimensions) for body in (first, second))
    if a is not None and a.exact:
        return True, False
    if b is not None and b.exact:
        return False, True
    return a is not None, b is not None


def solid_ends(boundaries: Boundaries) -> list[tuple[int, int]]:
    """The axes and sides of ends that are walls."""
    solid = lambda end: any(isinstance(piece, NoSlip | WallModel | FreeSlip) for piece in pieces_of(end))
    return [(axis, side) for axis, pair in enumerate(boundaries) for side, end in enumerate(pair) if solid(end)]


def check_contact(
    contact: Any, bodies: Mapping[str, Obstacle], free: Mapping[str, Any], boundaries: Boundaries
) -> None:
    """Refuse what is no contact, and bodies whose gaps are not known.

    **Raises:** an `ArgumentError`.
    """
    if contact is None:
        return
    if not isinstance(contact, Contact):
        raise ArgumentError(
            f"Argument `contact` must be a Contact, such as `Contact(strength, reach)`, but it is {contact!r}."
        )
    if not free:
        raise ArgumentError("Argument `contact` needs a body with a `FreeMotion`, which feels it. Leave it out.")
    known = "`Disk`, `Box` and `TriangleSurface` have surfaces whose gaps are known; leave `contact` out for others."
    for name in free:
        if solid_ends(boundaries) and _points(bodies[name].distance, len(boundaries)) is None:
            raise ArgumentError(f"Argument `contact` does not know the gap between {called(name)} and a wall. {known}")
    for first, second in pairs(bodies, free):
        if not any(looked_at(bodies[first], bodies[second], len(boundaries))):
            raise ArgumentError(f"Argument `contact` does not know the gap between {first!r} and {second!r}. {known}")


def called(name: str, first: bool = False) -> str:
    """A body as messages call it, `first` at the beginning of a sentence."""
    return f"{'The' if first else 'the'} {f'body {name!r}' if name else 'free body'}"


def pairs(bodies: Mapping[str, Obstacle], free: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The pairs of bodies of which one is free."""
    names = list(bodies)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            if first in free or second in free:
                yield first, second


def gaps(
    at: Staggered,
    boundaries: Boundaries,
    bodies: Mapping[str, Obstacle],
    places: Mapping[str, Kinematics | None],
    free: Mapping[str, Any],
) -> list[Gap]:
    """All gaps between free bodies, others and walls that are known."""
    d, found = at.dimensions, []
    stands = {name: distance_from(body, at, places[name]) for name, body in bodies.items()}
    points: dict[str, tuple[Array, Array]] = {}
    for name, body in bodies.items():
        own = _points(body.distance, d)
        if own is not None:
            place = places[name]
            points[name] = (own.places if place is None else _placed(own.places, place)), own.radius
    for first, second in pairs(bodies, free):
        for (a, b), looks in zip(
            ((first, second), (second, first)), looked_at(bodies[first], bodies[second], d), strict=True
        ):
            if looks:
                where, radius = points[a]
                gap = stands[b](tuple(where[:, axis] for axis in range(d))) - radius.astype(where.dtype)
                found.append(Gap(a, b, False, gap))
    for name in free:
        if name not in points:
            continue
        where, radius = points[name]
        for axis, side in solid_ends(boundaries):
            low = at.grid.origin[axis]
            inner = where[:, axis] - low if side == 0 else low + at.grid.lengths[axis] - where[:, axis]
            end = f"{('lower', 'upper')[side]} wall of axis {axis}"
            found.append(Gap(name, end, True, inner - radius.astype(where.dtype)))
    return found


def _placed(points: Array, place: Kinematics) -> Array:
    found = turned([points[:, axis].astype(place.centre.dtype) for axis in range(points.shape[1])], place.angle)
    return place.centre[None] + jnp.stack(found, axis=1)


def contact_forces(
    contact: Contact | None,
    at: Staggered,
    boundaries: Boundaries,
    bodies: Mapping[str, Obstacle],
    places: Mapping[str, Kinematics | None],
    free: Mapping[str, Any],
) -> dict[str, Array]:
    """The force on each free body along each axis and, in two dimensions, its turn; none without a contact."""
    if contact is None:
        return {}

    def energy(moved: dict[str, tuple[Array, Array]]) -> Array:
        now = dict(places)
        for name, (centre, angle) in moved.items():
            place = places[name]
            assert place is not None
            now[name] = place._replace(centre=centre, angle=angle)
        parts = [jnp.sum(contact.energy(gap.sizes)) for gap in gaps(at, boundaries, bodies, now, free)]
        return sum(parts, jnp.zeros((), next(iter(moved.values()))[0].dtype))

    def pose(name: str) -> tuple[Array, Array]:
        place = places[name]
        assert place is not None
        return place.centre, place.angle

    slopes = jax.grad(energy)({name: pose(name) for name in free})
    turns = at.dimensions == 2
    return {name: -jnp.concatenate([push, twist[None]] if turns else [push]) for name, (push, twist) in slopes.items()}


def stiffness_on(contact: Contact | None, found: list[Gap], name: str, ahead: float) -> Any:
    """The stiffness of all gaps of a body that are open no more than they will be after a step over `ahead`."""
    if contact is None:
        return 0.0
    own = [gap.sizes for gap in found if name in (gap.first, *(() if gap.wall else (gap.second,)))]
    parts = [jnp.sum(contact.stiffness(sizes - ahead)) for sizes in own]
    return sum(parts[1:], parts[0]) if parts else 0.0
