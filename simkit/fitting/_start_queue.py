"""Many starts as a queue: a few descend together, and when one ends, the next takes its place."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..engine import awaited, note_trace, over_members
from ..problem import Problem, named_parts
from ._budget import held_to
from ._gauss_newton import GaussNewton, Progress
from ._method import HOPELESS, End

LANES = 16
"""Number of starts that descend together; fits with no more starts need no queue."""

TURN = 10
"""After so many iterations starts that have ended make room."""

PATIENCE = 100
"""A start is given so many iterations before it is judged."""

HOPE = 10_000.0
"""A start is hopeless that would not reach the best one with all the steps that are left, at so many times its latest pace. At a
hundred times the pace starts were given up that went on to the best optimum known: docs/performance.md."""


MULTIPLE = 10.0
"""A simulation may take so many times the solver steps of the median start, which in draws the worst takes half of."""


def queued(
    problem: Problem,
    method: GaussNewton,
    fraction: Array,
    z: Array | np.ndarray,
    held: Array | np.ndarray,
    best: float | None,
    lanes: int = LANES,
    spread: bool = True,
) -> End:
    """One stage from all starts: what it costs is the sum of what they take, not the most that one takes.

    A simulation that needs far more solver steps than the median start is a failed one. A start that such ones stop goes on at
    the end with `MULTIPLE` times as many.

    **Arguments:**

    - `best`: the least objective that was found elsewhere, infinite where there is none: starts that are hopeless beside it,
        or beside others here, are given up. None where no start is judged.
    - `lanes`: how many descend together.
    - `spread`: whether lanes are spread over all devices.
    """
    places, still = np.asarray(z), np.asarray(held)
    stage = f"on the way from {len(z)} starts"
    states: Progress = _numpy(awaited(_begun(problem, method, places, still), "fit", stage))
    ends: dict[int, End] = {}
    judged, least, taken = best is not None, np.inf if best is None else best, np.full(len(z), np.nan)
    waiting, again = list(range(len(z))), []
    for limit in (MULTIPLE, MULTIPLE**2):
        rows = np.full(min(lanes, len(z)), -1)
        state = jax.tree.map(lambda x, rows=rows: x[np.zeros(len(rows), int)], states)
        while waiting or (rows >= 0).any():
            for lane in np.flatnonzero(rows < 0).tolist()[: len(waiting)]:
                rows[lane] = waiting.pop(0)
                _copy(states, int(rows[lane]), state, lane)
            state["stuck"][rows < 0] = True  # which ends what a lane has left
            # One step shows what simulations of these starts take.
            known = np.isfinite(taken).any()
            turn, budget = (TURN, limit * np.nanmedian(taken)) if known else (1, np.inf)
            seen = held_to(problem, budget)
            advanced = _advanced(seen, method, fraction, state, still[rows], jnp.asarray(turn), spread)
            state, found, ended = _numpy(awaited(advanced, "fit", f"{stage}, {len(ends)} of them at their end"))
            good = (rows >= 0) & found.model.good
            taken[rows[good]] = found.model.steps[good]
            least = min(least, float(found.model.value[rows >= 0].min()))
            lost = judged & _hopeless(state, least, int(method.max_steps))
            for lane in np.flatnonzero((rows >= 0) & (ended | lost)).tolist():
                row = int(rows[lane])
                if limit == MULTIPLE and _starved(state, lane):
                    _copy(_refreshed(state), lane, states, row)
                    again.append(row)
                else:
                    ends[row] = _ended(found, lane, bool(ended[lane]))
                rows[lane] = -1
        waiting, again = again, []
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *(ends[i] for i in range(len(z))))


def _copy(source: Progress, row: int, target: Progress, lane: int) -> None:
    for old, new in zip(jax.tree.leaves(target), jax.tree.leaves(source), strict=True):
        old[lane] = new[row]


def _starved(state: Progress, lane: int) -> bool:
    """Tell whether a descent ended before it converged, after simulations that were given up at their step limit."""
    return bool(state["starved"][lane] & ~state["converged"][lane] & (state["stuck"] | state["flat"])[lane])


def _refreshed(state: Progress) -> Progress:
    """Descents that go on from where they ended."""
    no = np.zeros_like(state["stuck"])
    ones, ever = np.ones_like(state["radius"]), np.full_like(state["gains"], np.inf)
    return {**state, "stuck": no, "flat": no, "starved": no, "radius": ones, "gains": ever}


def _ended(found: End, lane: int, done: bool) -> End:
    end = jax.tree.map(lambda x: x[lane], found)
    return end if done else eqx.tree_at(lambda e: e.status, end, np.asarray(HOPELESS, end.status.dtype))


def _hopeless(state: Progress, best: float, most: int) -> np.ndarray:
    """Return a mask of the starts that cannot converge at their present pace."""
    value, gains, count = state["model"].value, state["gains"], state["iterations"]
    taken = np.isfinite(gains)
    pace = np.where(taken, gains, 0).sum(axis=1) / np.maximum(taken.sum(axis=1), 1)
    with np.errstate(invalid="ignore"):
        return (count >= PATIENCE) & (value - best > HOPE * pace * (most - count))


def _numpy(tree: PyTree) -> Any:
    return jax.tree.map(lambda x: np.array(x) if eqx.is_array(x) else x, tree)


@eqx.filter_jit
def _begun(problem: Problem, method: GaussNewton, z: Array | np.ndarray, held: Array | np.ndarray) -> Progress:
    return jax.vmap(lambda z, held: method.begun(problem, z, held))(z, held)


@eqx.filter_jit
def _advanced(
    problem: Problem,
    method: GaussNewton,
    fraction: Array,
    state: Progress,
    held: Array | np.ndarray,
    turn: Array,
    spread: bool,
) -> tuple[Progress, End, Array]:
    """All lanes taken further; where they are, and which have come to their end."""
    note_trace("fit" if spread else "fit, windows", named_parts(problem) | {"method": method, "starts": state["z"]})

    def one(shared: PyTree, member: PyTree) -> Any:
        (problem, method, fraction, turn), (state, held) = shared, member
        seen = problem.until(fraction)
        state = method.advanced(method.evaluates(seen), seen, state, held, state["iterations"] + turn)
        return state, method.end_of(state), method.ended(state)

    shared = problem, method, fraction, turn
    if spread:
        return over_members(one, shared, (state, held))
    return jax.vmap(lambda member: one(shared, member))((state, held))
