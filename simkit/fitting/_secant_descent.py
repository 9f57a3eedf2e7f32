"""Descents of fits of fields by L-BFGS: gradients on the device, and changes of them that correct the next step."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._progress import Progress
from ..engine import awaited, note_trace
from ..problem import Problem, Unknowns, named_parts
from ._carried import carried
from ._field_descent import ACCEPTED, Descent, Known
from ._field_lbfgs import FieldLBFGS
from ._inside import inside, on_bounds, share_inside
from ._linearised import Linearised, linearised
from ._method import CONVERGED, FAILED, LIMIT, STALLED
from ._newton_cg import white_sizes
from ._prior_model import prior_model
from ._shells import Shells, probed

LEAST, MOST, FAR = 0.1, 0.7, 0.25
"""Factors by which a step that gains nothing is cut: the least and the most by its slopes, and that where a simulation failed."""

COARSE = 1e-2
"""Tolerance on coarser grids, less than what grids differ by: finer ones come back to them."""

SHARE, LOOKS, ENOUGH = 0.2, 20, 0.9
"""A tilted coarser problem is descended to the first share of its gradient, in so many steps at most; where its move leaves more of
the finer gradient than the last share, changes of gradient alone make the steps from there on."""

CUTS = 12
"""Cuts of one step after which steps gain nothing any more."""


class Looked(NamedTuple):
    """Findings at one place; `gradient`: in white coordinates, 0 for numbers that are `on` their bounds."""

    value: Float[Array, ""]
    gradient: Float[Array, " parameters"]
    norm: Float[Array, ""]
    on: Bool[Array, " parameters"]
    chi_squared: Float[Array, ""]
    log_likelihood: Float[Array, ""]


class Changes(NamedTuple):
    """Moves and the changes of gradient over them, in white coordinates, each in place of the oldest; `learnt`: how many so far."""

    moves: Float[Array, "memory parameters"]
    turns: Float[Array, "memory parameters"]
    learnt: Int[Array, ""]

    @classmethod
    def of(cls, size: int, dtype: DTypeLike, memory: int) -> "Changes":
        """Room for the changes of a fit of so many numbers."""
        empty = jnp.zeros((memory, size), dtype)
        return cls(empty, empty, jnp.zeros((), jnp.int32))

    def carried(self, source: Unknowns, target: Problem) -> "Changes":
        """The same changes on another grid."""
        return Changes(carried(self.moves, source, target), carried(self.turns, source, target), self.learnt)

    def more(self, move: Array, turn: Array, good: Array) -> "Changes":
        """The changes with one more in place of the oldest, if it is `good` and curves upwards."""
        curved = move @ turn > jnp.finfo(move.dtype).eps * jnp.linalg.norm(move) * jnp.linalg.norm(turn)
        kept, at = good & curved, self.learnt % len(self.moves)
        moves, turns = (
            x.at[at].set(jnp.where(kept, new, x[at])) for x, new in ((self.moves, move), (self.turns, turn))
        )
        return Changes(moves, turns, self.learnt + kept.astype(jnp.int32))


class Tried(NamedTuple):
    """End of a step of some length: the place, what was found there, the changes of gradient with it, and slopes at both ends."""

    place: Float[Array, " parameters"]
    there: Looked
    changes: Changes
    slope: Float[Array, ""]
    fall: Float[Array, ""]


@eqx.filter_jit
def _begun(problem: Problem, z: Array, tilt: Array) -> tuple[Looked, tuple[Array, Array]]:
    """Findings at the first place, and the deviations of the prior there, with where it has them."""
    note_trace("fit, gradient", named_parts(problem))
    curvature = prior_model(problem, z)[2]
    sizes = white_sizes(curvature)
    return _looked(problem, sizes, z, tilt), (sizes, (curvature > 0).astype(z.dtype))


@eqx.filter_jit
def _tried(
    problem: Problem,
    white: tuple[Array, Array],
    shells: Shells,
    changes: Changes,
    z: Array,
    here: Looked,
    length: Array,
    tilt: Array,
    step: Array | None,
) -> Tried:
    """One step of some length, as one program.

    - `white`: deviations of the prior, and where it has them.
    - `tilt`: a gradient in white coordinates that is added everywhere.
    - `step`: in white coordinates; None for that by the changes of gradient.
    """
    note_trace("fit, step by changes of gradient", named_parts(problem) | {"given": step is not None})
    sizes, proper = white
    if step is None:
        step = -_divided(problem.unknowns, shells, proper, changes, here.gradient)
    way = jnp.where(here.on, 0, step)
    bounds, step = problem.coordinate_bounds(), length * sizes * way
    share = share_inside(z, step, bounds)
    place = jnp.where(here.on, z, inside(z + share * step, bounds))
    there = _looked(problem, sizes, place, tilt)
    fixed = here.on | there.on
    move = jnp.where(fixed, 0, (place - z) / sizes)
    turn = jnp.where(fixed, 0, there.gradient - here.gradient)
    new = changes.more(move, turn, jnp.isfinite(there.value))
    return Tried(place, there, new, share * (way @ here.gradient), share * (way @ there.gradient))


def _looked(problem: Problem, sizes: Array, z: Array, tilt: Array) -> Looked:
    return _inclined(problem, sizes, z, linearised(problem, z), tilt)


def _inclined(problem: Problem, sizes: Array, z: Array, model: Linearised, tilt: Array) -> Looked:
    """Findings of a model with a gradient in white coordinates that is added everywhere."""
    slopes = model.gradient * sizes + tilt
    on = on_bounds(z, slopes / sizes, problem.coordinate_bounds())
    gradient = jnp.where(on, 0, slopes)
    value = model.value + tilt @ (z / sizes)
    return Looked(value, gradient, jnp.linalg.norm(gradient), on, model.chi_squared, model.log_likelihood)


class _Lowered(NamedTuple):
    """A coarser problem at the place of a finer one, whose gradient there is made what remains of the finer one's.

    - `tilt`: the gradient that is added everywhere. `here`: findings with it.
    - `remaining`, `shares`: of the finer gradient after the first half of the recursion of L-BFGS.
    """

    place: Float[Array, " numbers"]
    tilt: Float[Array, " numbers"]
    here: Looked
    remaining: Float[Array, " parameters"]
    shares: Float[Array, " memory"]


@eqx.filter_jit
def _lowered(problem: Problem, coarse: Problem, sizes: Array, z: Array, here: Looked, changes: Changes) -> _Lowered:
    note_trace("fit, a coarser problem tilted", named_parts(coarse))
    place = carried(z, problem.unknowns, coarse)
    remaining, shares = _back(changes, here.gradient)
    model = linearised(coarse, place)
    tilt = carried(remaining, problem.unknowns, coarse) - model.gradient * sizes
    return _Lowered(place, tilt, _inclined(coarse, sizes, place, model, tilt), remaining, shares)


@eqx.filter_jit
def _raised(
    problem: Problem, coarse: Problem, proper: Array, shells: Shells, changes: Changes, low: _Lowered, moved: Array
) -> Array:
    """A step from what a coarser grid moved by, and on the waves that it lacks by shells, in white coordinates."""
    note_trace("fit, a step of a coarser problem", named_parts(problem))
    own = -shells.divided(problem.unknowns, proper, low.remaining)
    seen = carried(carried(own, problem.unknowns, coarse), coarse.unknowns, problem)
    return -_forth(changes, low.shares, seen - own - carried(moved, coarse.unknowns, problem))


def _divided(unknowns: Unknowns, shells: Shells, proper: Array, changes: Changes, gradient: Array) -> Array:
    """A gradient by the second derivatives as shells and changes of gradient give them: the recursion of Nocedal."""
    q, shares = _back(changes, gradient)
    return _forth(changes, shares, shells.divided(unknowns, proper, q))


def _back(changes: Changes, gradient: Array) -> tuple[Array, Array]:
    """The first half of the recursion: what remains of a gradient, and its shares along the moves."""
    moves, turns, count = changes
    most = len(moves)

    def back(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        q, shares = state
        place = (count - 1 - i.astype(jnp.int32)) % most
        share = (moves[place] @ q) / (moves[place] @ turns[place])
        return q - share * turns[place], shares.at[place].set(share)

    return jax.lax.fori_loop(0, jnp.minimum(count, most), back, (gradient, jnp.zeros(most, gradient.dtype)))


def _forth(changes: Changes, shares: Array, q: Array) -> Array:
    """The second half, from what remained divided by the first guess of the second derivatives."""
    moves, turns, count = changes
    most = len(moves)
    kept = jnp.minimum(count, most)

    def forth(i: Array, q: Array) -> Array:
        place = (count - kept + i.astype(jnp.int32)) % most
        return q + (shares[place] - (turns[place] @ q) / (moves[place] @ turns[place])) * moves[place]

    return jax.lax.fori_loop(0, kept, forth, q)


@dataclasses.dataclass
class Way:
    """State of a descent between two steps.

    - `white`: deviations of the prior, and where it has them.
    - `tilt`: a gradient in white coordinates that is added everywhere.
    """

    problem: Problem
    white: tuple[Array, Array]
    shells: Shells
    z: Array
    here: Looked
    changes: Changes
    tilt: Array
    looks: int = 1
    failures: int = 0

    def move(self, step: Array | None = None) -> bool:
        """One step, shortened until it gains; False where none does. `step`: where it is not that by changes of gradient."""
        value, dtype, length = float(self.here.value), self.z.dtype, 1.0
        # Below the rounding of the objective a difference says nothing.
        rounding = 10 * float(jnp.finfo(dtype).eps) * (1 + abs(value))
        for _ in range(CUTS):
            self.looks += 1
            what = self.problem, self.white, self.shells, self.changes, self.z, self.here, jnp.asarray(length, dtype)
            tried = awaited(_tried(*what, self.tilt, step), "fit", f"gradient {self.looks} of a field")
            there = float(tried.there.value)
            if not np.isfinite(there):
                self.failures += 1
                length *= FAR
                continue
            slope, fall, self.changes = float(tried.slope), float(tried.fall), tried.changes
            if slope >= 0:
                return False
            if there <= value + ACCEPTED * length * slope + rounding:
                self.z, self.here = tried.place, tried.there
                return True
            length *= float(np.clip(-slope / (fall - slope), LEAST, MOST)) if fall > slope else MOST
        return False

    def moved_by(self, coarse: "Way") -> bool:
        """One step by the minimum of a coarser problem whose gradient is made that of this one here; False where it gains little.

        What remains differs by what the curvatures of both grids do, which is small where the coarser one is fine enough.
        """
        low = awaited(
            _lowered(self.problem, coarse.problem, coarse.white[0], self.z, self.here, self.changes),
            "fit",
            "a coarser problem",
        )
        coarse.z, coarse.tilt, coarse.here, coarse.looks = low.place, low.tilt, low.here, coarse.looks + 1
        first, begun = float(self.here.norm), float(low.here.norm)
        for _ in range(LOOKS):
            if float(coarse.here.norm) <= SHARE * begun or not coarse.move():
                break
        moved = (coarse.z - low.place) / coarse.white[0]
        step = _raised(self.problem, coarse.problem, self.white[1], self.shells, self.changes, low, moved)
        return self.move(step) and float(self.here.norm) <= ENOUGH * first


def descend_through(
    problem: Problem,
    coarse: Sequence[Problem],
    method: FieldLBFGS,
    z: Array,
    key: PRNGKeyArray,
    counter: Progress,
) -> Descent:
    """Descend from one place to a minimum, on coarser grids first; `coarse`: the finest first."""
    levels = [*reversed(coarse), problem]
    z = carried(z, problem.unknowns, levels[0])
    changes = Changes.of(z.size, z.dtype, method.memory)
    products, first = 0, 0.0
    ways: list[Way] = []
    found: Descent | None = None
    for level in levels:
        if found is not None:
            old = ways[-1].problem.unknowns
            z, changes = carried(found.z, old, level), Changes.of(level.size, z.dtype, method.memory)
        tolerance = float(method.tolerance) if level is problem else COARSE
        way, looked = begin(
            level, z, changes, ways[-1].shells if ways and level is problem else None, key, jnp.zeros_like(z)
        )
        found = descended(way, ways[-1] if ways else None, method, tolerance, first, counter)
        products, first = products + looked, found.first
        if found.status == FAILED:
            break
        ways.append(way)
    assert found is not None
    before = sum(way.looks for way in ways[: len(coarse)])
    return found._replace(products=products, coarse=0 if not coarse else products, before=before)


def begin(
    problem: Problem, z: Array, changes: Changes, shells: Shells | None, key: PRNGKeyArray, tilt: Array
) -> tuple[Way, int]:
    """A descent before its first step, and the products that it took.

    - `shells`: what data tell of waves, where it is known: a product of the finest grid costs more than what it tells then.
    - `tilt`: a gradient in white coordinates that is added everywhere.
    """
    here, white = awaited(_begun(problem, z, tilt), "fit", "the first gradient of a field")
    products = 0
    if shells is None:
        shells = awaited(probed(problem, white[0], z, key), "fit", "what data tell of waves")
        products = sum(x.size for x in shells.information)
    return Way(problem, white, shells, z, here, changes, tilt), products


def descended(
    way: Way, coarse: Way | None, method: FieldLBFGS, tolerance: float, reference: float, counter: Progress
) -> Descent:
    """Descend on one grid to a minimum.

    - `coarse`: the descent of the next coarser grid at its end, whose problem makes the steps as long as they gain enough.
    - `reference`: norm of an earlier gradient, to which those here are relative if it is larger than the first.
    """
    tolerance = max(tolerance, 100 * float(jnp.finfo(way.z.dtype).eps))
    first = max(float(way.here.norm), reference)
    gradients, status = [], LIMIT
    while np.isfinite(float(way.here.value)):
        norm = float(way.here.norm)
        gradients.append(norm / first if first > 0 else 0.0)
        counter.tell(f"step {len(gradients) - 1}: objective {float(way.here.value):.8g}, gradient {gradients[-1]:.2e}")
        # In white coordinates no curvature is below 1: the minimum is at most as many standard errors away as the gradient is long.
        if norm <= tolerance * max(1.0, first):
            status = CONVERGED
            break
        if way.looks >= method.max_steps:
            break
        if coarse is not None:
            if not way.moved_by(coarse):
                way.changes = coarse.changes.carried(coarse.problem.unknowns, way.problem)
                coarse = None
        elif not way.move():
            status = STALLED
            break
    else:
        status, gradients = FAILED, [1.0]
    here = way.here
    return Descent(
        way.z,
        float(here.value),
        status,
        gradients,
        0,
        way.looks,
        way.looks,
        way.failures,
        float(here.chi_squared),
        float(here.log_likelihood),
        Known.of(way.z.size, way.z.dtype, 0),
        0,
        first,
    )
