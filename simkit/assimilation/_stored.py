"""Assimilations in stretches of turns, which a folder keeps and a budget of time may end."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._budget import Within, budgeted
from .._errors import TimeUpError
from .._progress import Progress
from .._types import State
from ..stores import kept_in, kept_part
from ._cycles import Run, finished, turn_of, work_of
from ._filters import AbstractEnsembleFilter
from ._hybrid import Hybrid
from ._result import Assimilation
from ._variational import FourDVar

TURNS = 32
"""Cycles of a filter that are computed and stored together."""

WINDOWS = 4
"""Windows of 4D-Var that are."""


def in_stretches(
    run: Run,
    start: State,
    method: AbstractEnsembleFilter | FourDVar | Hybrid,
    keep: bool,
    lag: int,
    store: str | Path | None,
    within: Within,
    counter: Progress,
) -> Assimilation:
    """The cycles of an assimilation in stretches of one length, each read from the store where it has it.

    **Raises:** a `TimeUpError` where the time was up before the first cycle.
    """
    asked = lambda: {"run": run, "start": start, "method": method, "keep_members": keep} | ({"lag": lag} if lag else {})
    settings = {"turns": WINDOWS if isinstance(method, FourDVar | Hybrid) else TURNS}
    carry, turns, begun = _begun(run, start, method, keep, lag)
    count = jax.tree.leaves(turns)[0].shape[0]
    with kept_in(store, "assimilation", asked, settings) as held, budgeted(within):
        parts, size = [], held.settings["turns"]
        held.plan("turns", "windows" if begun is not None else "cycles", count, size)
        for first in range(0, count, size):
            some = jax.tree.map(lambda x, first=first: x[first : first + size], turns)
            found = kept_part(held, f"turns-{first:08d}", _stretch, run, method, keep, carry, some)
            if found is None:
                break
            carry, part = found
            parts.append(part)
            counter.tell(f"{min(first + size, count)} of {count} {'windows' if begun is not None else 'cycles'}")
    if not parts and begun is None:
        raise TimeUpError("The time of `within` was up before the first cycle. Give more time.")
    nothing = jax.tree.map(lambda x: jnp.zeros((0, *x.shape[1:]), x.dtype), _shapes(run, method, keep, carry, turns))
    figures, members = jax.tree.map(lambda *x: jnp.concatenate(x), *parts) if parts else nothing
    return finished(run, method, begun, carry, figures, members)


def _shapes(run: Run, method: Any, keep: bool, carry: Any, turns: Any) -> Any:
    return eqx.filter_eval_shape(_stretch, run, method, keep, carry, turns)[1]


@eqx.filter_jit
def _begun(run: Run, start: State, method: Any, keep: bool, lag: int) -> tuple[Any, Any, Any]:
    work = work_of(run, start, method, keep, lag)
    return work.carry, work.turns, work.begun


@eqx.filter_jit
def _stretch(run: Run, method: Any, keep: bool, carry: Any, turns: Any) -> tuple[Any, Any]:
    return jax.lax.scan(turn_of(run, method, keep), carry, turns)
