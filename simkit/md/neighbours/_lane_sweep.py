"""The sweep over listed pairs of many small molecules, side by side."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from ..potentials._bonded import picked
from ..potentials._formula_terms import FormulaTerms
from ..potentials._lanes import Lanes, mark_of
from ._derivative_rule import Sweep
from ._manual import varying_like
from ._pair_sums import Point, Wanted, along


class LaneSweep(Sweep):
    """Sum over the pairs of potentials whose `lanes` lay them out; `fixed.arrays` are their integer arrays."""

    potentials: tuple[FormulaTerms, ...] = eqx.field(static=True)  # without their arrays

    def __call__(self, wanted: Wanted, fixed: Any, point: Point, direction: Point | None = None) -> tuple[Array, Point]:
        everything = fixed, point, direction
        point, direction = varying_like(point, everything), varying_like(direction, everything)
        return along(lambda point: self._found(wanted, fixed.arrays, point), point, direction)

    def _found(self, wanted: Wanted, arrays: Any, point: Point) -> tuple[Array, Point]:
        x = point.position
        columns = [x[:, c] for c in range(x.shape[1])]
        energy, slopes, by_terms = jnp.zeros((), x.dtype), jnp.zeros_like(x), []
        for skeleton, floats, whole in zip(self.potentials, point.terms, arrays, strict=True):
            combined = lambda floats, whole=whole, skeleton=skeleton: eqx.combine(floats, whole, skeleton)
            potential, by_floats = combined(floats), jax.tree.map(jnp.zeros_like, floats)
            kept = mark_of(potential.atoms) == potential.laid
            for lanes in potential.lanes:
                values, collect = jax.vjp(lambda own, at=lanes.place, of=combined: of(own).spread(at), floats)
                own = [picked(column, lanes.atoms) for column in columns]
                found, forces, by_values = _blocks(potential, lanes, own, values, wanted == "gradient")
                energy = energy + jnp.where(kept, found, jnp.nan)
                rows = jnp.where(kept, jnp.stack([force.reshape(-1) for force in forces], axis=-1), jnp.nan)
                slopes = slopes.at[lanes.atoms.reshape(-1)].add(rows, mode="drop")
                if wanted == "gradient":
                    by_floats = jax.tree.map(jnp.add, by_floats, collect(by_values)[0])
            by_terms.append(by_floats)
        still = jax.tree.map(jnp.zeros_like, (point.vectors, point.charge))
        return energy, Point(tuple(by_terms), still[0], slopes, still[1])


def _blocks(
    potential: FormulaTerms, lanes: Lanes, columns: list[Array], values: dict[str, Array], by_values: bool
) -> tuple[Array, list[Array], dict[str, Array]]:
    """Energy, its slopes by the columns of positions, and by the values: one for all, or one a place."""
    single = {name: value for name, value in values.items() if value.ndim == 0}
    apart = {name: value for name, value in values.items() if value.ndim > 0}
    pairs = len(potential.atoms)

    def one(energy: Array, block: PyTree) -> tuple[Array, PyTree]:
        own, place, apart = block
        deep = place.shape[1]
        twice = [jnp.concatenate([column, column]) for column in own]

        def turn(sums: PyTree, step: PyTree) -> tuple[PyTree, PyTree]:
            forces, total, by_single = sums
            k, place, apart = step
            ahead = lambda rows: lax.dynamic_slice_in_dim(rows, k, deep, 0)
            difference = [mine - ahead(column) for mine, column in zip(own, twice, strict=True)]
            squares = [part * part for part in difference]
            square, listed = sum(squares[1:], squares[0]), place < pairs
            spread = {name: jnp.broadcast_to(value, square.shape) for name, value in single.items()} | apart
            # A distance of 1 where there is no pair: any serves, as its result is not used.
            u, over, slopes = _pair(potential, jnp.where(listed, square, 1), spread, by_values)
            u, over, *rest = lax.optimization_barrier(
                [jnp.where(listed, a, 0) for a in (u, over, *(slopes[name] for name in sorted(slopes)))]
            )  # or XLA:CPU computes the formula again for every component
            slopes = dict(zip(sorted(slopes), rest, strict=True))
            turned = []
            for force, part in zip(forces, difference, strict=True):
                pull = over * part
                force = lax.dynamic_update_slice_in_dim(force, force[:deep] + pull, 0, 0)
                turned.append(lax.dynamic_update_slice_in_dim(force, ahead(force) - pull, k, 0))
            by_single = {name: value + slopes[name] for name, value in by_single.items()}
            return (turned, total + u, by_single), {name: slopes[name] for name in apart if by_values}

        zero = jnp.zeros_like(own[0])
        sums = ([jnp.zeros_like(column) for column in twice], zero, {name: zero for name in single if by_values})
        steps = (jnp.arange(1, len(place) + 1, dtype=jnp.int32), place, apart)
        (forces, total, by_single), by_apart = lax.scan(turn, sums, steps)
        folded = [force[:deep] + force[deep:] for force in forces]
        return energy + jnp.sum(total), (folded, jax.tree.map(jnp.sum, by_single), by_apart)

    energy, (forces, by_single, by_apart) = lax.scan(
        one, jnp.zeros((), columns[0].dtype), (columns, lanes.place, apart)
    )
    return energy, forces, jax.tree.map(jnp.sum, by_single) | by_apart


def _pair(
    potential: FormulaTerms, square: Array, values: dict[str, Array], by_values: bool
) -> tuple[Array, Array, dict[str, Array]]:
    """Energy, its slope by the distance over the distance, and its slopes by the values."""
    some = square > 0
    r = jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), square)  # NaN stays NaN
    ones = jnp.ones_like(r)
    u, pull = jax.vjp(lambda r, values: jnp.broadcast_to(potential.of_distance(r, values), r.shape), r, values)
    slope, by = pull(ones)
    # Atoms at one place have no direction to each other: 0 where the slope is finite, as elsewhere.
    return u, jnp.where(some, slope / jnp.where(some, r, 1), 0 * slope), by if by_values else {}
