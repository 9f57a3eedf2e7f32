"""Interface of methods that move many sets of parameters together and need no derivatives."""

import abc
import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._budget import budgeted
from .._errors import SimulationError
from .._progress import Progress
from ..engine import awaited, note_trace, over_members
from ..problem import Problem, named_parts
from ..stores import unpacked
from ._field_fit import check_matrices
from ._fit_result import FitResult, summarise
from ._method import FAILED, End
from ._starts import check_count_of_starts, check_drawable, check_left_out, drawn_starts, first_start, given_starts
from ._stored import block_settings, end_like, joined_blocks, kept_work

NOWHERE = (
    "At none of {} starts could the model have made the data: {} Narrow the priors and the bounds around values at which "
    "`problem.log_likelihood` is finite, or give `starts`."
)


class Settled(eqx.Module):
    """End of one start: as other methods have it, and the standard error of its objective, which is estimated."""

    end: End
    error: Float[Array, "*starts"]


class AbstractSwarm(eqx.Module):
    """A way to minimise the negative log posterior that moves many sets of parameters together."""

    @abc.abstractmethod
    def check(self, problem: Problem) -> None:
        """Refuse a problem that the method is not for."""

    @abc.abstractmethod
    def settle(self, problem: Problem, z: Float[Array, " parameters"], key: PRNGKeyArray) -> Settled:
        """Run from one start, in the coordinates of the fit. Pure: it jits, vmaps and shards."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method in results."""

    @property
    @abc.abstractmethod
    def dead(self) -> str:
        """A sentence: the way in which a start ends without a result."""


def fit_swarms(
    problem: Problem, method: AbstractSwarm, starts: Any, key: PRNGKeyArray, options: dict[str, Any], counter: Progress
) -> FitResult:
    """Fit by a swarm from each start; the best end is the result. With a store or a time of `within` starts go in blocks.

    **Raises:** an `ArgumentError` for `options` that belong to methods that descend, a `SimulationError` where no start ended.
    """
    kind, options = type(method).__name__, dict(options)
    store, within = (options.pop(name)[0] for name in ("store", "within"))
    check_left_out(options, f"`{kind}`, which takes all data at once: leave it out.")
    method.check(problem)
    check_matrices(problem, kind)
    lean = problem.lean()
    if isinstance(starts, int | np.integer):
        check_count_of_starts(starts)
        check_drawable(problem)
        z = first_start(problem, drawn_starts(lean, jax.random.fold_in(key, 0), int(starts)))
    else:
        z = given_starts(problem, starts)
    counter.tell(f"{len(z)} starts, {method.name}")
    keys = jax.random.split(jax.random.fold_in(key, 1), len(z))
    with budgeted(within, together=True) as budget:
        if store is None and within is None:
            found = awaited(_settled(lean, method, z, keys), "fit", f"from {len(z)} starts")
        else:
            asked = {"method": method, "starts": starts, "key": key}
            found = _in_blocks(store, problem, method, z, keys, asked, counter)
    if bool((found.end.status == FAILED).all()):
        raise SimulationError(NOWHERE.format(len(found.error), method.dead))
    end = found.end
    result = summarise(problem, method.name, end, end.iterations, end.failures, spread=found.error)
    return dataclasses.replace(result, cut=budget.cut)


def _in_blocks(
    folder: str | Path | None,
    problem: Problem,
    method: AbstractSwarm,
    z: Array,
    keys: Array,
    asked: dict[str, Any],
    counter: Progress,
) -> Settled:
    """The ends of all starts, or of those that went within the time, of which finished ones are kept."""
    lean, count = problem.lean(), len(z)

    def run(rows: np.ndarray, best: float) -> Settled:
        return awaited(_settled(lean, method, z[rows], keys[rows]), "fit", f"from {len(rows)} of {count} starts")

    with kept_work(folder, "fit", problem, asked, block_settings()) as held:
        joined = joined_blocks(held, count, "end.model.value", run, counter)
    ends = {name.removeprefix("end."): values for name, values in joined.items() if name != "error"}
    end = unpacked(ends, end_like(problem, z[0], jnp.zeros((), int), ends))
    return Settled(end, jnp.asarray(joined["error"]))


@eqx.filter_jit
def _settled(problem: Problem, method: AbstractSwarm, z: Array, keys: Array) -> Settled:
    note_trace("fit", named_parts(problem) | {"method": method, "starts": z})

    def one(shared: tuple[Problem, AbstractSwarm], start: tuple[Array, Array]) -> Settled:
        return shared[1].settle(shared[0], *start)

    return over_members(one, (problem, method), (z, keys))
