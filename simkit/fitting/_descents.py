"""The way from starts to their ends: draws that are found again where they fail, screening, windows and stages."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._errors import SimulationError
from .._progress import Progress
from ..engine import awaited, note_trace
from ..problem import Problem, named_parts
from ._gauss_newton import GaussNewton
from ._method import FAILED, AbstractMethod, End, merged
from ._runs import in_blocks, run
from ._screen import LOOKS, Search, coarse, looked_at
from ._shooting import Shot
from ._stage_line import line_of
from ._start_queue import LANES, queued
from ._starts import drawn_starts, first_start
from ._stored import Begun

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


def beginnings(
    problem: Problem,
    method: AbstractMethod,
    stages: tuple[float, ...],
    starts: int | np.integer | Array,
    key: PRNGKeyArray,
    search: Search,
    together: int | None,
    counter: Progress,
) -> Begun:
    """Return the starting points: given, or drawn, drawn again where they failed, and screened; so many `together`, or all."""
    if not isinstance(starts, int | np.integer):
        return from_here(starts)
    lean, draws, generations = problem.lean(), search.screen, search.evolve
    if draws > 1:
        z = looked_at(problem, jax.random.fold_in(key, ROUNDS + 1), int(starts) * draws, generations)
        looks = f"screening: {LOOKS * len(z)} draws looked at, the best {len(z)}"
        if generations:
            counter.tell(f"{looks} evolved for {generations} generations")
            return from_here(z[: int(starts)])
        counter.tell(f"{looks} take {SCREENING} steps")
        return _screened(lean, method.loosened(LOOSE, SCREENING), stages[0], z, int(starts), together)
    z = first_start(problem, drawn_starts(lean, jax.random.fold_in(key, 0), int(starts)))
    z, redrawn = _replace_failing(lean, method, z, key, together)
    counter.tell(f"{len(z)} starts drawn, {redrawn} drawn again because they failed to simulate")
    return from_here(z)


def from_here(z: Array) -> Begun:
    """Starts that took nothing to find."""
    return Begun(z, jnp.zeros(len(z), int), jnp.zeros(len(z), int))


def through_stages(
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


def after_windows(shot: Shot | None, method: AbstractMethod, begun: Begun, counter: Progress) -> Begun:
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


def run_again(
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
