"""Fisher information of one datum, as a matrix over its location and its noise model's own numbers."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from .._errors import ArgumentError

Values = Float[Array, "..."]

ROUNDING = 64
"""A pivot below so many units of rounding is zero: what is left where one number's score is a multiple of another's."""


class Information(eqx.Module):
    r"""Fisher information of a datum on its location and on the numbers of its noise model, in the order of the fields.

    $$I_{ij} = E\left[\frac{\partial \log p}{\partial a_i} \frac{\partial \log p}{\partial a_j}\right], \qquad
    a = (\text{location}, \text{own numbers})$$

    **Arguments:** `rows`: the lower triangle, one row a number: `[[location], [cross, scale]]`. Each entry is an array of the
    location's shape or broadcasts to it. A Python zero says that an entry is zero whatever the values are, and costs nothing.

    **Raises:** an `ArgumentError` where the rows are not a triangle.
    """

    rows: tuple[tuple[Values | None, ...], ...]

    def __init__(self, rows: Sequence[Sequence[Any]]):
        if any(len(row) != i + 1 for i, row in enumerate(rows)):
            raise ArgumentError(
                "Argument `rows` must be the lower triangle of a matrix, with rows of 1, 2, ... entries, but its rows have "
                f"{[len(row) for row in rows]} entries."
            )
        is_zero = lambda entry: entry is None or (isinstance(entry, int | float) and entry == 0)
        self.rows = tuple(tuple(None if is_zero(entry) else jnp.asarray(entry) for entry in row) for row in rows)

    @classmethod
    def diagonal(cls, *entries: ArrayLike | None) -> "Information":
        """The information of numbers that do not share any: every entry beside the diagonal is zero."""
        return cls([[*[0] * i, entry] for i, entry in enumerate(entries)])

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def entry(self, i: int, j: int) -> Values | None:
        """One entry of the symmetric matrix; None where it is zero whatever the values are."""
        return self.rows[max(i, j)][min(i, j)]

    def matrix(self) -> Float[Array, "... number number"]:
        """The whole matrix."""
        entries = [entry for row in self.rows for entry in row if entry is not None]
        shape = jnp.broadcast_shapes(*(entry.shape for entry in entries))
        full = lambda entry: jnp.zeros(shape, entries[0].dtype) if entry is None else jnp.broadcast_to(entry, shape)
        lines = [[full(self.entry(i, j)) for j in range(self.size)] for i in range(self.size)]
        return jnp.stack([jnp.stack(line, axis=-1) for line in lines], axis=-2)


def weighted(
    information: Information, seen: Bool[Array, "..."], pulls: Sequence[Values], blocks: Sequence[Array]
) -> tuple[list[Array], list[Values], list[Values]]:
    r"""Sensitivities and scores of data in their standard deviations, from a factorisation of each datum's information.

    With $I = L L^T$, sensitivities B and the gradient g of the negative log density, these are the rows $L^T B$ and the pulls
    $q = L^{-1} g$, so that squares of rows add up to the information of the data, and rows times pulls to the gradient. The
    location is eliminated last: its pull is the standardised residual where the data are normal, however its scatter depends on it.

    **Returns:** the rows and pulls by number, the location's first, and the part of g that the information does not cover: that of
    numbers whose score is a combination of others', and so zero but for rounding, or on which a datum has no information.
    """
    order = [*range(1, information.size), 0]
    eps = ROUNDING * jnp.finfo(pulls[0].dtype).eps
    lower: dict[tuple[int, int], Array] = {}
    scaled: dict[int, Array] = {}
    rest: dict[int, Array] = {}
    for place, j in enumerate(order):
        before = [m for m in order[:place] if (j, m) in lower]
        own = information.entry(j, j)
        own = jnp.zeros_like(pulls[j]) if own is None else own
        pivot = own - sum(lower[j, m] ** 2 for m in before) if before else own
        # A pivot that is not a number stays one, and with it the model.
        open_ended = pivot <= (eps * own if before else 0)
        informed = seen & ~open_ended
        root = jnp.sqrt(jnp.where(informed, pivot, 1))
        lower[j, j] = jnp.where(informed, root, 0)
        left = pulls[j] - sum(lower[j, m] * scaled[m] for m in before) if before else pulls[j]
        scaled[j] = jnp.where(informed, left / root, 0)
        rest[j] = jnp.where(seen & open_ended, left, 0)
        for i in order[place + 1 :]:
            terms = [lower[i, m] * lower[j, m] for m in before if (i, m) in lower]
            cross = information.entry(i, j)
            if cross is not None or terms:
                product = (0 if cross is None else cross) - sum(terms)
                lower[i, j] = jnp.where(informed, product / root, 0)
    # Missing data must not touch the rest: what the model predicts there may be anything.
    blocks = [jnp.where(seen[..., None], block, 0) for block in blocks]
    numbers = range(information.size)
    rows = [sum(lower[i, j][..., None] * blocks[i] for i in numbers if (i, j) in lower) for j in numbers]
    return rows, [scaled[j] for j in numbers], [rest[j] for j in numbers]  # pyright: ignore[reportReturnType]
