"""Draws looked at before a fit: one coarse simulation each tells those from which something can be fitted."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import ArgumentError
from ..core import Status
from ..engine import Adaptive, note_trace, over_members
from ..problem import Problem, named_parts, remeasured, solved
from ._evolve import evolved
from ._starts import drawn_starts, first_start

LOOKS = 30
"""Number of draws that are examined for each that goes on. An examination costs a twentieth of a step, and nine of ten draws
between bounds that are decades apart fit nothing."""

TOGETHER = 64
"""Number of draws in one call."""

POPULATION = 40
"""Smallest population: with fewer members it loses its spread before it has found anything."""

COARSE = 100.0
"""Factor by which the tolerances of adaptive steps are larger while draws are screened."""


def looked_at(
    problem: Problem, key: PRNGKeyArray, count: int, generations: int = 0
) -> Float[Array, "starts parameters"]:
    """The best of many draws, in the coordinates of the fit; the start that is given stays, whatever it is worth.

    With `generations` they evolve for so many, one coarse simulation each in every generation.
    """
    lean = problem.lean()
    rough = coarse(lean)
    draws = range(-(-LOOKS * count // TOGETHER))
    found = np.concatenate([np.asarray(drawn_starts(lean, jax.random.fold_in(key, i), TOGETHER)) for i in draws])
    values = lambda z: values_of(rough, z)
    size = max(count, POPULATION) if generations else count
    z = found[np.argsort(values(found), kind="stable")[:size]]
    if generations:
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
        z = evolved(values, z, np.asarray(lean.coordinate_bounds()), generations, random)[:count]
    z = jnp.asarray(z)
    if not np.isfinite(np.asarray(problem.starts)).any():
        return z
    return first_start(problem, jnp.concatenate([z[:1], z[:-1]]))  # which takes the place of the worst, not of the best


def coarse(problem: Problem) -> Problem:
    """The problem with tolerances that serve to tell draws apart, by the same program."""
    step = problem.method.step
    if not isinstance(step, Adaptive):
        return problem
    return eqx.tree_at(
        lambda p: (p.method.step.rtol, p.method.step.atol), problem, (step.rtol * COARSE, step.atol * COARSE)
    )


def values_of(problem: Problem, z: np.ndarray) -> np.ndarray:
    """The values of any number of places, by one program."""
    parts = []
    for i in range(0, len(z), TOGETHER):
        rows = np.minimum(np.arange(i, i + TOGETHER), len(z) - 1)
        parts.append(np.asarray(_values(problem, jnp.asarray(z[rows]))))
    value = np.concatenate(parts)[: len(z)]
    return np.where(np.isfinite(value), value, np.inf)


@eqx.filter_jit
def _values(problem: Problem, z: Array) -> Float[Array, " starts"]:
    """The negative log posteriors of draws, what has a closed form at its best; infinite where a simulation failed."""
    note_trace("fit, looks", named_parts(problem) | {"starts": z})

    def one(problem: Problem, z: Array) -> Array:
        theta = problem.natural(z)
        if not problem.likelihood.independent:
            value = -problem.log_posterior(theta)
            return jnp.where(jnp.isfinite(value), value, jnp.inf)
        setups, trajectories = problem.model.solve(theta, problem.times)
        if problem.closed:
            best = solved(problem, theta, setups, trajectories)
            theta = jnp.where(jnp.isfinite(best), best, theta)
            setups = remeasured(problem, theta, setups)
        value = problem.misfit(problem.compare(setups, trajectories)) - problem.log_prior(theta)
        fine = jnp.all(trajectories.status == Status.OK) & jnp.isfinite(value)
        return jnp.where(fine, value, jnp.inf)

    return over_members(one, problem, z)


class Search(NamedTuple):
    """The search for where a fit begins: draws for each start, generations in which they evolve, and rounds of scatter search."""

    screen: int
    evolve: int
    recombine: int


def check_search(search: Search, starts: int | np.integer | Array) -> None:
    """Refuse numbers of draws, generations or rounds that are none, or that go with no drawn starts.

    **Raises:** an `ArgumentError`.
    """
    for name, value in search._asdict().items():
        least = 1 if name == "screen" else 0
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ArgumentError(f"Argument `{name}` must be a whole number of at least {least}, but it is {value!r}.")
    if search.screen > 1 and not isinstance(starts, int | np.integer):
        raise ArgumentError("Argument `screen` goes with a number of `starts` to draw, but they are given.")
    if search.recombine and (starts if isinstance(starts, int | np.integer) else len(starts)) < 2:
        raise ArgumentError(
            "Argument `recombine` joins the places where several starts ended, but there is one. Give more `starts`."
        )
    if search.evolve and search.screen == 1:
        raise ArgumentError("Argument `evolve` needs draws that were looked at: give `screen` too, such as `screen=3`.")
