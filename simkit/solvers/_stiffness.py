"""A cheap look at stiffness: a coarse walk along the solution that counts the steps stability would cost."""

import functools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from .._types import Inputs, State, Time
from ..core import System, at_time, check_derivative, traced
from ..linear import Pattern, jacobian_pattern
from ._sparse_probe import LEAST_RATIO, MOST_FULL, krylov_rates, sparse_algebra

# Beyond this many states the Jacobian of the probe is a sparse one, or there is none.
MOST_STATES = 200
# A Jacobian of this density is treated as full.
FULL_FROM = 0.3
# Steps that accuracy asks for where there was no walk to count them.
PRESUMED_STEPS = 1000.0
# The walk stops after this many Jacobians; what it has not reached is judged by what it has.
MOST_JACOBIANS = 150
# The walk follows the solution to this relative error a step: first order and coarse, it takes about as many steps as a
# method of order 5 does at a tolerance of 1e-6.
WALK_TOLERANCE = 0.2
# Components below this share of the largest one do not limit the walk.
SMALLEST_SHARE = 1e-3
# The first step of a walk from zero, as a share of the span.
FIRST_SHARE = 1e-9
# The stability region of Tsit5 reaches this far along the negative real axis.
STABILITY_REACH = 3.3
# A linearly implicit step costs about as much as this many explicit ones on small systems.
STIFF_RATIO = 10.0
# Fewer explicit steps than this are too cheap to care about.
CHEAP_STEPS = 500.0
# Where the start alone was looked at, so many explicit steps are not tried: they end at 16,384 by default.
MOST_UNSEEN = 10_000.0
REMEMBERED = 256
LATELY, MOST_KEPT = 32, 4096
"""Number of latest probes that are found again by the identity of their objects, and the most numbers that these may hold."""


class Stiffness(NamedTuple):
    """Estimated explicit steps that stability asks for, and steps that accuracy asks for.

    `ratio` is the number of explicit steps that cost as much as one implicit step, which takes factors of the Jacobian where these
    are not too dear (`factorised`). Without a walk (`walked`), stability is that of the start, and the steps of accuracy are
    presumed.
    """

    stability: float
    accuracy: float
    ratio: float = STIFF_RATIO
    walked: bool = True
    factorised: bool = True

    @property
    def stiff(self) -> bool:
        """Tell whether stability would limit the steps of an explicit method."""
        worth = self.ratio * self.accuracy
        return bool(
            self.stability > CHEAP_STEPS and self.stability > (worth if self.walked else min(worth, MOST_UNSEEN))
        )


class NotProbed(NamedTuple):
    """Reason why there is no estimate, as a clause."""

    reason: str


def probe(system: System, y0: State, times: Any, inputs: Inputs) -> Stiffness | NotProbed:
    """Estimate the stiffness of a system from these values over these times; a repeated probe is answered from memory."""
    leaves, structure = jax.tree.flatten((system, y0, inputs))
    written = any(isinstance(leaf, np.ndarray) for leaf in leaves)  # which could be, and then be the same object
    if traced(leaves, times) or written or sum(np.size(leaf) for leaf in leaves) > MOST_KEPT:
        return _probed(system, y0, times, inputs)
    # The very same objects need no comparison of their values. They are kept, so that no other object gets their identity.
    question = structure, tuple(map(id, leaves)), float(times[0]), float(times[-1])
    try:
        known = _lately.get(question)
    except TypeError:  # a static field that cannot be hashed
        return _probed(system, y0, times, inputs)
    if known is None:
        known = leaves, _probed(system, y0, times, inputs)
        _lately[question] = known
        while len(_lately) > LATELY:
            _lately.popitem(last=False)
    return known[1]


_lately: OrderedDict[Any, tuple[list[Any], "Stiffness | NotProbed"]] = OrderedDict()


def _probed(system: System, y0: State, times: Any, inputs: Inputs) -> Stiffness | NotProbed:
    arrays, static = eqx.partition((system, y0, inputs), lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    leaves, treedef = jax.tree.flatten(arrays)
    if traced(leaves, times):
        return NotProbed("its values are traced, so its stiffness is unknown")
    span = float(times[0]), float(times[-1])
    words = jax.tree.leaves(static), jax.tree.structure(static)
    try:
        frame = _Frame(treedef, tuple(words[0]), words[1])
        question = frame, span, tuple((x.dtype.name, x.shape, x.tobytes()) for x in map(np.asarray, leaves))
        known = _memory.get(question)
    except TypeError:  # a field that cannot be hashed, or an array without bytes such as a random key
        return NotProbed("it has fields that cannot be compared, so its stiffness is unknown")
    if known is None:
        with jax.ensure_compile_time_eval():  # inside jit of other things, what is known here stays known
            known = _walked(frame, leaves, ravel_pytree(system.encode(y0))[0], *span)
        _memory[question] = known
        while len(_memory) > REMEMBERED:
            _memory.popitem(last=False)
    return known


_memory: OrderedDict[Any, Stiffness | NotProbed] = OrderedDict()


class _Frame(NamedTuple):
    """Static part of a system, its state and its inputs: hashable, the key of the compilation cache."""

    arrays: Any
    static: tuple[Any, ...]
    structure: Any


@functools.lru_cache(maxsize=REMEMBERED)
def _slope_and_jacobian(frame: _Frame, algebra: Any) -> Any:
    """The compiled field and Jacobian, found once a walk: comparing frames at each call would cost more than they do."""

    @jax.jit
    def evaluate(leaves: list[Any], t: Time, y: State) -> tuple[Any, Any]:
        slope, push = jax.linearize(functools.partial(_field(frame, leaves), t), y)
        return slope, algebra.jacobian(push, y)

    return evaluate


@functools.lru_cache(maxsize=REMEMBERED)
def _product(frame: _Frame) -> Any:
    """The compiled product of a Jacobian with a vector."""
    return jax.jit(lambda leaves, t, y, v: jax.jvp(functools.partial(_field(frame, leaves), t), (y,), (v,))[1])


def _field(frame: _Frame, leaves: list[Any]) -> Callable[[Time, Any], Any]:
    """The field on flat states."""
    static = jax.tree.unflatten(frame.structure, frame.static)
    system, y0, inputs = eqx.combine(jax.tree.unflatten(frame.arrays, leaves), static)
    state = system.encode(y0)
    _, unravel = ravel_pytree(state)

    def field(t: Time, y: State) -> Any:
        check_derivative(system, state, t, inputs)  # while tracing, so once for a structure
        return ravel_pytree(system.vector_field(t, unravel(y), at_time(inputs, t)))[0]

    return field


class _DenseAlgebra:
    """The operations of a walk on full Jacobians."""

    budget, ratio, held, factorised = MOST_JACOBIANS, STIFF_RATIO, False, True

    def jacobian(self, push: Callable[[Any], Any], y: Any) -> Any:
        return jax.vmap(push, out_axes=1)(jnp.eye(y.size, dtype=y.dtype))

    def matrix(self, entries: Any) -> Any:
        return np.asarray(entries, float)

    def solver(self, h: float, jacobian: Any) -> Callable[[Any], Any]:
        matrix = np.eye(len(jacobian)) - h * jacobian
        return lambda b: np.linalg.solve(matrix, b)

    def rates(self, jacobian: Any) -> Any:
        return np.linalg.eigvals(jacobian)


_DENSE = _DenseAlgebra()


class _Full(NamedTuple):
    """Figures for many states of which each depends on all others."""

    ratio: float
    factorised: bool


def _walked(frame: _Frame, leaves: list[Any], start: Any, t0: float, t1: float) -> Stiffness | NotProbed:
    """The stiffness by a walk with full Jacobians or sparse ones; there is none where many states depend on all others."""
    if start.size <= MOST_STATES:
        return _walk(frame, leaves, start, t0, t1, _DENSE)
    real = np.dtype(start.dtype).kind == "f"
    if not real:
        return NotProbed(
            f"its {start.size} complex states are too many for the stiffness probe, which takes so many real ones"
        )
    # Time is one of the variables here, so that no condition on it hides a place.
    field, place = _field(frame, leaves), jnp.asarray(t0, start.dtype)[None]
    whole = lambda z: jnp.append(field(z[-1], z[:-1]), 0 * z[-1])
    found = jacobian_pattern(whole, jnp.concatenate([start, place]))
    if found is None or found.density >= FULL_FROM:
        return _at_the_start(frame, leaves, start, t0, t1, _Full(LEAST_RATIO, start.size <= MOST_FULL))
    kept = (found.rows < start.size) & (found.columns < start.size)
    algebra = sparse_algebra(Pattern.of(found.rows[kept], found.columns[kept], start.size))
    if not algebra.direct:
        return _at_the_start(frame, leaves, start, t0, t1, algebra)
    return _walk(frame, leaves, start, t0, t1, algebra)


def _at_the_start(
    frame: _Frame, leaves: list[Any], start: Any, t0: float, t1: float, algebra: Any
) -> Stiffness | NotProbed:
    """The stiffness as it is at the start, where the factorisations of a walk would take too long."""
    push, at = _product(frame), np.asarray(t0, start.dtype)
    times = lambda v: push(leaves, at, start, np.asarray(v, start.dtype))
    try:
        decay, _ = _rates(krylov_rates(times, start.size))
    except np.linalg.LinAlgError:
        return NotProbed("the stiffness probe met values that are not finite")
    return Stiffness((t1 - t0) * decay / STABILITY_REACH, PRESUMED_STEPS, algebra.ratio, False, algebra.factorised)


def _walk(frame: _Frame, leaves: list[Any], start: PyTree, t0: float, t1: float, algebra: Any) -> Stiffness | NotProbed:
    """Linearly implicit Euler steps, as long as a coarse error estimate allows.

    Where they are much longer than the stability of an explicit method would allow, the system is stiff.
    """
    dtype, budget, evaluate = start.dtype, algebra.budget, _slope_and_jacobian(frame, algebra)

    def look(t: float, y: State) -> tuple[Any, Any]:
        slope, jacobian = evaluate(leaves, np.asarray(t, dtype), np.asarray(y, dtype))
        return np.asarray(slope, float), algebra.matrix(jacobian)

    try:
        with np.errstate(all="ignore"):
            y, t, walked = np.asarray(start, float), t0, []
            slope, jacobian = look(t, y)
            size = np.abs(y)
            h = _first_step(size, slope, t1 - t0)
            while t < t1 and budget > 0:
                budget -= 1
                h = min(h, t1 - t)
                end, error, ahead = _step(algebra, look, t, y, h, slope, jacobian, size)
                if not math.isfinite(error):
                    h *= 0.1
                    continue
                factor = min(5.0, max(0.2, 0.9 * math.sqrt(WALK_TOLERANCE / max(error, 1e-12))))
                if error <= WALK_TOLERANCE:
                    walked.append((h, *_rates(algebra.rates(jacobian))))
                    t, y, (slope, jacobian) = t + h, end, ahead
                    size = np.maximum(size, np.abs(y))
                h = min(h * factor, (t1 - t0) / 10)
    except (np.linalg.LinAlgError, FloatingPointError):
        return NotProbed("the stiffness probe met a singular Jacobian")
    if not walked or not np.all(np.isfinite(walked)):
        return NotProbed("the stiffness probe met values that are not finite")
    lengths, decay, turning = np.array(walked).T
    whole = (t1 - t0) / lengths.sum()
    # The walk's own damping may calm a swing that the solution keeps; one step a radian follows it.
    accuracy = whole * max(float(len(walked)), float(lengths @ turning))
    if algebra.held:  # a walk of few steps may end while they still grow
        accuracy = max(len(walked) + (t1 - t) / float(lengths[-1]), whole * float(lengths @ turning))
    return Stiffness(
        whole * float(lengths @ decay) / STABILITY_REACH, accuracy, algebra.ratio, True, algebra.factorised
    )


def _first_step(size: Any, slope: PyTree, span: float) -> float:
    if not np.max(size, initial=0) > 0:  # nothing to be relative to: the walk finds out by making steps longer
        return FIRST_SHARE * span
    rate = np.max(np.abs(slope)) / np.max(size)
    return min(0.05 * span, 0.1 / rate) if math.isfinite(rate) and rate > 0 else 0.05 * span


def _step(
    algebra: Any, look: Any, t: float, y: State, h: float, slope: PyTree, jacobian: Any, size: Any
) -> tuple[Any, float, Any]:
    """The state after a step, its error relative to the size of the states, and what the field looks like there."""
    solved = algebra.solver(h, jacobian)
    change = solved(h * slope)
    end = y + change
    ahead = look(t + h, end)
    # The part of the change that curvature makes, filtered so that components already at rest do not count ...
    curved = solved(change - h * slope)
    # ... and what one further Newton iteration would correct.
    again = solved if algebra.held else algebra.solver(h, ahead[1])
    missed = again(h * ahead[0] - change)
    scale = np.maximum(size, np.abs(end))
    if np.max(scale) == 0:  # a start at rest at zero, which time will move: there is nothing yet to be relative to
        return end, 0.0, ahead
    scale = np.maximum(scale, SMALLEST_SHARE * np.max(scale)) + 1e-300
    return end, float(np.max(np.maximum(np.abs(curved), np.abs(missed)) / scale)), ahead


def _rates(rates: Any) -> tuple[float, float]:
    """The fastest rate of decay, which limits an explicit step by stability, and the fastest swing that is hardly damped."""
    swings = np.where(-rates.real < 0.3 * np.abs(rates.imag), np.abs(rates.imag), 0.0)
    return max(0.0, float(np.max(-rates.real))), float(np.max(swings))
