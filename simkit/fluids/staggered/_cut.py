r"""Bodies on a staggered grid: how far the faces beside a surface stand from it, along the axes.

A component of the velocity is 0 on the surface. Where the surface cuts the line from a face to its neighbour at the share
$\theta$ of the distance, the viscous flux between the two is $\nu u / (\theta h)$: that of a velocity which falls linearly to 0 on
the surface rather than at the neighbour. This adds the friction $\nu (1/\theta - 1) u / h^2$ to the slope of the face. It is of
order 2 in the velocity (Gibou, Fedkiw, Cheng and Kang 2002, J. Comput. Phys. 176:205, for Poisson's equation).

The friction of a face close to the surface is stiff. Each face has therefore a mobility between 0 and 1, by which its slope is
multiplied, pressure included. Flows at rest do not depend on it, since it multiplies a slope that is 0. It goes to 0 with the
distance, so that a face that enters the body changes nothing at once: the flow is a continuous function of the shape.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array

from ._staggered import Components, Staggered

SHORTEST = 1e-9
"""The shortest distance from the surface, in cells: below it a face does not move, and its numbers stay finite in float32."""


class Cut(NamedTuple):
    """A body as the faces see it."""

    mobility: Components  # 0 in the body, 1 away from its surface
    friction: Components  # the mobility times the rate of the friction for each unit of viscosity
    inside: Components  # which share of the volume of each face is in the body


def cut(at: Staggered, distance: Callable[[tuple[Array, ...]], Array], dtype: DTypeLike) -> Cut:
    """Mobilities, frictions and shares inside of all faces; on faces of boundaries 1, 0 and 0."""
    mobility, friction, inside = [], [], []
    for i in range(at.dimensions):
        m, f, s = _of_component(at, distance, i, dtype)
        mobility.append(at.inner(i, m, 1.0))
        friction.append(at.inner(i, f))
        inside.append(at.inner(i, s))
    return Cut(tuple(mobility), tuple(friction), tuple(inside))


def _of_component(
    at: Staggered, distance: Callable[[tuple[Array, ...]], Array], component: int, dtype: DTypeLike
) -> tuple[Array, Array, Array]:
    d = at.dimensions
    places, lower, upper = zip(*(_along(at, component, axis) for axis in range(d)), strict=True)
    mesh = np.meshgrid(*places, indexing="ij")
    wide = jnp.asarray(distance(tuple(jnp.asarray(x, dtype) for x in mesh)), dtype)
    beside = lambda axis, step: wide[tuple(_part(step if k == axis else 0) for k in range(d))]
    here = beside(0, 0)
    outside = jnp.maximum(here, 0)
    whole: Any = 0.0
    held: Any = 0.0
    for axis in range(d):
        for step, rates in ((-1, lower[axis]), (1, upper[axis])):
            rate = jnp.asarray(rates.reshape([-1 if k == axis else 1 for k in range(d)]), dtype)
            total = outside + jnp.maximum(-beside(axis, step), 0)
            share = jnp.where(total > 0, outside / jnp.where(total > 0, total, 1), 1)
            whole = whole + rate
            held = held + rate / jnp.maximum(share, SHORTEST)
    # The stiffest rate of a face times its mobility is then twice the diagonal of the plain Laplacian, its limit of stability.
    mobility = jnp.where(here > 0, 2 * whole / (held + whole), 0)
    width = at.finest
    return mobility, mobility * (held - whole), jnp.clip(0.5 - here / width, 0, 1)


def _along(at: Staggered, component: int, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the coordinates of a component along an axis, with one more at both ends, and the rates of diffusion to both
    neighbours.

    Beyond the end of a periodic axis the body is that of the other end; beyond a wall there is none, but for the last one.
    """
    grid, m = at.grid, at.faces(axis)
    if axis == component:
        places, apart = grid.faces(axis)[:m], grid.widths(axis)
    else:
        places, apart = grid.centres(axis), np.diff(grid.centres(axis))
        apart = np.concatenate([grid.widths(axis)[:1], apart, grid.widths(axis)[-1:]])
    if axis == component:
        ends = (apart[:1], apart, apart[-1:]) if at.walls[axis] else (apart[-1:], apart)
        apart = np.concatenate(ends)
    lower, upper = apart[:-1], apart[1:]
    middle = 0.5 * (lower + upper) if axis == component else grid.widths(axis)
    wide = np.pad(places, 1, mode="edge" if at.walls[axis] else "wrap")
    return wide, 1 / (lower * middle), 1 / (upper * middle)


def _part(step: int) -> slice:
    return slice(1 + step, -1 + step or None)
