"""Description of one simulation, and the key that selects its compiled program."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from ..._types import Inputs, State
from ...core import NamedEvents, System, mirrored_events, mirrored_inputs, mirrored_system
from ...reducers import Reducer
from ..stepping._on_disk import OnDisk


class Options(NamedTuple):
    """Options of the loops that a user may fix: lanes of an ensemble, and bytes of the record of reverse mode. Also known facts:
    whether a run without capacity for its neighbours is repeated and may stop there, whether all times are equally spaced, whether
    all starts are of similar size, whether times decrease, the room for events, 0 for what these ask for, whether the
    linearisation is applied many times, so that nothing of it should be computed again, and a record of reverse mode in files."""

    lanes: int | None = None
    memory: int | None = None
    again: bool = False
    even: bool = False
    similar: bool = False
    backward: bool = False
    room: int = 0
    linear: bool = False
    disk: OnDisk | None = None


class Task(NamedTuple):
    """Arguments of one simulation, checked and completed."""

    system: System
    y0: State
    inputs: Inputs
    times: Any
    solver: Any  # a `Stepper`; None of a static system
    step: Any  # `Adaptive`, `Courant` or `Fixed`
    key: PRNGKeyArray | None = None
    reduce: Mapping[str, Reducer] | None = None
    events: NamedEvents | None = None

    def mirrored(self) -> "Task":
        """The same task as a function of s = -t, so that what goes backwards goes forwards."""
        system, inputs = mirrored_system(self.system), mirrored_inputs(self.inputs)
        return self._replace(system=system, inputs=inputs, times=-self.times, events=mirrored_events(self.events))

    def noted(self) -> dict[str, Any]:
        """Return the operands of a program, by name."""
        unasked = {name for name in ("reduce", "events") if not getattr(self, name)}
        return {name: value for name, value in self._asdict().items() if name not in unasked}


_ARRAYS = (jax.Array, np.ndarray, np.generic)


class Frame(NamedTuple):
    """Static part of a call: hashable, the key of the compilation cache."""

    structure: Any
    held: tuple[tuple[int, type, Any], ...]
    options: Any

    def filled(self, leaves: list[Any]) -> Any:
        """The arguments of the call."""
        leaves = list(leaves)
        for i, _, leaf in self.held:
            leaves.insert(i, leaf)
        return jax.tree.unflatten(self.structure, leaves)


def framed(arguments: PyTree, options: Any) -> tuple[Frame, list[Any]]:
    """A call taken apart: what selects the compiled function, and its arrays."""
    leaves, structure = jax.tree.flatten(arguments)
    held = tuple((i, type(x), x) for i, x in enumerate(leaves) if not isinstance(x, _ARRAYS))
    for i, _, _ in reversed(held):
        del leaves[i]
    return Frame(structure, held, options), leaves
