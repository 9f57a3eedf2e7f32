"""Interface of methods that move many sets of parameters together and need no derivatives."""

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import SimulationError
from .._progress import Progress
from ..engine import awaited, note_trace, over_members
from ..problem import Problem, named_parts
from ._field_fit import check_matrices
from ._fit_result import FitResult, summarise
from ._method import FAILED, End
from ._starts import check_count_of_starts, check_drawable, check_left_out, drawn_starts, first_start, given_starts

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
    """Fit by a swarm from each start; the best end is the result.

    **Raises:** an `ArgumentError` for `options` that belong to methods that descend, a `SimulationError` where no start ended.
    """
    kind = type(method).__name__
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
    found = awaited(_settled(lean, method, z, keys), "fit", f"from {len(z)} starts")
    if bool((found.end.status == FAILED).all()):
        raise SimulationError(NOWHERE.format(len(z), method.dead))
    return summarise(problem, method.name, found.end, found.end.iterations, found.end.failures, spread=found.error)


@eqx.filter_jit
def _settled(problem: Problem, method: AbstractSwarm, z: Array, keys: Array) -> Settled:
    note_trace("fit", named_parts(problem) | {"method": method, "starts": z})

    def one(shared: tuple[Problem, AbstractSwarm], start: tuple[Array, Array]) -> Settled:
        return shared[1].settle(shared[0], *start)

    return over_members(one, (problem, method), (z, keys))
