r"""Linear algebra of deviations on several levels: sums over individuals of matrices that join each with its groups.

With $P_i$ the deviations on which individual i depends, its own and those of its groups from the innermost level outwards, the
matrix

$$H = \sum_i P_i^T M_i P_i$$

is shaped like an arrow on each level. Individuals are eliminated first, then the groups of each level: what is left of each, its
Schur complement, adds up in the group above. So the work grows as the number of individuals.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from ..linear import log_determinant, solve
from ..problem import Population


class _Floor(NamedTuple):
    """One level of an elimination: so many deviations go, and members add up to their groups; None at the top."""

    size: int
    parents: np.ndarray | None
    groups: int


def _floors(population: Population) -> list[_Floor]:
    """The levels from individuals to the outermost groups."""
    found, size = [], population.own_effects
    below = np.arange(len(population.labels))  # the first individual of each group of the level before
    for level in population.levels:
        found.append(_Floor(size, np.array(level.owners)[below], len(level.labels)))
        size, below = len(level.effects), level.first
    return [*found, _Floor(size, None, 0)]


def units_of(population: Population) -> np.ndarray:
    """The independent unit of each individual: its outermost group, or itself."""
    return np.array(population.levels[-1].owners) if population.levels else np.arange(len(population.labels))


def summed(population: Population, values: Num[Array, "individual ..."]) -> Num[Array, "unit ..."]:
    """Sums over the individuals of each independent unit."""
    if not population.levels:
        return values
    return jax.ops.segment_sum(values, jnp.asarray(units_of(population)), len(population.levels[-1].labels))


def _added(values: Array, floor: _Floor) -> Array:
    return jax.ops.segment_sum(values, jnp.asarray(floor.parents), floor.groups)


def solved(
    population: Population,
    matrices: Float[Array, "individual effect effect"],
    right: Float[Array, "individual effect k"],
) -> Float[Array, "individual effect k"]:
    r"""Return $x$ with $H x = \sum_i P_i^T r_i$, at each individual: groups have the same numbers at all of their members."""
    return _solved(_floors(population), matrices, right)


def _solved(floors: list[_Floor], matrices: Array, right: Array) -> Array:
    floor, e = floors[0], floors[0].size
    if floor.parents is None:
        return jax.vmap(solve)(matrices, right)
    rest = matrices.shape[1] - e
    gone = jax.vmap(solve)(matrices[:, :e, :e], jnp.concatenate([matrices[:, :e, e:], right[:, :e]], axis=2))
    across, own = gone[:, :, :rest], gone[:, :, rest:]
    left = matrices[:, e:, e:] - matrices[:, e:, :e] @ across
    above = _solved(floors[1:], _added(left, floor), _added(right[:, e:] - matrices[:, e:, :e] @ own, floor))
    above = above[floor.parents]
    return jnp.concatenate([own - across @ above, above], axis=1)


def log_determinants(population: Population, matrices: Float[Array, "individual effect effect"]) -> Float[Array, ""]:
    """The logarithm of the determinant of $H$."""
    total = jnp.zeros((), matrices.dtype)
    for floor in _floors(population):
        e = floor.size
        total = total + jnp.sum(jax.vmap(log_determinant)(matrices[:, :e, :e]))
        if floor.parents is not None:
            across = jax.vmap(solve)(matrices[:, :e, :e], matrices[:, :e, e:])
            matrices = _added(matrices[:, e:, e:] - matrices[:, e:, :e] @ across, floor)
    return total


def covariances(
    population: Population, matrices: Float[Array, "individual effect effect"]
) -> Float[Array, "individual effect effect"]:
    """The blocks $P_i H^{-1} P_i^T$ of the inverse."""
    return _covariances(_floors(population), matrices)


def _covariances(floors: list[_Floor], matrices: Array) -> Array:
    floor, e = floors[0], floors[0].size
    eye = jnp.broadcast_to(jnp.eye(e, dtype=matrices.dtype), (matrices.shape[0], e, e))
    if floor.parents is None:
        return jax.vmap(solve)(matrices, eye)
    gone = jax.vmap(solve)(matrices[:, :e, :e], jnp.concatenate([matrices[:, :e, e:], eye], axis=2))
    rest = matrices.shape[1] - e
    across, own = gone[:, :, :rest], gone[:, :, rest:]
    left = _added(matrices[:, e:, e:] - matrices[:, e:, :e] @ across, floor)
    above = _covariances(floors[1:], left)[floor.parents]
    corner = -across @ above
    top = jnp.concatenate([own - corner @ across.transpose(0, 2, 1), corner], axis=2)
    return jnp.concatenate([top, jnp.concatenate([corner.transpose(0, 2, 1), above], axis=2)], axis=1)


def whole(
    population: Population, matrices: Float[Array, "individual effect effect"]
) -> Float[Array, "deviation deviation"]:
    """The matrix $H$ itself, by the deviations of `theta`."""
    count = population.places.size
    sources = population.sources.T
    rows = jnp.broadcast_to(sources[:, :, None], matrices.shape)
    # Occasions that an individual lacks lie behind the last place and are dropped.
    found = jnp.zeros((count + 1, count + 1), matrices.dtype).at[rows, rows.transpose(0, 2, 1)].add(matrices)
    return found[:count, :count]
