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
from ._linearised import linearised
from ._method import CONVERGED, FAILED, LIMIT, STALLED
from ._newton_cg import white_sizes
from ._prior_model import prior_model
from ._shells import Shells, probed

LEAST, MOST, FAR = 0.1, 0.7, 0.25
"""Factors by which a step that gains nothing is cut: the least and the most by its slopes, and that where a simulation failed."""

COARSE = 1e-5
"""Tolerance on coarser grids: what their last steps teach is cheaper there than on the finer one."""

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
def _begun(problem: Problem, z: Array) -> tuple[Looked, tuple[Array, Array]]:
    """Findings at the first place, and the deviations of the prior there, with where it has them."""
    note_trace("fit, gradient", named_parts(problem))
    curvature = prior_model(problem, z)[2]
    sizes = white_sizes(curvature)
    return _looked(problem, sizes, z), (sizes, (curvature > 0).astype(z.dtype))


@eqx.filter_jit
def _tried(
    problem: Problem,
    white: tuple[Array, Array],
    shells: Shells,
    changes: Changes,
    z: Array,
    here: Looked,
    length: Array,
) -> Tried:
    """One step of some length, as one program; `white`: deviations of the prior, and where it has them."""
    note_trace("fit, step by changes of gradient", named_parts(problem))
    sizes, proper = white
    way = jnp.where(here.on, 0, -_divided(problem.unknowns, shells, proper, changes, here.gradient))
    bounds, step = problem.coordinate_bounds(), length * sizes * way
    share = share_inside(z, step, bounds)
    place = jnp.where(here.on, z, inside(z + share * step, bounds))
    there = _looked(problem, sizes, place)
    fixed = here.on | there.on
    move = jnp.where(fixed, 0, (place - z) / sizes)
    turn = jnp.where(fixed, 0, there.gradient - here.gradient)
    new = changes.more(move, turn, jnp.isfinite(there.value))
    return Tried(place, there, new, share * (way @ here.gradient), share * (way @ there.gradient))


def _looked(problem: Problem, sizes: Array, z: Array) -> Looked:
    model = linearised(problem, z)
    on = on_bounds(z, model.gradient, problem.coordinate_bounds())
    gradient = jnp.where(on, 0, model.gradient * sizes)
    return Looked(model.value, gradient, jnp.linalg.norm(gradient), on, model.chi_squared, model.log_likelihood)


def _divided(unknowns: Unknowns, shells: Shells, proper: Array, changes: Changes, gradient: Array) -> Array:
    """A gradient by the second derivatives as shells and changes of gradient give them: the recursion of Nocedal."""
    moves, turns, count = changes
    most = len(moves)
    kept = jnp.minimum(count, most)

    def back(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        q, shares = state
        place = (count - 1 - i.astype(jnp.int32)) % most
        share = (moves[place] @ q) / (moves[place] @ turns[place])
        return q - share * turns[place], shares.at[place].set(share)

    def forth(i: Array, q: Array) -> Array:
        place = (count - kept + i.astype(jnp.int32)) % most
        return q + (shares[place] - (turns[place] @ q) / (moves[place] @ turns[place])) * moves[place]

    q, shares = jax.lax.fori_loop(0, kept, back, (gradient, jnp.zeros(most, gradient.dtype)))
    return jax.lax.fori_loop(0, kept, forth, shells.divided(unknowns, proper, q))


@dataclasses.dataclass
class _Way:
    """State of a descent between two steps; `white`: deviations of the prior, and where it has them."""

    problem: Problem
    white: tuple[Array, Array]
    shells: Shells
    z: Array
    here: Looked
    changes: Changes
    looks: int = 1
    failures: int = 0

    def move(self) -> bool:
        """One step, shortened until it gains; False where none does."""
        value, dtype, length = float(self.here.value), self.z.dtype, 1.0
        # Below the rounding of the objective a difference says nothing.
        rounding = 10 * float(jnp.finfo(dtype).eps) * (1 + abs(value))
        for _ in range(CUTS):
            self.looks += 1
            what = self.problem, self.white, self.shells, self.changes, self.z, self.here, jnp.asarray(length, dtype)
            tried = awaited(_tried(*what), "fit", f"gradient {self.looks} of a field")
            there = float(tried.there.value)
            if not np.isfinite(there):
                self.failures += 1
                length *= FAR
                continue
            slope, fall, self.changes = float(tried.slope), float(tried.fall), tried.changes
            if there <= value + ACCEPTED * length * slope + rounding:
                self.z, self.here = tried.place, tried.there
                return True
            length *= float(np.clip(-slope / (fall - slope), LEAST, MOST)) if fall > slope else MOST
        return False


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
    changes, shells = Changes.of(z.size, z.dtype, method.memory), None
    products, before, first, last = 0, 0, 0.0, levels[0]
    found: Descent | None = None
    for level in levels:
        if found is not None:
            z, changes = carried(found.z, last.unknowns, level), changes.carried(last.unknowns, level)
        finest = level is problem
        # A product of the finest grid costs more than what it tells, where coarser ones have told it.
        old = shells if finest else None
        tolerance = float(method.tolerance) if finest else COARSE
        found, changes, shells = _descend(level, method, z, changes, tolerance, first, old, key, counter)
        if found.status == FAILED:
            break
        products, first, last = products + found.products, found.first, level
        before += 0 if finest else found.linearisations
    assert found is not None
    return found._replace(products=products, coarse=0 if not coarse else products, before=before)


def _descend(
    problem: Problem,
    method: FieldLBFGS,
    z: Array,
    changes: Changes,
    tolerance: float,
    reference: float,
    shells: Shells | None,
    key: PRNGKeyArray,
    counter: Progress,
) -> tuple[Descent, Changes, Shells]:
    """Descend on one grid from a place to a minimum.

    - `reference`: norm of an earlier gradient, to which those here are relative if it is larger than the first.
    - `shells`: what data tell of waves, where it is known already.
    """
    here, white = awaited(_begun(problem, z), "fit", "the first gradient of a field")
    products = 0
    if shells is None:
        shells = awaited(probed(problem, white[0], z, key), "fit", "what data tell of waves")
        products = sum(x.size for x in shells.information)
    tolerance = max(tolerance, 100 * float(jnp.finfo(z.dtype).eps))
    way = _Way(problem, white, shells, z, here, changes)
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
        if not way.move():
            status = STALLED
            break
    else:
        status, gradients = FAILED, [1.0]
    here = way.here
    empty = Known.of(z.size, z.dtype, 0)
    numbers = float(here.chi_squared), float(here.log_likelihood)
    end = Descent(
        way.z,
        float(here.value),
        status,
        gradients,
        products,
        way.looks,
        way.looks,
        way.failures,
        *numbers,
        empty,
        0,
        first,
    )
    return end, way.changes, shells
