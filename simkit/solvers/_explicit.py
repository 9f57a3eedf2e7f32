"""Explicit Runge-Kutta methods with their stages unrolled."""

import functools
from typing import TYPE_CHECKING, Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from ..core import scaled
from ._stepper import Stepper, reuse

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

# Below this many numbers a whole step fuses into one small kernel. Above it XLA on CPU would compute a stage again for
# every shifted read of it (4 to 10 times the work), so that each stage state and slope is kept apart.
BARRIER_SIZE = 64


class AbstractExplicitRungeKutta(Stepper):
    """y1 = y0 + h sum_i b_i k_i with k_i = f(t0 + c_i h, y0 + h sum_j a_ij k_j).

    A method is a Butcher tableau and the interpolation that belongs to it.
    """

    tableau: AbstractClassVar[diffrax.ButcherTableau]

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args) if self.tableau.fsal else None

    def advance(self, terms: Any, t0: Any, t1: Any, h: Any, y0: Any, solver_state: Any, made_jump: Any):
        table = self.tableau
        large = sum(leaf.size for leaf in jax.tree.leaves(y0)) >= BARRIER_SIZE
        if table.fsal and reuse(made_jump):
            first = solver_state
        elif table.fsal:
            first = jax.lax.cond(made_jump, lambda: terms.vf(t0, y0, None), lambda: solver_state)
        else:
            first = terms.vf(t0, y0, None)
        slopes, y1 = [first], y0
        for node, row in zip(table.c, table.a_lower, strict=True):
            y1 = _apart(t0, y0, h, row, slopes) if large else combine(y0, h, row, slopes)
            t = t1 if node == 1 else t0 + float(node) * h  # t0 + (t1 - t0) may round past t1, where an input may jump
            slope = terms.vf(t, y1, None)
            slopes.append(jax.lax.optimization_barrier(slope) if large else slope)
        if not table.fsal:  # else the last stage state is the result
            y1 = combine(y0, h, table.b_sol, slopes)
        error = combine(None, h, table.b_error, slopes) if self.adaptive else None
        # Diffrax's interpolations want increments h k; XLA drops the stack where nothing interpolates.
        k = jax.tree.map(lambda *leaves: scaled(h, jnp.stack(leaves)), *slopes)
        dense = {"y0": y0, "y1": y1, "k": k}
        return y1, error, dense, slopes[-1] if table.fsal else None, diffrax.RESULTS.successful


def weighted_stages(dense: Any, weights: np.ndarray) -> tuple[Any, ...]:
    """sum_i weights[j, i] k_i for every power j, leaving out zero weights."""
    rows = [[(i, float(w)) for i, w in enumerate(row) if w != 0] for row in weights]
    return tuple(jax.tree.map(lambda k, row=row: sum(w * k[i] for i, w in row), dense["k"]) for row in rows)


def combine(y: Any, h: Any, weights: Any, slopes: list[Any]) -> Any:
    """y + h sum_i weights_i slopes_i, leaving out zero weights; without y the sum alone."""
    pairs = [(float(w), k) for w, k in zip(np.asarray(weights), slopes, strict=True) if w != 0]
    weighted, chosen = [w for w, _ in pairs], [k for _, k in pairs]

    def total(*leaves: Any) -> Any:
        return scaled(h, sum(w * k for w, k in zip(weighted, leaves, strict=True)))

    if y is None:
        return jax.tree.map(total, *chosen)
    return jax.tree.map(lambda y, *leaves: y + total(*leaves), y, *chosen)


def _apart(t: Any, y: Any, h: Any, weights: Any, slopes: list[Any]) -> Any:
    """The sum of `combine`, computed once and stored, whatever reads it.

    An optimization barrier does that with recent versions of XLA; that of JAX 0.10 drops it on CPU before it fuses. A branch
    on what is known only while running is respected by both and costs nothing there; on accelerators it would make the host
    wait. It also marks a time that is not a number.
    """
    if jax.default_backend() != "cpu":
        return jax.lax.optimization_barrier(combine(y, h, weights, slopes))
    missing = functools.partial(jax.tree.map, lambda leaf: jnp.full_like(leaf, jnp.nan))
    return jax.lax.cond(t == t, lambda y, slopes: combine(y, h, weights, slopes), lambda y, _: missing(y), y, slopes)
