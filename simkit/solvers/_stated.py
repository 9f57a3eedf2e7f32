"""Sparsity patterns of Jacobians as users state them, and their check against the system by random products."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Inexact, Int

from .._doors import check_count, shown
from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ..core import DelayedSystem, System, SystemTerm
from ..linear import AbstractPlaces

SHIFT, SMALL = 0.1, 0.01
"""Relative change of a state at which a pattern is looked at beside the start, and share of the largest state where one is 0."""

ROUNDING = 1e3
"""Rounding errors above which a product counts as none of them. They are seen where a product of a sum is compared with a sum of
products, as those of a Fourier transform are at every place, and at least those of the largest product of a row."""

SUMS = 4
"""Sums of products in which rounding errors are seen. All of them are a thousandth of what they usually are in one case of 1e12."""

SHOWN, UNITS, LEAST_GROUPS, MOST_GROUPS = 3, 3, 32, 256
"""Rows, and columns of each, that a message names; units of the states; groups of columns, each of which costs a derivative."""


class JacobianPattern(AbstractPlaces):
    """The places of a Jacobian that may hold numbers other than 0, as a user states them for `Rodas5P` and `BDF`.

    The state counts as one flat array, in the order of `jax.flatten_util.ravel_pytree` of the state as the solver steps it:
    the arrays of a state by field, those of a dictionary by sorted name, each row by row. The diagonal may be left out.

    **Arguments:** `matrix`, a square matrix of SciPy (sparse) or NumPy, in which every number other than 0, one stored as 0 in a
    sparse matrix too, is a place; row i, column j stand for the derivative of dy_i/dt by y_j. `banded` and `blocks` make the
    common ones.

    **Raises:** an `ArgumentError` for what is no square matrix of numbers.

    ```python
    import numpy as np
    from simkit.solvers import JacobianPattern
    print(JacobianPattern.banded(5, 1))
    print(JacobianPattern.blocks([2, 3]) == JacobianPattern(np.kron(np.eye(5), 1) + JacobianPattern.blocks([2, 3]).matrix()))
    ```
    """

    def __init__(self, matrix: Any) -> None:
        rows, columns, size = _read(matrix)
        keys = np.unique(rows.astype(np.int64) * size + columns)
        self.rows, self.columns, self.size = keys // size, keys % size, size

    @staticmethod
    def banded(size: int, below: int, above: int | None = None) -> "JacobianPattern":
        """Return the pattern in which dy_i/dt depends on the states from i - below to i + above; `above` is `below` by default."""
        import scipy.sparse as sp

        above = below if above is None else above
        for name, value in (("below", below), ("above", above)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
                raise ArgumentError(
                    f"Argument `{name}` must be a whole number of at least 0, but it is {shown(value)}."
                )
        check_count("size", size)
        offsets = [k for k in range(-below, above + 1) if abs(k) < size]
        return JacobianPattern(sp.dia_array((np.ones((len(offsets), size), bool), offsets), shape=(size, size)))

    @staticmethod
    def blocks(sizes: Sequence[int]) -> "JacobianPattern":
        """Return the pattern of independent blocks of states, one after the other, each of them full."""
        import scipy.sparse as sp

        if not isinstance(sizes, Sequence | np.ndarray) or isinstance(sizes, str) or len(sizes) == 0:
            raise ArgumentError(f"Argument `sizes` must be a list of whole numbers, but it is {shown(sizes)}.")
        for size in sizes:
            check_count("sizes", size)
        return JacobianPattern(sp.block_diag([sp.coo_array(np.ones((n, n), bool)) for n in sizes]))

    def __repr__(self) -> str:
        # The number tells patterns with as many places apart, in the texts that compiled programs are compared by.
        share = 100 * len(self.rows) / self.size**2
        return f"JacobianPattern({self.size} x {self.size}, {len(self.rows)} places, {share:.2g} %, {self._hash & 0xFFFF:04x})"


def _read(matrix: Any) -> tuple[Int[np.ndarray, " places"], Int[np.ndarray, " places"], int]:
    """The places of a matrix as a user gives it, and its size."""
    import scipy.sparse as sp

    if not sp.issparse(matrix):
        try:
            matrix = np.asarray(matrix)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"A pattern must be a square matrix of numbers, but it is {shown(matrix)}.") from error
        if matrix.dtype.kind not in "biufc":
            raise ArgumentError(f"A pattern must be a square matrix of numbers, but it holds {matrix.dtype}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ArgumentError(f"A pattern must be a square matrix, but its shape is {matrix.shape}.")
    size = int(matrix.shape[0])
    if sp.issparse(matrix):
        found = sp.coo_array(matrix)
        return found.coords[0], found.coords[1], size
    rows, columns = np.nonzero(matrix)
    return rows, columns, size


def as_pattern(given: Any) -> JacobianPattern | None:
    """The pattern that a user gave, or None."""
    return given if given is None or isinstance(given, JacobianPattern) else JacobianPattern(given)


def stated_places(
    pattern: JacobianPattern | None, size: int
) -> tuple[Int[np.ndarray, " places"], Int[np.ndarray, " places"]] | None:
    """Rows and columns of a pattern that was stated, for a state of a size."""
    if pattern is None:
        return None
    if pattern.size != size:
        raise ArgumentError(
            f"Argument `pattern` must be a matrix of {size} rows and columns, the numbers of the state that the solver steps (with "
            f"the rates of infusions, if there are any), but it has {pattern.size}."
        )
    return pattern.rows, pattern.columns


def check_pattern(pattern: JacobianPattern, system: System, y0: State, times: Any, inputs: Inputs = None) -> None:
    """Refuse a pattern of another size than the state, and one that lacks a place of the Jacobian.

    Columns are put into groups at random. The product of the Jacobian with a random vector of a group must vanish in each row that
    has no place in the group. That is looked at for the start and for a state nearby, the latter at both ends of the times. Traced
    values are not looked at.

    **Raises:** an `ArgumentError`, which names rows and columns.
    """
    if isinstance(system, DelayedSystem):
        raise ArgumentError(
            f"Argument `pattern` serves no systems with delays, as `{type(system).__name__}` is one. Leave it out: the pattern is "
            "then found."
        )
    y = jax.eval_shape(system.encode, y0)
    stated_places(pattern, sum(leaf.size for leaf in jax.tree.leaves(y)))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((system, y0, times, inputs))):
        return
    y = system.encode(y0)
    near, sizes = _nearby(y), _sizes(y)
    for draw, (t, at) in enumerate(((times[0], y), (times[0], near), (times[-1], near))):
        where = system, inputs, jnp.asarray(t, float), at
        lacking, rounding = _unexplained(*where, sizes, *(jnp.asarray(x) for x in _groups(pattern, draw)))
        rows = np.flatnonzero(np.asarray(lacking))
        if len(rows):
            text = _lacking(*where, pattern, rows, np.asarray(sizes), np.asarray(rounding))
            raise ArgumentError(
                f"Argument `pattern` must hold every place at which the Jacobian of `{type(system).__name__}` has a number, but "
                f"{text}. Numbers are those of the flat state, from 0. Add these places, or leave `pattern` out."
            )


def _nearby(y: State) -> State:
    """A state near another one, in which no number is 0."""
    flat, unravel = ravel_pytree(y)
    random = np.random.default_rng(1).uniform(0.5, 1.0, flat.size)
    largest = jnp.max(jnp.abs(flat), initial=0)
    small = SMALL * jnp.where(largest > 0, largest, 1)
    return unravel(jnp.where(flat == 0, small.astype(flat.dtype), flat * (1 + SHIFT)) * jnp.asarray(random, flat.dtype))


def _sizes(y: State) -> Inexact[Array, "units n"]:
    """Units of the states in which entries of a row are compared: 1, and their own, where one that is 0 is large or small."""
    flat, _ = ravel_pytree(y)
    size = jnp.abs(flat)
    largest = jnp.max(size, initial=0)
    largest = jnp.where(largest > 0, largest, 1)
    small = jnp.finfo(flat.dtype).eps * largest
    return jnp.stack([jnp.ones_like(size), *(jnp.where(flat == 0, zero, size) for zero in (largest, small))])


def _groups(pattern: JacobianPattern, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Members of random groups of columns, once for each unit, and whether a row has a place in a group, both `(3, groups, n)`.

    Groups are four times as many as the fullest row has places: a place that is lacking shares its group with one that is there,
    and is not seen, in a quarter of the draws; of a row with more places than groups in most of them. Up to 256 states each is a
    group of its own.
    """
    fullest = int(np.bincount(pattern.rows, minlength=pattern.size).max(initial=0)) + 1
    count = pattern.size if pattern.size <= MOST_GROUPS else min(max(4 * fullest, LEAST_GROUPS), MOST_GROUPS)
    random = np.random.default_rng(draw)
    members, held = np.zeros((UNITS, count, pattern.size)), np.zeros((UNITS, count, pattern.size), bool)
    every = np.arange(pattern.size)
    for k in range(UNITS):
        group = random.permutation(pattern.size) % count
        members[k, group, every] = random.uniform(0.5, 1.5, pattern.size)
        held[k, group[pattern.columns], pattern.rows] = held[k, group, every] = True
    return members, held


@eqx.filter_jit
def _unexplained(
    system: Any,
    inputs: Inputs,
    t: Time,
    y: State,
    sizes: Inexact[Array, "units n"],
    members: Inexact[Array, "units groups n"],
    held: Bool[Array, "units groups n"],
) -> tuple[Bool[Array, " n"], Inexact[Array, "units n"]]:
    """The rows in which a product of the Jacobian and a vector of a group of columns is not 0, and the pattern says it is.

    Also returns the rounding errors of each row.
    """
    flat, push = _linear(system, inputs, t, y)
    units, count, size = members.shape
    along = members.astype(sizes.dtype) * sizes[:, None]
    signs = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], (SUMS, count)), sizes.dtype)
    directions = jnp.concatenate([along, signs[None] @ along], axis=1).reshape(-1, size)
    products = jax.vmap(push)(directions.astype(flat.dtype)).reshape(units, count + SUMS, size)
    own, sums = products[:, :count], products[:, count:]
    seen = jnp.max(jnp.abs(sums - signs.astype(flat.dtype)[None] @ own), axis=1)
    rounding = ROUNDING * (seen + jnp.finfo(flat.dtype).eps * jnp.max(jnp.abs(own), axis=1))
    return jnp.any((jnp.abs(own) > rounding[:, None]) & ~held, axis=(0, 1)), rounding


def _linear(system: Any, inputs: Inputs, t: Time, y: State) -> tuple[Array, Any]:
    """The flat state, and the product of the Jacobian with a flat vector."""
    flat, unravel = ravel_pytree(y)
    field = lambda x: ravel_pytree(SystemTerm(system, inputs).vf(t.astype(jnp.finfo(flat.dtype).dtype), unravel(x)))[0]
    return flat, lambda v: jax.jvp(field, (flat,), (v,))[1]


def _lacking(
    system: Any,
    inputs: Inputs,
    t: Time,
    y: State,
    pattern: JacobianPattern,
    rows: Int[np.ndarray, " rows"],
    sizes: np.ndarray,
    rounding: np.ndarray,
) -> str:
    """The rows that lack places, with the columns of the first ones, as a clause."""
    flat, push = _linear(system, inputs, t, y)
    some, size = rows[:SHOWN], pattern.size
    product = jax.jit(lambda units: jax.vmap(push)(units)[:, some])
    found = [
        product(jnp.asarray(np.arange(size) == np.arange(first, first + MOST_GROUPS)[:, None], flat.dtype))
        for first in range(0, size, MOST_GROUPS)
    ]
    parts = []
    for row, line in zip(some, np.abs(np.concatenate(found)[:size]).T, strict=True):
        large = (line * sizes > rounding[:, row, None]).any(axis=0)
        large[[row, *pattern.columns[pattern.rows == row]]] = False
        columns = np.flatnonzero(large)
        more = f" and {len(columns) - SHOWN} more" if len(columns) > SHOWN else ""
        named = f" lacks {', '.join(f'column {c}' for c in columns[:SHOWN])}{more}" if len(columns) else ""
        parts.append(f"row {row}{named}")
    more = f", and {len(rows) - SHOWN} more rows lack some" if len(rows) > SHOWN else ""
    return f"{'; '.join(parts)}{more}"
