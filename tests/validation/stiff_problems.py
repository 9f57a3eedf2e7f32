"""Stiff problems of the Test Set for IVP Solvers (Mazzia & Magherini 2008, release 2.4, part II) with its reference solutions.

Fields take the array module, so that NumPy and JAX evaluate one formula. POLLU is a model of simkit (`odes/_pollu.py`).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Posed(NamedTuple):
    """One problem.

    - `field`: (array module, t, y) -> dy/dt. `start`, `end` of a run from 0 or from `begin`.
    - `floor`: the size below which components need not be resolved, as one number or one for each.
    - `reference`: published end values, None where SciPy gives them; `kept`: the components that they are of, None: all.
    - `stiff`: whether the set counts it as stiff.
    """

    field: Callable[[Any, Any, Any], Any]
    start: Any
    end: float
    floor: float = 1e-6
    reference: Any = None
    kept: Any = None
    stiff: bool = True


# ---- Test Set for IVP Solvers ----


def hires(xp, t, y):
    a, b, c, d, e, f, g, h = y
    v = 280.0 * f * h
    return [
        *(-1.71 * a + 0.43 * b + 8.32 * c + 0.0007, 1.71 * a - 8.75 * b, -10.03 * c + 0.43 * d + 0.035 * e),
        *(8.32 * b + 1.71 * c - 1.12 * d, -1.745 * e + 0.43 * (f + g), -v + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g),
        *(v - 1.81 * g, -v + 1.81 * g),
    ]


def orego(xp, t, y):
    a, b, c = y
    return [77.27 * (b + a * (1 - 8.375e-6 * a - b)), (c - (1 + a) * b) / 77.27, 0.161 * (a - c)]


def robertson(xp, t, y):
    a, b, c = y
    slow, fast, back = 0.04 * a, 3e7 * b * b, 1e4 * b * c
    return [back - slow, slow - back - fast, fast]


def vdpol(xp, t, y):
    return [y[1], ((1 - y[0] * y[0]) * y[1] - y[0]) * 1e6]


def e5(xp, t, y):
    a, b, c, d = (7.89e-10 * y[0], 1.1e7 * y[0] * y[2], 1.13e9 * y[1] * y[2], 1.13e3 * y[3])
    return [-a - b, a - c, (a - c) - (b - d), b - d]


def ring(xp, t, y):
    """The ring modulator with the capacitors of the diodes, 2e-12."""
    c, cs, cp, r, rp, lh, ls1, ls2, ls3 = 1.6e-8, 2e-12, 1e-8, 25e3, 50.0, 4.45, 2e-3, 5e-4, 5e-4
    rg1, rg2, rg3, ri, rc, gamma, delta = 36.3, 17.3, 17.3, 50.0, 600.0, 40.67286402e-9, 17.7493332
    u1, u2 = 0.5 * xp.sin(2e3 * math.pi * t), 2 * xp.sin(2e4 * math.pi * t)
    diode = lambda u: gamma * (xp.exp(delta * u) - 1)
    q1, q2 = diode(y[2] - y[4] - y[6] - u2), diode(-y[3] + y[5] - y[6] - u2)
    q3, q4 = diode(y[3] + y[4] + y[6] + u2), diode(-y[2] - y[5] + y[6] + u2)
    return [
        (y[7] - 0.5 * y[9] + 0.5 * y[10] + y[13] - y[0] / r) / c,
        (y[8] - 0.5 * y[11] + 0.5 * y[12] + y[14] - y[1] / r) / c,
        *((y[9] - q1 + q4) / cs, (-y[10] + q2 - q3) / cs, (y[11] + q1 - q3) / cs, (-y[12] - q2 + q4) / cs),
        *((-y[6] / rp + q1 + q2 - q3 - q4) / cp, -y[0] / lh, -y[1] / lh),
        *((0.5 * y[0] - y[2] - rg2 * y[9]) / ls2, (-0.5 * y[0] + y[3] - rg3 * y[10]) / ls3),
        *((0.5 * y[1] - y[4] - rg2 * y[11]) / ls2, (-0.5 * y[1] + y[5] - rg3 * y[12]) / ls3),
        *((-y[0] + u1 - (ri + rg1) * y[13]) / ls1, (-y[1] - (rc + rg1) * y[14]) / ls1),
    ]


def medakzo(xp, t, y):
    """Antibodies that enter a tissue: two fields on 200 cells, from outside for five hours."""
    u, v = y[0::2], y[1::2]
    n = 200
    z = np.arange(1, n + 1) / n
    beta, alpha = (z - 1) ** 4 / 16, (z - 1) ** 3 / 8
    phi = xp.where(t <= 5.0, 2.0, 0.0)
    left, right = xp.concatenate([xp.reshape(phi, (1,)), u[:-1]]), xp.concatenate([u[1:], u[-1:]])
    spread = beta * (left - 2 * u + right) * n**2 + alpha * (right - left) * (n / 2)
    spread = xp.where(np.arange(n) == n - 1, 0.0, spread)
    used = 100.0 * u * v
    return xp.stack([spread - used, -used], axis=1).reshape(2 * n)


TEST_SET = {
    "HIRES": Posed(hires, (1.0, 0, 0, 0, 0, 0, 0, 0.0057), 321.8122, 1e-4, (
        0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4, 0.1175651343283149e-2,
        0.2386356198831331e-2, 0.6238968252742796e-2, 0.2849998395185769e-2, 0.2850001604814231e-2)),
    "OREGO": Posed(orego, (1.0, 2.0, 3.0), 360.0, 1.0, (0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3)),
    "ROBER": Posed(robertson, (1.0, 0.0, 0.0), 1e11, 1e-8, (
        0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050)),
    "VDPOL": Posed(vdpol, (2.0, 0.0), 2.0, 1e-3, (0.1706167732170469e1, -0.8928097010248125)),
    "E5": Posed(e5, (1.76e-3, 0.0, 0.0, 0.0), 1e13, 1e-22, (
        0.1152903278711829e-290, 0.8867655517642120e-22, 0.8854814626268838e-22, 0.0)),
    "RING": Posed(ring, (0.0,) * 15, 1e-3, 1e-6, (
        -0.2339057358486745e-1, -0.7367485485540825e-2, 0.2582956709291169, -0.4064465721283450, -0.4039455665149794,
        0.2607966765422943, 0.1106761861269975, 0.2939904342435596e-6), tuple(range(8))),
    "MEDAKZO": Posed(medakzo, (0.0, 1.0) * 200, 20.0, 1e-4, (
        0.2339942217046434e-3, 0.3576835958481664e-3, 0.3085949832350532e-3, 0.1173741304462833e-3, 0.6190822732534586e-5),
        (78, 132, 170, 198, 199)),
}  # fmt: skip
