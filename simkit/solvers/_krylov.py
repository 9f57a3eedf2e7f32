"""Equations of implicit steps solved by GMRES: no matrix is made, and no factors but those of a preconditioner."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Inexact, PyTree

from .._doors import check_count, check_function
from .._errors import ArgumentError
from .._types import State, Time
from ..core import SystemTerm
from ..linear import BlockJacobi, Structure, Unchanged, gmres, sparse_pattern
from ._stated import JacobianPattern, stated_places

Preconditioner = Callable[..., State]

ROUNDS = 4
"""Krylov spaces, one after the other, in which the equations of a step are solved; where they do not, the step fails."""

DERIVATIVE_ROUNDS = 50
DERIVATIVE_DIGITS = 0.65
"""Share of the digits of a number to which equations of derivatives are solved."""


class Krylov(eqx.Module):
    r"""Solutions of (I - c J) x = b by restarted GMRES with products J v, for fields too large to factorise.

    By default the preconditioner is block Jacobi: states at one index of all arrays of one shape, such as the species in a cell of
    a grid, form a block, whose entries come from the colours of the Jacobian's pattern. Factors serve many steps. A field that
    mixes all states, as one with a Fourier transform, has no preconditioner by default and needs one of its own.

    **Arguments:**

    - `preconditioner`: a function `preconditioner(system, t, y, inputs, c, b)` that returns an approximate solution x, linear in b;
        y, b and x are states as the system steps them. For diffusion an inverse by transforms makes the number of products
        independent of the grid.
    - `vectors`: the dimension of a Krylov space, 10 to 50. So many states are held beside the solver's own.

    **Raises:** an `ArgumentError` for a number of vectors below 1.

    Saad and Schultz (1986), SIAM J. Sci. Stat. Comput. 7:3, doi:10.1137/0907058.
    """

    preconditioner: Preconditioner | None = eqx.field(static=True, default=None)
    vectors: int = eqx.field(static=True, default=20)

    def __check_init__(self) -> None:
        check_count("vectors", self.vectors)
        if self.preconditioner is not None:
            check_function("preconditioner", self.preconditioner, ("system", "t", "y", "inputs", "c", "b"))

    def structure_of(
        self,
        field: Callable[[Array], Array],
        y: Inexact[Array, " n"],
        state: State,
        mass: Array | None = None,
        pattern: JacobianPattern | None = None,
    ) -> Structure:
        """The preconditioner's structure, from the pattern of the Jacobian and the arrays of a state.

        Equations are (M - c J) x = b; `mass` is the diagonal of M, where that is not the identity; `pattern` was stated.
        """
        if mass is not None and mass.ndim != 1:
            raise ArgumentError(
                "Argument `krylov` serves a `ConstrainedSystem` with a diagonal mass matrix, but this one has a full one. Leave "
                "it out, or return the diagonal from `mass`."
            )
        if self.preconditioner is not None:
            return Unchanged()
        places = sparse_pattern(field, y, stated_places(pattern, y.size))
        if places is None:
            return Unchanged()
        kinds: list[list[int]] = []
        before: Any = None
        for leaf in jax.tree.leaves(state):
            if kinds and leaf.shape == before:
                kinds[-1][0] += 1
            else:
                kinds.append([1, leaf.size])
            before = leaf.shape
        return BlockJacobi(places, [(size, count) for size, count in kinds if count])

    def iterative(
        self, term: SystemTerm, t: Time, unravel: Any, y: Inexact[Array, " n"], c: Array, structure: Structure
    ) -> "Iterative":
        """The way to solve the equations of a step from a predicted state y."""
        if jnp.issubdtype(y.dtype, jnp.complexfloating):
            raise ArgumentError(
                "Argument `krylov` serves states of real numbers, but this system steps complex ones. Leave it out, or take a "
                "solver for split systems, such as `ETDRK4`."
            )
        y, c = jax.lax.stop_gradient((y, c))
        given = self.preconditioner
        if given is None:
            return Iterative(structure.solve, _sizes(unravel(y)), self.vectors)

        def applied(b: Array) -> Array:
            found = given(term.system, t, unravel(y), term.inputs, c, unravel(b))
            if jax.tree.structure(found) != jax.tree.structure(unravel(b)):
                raise ArgumentError(
                    f"The preconditioner must return a state like b, {jax.tree.structure(unravel(b))}, but returns "
                    f"{jax.tree.structure(found)}."
                )
            return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(found)])

        def approximate(_: PyTree, b: Array, transpose: bool) -> Array:
            return jax.linear_transpose(applied, b)(b)[0] if transpose else applied(b)

        return Iterative(approximate, _sizes(unravel(y)), self.vectors)


class Iterative(NamedTuple):
    """Solves by GMRES.

    `approximate(factors, b, transpose)` is the preconditioner; `sizes`, for each number of the state the largest of its array,
    in units of which residuals of derivatives are measured.
    """

    approximate: Callable[[PyTree, Array, bool], Array]
    sizes: Float[Array, " n"]
    vectors: int

    def solve(
        self, product: Callable[[Array], Array], factors: PyTree, b: Array, scale: Array, tolerance: Array
    ) -> tuple[Array, Bool[Array, ""]]:
        """The solution with a root mean square residual of `tolerance`, in units of `scale`; and whether it was reached."""
        euclidean = tolerance * jnp.sqrt(jnp.asarray(b.size, b.dtype))
        return self._solve(product, factors, b, scale, euclidean, ROUNDS, False)

    def derivative(self, product: Callable[[Array], Array], factors: PyTree, b: Array) -> Array:
        """The solution of equations of derivatives, forwards and backwards; NaN where GMRES does not reach it."""

        def exact(transpose: bool) -> Callable[[Any, Array], Array]:
            scale = 1 / self.sizes if transpose else self.sizes

            def solve(product: Callable[[Array], Array], b: Array) -> Array:
                wanted = jnp.finfo(b.dtype).eps ** DERIVATIVE_DIGITS * jnp.sqrt(jnp.sum(jnp.square(b / scale)))
                x, found = self._solve(product, factors, b, scale, wanted, DERIVATIVE_ROUNDS, transpose)
                return jnp.where(found, x, jnp.nan)

            return solve

        return jax.lax.custom_linear_solve(product, b, exact(False), exact(True))

    def _solve(
        self,
        product: Callable[[Array], Array],
        factors: PyTree,
        b: Array,
        scale: Array,
        tolerance: Array,
        rounds: int,
        transpose: bool,
    ) -> tuple[Array, Bool[Array, ""]]:
        scaled = lambda v: product(scale * v) / scale
        approximate = lambda v: self.approximate(factors, scale * v, transpose) / scale
        x, found = gmres(scaled, b / scale, approximate, tolerance, vectors=self.vectors, rounds=rounds)
        return scale * x, found


def _sizes(state: State) -> Float[Array, " n"]:
    """Largest number of the array of each number of a state; 1 where all are 0."""

    def largest(x: Array) -> Array:
        size = jnp.max(jnp.abs(x), initial=0)
        return jnp.broadcast_to(jnp.where(size > 0, size, 1), (int(np.size(x)),)).astype(x.dtype)

    return jnp.concatenate([largest(x) for x in jax.tree.leaves(state)])
