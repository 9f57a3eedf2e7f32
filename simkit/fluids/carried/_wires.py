"""Wires between a flow and the bodies that it carries."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.ndimage import map_coordinates
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Scalar
from ...core import POSITIVE, quantity
from ..spectral._flow2d import SpectralFlow2D
from ..spectral._flow3d import SpectralFlow3D
from ..spectral._sampling import probe
from ..staggered._incompressible import IncompressibleFlow


class FlowAtBodies(eqx.Module):
    """The wire that gives bodies the velocity of a flow at their places, `(bodies, dimensions)`.

    Of a spectral flow it is the sum of its waves there, exact for what the grid resolves, at the cost of all waves for each body;
    of an `IncompressibleFlow` on equal cells it is linear between the faces of each component, and constant within half a cell of
    a wall. Bodies outside a periodic box see its images.

    **Arguments:** the names of the parts, `flow` and `bodies`, whose state has the field `position`.
    """

    flow: str = eqx.field(static=True)
    bodies: str = eqx.field(static=True)

    def __call__(self, system: Any, t: ArrayLike, y: Mapping[str, Any], outputs: Mapping[str, Any]) -> Array:
        return velocity_at(system[self.flow], y[self.flow], y[self.bodies].position)


class Reaction(eqx.Module):
    r"""The wire that gives a flow the force by which drops react on it, an acceleration of the fluid:

    $$f(x) = -m \sum_i \frac{u(x_i) - v_i}{\tau}\, \delta(x - x_i)$$

    with m `mass`, the mass of a drop over the density of the fluid, a volume (an area in the plane). The delta function is the
    transpose of the interpolation of the velocity, of a spectral flow that of the waves on the grid, so that force and work on the
    fluid are those on the drops to rounding. It is as wide as a cell: a drop much smaller than that is dragged by its own wake,
    which cells larger than drops leave out. Within a cell of a wall a part of the force that is normal to it goes into the wall.

    The flow is a spectral one or an `IncompressibleFlow` on equal cells, and has the force `InputForce()`.

    **Arguments:** the names of the parts, `flow` and `drops`, a `Drops`; `mass`, positive.
    """

    flow: str = eqx.field(static=True)
    drops: str = eqx.field(static=True)
    mass: Scalar = quantity(unit="volume", support=POSITIVE, doc="mass of a drop over the density of the fluid")

    def __call__(self, system: Any, t: ArrayLike, y: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
        flow, drops, bodies = system[self.flow], system[self.drops], y[self.drops]
        if not isinstance(flow, SpectralFlow2D | SpectralFlow3D | IncompressibleFlow):
            raise ArgumentError(
                f"`Reaction` needs a spectral or an incompressible flow, but `{self.flow}` is a {type(flow).__name__}."
            )
        check_places(flow, bodies.position)
        if isinstance(flow, IncompressibleFlow):
            field, seen = y[self.flow].velocity, lambda field: at_faces(flow, field, bodies.position)
        else:
            field = flow.velocity(y[self.flow])
            seen = lambda field: probe(flow.grid, field, bodies.position).T
        velocity, spread = jax.vjp(seen, field)
        (given,) = spread(drops.pull(bodies, velocity))
        share = self.mass * (flow.grid.size / flow.grid.volume)
        return jax.tree.map(lambda f: -share.astype(f.dtype) * f, given)


def velocity_at(flow: Any, y: Any, position: Array) -> Array:
    """The velocity of a flow at places `(bodies, dimensions)`, of the same shape."""
    check_places(flow, position)
    if isinstance(flow, SpectralFlow2D | SpectralFlow3D):
        return probe(flow.grid, flow.velocity(y), position).T
    if isinstance(flow, IncompressibleFlow):
        return at_faces(flow, y.velocity, position)
    raise ArgumentError(
        f"The velocity at bodies is known of `SpectralFlow2D`, `SpectralFlow3D` and `IncompressibleFlow`, but the flow is a "
        f"{type(flow).__name__}. Write a function of (system, t, y, outputs) for the wire."
    )


def check_places(flow: Any, position: Array) -> None:
    """Refuse positions of bodies that are no places in a flow."""
    if position.ndim != 2 or position.shape[1] != flow.grid.dimensions:
        raise ArgumentError(
            f"Bodies in this flow must have positions of the shape (bodies, {flow.grid.dimensions}), but it is {position.shape}."
        )


def at_faces(flow: IncompressibleFlow, velocity: Sequence[Array], position: Array) -> Array:
    """The velocity with these components at their faces, at places `(bodies, dimensions)`, of the same shape."""
    flow.grid.check_uniform("a velocity at bodies")
    return jnp.stack([_linear(flow, i, u, position) for i, u in enumerate(velocity)], axis=1)


def _linear(flow: IncompressibleFlow, component: int, u: Array, position: Array) -> Array:
    """A component of the velocity at places, linear between its faces."""
    at, places = flow.at, []
    for axis in range(at.dimensions):
        along = at.grid.faces(axis) if axis == component else at.grid.centres(axis)
        place = (position[:, axis] - along[0]) / at.grid.spacing(axis)
        if at.walls[axis]:
            place = jnp.clip(place, 0, u.shape[axis] - 1)
        else:
            place = jnp.mod(place, at.grid.shape[axis])
            u = jnp.concatenate([u, jax.lax.slice_in_dim(u, 0, 1, axis=axis)], axis=axis)
        places.append(place)
    return map_coordinates(u, places, order=1, mode="nearest")
