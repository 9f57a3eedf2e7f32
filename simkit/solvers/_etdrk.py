"""Exponential integrators for split systems: the linear part exactly, the rest by Runge-Kutta."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._types import State, Time
from ..core import SystemTerm, scaled
from ._phi import phi_functions
from ._registry import SOLVERS
from ._split import AbstractSplitStepper, rates_of, rest_of, total
from ._stepper import straight


@SOLVERS.named("etdrk2")
class ETDRK2(AbstractSplitStepper):
    r"""The exponential Runge-Kutta method of order 2: with $E = e^{hL}$,

    $$a = E y_0 + h \phi_1(hL) N(t_0, y_0), \qquad y_1 = a + h \phi_2(hL) \left(N(t_1, a) - N(t_0, y_0)\right)$$

    Two evaluations a step. It has no error estimate, so `step` must be fixed; between steps a straight line.

    Cox and Matthews (2002), J. Comput. Phys. 176:430, doi:10.1006/jcph.2002.6995, equations 20 to 22.
    """

    adaptive: ClassVar[bool] = False
    evaluations: ClassVar[int] = 2
    order: ClassVar[int] = 2

    def weights(self, term: SystemTerm, h: Time) -> Any:
        def of(rate: Any) -> Any:
            z = scaled(h, rate)
            first, second, _ = phi_functions(z)
            return jnp.exp(z), scaled(h, first), scaled(h, second)

        return _transposed(of, rates_of(term), 3)

    def weighted(self, weights: PyTree, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State) -> Any:
        full, first, second = weights
        n0 = rest_of(term, t0, y0)
        a = total((full, y0), (first, n0))
        change = jax.tree.map(jnp.subtract, rest_of(term, t1, a), n0)
        y1 = total((1.0, a), (second, change))
        return y1, None, {"y0": y0, "y1": y1}

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


@SOLVERS.named("etdrk4")
class ETDRK4(AbstractSplitStepper):
    r"""The exponential Runge-Kutta method of order 4: with $E = e^{hL}$, $E_2 = e^{hL/2}$ and $\phi_j = \phi_j(hL)$,

    $$a = E_2 y_0 + \tfrac{h}{2}\phi_1(\tfrac{hL}{2}) N_0, \quad b = E_2 y_0 + \tfrac{h}{2}\phi_1(\tfrac{hL}{2}) N_a, \quad
    c = E_2 a + \tfrac{h}{2}\phi_1(\tfrac{hL}{2}) (2 N_b - N_0)$$

    $$y_1 = E y_0 + h \left[(\phi_1 - 3\phi_2 + 4\phi_3) N_0 + (2\phi_2 - 4\phi_3)(N_a + N_b) + (4\phi_3 - \phi_2) N_c\right]$$

    The default of split systems with fixed steps: the stiff part costs nothing, so that the step follows from the rest alone. Four
    evaluations a step. For flows a good step moves nothing further than half a cell; stable are some 0.9 cells (2.8 over
    the largest wavenumber). It has no error estimate; between steps a straight line, so save where steps end.

    Cox and Matthews (2002), doi:10.1006/jcph.2002.6995, equations 26 to 29; near zero: Kassam and Trefethen (2005),
    SIAM J. Sci. Comput. 26:1214, doi:10.1137/S1064827502410633.
    """

    adaptive: ClassVar[bool] = False
    evaluations: ClassVar[int] = 4
    order: ClassVar[int] = 4

    def weights(self, term: SystemTerm, h: Time) -> Any:
        def of(rate: Any) -> Any:
            z = scaled(h, rate)
            half = phi_functions(0.5 * z)[0]
            first, second, third = phi_functions(z)
            parts = (0.5 * half, first - 3 * second + 4 * third, 2 * second - 4 * third, 4 * third - second)
            return jnp.exp(z), jnp.exp(0.5 * z), *(scaled(h, part) for part in parts)

        return _transposed(of, rates_of(term), 6)

    def weighted(self, weights: PyTree, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State) -> Any:
        full, half, stage, first, middle, last = weights
        between = t0 + 0.5 * h
        n0 = rest_of(term, t0, y0)
        a = total((half, y0), (stage, n0))
        na = rest_of(term, between, a)
        nb = rest_of(term, between, total((half, y0), (stage, na)))
        c = total((half, a), (stage, jax.tree.map(lambda b, n: 2 * b - n, nb, n0)))
        nc = rest_of(term, t1, c)
        y1 = total((full, y0), (first, n0), (middle, jax.tree.map(jnp.add, na, nb)), (last, nc))
        return y1, None, {"y0": y0, "y1": y1}

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


def _transposed(of: Any, rates: Any, count: int) -> tuple[Any, ...]:
    """`count` trees from a function that gives as many arrays for each leaf."""
    leaves, structure = jax.tree.flatten(rates)
    columns = zip(*(of(leaf) for leaf in leaves), strict=True) if leaves else [()] * count
    return tuple(structure.unflatten(column) for column in columns)
