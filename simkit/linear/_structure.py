"""Solves of (I - a J) x = b by the structure of J; without one, as a full matrix."""

import abc
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PyTree

from ._colours import column_colours
from ._dense import back_substitute, factorise
from ._pattern import Pattern

Jacobian: TypeAlias = Callable[[Array], Array] | Float[Array, "n n"]
"""A Jacobian as its product with a vector, or as the matrix where a system knows it."""


class Structure(abc.ABC):
    """A way to set up and solve the equations (I - a J) x = b. It holds numbers of places and no traced values."""

    name: str
    pattern: Pattern | None
    colours: Int[np.ndarray, " n"] | None
    large: bool = False
    """True where a solve is a program of hundreds of operations, better written once, in a loop, than out many times."""

    @abc.abstractmethod
    def shifted(self, jacobian: Jacobian, a: ArrayLike, like: Float[Array, " n"]) -> Any:
        """The entries of I - a J as this structure holds them."""

    @abc.abstractmethod
    def described(self) -> str:
        """Return the way of solving, as a clause."""

    @abc.abstractmethod
    def factors(self, w: Any) -> Any:
        """The factors of such a matrix."""

    @abc.abstractmethod
    def solve(self, factors: PyTree, b: Float[Array, " n"], transpose: bool) -> Float[Array, " n"]:
        """The solution with these factors, or with those of the transpose."""


class Dense(Structure):
    """A full matrix, made column by column, or colour by colour where there are few."""

    name = "dense"

    def __init__(self, pattern: Pattern | None = None) -> None:
        self.pattern = pattern
        self.colours = None if pattern is None else column_colours(pattern)

    def shifted(self, jacobian: Jacobian, a: ArrayLike, like: Float[Array, " n"]) -> Float[Array, "n n"]:
        identity = identity_like(like)
        if not callable(jacobian):
            return identity - a * jacobian
        if self.pattern is None or self.colours is None or self.colours.max() + 1 > like.size // 2:
            return identity - a * jax.vmap(jacobian, out_axes=1)(identity)
        values = compressed(self.pattern, self.colours, jacobian, like)
        return identity - a * jnp.zeros_like(identity).at[self.pattern.rows, self.pattern.columns].set(values)

    def described(self) -> str:
        return "a full matrix"

    def factors(self, w: Float[Array, "n n"]) -> Any:
        return factorise(w)

    def solve(self, factors: PyTree, b: Float[Array, " n"], transpose: bool) -> Float[Array, " n"]:
        return back_substitute(factors, b, transpose)


class Places(Structure):
    """A structure that holds the entries at the places of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = self._at = pattern
        self.colours = self._seeds = column_colours(pattern)
        self.size, self.diagonal = pattern.size, pattern.rows == pattern.columns

    def shifted(self, jacobian: Jacobian, a: ArrayLike, like: Float[Array, " n"]) -> Float[Array, " places"]:
        return jnp.asarray(self.diagonal, like.dtype) - a * compressed(self._at, self._seeds, jacobian, like)


def compressed(
    pattern: Pattern, colours: Int[np.ndarray, " n"], jacobian: Jacobian, like: Float[Array, " n"]
) -> Float[Array, " places"]:
    """The numbers of a Jacobian at the places of its pattern; without the matrix, from one directional derivative a colour."""
    if not callable(jacobian):
        return jacobian[pattern.rows, pattern.columns]
    seeds = (np.arange(colours.max() + 1)[:, None] == colours).astype(like.dtype)
    products = jax.vmap(jacobian)(jnp.asarray(seeds) + jnp.zeros_like(like)[None])
    return products[colours[pattern.columns], pattern.rows]


def identity_like(y: Float[Array, " n"]) -> Float[Array, "n n"]:
    """The identity, which varies over a mesh of devices as the state does."""
    return jnp.eye(y.size, dtype=y.dtype) + jnp.zeros_like(y)[None]
