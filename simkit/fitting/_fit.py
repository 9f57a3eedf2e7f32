"""fit: the parameters under which the data are most probable."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from .._budget import Budget, Within, budgeted
from .._doors import check_key, check_method, check_progress
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from ..core import SampledSystem, full_products
from ..engine import check_agreed, check_one_process
from ..problem import Problem, check_problem, defining_parts
from ._default_method import default_method
from ._dependent_model import has_curvature
from ._descents import ROUNDS, after_windows, beginnings, from_here, run_again, through_stages
from ._ensemble_fit import EnsembleFit
from ._ensemble_inversion import EnsembleKalmanInversion, fit_ensemble
from ._field_fit import check_matrices, fit_fields
from ._field_method import AbstractFieldMethod
from ._field_result import FieldFit
from ._fit_result import NOWHERE_LEFT, FitResult, summarise
from ._gauss_newton import GaussNewton
from ._horizons import check_horizons
from ._marginal import Marginal, population_in, sharpened
from ._method import FAILED, AbstractMethod, End
from ._recombine import recombined
from ._runs import in_blocks
from ._saem import SAEM
from ._saem_fit import fit_saem
from ._sampled import fit_sampled
from ._screen import Search, check_search, looked_at
from ._shooting import Shot, check_windows
from ._sparse import Sparse
from ._sparse_fit import fit_sparse
from ._sparse_result import SparseFit
from ._start_queue import LANES
from ._starts import check_count_of_starts, check_drawable, given_starts
from ._stored import TOGETHER, Begun, ends_in_blocks, kept_work
from ._swarm import AbstractSwarm, fit_swarms
from ._watched import watcher

ROUND = "round"
"""Name of the folders of later rounds in a store, before their numbers."""

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
    recombine: int = 0,
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
    recombine: int = 0,
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
    recombine: int = 0,
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
    - `recombine`: rounds of scatter search: as many starts as before begin between and beyond the places where others ended
        (thirty are looked at for each), so many times, or until all end at one place; with `evolve` draws that did not evolve
        begin in the first. Each round costs what the starts cost. Where the best starts disagree though each has converged, 4.
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
    others |= {"recombine": (recombine, 0), "store": (store, None), "within": (within, None)}
    method = default_method(problem) if method is None else method
    if isinstance(method, Sparse):
        own = lambda problem, key: fit(
            problem,
            starts=starts,
            key=key,
            horizons=horizons,
            screen=screen,
            evolve=evolve,
            recombine=recombine,
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
    remedy = "Take `simkit.GaussNewton()`, `simkit.LBFGS()` or another of `simkit.fitting`."
    known = [*AbstractMethod.__subclasses__(), *(kind for kind, _ in WHOLE)]
    check_method("method", method, AbstractMethod, "a method of fits", remedy, known)
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
                problem, method, start, key, horizons, Search(1, 0, 0), 1, None, Budget(), quiet
            )
            others = {name: pair for name, pair in others.items() if name not in ("store", "within")}
            asked = {"method": method, "starts": starts, "key": key}
            with kept_work(store, "fit", problem, asked) as held:
                return fit_sampled(problem, once, starts, key, others, counter, held)
        search = Search(screen, evolve, recombine)
        return _fit_once(problem, method, starts, key, horizons, search, windows, store, budget, counter)


def _fit_once(
    problem: Problem,
    method: AbstractMethod,
    starts: ArrayLike | Sequence[Any],
    key: PRNGKeyArray | None,
    horizons: Sequence[float] | None,
    search: Search,
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
    check_search(search, given)
    key = jax.random.key(0) if key is None else key
    begin = lambda together: beginnings(problem, method, stages, given, key, search, together, counter)
    shot = Shot(problem, windows) if windows > 1 else None
    together = store is not None or budget.seconds is not None or counter.watched
    asked = {"method": method, "starts": given, "key": key, "horizons": stages, "screen": search.screen}
    asked |= {"windows": windows} if windows > 1 else {}
    asked |= {"evolve": search.evolve} if search.evolve else {}
    told = watcher(problem, method, counter)

    def through(begun: Begun, told: Progress, best: float | None) -> End:
        return through_stages(lean, method, stages, after_windows(shot, method, begun, told), told, best)

    def ended(begin: Callable[[int | None], Begun], through: Callable[..., End], best: float, name: str) -> End | None:
        if together:
            folder = None if store is None else f"{store}/{name}" if name else store
            return ends_in_blocks(
                folder, problem, {**asked, "round": name} if name else asked, begin, through, counter, told
            )
        begun = begin(None)
        return through(begun, counter, best if len(begun.z) > LANES else None)

    end = ended(begin, through, np.inf, "")
    assert end is not None  # the first block always goes
    if (np.asarray(end.status) == FAILED).all():
        tried = ", ".join(f"{stage:g}" for stage in stages)
        advice = " Where less data lead astray, `horizons=(1.0,)` fits all of them at once." if len(stages) > 1 else ""
        raise SimulationError(f"{NOWHERE_LEFT} Horizons tried: {tried} of each experiment's time.{advice}")
    count, size = len(end.iterations), TOGETHER if together else None
    last = lambda begun, told, best: through_stages(lean, method, stages[-1:], begun, told, best)
    for turn in range(search.recombine):
        if budget.cut:
            break
        least = float(np.min(np.asarray(end.model.value)))
        own = jax.random.fold_in(key, ROUNDS + 2 + turn)
        if search.evolve and turn == 0:  # what evolved together may have come to places that are not the best
            z, origin = looked_at(problem, own, count), "from draws that did not evolve"
        else:
            z, origin = recombined(problem, end, count, own), "between and beyond where others ended"
        if z is None:
            break
        counter.tell(f"round {turn + 1} of {search.recombine}: {count} starts {origin}, best {least:.6g}")
        more = ended(lambda _, z=z: from_here(z), last, least, f"{ROUND}{turn + 1}")
        if more is None:
            break
        end = jax.tree.map(lambda *parts: jnp.asarray(np.concatenate(parts)), end, more)
    integrated = 0
    if isinstance(method, Marginal):
        once = lambda z: in_blocks(lean, method.once, 1.0, z, size or count, count)
        end, integrated = sharpened(lean, end, once), problem.size - population_in(problem).shared
    again = functools.partial(run_again, lean, method, count, size)
    found = summarise(problem, method.name, end, end.iterations, end.failures, integrated, again)
    return dataclasses.replace(found, cut=budget.cut)
