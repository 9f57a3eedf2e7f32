"""The quasi-Newton method of limited memory."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..._errors import ArgumentError
from ._minimiser import Minimiser, Search, bounded


class Memory(NamedTuple):
    """Steps and changes of the slope, the newest last; the direction, and how much of it is tried."""

    steps: Array
    changes: Array
    direction: Array
    share: Array


class LBFGS(Minimiser):
    r"""L-BFGS: a Newton step with a Hessian guessed from the last steps s and changes of the slope y, and shortened until the
    energy falls:

    $$x_{n+1} = x_n - \alpha H_n \nabla U(x_n), \qquad H_{n+1} = \left(1 - \tfrac{s y^T}{y^T s}\right) H_n
    \left(1 - \tfrac{y s^T}{y^T s}\right) + \tfrac{s s^T}{y^T s}$$

    The fastest near a minimum.

    **Arguments:** `memory`: how many steps are remembered; `most`: the farthest an atom moves in a step, in the unit of length.

    **Good values:** 20 steps; a tenth of the distance of neighbours.

    **Source:** Nocedal (1980), doi:10.1090/S0025-5718-1980-0572855-7.
    """

    memory: int = eqx.field(static=True, default=20)
    most: float = eqx.field(static=True, default=0.1)

    def __check_init__(self):
        if self.memory < 1 or not self.most > 0:
            raise ArgumentError(
                f"Arguments `memory` and `most` must be positive, but they are {self.memory} and {self.most}."
            )

    @property
    def name(self) -> str:
        return "L-BFGS"

    def begun(self, point: Array, energy: Array, slope: Array, weight: Array) -> Search:
        empty = jnp.zeros((self.memory, point.size), point.dtype)
        return Search(point, energy, slope, Memory(empty, empty, self._first(slope, weight), jnp.ones_like(energy)))

    def proposed(self, search: Search, weight: Array) -> tuple[Array, Search]:
        return search.point + search.kept.share * search.kept.direction, search

    def judged(self, search: Search, trial: Array, energy: Array, slope: Array, weight: Array) -> Search:
        kept = search.kept
        expected = kept.share * jnp.vdot(search.slope, kept.direction)
        noise = 20 * jnp.finfo(energy.dtype).eps * jnp.abs(search.energy)
        good = energy <= search.energy + 1e-4 * expected + noise

        def accepted() -> Search:
            step, change = trial - search.point, slope - search.slope
            # Where the energy curves upward only: elsewhere the guess would not be one of a minimum.
            upward = jnp.vdot(step, change) > 0
            put = lambda rows, row: jnp.where(upward, jnp.concatenate([rows[1:], row[None]]), rows)
            steps, changes = put(kept.steps, step), put(kept.changes, change)
            direction = bounded(-_inverse_hessian(steps, changes, slope), weight, self.most)
            downhill = jnp.vdot(direction, slope) < 0
            direction = jnp.where(downhill, direction, self._first(slope, weight))
            return Search(trial, energy, slope, Memory(steps, changes, direction, jnp.ones_like(kept.share)))

        def shortened() -> Search:
            # The minimum of the parabola through both energies and the slope, a tenth to a half of the way.
            guess = -0.5 * expected / (energy - search.energy - expected)
            share = kept.share * jnp.clip(jnp.where(jnp.isfinite(guess), guess, 0.1), 0.1, 0.5)
            lost = share < 1e-4
            direction = jnp.where(lost, self._first(search.slope, weight), kept.direction)
            empty = lambda rows: jnp.where(lost, 0.0, rows)
            memory = Memory(empty(kept.steps), empty(kept.changes), direction, jnp.where(lost, 1.0, share))
            return Search(search.point, search.energy, search.slope, memory)

        return jax.tree.map(lambda a, b: jnp.where(good, a, b), accepted(), shortened())

    def _first(self, slope: Array, weight: Array) -> Array:
        """Downhill by a tenth of the farthest step, where nothing is known."""
        size = jnp.max(jnp.abs(weight * slope))
        return -slope * jnp.minimum(1.0, 0.1 * self.most / jnp.where(size > 0, size, 1.0)).astype(slope.dtype)


def _inverse_hessian(steps: Array, changes: Array, slope: Array) -> Array:
    """The guessed inverse Hessian times a slope, by the two loops of the method."""
    products = jnp.einsum("kn,kn->k", steps, changes)
    rho = jnp.where(products > 0, 1 / jnp.where(products > 0, products, 1.0), 0.0)

    def down(q: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        step, change, r = row
        a = r * jnp.vdot(step, q)
        return q - a * change, a

    q, shares = jax.lax.scan(down, slope, (steps, changes, rho), reverse=True)
    squared = jnp.vdot(changes[-1], changes[-1])
    q = q * jnp.where(squared > 0, products[-1] / jnp.where(squared > 0, squared, 1.0), 1.0)

    def up(q: Array, row: tuple[Array, Array, Array, Array]) -> tuple[Array, None]:
        step, change, r, a = row
        return q + (a - r * jnp.vdot(change, q)) * step, None

    return jax.lax.scan(up, q, (steps, changes, rho, shares))[0]
