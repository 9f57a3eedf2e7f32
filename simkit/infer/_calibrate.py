"""calibrate: whether posteriors mean what they say, by simulation."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._doors import check_count, check_key, check_progress
from .._errors import ArgumentError, SamplingError, SimulationError
from .._progress import Progress, Say
from ..core import full_products
from ..engine import awaited
from ..fitting import AbstractMethod, comparable, fit, masses
from ..problem import Problem, check_problem
from ._calibration import BINS, LEAST, LEFT_OUT, Calibration
from ._nuts import NUTS
from ._sample import FROM_PRIORS, Method, check_counts, sample
from ._simulated import simulated
from ._target import check_proper, prior_draws
from .likelihood_free import LearnedPosterior, NeuralPosterior, learn_posterior, ranks_of


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
        _check_enough(outcome)
        ranks = np.where(outcome[:, None] == 0, ranks_of(problem, method, data, truths, draws, run_key), -1)
        numbers = jnp.asarray(ranks, int), jnp.asarray(outcome, int), jnp.asarray(modes, int)
        return Calibration(truths, *numbers, jnp.asarray(diverging, truths.dtype), draws, problem.names)
    todo = np.flatnonzero(outcome == 0).tolist()
    with Progress(len(todo), 0, progress, "simulations", "calibrate") as counter:
        for i in todo:
            again = problem.with_data({name: values[i] for name, values in data.items()})
            one, two = jax.random.split(jax.random.fold_in(run_key, i))
            start = None
            try:
                if type(method) not in FROM_PRIORS and not isinstance(method, NeuralPosterior):
                    start = fit(again, starts=starts, method=fit_method, key=one)
                    modes[i] = len(comparable(masses(start)))
                found = sample(
                    again, method=method, chains=chains, draws=each * thin, warmup=warmup, start=start, key=two
                )
            except SimulationError:
                outcome[i] = 2
            except SamplingError:
                outcome[i] = 3
            else:
                kept = np.asarray(found.draws)[:, thin - 1 :: thin].swapaxes(0, 1).reshape(-1, truths.shape[1])[:draws]
                ranks[i] = (kept < np.asarray(truths[i])).sum(axis=0)
                diverging[i] = np.mean(np.asarray(found.diverging))
            counter.add(1, int(outcome[i] != 0))
    _check_enough(outcome)
    numbers = jnp.asarray(ranks, int), jnp.asarray(outcome, int), jnp.asarray(modes, int)
    return Calibration(truths, *numbers, jnp.asarray(diverging, truths.dtype), draws, problem.names)


def _check_enough(outcome: np.ndarray) -> None:
    used, total = int(np.sum(outcome == 0)), len(outcome)
    if used >= max(LEAST, total // 2):
        return
    counts = [f"{np.sum(outcome == k)} {words}" for k, words in enumerate(LEFT_OUT) if k and np.any(outcome == k)]
    raise SamplingError(
        f"Only {used} of {total} simulations could be used: there were {', '.join(counts)}. Narrow the priors to where the model "
        "can be simulated, or give `method=NUTS(target_accept=0.95)`."
    )
