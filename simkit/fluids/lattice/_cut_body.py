"""One step of the fluid around a moving body whose surface cuts the links between cells."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._collision import Moments, Populations, equilibrium
from ._cut import Cut, cut, returned
from ._lattice import Lattice
from ._openings import opened
from ._streaming import dragged, freely

Velocity = Callable[[list[Array]], list[Array]]
"""The velocity of a rigid body at arms from its centre, in cells a step."""


def streamed_around(
    fluid: Any, after: Populations, depth: Float[Array, "..."], arms: list[Array], now: Velocity, then: Velocity
) -> tuple[list[Array], Float[Array, " d"], Array]:
    r"""Populations after streaming, and the force and the torque on a body, in cells and steps.

    A population that comes back from the surface has what its velocity $u_w$ adds, $6 w_k c_k \cdot u_w$, over twice the share q of
    the link where q is above a half. The body takes $c_i (f_i + f_k) - u_w (f_i - f_k)$ of each link, so that the force is the same
    in a frame that moves. Cells inside are filled with the equilibrium of the body's velocity at the end of the step, at the
    density of the fluid beside them: so begin those that the body leaves.

    - `depth`: of each centre below the surface in cells, positive inside. `now`, `then`: the motion before and after the step.

    **Source:** Bouzidi, Firdaouss and Lallemand (2001), Phys. Fluids 13:3452, doi:10.1063/1.1399290; Wen, Zhang, Tu, Wang and Fang
    (2014), J. Comput. Phys. 266:161, doi:10.1016/j.jcp.2014.02.018, for the force; Caiazzo (2008), Prog. Comput. Fluid Dyn. 8:3,
    doi:10.1504/PCFD.2008.018074, for cells that are left.
    """
    lattice: Lattice = fluid.lattice
    body = cut(lattice, fluid.boundaries, -depth)
    outside = ~body.solid if fluid.solid is None else ~body.solid & ~fluid.solid
    whole = _joined(lattice, body, fluid)
    moved, found = freely(lattice, after), []
    force: list[Any] = [jnp.zeros((), depth.dtype)] * lattice.dimensions
    axes = tuple(range(lattice.dimensions))
    torque: Any = jnp.zeros(() if lattice.dimensions == 2 else 3, depth.dtype)
    for k, c in enumerate(lattice.velocities):
        if not any(c):
            found.append(moved[k])
            continue
        share = whole.shares[k].astype(after[0].dtype)
        back = returned(lattice, k, after, moved, whole.links, share)
        own = outside & jnp.roll(body.solid, c, axes)
        place = [a - share * x if x else a for a, x in zip(arms, c, strict=True)]
        wall = now(place)
        push = 6 * lattice.weights[k] * lattice.dot(k, wall) * (0.5 / jnp.maximum(share, 0.5))
        back = back + jnp.where(own, push, jnp.zeros_like(push))
        found.append(jnp.where((whole.links >> k) & 1 != 0, back, moved[k]))
        gone = after[lattice.opposite[k]]
        given = [-x * (gone + back) - u * (gone - back) for x, u in zip(c, wall, strict=True)]
        given = [jnp.where(own, g, jnp.zeros_like(g)) for g in given]
        force = [total + jnp.sum(g) for total, g in zip(force, given, strict=True)]
        torque = torque + jnp.sum(crossed(place, given), axis=tuple(range(-lattice.dimensions, 0)))
    found = dragged(lattice, fluid.boundaries, found, body.solid, fluid.speed)
    found = opened(lattice, fluid.boundaries, found, fluid._push(), fluid.speed)
    return _filled(lattice, found, body.solid, outside, then(arms)), jnp.stack(force), torque


def _joined(lattice: Lattice, body: Cut, fluid: Any) -> Cut:
    """The links that the body or a fixed one cuts."""
    if fluid.cuts is None:
        return body
    fixed = [(fluid.links >> k) & 1 != 0 for k in range(lattice.size)]
    shares = [jnp.where(bit, a, b.astype(a.dtype)) for bit, a, b in zip(fixed, fluid.cuts, body.shares, strict=True)]
    return Cut(body.solid | fluid.solid, body.links | fluid.links, jnp.stack(shares))


def _filled(
    lattice: Lattice, found: Sequence[Array], solid: Array, outside: Array, velocity: list[Array]
) -> list[Array]:
    """Populations with those inside in equilibrium with the body, at the mean density of the fluid beside each cell."""
    axes = tuple(range(lattice.dimensions))
    excess = jnp.where(outside, sum(found), jnp.zeros_like(found[0]))
    known = outside.astype(excess.dtype)
    total, count = jnp.zeros_like(excess), jnp.zeros_like(excess)
    for w, c in zip(lattice.weights, lattice.velocities, strict=True):
        total = total + w * jnp.roll(excess, c, axes)
        count = count + w * jnp.roll(known, c, axes)
    mean = total / jnp.where(count > 0, count, jnp.ones_like(count))
    inside = Moments(mean, velocity)
    kept = []
    for i, population in enumerate(found):
        even, odd = equilibrium(lattice, i, inside)
        kept.append(jnp.where(solid, even if odd is None else even + odd, population))
    return kept


def crossed(arms: list[Array], vectors: list[Array]) -> Array:
    """Arms times vectors: a field in two dimensions, three of them in three."""
    if len(arms) == 2:
        return arms[0] * vectors[1] - arms[1] * vectors[0]
    turned = [arms[(k + 1) % 3] * vectors[(k + 2) % 3] - arms[(k + 2) % 3] * vectors[(k + 1) % 3] for k in range(3)]
    return jnp.stack(turned)
