"""sample: draws from the posterior of a problem."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import jax
from jaxtyping import PRNGKeyArray

from .._budget import Within, budgeted, time_left
from .._doors import check_key, check_kind, check_method, check_progress
from .._errors import ArgumentError, TimeUpError
from .._processes import several
from .._progress import Progress, Say
from ..core import SampledSystem, full_products
from ..engine import check_agreed
from ..fitting import FieldFit, FitResult, GaussNewtonCG, check_fit, fit
from ..problem import Problem, check_dense, check_gaussian, check_problem, defining_parts
from ..stores import describe, followed, journal
from ._averages import sample_averages
from ._counts import Counts
from ._ensemble_sampler import EnsembleSampler, sample_ensemble
from ._journal_blocks import up
from ._laplace import LaplaceApproximation, Variational, sample_laplace, sample_variational
from ._mclmc import MCLMC, sample_mclmc
from ._modes import modes_of
from ._nested import NestedSampling, sample_nested
from ._nuts import NUTS
from ._nuts_run import sample_nuts
from ._parallel_tempering import ParallelTempering, sample_parallel
from ._particle_gibbs import ParticleGibbs, check_particles, sample_particle_gibbs
from ._particle_metropolis import ParticleMetropolis, check_estimated, sample_particle_metropolis
from ._pathfinder import Pathfinder, sample_pathfinder
from ._posterior import Posterior
from ._starts import laplace_start
from ._target import Target, target_of
from ._tempered import TemperedSMC, sample_tempered
from .likelihood_free import (
    ABCSMC,
    LearnedPosterior,
    NeuralLikelihood,
    NeuralPosterior,
    as_learned,
    sample_abc,
    sample_learned,
    sample_likelihood,
)

FROM_PRIORS: Mapping[type, Callable[[Target, Any, Counts, PRNGKeyArray], Posterior]] = {
    NestedSampling: sample_nested,
    ParallelTempering: sample_parallel,
    Pathfinder: sample_pathfinder,
    TemperedSMC: sample_tempered,
}
"""Methods that begin from draws of the priors and need no fit."""

Method = (
    NUTS
    | ABCSMC
    | EnsembleSampler
    | LaplaceApproximation
    | LearnedPosterior
    | MCLMC
    | NestedSampling
    | NeuralLikelihood
    | NeuralPosterior
    | ParallelTempering
    | ParticleGibbs
    | Pathfinder
    | ParticleMetropolis
    | TemperedSMC
    | Variational
)

LIKELIHOOD_FREE = ABCSMC, LearnedPosterior, NeuralLikelihood, NeuralPosterior
"""Methods that need draws of data, and no density."""

CUTTABLE = NUTS | EnsembleSampler | ParticleGibbs | ParticleMetropolis
"""Methods that go in blocks of draws, which a store keeps."""


@full_products
def sample(
    problem: Problem,
    *,
    method: Method | None = None,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 300,
    start: FitResult | FieldFit | None = None,
    key: PRNGKeyArray,
    store: str | Path | None = None,
    every: int | None = None,
    within: Within = None,
    progress: Say = None,
) -> Posterior:
    """Draw from the posterior distribution of a problem's free parameters.

    **Arguments:**

    - `problem`: the problem. Every free parameter needs a prior, or two finite bounds between which it is flat.
    - `method`: `NUTS()` by default; `EnsembleSampler()` needs no gradients, `Variational()`, `Pathfinder()`
        and `LaplaceApproximation()` approximate, `TemperedSMC()`, `ParallelTempering()` and `NestedSampling()` are for several
        modes and the evidence,
        `ParticleMetropolis()` for likelihoods that are estimated with random numbers, by default there, and `ParticleGibbs()` for
        those by particles; `NeuralPosterior()`, `NeuralLikelihood()`, `ABCSMC()` and what `learn_posterior` returns need no
        likelihood.
    - `chains`, `draws`, `warmup`: independent chains, draws kept from each, and draws before that which tune the sampler.
        Four chains of 1000 after 300 are good values where a fit supplies the mass matrix.
    - `start`: a fit of the same problem: chains begin around its optima of comparable mass, at least one in each where there
        are enough, with the covariance there as mass matrix. Without one the problem is fitted first. Where an unknown has a prior
        of fields, that is a fit by `GaussNewtonCG(modes=...)`, and `NUTS` moves in white coordinates: for some hundred numbers.
    - `key`: a random key; the same key gives the same draws.
    - `store`: a folder in which draws are kept, with the state of the sampler, as `NUTS` and `EnsembleSampler` go. The same call
        goes on after the last that were kept, and gives the draws of one that was never interrupted; one with more `draws` goes on
        as well. Where there is no `start`, the fit is kept there, too; of averages over frames the frames. It may be
        the URL of an object store (`s3://bucket/run`).
    - `every`: so many draws of each chain are lost at most; by default `NUTS.block` of them. A store that is there
        goes on with its own.
    - `within`: the time that the call may take, such as "2 h", "30 min" or seconds, for the methods that `store` knows. No more
        blocks of draws begin than are expected to end in time; `warnings` says how many draws there are. With a store the same
        call goes on later, to the same draws.
    - `progress`: draws, rate, time left and divergences, on terminals and in notebooks by default; True to print everywhere, False
        not at all, or a function that is given each line.

    **Returns:** a `Posterior`; its `warnings` say what to know before trusting it.

    **Raises:** a `SamplingError` when chains stay stuck after they were started again: such chains must not be averaged. A
    `StoreError` that says what differs where the store belongs to other draws; a `TimeUpError` where the time of `within` is up
    before the first draw.
    """
    check_problem(problem, drawn=False)
    check_key(key, needed=True)
    check_progress(progress)
    counts = Counts(chains, draws, warmup)
    # Of several processes all take part in a fit, and in the chains of NUTS.
    shared = problem.likelihood.with_key(key) is None and (start is None or isinstance(method, NUTS | None))
    with Progress(None, 0, progress, verb="sample") as counter, budgeted(within, together=shared) as budget:
        if within is not None:
            _check_cuttable(method)
        if isinstance(problem.base.system, SampledSystem):
            once = lambda covered, start, key, store: _sample(
                covered, method, counts, start, key, store, every, counter
            )
            found = sample_averages(problem, start, key, once, store)
        else:
            found = _sample(problem, method, counts, start, key, store, every, counter)
    return _told_of_cut(found, draws, store) if budget.cut else found


def _check_cuttable(method: object) -> None:
    """Refuse a time for methods that do not go in blocks of draws.

    **Raises:** an `ArgumentError`.
    """
    if not isinstance(method, CUTTABLE | None):
        raise ArgumentError(
            f"Argument `within` does not go with `{type(method).__name__}`, whose work is one piece. Leave it out, or take `NUTS`, "
            "`EnsembleSampler`, `ParticleMetropolis` or `ParticleGibbs`."
        )


def _told_of_cut(found: Posterior, draws: int, store: str | Path | None) -> Posterior:
    """Say in the warnings that the time was up, and what another call does."""
    there = found.draws.shape[1]
    rest = "The same call goes on." if store is not None else "Without a `store` another call begins anew."
    text = f"The time of `within` was up: {there} of {draws} draws a chain are there. {rest}"
    return dataclasses.replace(found, warnings=(text, *found.warnings), cut=True)


def _sample(
    problem: Problem,
    method: Method | None,
    counts: Counts,
    start: FitResult | FieldFit | None,
    key: PRNGKeyArray,
    store: str | Path | None,
    every: int | None,
    counter: Progress,
) -> Posterior:
    """The draws of the posterior of a problem that simulates as it is."""
    chains, draws, warmup = counts
    estimated = problem.likelihood.with_key(key) is not None
    if method is None:
        method = ParticleMetropolis() if estimated else NUTS()
    remedy = "Take one of `simkit.infer`, such as `simkit.infer.NUTS()`."
    check_method("method", method, Method, "a method of sampling", remedy, get_args(Method))
    if problem.unknowns.fields:
        check_field_sampling(problem, method, start, store)
    elif start is not None:
        check_fit(start, problem, "start")
    check_counts(chains=chains, draws=draws, warmup=warmup)
    if isinstance(method, LIKELIHOOD_FREE):
        check_without(method, start, store)
        return _sample_likelihood_free(problem, method, counts, key)
    target = target_of(problem, "reverse" if isinstance(method, Variational) else None)
    if isinstance(method, ParticleMetropolis):
        check_estimated(target)
    elif isinstance(method, ParticleGibbs):
        check_particles(problem)
    elif estimated:
        raise ArgumentError(
            f"`{type(method).__name__}` needs a log density that is one function, but `{type(problem.likelihood).__name__}` "
            "estimates it with random numbers, and with fixed ones it jumps: take `ParticleMetropolis()` or `ParticleGibbs()`."
        )
    if isinstance(method, NestedSampling | ParallelTempering | Pathfinder | TemperedSMC):
        check_without(method, start, store)
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return FROM_PRIORS[type(method)](target, method, Counts(chains, draws, warmup), key)
    if every is not None:
        check_counts(every=every)
    asked = {"method": method, "chains": chains, "warmup": warmup, "key": key, "start": start}
    if isinstance(method, NUTS):
        others = {"draws": draws, "every": every, "store": store if store is None else str(store)}
        check_agreed("sample", lambda: {**defining_parts(problem), **asked, **others})
    with contextlib.ExitStack() as stack:
        held = None
        if store is not None and isinstance(method, CUTTABLE):
            # States of NumPyro's kernel, in stores of before, are no states of this one.
            asked |= {"trees": "as one loop over gradients"} if isinstance(method, NUTS) else {}
            block = min(every or getattr(method, "block", NUTS.block), warmup + draws)
            definition = describe({**defining_parts(problem), **asked})
            # Of processes that share chains the first has the store.
            keep = followed if isinstance(method, NUTS) and several() else journal
            held = stack.enter_context(keep(store, "sampling run", definition, {"every": block}, beside=("fit",)))
        fit_key, run_key = jax.random.split(key)
        if start is None:
            counter.tell("fit, from which chains begin")
        if start is None and problem.unknowns.fields:
            start = fit(problem, method=GaussNewtonCG(modes=problem.size), key=fit_key)
        elif start is None and not estimated:
            start = _fit_before(problem, fit_key, store)
        # NumPyro's kernels rely on JAX's standard promotion, whatever the caller has set.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            modes = None if start is None else modes_of(target, start, laplace_start)
            if isinstance(method, ParticleMetropolis):
                return sample_particle_metropolis(target, method, modes, chains, draws, warmup, run_key, held)
            if isinstance(method, ParticleGibbs):
                return sample_particle_gibbs(target, method, modes, Counts(chains, draws, warmup), run_key, held)
            assert modes is not None  # of all others there is a fit
            if isinstance(method, LaplaceApproximation):
                return sample_laplace(target, method, modes, chains, draws, run_key)
            if isinstance(method, Variational):
                return sample_variational(target, method, modes, chains, draws, run_key)
            if isinstance(method, MCLMC):
                return sample_mclmc(target, method, modes, Counts(chains, draws, warmup), run_key)
            if isinstance(method, EnsembleSampler):
                return sample_ensemble(target, method, modes, chains, draws, warmup, run_key, held)
            return sample_nuts(target, method, modes, counts, run_key, counter, held)


def _fit_before(problem: Problem, key: PRNGKeyArray, store: str | Path | None) -> FitResult:
    """The fit around which chains begin, whole: draws that begin from a part of it would be others than those of a later call.

    **Raises:** a `TimeUpError` where the time is up before all starts have ended.
    """
    left = time_left()
    if store is None and left is None:
        return fit(problem, key=key)
    found = fit(problem, key=key, store=None if store is None else f"{store}/fit", within=left)
    if found.cut:
        raise TimeUpError(up("in the fit around which chains begin", store is not None))
    return found


def _sample_likelihood_free(problem: Problem, method: Any, counts: Counts, key: PRNGKeyArray) -> Posterior:
    if isinstance(method, ABCSMC):
        return sample_abc(problem, method, counts, key)
    if isinstance(method, NeuralLikelihood):
        return sample_likelihood(problem, method, counts, key)
    learn_key, run_key = jax.random.split(key)
    return sample_learned(problem, as_learned(problem, method, learn_key), counts, run_key)


def check_without(method: Any, start: Any, store: Any) -> None:
    """Refuse a fit or a store where a method begins from the priors.

    **Raises:** an `ArgumentError`.
    """
    if start is not None or store is not None:
        raise ArgumentError(
            f"`{type(method).__name__}` begins from the priors: it takes neither a `start` nor a `store`."
        )


def check_field_sampling(problem: Problem, method: Any, start: Any, store: Any) -> None:
    """Refuse what does not go with a prior of fields.

    **Raises:** an `ArgumentError`.
    """
    check_gaussian(problem, "`sample`, which draws and")
    name = problem.unknowns.fields[0][0].name
    if not isinstance(method, NUTS):
        raise ArgumentError(
            f"`{name}` has a prior of fields, which `{type(method).__name__}` does not know. Take `simkit.infer.NUTS()`, or `fit` "
            "with `method=simkit.GaussNewtonCG(modes=100)`, whose `draws` are those of a normal approximation."
        )
    if store is not None:
        raise ArgumentError(f"Argument `store` does not go with the prior of fields of `{name}`: leave it out.")
    check_dense(problem.size, problem.times.dtype, "The mass matrix of `NUTS`", 4.0)
    if start is not None:
        remedy = "`simkit.fit(problem, method=simkit.GaussNewtonCG(modes=100))` gives one."
        check_kind("start", start, FieldFit, "the result of a fit of fields", remedy)
        if start.unknowns.blocks != problem.unknowns.blocks:
            raise ArgumentError("Argument `start` must be a fit of the same problem, but its unknowns are others.")


def check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if not isinstance(value, int) or value < (0 if name == "warmup" else 1):
            kind = "an integer of at least 0" if name == "warmup" else "a positive integer"
            raise ArgumentError(f"Argument `{name}` must be {kind}, but it is {value!r}.")
