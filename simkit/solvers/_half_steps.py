"""Steps of a stochastic method with an error estimate: a whole step beside two halves."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._types import State, Time
from ..core import KnownIncrement, StochasticSystem, System, SystemTerm
from ._stepper import Step, Stepper, straight
from ._stochastic import AbstractStochasticStepper, EulerMaruyama, Milstein, StratonovichHeun


class HalfSteps(Stepper):
    """Two half steps of a stochastic method, whose distance from a whole step is the error estimate.

    Whole and half steps see one Brownian path, so that the error is that of the path, not of its law.
    """

    inner: AbstractStochasticStepper
    family: ClassVar[type[System]] = StochasticSystem
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 3
    order: ClassVar[int] = 2
    """Power of its length to which the error of a step grows, rounded up from 3/2."""

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        half = 0.5 * h
        middle = t0 + half
        path = jax.vmap(term.path.at)(jnp.stack([t0, middle, t1]))
        between = lambda i, j: jax.tree.map(lambda w: w[j] - w[i], path)

        def step(i: int, j: int, t: Time, until: Time, h: Time, y: State) -> State:
            known: Any = SystemTerm(term.system, term.inputs, KnownIncrement(between(i, j)), apart=term.apart)
            return self.inner.advance(known, t, until, h, y, None).state

        whole = step(0, 2, t0, t1, h, y0)
        fine = step(1, 2, middle, t1, half, step(0, 1, t0, middle, half, y0))
        return Step(fine, jax.tree.map(jnp.subtract, fine, whole), {"y0": y0, "y1": fine}, None)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


def half_steps(solver: AbstractStochasticStepper, noise: str, interpretation: str, given: bool) -> HalfSteps:
    """Return the method that varies its steps: the given one in halves, or one that fits the noise.

    **Raises:** an `ArgumentError` where there is none of strong order 1. Of order 1/2 one with steps that follow the path may
    converge to something else (Gaines and Lyons 1997, doi:10.1137/S0036139995286515).
    """
    if noise not in ("additive", "diagonal"):
        raise ArgumentError(
            "Adaptive steps need noise that is additive or diagonal: of other noise no method here has strong order 1, and of a "
            "lower one steps that follow the path may converge to a wrong one. Give `step` a number or `Fixed(substeps)`."
        )
    if given and solver.levy_area:
        raise ArgumentError(
            f"`{type(solver).__name__}` needs the Levy area of each step, which adaptive steps do not have: take "
            "`EulerMaruyama()`, of strong order 1 for additive noise, or leave `solver` out."
        )
    if given and noise == "diagonal" and isinstance(solver, EulerMaruyama):
        raise ArgumentError(
            "`EulerMaruyama` has strong order 1/2 for noise that depends on the state, for which adaptive steps may converge to a "
            "wrong path: take `Milstein()`, or leave `solver` out."
        )
    if given:
        return HalfSteps(solver)
    if noise == "additive":
        return HalfSteps(EulerMaruyama())
    return HalfSteps(StratonovichHeun() if interpretation == "stratonovich" else Milstein())
