"""Expected information of an experiment over the prior: two bounds from pairs of draws."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_count, check_key, check_kind
from .._errors import ArgumentError, SimulationError
from ..core import Status, full_products
from ..engine import note_trace
from ..problem import Problem, check_independent, check_problem, named_parts
from ._starts import check_drawable, drawn_starts

FAILED = 0.5
"""Share of draws whose simulation fails from which on nothing is said."""


class Gain(eqx.Module):
    """Expected information of an experiment, in nats, between two bounds.

    - `lower`, `upper`: estimates of a lower and an upper bound; `error`: the standard error of each, from the scatter of the draws.
    - `draws`: M, of which the bounds are made; the lower one is at most log M. `failures`: those whose simulation failed, left out.
    """

    lower: Float[Array, ""]
    upper: Float[Array, ""]
    error: Float[Array, ""]
    draws: int = eqx.field(static=True)
    failures: int = eqx.field(static=True)

    def __repr__(self) -> str:
        most, failed = np.log(self.draws), f", {self.failures} simulations failed" if self.failures else ""
        text = f"Gain: {float(self.lower):.3f} to {float(self.upper):.3f} nats, each +- {float(self.error):.2g}"
        text = f"{text}, from {self.draws} draws{failed}"
        if float(self.lower) > most - 1:
            text += f"\n  warning: the lower bound cannot exceed log({self.draws}) = {most:.2f}. Take more `draws`."
        return text


class Bounds(NamedTuple):
    """Terms of both bounds, one a draw, and which draws count."""

    lower: Array
    upper: Array
    good: Array


@full_products
def expected_information(
    problem: Problem, *, draws: int = 1000, known: Any = None, key: PRNGKeyArray | None = None
) -> Gain:
    r"""Estimate the information on all unknowns that the data of a problem are expected to bring, before any are there.

    Of M draws $\theta_i$ of the prior, and of data $y_i$ drawn at each,

    $$\frac1M \sum_i \log \frac{p(y_i | \theta_i)}{\frac1M \sum_j p(y_i | \theta_j)} \;\lesssim\; I(\theta; y) \;\lesssim\;
    \frac1M \sum_i \log \frac{p(y_i | \theta_i)}{\frac1{M - 1} \sum_{j \ne i} p(y_i | \theta_j)}$$

    The left one is the prior contrastive estimate with the draws of others as contrasts, in expectation a lower bound, the right
    one nested Monte Carlo, an upper bound. Both take M simulations. No values of data are read: they only say what is measured,
    where and when.

    **Arguments:**

    - `problem`: a problem whose unknowns have priors, or two bounds each, between which they are drawn evenly in the coordinates of
        the fit.
    - `draws`: M.
    - `known`: the `Posterior` of earlier data on the same unknowns, whose draws take the place of the prior's.
    - `key`: a random key; `jax.random.key(0)` by default.

    **Returns:** a `Gain`: `lower`, `upper`, `error`, in nats. **Raises:** an `ArgumentError` for data that depend on each other and
    for populations, a `SimulationError` where half of the draws cannot be simulated.

    **Good values:** 1000 draws for up to 5 nats; the lower bound ends at log M, and the gap of both says what more draws would
    bring.

    **References:** Lindley (1956), doi:10.1214/aoms/1177728069; Foster et al. (2020), A unified stochastic gradient approach to
    designing Bayesian-optimal experiments, AISTATS, arXiv:1911.00294.
    """
    check_gain(problem)
    check_count("draws", draws, least=4)
    check_key(key)
    key = jax.random.key(0) if key is None else key
    z = pool(problem, known, jax.random.fold_in(key, 0), draws)
    return summed(_bounds(problem.lean(), z, jax.random.fold_in(key, 1)))


def check_gain(problem: Problem) -> None:
    """Refuse a problem whose expected information is not computed.

    **Raises:** an `ArgumentError`.
    """
    check_problem(problem)
    check_independent(problem, "`expected_information`")
    if problem.population is not None:
        raise ArgumentError(
            "The expected information of a population is not computed: give the parameters of one individual as `Free`."
        )
    check_drawable(problem)


def pool(problem: Problem, known: Any, key: PRNGKeyArray, count: int) -> Float[Array, "draws parameters"]:
    """Draws of the prior, or of a posterior, in the coordinates of the fit."""
    if known is None:
        return drawn_starts(problem.lean(), key, count)
    draws = getattr(known, "draws", None)
    check_kind("known", draws, jax.Array | np.ndarray, "a posterior", "Give what `simkit.sample(problem)` returned.")
    if tuple(known.names) != problem.names:
        raise ArgumentError(
            f"Argument `known` must be a posterior of the unknowns {problem.names}, but it has {tuple(known.names)}."
        )
    flat = jnp.asarray(draws).reshape(-1, problem.size)
    # Without repeats where there are enough: a draw that contrasts itself tells nothing.
    rows = jax.random.choice(key, len(flat), (count,), replace=len(flat) < count)
    return problem.coordinates(flat[rows])


def summed(found: Bounds) -> Gain:
    """Both bounds, of the draws that could be simulated."""
    good = np.asarray(found.good)
    count = int(good.sum())
    if count <= FAILED * good.size:
        raise SimulationError(
            f"Of {good.size} draws of the prior only {count} could be simulated, so that nothing can be said of the experiment. "
            "Narrow the priors to where the system simulates."
        )
    lower, upper = (np.asarray(x, float)[good] for x in (found.lower, found.upper))
    error = max(lower.std(ddof=1), upper.std(ddof=1)) / count**0.5
    number = lambda x: jnp.asarray(x, found.lower.dtype)
    return Gain(number(lower.mean()), number(upper.mean()), number(error), good.size, good.size - count)


@eqx.filter_jit
def _bounds(problem: Problem, z: Array, key: PRNGKeyArray) -> Bounds:
    note_trace("expected_information", named_parts(problem) | {"draws": z})
    return bounds_of(problem, z, key, one_by_one=True)


def bounds_of(problem: Problem, z: Array, key: PRNGKeyArray, one_by_one: bool = False) -> Bounds:
    """The terms of both bounds at draws in the coordinates of the fit; pure."""
    heads, status = jax.vmap(lambda z: problem.heads(problem.natural(z)))(z)
    seen = {name: jnp.isfinite(values) for name, values in problem.data.items()}
    good = jnp.all(status == Status.OK, axis=1)
    for name, (location, _) in heads.items():
        good = good & jnp.isfinite(jnp.where(seen[name][None], location, 0)).reshape(len(z), -1).all(axis=1)
    data = {}
    for i, (name, (location, noise)) in enumerate(heads.items()):
        fine = good.reshape(-1, *(1,) * (location.ndim - 1))
        location = jnp.where(fine, location, 1)
        noise = jax.tree.map(lambda x, fine=fine: jnp.where(fine, x, 1), noise)
        keys = jax.random.split(jax.random.fold_in(key, i), len(z))
        heads[name] = location, noise
        data[name] = jax.vmap(lambda k, x, n: n.sample(k, x))(keys, location, noise)

    def contrasts(own: dict[str, Array]) -> Array:
        """The log density of one set of data at all draws."""

        def at(head: dict[str, Any]) -> Array:
            total = jnp.zeros((), z.dtype)
            for name, (location, noise) in head.items():
                total = total + jnp.sum(jnp.where(seen[name], noise.log_prob(own[name], location), 0))
            return total

        return jax.vmap(at)(heads)

    table = jax.lax.map(contrasts, data) if one_by_one else jax.vmap(contrasts)(data)
    table = jnp.where(good[None], table, -jnp.inf)
    count = jnp.sum(good).astype(z.dtype)
    own = jnp.where(good, jnp.diagonal(table), 0)
    itself = jnp.eye(len(z), dtype=bool)
    lower = own - logsumexp(table, axis=1) + jnp.log(count)
    others = jnp.where(itself, -jnp.inf, table)
    upper = own - logsumexp(others, axis=1) + jnp.log(count - 1)
    return Bounds(jnp.where(good, lower, 0), jnp.where(good, upper, 0), good)
