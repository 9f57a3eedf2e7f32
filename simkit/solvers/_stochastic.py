"""Steppers for stochastic systems."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._errors import ArgumentError
from .._types import State, Time
from ..core import StochasticSystem, System, SystemTerm, forced
from ._registry import SOLVERS
from ._stepper import Step, Stepper, straight

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractStochasticStepper(Stepper):
    """One step of dy = f dt + g dW; `term` holds a Brownian path as well.

    Beside what a `Stepper` states, the method says how it reads the equation (`interpretation`), which kinds of noise it
    serves (`noise_kinds`), and whether it needs the space-time Levy area of the Brownian path (`levy_area`).
    Steps are fixed, or halves of adaptive ones (`HalfSteps`).
    """

    interpretation: AbstractClassVar[Literal["ito", "stratonovich"]]
    noise_kinds: AbstractClassVar[tuple[str, ...]]
    levy_area: AbstractClassVar[bool]

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


def _add(y: State, *increments: PyTree) -> Any:
    return jax.tree.map(lambda leaf, *changes: sum(changes, leaf), y, *increments)


def _scaled(factor: Any, tree: PyTree) -> Any:
    return jax.tree.map(lambda leaf: factor * leaf, tree)


def _result(y0: State, y1: State) -> Any:
    return Step(y1, None, {"y0": y0, "y1": y1}, None)


@SOLVERS.named("euler_maruyama")
class EulerMaruyama(AbstractStochasticStepper):
    r"""The method of Euler and Maruyama, $y_1 = y_0 + f h + g\, \Delta W$, for Ito equations with any noise.

    Strong order 1/2 (1 where the noise is additive), weak order 1. A good step is a hundredth of the fastest time scale.

    Maruyama (1955), Rend. Circ. Mat. Palermo 4:48; Kloeden and Platen (1992), Numerical Solution of Stochastic Differential
    Equations, section 10.2.
    """

    family: ClassVar[type[System]] = StochasticSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 1
    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kinds: ClassVar[tuple[str, ...]] = ("additive", "diagonal", "general")
    levy_area: ClassVar[bool] = False

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        change = _scaled(h, term.vf(t0, y0))
        return _result(y0, _add(y0, change, forced(term.diffusion(t0, y0), term.increment(t0, t1))))


@SOLVERS.named("milstein")
class Milstein(AbstractStochasticStepper):
    r"""Milstein's method for Ito equations with diagonal noise, of strong order 1:

    $$y_1 = y_0 + f h + g\, \Delta W + \tfrac{1}{2} g\, g' (\Delta W^2 - h)$$

    with the derivative g' of each component's diffusion by that component. A good step is a hundredth of the fastest time
    scale. The step raises an `ArgumentError` where the diffusion does not have the shape of the state.

    Milstein (1974), Theory Probab. Appl. 19:557, doi:10.1137/1119062; Kloeden and Platen (1992), section 10.3.
    """

    family: ClassVar[type[System]] = StochasticSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 1
    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kinds: ClassVar[tuple[str, ...]] = ("additive", "diagonal")
    levy_area: ClassVar[bool] = False

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        dw = term.increment(t0, t1)
        if jax.tree.structure(dw) != jax.tree.structure(y0) or any(
            a.shape != b.shape for a, b in zip(jax.tree.leaves(dw), jax.tree.leaves(y0), strict=True)
        ):
            raise ArgumentError(
                "`Milstein` needs a Wiener process of its own for each component, but the diffusion returns a further axis of "
                "processes that drive all components. Take `EulerMaruyama`."
            )
        diffusion = term.diffusion(t0, y0)
        # With diagonal noise the Jacobian of g is diagonal, so that its product with g is g g', component by component.
        _, curvature = jax.jvp(lambda y: term.diffusion(t0, y), (y0,), (diffusion,))
        correction = jax.tree.map(lambda c, w: 0.5 * c * (w * w - h), curvature, dw)
        return _result(y0, _add(y0, _scaled(h, term.vf(t0, y0)), forced(diffusion, dw), correction))


@SOLVERS.named("stratonovich_heun")
class StratonovichHeun(AbstractStochasticStepper):
    r"""Heun's method for Stratonovich equations with any noise:

    $$\tilde y = y_0 + f_0 h + g_0 \Delta W, \qquad
    y_1 = y_0 + \tfrac{1}{2} (f_0 + \tilde f) h + \tfrac{1}{2} (g_0 + \tilde g) \Delta W$$

    Strong order 1 where the noise commutes (additive, diagonal, one process), else 1/2. A good step is a hundredth of the
    fastest time scale.

    Rumelin (1982), SIAM J. Numer. Anal. 19:604, doi:10.1137/0719041.
    """

    family: ClassVar[type[System]] = StochasticSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 2
    order: ClassVar[int] = 1
    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "stratonovich"
    noise_kinds: ClassVar[tuple[str, ...]] = ("additive", "diagonal", "general")
    levy_area: ClassVar[bool] = False

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        dw = term.increment(t0, t1)

        def change(t: Time, y: State) -> Any:
            return _add(_scaled(h, term.vf(t, y)), forced(term.diffusion(t, y), dw))

        first = change(t0, y0)
        second = change(t1, _add(y0, first))
        return _result(y0, _add(y0, _scaled(0.5, first), _scaled(0.5, second)))


@SOLVERS.named("sra1")
class SRA1(AbstractStochasticStepper):
    r"""Rossler's stochastic Runge-Kutta method for additive noise, of strong order 3/2:

    $$y_1 = y_0 + \tfrac{h}{3} f(t_0, y_0) + \tfrac{2h}{3} f(t_0 + \tfrac{3}{4} h, Y_2) + g(t_1) (\Delta W - Z) + g(t_0) Z,
    \qquad Y_2 = y_0 + \tfrac{3}{4} h f(t_0, y_0) + \tfrac{3}{2} g(t_1) Z$$

    where $Z = h^{-1} \int_{t_0}^{t_1} (W_s - W_{t_0})\, ds$ comes with the Brownian path. Additive noise is the same in Ito's and
    in Stratonovich's reading. A good step is a fiftieth of the fastest time scale.

    Rossler (2010), SIAM J. Numer. Anal. 48:922, doi:10.1137/09076636X, the scheme SRA1.
    """

    family: ClassVar[type[System]] = StochasticSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 2
    order: ClassVar[int] = 2
    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kinds: ClassVar[tuple[str, ...]] = ("additive",)
    levy_area: ClassVar[bool] = True

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        increment = term.increment(t0, t1, use_levy=True)
        dw = increment.W
        mean = jax.tree.map(lambda w, area: 0.5 * w + area, dw, increment.H)
        start, end = term.diffusion(t0, y0), term.diffusion(t1, y0)
        slope = term.vf(t0, y0)
        stage = _add(y0, _scaled(0.75 * h, slope), _scaled(1.5, forced(end, mean)))
        later = term.vf(t0 + 0.75 * h, stage)
        difference = forced(end, jax.tree.map(jnp.subtract, dw, mean))
        y1 = _add(y0, _scaled(h / 3, slope), _scaled(2 * h / 3, later), difference, forced(start, mean))
        return _result(y0, y1)
