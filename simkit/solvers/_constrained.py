"""Constrained systems M(t) dy/dt = f(t, y) on flat states: the matrix M, consistent starts, slopes and projections."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool

from .._doors import shown
from .._errors import ArgumentError
from .._types import State, Time
from ..core import ConstrainedSystem, SystemTerm, at_time
from ..linear import Structure, constrained_structure_of, singular_values, solve
from ._shifted import solver_of
from ._stated import JacobianPattern, stated_places

MOST_TRIALS = 60
"""Most trials of Newton's method for a consistent start. Quadratic convergence takes some six, damping some twenty."""

LEAST_DAMPING = 1e-6
"""Share of Newton's correction below which the search gives up: the residual grows in its direction."""

ROUNDING = 1e3
"""A correction of so many rounding errors of the states, or a residual of so many of its terms, is taken for nothing."""

REGULAR = 1e-3
"""Relative error of a solve with a known answer above which a matrix counts as singular: with condition 1/eps it is about 1."""

FLOOR = 1e-3
"""Least size of a state in a projection, as a share of the largest one: a state that is zero may have to move."""

CORRECTIONS = 3
"""Newton steps after convergence. They change next to nothing and carry as many orders of derivatives."""

PROJECTIONS, START_PROJECTIONS = 2, 6
"""Gauss-Newton steps onto hidden constraints: at the end of a step, where the error is that of the step, and at a start."""


def mass_of(system: ConstrainedSystem, t: Time, y: State) -> Array:
    """The diagonal `(n,)` of M on the flat state, or the whole matrix `(n, n)`.

    **Raises:** an `ArgumentError` where it has another form.
    """
    return _spread(system, system.mass(t), y)


def _spread(system: ConstrainedSystem, found: Any, y: State) -> Array:
    """A mass on the flat state. A number stands for all numbers of a part of the state, and a part may have a matrix of its own."""
    leaves, structure = jax.tree.flatten(y)
    n, dtype = sum(leaf.size for leaf in leaves), jnp.result_type(*leaves)
    if isinstance(found, float) and found == 1.0:
        return jnp.ones(n, dtype)
    if isinstance(found, dict) and isinstance(y, dict) and found.keys() == y.keys():
        blocks = [_spread(system, found[key], y[key]) for key in sorted(y)]
        if all(block.ndim == 1 for block in blocks):
            return jnp.concatenate(blocks)
        return jax.scipy.linalg.block_diag(*(jnp.diag(b) if b.ndim == 1 else b for b in blocks))
    given = jax.tree.leaves(found)
    if any(np.asarray(m).dtype.kind not in "biuf" for m in given if not isinstance(m, jax.Array)):
        raise ArgumentError(
            f"`mass` of {type(system).__name__} must hold real numbers, but it returned {shown(found)}."
        )
    if getattr(found, "shape", None) == (n, n) and leaves[0].shape != (n, n):
        return jnp.asarray(found, dtype)
    if jax.tree.structure(found) == structure and all(
        jnp.shape(m) in ((), leaf.shape) for m, leaf in zip(given, leaves, strict=True)
    ):
        spread = [
            jnp.broadcast_to(jnp.asarray(m, dtype), leaf.shape).ravel() for m, leaf in zip(given, leaves, strict=True)
        ]
        return jnp.concatenate(spread)
    shapes = [jnp.shape(m) for m in given]
    raise ArgumentError(
        f"`mass` of {type(system).__name__} must return a state, the diagonal of M with 0 for algebraic equations, or a matrix of "
        f"shape {(n, n)}, but it returned {jax.tree.structure(found)} with shapes {shapes}."
    )


class Equations:
    """A constrained system with its inputs as functions of flat states."""

    def __init__(self, term: SystemTerm, y: State) -> None:
        self.term, self.system = term, term.system
        self.like, self.unravel = ravel_pytree(y)
        # Traced and lowered once for all stages.
        self._field = jax.jit(lambda t, y: ravel_pytree(term.vf(t, self.unravel(y)))[0])

    def field(self, t: Time, y: Array) -> Array:
        """f, the right side."""
        return self._field(t, y)

    def mass(self, t: Time) -> Array:
        """M as a diagonal or a matrix."""
        return mass_of(self.system, t, self.unravel(self.like))

    def hidden(self, t: Time, y: Array) -> Array:
        """The residuals of hidden constraints, flat; often empty."""
        found = self.system.hidden(t, self.unravel(y), at_time(self.term.inputs, t))
        return jnp.concatenate([jnp.zeros(0, y.dtype), *(jnp.ravel(x) for x in jax.tree.leaves(found))])


def times_mass(mass: Array, v: Array) -> Array:
    """M v."""
    return mass * v if mass.ndim == 1 else mass @ v


class _Parts(NamedTuple):
    """The equations taken apart into algebraic and differential ones, by combinations of rows that are held.

    For a diagonal M these are the rows themselves. For a matrix, whose rows are first scaled by `scale`, they are those of U^T in
    M = U diag(s) V^T: where s is zero, no derivative is left.
    """

    algebraic: Bool[Array, " n"]
    left: Array | None  # U^T times the scale of the rows
    divisor: Array  # s, or the diagonal, where it is not zero
    inverse: Array | None  # the pseudo-inverse of M

    def combined(self, v: Array) -> Array:
        """The combinations of a vector of equations."""
        return v if self.left is None else self.left @ v


def _parts(mass: Array) -> _Parts:
    held = jax.lax.stop_gradient(mass)
    if mass.ndim == 1:
        algebraic = held == 0
        return _Parts(algebraic, None, jnp.where(algebraic, 1, held), None)
    largest = jnp.max(jnp.abs(held), axis=1)
    scale = 1 / jnp.where(largest > 0, largest, 1)
    u, s, vt = singular_values(scale[:, None] * held)
    u, s, vt = jax.lax.stop_gradient((u, s, vt))
    algebraic = s <= 8 * s.size * jnp.finfo(s.dtype).eps * jnp.max(s)  # some rounding errors of the decomposition
    divisor = jnp.where(algebraic, 1, s)
    left = u.T * scale[None]
    return _Parts(algebraic, left, divisor, vt.T @ (jnp.where(algebraic, 0, 1 / divisor)[:, None] * left))


def _along(parts: _Parts, mass: Array, jacobian_times: Callable[[Array], Array], v: Array) -> Array:
    """Derivatives of algebraic equations, and differential ones as far as M goes, along v.

    Of a diagonal M the algebraic rows keep their algebraic columns: differential states are known by themselves, and their columns
    may be larger by the stiffness of a problem.
    """
    if parts.left is None:
        return jnp.where(parts.algebraic, jacobian_times(jnp.where(parts.algebraic, v, 0)), v)
    return jnp.where(parts.algebraic, parts.combined(jacobian_times(v)), parts.combined(mass @ v) / parts.divisor)


def _algebraic(parts: _Parts, mass: Array, f: Array) -> Array:
    """The combinations of a right side; algebraic ones move with M to first order, as the rows that combine to zero do."""
    found = parts.combined(f)
    if parts.inverse is None:
        return found
    slope = jax.lax.stop_gradient(parts.inverse @ f)
    return found - parts.combined((mass - jax.lax.stop_gradient(mass)) @ slope)


def _solver(e: Equations, structure: Structure, t: Time, y: Array, mass: Array, parts: _Parts) -> Any:
    """The solver of the equations that `_along` stands for, at a state."""
    jacobian_times = lambda v: jax.jvp(lambda y: e.field(t, y), (y,), (v,))[1]
    zero = jnp.zeros_like(y)
    if parts.left is None:
        kept = jnp.where(parts.algebraic, zero, 1)
    else:
        kept = jnp.where(parts.algebraic[:, None], 0, parts.left @ mass / parts.divisor[:, None])
    times = lambda v: _along(parts, mass, jacobian_times, v)
    algebraic = lambda v: jnp.where(parts.algebraic, times(v), 0)
    return solver_of(structure, algebraic, -1.0, y, kept, times)


def structure_at(e: Equations, t: Time, y: Array, mass: Array, pattern: JacobianPattern | None = None) -> Structure:
    """The structure of M - h J; `pattern` is that of J where it was stated."""
    if pattern is not None:
        return constrained_structure_of(lambda y: times_mass(mass, y), y, stated_places(pattern, y.size))
    return constrained_structure_of(lambda y: e.field(t, y) + times_mass(mass, y), y)


def consistent(term: SystemTerm, t: Time, y0: State) -> tuple[State, Array]:
    """The state at which the algebraic equations hold, with the differential states of a start; and whether it was found.

    Newton's method with damping (Deuflhard 2011, Newton Methods for Nonlinear Problems, algorithm NLEQ-ERR) finds the algebraic
    states. Where there are hidden constraints, the smallest change of all states meets them, and Newton's method is at work a
    second time. Derivatives are those of the implicit function.
    """
    e = Equations(term, y0)
    start = _met(e, t)
    problem = _Problem(e, t, start)
    found, sound = problem.newton()
    found = jax.lax.stop_gradient(found)
    solved = problem.solver(found)
    y = found if problem.rows.left is not None else jnp.where(problem.rows.algebraic, found, start)
    for _ in range(CORRECTIONS):
        y = y - solved(problem.residual(y, start))
    sound = sound & _held(e, t, y) & jnp.isfinite(problem.mass).all()
    return e.unravel(jnp.where(sound, y, jnp.nan)), sound


def _met(e: Equations, t: Time) -> Array:
    """The start on the hidden constraints, with algebraic states that were found first where they could be.

    A constraint that holds algebraic states must not move the others because the guess for those is off.
    """
    if not jax.eval_shape(e.hidden, t, e.like).size:
        return e.like
    found, sound = _Problem(e, t, e.like).newton()
    begun = e.like + jax.lax.stop_gradient(jnp.where(sound, found - e.like, 0))
    return projected(e, t, begun, jnp.abs(begun), START_PROJECTIONS)


class Search(NamedTuple):
    """Newton's method where it ended: residual, size of its terms, and matrices."""

    residual: Array
    terms: Array
    matrix: Array
    elsewhere: Array  # the matrix at a state nearby


def search(term: SystemTerm, t: Time, y0: State) -> Search:
    """Return the end of the search for a consistent start, to say why it failed."""
    e = Equations(term, y0)
    start = _met(e, t)
    problem = _Problem(e, t, start)
    y, _ = problem.newton()

    def matrix_at(y: Array) -> Array:
        slope = lambda v: jax.jvp(lambda y: e.field(t, y), (y,), (v,))[1]
        times = lambda v: _along(problem.rows, problem.mass, slope, v)
        return jax.vmap(times, out_axes=1)(jnp.eye(y.size, dtype=y.dtype))

    # A tenth of the sizes away, in a direction of no meaning.
    size = jnp.where(jnp.abs(y) > 0, jnp.abs(y), jnp.where(jnp.abs(start) > 0, jnp.abs(start), 1))
    away = y + 0.1 * size * jnp.cos(1.0 + jnp.arange(y.size, dtype=y.dtype))
    rows = problem.rows
    back = lambda v: v if rows.left is None else rows.left.T @ jnp.where(rows.algebraic, v, 0)
    left, terms = back(problem.residual(y, start)), jnp.abs(back(problem.terms(y)))
    return Search(left, terms, matrix_at(y), matrix_at(away))


class _Problem:
    """The equations of a consistent start: algebraic ones, and differential states that stay as far as M goes."""

    def __init__(self, e: Equations, t: Time, start: Array) -> None:
        self.e, self.t, self.start = e, t, start
        self.mass = e.mass(t)
        self.rows, self.structure = _parts(self.mass), structure_at(e, t, e.like, self.mass)

    def solver(self, y: Array) -> Any:
        """The solver of the derivatives of the residual."""
        return _solver(self.e, self.structure, self.t, y, self.mass, self.rows)

    def residual(self, y: Array, start: Array) -> Array:
        """The residual of the equations at y, from a start."""
        rows = self.rows
        moved = y - start if rows.left is None else rows.combined(times_mass(self.mass, y - start)) / rows.divisor
        return jnp.where(rows.algebraic, _algebraic(rows, self.mass, self.e.field(self.t, y)), moved)

    def terms(self, y: Array) -> Array:
        """The size of the terms of the residual, so that those that cancel do not cancel here."""
        weights = jnp.where(jnp.arange(y.size) % 2 == 0, 1, -0.7).astype(y.dtype)
        change = lambda w: jnp.abs(jax.jvp(lambda y: self.residual(y, self.start), (y,), (w * y,))[1])
        return jnp.maximum(change(weights), change(weights * weights))

    def newton(self) -> tuple[Array, Array]:
        """The root, and whether it was found and the matrix there is regular; without derivatives."""
        start = jax.lax.stop_gradient(self.start)
        epsilon = ROUNDING * jnp.finfo(start.dtype).eps

        def trial(s: _State) -> _State:
            solved = self.solver(s.y)
            step = solved(self.residual(s.y, start))
            tried = s.y - s.damping * step
            size = jnp.maximum(s.size, jnp.abs(tried))
            norm = lambda x: jnp.max(jnp.abs(x) / _without_rounding(size))
            left = self.residual(tried, start)
            after = norm(solved(left))
            nothing = jnp.all(jnp.abs(left) <= epsilon * self.terms(tried)) | (after <= epsilon)
            better = nothing | (after <= (1 - s.damping / 4) * norm(step))
            kept = lambda new, old: jnp.where(better, new, old)
            damping = kept(jnp.minimum(2 * s.damping, 1), s.damping / 2)
            return _State(kept(tried, s.y), kept(size, s.size), damping, nothing, s.trials + 1)

        going = lambda s: ~s.done & (s.trials < MOST_TRIALS) & (s.damping > LEAST_DAMPING)
        one = jnp.ones_like(start, shape=())
        begin = _State(start, jnp.abs(start), one, one < 0, jnp.zeros((), jnp.int32))
        last = jax.lax.stop_gradient(jax.lax.while_loop(going, trial, begin))
        size = _without_rounding(last.size)
        times = lambda v: jax.jvp(lambda y: self.e.field(self.t, y), (last.y,), (v,))[1]
        known = self.solver(last.y)(_along(self.rows, self.mass, times, size))
        regular = jnp.max(jnp.abs(known - size) / size) < REGULAR
        return last.y, last.done & regular & jnp.isfinite(last.y).all()


def _without_rounding(size: Array) -> Array:
    """Sizes of states, where those that hold nothing but rounding errors of others count as the largest one."""
    largest = jnp.max(size)
    least = 10 * jnp.finfo(size.dtype).eps * largest
    return jnp.where(size > least, size, jnp.where(largest > 0, largest, 1))


class _State(NamedTuple):
    """State of Newton's method."""

    y: Array
    size: Array  # the largest magnitude of each state so far
    damping: Array
    done: Array
    trials: Array


def slope_of(term: Any, t: Time, y: State) -> State:
    """dy/dt of the system of a term, or of what has `system` and `vf` as a term does: its vector field, or of a constrained one the
    slopes of all states at a consistent one.

    Those of algebraic states follow from the algebraic equations, differentiated by time once.
    """
    if not isinstance(term.system, ConstrainedSystem):
        return term.vf(t, y)
    e = Equations(term, y)
    mass = e.mass(t)
    parts = _parts(mass)
    solved = _solver(e, structure_at(e, t, e.like, mass), t, e.like, mass, parts)
    by_time = jax.jvp(lambda t: e.field(t, e.like), (t,), (jnp.ones_like(t),))[1]
    f = e.field(t, e.like)
    if parts.left is None:
        known = jnp.where(parts.algebraic, 0, f / jnp.where(parts.algebraic, 1, mass))
        along = jax.jvp(lambda y: e.field(t, y), (e.like,), (known,))[1]
        right = jnp.where(parts.algebraic, -by_time - along, known)
    else:
        right = jnp.where(parts.algebraic, -parts.combined(by_time), parts.combined(f) / parts.divisor)
    return e.unravel(solved(right))


def projected(e: Equations, t: Time, y: Array, size: Array, count: int = PROJECTIONS) -> Array:
    """The state on the hidden constraints that is nearest, changes being measured by sizes of states."""
    number = jax.eval_shape(e.hidden, t, y).size
    if not number:
        return y
    largest = jnp.max(size)
    size = jax.lax.stop_gradient(jnp.maximum(size, jnp.where(largest > 0, FLOOR * largest, 1)))

    def moved(y: Array, _: None) -> tuple[Array, None]:
        rows = jax.vmap(jax.vjp(lambda y: e.hidden(t, y), y)[1])(jnp.eye(number, dtype=y.dtype))[0] * size[None]
        length = jnp.sqrt(jnp.sum(rows * rows, axis=1))
        length = jnp.where(length > 0, length, 1)
        rows = rows / length[:, None]
        return y - size * (rows.T @ solve(rows @ rows.T, e.hidden(t, y) / length)), None

    return jax.lax.scan(moved, y, None, length=count)[0]


def _held(e: Equations, t: Time, y: Array) -> Array:
    """Tell whether hidden constraints hold, up to rounding of their terms."""
    if not jax.eval_shape(e.hidden, t, y).size:
        return jnp.asarray(True)
    # Terms that cancel do not cancel with weights: a constraint that is linear at the start changes by its own residual along y.
    weights = 1 + 0.3 * jnp.cos(1 + jnp.arange(y.size, dtype=y.dtype))
    along = lambda w: jnp.abs(jax.jvp(lambda y: e.hidden(t, y), (y,), (w * y,))[1])
    change = along(weights) + along(weights * weights) + jnp.abs(e.hidden(t, 2 * y) - e.hidden(t, y))
    return jnp.all(jnp.abs(e.hidden(t, y)) <= jnp.finfo(y.dtype).eps ** 0.5 * change) | jnp.all(change == 0)
