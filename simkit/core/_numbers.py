"""Known numbers of a system that make no sense."""

import dataclasses
import weakref
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._errors import ArgumentError
from ._quantity import REAL, Support, field_metadata
from ._traced import traced, tracing


def check_numbers(system: Any) -> None:
    """Refuse known numbers of a system that lie outside their support, such as a negative viscosity.

    **Raises:** an `ArgumentError`.
    """
    if tracing():
        return
    for path, value, support in _supported(system, ""):
        low, high = float(np.min(value)), float(np.max(value))
        if support.lower == 0 and low < 0:
            wanted, found = "must not be negative", low
        elif support.lower != 0 and low <= support.lower:
            wanted, found = f"must be above {support.lower:g}", low
        elif high > support.upper:
            wanted, found = f"must not be above {support.upper:g}", high
        else:
            continue
        raise ArgumentError(f"`{path}` of {type(system).__name__} {wanted}, but it is {found:g}.")


class Seen:
    """Cache of results for tuples of objects, keyed by identity and dropped with the objects.

    What can be written to, such as a NumPy array, must not be among them.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[tuple[weakref.ref[Any], ...], Any]] = {}

    def get(self, things: tuple[Any, ...]) -> Any:
        """Return the stored result, or None."""
        held, value = self._known.get(tuple(map(id, things)), ((), None))
        return value if all(ref() is thing for ref, thing in zip(held, things, strict=False)) else None

    def put(self, things: tuple[Any, ...], value: Any = True) -> None:
        """Keep a value until one of the objects is gone."""
        place = tuple(map(id, things))
        forget = lambda _: self._known.pop(place, None)
        self._known[place] = tuple(weakref.ref(thing, forget) for thing in things), value


_sound = Seen()


def check_supports(system: Any) -> None:
    """Refuse known numbers of a system outside their support, as `check_numbers`; a system is looked at once, and not inside `jit`.

    **Raises:** an `ArgumentError`.
    """
    if _sound.get((system,)):
        return
    leaves = jax.tree.leaves(system)
    if tracing(leaves):
        return
    check_numbers(system)
    if not any(isinstance(leaf, np.ndarray) for leaf in leaves):  # which could be written to
        _sound.put((system,))


def _supported(node: Any, path: str) -> Iterator[tuple[str, np.ndarray, Support]]:
    if isinstance(node, list | tuple):
        for i, part in enumerate(node):
            yield from _supported(part, f"{path}{i}.")
    if not isinstance(node, eqx.Module):
        return
    for field in dataclasses.fields(node):  # pyright: ignore[reportArgumentType]
        value, support = getattr(node, field.name, None), field_metadata(node, field.name).support
        if isinstance(value, jax.Array) and value.size and support != REAL and not traced(value):
            yield path + field.name, np.asarray(value), support
        else:
            yield from _supported(value, f"{path}{field.name}.")
