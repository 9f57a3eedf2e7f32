"""A pair potential from a plain function or a network."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ._potential import PairPotential, with_slope
from ._truncation import Truncated, Truncation


class Lifted(eqx.Module):
    """A number of a function's own: coefficients that are numbers are spread over the pairs, which see one function alike."""

    array: Float[Array, " 1"]


class PairFunction(PairPotential):
    r"""Any scalar function u(r), or any Equinox module that is one: derivatives by automatic differentiation of the scalar.

    **Arguments:**

    - `function`: from a distance, a scalar array, to an energy, a scalar array. An Equinox module (a network) keeps its arrays as
        the potential's parameters; numbers that a plain function captures are constants.
    - `cutoff`, `truncation`: where and how the interaction ends. `Switched` makes any network smooth there.

    ```python
    import jax.numpy as jnp
    import simkit

    repulsion = simkit.md.PairFunction(lambda r: jnp.exp(-3 * r) / r, cutoff=2.0, truncation=simkit.md.Switched(1.6))
    ```
    """

    function: Callable[[Any], Any]
    cutoff: float = eqx.field(static=True, converter=float)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        arrays = eqx.filter(self.function, eqx.is_inexact_array)
        return jax.tree.map(lambda a: Lifted(a[None]) if a.ndim == 0 else a, arrays)

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        lifted = lambda leaf: isinstance(leaf, Lifted)
        arrays = jax.tree.map(lambda leaf: leaf.array[0] if lifted(leaf) else leaf, coefficients, is_leaf=lifted)
        function = eqx.combine(arrays, eqx.filter(self.function, eqx.is_inexact_array, inverse=True))

        def energy(r2: Array) -> Array:
            return jax.vmap(lambda r: jnp.reshape(function(r), ()))(jnp.sqrt(r2).ravel()).reshape(r2.shape)

        return with_slope(energy, r2)
