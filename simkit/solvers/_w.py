"""A Runge-Kutta method whose stages are smoothed by a stiff linear part, or by something near it."""

from typing import Any, ClassVar

import jax
from jaxtyping import PyTree

from .._types import State, Time
from ..core import StiffTransportSystem, System, SystemTerm, scaled
from ._registry import SOLVERS
from ._stepper import Step, Stepper, straight

GAMMA = 0.62
EARLIER = ((), (-0.4,), (-0.23, -0.6))
ROWS = ((), (1.0,), (0.25, 0.25))
NODES = (0.0, 1.0, 0.5)
LAST = (1 / 6, 1 / 6, 2 / 3)


@SOLVERS.named("wrk3")
class WRK3(Stepper):
    r"""A W-method of three stages: `SSPRK3` for what is not stiff, and for the stiff linear part L one solution a stage,

    $$k_i = (1 - \gamma h L)^{-1} \left[h f\left(y_0 + \sum_j a_{ij} k_j\right) + \frac{1}{\gamma} g_i\right] - \frac{1}{\gamma}
    g_i, \qquad g_i = \sum_{j<i} \gamma_{ij} k_j, \qquad y_1 = y_0 + \sum_i b_i k_i$$

    with a and b those of `SSPRK3`, $\gamma$ = 0.62, $\gamma_{21}$ = -0.4, $\gamma_{31}$ = -0.23, $\gamma_{32}$ = -0.6. It is
    of order 2 whatever stands in for L (Steihaug and Wolfbrandt 1979), so that the solution may be one that takes little time: for
    incompressible flow a smoothing and a projection, in place of a solution of Stokes' equations. The coefficients were looked
    for: where L is right the fastest decay is damped to a third a step and the error of slow decay, 0.07 z^3, is that of Crank
    and Nicolson; where the true part is up to three times L it is stable, too.

    The default of flows with `diffusion="implicit"`. It has no error estimate; between steps a straight line.

    Steihaug and Wolfbrandt (1979), Math. Comp. 33:521, doi:10.1090/S0025-5718-1979-0521273-8.
    """

    family: ClassVar[type[System]] = StiffTransportSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = True
    evaluations: ClassVar[int] = 3
    order: ClassVar[int] = 2

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        stages: list[Any] = []
        for node, row, earlier in zip(NODES, ROWS, EARLIER, strict=True):
            y = _sum(y0, row, stages)
            t = t1 if node == 1 else t0 + node * h  # t0 + (t1 - t0) may round past t1, where an input may jump
            push = jax.tree.map(lambda f: scaled(h, f), term.vf(t, y))
            before = [g / GAMMA for g in earlier]
            found = term.system.smoothed(y0, _sum(push, before, stages), GAMMA * h)
            stages.append(_sum(found, [-g for g in before], stages))
        y1 = _sum(y0, LAST, stages)
        return Step(y1, None, {"y0": y0, "y1": y1}, None)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


def _sum(y: State, weights: PyTree, stages: list[Any]) -> Any:
    added = lambda y, *ks: y + sum(w * k for w, k in zip(weights, ks, strict=True))
    return jax.tree.map(added, y, *stages) if stages else y
