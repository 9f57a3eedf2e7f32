"""Quantities that are functions of the free parameters."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._doors import check_function, check_mapping, shown
from .._errors import ArgumentError, check_known
from ._unknowns import Block

Function = Callable[[Mapping[str, Array]], Any]

NUMBERS = (jax.Array, np.ndarray, np.generic, float, int)

FIRST = -2
"""The index in a table of the first derived number; that of the next is one less. A constant has -1."""


class Derived(eqx.Module):
    """Numbers that follow from free parameters, for tables to point to.

    - `functions`: by name, each from a mapping of the free parameters to one number.
    - `reads`: the names of the free parameters that they look at.
    """

    functions: tuple[tuple[str, Function], ...] = eqx.field(static=True)
    reads: frozenset[str] = eqx.field(static=True)

    def values(self, theta: Float[Array, " parameters"], blocks: tuple[Block, ...]) -> dict[str, Array]:
        """Name -> number."""
        known = _by_name(theta, blocks)
        return {name: jnp.asarray(function(known), theta.dtype) for name, function in self.functions}

    def extended(self, theta: Float[Array, " parameters"], blocks: tuple[Block, ...]) -> Float[Array, " more"]:
        """The free parameters, and behind them what is derived."""
        return jnp.concatenate([theta, jnp.stack([*self.values(theta, blocks).values()])])

    def places(self, index: Int[Array, " experiments"], size: int) -> Int[Array, " experiments"]:
        """Indices of a table as places among the `size` free parameters and what stands behind them."""
        return jnp.where(index <= FIRST, size + FIRST - index, index)

    def index(self, name: str) -> int | None:
        """The index of a derived number in a table; None where it is none."""
        names = [known for known, _ in self.functions]
        return FIRST - names.index(name) if name in names else None


class _Recorded(Mapping[str, Any]):
    """Free parameters by name that notes which of them are looked at, and refuses other names in words."""

    def __init__(self, known: Mapping[str, Any], of: str) -> None:
        self.known, self.of, self.seen = dict(known), of, set[str]()

    def __getitem__(self, name: str) -> Any:
        check_known(name, self.known, f"free parameter (in `derived` of `{self.of}`)")
        self.seen.add(name)
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def _by_name(theta: Array, blocks: tuple[Block, ...]) -> dict[str, Array]:
    return {b.name: theta[b.span].reshape(b.shape) if b.shape else theta[b.offset] for b in blocks}


def derived_of(given: Any, free: Mapping[str, tuple[int, ...]], individuals: bool) -> Derived | None:
    """The derived numbers of a problem as users give them; None where there are none. `free` holds the shapes of free parameters.

    **Raises:** an `ArgumentError` where a name is free too, a function looks at something else, or returns no single number.
    """
    if not given:
        return None
    check_mapping("derived", given, "functions", '{"late": lambda p: p["early"] + p["gap"]}')
    if individuals:
        raise ArgumentError(
            "Arguments `derived` and an `Individual` must not be given together, but both are. Leave one of the two out."
        )
    seen: set[str] = set()
    known = {name: jax.ShapeDtypeStruct(shape, jnp.result_type(float)) for name, shape in free.items()}
    for name, function in given.items():
        if name in free:
            raise ArgumentError(f"`{name}` must be free or derived, but it is both.")
        check_function(f"derived[{name!r}]", function, ("parameters",))
        seen |= _looked_at(name, function, known)
    return Derived(tuple(given.items()), frozenset(seen))


def _looked_at(name: str, function: Function, known: Mapping[str, Any]) -> set[str]:
    """The names that a function looks at; refused where it returns no single number."""
    seen: set[str] = set()

    def recorded(values: Mapping[str, Any]) -> Any:
        record = _Recorded(values, name)
        found = function(record)
        seen.update(record.seen)
        if not isinstance(found, NUMBERS) or jnp.shape(found) != ():
            what = f"an array of shape {jnp.shape(found)}" if isinstance(found, NUMBERS) else shown(found)
            raise ArgumentError(f"The function of `{name}` in `derived` must return one number, but it returns {what}.")
        return found

    jax.eval_shape(recorded, known)
    return seen
