"""Draws of a sampled system that are kept on disk: frames of particles cost far more than what is made of them."""

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from .._budget import has_room
from ..core import Setup
from ..problem import Problem, refresh
from ..stores import packed, unpacked

ROOM, KIND = "its numbers", "its kinds"
"""Names, which no array has, of the whole numbers of a system that has drawn, and of what these belong to."""


def kept_refresh(problem: Problem, thetas: ArrayLike, key: PRNGKeyArray, held: Any, name: str) -> Problem | None:
    """`refresh`, or what it gave before, to the same bits: the draws, and the room for neighbours that they asked for; None where
    the time of the verb is up before it.

    **Arguments:** `held`: what `kept_in` gives; `name`: of the record.
    """
    kept = held.read(name)
    if kept is not None and (found := _with(problem, kept)) is not None:
        return found
    if not has_room():
        return None
    found = refresh(problem, thetas, key=key)
    numbers = [*_numbers(found.base.system)]
    room = np.array([number for number, _ in numbers], np.int64)
    held.write(name, {**packed(found.base.y0), ROOM: room, KIND: _hashed(place for _, place in numbers)})
    return found


def _with(problem: Problem, kept: dict[str, np.ndarray]) -> Problem | None:
    """The problem with draws of before; None where its system has come to hold them in another way."""
    base = problem.base
    try:
        state = unpacked(kept, base.y0)
    except KeyError:
        return None
    system = _renumbered(base.system, iter(kept[ROOM].tolist()))
    if not np.array_equal(_hashed(kind for _, kind in _numbers(system)), kept[KIND]):
        return None
    base = Setup(system, state, base.inputs, base.noise, base.events)
    return problem.with_parts(model=dataclasses.replace(problem.model, base=base))


def _numbers(node: Any, place: str = "") -> Iterator[tuple[int, str]]:
    """The whole numbers that are part of a program, such as capacities of lists, and where they stand."""
    if isinstance(node, eqx.Module):
        for field in dataclasses.fields(node):
            yield from _numbers(getattr(node, field.name, None), f"{place}.{type(node).__name__}.{field.name}")
    elif isinstance(node, tuple):
        for i, part in enumerate(node):
            yield from _numbers(part, f"{place}[{i}]")
    elif isinstance(node, int) and not isinstance(node, bool):
        yield node, place


def _renumbered(node: Any, numbers: Iterator[int]) -> Any:
    """A system with other whole numbers, in the order of `_numbers`."""
    if isinstance(node, eqx.Module):
        other = object.__new__(type(node))  # `dataclasses.replace` would go through `__init__`
        for field in dataclasses.fields(node):
            if hasattr(node, field.name):
                object.__setattr__(other, field.name, _renumbered(getattr(node, field.name), numbers))
        return other
    if isinstance(node, tuple):
        parts = [_renumbered(part, numbers) for part in node]
        return tuple(parts) if type(node) is tuple else type(node)(*parts)  # a named one takes them one by one
    if isinstance(node, int) and not isinstance(node, bool):
        return next(numbers, node)
    return node


def _hashed(places: Any) -> np.ndarray:
    return np.frombuffer(hashlib.sha256("\n".join(places).encode()).digest(), np.uint8)
