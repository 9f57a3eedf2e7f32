"""Explicit Runge-Kutta methods with their stages unrolled."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .._types import State, Time
from ..core import SystemTerm, scaled
from ._stepper import Step, Stepper

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

# Below this many numbers a whole step fuses into one small kernel. Above it XLA on CPU would compute a stage again for
# every shifted read of it (4 to 10 times the work), so that each stage state and slope is kept apart.
BARRIER_SIZE = 64


class Tableau(NamedTuple):
    """Coefficients of an explicit Runge-Kutta method, as in Butcher's tableau.

    **Arguments:**

    - `c`: the nodes of the second and the later stages.
    - `a`: the rows of the matrix below its diagonal, one for each of these stages.
    - `b`: the weights of the result; where the last row of `a` equals `b` without its last, zero entry, the last slope of a
      step is the first of the next one.
    - `error`: the weights of the error estimate, those of the result minus those of the embedded method; None without one.
    """

    c: Sequence[float]
    a: Sequence[Sequence[float]]
    b: Sequence[float]
    error: Sequence[float] | None = None

    @property
    def first_same_as_last(self) -> bool:
        """Tell whether the last stage is evaluated at the result."""
        return self.c[-1] == 1 and self.b[-1] == 0 and tuple(self.a[-1]) == tuple(self.b[:-1])


class AbstractExplicitRungeKutta(Stepper):
    """y1 = y0 + h sum_i b_i k_i with k_i = f(t0 + c_i h, y0 + h sum_j a_ij k_j).

    A method is a Butcher tableau and the interpolation that belongs to it.
    """

    tableau: AbstractClassVar[Tableau]

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        return term.vf(jnp.asarray(t), y) if self.tableau.first_same_as_last else None

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        table = self.tableau
        large = sum(leaf.size for leaf in jax.tree.leaves(y0)) >= BARRIER_SIZE
        reused = table.first_same_as_last
        field = jax.jit(lambda t, y: term.vf(t, y))  # traced and lowered once for all stages
        slopes, y1 = [memory if reused else field(t0, y0)], y0
        for node, row in zip(table.c, table.a, strict=True):
            y1 = _apart(t0, y0, h, row, slopes) if large else combine(y0, h, row, slopes)
            t = t1 if node == 1 else t0 + float(node) * h  # t0 + (t1 - t0) may round past t1, where an input may jump
            slope = field(t, y1)
            slopes.append(jax.lax.optimization_barrier(slope) if large else slope)
        if not reused:  # else the last stage state is the result
            y1 = combine(y0, h, table.b, slopes)
        error = combine(None, h, table.error, slopes) if self.adaptive and table.error is not None else None
        # XLA drops the stack where nothing interpolates.
        k = jax.tree.map(lambda *leaves: scaled(h, jnp.stack(leaves)), *slopes)
        dense = {"y0": y0, "y1": y1, "k": k}
        return Step(y1, error, dense, slopes[-1] if reused else None)


def weighted_stages(dense: PyTree, weights: np.ndarray) -> tuple[Any, ...]:
    """sum_i weights[j, i] k_i for every power j, leaving out zero weights."""
    rows = [[(i, float(w)) for i, w in enumerate(row) if w != 0] for row in weights]
    return tuple(jax.tree.map(lambda k, row=row: sum(w * k[i] for i, w in row), dense["k"]) for row in rows)


def combine(y: State, h: Time, weights: PyTree, slopes: list[Any]) -> Any:
    """y + h sum_i weights_i slopes_i, leaving out zero weights; without y the sum alone."""
    pairs = [(float(w), k) for w, k in zip(np.asarray(weights), slopes, strict=True) if w != 0]
    weighted, chosen = [w for w, _ in pairs], [k for _, k in pairs]

    def total(*leaves: PyTree) -> Any:
        return scaled(h, sum(w * k for w, k in zip(weighted, leaves, strict=True)))

    if y is None:
        return jax.tree.map(total, *chosen)
    return jax.tree.map(lambda y, *leaves: y + total(*leaves), y, *chosen)


def _apart(t: Time, y: State, h: Time, weights: PyTree, slopes: list[Any]) -> Any:
    """The sum of `combine`, computed once and stored, whatever reads it.

    An optimization barrier does that with recent versions of XLA; that of JAX 0.10 drops it on CPU before it fuses. A branch
    on what is known only while running is respected by both and costs nothing there; on accelerators it would make the host
    wait. It also marks a time that is not a number.
    """
    if jax.default_backend() != "cpu":
        return jax.lax.optimization_barrier(combine(y, h, weights, slopes))
    missing = functools.partial(jax.tree.map, lambda leaf: jnp.full_like(leaf, jnp.nan))
    return jax.lax.cond(t == t, lambda y, slopes: combine(y, h, weights, slopes), lambda y, _: missing(y), y, slopes)
