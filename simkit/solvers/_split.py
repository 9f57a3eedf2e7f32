"""Common parts of steppers of split systems: weights for a length of steps, the parts of the system, a polynomial."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import PyTree

from .._types import State, Time
from ..core import SplitSystem, System, SystemTerm, at_time, greatest, scaled
from ._explicit import BARRIER_SIZE
from ._stepper import Step, Stepper


class AbstractSplitStepper(Stepper):
    """One step of a split system, whose linear part is diagonal: no Jacobian, no system of equations.

    What a method makes of the linear part and the length of a step are its `weights`. Where steps are equally long they are
    made once for all of them, outside the loop. Slopes of its stages bear the name `kept`, by which reverse mode holds on to them
    where memory allows.
    """

    family: ClassVar[type[System]] = SplitSystem
    stiff: ClassVar[bool] = True
    kept: ClassVar[str] = "slope of a stage"

    @abc.abstractmethod
    def weights(self, term: SystemTerm, h: Time) -> Any:
        """Return the weights, which depend on the linear part and the length of a step alone."""

    @abc.abstractmethod
    def weighted(
        self, weights: PyTree, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The step with these weights: the state at its end, the error estimate or None, and the dense output."""

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        y1, error, dense = self.weighted(self.weights(term, h), term, t0, t1, h, y0)
        return Step(y1, error, dense, None)


def rates_of(term: SystemTerm) -> Any:
    """The diagonal of the linear part."""
    return term.system.linear()


def rest_of(term: SystemTerm, t: Time, y: State) -> Any:
    """The rest of the vector field at one stage, computed once whatever reads it."""
    call = lambda y: term.system.nonlinear(t, y, at_time(term.inputs, t))
    large = sum(leaf.size for leaf in jax.tree.leaves(y)) >= BARRIER_SIZE
    if term.late and large:
        slope = _late(call, t, y)
    elif term.apart or large:
        slope = jax.lax.optimization_barrier(call(jax.lax.optimization_barrier(y)))
    else:
        slope = call(y)
    return jax.tree.map(_named, slope)


def _late(call: Any, t: Time, y: State) -> Any:
    """`call(y)`, whose derivative holds nothing but y, and on CPUs what it needs for one stage at a time.

    XLA on CPU computes as early as it can, all stages of a step at once; into a branch it looks only when it comes there. The
    branch also marks times that are not numbers.
    """
    again = jax.checkpoint(call)
    if jax.default_backend() != "cpu":
        return again(y)
    missing = lambda y: jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), jax.eval_shape(call, y))
    # A branch for each member would be a selection of both, with operations in it that JAX cannot transpose.
    return jax.lax.cond(greatest(t == t), again, missing, y)


def _named(x: Any) -> Any:
    """A slope that reverse mode may keep. JAX keeps real numbers only."""
    named = lambda x: checkpoint_name(x, AbstractSplitStepper.kept)
    return jax.lax.complex(named(x.real), named(x.imag)) if jnp.iscomplexobj(x) else named(x)


def total(*pairs: tuple[Any, Any]) -> Any:
    """The sum of factors times states, leaf by leaf; a factor is a number or a tree of arrays like the state."""
    factors, states = [factor for factor, _ in pairs], [state for _, state in pairs]
    spread = [jax.tree.map(lambda _, f=f: f, states[0]) if _single(f) else f for f in factors]
    count = len(pairs)

    def added(*leaves: PyTree) -> Any:
        terms = [scaled(f, y) for f, y in zip(leaves[:count], leaves[count:], strict=True)]
        return sum(terms[1:], terms[0])

    return jax.tree.map(added, *spread, *states)


def _single(factor: Any) -> bool:
    """Tell whether a factor is one number for all leaves."""
    return isinstance(factor, int | float) or (isinstance(factor, jax.Array) and factor.ndim == 0)
