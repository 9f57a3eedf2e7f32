"""Implicit-explicit methods for split systems: the linear part implicitly, which costs a division, the rest explicitly."""

import functools
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np
from jaxtyping import PyTree

from .._types import State, Time
from ..core import SystemTerm, scaled
from ._of_diffrax import coefficients, dense_of_kencarp, lazily
from ._registry import SOLVERS
from ._split import AbstractSplitStepper, rates_of, rest_of, total
from ._stepper import straight

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


@SOLVERS.named("cnrk3")
class CNRK3(AbstractSplitStepper):
    r"""Crank and Nicolson for the linear part, for the rest a Runge-Kutta method of three stages that stores one slope:

    $$s \leftarrow N(y) + \beta_k s, \qquad
    y \leftarrow \frac{y + \gamma_k h\, s + \tfrac{h_k}{2} L y}{1 - \tfrac{h_k}{2} L}$$

    with $\beta = 0, -5/9, -153/128$, $\gamma = 1/3, 15/16, 8/15$ and the substeps $h_k = h/3, 5h/12, h/4$. Order 3 in
    the rest, 2 where
    the linear part matters. It needs least memory and three evaluations a step, and it damps fast linear modes slowly.
    It has no
    error estimate; between steps a straight line.

    Williamson (1980), J. Comput. Phys. 35:48, doi:10.1016/0021-9991(80)90033-9; Canuto et al. (2007), Spectral Methods,
    appendix
    D, section 3.
    """

    adaptive: ClassVar[bool] = False
    evaluations: ClassVar[int] = 3
    order: ClassVar[int] = 2

    def weights(self, term: SystemTerm, h: Time) -> Any:
        rates, found = rates_of(term), []
        for gamma, width in zip(_GAMMAS, _WIDTHS, strict=True):
            inverse = jax.tree.map(lambda rate, width=width: 1 / (1 - scaled(0.5 * width * h, rate)), rates)
            grown = jax.tree.map(lambda i: 2 * i - 1, inverse)  # (1 + z)/(1 - z)
            found.append((grown, jax.tree.map(lambda i, gamma=gamma: scaled(gamma * h, i), inverse)))
        return tuple(found)

    def weighted(self, weights: PyTree, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State) -> Any:
        y, slope = y0, rest_of(term, t0, y0)
        for k, (grown, inverse) in enumerate(weights):
            if k:
                t = t0 + sum(_WIDTHS[:k]) * h
                slope = total((1.0, rest_of(term, t, y)), (_BETAS[k], slope))
            y = total((grown, y), (inverse, slope))
        return y, None, {"y0": y0, "y1": y}

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


_BETAS = (0.0, -5 / 9, -153 / 128)
_GAMMAS = (1 / 3, 15 / 16, 8 / 15)
_WIDTHS = (1 / 3, 5 / 12, 1 / 4)


class AbstractIMEXRungeKutta(AbstractSplitStepper):
    r"""Additive Runge-Kutta methods, an explicit one for the rest and a singly diagonally implicit one for the linear part:

    $$Y_i = \frac{y_0 + h \sum_{j<i} \left(a^E_{ij} N_j + a^I_{ij} L Y_j\right)}{1 - h \gamma L}, \qquad N_i = N(t_0 +
    c_i h, Y_i)$$

    Both have the same weights, and the last implicit stage ends the step, so that
    $y_1 = Y_s + h \sum_j (b_j - a^E_{sj}) N_j$, in which nothing stiff cancels. The error estimate is divided by
    $1 - h \gamma L$ as well (Shampine), else modes that are long gone would keep steps short.
    """

    tableau: AbstractClassVar[Any]
    dense: AbstractClassVar[np.ndarray]
    adaptive: ClassVar[bool] = True

    def weights(self, term: SystemTerm, h: Time) -> Any:
        gamma = float(np.asarray(self.tableau.tableaus[1].a_diagonal)[-1])
        rates = rates_of(term)
        return rates, jax.tree.map(lambda rate: 1 / (1 - scaled(gamma * h, rate)), rates)

    def weighted(self, weights: PyTree, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State) -> Any:
        rates, inverse = weights
        explicit, implicit = self.tableau.tableaus
        stage, slopes, linear = y0, [rest_of(term, t0, y0)], [total((rates, y0))]
        for i, node in enumerate(explicit.c):
            known = [(h * float(a), k) for a, k in zip(explicit.a_lower[i], slopes, strict=True) if a != 0]
            known += [(h * float(a), k) for a, k in zip(implicit.a_lower[i], linear, strict=True) if a != 0]
            stage = total((inverse, total((1.0, y0), *known)))
            slopes.append(rest_of(term, t1 if node == 1 else t0 + float(node) * h, stage))
            linear.append(total((rates, stage)))
        ending = (*explicit.a_lower[-1], 0.0)
        rest = [(h * float(b - a), k) for b, a, k in zip(explicit.b_sol, ending, slopes, strict=True) if b != a]
        y1 = total((1.0, stage), *rest)
        increments = [total((h, n), (h, m)) for n, m in zip(slopes, linear, strict=True)]
        error = total((inverse, _mixed(explicit.b_error, increments)))
        return y1, error, {"y0": y0, "q": tuple(_mixed(row, increments) for row in self.dense)}

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return dense["q"]


@SOLVERS.named("kencarp3")
class KenCarp3(AbstractIMEXRungeKutta):
    """ARK3(2)4L[2]SA of Kennedy and Carpenter: order 3 with an embedded method of order 2, four stages, L-stable.

    For loose tolerances, 1e-2 to 1e-4. Between steps its own polynomial of order 2.

    Kennedy and Carpenter (2003), Appl. Numer. Math. 44:139, doi:10.1016/S0168-9274(02)00138-1.
    """

    evaluations: ClassVar[int] = 4
    order: ClassVar[int] = 3
    tableau = lazily(functools.partial(coefficients, "KenCarp3"))
    dense = lazily(functools.partial(dense_of_kencarp, "KenCarp3"))


@SOLVERS.named("kencarp4")
class KenCarp4(AbstractIMEXRungeKutta):
    """ARK4(3)6L[2]SA of Kennedy and Carpenter: order 4 with an embedded method of order 3, six stages, L-stable.

    The default of split systems with adaptive steps; good tolerances are 1e-3 to 1e-8. Between steps its own polynomial
    of order 3.

    Kennedy and Carpenter (2003), Appl. Numer. Math. 44:139, doi:10.1016/S0168-9274(02)00138-1.
    """

    evaluations: ClassVar[int] = 6
    order: ClassVar[int] = 4
    tableau = lazily(functools.partial(coefficients, "KenCarp4"))
    dense = lazily(functools.partial(dense_of_kencarp, "KenCarp4"))


def _mixed(weights: PyTree, states: list[Any]) -> Any:
    return total(*((float(w), k) for w, k in zip(weights, states, strict=True) if w != 0))
