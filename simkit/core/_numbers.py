"""Known numbers of a system that make no sense."""

import dataclasses
import weakref
from collections.abc import Iterator, Mapping
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
        if (why := _outside(value, support)) is not None:
            raise ArgumentError(f"`{path}` of {type(system).__name__} {why[0]}, but it is {why[1]:g}.")


def check_member_numbers(system: Any, over: Mapping[str, Any], numbers: Any = None) -> None:
    """Refuse values of members, by path, that lie outside the support of the number that they replace; NaN is left alone.

    **Arguments:** `numbers`: those of the members, by default from 0 on.

    **Raises:** an `ArgumentError` that names the first such member.
    """
    for path, values in over.items():
        support = _support_at(system, path)
        if support is None or support == REAL or traced(values):
            continue
        rows = np.asarray(values)
        if rows.ndim == 0 or rows.dtype.kind not in "iuf":
            continue
        # `tracing` takes longer than all the rest, so it is asked last.
        if (why := _outside(rows[np.isfinite(rows)], support)) is not None and not tracing():
            member = int(np.flatnonzero((rows == why[1]).reshape(len(rows), -1).any(axis=1))[0])
            member = member if numbers is None else int(numbers[member])
            raise ArgumentError(
                f"`{path}` of {type(system).__name__} {why[0]}, but `over` gives member {member} the value {why[1]:g}."
            )


def _support_at(system: Any, path: str) -> Support | None:
    """The support of the number that a path names, or one element of which it names; None where the system has none."""
    parts, node = path.split("."), system
    *above, name = parts[:-1] if parts[-1].isdigit() else parts
    for part in above:
        node = node[int(part)] if isinstance(node, list | tuple) and part.isdigit() else getattr(node, part, None)
    return field_metadata(node, name).support if isinstance(node, eqx.Module) and hasattr(node, name) else None


def _outside(value: np.ndarray, support: Support) -> tuple[str, Any] | None:
    """A demand that values do not meet, and the value; None where all are inside."""
    if not value.size:
        return None
    low, high = np.min(value), np.max(value)
    if support.lower == 0 and low < 0:
        return "must not be negative", low
    if support.lower != 0 and low <= support.lower:
        return f"must be above {support.lower:g}", low
    if high > support.upper:
        return f"must not be above {support.upper:g}", high
    return None


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
