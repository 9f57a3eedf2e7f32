"""Published test problems with delays, without neutral ones: A1 to D2 of the set DDETST, and three stiff ones of the solver RADAR5.

Enright and Hayashi (1997), in Boisvert (ed.), Quality of Numerical Software, doi:10.1007/978-1-5041-2940-4_11, after Paul (1994), A
test set of functional differential equations, technical report 249, University of Manchester; Guglielmi and Hairer (2001),
Computing 67:1, doi:10.1007/s006070170013, and the drivers of RADAR5 2.1. Numbers are as in DiffEqProblemLibrary.jl of SciML (2026),
but for the sign of the Oregonator's first term, which follows the driver.

Fields take the array module, so that NumPy and JAX evaluate one formula.
"""

import bisect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.integrate import DOP853, Radau
from scipy.special import lambertw

import simkit
from simkit.odes import from_delayed_function


class Delayed(NamedTuple):
    """One problem.

    - `field`: (array module, t, y, past) -> dy/dt, a list; `past(time)` is the state at an earlier time.
    - `lags`: (array module, t, y) -> the lags, a list; `start`, `times` from the first to the last.
    - `history`: (array module, t) -> the state before the first time, None where it is the start.
    - `exact`: t -> the state, None where a reference is integrated.
    - `floor`: the size below which components need not be resolved, as one number or one for each.
    - `stiff`: whether a stiff solver is due.
    - `switches`: times at which the field jumps, of which it also takes signals that are 0 before and 1 after.
    """

    field: Callable[..., Any]
    lags: Callable[..., Any]
    start: Any
    times: Any
    history: Callable[..., Any] | None = None
    exact: Callable[..., Any] | None = None
    floor: Any = 1.0
    stiff: bool = False
    switches: tuple[float, ...] = ()


# ---- DDETST: one constant lag (A), time dependent ones (B), lags that depend on the state (C), and that vanish (D) ----


def mackey_glass(xp, t, y, past):
    """A1: production of blood cells."""
    z = past(t - 14.0)[0]
    return [0.2 * z / (1 + z**10) - 0.1 * y[0]]


def wheldon(xp, t, y, past):
    """A2: chronic granulocytic leukemia."""
    z = 10 * y[0] / (1 + 40 * y[1])
    return [1.1 / (1 + 10**0.5 * past(t - 20.0)[0] ** 1.25) - z, 10 * z - 2.43 * y[1]]


def neves(xp, t, y, past):
    """B1: the lag vanishes at t = 1."""
    return [1 - past(xp.exp(1 - 1 / t))[0]]


def neves_thompson(xp, t, y, past):
    """B2: the field jumps where the past changes its sign; the lag vanishes at the start."""
    return [xp.where(past(t / 2)[0] < 0, 1.0, -1.0) - y[0]]


def neves_thompson_exact(t):
    first = np.where(t <= 2 * np.log(6), 1 - 6 * np.exp(-t), 66 * np.exp(-t) - 1)
    return [np.where(t <= 2 * np.log(2), 2 * np.exp(-t) - 1, first)]


def paul_one(xp, t, y, past):
    """C1."""
    return [-2 * past(t - 1 - xp.abs(y[0]))[0] * (1 - y[0] ** 2)]


def paul_two(xp, t, y, past):
    """C2."""
    z = past(t - y[1])[0]
    return [-2 * z, (xp.abs(z) - xp.abs(y[0])) / (1 + xp.abs(z))]


def hematopoiesis(start, before, end, s, lag, gamma, q, k, a):
    """C3 and C4: red blood cells, Mahaffy, Belair and Mackey."""

    def field(xp, t, y, past):
        old = past(t - lag - y[2])[1]
        made = a / (1 + 0.0382 * y[0] ** 6.96) - k * y[1]
        return [s * past(t - lag)[1] - gamma * y[0] - q, made, 1 - q * xp.exp(gamma * y[2]) / (s * old)]

    def history(xp, t):
        return [start[0], xp.where(t < -lag, before, start[1]), start[2]]

    return Delayed(field, lambda xp, t, y: [lag, lag + y[2]], start, spread(end), history)


def neves_pair(xp, t, y, past):
    """D1: the lag depends on the state and vanishes at t = 1."""
    s = xp.exp(1 - y[1])
    return [y[1], -past(s)[1] * y[1] ** 2 * s]


def gatica_waltman(xp, t, y, past):
    """D2: antigen and antibody; the lag vanishes at the start."""
    r1, r2, alpha, delta = 0.02, 0.005, 3.0, 0.01
    old = past(t - y[3])
    met, then = y[0] * y[1], old[0] * old[1]
    bound = r1 * met - r2 * y[2]
    waits = 1 + (3 * delta - met - y[2]) * xp.exp(delta * y[3]) / (then + old[2])
    return [-bound, -r1 * met + alpha * r1 * then, bound, waits]


# ---- RADAR5 ----


def robertson(xp, t, y, past):
    """Robertson's reactions, one with a delay of 0.01.

    About the slow solution the second component u follows u' = -A u - B u(t - 0.01) with A = 6e7 y[1] and B = 1e4 y[2], which
    grows once B > A, from about t = 6 on (`growth`). It turns negative and is infinite at t = 8.4.
    """
    x, z = 0.04 * y[0] - 1e4 * past(t - 0.01)[1] * y[2], 3e7 * y[1] ** 2
    return [-x, x - z, z]


def growth(y, lag=0.01):
    """Largest real part of the characteristic roots of `robertson` at a slow state: root = W(-B lag exp(A lag)) / lag - A."""
    a, b = 6e7 * y[1], 1e4 * y[2]
    return (lambertw(-b * lag * np.exp(a * lag)) / lag - a).real


def oregonator(xp, t, y, past):
    """Epstein and Luo (1991), doi:10.1063/1.461481: bromous acid and bromide, with spikes of the former."""
    given, met, grown = 1.34 * 0.06 * y[1], 1.6e9 * y[0] * past(t - 0.15)[1], 8000 * 0.06 * y[0]
    return [given - met + grown - 8e7 * y[0] ** 2, -given - met + grown]


def waltman(antigen, first, second):
    """Production of antibodies (Waltman 1978): thresholds are reached at the times `first` and `second`, which are given."""
    r, s, alpha, beta, gamma = 5e4, 1e5, 1.8, 20.0, 0.002

    def field(xp, t, y, past, on, later):
        v, w = past(y[4]), past(y[5])
        met, lost = r * y[0] * y[1], s * y[0] * y[3]
        grown = on * (y[0] * y[1] + y[2]) / (v[0] * v[1] + v[2])
        return [
            -met - lost,
            -met + on * alpha * r * v[0] * v[1],
            met,
            -lost - gamma * y[3] + later * beta * r * w[0] * w[1],
            grown,
            later * (1e-12 + y[1] + y[2]) / (1e-12 + w[1] + w[2]),
        ]

    # Antibodies grow from what is left of 1e-15: RADAR5's driver has absolute tolerances of 1e-12 of the relative one.
    floor = [1e-12, 1e-18, 1e-18, 1e-12, 1.0, 1.0]
    times = np.array([0.0, first, 0.5 * (first + second), second, 0.5 * (second + 300), 300.0])
    start = [antigen, 1e-15, 0.0, 0.0, 0.0, 0.0]
    lags = lambda xp, t, y: [t - y[4], t - y[5]]
    return Delayed(field, lags, start, times, floor=floor, stiff=True, switches=(first, second))


def spread(end, begin=0.0):
    """Ten times up to the end."""
    return np.linspace(begin, end, 11)


def constant(lag):
    return lambda xp, t, y: [lag]


def logarithms(xp, t):
    """The solution of B1 and D1."""
    return [xp.log(t), 1 / t]


DDETST = {
    "A1": Delayed(mackey_glass, constant(14.0), [0.5], spread(500.0)),
    "A2": Delayed(wheldon, constant(20.0), [1.05767027 / 3, 1.030713491 / 3], spread(100.0)),
    "B1": Delayed(
        neves,
        lambda xp, t, y: [t - xp.exp(1 - 1 / t)],
        [np.log(0.1)],
        spread(10.0, 0.1),
        lambda xp, t: logarithms(xp, t)[:1],
        lambda t: [np.log(t)],
    ),
    "B2": Delayed(neves_thompson, lambda xp, t, y: [t / 2], [1.0], spread(2 * np.log(66)), exact=neves_thompson_exact),
    "C1": Delayed(paul_one, lambda xp, t, y: [1 + xp.abs(y[0])], [0.5], spread(30.0)),
    "C2": Delayed(paul_two, lambda xp, t, y: [y[1]], [1.0, 0.5], spread(40.0)),
    "C3": hematopoiesis([3.325, 10.0, 120.0], 9.5, 300.0, 0.0031, 6.0, 0.001, 0.0275, 2.8, 6570.0),
    # The library's text has a decay of 0.1, its code one of 0.01.
    "C4": hematopoiesis([3.5, 10.0, 50.0], 10.0, 100.0, 0.00372, 3.0, 0.1, 0.00178, 6.65, 15600.0),
    "C4 slow": hematopoiesis([3.5, 10.0, 50.0], 10.0, 100.0, 0.00372, 3.0, 0.01, 0.00178, 6.65, 15600.0),
    "D1": Delayed(
        neves_pair,
        lambda xp, t, y: [t - xp.exp(1 - y[1])],
        [np.log(0.1), 10.0],
        spread(5.0, 0.1),
        logarithms,
        lambda t: [np.log(t), 1 / t],
    ),
    "D2": Delayed(gatica_waltman, lambda xp, t, y: [y[3]], [5.0, 0.1, 0.0, 0.0], spread(40.0)),
}
RADAR5 = {
    # Published to t = 1e10, but the solution ends at 8.4: see `robertson`.
    "Robertson": Delayed(
        robertson,
        constant(0.01),
        [1.0, 0.0, 0.0],
        np.array([0.0, 0.02, 0.1, 1.0, 5.0]),
        floor=[1.0, 1e-6, 1.0],
        stiff=True,
    ),
    "Oregonator": Delayed(oregonator, constant(0.15), [1e-10, 1e-5], spread(100.5), floor=1e-9, stiff=True),
    "Waltman 1": waltman(0.75e-4, 32.0, 119.0),
    "Waltman 2": waltman(0.5e-4, 32.0, 111.0),
    "Waltman 3": waltman(1e-5, 33.0, 145.0),
    "Waltman 4": waltman(0.75e-5, 34.0, 163.0),
    "Waltman 5": waltman(0.5e-5, 35.0, 197.0),
}
PROBLEMS = {**DDETST, **RADAR5}


# ---- References ----


def by_steps(problem: Delayed, rtol: float = 1e-11, shortest: float = 1e-7, method: Any = None) -> np.ndarray:
    """States at the times by a method of SciPy, DOP853 or Radau where stiff, in steps shorter than the lags, on its dense outputs.

    A lag that vanishes at the start makes first steps of length `shortest`, in which the past is extrapolated.
    """
    begin = float(problem.times[0])
    knots: list[float] = [begin]
    pieces: list[Any] = []

    def past(time):
        if time <= begin or not pieces:
            before = problem.history if time < begin else None
            return np.array(problem.start if before is None else before(np, time), float)
        return pieces[min(max(bisect.bisect_left(knots, time), 1), len(pieces)) - 1](time)

    def field(t, y, on):
        return np.array([float(x) for x in problem.field(np, t, y, past, *on)])

    y, t = np.array(problem.start, float), begin
    rows = [y]
    atol: Any = rtol * np.broadcast_to(problem.floor, y.shape)
    stops = sorted({*problem.times[1:].tolist(), *problem.switches})
    for stop in stops:
        on = [float(t >= switch) for switch in problem.switches]
        inner = lambda t, y, on=on: field(t, y, on)
        solver = (method or (Radau if problem.stiff else DOP853))(
            inner, t, y, stop, rtol=rtol, atol=atol, first_step=min(shortest, stop - t)
        )
        while solver.status == "running":
            solver.max_step = max(0.9 * min(float(x) for x in problem.lags(np, solver.t, solver.y)), shortest)
            solver.step()
            knots.append(solver.t)
            pieces.append(solver.dense_output())
        assert solver.status == "finished", solver.status
        t, y = solver.t, solver.y
        if stop in problem.times:
            rows.append(y)
    assert len(rows) == len(problem.times)
    return np.array(rows)


def simulated(problem: Delayed, rtol: float, solver: str | None = None) -> simkit.Trajectory:
    """The problem by simkit: `Tsit5`, or `Rodas5P` where stiff; the absolute tolerance is the floor's share."""

    def field(t, y, past, params, inputs):
        return jnp.stack(problem.field(jnp, t, y, past, *inputs))

    def before(t, params):
        assert problem.history is not None
        return jnp.stack([jnp.asarray(x, float) for x in problem.history(jnp, t)])

    lags = lambda t, y, params: problem.lags(jnp, t, y)
    history = None if problem.history is None else before
    system = from_delayed_function(field, {}, lags=lags, history=history, kept_steps=4096)
    start = jnp.array(problem.start, float)
    atol = rtol * jnp.broadcast_to(jnp.asarray(problem.floor, float), start.shape)
    return simkit.simulate(
        system,
        start,
        problem.times,
        inputs=tuple(simkit.PiecewiseConstant([0.5 * at, at], [0.0, 1.0]) for at in problem.switches),
        solver=solver or ("rodas5p" if problem.stiff else "tsit5"),
        step=simkit.Adaptive(rtol, atol, max_steps=60_000),
        on_failure="mark",
    )


def reference(problem: Delayed) -> np.ndarray:
    """The exact solution; else SciPy's; else, where a lag tends to zero, simkit's by another method at a tolerance of 1e-8."""
    if problem.exact is not None:
        return np.array(problem.exact(problem.times)).T
    if problem.switches:
        return np.asarray(simulated(problem, 1e-8, "tsit5").ys)
    return by_steps(problem, 1e-10 if problem.stiff else 1e-11)


def error(problem: Delayed, found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error at all times, relative to the size or the floor."""
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), problem.floor)))
