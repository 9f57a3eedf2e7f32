"""The family of bonded potentials: sums over terms of a few named atoms each."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ..space._space import Space
from ._many_body import AtomView, ManyBodyPotential

Columns: TypeAlias = tuple[Array, ...]
"""The components of vectors, one array each: XLA:CPU does not vectorise sums over a last axis of three."""


def as_indices(value: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]]) -> Array:
    """Whole numbers as int32; floats are refused, not rounded."""
    found: Any = value if hasattr(value, "dtype") else np.asarray(value)
    if jnp.issubdtype(found.dtype, jnp.integer):
        return jnp.asarray(found, jnp.int32)
    raise ArgumentError(
        f"Arguments `atoms` and `kind` must be whole numbers, but hold {found.dtype}. Give indices, counted from 0."
    )


def optional_indices(value: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]] | None) -> Array | None:
    return None if value is None else as_indices(value)


class BondedPotential(ManyBodyPotential):
    r"""A sum over terms, $U = \sum_b u_b$, each of a few atoms that are named beforehand.

    Parameters are one number for all terms, or one a term, or one a kind where `kind` says of which kind each is. Atoms of a term
    are taken at the images nearest to each other. An index without an atom makes the energy NaN.
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    distinct: ClassVar[int | None] = None
    """Number of successive atoms of a term that must differ; None for all of them."""
    atoms: AbstractVar[Int[Array, "terms size"]]
    """The atoms of every term, counted from 0."""
    kind: AbstractVar[Int[Array, " terms"] | None]
    """Row of the parameters that each term takes; None where parameters are single numbers or one a term."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of atoms of a term."""

    @abc.abstractmethod
    def term(self, space: Space, position: Float[Array, "terms size d"]) -> Float[Array, " terms"]:
        """The energies of the terms."""

    def energy(self, view: AtomView) -> Array:
        return jnp.sum(view.present(self.term(view.space, picked(view.position, self.atoms)), self.atoms))

    def each(self, parameter: Array, shape: tuple[int, ...] = ()) -> Array:
        """A parameter of every term. `shape` is that of one parameter, such as (4,) for four coefficients."""
        if parameter.ndim == len(shape):
            return parameter[None] if shape else parameter
        return parameter if self.kind is None else parameter[self.kind]

    def __check_init__(self):
        check_terms(self, self.atoms, self.size, self.distinct)


def check_terms(potential: ManyBodyPotential, atoms: Array, size: int, distinct: int | None = None) -> None:
    """Refuse terms of another number of atoms and, where they are known, those in which an atom stands twice."""
    shape = jnp.shape(atoms)
    if len(shape) < 2 or shape[-1] != size:
        raise ArgumentError(
            f"Argument `atoms` must have shape (terms, {size}) for `{type(potential).__name__}`, but has {shape}. Write a row of "
            "indices a term."
        )
    if isinstance(atoms, jax.core.Tracer) or not isinstance(atoms, jax.Array | np.ndarray):
        return
    rows = np.sort(np.asarray(atoms).reshape(-1, distinct or size), axis=-1)
    if rows.size and rows.min() < 0:
        raise ArgumentError(
            f"Argument `atoms` must count atoms from 0, but holds {rows.min()}. Write the number of the atom itself."
        )
    twice = np.flatnonzero((np.diff(rows, axis=-1) == 0).any(axis=-1)) * (distinct or size) // size
    if len(twice):
        raise ArgumentError(
            f"Argument `atoms` must name different atoms in every term, but term {twice[0]} is "
            f"{np.asarray(atoms).reshape(-1, size)[twice[0]].tolist()}. Correct that row."
        )


def picked(values: Array, atoms: Array) -> Array:
    """Rows of the named atoms; NaN where there is no such atom, as JAX would silently take the last."""
    return values.at[atoms].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)


def length(vector: Array) -> Array:
    """The length of vectors, with derivative 0 at length 0."""
    square = jnp.sum(vector * vector, axis=-1)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), square)


def angle_between(a: Array, b: Array) -> Array:
    r"""$2 \arctan(|\hat a - \hat b| / |\hat a + \hat b|)$: exact near 0 and 180 degrees, where an arc cosine is not."""
    columns = lambda vector: tuple(vector[..., c] for c in range(vector.shape[-1]))
    return _bent(columns(a), columns(b))


@jax.custom_jvp
def _bent(a: Columns, b: Columns) -> Array:
    across, along = _sides(_unit(a), _unit(b))
    return 2 * jnp.arctan2(across, along)


@_bent.defjvp
def _bent_tangent(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The derivative by each vector is normal to it and in the plane of both; 0 where they are in a line and have none."""
    a, b = primals
    first, second = _unit(a), _unit(b)
    across, along = _sides(first, second)
    sine, cosine = across * along / 2, _dotted(first, second)
    some = sine != 0
    kept = lambda vector: jnp.where(some, 1, 0) / jnp.where(some, sine * jnp.sqrt(_dotted(vector, vector)), 1)
    # A barrier: XLA:CPU would divide again for every component.
    of_a, of_b, cosine, first, second = lax.optimization_barrier((kept(a), kept(b), cosine, first, second))
    normal = lambda own, other: tuple(cosine * p - q for p, q in zip(own, other, strict=True))
    turn = of_a * _dotted(normal(first, second), tangents[0]) + of_b * _dotted(normal(second, first), tangents[1])
    return 2 * jnp.arctan2(across, along), turn


def _unit(vector: Columns) -> Columns:
    size = jnp.sqrt(_dotted(vector, vector))
    return tuple(part / size for part in vector)


def _sides(a: Columns, b: Columns) -> tuple[Array, Array]:
    """Lengths of the difference and the sum of two unit vectors."""
    difference, total = tuple(p - q for p, q in zip(a, b, strict=True)), tuple(p + q for p, q in zip(a, b, strict=True))
    return _size(difference), _size(total)


def _size(vector: Columns) -> Array:
    square = _dotted(vector, vector)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), square)


LINE = 8
"""Atoms are in a line where the sine of the angle between their bonds is at most so many roundings, and nothing else."""


def dihedral_angle(space: Space, position: Float[Array, "terms 4 3"]) -> tuple[Array, Array]:
    """Sine and cosine of the angle about the bond between atoms 2 and 3, 0 where 1 and 4 are nearest (cis), by IUPAC's sign.

    Both are 0, with derivatives 0, where three successive atoms are in a line, to rounding: then there is no such angle.
    """
    if position.shape[-1] != 3:
        raise ArgumentError(
            "Dihedral angles must be those of atoms in three dimensions, but the space has two. Leave them out there."
        )
    bonds = [space.displacement(position[:, i + 1], position[:, i]) for i in range(3)]
    return _about_bond(*(tuple(bond[:, c] for c in range(3)) for bond in bonds))


@jax.custom_jvp
def _about_bond(first: Columns, second: Columns, third: Columns) -> tuple[Array, Array]:
    left, right = _crossed(first, second), _crossed(second, third)
    line = _in_line(left, first, second) | _in_line(right, second, third)
    sine = jnp.sqrt(_dotted(second, second)) * _dotted(first, right)
    cosine = _dotted(left, right)
    size = jnp.sqrt(sine * sine + cosine * cosine)
    line = line | (size == 0)
    size = jnp.where(line, 1, size)
    return jnp.where(line, 0, sine) / size, jnp.where(line, 0, cosine) / size


@_about_bond.defjvp
def _about_bond_tangent(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The derivative of the angle is normal to both planes (Blondel & Karplus 1996, J Comput Chem 17:1132)."""
    first, second, third = primals
    sine, cosine = _about_bond(*primals)
    left, right, square = _crossed(first, second), _crossed(second, third), _dotted(second, second)
    some = (sine != 0) | (cosine != 0)
    kept = lambda top, below: jnp.where(some, top, 0) / jnp.where(some, below, 1)
    axis = jnp.sqrt(jnp.where(some, square, 1))
    # Barriers: XLA:CPU would divide again for every component.
    of_left, of_right, before, after = lax.optimization_barrier(
        (
            kept(axis, _dotted(left, left)),
            kept(axis, _dotted(right, right)),
            kept(_dotted(first, second), square),
            kept(_dotted(third, second), square),
        )
    )
    by_first = _dotted(left, tangents[0]) - before * _dotted(left, tangents[1])
    by_third = _dotted(right, tangents[2]) - after * _dotted(right, tangents[1])
    turn = of_left * by_first + of_right * by_third
    return (sine, cosine), (cosine * turn, -sine * turn)


def _dotted(a: Columns, b: Columns) -> Array:
    products = [p * q for p, q in zip(a, b, strict=True)]
    return sum(products[1:], products[0])


def _crossed(a: Columns, b: Columns) -> Columns:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _in_line(normal: Columns, first: Columns, second: Columns) -> Array:
    """Tell whether two bonds with this cross product are parallel to rounding; False for NaN."""
    normal, first, second = lax.stop_gradient((normal, first, second))
    eps = LINE * jnp.finfo(normal[0].dtype).eps
    return jnp.sqrt(_dotted(normal, normal)) <= eps * jnp.sqrt(_dotted(first, first)) * jnp.sqrt(
        _dotted(second, second)
    )


def some_angle(sine: Array, cosine: Array) -> tuple[Array, Array, Array]:
    """Tell whether the angle is defined, and return its sine and cosine; 0 and 1 where it is not."""
    some = (sine != 0) | (cosine != 0)
    return some, sine, jnp.where(some, cosine, 1)
