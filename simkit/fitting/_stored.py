"""Fits whose finished starts are kept on disk."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._budget import has_room
from .._progress import Progress
from ..problem import Problem, defining_parts
from ..stores import kept_in, packed, unpacked
from ._local_model import no_model
from ._method import End
from ._start_queue import LANES

SHARED = ("fit", "profile", "covering", "calibration")
"""Kinds of work that several processes share, or in which they share fits and chains."""

TOGETHER = 4
"""Number of starts that run and are stored together."""


class Begun(NamedTuple):
    """Starts in the coordinates of the fit, and the iterations and failed simulations that it took to find them."""

    z: Float[Array, "starts parameters"]
    iterations: Int[Array, " starts"]
    failures: Int[Array, " starts"]


def blocks(count: int, size: int) -> list[np.ndarray]:
    """The numbers of the starts that go together: blocks of one size, so that one program serves all, the last with repeats."""
    return [np.minimum(np.arange(first, first + size), count - 1) for first in range(0, count, size)]


def kept_work(
    store: str | Path | None,
    kind: str,
    problem: Problem,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """The journal of work on a problem, as a context; one that keeps nothing without a store."""
    definition = lambda: {**defining_parts(problem), **asked}
    return kept_in(store, kind, definition, settings, together=kind in SHARED)


def block_settings() -> dict[str, int]:
    """The number of starts that run together: four, or one a device where there are more."""
    devices = jax.device_count()
    return {"together": -(-TOGETHER // devices) * devices}


def ends_in_blocks(
    folder: str | Path | None,
    problem: Problem,
    asked: Mapping[str, Any],
    begin: Callable[[int], Begun],
    through: Callable[[Begun, Progress, float | None], End],
    counter: Progress,
    told: Callable[[End], None] | None = None,
) -> End | None:
    """Return the ends of all starts, or of those that went within the time, None where that was none: read from the store where it
    has them, else computed and stored. Without a folder nothing is stored.

    Starts go in blocks of one size, however often the fit is interrupted, since rounding may depend on what is computed together.
    For the same reason a start is hopeless beside its own block and the blocks before it alone, all of which are kept.

    **Arguments:** `through`: what takes starts to their ends; besides them, who tells of its stages, and the least
    objective known before, None where no start is given up since they are few; `told`: takes the ends so far after each block.
    """
    settings = block_settings()
    with kept_work(folder, "fit", problem, asked, settings) as held:
        kept = held.read("starts")
        if kept is None:
            begun = begin(held.settings["together"])
            held.write("starts", packed(begun))
        else:
            begun = Begun(*(jnp.asarray(kept[name]) for name in Begun._fields))
        count, quiet = len(begun.z), Progress(None, 0, False)

        def run(rows: np.ndarray, best: float) -> End:
            block = Begun(*(jnp.asarray(np.asarray(x)[rows]) for x in begun))
            return through(block, quiet, best if count > LANES else None)

        whole = lambda joined: unpacked(joined, end_like(problem, begun.z[0], begun.iterations[0], joined))
        after = None if told is None else lambda joined: told(whole(joined))
        joined = joined_blocks(held, count, "model.value", run, counter, after)
    return whole(joined) if joined else None


def joined_blocks(
    held: Any,
    count: int,
    value: str,
    run: Callable[[np.ndarray, float], Any],
    counter: Progress,
    told: Callable[[dict[str, np.ndarray]], None] | None = None,
) -> dict[str, np.ndarray]:
    """The packed ends of all starts, or of those that went within the time, each block read where it is kept, else computed and
    kept.

    **Arguments:** `value`: the name of the objective in what is packed; `run`: ends from the numbers of the starts of a block and
    the least objective of the blocks before it; `told`: takes the ends so far after each block.
    """
    best, ends, size = np.inf, [], held.settings["together"]
    counter.begin(count, "starts")
    held.plan("ends", "starts", count, size)
    for rows in blocks(count, size):
        first = int(rows[0])
        name = f"ends-{first:06d}"
        kept = held.read(name)
        if kept is None and not has_room():
            break
        if kept is None:
            kept = {key: values[: count - first] for key, values in packed(run(rows, best)).items()}
            held.write(name, kept)
        ends.append(kept)
        best = min(best, float(np.min(kept[value])))
        counter.add(min(size, count - first), detail=f"best objective {best:.6g}")
        if told is not None:
            told(_joined(ends))
    return _joined(ends)


def _joined(ends: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {key: np.concatenate([end[key] for end in ends]) for key in (ends[0] if ends else ())}


def end_like(problem: Problem, z: Array, count: Array, joined: Mapping[str, Any]) -> Any:
    """The form of an end whose arrays are packed."""
    like = jax.eval_shape(lambda z, count: End(z, no_model(z, problem.lean()), count, count, count), z, count)
    # A fit of a population carries no predictions, nor does a store of an earlier version.
    told = {name: kept for name, kept in like.model.predicted.items() if f"model.predicted.{name}" in joined}
    return eqx.tree_at(lambda e: e.model.predicted, like, told)
