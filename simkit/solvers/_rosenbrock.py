"""Rodas5P: a linearly implicit (Rosenbrock) method for stiff problems."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Inexact, PyTree

from .._types import Inputs, State, Time
from ..core import ConstrainedSystem, SparseMatrix, System, SystemTerm, known_jacobian, reads_time
from ..linear import Structure, structure_of
from ._constrained import Equations, projected, structure_at, times_mass
from ._krylov import Krylov
from ._registry import SOLVERS
from ._shifted import solver_of
from ._stated import JacobianPattern, as_pattern, stated_places
from ._stepper import Step, Stepper

# Steinebach (2023), table of coefficients, in the form that needs no products with the Jacobian (Hairer and Wanner, Solving
# Ordinary Differential Equations II, section IV.7): A = alpha Gamma^-1 and C = 1/gamma - Gamma^-1.
GAMMA = 0.21193756319429014
A: tuple[tuple[float, ...], ...] = (
    (),
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946),
)
# The last two stages start from the results of the methods embedded.
A += ((*A[5], 1.0), (*A[5], 1.0, 1.0))
C: tuple[tuple[float, ...], ...] = (
    (),
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
    (
        30.91273214028599,
        -3.1208243349937974,
        77.79954646070892,
        34.28646028294783,
        -19.097331116725623,
        -28.087943162872662,
    ),
    (
        *(37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047),
        *(-40.06618937091002, -54.66780262877968, -9.48861652309627),
    ),
)
NODES = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)
TIME_WEIGHTS = (GAMMA, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0, 0.0)
DENSE = (
    (
        *(25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204),
        *(0.524948541321073, 1.1241088310450404, 0.4272876194431874, -0.17202221070155493),
    ),
    (
        *(-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796),
        *(20.176138334709044, 15.98066361424651, -6.789040303419874, -6.710236069923372),
    ),
    (
        *(11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643),
        *(-52.072871366152654, -59.78993625266729, -0.15582684282751913, 4.883087185713722),
    ),
)


@SOLVERS.named("rodas5p")
class Rodas5P(Stepper):
    r"""Steinebach's Rosenbrock method of order 5 with an embedded method of order 4: eight stages, A- and L-stable.

    $$(I - \gamma h J) u_i = \gamma \Big[h f\big(t_0 + c_i h, y_0 + \sum_j a_{ij} u_j\big) + \sum_j C_{ij} u_j
    + d_i h^2 f_t\Big]$$

    with the Jacobian J and the time derivative $f_t$ of the vector field. One factorisation serves the eight stages and all
    tangents; there is no root find. Of a `ConstrainedSystem` the matrix M stands in the place of I and before the sum of C; its
    order there is 5, too, where the index is 1. Good tolerances are 1e-3 to 1e-8. Tangents and gradients are those of the discrete
    solution with its step sizes held. `evaluations` counts the stages, not the Jacobian.

    From 13 states on the pattern of the Jacobian is found from the operations of the field, its entries from as many directional
    derivatives as columns share rows, and the equations are solved by structure: independent blocks, a band, elimination in
    rounds of states that do not know each other, or a full matrix.

    **Arguments:** `compact`, whether the stages are a loop rather than written out one after the other: a program of a third of
    the size, for vector fields of hundreds of operations, whose steps take somewhat longer. `pattern`, the places of the Jacobian
    that may hold numbers, in place of those that are found: a `JacobianPattern`, or a matrix from which one is made. One that is
    too small is an error of `simulate`, found at the start by random directions.

    Steinebach (2023), BIT Numerical Mathematics 63:27, doi:10.1007/s10543-023-00967-x.
    """

    family: ClassVar[type[System]] = System
    adaptive: ClassVar[bool] = True
    stiff: ClassVar[bool] = True
    constrained: ClassVar[bool] = True
    evaluations: ClassVar[int] = 8
    order: ClassVar[int] = 5
    compact: bool = eqx.field(static=True, default=False)
    pattern: JacobianPattern | None = eqx.field(static=True, default=None, converter=as_pattern)

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        if isinstance(term.system, ConstrainedSystem):
            return constrained_step(term, t0, t1, h, y0, self.pattern)
        y, unravel = ravel_pytree(y0)

        # Everything is scaled by h, so that a step of length zero is the identity, not 0/0.
        @jax.jit  # traced and lowered once for all stages
        def increment(t: Time, x: Any) -> Array:
            return h * ravel_pytree(term.vf(t, unravel(x)))[0]

        structure = structure_of(lambda x: increment(t0, x), y, stated_places(self.pattern, y.size))
        solve = _shared_solve(structure, lambda x: increment(t0, x), y, h, known_jacobian(term, t0, y0))
        _, time_slope = jax.jvp(lambda t: increment(t, y), (t0,), (jnp.ones_like(t0),))
        time_slope = h * time_slope
        if self.compact or structure.large:
            u, stage = _looped(increment, solve, y, time_slope, t0, t1, h)
        else:
            u, stage = _written_out(increment, solve, y, time_slope, t0, t1, h)
        coefficients = [_weighted(row, u) for row in DENSE]
        # In the stiff limit a step's end is right whatever its length, and the error estimate there is nothing, but the polynomial
        # is not: of x' = -k (x - cos t) at k = 1e7 it was wrong by 3 over steps of a whole period. What the field misses in the
        # middle, divided by I - gamma h J as a stage is, is the polynomial's error there in stiff components; in others
        # it is about the error of a step of its order.
        middle, slope = _in_the_middle(y, stage + u[-1], coefficients)
        missed = solve(GAMMA * (increment(t0 + 0.5 * h, middle) - slope))
        return _step(y0, unravel, stage + u[-1], u[-1], coefficients, missed)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        # y0 + s (y1 - y0 + (1 - s) (k0 + s (k1 + s k2))), multiplied out.
        k0, k1, k2 = (jax.tree.map(lambda k, i=i: k[i], dense["k"]) for i in range(3))
        first = jax.tree.map(lambda a, b, k: b - a + k, dense["y0"], dense["y1"], k0)
        return (
            first,
            jax.tree.map(jnp.subtract, k1, k0),
            jax.tree.map(jnp.subtract, k2, k1),
            jax.tree.map(jnp.negative, k2),
        )


def jacobian_structure(
    system: System,
    y0: State,
    t: Time,
    inputs: Inputs,
    krylov: Krylov | None = None,
    pattern: JacobianPattern | None = None,
) -> Structure:
    """The structure by which `Rodas5P`, or `BDF` with such a `krylov`, solves the equations of a system that starts there."""
    y, unravel = ravel_pytree(system.encode(y0))
    term = SystemTerm(system, inputs)
    field = lambda y: ravel_pytree(term.vf(t, unravel(y)))[0]
    if krylov is not None:
        return krylov.structure_of(field, y, unravel(y), None, pattern)
    if isinstance(system, ConstrainedSystem):
        equations = Equations(term, unravel(y))
        return structure_at(equations, t, y, equations.mass(t), pattern)
    return structure_of(field, y, stated_places(pattern, y.size))


def _step(y0: State, unravel: Any, y1: Array, error: Array, coefficients: list[Array], missed: Array) -> Step:
    end, k = unravel(y1), jax.vmap(unravel)(jnp.stack(coefficients))
    return Step(end, unravel(error), {"y0": y0, "y1": end, "k": k}, None, unravel(missed))


def _in_the_middle(y0: Array, y1: Array, k: list[Array]) -> tuple[Array, Array]:
    """The polynomial of a step and its derivative by theta, in the middle: theta = 1/2."""
    inner = k[0] + 0.5 * (k[1] + 0.5 * k[2])
    value = y0 + 0.5 * (y1 - y0 + 0.5 * inner)
    # d/ds [s (1 - s) (k0 + s k1 + s^2 k2)] at s = 1/2, where the derivative of s (1 - s) vanishes.
    return value, y1 - y0 + 0.25 * (k[1] + k[2])


def _written_out(
    increment: Any, solve: Any, y: Array, time_slope: Array, t0: Time, t1: Time, h: Time
) -> tuple[list[Array], Array]:
    """The increments of all stages, and the state of the last stage."""
    u: list[Array] = []
    stage = y
    for a_row, c_row, node, weight in zip(A, C, NODES, TIME_WEIGHTS, strict=True):
        if u:
            stage = y + _weighted(a_row, u)
        r = increment(t1 if node == 1 else t0 + node * h, stage)
        if u:
            r = r + _weighted(c_row, u)
        if weight:
            r = r + weight * time_slope
        u.append(solve(GAMMA * r))
    return u, stage


def _looped(
    increment: Any, solve: Any, y: Array, time_slope: Array, t0: Time, t1: Time, h: Time
) -> tuple[list[Array], Array]:
    """The same, one stage a turn of a loop."""
    count = len(NODES)
    padded = lambda rows: jnp.asarray([[*row, *([0.0] * (count - len(row)))] for row in rows], y.dtype)
    a, c = padded(A), padded(C)
    nodes, weights = jnp.asarray(NODES, y.dtype), jnp.asarray(TIME_WEIGHTS, y.dtype)

    def turn(i: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        u, _ = carry
        stage = y + a[i] @ u
        r = increment(jnp.where(nodes[i] == 1, t1, t0 + nodes[i] * h), stage)
        return u.at[i].set(solve(GAMMA * (r + c[i] @ u + weights[i] * time_slope))), stage

    # Zeros that vary over a mesh as the state does.
    empty = jnp.zeros((count, 1), y.dtype) * y[None]
    u, stage = jax.lax.fori_loop(0, count, turn, (empty, y))
    return [u[i] for i in range(count)], stage


def _weighted(weights: tuple[float, ...], vectors: list[Array]) -> Array:
    return sum((w * v for w, v in zip(weights[1:], vectors[1:], strict=True)), weights[0] * vectors[0])


def _shared_solve(
    structure: Structure,
    increment: Any,
    y: Inexact[Array, " n"],
    h: Time,
    known: Inexact[Array, "n n"] | SparseMatrix | None,
) -> Any:
    """The solver of (I - gamma h J) u = r. `known` is the Jacobian where the system knows it."""

    def jacobian_times(v: Array) -> Array:
        return jax.jvp(increment, (y,), (v,))[1]

    jacobian = jacobian_times if known is None else h * known
    return solver_of(structure, jacobian, GAMMA, y, times=lambda v: v - GAMMA * jacobian_times(v))


def constrained_step(
    term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, pattern: JacobianPattern | None = None
) -> Step:
    r"""A step of M(t) y' = f(t, y).

    With a momentum w = M(t) y the equations are w' = f + M' y and 0 = M(t) y - w, whose own matrix M is constant. A stage of that
    system has increments v of w beside u of y; v is eliminated:

    $$(M - \gamma h (J + M')) u_i = \gamma [h F_i + \sum_j C_{ij} v_j + d_i h^2 F_t] - m_i, \qquad v_i = M u_i + m_i$$

    with F = f + M' y and $m_i = M(t_i) y_i - w_i + d_i h M' y_0$, where M, J and M' stand at the start of the step. For a constant
    M the $m_i$ are zero and v = M u.
    """
    e = Equations(term, y0)
    y, unravel = e.like, e.unravel
    steady = not reads_time(e.mass, t0)
    one = jnp.ones_like(t0)
    # A step of length zero, which M alone would not determine, is the identity: one of any length is computed in its place.
    none, length = h == 0, h
    h = jnp.where(none, one, h)
    mass = e.mass(t0)
    by_time = lambda t: jax.jvp(e.mass, (t,), (one,))[1]

    def increment(t: Time, x: Array) -> Array:
        f = h * e.field(t, x)
        return f if steady else f + h * times_mass(by_time(t), x)

    jacobian_times = lambda v: jax.jvp(lambda x: increment(t0, x), (y,), (v,))[1]
    times = lambda v: times_mass(mass, v) - GAMMA * jacobian_times(v)
    structure = structure_at(e, t0, y, mass, pattern)
    solve = solver_of(structure, jacobian_times, GAMMA, y, mass, times)
    time_slope = h * jax.jvp(lambda t: increment(t, y), (t0,), (one,))[1]
    moved = jnp.zeros_like(y) if steady else h * times_mass(by_time(t0), y)
    begin, u, v, stage = times_mass(mass, y), [], [], y
    for a_row, c_row, node, weight in zip(A, C, NODES, TIME_WEIGHTS, strict=True):
        t = t1 if node == 1 else t0 + node * length
        stage = y + _weighted(a_row, u) if u else y
        r = increment(t, stage) + weight * time_slope
        if u:
            r = r + (times_mass(mass, _weighted(c_row, u)) if steady else _weighted(c_row, v))
        missing = jnp.zeros_like(y)
        if not steady:
            momentum = begin + _weighted(a_row, v) if v else begin
            missing = times_mass(e.mass(t), stage) - momentum + weight * moved
        u.append(solve(GAMMA * r - missing))
        if not steady:
            v.append(times_mass(mass, u[-1]) + missing)
    end, coefficients = stage + u[-1], [_weighted(row, u) for row in DENSE]
    middle, slope = _in_the_middle(y, end, coefficients)
    half = t0 + 0.5 * length
    missed = solve(GAMMA * (h * e.field(half, middle) - times_mass(mass if steady else e.mass(half), slope)))
    end = projected(e, t1, end, jnp.abs(y) + jnp.abs(end))
    moved_by = lambda x: jnp.where(none, 0, x)
    end = jnp.where(none, y, end)
    return _step(y0, unravel, end, moved_by(u[-1]), [moved_by(k) for k in coefficients], moved_by(missed))
