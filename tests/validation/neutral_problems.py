"""Neutral equations of the test set DDETST, whose slopes depend on earlier slopes: classes E to H.

Enright and Hayashi (1997), in Boisvert (ed.), Quality of Numerical Software, doi:10.1007/978-1-5041-2940-4_11. Constant lags (E),
lags that vanish at times (F), that depend on the state (G), and that do so and vanish (H). Solutions of F, G and H are known.

Fields take the array module, so that NumPy and JAX evaluate one formula.
"""

import functools
import math
from typing import Any

import numpy as np
from scipy.integrate import DOP853
from validation.delay_problems import Delayed, constant, spread


def logistic(xp, t, y, past):
    """E1: food-limited growth."""
    r, c = math.pi / math.sqrt(3) + 1 / 20, math.sqrt(3) / (2 * math.pi) - 1 / 25
    return [r * y[0] * (1 - past(t - 1.0)[0] - c * past.slope(t - 1.0)[0])]


def predation(xp, t, y, past):
    """E2: predators and prey (Kuang 1991)."""
    eaten = y[0] ** 2 / (y[0] ** 2 + 1)
    grown = y[0] * (1 - past(t - 0.42)[0] - 2.9 * past.slope(t - 0.42)[0])
    return [grown - y[1] * eaten, y[1] * (eaten - 0.1)]


def exponential(xp, t, y, past):
    """F1."""
    grown = 2 * xp.cos(2 * t) * past(t / 2)[0] ** (2 * xp.cos(t))
    return [grown + xp.log(past.slope(t / 2)[0]) - xp.log(2 * xp.cos(t)) - xp.sin(t)]


def halved(t):
    """The solution of F2: a slope at t is that of the history at the first image before 1/4 of t -> 2 t - 1/2."""
    found = []
    for end in np.atleast_1d(t):
        total, low, turn = math.exp(-0.0625), 0.25, 1
        while low < end:
            high = min(0.5 * low + 0.25, end)
            # The image of (low, high), to (-1/4, 1/4) in as many turns: the slope's integral is the history's over 2^turns.
            image = lambda s, turn=turn: 2**turn * (s - 0.5) + 0.5
            total += (math.exp(-(image(high) ** 2)) - math.exp(-(image(low) ** 2))) / 2**turn
            low, turn = high, turn + 1
        found.append(total)
    return [np.array(found)]


def sines(strength):
    """F3 to F5, with the time at which they look back."""
    earlier = lambda xp, t: 0.5 * t * (1 - xp.cos(2 * math.pi * t))

    def field(xp, t, y, past):
        s = earlier(xp, t)
        return [xp.exp(-y[0]) + strength * (xp.sin(past.slope(s)[0]) - xp.sin(1 / (3 + s)))]

    lags = lambda xp, t, y: [t - earlier(xp, t)]
    return Delayed(field, lags, [math.log(3)], spread(10.0), exact=lambda t: [np.log(t + 3)])


def tangents(xp, t, y, past):
    """H1."""
    s = t * y[0] ** 2 / (1 + y[0] ** 2)
    turned = -4 * t * y[0] ** 2 / (4 + xp.log(xp.cos(2 * t)) ** 2) + xp.tan(2 * t)
    return [turned + 0.5 * xp.arctan(past.slope(s)[0])]


def swinging(strength):
    """H2 to H4."""

    def field(xp, t, y, past):
        s, own = t * y[0] ** 2, t * xp.sin(t) ** 2
        rest = (1 - strength) * xp.sin(t) * xp.cos(own) - xp.sin(t + own)
        return [xp.cos(t) * (1 + past(s)[0]) + strength * y[0] * past.slope(s)[0] + rest]

    return Delayed(field, lambda xp, t, y: [t - t * y[0] ** 2], [0.0], spread(math.pi), exact=lambda t: [np.sin(t)])


falling = lambda xp, t: [1 - t]

NEUTRAL = {
    "E1": Delayed(logistic, constant(1.0), [2.0], spread(40.0), lambda xp, t: [2 + t]),
    "E2": Delayed(predation, constant(0.42), [0.33, 2.22], spread(2.0), lambda xp, t: [0.33 - t / 10, 2.22 + t / 10]),
    "F1": Delayed(
        exponential,
        lambda xp, t, y: [t / 2],
        [1.0],
        spread(1.0),
        lambda xp, t: [1 + 2 * t],
        lambda t: [np.exp(np.sin(2 * t))],
    ),
    "F2": Delayed(
        lambda xp, t, y, past: [past.slope(2 * t - 0.5)[0]],
        lambda xp, t, y: [0.5 - t],
        [math.exp(-0.0625)],
        spread(0.499, 0.25),
        lambda xp, t: [xp.exp(-(t**2))],
        halved,
    ),
    "F3": sines(0.2),
    "F4": sines(0.4),
    "F5": sines(0.6),
    "G1": Delayed(
        lambda xp, t, y, past: [-past.slope(t - y[0] ** 2 / 4)[0]],
        lambda xp, t, y: [y[0] ** 2 / 4],
        [1.0],
        spread(1.0),
        falling,
        lambda t: [1 + t],
    ),
    "G2": Delayed(
        lambda xp, t, y, past: [-past.slope(y[0] - 2)[0]],
        lambda xp, t, y: [t - y[0] + 2],
        [1.0],
        spread(1.0),
        falling,
        lambda t: [1 + t],
    ),
    "H1": Delayed(
        tangents,
        lambda xp, t, y: [t - t * y[0] ** 2 / (1 + y[0] ** 2)],
        [0.0],
        spread(0.225 * math.pi),
        exact=lambda t: [-0.5 * np.log(np.cos(2 * t))],
    ),
    "H2": swinging(0.1),
    "H3": swinging(0.3),
    "H4": swinging(0.5),
}


def by_lags(problem: Delayed, rtol: float = 1e-12) -> np.ndarray:
    """States at the times by SciPy's DOP853, lag by lag, of one constant lag; an earlier slope is the field there."""
    (lag,) = problem.lags(np, 0.0, np.array(problem.start))
    begin = float(problem.times[0])
    pieces: list[Any] = []
    assert problem.history is not None
    before = problem.history

    class Piece:
        """What steps of one lag see: the piece before theirs."""

        def __init__(self, number: int):
            self.number = number

        def __call__(self, time: float) -> np.ndarray:
            if self.number == 0:
                return np.array(before(np, time), float)
            knots, dense = pieces[self.number - 1]
            return dense[min(max(int(np.searchsorted(knots, time)), 1), len(dense)) - 1](time)

        def slope(self, time: float) -> np.ndarray:
            if self.number == 0:
                h = 0.01  # histories are straight lines
                return (np.array(before(np, time + h)) - np.array(before(np, time - h))) / (2 * h)
            return slopes(self.number - 1, time, self(time))

    def slopes(number: int, t: float, y: np.ndarray) -> np.ndarray:
        return np.array(problem.field(np, t, y, Piece(number)), float)

    y, rows, number = np.array(problem.start, float), [], 0
    while len(rows) < len(problem.times):
        start, end = begin + number * lag, min(begin + (number + 1) * lag, float(problem.times[-1]))
        solver = DOP853(functools.partial(slopes, number), start, y, end, rtol=rtol, atol=rtol)
        knots, dense = [start], []
        while solver.status == "running":
            solver.step()
            knots.append(solver.t)
            dense.append(solver.dense_output())
        assert solver.status == "finished"
        pieces.append((np.array(knots), dense))
        here = Piece(number + 1)
        last = end == problem.times[-1]
        rows += [here(t) for t in problem.times if start <= t < end or (last and t == end)]
        y, number = solver.y, number + 1
    return np.array(rows)
