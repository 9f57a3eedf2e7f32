"""Steps of a stochastic method that are cut at the random times at which the state jumps."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, PyTree

from .._errors import ArgumentError
from .._types import State, Time
from ..core import StochasticSystem, System, SystemTerm, at_time, greatest
from ._stepper import Step, Stepper, straight
from ._stochastic import AbstractStochasticStepper

MOST_JUMPS = 16
"""Most jumps, or candidates of them, in one step; one with more is given up: at one in the mean, a part of 1e-15 of all steps."""


class WithJumps(Stepper):
    r"""Steps of a stochastic method for a system that jumps as well: each is cut at its jumps.

    The time to the next candidate is exponential with the rate of `jump_bound`, or of `jump_rate` itself. From candidate to
    candidate the method takes a piece of the step with increments of its own, so that its order is kept between jumps (the
    jump-adapted schemes of Platen and Bruti-Liberati 2010, Numerical Solution of Stochastic Differential Equations with Jumps in
    Finance, chapter 8, doi:10.1007/978-3-642-13694-8). A step without a jump is that of the method, to the bit.

    Random numbers are counted as those of the Brownian path, so that a member has the same jumps whatever the batch it is in.
    """

    inner: AbstractStochasticStepper
    family: ClassVar[type[System]] = StochasticSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False

    @property
    def order(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The order of the method between jumps."""
        return self.inner.order

    @property
    def evaluations(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Evaluations of the drift in a step without jumps."""
        return self.inner.evaluations

    @property
    def levy_area(self) -> bool:
        """The method's need for the Levy area of the path."""
        return self.inner.levy_area

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        return self.inner.init(term, t, y)

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        held = lambda carry: carry

        def piece(carry: _Carry, number: Array, first: bool = False) -> _Carry:
            here = dataclasses.replace(term, path=term.path.piece(number, t0))
            coming = _candidate(here, carry.t, t1, carry.y)
            # Of one that is done a whole step is computed and left out: lengths stay above zero.
            begin = jnp.where(carry.done, t0, carry.t)
            end = jnp.where(coming.hit & ~carry.done, coming.time, t1)
            length = jnp.where(coming.hit | carry.done, end - begin, h) if first else end - begin
            kept = memory if first else self.inner.init(here, begin, carry.y)
            before = self.inner.advance(here, begin, end, length, carry.y, kept).state
            after, fine = _jumped(here, coming, end, before)
            y = jax.tree.map(lambda old, new: jnp.where(carry.done, old, new), carry.y, after)
            return _Carry(
                jnp.where(carry.done, carry.t, end), y, carry.done | ~coming.hit, carry.fine & (fine | carry.done)
            )

        def again(carry: _Carry, number: Array) -> tuple[_Carry, None]:
            go = greatest(~carry.done)
            return jax.lax.cond(go, lambda carry: _alike(piece(carry, number), carry), held, carry), None

        no, yes = t0 != t0, t0 == t0
        begin = _Carry(t0, y0, no, yes)
        carry = piece(begin, jnp.zeros((), jnp.int32), first=True)
        rest = lambda carry: jax.lax.scan(again, carry, jnp.arange(1, MOST_JUMPS + 1, dtype=jnp.int32))[0]
        carry = jax.lax.cond(greatest(~carry.done), rest, held, _alike(carry, carry))
        whole = carry.done & carry.fine
        y1 = jax.tree.map(lambda y: jnp.where(whole, y, jnp.nan), carry.y)
        return Step(y1, None, {"y0": y0, "y1": y1}, self.inner.init(term, t1, y1))

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


class _Carry(NamedTuple):
    """A step while its jumps happen, one a round."""

    t: Array
    y: State
    done: Array
    fine: Array  # whether rates are numbers, not negative and not above their bound


class _Candidate(NamedTuple):
    """The next candidate of a jump."""

    time: Array
    hit: Array  # whether it is in the step
    bound: Array
    thinned: bool
    share: Array  # a uniform number, below which rate / bound makes it a jump
    key: Any


def _candidate(term: SystemTerm, t: Time, until: Time, y: State) -> _Candidate:
    system: Any = term.system
    inputs = at_time(term.inputs, t)
    bound = system.jump_bound(t, until, y, inputs)
    thinned = bound is not None
    bound = _rate(system, bound if thinned else system.jump_rate(t, y, inputs), t, until)
    high, low = term.path.words_of_jump()
    unit = _units(high, low, bound.dtype)
    wait = -jnp.log1p(-unit[0]) / jnp.where(bound > 0, bound, 1)
    time = jnp.where(bound > 0, t + wait.astype(t.dtype), jnp.inf)
    key = jax.random.wrap_key_data(jnp.stack([high[2], low[2]]), impl="threefry2x32")
    return _Candidate(time, time < until, bound, thinned, unit[1], key)


def _jumped(term: SystemTerm, coming: _Candidate, t: Time, y: State) -> tuple[State, Array]:
    """The state after a candidate, and whether its rates are numbers that serve."""
    system: Any = term.system
    inputs = at_time(term.inputs, t)
    fine, accepted = coming.bound >= 0, coming.hit
    if coming.thinned:
        rate = _rate(system, system.jump_rate(t, y, inputs), t, t)
        above = coming.bound * (1 + 8 * jnp.finfo(rate.dtype).eps)  # the rounding of two ways to the same number
        fine &= ~coming.hit | ((rate >= 0) & (rate <= above))
        accepted = accepted & (coming.share * coming.bound < rate)
    after = system.jump(t, y, inputs, coming.key)
    check_jump(system, y, after)
    return jax.tree.map(lambda old, new: jnp.where(accepted, new, old), y, after), fine


def check_jump(system: Any, y: State, after: State) -> None:
    """Refuse a jump whose result has not the form of the state.

    **Raises:** an `ArgumentError`.
    """
    form = lambda tree: (jax.tree.structure(tree), [(jnp.shape(x), jnp.result_type(x)) for x in jax.tree.leaves(tree)])
    if form(after) != form(y):
        raise ArgumentError(
            f"`jump` of `{type(system).__name__}` must return the state after a jump, with the structure, shapes and float types "
            f"of the state, {form(y)}, but it returned {form(after)}."
        )


def _rate(system: Any, value: Any, *times: Time) -> Array:
    """A rate of jumps as one number without derivatives."""
    kind = type(system).__name__
    value = jnp.asarray(value, jnp.result_type(times[0]))
    if value.shape:
        raise ArgumentError(
            f"`jump_rate` and `jump_bound` of `{kind}` must return one number, but the shape is {value.shape}. For jumps of "
            "several kinds return the sum of their rates, and let `jump` draw the kind."
        )

    def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        if not isinstance(tangents[0], SymbolicZero):
            raise ArgumentError(
                f"The derivative asked for changes the rate of the jumps of `{kind}`, by which a path has none: where and "
                "whether it jumps is not smooth, and the derivative of a path by anything that its rate depends on is biased. Take "
                "derivatives by numbers that the rate does not depend on, `sample` with `ParticleMetropolis()` or `fit` with "
                "`IteratedFiltering()`."
            )
        if any(not isinstance(x, SymbolicZero) for x in tangents[1:]):
            raise ArgumentError(
                f"A path of `{kind}` has no derivative by its times: the number of its jumps depends on them. Hold `times`."
            )
        return primals[0], jnp.zeros_like(primals[0])

    without = jax.custom_jvp(lambda value, *times: value)
    without.defjvp(rule, symbolic_zeros=True)
    return without(value, *times)


def _units(high: Array, low: Array, dtype: Any) -> Array:
    """Uniform numbers in [0, 1), of 53 bits, of 24 in single precision."""
    if jnp.dtype(dtype).itemsize == 8:
        words = high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64)
        return (words >> 11).astype(dtype) * jnp.asarray(2.0**-53, dtype)
    return (high >> 8).astype(dtype) * jnp.asarray(2.0**-24, dtype)


def _alike(tree: PyTree, like: PyTree) -> Any:
    return jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), tree, like)
