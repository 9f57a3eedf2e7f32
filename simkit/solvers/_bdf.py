"""BDF: backward differentiation formulas of order 1 to 5 for stiff problems whose equations are dear to factorise."""

from typing import Any, ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Inexact

from .._doors import check_kind
from .._types import State, Time
from ..core import ConstrainedSystem, System, SystemTerm, known_jacobian, scaled
from ..linear import structure_of
from . import _newton as newton
from ._constrained import Equations, projected, slope_of, structure_at, times_mass
from ._krylov import Krylov
from ._registry import SOLVERS
from ._stated import JacobianPattern, as_pattern, stated_places
from ._stepper import Memory, Step, Stepper

MOST_ORDER = 5
ROWS = MOST_ORDER + 2
"""Backward differences that are kept, of order 1 to 7: two more than the formulas read tell of the errors of other orders."""

# Klopfenstein's coefficients kappa as in table 1 of Shampine and Reichelt (1997); row k belongs to order k.
KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
GAMMA = np.cumsum([0.0, *(1 / np.arange(1, MOST_ORDER + 1))])
ALPHA = (1 - KAPPA) * GAMMA
ERROR = KAPPA * GAMMA + 1 / np.arange(1, MOST_ORDER + 2)

_order, _row = np.arange(MOST_ORDER + 1)[:, None], np.arange(1, ROWS + 1)
WITHIN = _row <= _order
"""Rows of differences that a formula of each order reads."""
HISTORY = np.where(WITHIN, np.append(GAMMA, [0, 0])[_row], 0) / np.where(ALPHA > 0, ALPHA, 1)[:, None]
"""Weights of the differences in the equation of a step."""


def _next_differences() -> tuple[np.ndarray, np.ndarray]:
    """Matrices and vectors for each order: the new differences are A times the old ones plus b times the change."""
    k, i, j = np.ix_(np.arange(MOST_ORDER + 1), _row, _row)
    kept = np.where(i <= k, (i <= j) & (j <= k), np.where(i == k + 2, -1.0 * (j == k + 1), (i > k + 2) & (i == j)))
    return kept.astype(float), (_row <= _order + 2).astype(float)


KEPT, CHANGED = _next_differences()


def _powers() -> np.ndarray:
    """Row j: the weights of all differences in the power j + 1 of the dense output, Newton's formula in theta = 1 + s."""
    rows, product = [], np.polynomial.Polynomial([1.0])
    for j in range(1, MOST_ORDER + 1):
        product = product * np.polynomial.Polynomial([j - 2.0, 1.0]) / j
        rows.append(np.pad(product.coef[1:], (0, MOST_ORDER - j)))
    return np.array(rows).T


POWERS = _powers()

# Step control: safety, least and largest growth, growth below which a step is left as it is, and after a failed iteration.
SAFETY, LEAST, LARGEST, WORTHWHILE, FAILED = 0.9, 0.2, 10.0, 1.2, 0.5


@SOLVERS.named("bdf")
class BDF(Stepper):
    r"""Numerical differentiation formulas of order 1 to 5, variable in order and step, with a Newton iteration.

    $$\sum_{m=1}^{k} \frac{1}{m} \nabla^m y_{n+1} - \kappa_k \gamma_k \big(y_{n+1} - y_{n+1}^{(0)}\big)
    = h f(t_{n+1}, y_{n+1}), \qquad \gamma_k = \sum_{j=1}^{k} \frac{1}{j}$$

    with the value $y^{(0)}$ that the last differences predict. A change of the step interpolates the differences anew. A step costs
    two or three evaluations of the field and as many solutions with factors of $I - c J$ that serve many steps: the choice for
    large systems whose factorisation is dear. It has order 1 at the start and after each jump of an input, and it takes more steps
    than `Rodas5P` at tight tolerances. Formulas of order 3 to 5 are not A-stable: slowly damped oscillations of a stiff
    system keep steps short. Good tolerances are 1e-3 to 1e-8.

    Tangents and gradients are those of the discrete solution with its steps and orders held, by the implicit function theorem: one
    factorisation a step. `evaluations` is the usual number of iterations. Structures of the Jacobian are those of `Rodas5P`. Of a
    `ConstrainedSystem` the matrix M stands before the sum, at the end of the step.

    **Arguments:** `krylov`, a `Krylov` by which the equations of a step are solved without factors (Newton-Krylov): for fields of
    ten thousand numbers and more whose Jacobian has no narrow band. Its products are with the Jacobian of the very iterate.

    `pattern` is as in `Rodas5P`.

    **Raises:** an `ArgumentError` for `krylov` with states of complex numbers, or with an M that is not diagonal.

    Shampine and Reichelt (1997), SIAM J. Sci. Comput. 18:1, doi:10.1137/S1064827594276424.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = True
    evaluations: ClassVar[int] = 2
    order: ClassVar[int] = 5
    multistep: ClassVar[bool] = True
    constrained: ClassVar[bool] = True
    krylov: Krylov | None = None
    pattern: JacobianPattern | None = eqx.field(static=True, default=None, converter=as_pattern)

    def __check_init__(self) -> None:
        if self.krylov is not None:
            check_kind("krylov", self.krylov, Krylov, "the settings of GMRES", "Write `BDF(krylov=Krylov())`.")

    def init(self, term: SystemTerm, t: Time, y: State) -> Memory:
        flat, unravel = ravel_pytree(y)
        t = jnp.asarray(t)
        slope = ravel_pytree(slope_of(term, t, y))[0]
        # The slope is the first difference for steps of length 1.
        differences = jnp.zeros_like(flat, shape=(ROWS, flat.size)).at[0].set(slope)
        one = jnp.ones_like(t)
        nothing = _equations(term, t, unravel, flat, jnp.zeros_like(flat), one, (self.krylov, self.pattern))
        past = {"differences": differences, "length": one, "order": one, "equal": 0 * one}
        return Memory(past, newton.no_factors(nothing))

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: Memory) -> Step:
        y, unravel = ravel_pytree(y0)
        length, order, equal = jax.lax.stop_gradient([memory.past[name] for name in ("length", "order", "equal")])
        k = order.astype(jnp.int32)
        table = lambda numbers: jnp.asarray(numbers, y.dtype)[k]
        differences = _rescaled(h / length, k, y.dtype) @ memory.past["differences"]
        predicted = y + table(WITHIN.astype(float)) @ differences
        c = h / jnp.asarray(ALPHA, h.dtype)[k]
        equations = _equations(
            term, t1, unravel, predicted, table(HISTORY) @ differences, c, (self.krylov, self.pattern)
        )
        tolerances = memory.tolerances
        if tolerances is None:  # a step that is taken again
            solved = jax.lax.stop_gradient(memory.solved - predicted)
            change, found = newton.implicit(equations, lambda: (solved, None))
        else:
            least = 10 * jnp.finfo(y.dtype).eps / tolerances[0]
            change, found = newton.solve(equations, memory.kept, _scale(y, y, tolerances), jnp.maximum(least, SOLVED))
        if isinstance(term.system, ConstrainedSystem):
            change = _on_hidden(term, t1, y0, predicted, change)
        after = table(KEPT) @ differences + table(CHANGED)[:, None] @ change[None]
        y1 = predicted + change
        dense = {"k": jax.vmap(unravel)((table(WITHIN.astype(float))[:, None] * after)[:MOST_ORDER])}
        past = {"differences": after, "length": h, "order": order, "equal": equal}
        if found is None or tolerances is None:
            return Step(unravel(y1), None, dense, Memory(past))
        scale = _scale(y, y1, tolerances)
        sizes = jnp.stack([newton.root_mean_square(after[i], scale) for i in range(ROWS)])
        rounding = 4 * jnp.finfo(h.dtype).eps * jnp.abs(t1)
        equal = jnp.where(jnp.abs(h - length) > SAME * length + rounding, 0, equal) + 1
        control = _controlled(sizes, k, equal, found)
        past |= {"order": order + control.raised, "equal": jnp.where(control.raised == 0, equal, 0)}
        lost = jnp.where(found.finite, FAR_OFF, jnp.nan).astype(y.dtype) * scale
        error = jnp.where(found.converged, table(ERROR) * change, lost)
        return Step(unravel(y1), unravel(error), dense, Memory(past, found.kept), growth=control.growth)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        combined = lambda row: lambda k: sum(float(w) * k[j] for j, w in enumerate(row) if w != 0)
        return tuple(jax.tree.map(combined(row), dense["k"]) for row in POWERS)


SAME = 1e-3
"""Relative change of a length up to which steps count as equally long: more than rounding, less than any change that is meant."""

SOLVED = 0.03
"""Error to which the equations of a step are solved, over the tolerance of its error: a third of it costs a third more iterations,
and three times as much makes steps fail."""

FAR_OFF = 1e3
"""Error of a step whose equations were not solved, over its tolerance: any number above 1."""

NO_ERROR = 1e-12
"""Error over its tolerance that counts as none: the step grows by more than `LARGEST` up to order 7 of the error."""


def _scale(y0: Inexact[Array, " n"], y1: Inexact[Array, " n"], tolerances: tuple[Array, Array]) -> Inexact[Array, " n"]:
    """The tolerance of the error of each state, as the engine has it."""
    rtol, atol = tolerances
    y0, y1 = jax.lax.stop_gradient((y0, y1))
    return atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))


Settings: TypeAlias = tuple[Krylov | None, JacobianPattern | None]
"""The way to solve the equations of a step, by GMRES or by factors, and the pattern of the Jacobian where it was stated."""


def _equations(
    term: SystemTerm,
    t1: Time,
    unravel: Any,
    predicted: Inexact[Array, " n"],
    history: Inexact[Array, " n"],
    c: Array,
    settings: Settings,
) -> newton.Equations:
    """The equations of a step for the change of the predicted state, and their matrix I - c J."""

    if isinstance(term.system, ConstrainedSystem):
        return _constrained_equations(Equations(term, unravel(predicted)), t1, predicted, history, c, settings)
    krylov, pattern = settings

    @jax.jit  # traced once for the residual and the Jacobian
    def field(y: Array) -> Array:
        return ravel_pytree(term.vf(t1, unravel(y)))[0]

    def residual(change: Array) -> Array:
        return change + history - scaled(c, field(predicted + change))

    if krylov is None:
        structure, iterative = structure_of(field, predicted, stated_places(pattern, predicted.size)), None
    else:
        structure = krylov.structure_of(field, predicted, unravel(predicted), None, pattern)
        iterative = krylov.iterative(term, t1, unravel, predicted, c, structure)

    def matrix(y: Array, c: Array) -> Any:
        known = known_jacobian(term, t1, unravel(y))
        product = lambda v: scaled(c, jax.jvp(field, (y,), (v,))[1])
        return structure.shifted(product if known is None else c * known, 1.0, y)

    return newton.Equations(residual, matrix, structure, c, predicted, True, iterative, pattern is not None)


def _constrained_equations(
    e: Equations,
    t1: Time,
    predicted: Inexact[Array, " n"],
    history: Inexact[Array, " n"],
    c: Array,
    settings: Settings,
) -> newton.Equations:
    """The same of M(t) y' = f(t, y), with the matrix M - c J, where M is that of the end of the step."""
    mass, (krylov, pattern) = e.mass(t1), settings

    def residual(change: Array) -> Array:
        return times_mass(mass, change + history) - scaled(c, e.field(t1, predicted + change))

    if krylov is None:
        structure, iterative = structure_at(e, t1, predicted, mass, pattern), None
    else:
        structure = krylov.structure_of(lambda y: e.field(t1, y), predicted, e.unravel(predicted), mass, pattern)
        iterative = krylov.iterative(e.term, t1, e.unravel, predicted, c, structure)

    def matrix(y: Array, c: Array) -> Any:
        product = lambda v: scaled(c, jax.jvp(lambda y: e.field(t1, y), (y,), (v,))[1])
        return structure.shifted(product, 1.0, y, mass)

    return newton.Equations(residual, matrix, structure, c, predicted, False, iterative, pattern is not None)


def _on_hidden(term: SystemTerm, t1: Time, y0: State, predicted: Inexact[Array, " n"], change: Array) -> Array:
    """The change of the predicted state that ends on the hidden constraints."""
    e = Equations(term, y0)
    end = predicted + change
    return change + (projected(e, t1, end, jnp.abs(e.like) + jnp.abs(end)) - end)


def _rescaled(factor: Array, k: Array, dtype: Any) -> Inexact[Array, "rows rows"]:
    """The matrix that takes differences of order up to k to those of a step `factor` times as long.

    R U of Shampine and Reichelt, section 3.1: both interpolate by Newton's formula, the one at the new places, the other back.
    """

    def interpolated(places: Any) -> list[Any]:
        found = [1.0 + 0 * places]
        for i in range(1, MOST_ORDER + 1):
            found.append(found[-1] * (i - 1 - places) / i)
        return found

    places = np.arange(MOST_ORDER + 1.0)
    back = np.stack(interpolated(places))
    ahead = jnp.stack(interpolated(factor.astype(dtype) * jnp.asarray(places, dtype)))
    whole = (ahead @ jnp.asarray(back, dtype)).T[1:, 1:]
    within = jnp.asarray(WITHIN)[k]
    wide = jnp.zeros_like(whole, shape=(ROWS, ROWS)).at[:MOST_ORDER, :MOST_ORDER].set(whole)
    return jnp.where(within[:, None] & within[None], wide, jnp.eye(ROWS, dtype=dtype))


class _Control(NamedTuple):
    growth: Array
    raised: Array  # -1, 0 or 1


def _controlled(sizes: Inexact[Array, " rows"], k: Array, equal: Array, found: newton.Found) -> _Control:
    """The growth of the step and the change of the order: the order with the longest step, once k + 1 steps were equally long.

    `sizes` are the norms of the new differences; the one of order k + 1 is the change of the state.
    """
    orders = k + np.array([-1, 0, 1], np.int32)
    possible = (orders >= 1) & (orders <= MOST_ORDER)
    constants = jnp.asarray(ERROR, sizes.dtype)[jnp.clip(orders, 0, MOST_ORDER)]
    errors = constants * sizes[jnp.clip(orders, 0, ROWS - 1)]
    growths = jnp.maximum(errors, NO_ERROR) ** (-1 / (orders + 1).astype(sizes.dtype))
    growths = jnp.where(possible, growths, 0)
    most = newton.ITERATIONS
    safety = SAFETY * (2 * most + 1) / (2 * most + found.iterations)
    best = jnp.argmax(growths)
    growth = jnp.minimum(safety * growths[best], LARGEST)
    change = (equal > k.astype(equal.dtype)) & ((growth >= WORTHWHILE) | (growth < 1))
    rejected = jnp.where(
        found.converged,
        jnp.clip(safety * growths[1], LEAST, SAFETY),
        jnp.where(found.finite, FAILED, LEAST).astype(growth.dtype),
    )
    accurate = found.converged & (errors[1] < 1)
    growth = jnp.where(accurate, jnp.where(change, growth, 1), rejected)
    return _Control(growth, jnp.where(accurate & change, best - 1, 0).astype(growth.dtype))
