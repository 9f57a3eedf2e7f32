"""What one simulation is made of, and how such things select a compiled program."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._types import Inputs, State
from ..core import Event, System
from ..reducers import Reducer


class Options(NamedTuple):
    """What a user may fix about the loops: lanes of an ensemble, bytes that the record of reverse mode may take. And whether a run
    without room for neighbours is done again, so that it may stop there; and whether all times are equally far apart."""

    lanes: int | None = None
    memory: int | None = None
    again: bool = False
    even: bool = False


class Task(NamedTuple):
    """What one simulation is made of, checked and completed."""

    system: System
    y0: State
    inputs: Inputs
    times: Any
    solver: Any  # a `Stepper`; None of a static system
    step: Any  # `Adaptive`, `Courant` or `Fixed`
    key: PRNGKeyArray | None = None
    reduce: Mapping[str, Reducer] | None = None
    event: Event | None = None

    def noted(self) -> dict[str, Any]:
        """What a program depends on, by name."""
        unasked = {name for name in ("reduce", "event") if not getattr(self, name)}
        return {name: value for name, value in self._asdict().items() if name not in unasked}


_ARRAYS = (jax.Array, np.ndarray, np.generic)


class Frame(NamedTuple):
    """What of a call is no array: hashable, it selects the compiled function."""

    structure: Any
    held: tuple[tuple[int, type, Any], ...]
    options: Any

    def filled(self, leaves: list[Any]) -> Any:
        """The arguments of the call."""
        leaves = list(leaves)
        for i, _, leaf in self.held:
            leaves.insert(i, leaf)
        return jax.tree.unflatten(self.structure, leaves)


def framed(arguments: Any, options: Any) -> tuple[Frame, list[Any]]:
    """A call taken apart: what selects the compiled function, and its arrays."""
    leaves, structure = jax.tree.flatten(arguments)
    held = tuple((i, type(x), x) for i, x in enumerate(leaves) if not isinstance(x, _ARRAYS))
    for i, _, _ in reversed(held):
        del leaves[i]
    return Frame(structure, held, options), leaves
