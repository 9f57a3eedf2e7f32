"""Equations in another order than their unknowns, so that no place of the diagonal is structurally zero."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Inexact, Int, PyTree

from ..core import full_matrix
from ._compression import Jacobian
from ._pattern import Pattern
from ._structure import Structure


class Reordered(Structure):
    """A structure for equations whose order was changed: equation `order[i]` is the i-th of the inner structure.

    Structures that seek no pivots, or within blocks alone, need numbers on the diagonal. A matching of equations and unknowns
    gives an order that has them (Duff 1981, ACM Trans. Math. Softw. 7:315).

    **Arguments:** `pattern`, that of the equations in their own order; `order`; `inner`, the structure of the equations in order.
    """

    def __init__(self, pattern: Pattern, order: Int[np.ndarray, " n"], inner: Structure) -> None:
        self.pattern, self.order, self.inner = pattern, order, inner
        self.name, self.large = inner.name, inner.large

    def shifted(self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None) -> Any:
        def product(v: Array) -> Array:
            along = jacobian(v) if callable(jacobian) else full_matrix(jacobian) @ v
            own = v if mass is None else mass * v if mass.ndim == 1 else mass @ v
            return jnp.asarray(a * along - own)[self.order]

        return self.inner.shifted(product, 1.0, like, jnp.zeros_like(like))

    def described(self) -> str:
        return f"equations in the order of their unknowns, {self.inner.described()}"

    def factors(self, w: Any) -> Any:
        return self.inner.factors(w)

    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        if not transpose:
            return self.inner.solve(factors, b[self.order], False)
        return jnp.zeros_like(b).at[self.order].set(self.inner.solve(factors, b, True))
