"""Solves of (M - a J) x = b by the structure of M and J; without one, as a full matrix."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Inexact, PyTree

from ..core import full_matrix
from ._compression import Compression, Jacobian
from ._dense import back_substitute, factorise
from ._pattern import Pattern
from ._ragged_sums import RaggedSums, Terms


class Structure(abc.ABC):
    """A way to set up and solve the equations (M - a J) x = b. It holds numbers of places and no traced values."""

    name: str
    pattern: Pattern | None
    large: bool = False
    """True where a solve is a program of hundreds of operations, better written once, in a loop, than out many times."""

    @abc.abstractmethod
    def shifted(self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None) -> Any:
        """The entries of M - a J as this structure holds them; M is the identity, a diagonal `(n,)`, or a matrix `(n, n)`."""

    @abc.abstractmethod
    def described(self) -> str:
        """Return the way of solving, as a clause."""

    @abc.abstractmethod
    def factors(self, w: Any) -> Any:
        """The factors of such a matrix."""

    @abc.abstractmethod
    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        """The solution with these factors, or with those of the transpose."""


class Dense(Structure):
    """A full matrix, made column by column, or colour by colour where there are few."""

    name = "dense"

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern = pattern
        self.compression = None if pattern is None else Compression(pattern)

    def shifted(
        self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None
    ) -> Inexact[Array, "n n"]:
        identity = identity_like(like)
        m = identity if mass is None else mass[:, None] * identity if mass.ndim == 1 else mass
        if not callable(jacobian):
            return m - a * full_matrix(jacobian)
        if self.pattern is None or self.compression is None or self.compression.cost > like.size // 2:
            return m - a * jax.vmap(jacobian, out_axes=1)(identity)
        values = self.compression(jacobian, like)
        return m - a * jnp.zeros_like(identity).at[self.pattern.rows, self.pattern.columns].set(values)

    def described(self) -> str:
        made = "" if self.compression is None else f"{self.compression.described()}, "
        return f"{made}a full matrix"

    def factors(self, w: Inexact[Array, "n n"]) -> Any:
        return factorise(w)

    def solve(self, factors: PyTree, b: Inexact[Array, " n"], transpose: bool) -> Inexact[Array, " n"]:
        return back_substitute(factors, b, transpose)


class Places(Structure):
    """A structure that holds the entries at the places of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern, self.compression = pattern, Compression(pattern)
        self.rows, self.columns = pattern.rows, pattern.columns
        self.size, self.diagonal = pattern.size, pattern.rows == pattern.columns
        entries = Terms(pattern.rows, np.arange(pattern.places), pattern.columns)
        self.product = RaggedSums(entries, self.size, (pattern.places, self.size))

    def shifted(
        self, jacobian: Jacobian, a: ArrayLike, like: Inexact[Array, " n"], mass: Array | None = None
    ) -> Inexact[Array, " places"]:
        if mass is None:
            m = jnp.asarray(self.diagonal, like.dtype)
        elif mass.ndim == 1:
            m = jnp.where(self.diagonal, mass[self.rows], 0)
        else:
            m = mass[self.rows, self.columns]
        return m - a * self.compression(jacobian, like)

    def sound(self, w: Inexact[Array, " places"], factors: PyTree) -> Array:
        """Tell whether a solve leaves residuals that are small beside the terms of its equations (Oettli and Prager 1964)."""
        b = jnp.ones_like(w[: self.size])
        w, x = (jnp.append(v, jnp.zeros_like(v[:1])) for v in (w, self.solve(factors, b, False)))
        residual, terms = b - self.product(w, x), b + self.product(jnp.abs(w), jnp.abs(x))
        return jnp.max(jnp.abs(residual) / terms) < jnp.finfo(b.dtype).eps ** 0.25


def identity_like(y: Inexact[Array, " n"]) -> Inexact[Array, "n n"]:
    """The identity, which varies over a mesh of devices as the state does."""
    return jnp.eye(y.size, dtype=y.dtype) + jnp.zeros_like(y)[None]
