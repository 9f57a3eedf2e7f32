"""Neural likelihood estimation: the density of data given parameters, learned from simulations."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_key, check_kind
from ..._errors import ArgumentError
from ...core import full_products
from ...problem import AbstractLikelihood, Problem, check_problem, with_likelihood
from .._counts import Counts
from .._posterior import Posterior
from .._target import check_proper, prior_draws, target_of
from .._tempered import TemperedSMC, sample_tempered
from ._density import Density, SplineFlow, Standard, standard_of
from ._features import Features, Summary, check_summary, features_of
from ._places import Places, places_of
from ._simulations import Simulations, check_enough, seen_data, simulations_at
from ._training import Learned, check_learning, learned, still_growing
from ._validity import Validity, learned_validity

DEFENSIVE = 0.1
"""Share of each later round's simulations that come from the priors, where the learned density would else never be corrected."""

RUNS = 4
"""Runs of tempered Monte Carlo by which a later round's parameters are drawn."""


class NeuralLikelihood(eqx.Module):
    r"""The density of data given parameters, learned from simulations, for models of which data can be drawn and no density is
    known; the posterior follows by any sampler.

    A flow $q(y \mid \theta)$ is the density that gives simulated pairs the largest $\sum \log q(y_i \mid \theta_i)$. It is right
    for parameters from any proposal, so later rounds simulate where the posterior is, as it was learned so far.

    **Arguments:**

    - `simulations`: data sets to learn from, of all rounds together.
    - `rounds`: the first draws from the priors, later ones from the posterior of the observed data.
    - `summary`: a function of data by output name that returns the numbers whose density is learned; by default all data, which
        should be at most some twenty. - `network`: how the density is represented and learned.
    - `sampler`: what draws from the posterior of the learned likelihood, without gradients of the simulator.

    **Good values:** the defaults where data are few and their scatter is simple, or where the data tell a thousandth of the prior
    or less; `NeuralPosterior` where data are many.

    **References:** Papamakarios, Sterratt & Murray (2019), arXiv:1805.07226.
    """

    simulations: int = eqx.field(static=True, default=10_000)
    rounds: int = eqx.field(static=True, default=5)
    summary: Summary | None = eqx.field(static=True, default=None)
    network: SplineFlow = eqx.field(static=True, default=SplineFlow(layers=3, bins=4, learning_rate=2e-3))
    sampler: TemperedSMC = eqx.field(static=True, default=TemperedSMC())

    def __check_init__(self) -> None:
        check_learning(self.simulations, self.rounds, self.network)
        check_kind("sampler", self.sampler, TemperedSMC, "a sampler", "Write `simkit.TemperedSMC(moves=16)`.")
        check_summary(self.summary)


class Inputs(eqx.Module):
    """Parameters as a network sees them: between two bounds as they are, others in places, of order 1."""

    places: Places
    standard: Standard

    def __call__(self, theta: Float[Array, " parameter"]) -> Float[Array, " parameter"]:
        return self.standard(self.places.plain(theta))


class LearnedLikelihood(AbstractLikelihood):
    """A density of data given parameters that was learned from simulations; `learn_likelihood` makes one.

    - `origin`: the likelihood whose data were simulated; it goes on to draw data. None of one that was read from a file.
    - `simulations`, `failed`: how many there were, and of how many data are not finite: the probability of failing was learned
        as well. `held_out`: mean log density of those held out. `growing`: whether more steps would have helped.
    """

    density: Density
    features: Features
    outputs: Standard
    inputs: Inputs
    validity: Validity | None
    origin: AbstractLikelihood | None
    simulations: int = eqx.field(static=True)
    failed: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    held_out: float = eqx.field(static=True)
    growing: bool = eqx.field(static=True)

    def log_prob(self, theta: Float[Array, " parameters"], model: Any, data: Any) -> Float[Array, ""]:
        raw = self.features.raw(data.values)
        context = self.inputs(theta)
        value = self.density.log_prob(self.outputs(self.features.scaled(raw))[None], context[None])[0]
        if self.validity is not None:
            value = value + self.validity.log_prob(context)
        volume = self.features.log_slope(raw) - jnp.sum(jnp.log(self.outputs.scale))
        return value.astype(theta.dtype) + volume.astype(theta.dtype)

    def sample(self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: Any, data: Any) -> Any:
        if self.origin is None:
            raise ArgumentError(
                "A learned likelihood that was read from a file draws no data by itself: "
                "`simkit.learn_likelihood(problem, method=learned)` puts it into a problem whose data can be drawn."
            )
        return self.origin.sample(key, theta, model, data)

    def warnings(self) -> list[str]:
        """Sentences about what to know before trusting it."""
        found = []
        if self.growing:
            found.append(still_growing(self.steps))
        if self.failed:
            found.append(
                f"{self.failed} of {self.simulations} simulations gave data that are not finite: the probability of "
                "that was learned."
            )
        return found


@full_products
def learn_likelihood(
    problem: Problem, *, method: NeuralLikelihood | LearnedLikelihood | None = None, key: PRNGKeyArray | None = None
) -> Problem:
    """Learn the density of a problem's data from simulations.

    **Arguments:** as of `learn_posterior`; `method`: a `NeuralLikelihood`, its defaults otherwise, or a `LearnedLikelihood` that
    was learned before, `problem.likelihood` or one of `simkit.load`, with which nothing is simulated and no key is needed.

    **Returns:** the same problem with a `LearnedLikelihood`, for `fit`, `profile`, `sample` and `compare`. With more than one round
    it holds near the posterior of the observed data; with one, for other data as well.

    **Raises:** a `SamplingError` where hardly any simulation has data.
    """
    check_problem(problem)
    if isinstance(method, LearnedLikelihood):
        return with_likelihood(problem, _of_problem(problem, method))
    check_key(key, needed=True)
    assert key is not None
    method = NeuralLikelihood() if method is None else method
    check_kind("method", method, NeuralLikelihood, "a method", "Write `simkit.NeuralLikelihood(simulations=10_000)`.")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = _learned(problem, method, key)
        return with_likelihood(problem, _in_precision(found, np.dtype(problem.bounds.dtype).name))


def _of_problem(problem: Problem, learned: LearnedLikelihood) -> LearnedLikelihood:
    """The learned likelihood with the one whose data were simulated, where it is of this problem."""
    ours, its = places_of(problem).coordinates, learned.inputs.places.coordinates
    same = ours.kinds == its.kinds and np.allclose(ours.lower, its.lower) and np.allclose(ours.upper, its.upper)
    if not same or seen_data(problem) != learned.features.seen:
        raise ArgumentError(
            "The learned likelihood is of another problem: its parameters have other bounds, or its data another shape. Learn one "
            "for this problem."
        )
    origin = problem.likelihood.origin if isinstance(problem.likelihood, LearnedLikelihood) else problem.likelihood
    return dataclasses.replace(learned, origin=origin)


def sample_likelihood(problem: Problem, method: NeuralLikelihood, counts: Counts, key: PRNGKeyArray) -> Posterior:
    """Draws of the posterior of a learned likelihood, in single precision, as it is learned."""
    learn, run = jax.random.split(key)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        likelihood = _learned(problem, method, learn)
        found = sample_tempered(target_of(with_likelihood(problem, likelihood), "reverse"), method.sampler, counts, run)
    rounds = "" if method.rounds == 1 else f" in {method.rounds} rounds"
    told = f"neural likelihood of {method.simulations} simulations{rounds}, {found.method}"
    warnings = (*likelihood.warnings(), *found.warnings)
    return dataclasses.replace(found, method=told, warnings=warnings)


def _learned(problem: Problem, method: NeuralLikelihood, key: PRNGKeyArray) -> LearnedLikelihood:
    check_proper(problem)
    places = places_of(problem)
    each = method.simulations // method.rounds
    found: Simulations | None = None
    likelihood: LearnedLikelihood | None = None
    for number in range(method.rounds):
        place, draw, learn, run = jax.random.split(jax.random.fold_in(key, number), 4)
        count = each if number < method.rounds - 1 else method.simulations - each * (method.rounds - 1)
        theta = prior_draws(problem, place, count)
        if likelihood is not None:
            new = count - int(DEFENSIVE * count)
            target = target_of(with_likelihood(problem, likelihood), "reverse")
            drawn = sample_tempered(target, method.sampler, Counts(RUNS, -(-each // RUNS), 0), run).flat()
            order = jax.random.permutation(run, drawn.shape[0])
            theta = jnp.concatenate([drawn[order][:new], theta[new:]])
        more = simulations_at(problem, places, theta, method.summary, draw)
        found = more if found is None else found.joined(more)
        if number == 0:
            check_enough(found)
        likelihood = _round(problem, places, found, method, learn, number)
    assert likelihood is not None
    return likelihood


def _round(
    problem: Problem,
    places: Places,
    found: Simulations,
    method: NeuralLikelihood,
    key: PRNGKeyArray,
    number: int,
) -> LearnedLikelihood:
    train, fail = jax.random.split(key)
    rng = np.random.default_rng(number)
    order = rng.permutation(len(found.fine))  # rounds mixed, so that those held out are of all
    found = Simulations(*(x[order] for x in found))
    plain = np.asarray(jax.vmap(lambda u: places.plain(places.natural(u)))(jnp.asarray(found.u)))
    raw = found.raw[found.fine]
    features = features_of(raw, seen_data(problem), method.summary)
    x = np.asarray(features.scaled(jnp.asarray(features.jittered(raw, rng))))
    inputs, outputs = standard_of(plain[found.fine]), standard_of(x)
    context = np.asarray(inputs(jnp.asarray(plain)))
    y = np.asarray(outputs(jnp.asarray(x)))
    learnt: Learned = learned(y, context[found.fine], method.network, train, method.simulations)
    validity = learned_validity(context, found.fine, fail) if found.failed else None
    return LearnedLikelihood(
        learnt.density,
        features,
        outputs,
        Inputs(places, inputs),
        validity,
        problem.likelihood,
        len(found.fine),
        found.failed,
        learnt.steps,
        learnt.held_out,
        learnt.growing,
    )


def _in_precision(likelihood: LearnedLikelihood, dtype: str) -> LearnedLikelihood:
    """The same density computed in another float type, so that fits can find its optimum to that type's rounding."""
    cast = lambda tree: jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)
    inputs, density = likelihood.inputs, likelihood.density
    return dataclasses.replace(
        likelihood,
        density=cast(density),
        validity=cast(likelihood.validity),
        outputs=dataclasses.replace(likelihood.outputs, dtype=dtype),
        inputs=dataclasses.replace(inputs, standard=dataclasses.replace(inputs.standard, dtype=dtype)),
    )
