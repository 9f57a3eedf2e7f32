"""fit: the parameters under which the data are most probable."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from .._budget import Budget, Within, budgeted
from .._doors import check_key, check_kind, check_progress
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from ..core import SampledSystem, full_products
from ..engine import awaited, check_agreed, check_one_process, note_trace
from ..problem import Problem, check_problem, defining_parts, named_parts
from ._default_method import default_method
from ._dependent_model import has_curvature
from ._ensemble_fit import EnsembleFit
from ._ensemble_inversion import EnsembleKalmanInversion, fit_ensemble
from ._field_fit import check_matrices, fit_fields
from ._field_method import AbstractFieldMethod
from ._field_result import FieldFit
from ._fit_result import NOWHERE_LEFT, FitResult, summarise
from ._gauss_newton import GaussNewton
from ._horizons import check_horizons
from ._marginal import Marginal, population_in, sharpened
from ._method import FAILED, AbstractMethod, End, merged
from ._runs import in_blocks, run
from ._saem import SAEM
from ._saem_fit import fit_saem
from ._sampled import fit_sampled
from ._screen import LOOKS, check_screen, coarse, looked_at
from ._shooting import Shot, check_windows
from ._sparse import Sparse
from ._sparse_fit import fit_sparse
from ._sparse_result import SparseFit
from ._stage_line import line_of
from ._start_queue import LANES, queued
from ._starts import check_count_of_starts, check_drawable, drawn_starts, first_start, given_starts
from ._stored import TOGETHER, Begun, ends_in_blocks, kept_work
from ._swarm import AbstractSwarm, fit_swarms
from ._watched import watcher

ROUNDS = 10
"""Number of times that starts are drawn again if they fail to simulate."""

SCREENING = 25
"""Number of steps after which draws are selected. After six the order does not predict the end yet, after twenty it nearly
does."""

NOWHERE = (
    "No simulation ended at any of {} starts, or none had finite derivatives. Check the system with `simulate` at a value that you "
    "trust, then narrow the priors and the bounds around it, or give `starts`; `simkit.inspect.locate` names the line of a model "
    "whose derivative is not finite."
)

LOOSE = 1e-2
"""The tolerance, in standard errors, of the stages before the last."""

WHOLE: tuple[tuple[type, Callable[..., Any]], ...] = (
    (AbstractFieldMethod, fit_fields),
    (EnsembleKalmanInversion, fit_ensemble),
    (SAEM, fit_saem),
    (AbstractSwarm, fit_swarms),
)
"""Methods that make a fit by themselves, with the functions that do."""


@overload
def fit(
    problem: Problem,
    *,
    starts: ArrayLike | Sequence[Any] = 16,
    method: AbstractMethod | AbstractSwarm | SAEM | None = None,
    key: PRNGKeyArray | None = None,
    horizons: Sequence[float] | None = None,
    screen: int = 1,
    evolve: int = 0,
    windows: int = 1,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> FitResult: ...


@overload
def fit(
    problem: Problem,
    *,
    starts: ArrayLike | Sequence[Any] = 16,
    method: AbstractFieldMethod,
    key: PRNGKeyArray | None = None,
    progress: Say = None,
) -> FieldFit: ...


@overload
def fit(
    problem: Problem,
    *,
    starts: int = 16,
    method: EnsembleKalmanInversion,
    key: PRNGKeyArray | None = None,
    progress: Say = None,
) -> EnsembleFit: ...


@overload
def fit(
    problem: Problem,
    *,
    starts: ArrayLike | Sequence[Any] = 16,
    method: Sparse,
    key: PRNGKeyArray | None = None,
    horizons: Sequence[float] | None = None,
    screen: int = 1,
    evolve: int = 0,
    windows: int = 1,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> SparseFit: ...


@full_products
def fit(
    problem: Problem,
    *,
    starts: ArrayLike | Sequence[Any] = 16,
    method: AbstractMethod
    | AbstractSwarm
    | AbstractFieldMethod
    | EnsembleKalmanInversion
    | SAEM
    | Sparse
    | None = None,
    key: PRNGKeyArray | None = None,
    horizons: Sequence[float] | None = None,
    screen: int = 1,
    evolve: int = 0,
    windows: int = 1,
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> FitResult | FieldFit | EnsembleFit | SparseFit:
    """Maximise the posterior density (the likelihood, where priors are flat) from several starts at once.

    The density is that of the parameters in natural units: where a parameter moves by its logarithm, only the path is another.

    **Arguments:**

    - `problem`: a `Problem`.
    - `starts`: how many starts, drawn from the priors (evenly between the bounds where there is none; around `Free.start`
        where there is neither), the first one from `Free.start`; or an array of shape `(starts, parameters)` in natural
        units. A drawn start that fails to simulate is drawn again.
    - `method`: `GaussNewton()` by default, with more steps where nothing moves in time; `LBFGS()`, the default for a likelihood
        without residuals, or `Optimiser` for any Optax transformation; `GaussNewtonCG` or `FieldLBFGS` for fields, from the
        middle of the priors, from `Free.start` or from each of the given starts. `IteratedFiltering()` is for likelihoods by
        particles, the default there. `EnsembleKalmanInversion()` goes from the priors to the posterior without derivatives.
        `SAEM()` is for populations where `Marginal()`, their default, is too coarse. These four take none of the arguments that
        follow `key` but for `progress`; `IteratedFiltering` takes `store` and `within` too.
    - `key`: a random key for the draws of starts and methods; `jax.random.key(0)` by default, so that a fit repeats itself.
    - `horizons`: increasing fractions of each experiment's span, the last 1: the data up to there are fitted first, each
        stage from where the one before ended. (0.25, 0.5, 1) by default, since long data of an oscillator have many local
        minima and short ones few; (1,) where nothing moves in time, and after `windows`.
    - `screen`: how many draws there are for each start. With more than one, each of them is the best of thirty that are looked at
        (one coarse simulation each, with scales, offsets and scatter at their best); all take 25 coarse steps, and the best go on
        as the starts. For problems with many local optima, or bounds that are decades apart, 3 to 5.
    - `evolve`: the draws that were looked at, `screen` for each start and 40 at least, evolve for so many generations in place of
        their coarse steps (differential evolution: one coarse simulation a draw and generation, no derivatives), and the best go
        on as the starts. Where bounds are many decades apart and most draws lie on plateaus, 300, with `screen=3`.
    - `windows`: multiple shooting. Each experiment is cut into so many windows of equally many data times, each with a start of
        its own, which are fitted together and joined more and more closely; where that ends the fit of the whole begins. For
        oscillations and chaos over many periods: about two windows a period, or one for each time in which errors double twice.
    - `store`: a folder in which every start is kept as soon as it has ended, four of them together (or one a device, where there
        are more). The same call goes on with those that are missing, and ends with the numbers of one that was never interrupted.
    - `within`: the time that the call may take, such as "2 h", "30 min" or seconds. Starts go four together, as with a store, and
        no more begin than are expected to end in time, four at least. `FitResult.cut` and its print say so. With a store the same
        call goes on later, to the same bits.
    - `progress`: None for terminals and notebooks alone, True to print everywhere, False, or a function of each line.

    **Returns:** a `FitResult`; with the methods for fields a `FieldFit`: `fit["name"]`, `standard_error`, `interval`, `draws`; with
    `EnsembleKalmanInversion` an `EnsembleFit`, which has `members` in place of `draws`; with `Sparse` a `SparseFit`. It **raises**
    an `ArgumentError`, a `SimulationError` where no start can be simulated, or a `StoreError` that says what
    differs where the store belongs to another fit.

    **Good values:** the defaults; 50 to 100 starts where fewer than three agree.

    ```python
    import simkit
    times = [1.0, 2.0, 3.0, 4.0]
    line = simkit.odes.from_response(lambda x, params: params["slope"] * x, {"slope": 1.0})
    data = simkit.Experiment("line", times, {"y": [2.1, 3.9, 6.2, 7.8]})
    free = {"slope": simkit.Free(bounds=(0.0, 10.0))}
    problem = simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(0.1)})
    print(simkit.fit(problem))
    ```
    """
    check_problem(problem, drawn=False)
    check_key(key)
    check_progress(progress)
    if problem.size == 0:
        raise ArgumentError("Argument `problem` must have free parameters, but it has none.")
    others = {"horizons": (horizons, None), "screen": (screen, 1), "evolve": (evolve, 0), "windows": (windows, 1)}
    others |= {"store": (store, None), "within": (within, None)}
    method = default_method(problem) if method is None else method
    if isinstance(method, Sparse):
        own = lambda problem, key: fit(
            problem,
            starts=starts,
            key=key,
            horizons=horizons,
            screen=screen,
            evolve=evolve,
            windows=windows,
            store=store,
            within=within,
            progress=progress,
        )
        again = lambda problem, start, key: fit(
            problem, starts=start[None], key=key, horizons=(1.0,), method=GaussNewton(), progress=False
        )
        return fit_sparse(problem, method, own, again, jax.random.key(0) if key is None else key, progress)
    if whole := [run for kind, run in WHOLE if isinstance(method, kind)]:
        with Progress(None, 0, progress, verb="fit") as counter:
            return whole[0](problem, method, starts, jax.random.key(0) if key is None else key, others, counter)
    check_kind(
        "method",
        method,
        AbstractMethod,
        "a method of fits",
        "Take `simkit.GaussNewton()`, `simkit.LBFGS()` or another of `simkit.fitting`.",
    )
    assert isinstance(method, AbstractMethod)
    if isinstance(method, GaussNewton) and not has_curvature(problem):
        raise ArgumentError(
            f"`GaussNewton` needs residuals or a Fisher information, but the likelihood `{type(problem.likelihood).__name__}` "
            "has no method `residuals` or `information`. Take `simkit.LBFGS()`, which needs the log density "
            "alone, or give it one of them."
        )
    check_one_process("fit", problem.base.system, problem.base.y0)
    check_agreed(
        "fit", lambda: {**defining_parts(problem), "method": method, "starts": starts, "key": key, "others": others}
    )
    with Progress(None, 0, progress, verb="fit") as counter, budgeted(within, together=True) as budget:
        if isinstance(problem.base.system, SampledSystem):
            quiet, key = Progress(None, 0, False), jax.random.key(0) if key is None else key
            once = lambda problem, start: _fit_once(
                problem, method, start, key, horizons, 1, 0, 1, None, Budget(), quiet
            )
            others = {name: pair for name, pair in others.items() if name != "store"}
            asked = {"method": method, "starts": starts, "key": key}
            with kept_work(store, "fit", problem, asked) as held:
                return fit_sampled(problem, once, starts, key, others, counter, held)
        return _fit_once(problem, method, starts, key, horizons, screen, evolve, windows, store, budget, counter)


def _fit_once(
    problem: Problem,
    method: AbstractMethod,
    starts: ArrayLike | Sequence[Any],
    key: PRNGKeyArray | None,
    horizons: Sequence[float] | None,
    screen: int,
    evolve: int,
    windows: int,
    store: str | Path | None,
    budget: Budget,
    counter: Progress,
) -> FitResult:
    """The fit of a problem that simulates as it is."""
    windows = check_windows(problem, windows)
    stages = check_horizons(problem, (1.0,) if windows > 1 and horizons is None else horizons)
    check_matrices(problem, type(method).__name__)
    lean = problem.lean()
    if not isinstance(starts, int | np.integer):
        given: int | np.integer | Array = given_starts(problem, starts)
    else:
        check_count_of_starts(starts)
        check_drawable(problem)
        given = starts
    screen = check_screen(screen, given, evolve)
    key = jax.random.key(0) if key is None else key
    begin = lambda together: _begin(problem, method, stages, given, key, (screen, evolve), together, counter)
    shot = Shot(problem, windows) if windows > 1 else None

    def through(begun: Begun, told: Progress, best: float | None) -> End:
        return _through(lean, method, stages, _joined(shot, method, begun, told), told, best)

    together = store is not None or budget.seconds is not None or counter.watched
    if not together:
        begun = begin(None)
        end = through(begun, counter, np.inf if len(begun.z) > LANES else None)
    else:
        asked = {"method": method, "starts": given, "key": key, "horizons": stages, "screen": screen}
        asked |= {"windows": windows} if windows > 1 else {}
        asked |= {"evolve": evolve} if evolve else {}
        told = watcher(problem, method, counter)
        end = ends_in_blocks(store, problem, asked, begin, through, counter, told)
    if (np.asarray(end.status) == FAILED).all():
        tried = ", ".join(f"{stage:g}" for stage in stages)
        advice = " Where less data lead astray, `horizons=(1.0,)` fits all of them at once." if len(stages) > 1 else ""
        raise SimulationError(f"{NOWHERE_LEFT} Horizons tried: {tried} of each experiment's time.{advice}")
    integrated, count, size = 0, len(end.iterations), TOGETHER if together else None
    if isinstance(method, Marginal):
        once = lambda z: in_blocks(lean, method.once, 1.0, z, size or count, count)
        end, integrated = sharpened(lean, end, once), problem.size - population_in(problem).shared
    again = functools.partial(_again, lean, method, count, size)
    found = summarise(problem, method.name, end, end.iterations, end.failures, integrated, again)
    return dataclasses.replace(found, cut=budget.cut)


def _begin(
    problem: Problem,
    method: AbstractMethod,
    stages: tuple[float, ...],
    starts: int | np.integer | Array,
    key: PRNGKeyArray,
    screen: tuple[int, int],
    together: int | None,
    counter: Progress,
) -> Begun:
    """Return the starting points: given, or drawn, drawn again where they failed, and screened; so many `together`, or all.

    `screen` is how many draws there are for each start, and for how many generations they evolve.
    """
    if not isinstance(starts, int | np.integer):
        return _from_here(starts)
    lean, (draws, generations) = problem.lean(), screen
    z = first_start(problem, drawn_starts(lean, jax.random.fold_in(key, 0), int(starts)))
    if draws > 1:
        z = looked_at(problem, jax.random.fold_in(key, ROUNDS + 1), int(starts) * draws, generations)
        looks = f"screening: {LOOKS * len(z)} draws looked at, the best {len(z)}"
        if generations:
            counter.tell(f"{looks} evolved for {generations} generations")
            return _from_here(z[: int(starts)])
        counter.tell(f"{looks} take {SCREENING} steps")
        return _screened(lean, method.loosened(LOOSE, SCREENING), stages[0], z, int(starts), together)
    z, redrawn = _replace_failing(lean, method, z, key, together)
    counter.tell(f"{len(z)} starts drawn, {redrawn} drawn again because they failed to simulate")
    return _from_here(z)


def _from_here(z: Array) -> Begun:
    """Starts that took nothing to find."""
    return Begun(z, jnp.zeros(len(z), int), jnp.zeros(len(z), int))


def _through(
    problem: Problem,
    method: AbstractMethod,
    stages: tuple[float, ...],
    begun: Begun,
    counter: Progress,
    best: float | None,
) -> End:
    """All stages, with what they took together; `best` as for `run`, for the last stage, of which alone it can be known."""
    (z, iterations, failures), end = begun, None
    for fraction in stages:
        last = fraction == stages[-1]
        known = best if last or best is None else np.inf
        stage = method if last else method.loosened(LOOSE)
        end = run(problem, stage, fraction, z, np.zeros(np.shape(z), bool), known)
        lost = np.asarray(end.status) == FAILED
        if fraction != stages[0] and lost.any():
            # What less data left open may not simulate the rest: those begin once more where they came from.
            back = np.where(lost[:, None], np.asarray(begun.z), np.asarray(end.z))
            end = merged(lost, run(problem, stage, fraction, back, np.zeros(np.shape(z), bool), known), end)
        z, iterations, failures = end.z, iterations + end.iterations, failures + end.failures
        if not counter.silent:
            counter.tell(line_of(fraction, end))
    assert end is not None  # there is at least one stage
    return End(end.z, end.model, end.status, iterations, failures)


def _joined(shot: Shot | None, method: AbstractMethod, begun: Begun, counter: Progress) -> Begun:
    """Return the starting points after multiple shooting, and its cost."""
    if shot is None:
        return begun
    z, iterations, failures = shot.lifted(begun.z), begun.iterations, begun.failures
    for scale, problem, held in shot.stages():
        end = _run_here(problem, method.loosened(LOOSE), z, jnp.asarray(np.broadcast_to(held, np.shape(z))))
        z, iterations, failures = end.z, iterations + end.iterations, failures + end.failures
        if not counter.silent:
            fixed = "windows start on curves through the data" if held.any() else f"gaps {scale:g}"
            counter.tell(f"{shot.later + 1} windows, {fixed}: " + line_of(1.0, end))
    return Begun(z[:, : begun.z.shape[1]], iterations, failures)


def _run_here(problem: Problem, method: AbstractMethod, z: Array, held: Array) -> End:
    """All starts in windows, on one device: spread over several of them, these loops have been seen to wait for each other."""
    if isinstance(method, GaussNewton) and len(z) > LANES:
        return queued(problem, method, jnp.ones((), z.dtype), z, held, None, spread=False)
    return awaited(_run_together(problem, method, z, held), "fit", f"in windows, from {len(z)} starts")


@eqx.filter_jit
def _run_together(problem: Problem, method: AbstractMethod, z: Array, held: Array) -> End:
    note_trace("fit, windows", named_parts(problem) | {"method": method, "starts": z})
    return jax.vmap(lambda z, held: method.descend(problem, z, held))(z, held)


def _again(
    problem: Problem, method: AbstractMethod, starts: int, together: int | None, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Run short descents from a few places with the program of the fit; return where they end and the objective there."""
    # Filled up to the lanes of the fit, so that its programs serve.
    rows = np.minimum(np.arange(max(len(z), min(starts, LANES))), len(z) - 1)
    places = jnp.asarray(z[rows], problem.times.dtype)
    end = in_blocks(problem, method.loosened(LOOSE, SCREENING), 1.0, places, together or starts, starts)
    return np.asarray(end.z, float)[: len(z)], np.asarray(end.model.value, float)[: len(z)]


def _replace_failing(
    problem: Problem, method: AbstractMethod, z: Array, key: PRNGKeyArray, together: int | None
) -> tuple[Array, int]:
    """The starts, with those that fail to simulate drawn again."""
    redrawn, probe, failing = 0, method.loosened(LOOSE, 1), np.ones(len(z), bool)
    for i in range(ROUNDS):
        failing = in_blocks(problem, probe, 1.0, z, together or len(z), len(z)).status == FAILED
        if not failing.any():
            return z, redrawn
        redrawn += int(failing.sum())
        z = jnp.where(failing[:, None], drawn_starts(problem, jax.random.fold_in(key, i + 1), len(z)), z)
    if failing.all():
        tried = f"Tried: all data at once, from {len(z)} draws of the priors and {ROUNDS} times as many in their place."
        raise SimulationError(f"{NOWHERE.format(len(z) * (ROUNDS + 1))} {tried}")
    return z, redrawn


def _screened(
    problem: Problem, method: AbstractMethod, fraction: float, z: Array, starts: int, together: int | None
) -> Begun:
    """The best of more draws, after a few steps each, by the program of the fit; and what that took."""
    end = in_blocks(coarse(problem), method, fraction, z, together or len(z), starts)
    value = end.model.value
    if not np.isfinite(value).any():
        raise SimulationError(
            f"{NOWHERE.format(LOOKS * len(z))} Tried: the first {fraction:g} of each experiment's time, from draws of the priors."
        )
    best = np.argsort(np.where(np.isfinite(value), value, np.inf), kind="stable")[:starts]
    return Begun(*(jnp.asarray(np.asarray(x)[best]) for x in (end.z, end.iterations, end.failures)))
