"""Many starts as a queue: a few descend together, and when one ends, the next takes its place."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine import note_trace, over_members
from ..problem import Problem
from ..problem._lean import named_parts
from ._gauss_newton import GaussNewton, Progress
from ._method import HOPELESS, End

LANES = 16
"""So many starts descend together; fits of no more need no queue."""

TURN = 10
"""After so many iterations starts that have ended make room."""

PATIENCE = 100
"""A start is given so many iterations before it is judged."""

HOPE = 100.0
"""A start is hopeless that would not reach the best one with all the steps that are left, at so many times its latest pace."""


def queued(
    problem: Problem,
    method: GaussNewton,
    fraction: Array,
    z: Array,
    held: Array,
    best: float | None,
    spread: bool = True,
) -> End:
    """One stage from all starts: what it costs is the sum of what they take, not the most that one takes.

    **Arguments:**

    - `best`: the least objective that was found elsewhere, infinite where there is none: starts that are hopeless beside it,
        or beside others here, are given up. None where no start is judged.
    - `spread`: whether lanes are spread over all devices.
    """
    lanes = min(LANES, len(z))
    rows, waiting = np.arange(lanes), list(range(lanes, len(z)))
    places, still = np.asarray(z), np.asarray(held)
    ends: dict[int, End] = {}
    state = _numpy(_begun(problem, method, places[rows], still[rows]))
    judged, least = best is not None, np.inf if best is None else best
    while len(ends) < len(z):
        state, found, ended = _numpy(
            _advanced(problem, method, fraction, state, still[rows], jnp.asarray(TURN), spread)
        )
        least = min(least, float(found.model.value.min()))
        lost = judged & _hopeless(state, least, int(method.max_steps))
        for lane in np.flatnonzero(ended | lost):
            if rows[lane] < 0:
                continue
            end = jax.tree.map(lambda x, lane=lane: x[lane], found)
            if lost[lane] and not ended[lane]:
                end = eqx.tree_at(lambda e: e.status, end, np.asarray(HOPELESS, end.status.dtype))
            ends[int(rows[lane])] = end
            rows[lane] = waiting.pop(0) if waiting else -1
        fresh = [lane for lane in np.flatnonzero(rows >= 0) if rows[lane] not in ends and (ended | lost)[lane]]
        if fresh:
            begun = _numpy(_begun(problem, method, places[rows], still[rows]))
            for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(begun), strict=True):
                old[fresh] = new[fresh]
        idle = np.flatnonzero(rows < 0)
        state["stuck"][idle] = True  # which ends what a lane has left
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *(ends[i] for i in range(len(z))))


def _hopeless(state: Progress, best: float, most: int) -> np.ndarray:
    """Which starts would need a pace that they have not."""
    value, gains, count = state["model"].value, state["gains"], state["iterations"]
    taken = np.isfinite(gains)
    pace = np.where(taken, gains, 0).sum(axis=1) / np.maximum(taken.sum(axis=1), 1)
    with np.errstate(invalid="ignore"):
        return (count >= PATIENCE) & (value - best > HOPE * pace * (most - count))


def _numpy(tree: Any) -> Any:
    return jax.tree.map(lambda x: np.array(x) if eqx.is_array(x) else x, tree)


@eqx.filter_jit
def _begun(problem: Problem, method: GaussNewton, z: Any, held: Any) -> Progress:
    return jax.vmap(lambda z, held: method.begun(problem, z, held))(z, held)


@eqx.filter_jit
def _advanced(
    problem: Problem, method: GaussNewton, fraction: Array, state: Progress, held: Any, turn: Array, spread: bool
) -> tuple[Progress, End, Array]:
    """All lanes taken further; where they are, and which have come to their end."""
    note_trace("fit" if spread else "fit, windows", named_parts(problem) | {"method": method, "starts": state["z"]})

    def one(shared: Any, member: Any) -> Any:
        (problem, method, fraction, turn), (state, held) = shared, member
        seen = problem.until(fraction)
        state = method.advanced(method.evaluates(seen), seen, state, held, state["iterations"] + turn)
        return state, method.end_of(state), method.ended(state)

    shared = problem, method, fraction, turn
    if spread:
        return over_members(one, shared, (state, held))
    return jax.vmap(lambda member: one(shared, member))((state, held))
