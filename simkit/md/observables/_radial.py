"""The radial distribution function."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ..space._space import Space
from ._pairs import check_cutoff, distance, over_frames, over_rows

WIDTHS = 6.0
"""Range of a smoothed pair in standard deviations; the rest is 2e-9 of it."""


class RadialDistribution(eqx.Module):
    """`distance`, the middles of the bins; `g`; `coordination`, how many neighbours an atom has up to the end of each bin."""

    distance: Float[Array, " bins"]
    g: Float[Array, " bins"]
    coordination: Float[Array, " bins"]


def radial_distribution(
    space: Space,
    position: Float[Array, "*frames atoms d"],
    *,
    cutoff: float,
    bins: int = 100,
    smoothing: float | None = None,
    species: Int[Array, " n"] | None = None,
    pair: tuple[int, int] | None = None,
) -> RadialDistribution:
    r"""The radial distribution function of a frame, or its mean over the frames of a trajectory,

    $$g(r_k) = \frac{V}{N (N - 1)} \sum_{i \ne j} \frac{n_k(r_{ij})}{v_k}, \qquad
    v_k = \tfrac{4 \pi}{3} (r_{k+1/2}^3 - r_{k-1/2}^3)$$

    where $n_k$ is 1 for a distance in bin k and 0 for others; in two dimensions $v_k$ is the area of a ring.

    A histogram has no derivative by the positions. With `smoothing` w, $n_k$ is the part of a Gaussian of width w around
    the distance that falls into the bin: then g is differentiable, and wider by w.

    **Arguments:**

    - `space`: periodic; one for all frames, or with a leading axis of frames.
    - `position`: shape (atoms, d) or (frames, atoms, d), wrapped or not.
    - `cutoff`: where the last bin ends; with 6 w at most half the smallest distance between opposite faces.
    - `bins`: how many, of equal width from 0 on.
    - `smoothing`: the width w, positive; None for a plain histogram.
    - `species`, `pair`: for the function of species a around b, $N_a (N_b - \delta_{ab})$ in place of N (N - 1).

    **Returns:** a `RadialDistribution`.

    **Raises:** an `ArgumentError` for a space without a volume, a cutoff beyond half the cell, a smoothing or a number
    of bins that is not positive, `pair` without `species`.

    **Good values:** bins of 0.02 to 0.05 sigma; a smoothing of one bin.

    **Source:** Allen and Tildesley (2017), Computer Simulation of Liquids, section 8.2.

    ```python
    from simkit.md import crystal, radial_distribution
    solid = crystal("fcc", 1.5, 4)
    print(radial_distribution(solid.space, solid.position, cutoff=3.0, bins=60).coordination[25])  # prints 12.0
    ```
    """
    _check(space, position, bins, smoothing, species, pair)
    check_cutoff(space, cutoff + (0.0 if smoothing is None else WIDTHS * smoothing))
    dtype, d = position.dtype, position.shape[-1]
    first, second, pairs = _weights(position.shape[-2], species, pair, dtype)
    edges = jnp.linspace(0.0, cutoff, bins + 1, dtype=dtype)
    shells = jnp.diff((math.pi if d == 2 else 4 * math.pi / 3) * edges**d)

    def one(space: Space, q: Array) -> tuple[Array, Array]:
        def row(apart: Array, other: Array, weight: Array) -> Array:
            counted = jnp.where(other, weight[:, None] * second[None, :], 0.0)
            return _binned(distance(apart, other), counted, cutoff, bins, smoothing)

        counts = jnp.sum(over_rows(space, q, row, first), axis=0)
        return counts * (space.volume().astype(dtype) / pairs), counts

    density, counts = over_frames(space, position, one)
    atoms = jnp.maximum(jnp.sum(first), 1.0)
    return RadialDistribution((edges[1:] + edges[:-1]) / 2, density / shells, jnp.cumsum(counts) / atoms)


def _binned(r: Array, weight: Array, cutoff: float, bins: int, smoothing: float | None) -> Array:
    """The weights of distances, summed by bin."""
    width = cutoff / bins
    place = jnp.floor(jax.lax.stop_gradient(r) / width).astype(jnp.int32)
    counts = jnp.zeros(bins, r.dtype)
    if smoothing is None:
        place = jnp.where(r < cutoff, place, bins)  # past the end: dropped
        return counts.at[place.reshape(-1)].add(weight.reshape(-1), mode="drop")
    reach = math.ceil(WIDTHS * smoothing / width)
    offsets = jnp.arange(-reach, reach + 2, dtype=jnp.int32)[None, None, :]
    edges = (place[..., None] + offsets).astype(r.dtype) * width
    below = jax.scipy.special.erf((edges - r[..., None]) / (math.sqrt(2.0) * smoothing)) / 2
    shares = jnp.diff(below, axis=-1) * weight[..., None]
    places = place[..., None] + offsets[..., :-1]
    places = jnp.where((places >= 0) & (places < bins), places, bins)
    return counts.at[places.reshape(-1)].add(shares.reshape(-1), mode="drop")


def _weights(
    atoms: int, species: Array | None, pair: tuple[int, int] | None, dtype: DTypeLike
) -> tuple[Array, Array, Array]:
    """Return masks of central and of surrounding atoms, and the number of pairs."""
    if species is None or pair is None:
        ones = jnp.ones(atoms, dtype)
        return ones, ones, jnp.asarray(max(atoms * (atoms - 1), 1), dtype)
    first, second = ((species == s).astype(dtype) for s in pair)
    others = jnp.sum(second) - (1.0 if pair[0] == pair[1] else 0.0)
    return first, second, jnp.maximum(jnp.sum(first) * others, 1.0)


def _check(
    space: Space,
    position: Array,
    bins: int,
    smoothing: float | None,
    species: Array | None,
    pair: tuple[int, int] | None,
) -> None:
    if not space.periodic:
        raise ArgumentError(
            "Argument `space` must have a volume, which the density is taken from, but it is open. Take a histogram of distances "
            "(`simkit.reducers.Histogram`) there."
        )
    if bins < 1:
        raise ArgumentError(f"Argument `bins` must be at least 1, but it is {bins}.")
    if smoothing is not None and not smoothing > 0:
        raise ArgumentError(f"Argument `smoothing` must be positive or None, but it is {smoothing}.")
    if (species is None) != (pair is None):
        raise ArgumentError("Arguments `species` and `pair` must be given together, but one of them is missing.")
    if species is not None and species.shape != position.shape[-2:-1]:
        raise ArgumentError(
            f"Argument `species` must have the shape ({position.shape[-2]},), one an atom, but it has {species.shape}."
        )
