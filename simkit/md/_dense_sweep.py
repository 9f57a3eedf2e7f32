"""One sweep over all pairs of a small system: energy and gradient, or the Hessian times a direction."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ._dense import DensePairs, DensePlan
from ._pair_block import Sides, block_gradient, with_row
from ._pair_sums import Marks, Point, Wanted, along, pair_sums
from ._space import inverse


def sweep_dense(
    plan: DensePlan, wanted: Wanted, pairs: DensePairs, species: Any, point: Point, direction: Point | None = None
) -> tuple[Array, Point]:
    """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it.

    Positions are (atoms, 3), charges (atoms,) or None, `species` rows of zeros and a one, (1, species, atoms), or None.
    """
    dtype = jnp.dtype(plan.pair_dtype)
    small, towards = jax.tree.map(lambda a: a.astype(dtype), (point, direction))
    nearest = _nearest(plan, lax.stop_gradient(small)) if plan.images is None else None

    def everything(p: Point) -> tuple[Array, Point]:
        if plan.images is None:
            return _nearest_gradient(wanted, p, nearest, species, pairs.counted)
        return _image_gradient(wanted, p, jnp.asarray(plan.images, dtype), species)

    energy, found = along(everything, small, towards)
    back = jax.tree.map(lambda a, b: a.astype(b.dtype), found, point)
    return energy.astype(point.position.dtype), back


def _nearest(plan: DensePlan, point: Point) -> Any:
    """For each pair the lattice vectors between them, (3, atoms, atoms), or None in open space."""
    if not plan.periodic:
        return None
    x = point.position.T
    d = x[:, :, None] - x[:, None, :]
    if plan.skewed:
        return jnp.round(jnp.einsum("cij,ck->kij", d, inverse(point.vectors)))
    return jnp.round(d * (1 / jnp.diag(point.vectors))[:, None, None])


def _nearest_gradient(wanted: Wanted, point: Point, image: Any, species: Any, counted: Any) -> tuple[Array, Point]:
    """Each ordered pair with weight 1/2, at its nearest image."""
    x, charge = point.position.T, point.charge
    d = x[:, :, None] - x[:, None, :]
    if image is not None:
        d = d - jnp.einsum("kij,kc->cij", image, point.vectors)
    half, counted = jnp.full((1, x.shape[1]), 0.5, x.dtype), None if counted is None else counted[None]
    products = None if charge is None else charge[None, :, None] * charge[None, None, :]
    found = pair_sums(
        wanted, point.terms, jnp.sum(d * d, axis=0)[None], Marks(half, species, species, counted), products
    )
    position, vectors = jnp.zeros_like(point.position), jnp.zeros_like(point.vectors)
    if wanted != "energy":
        position = 2 * jnp.einsum("ij,cij->ic", found.force[0], d)
    if wanted == "gradient" and image is not None:
        vectors = -jnp.einsum("kij,cij->kc", image, found.force * d)
    if charge is not None:
        charge = jnp.zeros_like(charge) if found.potential is None else 2 * found.potential[0] @ charge
    return found.energy, Point(found.terms, vectors, position, charge)


def _image_gradient(
    wanted: Wanted, point: Point, images: Float[Array, "images 3"], species: Any
) -> tuple[Array, Point]:
    """Each ordered pair with weight 1/2, at every image."""
    atoms, count = point.position.shape[0], images.shape[0]
    y = (point.position[None] + (images @ point.vectors)[:, None]).reshape(1, count * atoms, 3).swapaxes(1, 2)
    half = jnp.full((1, count * atoms), 0.5, y.dtype)
    many = None if species is None else jnp.tile(species, (1, 1, count))
    charge_x = charge_y = None
    if point.charge is not None:
        charge_x, charge_y = point.charge[None], jnp.tile(point.charge[None], (1, count))
    sides = Sides(point.terms, with_row(point.position.T[None], 1.0), with_row(y, 1.0), charge_x, charge_y)
    energy, by = block_gradient(wanted, sides, Marks(half, species, many))
    by_y = by.y.reshape(3, count, atoms)
    charge = None
    if point.charge is not None:
        charge = by.charge_x[0] + by.charge_y.reshape(count, atoms).sum(0)
    vectors = jnp.einsum("kn,ckj->nc", images, by_y)
    return energy, Point(by.terms, vectors, by.x[0].T + by_y.sum(1).T, charge)
