"""Neural posterior estimation: the density of parameters given data, learned from simulations alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_key, check_kind
from ..._errors import ArgumentError
from ...core import full_products
from ...engine import awaited, note_trace
from ...problem import Problem, check_problem, defining_parts
from ...stores import describe, differences
from .._calibration import Calibration
from .._counts import Counts
from .._diagnostics import describe_quality
from .._posterior import Posterior
from .._target import check_proper, prior_draws
from ._density import Density, SplineFlow, Standard, standard_of
from ._features import Features, Summary, check_summary, features_of
from ._places import Places, places_of
from ._region import Region, drawn_in, region_of
from ._series import SeriesSummary
from ._simulations import Simulations, check_enough, seen_data, simulations_at
from ._training import Learned, check_learning, learned, still_growing

TESTED = 500
"""Simulations held out by which a learned posterior is calibrated, at most."""

RANKED = 99
"""Draws among which each true value is ranked."""


class NeuralPosterior(eqx.Module):
    r"""The posterior density learned from simulations, for models of which data can be drawn and no density is known.

    Parameters are drawn from the priors and one data set at each; a flow $q(\theta \mid y)$ is the density that gives these
    pairs the largest $\sum \log q(\theta_i \mid y_i)$. With enough of them it is the posterior of any data, not only of those
    observed: `learn_posterior` returns it.

    **Arguments:**

    - `simulations`: data sets to learn from, of all rounds together.
    - `rounds`: with more than one, further simulations come from where the posterior of the observed data is, as it was learned so
        far: the prior cut off to the region that holds all but a ten-thousandth of it. Such a posterior holds for the observed data
        alone.
    - `summary`: a function of data by output name, shape `(experiments, times, ...)`, that returns the numbers to learn from, or
        `SeriesSummary()`, a network for series; by default all data.
    - `network`: how the density is represented and learned.

    **Good values:** one round of 10,000 for up to five parameters; 100,000 where `calibration` finds ranks that are not uniform,
    or some rounds where the data tell a thousandth of the prior or less.

    **References:** Papamakarios & Murray (2016), arXiv:1605.06376; with rounds Deistler, Goncalves & Macke (2022),
    arXiv:2210.04815.
    """

    simulations: int = eqx.field(static=True, default=10_000)
    rounds: int = eqx.field(static=True, default=1)
    summary: Summary | SeriesSummary | None = eqx.field(static=True, default=None)
    network: SplineFlow = eqx.field(static=True, default=SplineFlow())

    def __check_init__(self) -> None:
        check_learning(self.simulations, self.rounds, self.network)
        check_summary(self.plain_summary)

    @property
    def plain_summary(self) -> Summary | None:
        """The summary that is a plain function of the data; None for one that is learned."""
        return None if isinstance(self.summary, SeriesSummary) else self.summary


class LearnedPosterior(eqx.Module):
    """A posterior density for any data of a problem, learned from simulations; `learn_posterior` makes one.

    It is a method of `sample` and `calibrate`: `simkit.sample(problem.with_data(other), method=learned, key=key)` takes
    milliseconds.

    - `names`, `units`: of the parameters. `simulations`, `failed`: how many there were, and of how many data are not finite: these
        are left out, which does not change the posterior of data that are.
    - `held_out`: mean log density of simulations that were held out. `warnings`: what to know before trusting it.
    - `calibration`: ranks of true values of simulations held out.
    - `rounds`: 1 where it holds for all data that the priors allow; else for those observed.
    """

    density: Density
    features: Features
    inputs: Standard
    standard: Standard
    places: Places
    calibration: Calibration
    lowest: Float[Array, " features"]
    highest: Float[Array, " features"]
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    definition: tuple[tuple[str, str], ...] = eqx.field(static=True)
    simulations: int = eqx.field(static=True)
    failed: int = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    held_out: float = eqx.field(static=True)
    warnings: tuple[str, ...] = eqx.field(static=True)

    def context(self, data: Mapping[str, Array]) -> Float[Array, " features"]:
        """The features of a data set as the network sees them."""
        return self.inputs(self.features(data))

    def draws(self, data: Mapping[str, Array], key: PRNGKeyArray, count: int) -> Float[Array, "count parameter"]:
        """Draws of the parameters in natural units given data by output name, as `problem.data` or as the simulator returns
        them. Pure: `jax.vmap` over data and keys answers many data sets at once."""
        z = self.density.sample(key, self.context(data), count)
        return jax.vmap(self.places.natural)(self.standard.back(z))

    def log_prob(self, theta: Float[Array, " parameter"], data: Mapping[str, Array]) -> Float[Array, ""]:
        """The logarithm of the posterior density at parameters in natural units, a pure function; minus infinity beyond bounds."""
        theta = jnp.asarray(theta, self.standard.scale.dtype)
        if theta.shape != (len(self.names),):
            raise ArgumentError(f"`theta` must have the shape ({len(self.names)},), but it has {theta.shape}.")
        lower, upper = self.places.coordinates.lower, self.places.coordinates.upper
        inside = (theta > lower) & (theta < upper)
        there = jnp.where(inside, theta, self.places.natural(self.standard.center))
        u = self.places.of(there)
        value = self.density.log_prob(self.standard(u)[None], self.context(data)[None])[0]
        found = value.astype(u.dtype) - jnp.sum(jnp.log(self.standard.scale)) - self.places.log_volume(u)
        return jnp.where(inside.all(), found, -jnp.inf)

    def __repr__(self) -> str:
        lines = [
            f"LearnedPosterior of {', '.join(self.names)}: {self.simulations} simulations, {self.failed} without data, "
            f"{self.steps} steps, mean log density of those held out {self.held_out:.4g}"
        ]
        lines += [f"  {line}" for line in repr(self.calibration).splitlines()]
        return "\n".join(lines + [f"  Warning: {text}" for text in self.warnings])


class Round(NamedTuple):
    """The result of one round."""

    features: Features
    inputs: Standard
    standard: Standard
    learned: Learned


@full_products
def learn_posterior(problem: Problem, *, method: NeuralPosterior | None = None, key: PRNGKeyArray) -> LearnedPosterior:
    """Learn the posterior density of a problem from simulations of its data, without a likelihood.

    **Arguments:**

    - `problem`: one whose data can be drawn: `from_simulator` makes one of a function; noise models and filters draw, too. Every
        free parameter needs a prior or two bounds.
    - `method`: a `NeuralPosterior`, its defaults otherwise. - `key`: a random key.

    **Returns:** a `LearnedPosterior`, a method of `sample` and `calibrate` for any data of the problem's shape.

    **Raises:** a `SamplingError` where hardly any simulation has data.
    """
    check_problem(problem)
    check_key(key, needed=True)
    method = NeuralPosterior() if method is None else method
    check_kind("method", method, NeuralPosterior, "a method", "Write `simkit.NeuralPosterior(simulations=10_000)`.")
    check_proper(problem)
    places = places_of(problem)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return _learned(problem, places, method, key)


def _learned(problem: Problem, places: Places, method: NeuralPosterior, key: PRNGKeyArray) -> LearnedPosterior:
    each = method.simulations // method.rounds
    found, last = _first(problem, places, method, method.simulations - each * (method.rounds - 1), key)
    for number in range(1, method.rounds):
        place, draw, learn, edge = jax.random.split(jax.random.fold_in(key, number), 4)
        context = last.inputs(last.features(problem.data))
        region = region_of(last.learned.density, last.standard, places, context, edge)
        theta = drawn_in(region, problem, place, each)
        new = simulations_at(problem, places, theta, method.plain_summary, draw)
        found = _inside(region, found).joined(new)
        last = _round(problem, found, method, learn)
    fine = found.raw[found.fine]
    calibration = _ranks(last, found, places, problem.names, jax.random.fold_in(key, method.rounds))
    return LearnedPosterior(
        last.learned.density,
        last.features,
        last.inputs,
        last.standard,
        places,
        calibration,
        jnp.asarray(fine.min(axis=0)),
        jnp.asarray(fine.max(axis=0)),
        problem.names,
        problem.units,
        definition_of(problem, method.rounds),
        method.simulations,
        found.failed,
        method.rounds,
        last.learned.steps,
        last.learned.held_out,
        tuple(_warnings(last.learned, found, calibration)),
    )


def _first(
    problem: Problem, places: Places, method: NeuralPosterior, count: int, key: PRNGKeyArray
) -> tuple[Simulations, Round]:
    """The first round, of draws of the priors."""
    place, draw, learn = jax.random.split(jax.random.fold_in(key, 0), 3)
    theta = prior_draws(problem, place, count)
    found = simulations_at(problem, places, theta, method.plain_summary, draw)
    check_enough(found)
    return found, _round(problem, found, method, learn)


def _inside(region: Region, found: Simulations) -> Simulations:
    """Earlier simulations whose parameters lie in a region: what the prior cut off to it would have drawn as well."""
    kept = np.asarray(region.holds(jnp.asarray(found.u)))
    return Simulations(*(x[kept] for x in found))


def _round(problem: Problem, found: Simulations, method: NeuralPosterior, key: PRNGKeyArray) -> Round:
    fine = found.fine
    features = features_of(found.raw[fine], seen_data(problem), method.plain_summary)
    x = np.asarray(features.scaled(jnp.asarray(found.raw[fine])))
    inputs, standard = standard_of(x), standard_of(found.u[fine])
    series = method.summary.maker(features) if isinstance(method.summary, SeriesSummary) else None
    y, context = np.asarray(standard(jnp.asarray(found.u[fine]))), np.asarray(inputs(jnp.asarray(x)))
    return Round(features, inputs, standard, learned(y, context, method.network, key, method.simulations, series))


def _ranks(last: Round, found: Simulations, places: Places, names: tuple[str, ...], key: PRNGKeyArray) -> Calibration:
    """The ranks of true values among draws, of simulations that learning did not see."""
    fine = found.fine
    count = min(TESTED, max(1, int(0.1 * fine.sum())))
    u, raw = found.u[fine][:count], found.raw[fine][:count]
    context = last.inputs(last.features.scaled(jnp.asarray(raw)))
    z = _many_draws(last.learned.density, context, jax.random.split(key, count), RANKED)
    z = awaited(z, "sample", f"while {count} learned posteriors were drawn from")
    true = np.asarray(last.standard(jnp.asarray(u)))
    ranks = np.sum(np.asarray(z) < true[:, None], axis=1)
    truths = jax.vmap(places.natural)(jnp.asarray(u))
    none = jnp.zeros(count, int)
    return Calibration(truths, jnp.asarray(ranks), none, none, jnp.zeros(count, truths.dtype), RANKED, names)


@eqx.filter_jit
def _many_draws(density: Density, context: Array, keys: Array, draws: int) -> Float[Array, "simulation draw parameter"]:
    note_trace("sample, ranks of a learned posterior", {"density": density, "context": context})
    return jax.lax.map(lambda pair: density.sample(pair[1], pair[0], draws), (context, keys), batch_size=50)


def ranks_of(
    problem: Problem, method: LearnedPosterior, data: Mapping[str, Any], truths: Array, draws: int, key: PRNGKeyArray
) -> np.ndarray:
    """The rank of each true value among draws of the learned posterior of its data, which have a leading axis."""
    check_fits(problem, method)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        context = jax.vmap(method.context)({name: jnp.asarray(x) for name, x in data.items()})
        z = _many_draws(method.density, context, jax.random.split(key, len(truths)), draws)
        true = method.standard(jax.vmap(method.places.of)(truths))
        found = awaited(z, "calibrate", "while learned posteriors were drawn from")
        return np.sum(np.asarray(found) < np.asarray(true)[:, None], axis=1)


def _warnings(learnt: Learned, found: Simulations, calibration: Calibration) -> list[str]:
    warnings = []
    if learnt.growing:
        warnings.append(still_growing(learnt.steps))
    if found.failed:
        warnings.append(
            f"{found.failed} of {len(found.fine)} simulations gave data that are not finite and were left out: the posterior is "
            "that of data that are."
        )
    odd = [name for name, p in calibration.p_values().items() if p < 0.01 / len(calibration.names)]
    if odd:
        named = ", ".join(f"`{name}`" for name in odd)
        warnings.append(
            f"Of simulations held out the true values of {named} do not have uniform ranks: intervals of the learned posterior "
            "are too narrow, too wide or shifted. Give more `simulations`, "
            "`network=SplineFlow(steps=...)`, or `rounds` where the data tell very much."
        )
    return warnings


def sample_learned(problem: Problem, method: LearnedPosterior, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """Draws of a learned posterior for the data of a problem."""
    check_fits(problem, method)
    chains, draws, _ = counts
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = awaited(_draws(method, problem.data, key, chains, draws), "sample", "of a learned posterior")
    theta, log_density = found
    shape = log_density.shape
    none = np.zeros(shape, bool)
    warnings = [*method.warnings, *_strange(method, problem), *describe_quality(theta, none)]
    rounds = "" if method.rounds == 1 else f" in {method.rounds} rounds"
    return Posterior(
        theta,
        log_density,
        jnp.asarray(none),
        jnp.zeros(shape, int),
        jnp.ones(shape, theta.dtype),
        problem.names,
        problem.units,
        f"neural posterior of {method.simulations} simulations{rounds}",
        tuple(warnings),
    )


@eqx.filter_jit
def _draws(
    method: LearnedPosterior, data: dict[str, Array], key: PRNGKeyArray, chains: int, draws: int
) -> tuple[Array, Array]:
    note_trace("sample", {"method": method, "data": data})
    theta = method.draws(data, key, chains * draws)
    log_density = jax.lax.map(lambda theta: method.log_prob(theta, data), theta, batch_size=1000)
    return theta.reshape(chains, draws, -1), log_density.reshape(chains, draws)


def check_fits(problem: Problem, method: LearnedPosterior) -> None:
    """Refuse a learned posterior of another problem.

    **Raises:** an `ArgumentError`.
    """
    if problem.names != method.names:
        raise ArgumentError(
            f"The learned posterior is of {', '.join(method.names)}, but the problem's free parameters are "
            f"{', '.join(problem.names)}."
        )
    made = [pair for pair in method.definition if not pair[0].startswith("data")]
    apart = differences(dict(made), dict(definition_of(problem, 1)))
    if apart:
        raise ArgumentError(
            f"The learned posterior is of another problem: {'; '.join(apart[:3])}. Learn one for this problem."
        )
    if method.rounds > 1 and dict(definition_of(problem, method.rounds)) != dict(method.definition):
        raise ArgumentError(
            f"The posterior was learned in {method.rounds} rounds for the data observed then, and holds for no others: give "
            "`NeuralPosterior(rounds=1)`, or learn one for these data."
        )
    if seen_data(problem) != method.features.seen:
        raise ArgumentError(
            "The learned posterior is of data of another shape, or of which others are missing. Learn one for these data."
        )


def definition_of(problem: Problem, rounds: int) -> tuple[tuple[str, str], ...]:
    """Describe what a learned posterior depends on: of several rounds the observed data, too."""
    aside = {"errors", "limits", "starts of free", "lengths"} | (set() if rounds > 1 else {"data"})
    parts = {name: part for name, part in defining_parts(problem).items() if name not in aside}
    return tuple(describe(parts).items())


def _strange(method: LearnedPosterior, problem: Problem) -> list[str]:
    """Say where the observed data lie outside of all that were simulated."""
    raw = np.asarray(method.features.raw(problem.data))
    low, high = np.asarray(method.lowest), np.asarray(method.highest)
    margin = 0.05 * (high - low)
    count = int(np.sum((raw < low - margin) | (raw > high + margin) | ~np.isfinite(raw)))
    if not count:
        return []
    return [
        f"{count} of {len(raw)} numbers of the observed data lie outside of all {method.simulations} simulations: the model or its "
        "priors do not give such data, and a learned posterior means nothing there."
    ]


def as_learned(problem: Problem, method: Any, key: PRNGKeyArray) -> LearnedPosterior:
    """The learned posterior of a method of `sample`, learned now where it is not yet."""
    return method if isinstance(method, LearnedPosterior) else learn_posterior(problem, method=method, key=key)
