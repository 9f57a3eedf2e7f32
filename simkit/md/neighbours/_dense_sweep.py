"""One sweep over all pairs of a small system: energy and gradient, or the Hessian times a direction."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..space._space import inverse
from ._dense_plan import DenseLayout, DensePairs
from ._pair_block import Sides, block_gradient, with_row
from ._pair_sums import Marks, Point, Wanted, along, pair_sums


def sweep_dense(
    plan: DenseLayout,
    wanted: Wanted,
    pairs: DensePairs,
    species: Array | None,
    point: Point,
    direction: Point | None = None,
) -> tuple[Array, Point]:
    """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it.

    Positions are (atoms, 3), charges (atoms,) or None, `species` rows of zeros and a one, (1, species, atoms), or None.
    """
    dtype = jnp.dtype(plan.pair_dtype)
    small, towards = jax.tree.map(lambda a: a.astype(dtype), (point, direction))

    def everything(p: Point) -> tuple[Array, Point]:
        if plan.images is None:
            return _nearest_gradient(plan, wanted, p, species, pairs.counted)
        return _image_gradient(wanted, p, jnp.asarray(plan.images, dtype), species, pairs.counted)

    energy, found = along(everything, small, towards)
    back = jax.tree.map(lambda a, b: a.astype(b.dtype), found, point)
    return energy.astype(point.position.dtype), back


def _nearest_gradient(
    plan: DenseLayout, wanted: Wanted, point: Point, species: Array | None, counted: Array | None
) -> tuple[Array, Point]:
    """Each ordered pair with weight 1/2, at its nearest image.

    Component by component, and summed by products with ones: XLA:CPU makes few loops of it, where a product with the cell for each
    pair takes four times as long.
    """
    x, charge = point.position.T, point.charge
    d = [a[:, None] - a[None, :] for a in x]
    images = nearest_images(plan, lax.stop_gradient(d), lax.stop_gradient(point.vectors))
    if plan.periodic and plan.skewed:
        d = [d[c] - sum(images[k] * point.vectors[k, c] for k in range(3)) for c in range(3)]
    elif plan.periodic:
        d = [d[c] - images[c] * point.vectors[c, c] for c in range(3)]
    half, counted = jnp.full((1, x.shape[1]), 0.5, x.dtype), None if counted is None else counted[None]
    products = None if charge is None else charge[None, :, None] * charge[None, None, :]
    r2 = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2])[None]
    found = pair_sums(wanted, point.terms, r2, Marks(half, species, species, counted), products)
    position, vectors = jnp.zeros_like(point.position), jnp.zeros_like(point.vectors)
    ones = jnp.ones(x.shape[1], x.dtype)
    if wanted != "energy":
        slopes = [found.force[0] * a for a in d]
        position = 2 * jnp.stack([a @ ones for a in slopes], axis=1)
        if wanted == "gradient" and plan.periodic:
            vectors = -jnp.stack([jnp.stack([jnp.vdot(image * a @ ones, ones) for a in slopes]) for image in images])
    if charge is not None:
        charge = jnp.zeros_like(charge) if found.potential is None else 2 * found.potential[0] @ charge
    return found.energy[0], Point(found.terms, vectors, position, charge)


def nearest_images(plan: DenseLayout, d: Sequence[Array], vectors: Array) -> list[Array]:
    """Return the lattice vectors between the atoms of each pair; None in open space."""
    if not plan.periodic:
        return []
    if plan.skewed:
        inverted = inverse(vectors)
        return [jnp.round(sum(d[c] * inverted[c, k] for c in range(3))) for k in range(3)]
    return [jnp.round(d[c] * (1 / vectors[c, c])) for c in range(3)]


def _image_gradient(
    wanted: Wanted, point: Point, images: Float[Array, "images 3"], species: Array | None, counted: Array | None
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
    if counted is not None:
        counted = jnp.tile(jnp.broadcast_to(counted, (atoms, atoms)), (1, count))[None]
    energy, by = block_gradient(wanted, sides, Marks(half, species, many, counted))
    by_y = by.y[0, :3].reshape(3, count, atoms)
    charge = None
    if point.charge is not None:
        charge = by.charge_x[0] + by.charge_y.reshape(count, atoms).sum(0)
    vectors = jnp.einsum("kn,ckj->nc", images, by_y)
    return energy, Point(by.terms, vectors, by.x[0, :3].T + by_y.sum(1).T, charge)
