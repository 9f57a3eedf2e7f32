"""assimilate: a system, a start and observations in, states at the times of the observations out."""

from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._budget import Within
from .._doors import check_count, check_key, check_kind, check_progress, shown
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from .._types import Inputs, State
from ..core import (
    Setup,
    StaticSystem,
    StochasticSystem,
    System,
    as_inputs,
    as_state,
    check_supports,
    check_system,
    full_products,
    traced,
)
from ..engine import Fixed, Method, Varying, note_trace, resolve
from ..solvers import SolverLike
from ._cycles import Run, finished, work_of
from ._filters import AbstractEnsembleFilter
from ._hybrid import Hybrid
from ._observations import Observations
from ._result import Assimilation, compared
from ._stored import in_stretches
from ._variational import FourDVar


@full_products
def assimilate(
    system: System,
    start: State,
    observations: Observations,
    *,
    method: AbstractEnsembleFilter | FourDVar | Hybrid,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: Any = None,
    truth: Any = None,
    keep_members: bool = False,
    lag: int = 0,
    on_failure: Literal["raise", "mark"] = "raise",
    store: str | Path | None = None,
    within: Within = None,
    progress: Say = None,
) -> Assimilation:
    """Find the states of a system from observations: forecast to each time, correct by what is seen there, and so on.

    All cycles are one compiled program, and a pure function of all numbers: `grad`, `jit` and `vmap` may wrap it.

    **Arguments:**

    - `system`, `solver`, `step`, `inputs`: as in `simulate`; with a fixed step every interval between observations has as many.
    - `start`: for a filter an ensemble at the start of the observations, a state with a leading axis of members
        (`assimilation.members_around` draws one), for `Hybrid` too; for `FourDVar` one state, the first background.
    - `observations`: an `Observations`.
    - `method`: `EnKF`, `ETKF`, `LETKF`, `FourDVar` or `Hybrid`.
    - `key`: a random key, needed for perturbed observations, rotation and stochastic systems.
    - `truth`: states at the times of the observations, where they are known, as in an experiment with a twin: the result then has
        errors.
    - `keep_members`: whether the result has the analysed ensembles of all times.
    - `lag`: a filter also corrects the ensembles of so many earlier times by what is seen now, as the ensemble Kalman smoother does
        (Evensen and van Leeuwen 2000, doi:10.1175/1520-0493(2000)128<1852:AEKSFN>2.0.CO;2): the result has `smoothed` states, each
        given the observations up to `lag` times later. As many as there are times smooth by all of them.
    - `on_failure`: "raise" a `SimulationError` where a forecast fails, or "mark" it in the status.
    - `store`: a folder that keeps every 32 cycles of a filter, and every 4 windows of 4D-Var, once they are done, so that the same
        call goes on after a crash, to the same bits.
    - `within`: seconds, or words such as "2 h": no stretch of cycles begins that would end later; the result has the times so far.
    - `progress`: the time that it takes, on terminals and in notebooks by default; True, False or a function as in `fit`.

    **Returns:** an `Assimilation`.

    **Raises:** an `ArgumentError` for what does not fit together.

    ```python
    import jax
    import numpy as np
    import simkit
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    times = np.arange(1, 41) * 0.1
    truth = simkit.simulate(system, y0, np.r_[0.0, times], step=0.01).ys
    key, noise = jax.random.split(jax.random.key(0))
    truth = jax.tree.map(lambda x: x[1:], truth)
    seen = simkit.assimilation.Observations(
        times, {"x": truth.x + jax.random.normal(noise, (40,))}, errors=1.0, start=0.0
    )
    members = simkit.assimilation.members_around(y0, 10, key=key, deviation=1.0)
    method = simkit.assimilation.ETKF(1.02)
    print(simkit.assimilate(system, members, seen, method=method, step=0.01, truth=truth))
    ```
    """
    check_system(system, start)
    check_kind(
        "observations", observations, Observations, "observations", "Write `Observations(times, values, errors=...)`."
    )
    remedy = "Take `EnKF`, `ETKF`, `LETKF`, `FourDVar` or `Hybrid` of `simkit.assimilation`."
    check_kind("method", method, AbstractEnsembleFilter | FourDVar | Hybrid, "a method of assimilation", remedy)
    check_key(key)
    check_progress(progress)
    if on_failure not in ("raise", "mark"):
        raise ArgumentError(f'Argument `on_failure` must be "raise" or "mark", but it is {on_failure!r}.')
    check_count("lag", lag, least=0)
    if lag and isinstance(method, FourDVar | Hybrid):
        raise ArgumentError(
            f"Argument `lag` must be 0 with `{type(method).__name__}`, whose windows use what is seen later: take a longer "
            "`window` with a `shift` of 1."
        )
    if isinstance(system, StaticSystem):
        raise ArgumentError(
            f"`{type(system).__name__}` has no dynamics, so that nothing can be forecast: take `simkit.fit`."
        )
    check_supports(system)
    start = as_state(system, start, "start")
    one = start if isinstance(method, FourDVar) else _first_member(start)
    signals = as_inputs(system, inputs, one)
    flat = ravel_pytree(one)[0]
    if jnp.iscomplexobj(flat):
        raise ArgumentError(
            "States of complex numbers are not assimilated: let the system have real and imaginary parts."
        )
    observations.check(system, one, signals)
    stochastic = isinstance(system, StochasticSystem)
    if isinstance(method, FourDVar | Hybrid) and stochastic:
        raise ArgumentError(
            f"`{type(method).__name__}` needs a system without noise of its own: take `ETKF` or another filter."
        )
    if isinstance(method, FourDVar):
        method.check(flat.size, observations.times.size)
        needs = False
    else:
        given = observations.size, jax.tree.leaves(start)[0].shape[0], observations.covariance is not None
        if isinstance(method, Hybrid):
            method.check(flat.size, observations.times.size, *given)
        else:
            method.check(flat.size, *given)
        needs = stochastic or (method.ensemble if isinstance(method, Hybrid) else method).draws
    if needs and key is None:
        raise ArgumentError(
            f"`{type(method).__name__}` on `{type(system).__name__}` draws random numbers: give `key`, such as "
            "`jax.random.key(0)`."
        )
    truth = None if truth is None else _as_truth(truth, one, observations.times.size)
    known = observations.times if traced(observations.times) else _known_times(observations)
    found = resolve(system, one, known, solver=solver, step=step, inputs=signals)
    run = Run(Setup(system, one, signals), observations, Method(found.solver, found.step), key if needs else None)
    lag = min(int(lag), observations.times.size)
    quiet = traced((run, start, truth))
    with Progress(None, 0, False if quiet else progress, verb="assimilate") as counter:
        counter.tell(f"{observations.times.size} cycles")
        if store is None and within is None:
            result = _compiled(run, start, method, keep_members, lag, truth)
        else:
            _check_known(quiet)
            result = compared(in_stretches(run, start, method, keep_members, lag, store, within, counter), truth)
        if not quiet and not counter.silent:
            jax.block_until_ready(result.status)
    if on_failure == "raise" and not traced(result.status) and (text := result.failure()):
        raise SimulationError(text)
    return result


@eqx.filter_jit
def _compiled(run: Run, start: State, method: Any, keep_members: bool, lag: int, truth: Any) -> Assimilation:
    note_trace("assimilation", {"times": run.observations.times, "method": type(method).__name__})
    work = work_of(run, start, method, keep_members, lag)
    carry, (figures, members) = work.all()
    return compared(finished(run, method, work.begun, carry, figures, members), truth)


def _check_known(quiet: bool) -> None:
    """Refuse files and clocks inside a transformation."""
    if quiet:
        raise ArgumentError(
            "Arguments `store` and `within` must be left out inside `jit`, `grad` and other transformations, which neither write "
            "files nor read clocks."
        )


def _first_member(start: State) -> State:
    """One member of an ensemble.

    **Raises:** an `ArgumentError` where the state has no axis of members.
    """
    counts = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(start)}
    if len(counts) != 1 or 0 in counts:
        raise ArgumentError(
            "Argument `start` must be an ensemble: every array of the state with a leading axis of as many members. "
            "`simkit.assimilation.members_around(y0, 40, key=key, deviation=1.0)` draws one."
        )
    return jax.tree.map(lambda x: x[0], start)


def _known_times(observations: Observations) -> np.ndarray:
    """Start and times of observations, each once."""
    return np.unique(np.concatenate([np.asarray(observations.start)[None], np.asarray(observations.times)]))


def _as_truth(truth: Any, one: State, times: int) -> Any:
    """States with a leading axis of times.

    **Raises:** an `ArgumentError` where they have another shape.
    """
    given, wanted = jax.tree.leaves(truth), jax.tree.leaves(one)
    if [np.shape(x) for x in given] != [(times, *x.shape) for x in wanted]:
        raise ArgumentError(
            f"Argument `truth` must be states at the {times} times of the observations, such as `trajectory.ys`, but it is "
            f"{shown(truth)} of other shapes."
        )
    return jax.tree.unflatten(jax.tree.structure(one), [jnp.asarray(x) for x in given])
