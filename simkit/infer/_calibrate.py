"""calibrate: whether posteriors mean what they say, by simulation."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._budget import Within, budgeted, has_room
from .._doors import check_count, check_key, check_progress
from .._errors import ArgumentError, SamplingError, SimulationError
from .._progress import Progress, Say
from ..core import full_products
from ..engine import awaited
from ..fitting import AbstractMethod, comparable, fit, kept_work, masses
from ..problem import Problem, check_problem
from ._calibration import BINS, LEAST, LEFT_OUT, Calibration
from ._nuts import NUTS
from ._sample import FROM_PRIORS, Method, check_counts, sample
from ._simulated import simulated
from ._target import check_proper, prior_draws
from .likelihood_free import LearnedPosterior, NeuralPosterior, learn_posterior, ranks_of

KEPT = ("ranks", "outcome", "modes", "diverging")
"""Arrays of a record of a simulation."""

TIME_UP = 4
"""Outcome of simulations that did not begin in time."""


@full_products
def calibrate(
    problem: Problem,
    *,
    key: PRNGKeyArray,
    simulations: int = 100,
    draws: int = 49,
    thin: int = 5,
    warmup: int = 100,
    chains: int = 4,
    starts: int = 16,
    method: Method | None = None,
    fit_method: AbstractMethod | None = None,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> Calibration:
    """Simulation-based calibration: true values from the prior, data from them, and the rank of each true value among draws of
    the posterior given those data, which is uniform exactly when prior, likelihood, fit and sampler are right together.

    Each simulation takes the whole way of `sample`: a fit from starts that know nothing of the true values, chains at the optima
    that it found, and draws of all chains together. So a fit that misses an optimum shows as well: the true value then has no
    draws around it in a part of the simulations, and its rank is one of the ends.

    **Arguments:**

    - `simulations`: 100 find a gross error, 1000 a small one.
    - `draws`: draws kept a simulation, of all chains together, at least 9; 49 make 50 ranks, in ten equal bins.
    - `thin`: draws between those kept, so that they are nearly independent.
    - `warmup`, `chains`, `method`: as in `sample`; a `NeuralPosterior` of one round is learned once, for all
        simulations; `starts`, `fit_method`: as `starts` and `method` in `fit`.
    - `store`: a folder that keeps each simulation once it has ranks, so that the same call goes on after a crash.
    - `within`: as in `sample`: no more simulations begin than end in that time. Those left out are counted.
    - `progress`: as in `sample`.

    **Raises:** a `SamplingError` where fewer than half of the simulations have ranks.

    **Reference:** Talts et al. (2018), arXiv:1804.06788.
    """
    check_problem(problem)
    check_key(key, needed=True)
    check_progress(progress)
    check_count("simulations", simulations)
    if simulations < LEAST:
        raise ArgumentError(
            f"Argument `simulations` must be at least {LEAST} for ranks to tell anything, but it is {simulations}."
        )
    check_count("draws", draws, least=BINS - 1)
    check_counts(thin=thin, warmup=warmup, chains=chains, starts=starts)
    check_proper(problem)
    method = NUTS() if method is None else method
    each = -(-draws // chains)
    if isinstance(method, NUTS):  # one program for all draws of a simulation
        method = dataclasses.replace(method, block=warmup + each * thin)
    truth_key, data_key, run_key = jax.random.split(key, 3)
    if isinstance(method, NeuralPosterior) and method.rounds == 1:  # one that holds for all data
        method = learn_posterior(problem, method=method, key=jax.random.fold_in(key, 0))
    truths = prior_draws(problem, truth_key, simulations)
    found = simulated(problem, truths, jax.random.split(data_key, simulations))
    data, good = awaited(found, "calibrate", f"while {simulations} data sets were simulated")
    ranks = np.full(truths.shape, -1)
    outcome, modes, diverging = np.where(np.asarray(good), 0, 1), np.zeros(simulations, int), np.zeros(simulations)
    data = {name: np.asarray(values) for name, values in data.items()}
    if isinstance(method, LearnedPosterior):
        if store is not None or within is not None:
            raise ArgumentError(
                f"Argument `{'within' if store is None else 'store'}` goes with samplers, but a learned posterior has all ranks at "
                "once. Leave it out."
            )
        _check_enough(outcome)
        ranks = np.where(outcome[:, None] == 0, ranks_of(problem, method, data, truths, draws, run_key), -1)
        numbers = jnp.asarray(ranks, int), jnp.asarray(outcome, int), jnp.asarray(modes, int)
        return Calibration(truths, *numbers, jnp.asarray(diverging, truths.dtype), draws, problem.names)
    todo = np.flatnonzero(outcome == 0).tolist()
    rule = _Rule(draws, thin, warmup, chains, starts, method, fit_method)
    asked = {"key": key, "simulations": simulations, **rule._asdict()}
    with (
        Progress(len(todo), 0, progress, "simulations", "calibrate") as counter,
        kept_work(store, "calibration", problem, asked) as held,
        budgeted(within, together=True),
    ):
        up = False
        held.plan("simulation", "simulations", len(todo))
        for i in todo:
            kept = held.read(f"simulation-{i:06d}")
            up = up or (kept is None and not has_room())
            if kept is None and up:
                outcome[i] = TIME_UP
                continue
            if kept is None:
                again = problem.with_data({name: values[i] for name, values in data.items()})
                kept = _simulation(again, truths[i], jax.random.fold_in(run_key, i), rule)
                held.write(f"simulation-{i:06d}", kept)
            ranks[i], outcome[i], modes[i], diverging[i] = (kept[name] for name in KEPT)
            counter.add(1, int(outcome[i] != 0))
    _check_enough(outcome)
    numbers = jnp.asarray(ranks, int), jnp.asarray(outcome, int), jnp.asarray(modes, int)
    return Calibration(truths, *numbers, jnp.asarray(diverging, truths.dtype), draws, problem.names)


class _Rule(NamedTuple):
    """Settings of the fit and of the sampler of each simulation, as in `calibrate`."""

    draws: int
    thin: int
    warmup: int
    chains: int
    starts: int
    method: Method
    fit_method: AbstractMethod | None


def _simulation(problem: Problem, truth: Array, key: PRNGKeyArray, rule: _Rule) -> dict[str, np.ndarray]:
    """Infer from one data set: ranks of the true values, -1 where there are none, and how it went."""
    one, two = jax.random.split(key)
    start, outcome, modes, diverging = None, 0, 0, 0.0
    ranks = np.full(truth.shape, -1)
    kept_draws = -(-rule.draws // rule.chains) * rule.thin
    try:
        if type(rule.method) not in FROM_PRIORS and not isinstance(rule.method, NeuralPosterior):
            start = fit(problem, starts=rule.starts, method=rule.fit_method, key=one)
            modes = len(comparable(masses(start)))
        found = sample(
            problem,
            method=rule.method,
            chains=rule.chains,
            draws=kept_draws,
            warmup=rule.warmup,
            start=start,
            key=two,
        )
    except SimulationError:
        outcome = 2
    except SamplingError:
        outcome = 3
    else:
        rows = np.asarray(found.draws)[:, rule.thin - 1 :: rule.thin].swapaxes(0, 1).reshape(-1, truth.size)
        ranks = (rows[: rule.draws] < np.asarray(truth)).sum(axis=0)
        diverging = float(np.mean(np.asarray(found.diverging)))
    return {
        "ranks": ranks,
        **{name: np.asarray(x) for name, x in zip(KEPT[1:], (outcome, modes, diverging), strict=True)},
    }


def _check_enough(outcome: np.ndarray) -> None:
    used, total = int(np.sum(outcome == 0)), len(outcome)
    late = int(np.sum(outcome == TIME_UP))
    if used >= max(LEAST, (total - late) // 2):
        return
    if late:
        raise SamplingError(
            f"Only {used} of {total} simulations ended in the time of `within`, and at least {LEAST} are needed. Give more time; "
            "with a `store` the same call goes on."
        )
    counts = [f"{np.sum(outcome == k)} {words}" for k, words in enumerate(LEFT_OUT) if k and np.any(outcome == k)]
    raise SamplingError(
        f"Only {used} of {total} simulations could be used: there were {', '.join(counts)}. Narrow the priors to where the model "
        "can be simulated, or give `method=NUTS(target_accept=0.95)`."
    )
