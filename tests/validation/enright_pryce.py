"""STIFF DETEST and NONSTIFF DETEST: Enright & Pryce (1987), ACM TOMS 13:1, doi:10.1145/23002.27645.

The problems of classes A to F without scaling, stiff ones as S.., others as N... They come without end values, which SciPy gives.
F1, F2 and F5 of the nonstiff set, which jump each unit of time or have roots for slopes, stand in `test_stiff_sets.py`.
"""

import math

import numpy as np
from validation.stiff_problems import Posed


def linear(matrix, extra=0.0):
    matrix, extra = np.asarray(matrix, float), np.asarray(extra, float)
    return lambda xp, t, y: xp.asarray(matrix) @ xp.asarray(y) + xp.asarray(np.broadcast_to(extra, matrix.shape[:1]))


def banded(below, middle, above):
    return np.diag(below, -1) + np.diag(middle) + np.diag(above, 1)


def rotation(alpha):
    matrix = -np.diag([10.0, 10.0, 4.0, 1.0, 0.5, 0.1])
    matrix[0, 1], matrix[1, 0] = alpha, -alpha
    return Posed(linear(matrix), (1.0,) * 6, 20.0)


def cascade(beta):
    def field(xp, t, y):
        a, b, c, d = y
        return [
            -a + 2,
            -10 * b + beta * a * a,
            -40 * c + 4 * beta * (a * a + b * b),
            -100 * d + 10 * beta * (a * a + b * b + c * c),
        ]

    return Posed(field, (1.0,) * 4, 20.0)


SA2 = banded([1.0] * 7 + [1000.0], [-1800.0, *[-2.0] * 7, -2000.0], [900.0, *[1.0] * 7])
SA3 = [[-1e4, 100, -10, 1], [0, -1e3, 10, -10], [0, 0, -1, 10], [0, 0, 0, -0.1]]
SB1 = [[-1, 1, 0, 0], [-100, -1, 0, 0], [0, 0, -100, 1], [0, 0, -1e4, -100]]


def sc1(xp, t, y):
    a, b, c, d = y
    return [-a + b * b + c * c + d * d, -10 * b + 10 * (c * c + d * d), -40 * c + 40 * d * d, -100 * d + 2]


def sd1(xp, t, y):
    a, b, c = y
    return [0.2 * (b - a), 10 * a - (60 - 0.125 * c) * b + 0.125 * c, 1.0 + 0 * c]


def sd2(xp, t, y):
    a, b, c = y
    return [-0.04 * a + 0.01 * b * c, 400 * a - 100 * b * c - 3000 * b * b, 30 * b * b]


def sd3(xp, t, y):
    a, b, c, d = y
    bound, pairs = 100 * a * b, 1e4 * b * b
    return [c - bound, c + 2 * d - bound - 2 * pairs, -c + bound, -d + pairs]


def sd4(xp, t, y):
    a, b, c = y
    first, second = 0.013 * a + 1000 * a * c, 2500 * b * c
    return [-first, -second, -first - second]


def sd5(xp, t, y):
    a, b = y
    sum_ = 0.01 + a + b
    return [0.01 - (1 + (a + 1000) * (a + 1)) * sum_, 0.01 - (1 + b * b) * sum_]


def sd6(xp, t, y):
    a, b, c = y
    first, second = -a + 1e8 * c * (1 - a), -10 * b + 3e7 * c * (1 - b)
    return [first, second, -first - second]


def se1(xp, t, y):
    a, b, c, d = y
    g = 100.0
    last = (a * a - xp.sin(a) - g**4) * a + (b * c / (a * a + 1) - 4 * g**3) * b + (1 - 6 * g**2) * c
    return [b, c, d, last + (10 * xp.exp(-d * d) - 4 * g) * d + 1]


def se2(xp, t, y):
    return [y[1], 5 * (1 - y[0] ** 2) * y[1] - y[0]]


def se3(xp, t, y):
    a, b, c = y
    return [-(55 + c) * a + 65 * b, 0.0785 * (a - b), 0.1 * a]


MIXED = (np.ones((4, 4)) - 2 * np.eye(4)) / 2
SE4 = np.array([[-10.0, -10, 0, 0], [10, -10, 0, 0], [0, 0, 1000, 0], [0, 0, 0, 0.01]])


def se4(xp, t, y):
    z = xp.asarray(MIXED) @ xp.asarray(y)
    squares = xp.stack([(z[0] ** 2 - z[1] ** 2) / 2, z[0] * z[1], z[2] ** 2, z[3] ** 2])
    return xp.asarray(MIXED.T) @ (squares - xp.asarray(SE4) @ z)


def se5(xp, t, y):
    a, b, c, d = 7.89e-10 * y[0], 1.1e7 * y[0] * y[2], 1.13e9 * y[1] * y[2], 1.13e3 * y[3]
    return [-a - b, a - c, (a - c) - (b - d), b - d]


def sf1(xp, t, y):
    a, b, c, d = y
    k = xp.exp(20.7 - 1500 / a)
    return [1.3 * (c - a) + 10400 * k * b, 1880 * (d - b * (1 + k)), 1752 - 269 * c + 267 * a, 0.1 + 320 * b - 321 * d]


def sf2(xp, t, y):
    a, b = y
    return [-a - a * b + 294 * b, a * (1 - b) / 98 - 3 * b]


def sf3(xp, t, y):
    a, b, c, d, e = y
    first, second = 1e7 * a * b, 1e7 * b * e
    return [
        -first + 10 * c,
        -first - second + 10 * c + 10 * d,
        first - 1.001e4 * c + 1e-3 * d,
        1e4 * c - 10.001 * d + second,
        10 * d - second,
    ]


def sf4(xp, t, y):
    a, b, c = y
    return [77.27 * (b - a * b + a - 8.375e-6 * a * a), (-b - a * b + c) / 77.27, 0.161 * (a - c)]


def sf5(xp, t, y):
    a, b, c, d = y
    first, second = 3e11 * a * b - 1.2e8 * d, 9e11 * a * c
    return [-first - second, -3e11 * a * b + 2e7 * d, -second + 1e8 * d, first + second]


def posed(field, start, end=20.0, floor=1e-6):
    return Posed(field, start, end, floor)


STIFF = {
    "SA1": posed(linear(-np.diag([0.5, 1.0, 100.0, 90.0])), (1.0,) * 4),
    "SA2": posed(linear(SA2, [0.0] * 8 + [1000.0]), (0.0,) * 9, 120.0),
    "SA3": posed(linear(SA3), (1.0,) * 4),
    "SA4": posed(linear(-np.diag(np.arange(1.0, 11) ** 5)), (1.0,) * 10, 1.0),
    "SB1": posed(linear(SB1), (1.0, 0.0, 1.0, 0.0)),
    **{f"SB{i}": rotation(alpha) for i, alpha in zip((2, 3, 4, 5), (3.0, 8.0, 25.0, 100.0), strict=True)},
    "SC1": posed(sc1, (1.0,) * 4),
    **{f"SC{i}": cascade(beta) for i, beta in zip((2, 3, 4, 5), (0.1, 1.0, 10.0, 20.0), strict=True)},
    "SD1": posed(sd1, (0.0,) * 3, 400.0),
    "SD2": posed(sd2, (1.0, 0.0, 0.0), 40.0),
    "SD3": posed(sd3, (1.0, 1.0, 0.0, 0.0)),
    "SD4": posed(sd4, (1.0, 1.0, 0.0), 50.0),
    "SD5": posed(sd5, (0.0, 0.0), 100.0),
    "SD6": posed(sd6, (1.0, 0.0, 0.0), 1.0),
    # At t = 1 what is left is the state at rest: a = 1 / (100^4 + sin(a) - a^2).
    "SE1": Posed(se1, (0.0,) * 4, 1.0, 1e-8, (1e-8, 0.0, 0.0, 0.0)),
    "SE2": posed(se2, (2.0, 0.0), 1.0),
    "SE3": posed(se3, (1.0, 1.0, 0.0), 500.0),
    # In z = U y at t = 1000: the first two at rest, the third decayed, the last by the logistic equation.
    "SE4": Posed(
        se4, (0.0, -2.0, -1.0, -1.0), 1000.0, 1e-6, MIXED @ (-20.0, 20.0, 0.0, 1 / (100 - 101 * math.exp(10)))
    ),
    "SE5": posed(se5, (1.76e-3, 0.0, 0.0, 0.0), 1000.0, 1e-13),
    "SF1": posed(sf1, (761.0, 0.0, 600.0, 0.1), 1000.0),
    "SF2": posed(sf2, (1.0, 0.0), 240.0),
    "SF3": posed(sf3, (4e-6, 1e-6, 0.0, 0.0, 0.0), 100.0, 1e-10),
    "SF4": posed(sf4, (4.0, 1.1, 4.0), 300.0),
    "SF5": posed(sf5, (3.365e-7, 8.261e-3, 1.642e-3, 9.38e-6), 100.0, 1e-8),
}


def nb4(xp, t, y):
    a, b, c = y
    r = xp.sqrt(a * a + b * b)
    return [-b - a * c / r, a - b * c / r, a / r]


def kepler(eccentricity):
    def field(xp, t, y):
        a, b, u, v = y
        cube = (a * a + b * b) ** 1.5
        return [u, v, -a / cube, -b / cube]

    e = eccentricity
    return Posed(field, (1 - e, 0.0, 0.0, math.sqrt((1 + e) / (1 - e))), 20.0, stiff=False)


SUN, MASSES = (
    1.00000597682,
    (0.000954786104043, 0.000285583733151, 0.0000437273164546, 0.0000517759138449, 0.00000277777777778),
)
PLACES = (
    *(
        3.42947415189,
        3.35386959711,
        1.35494901715,
        6.6414554255,
        5.97156957878,
        2.18231499728,
        11.2630437207,
        14.6952576794,
    ),
    *(6.27960525067, -30.1552268759, 1.65699966404, 1.43785752721, -21.123835338, 28.4465098142, 15.3882659679),
)
SPEEDS = (
    *(
        -0.557160570446,
        0.505696783289,
        0.230578543901,
        -0.415570776342,
        0.365682722812,
        0.169143213293,
        -0.325325669158,
    ),
    *(
        0.189706021964,
        0.087726532278,
        -0.024047625417,
        -0.287659532608,
        -0.117219543175,
        -0.176860753121,
        -0.216393453025,
    ),
    -0.014864789309,
)


def nc5(xp, t, y):
    """Five outer planets."""
    m, y = xp.asarray(np.array(MASSES)), xp.asarray(y)
    x = y[:15].reshape(5, 3)
    cube = xp.sum(x * x, axis=1)[:, None] ** 1.5
    apart = x[None] - x[:, None]
    far = (xp.sum(apart * apart, axis=-1) + xp.asarray(np.eye(5))) ** 1.5
    pull = xp.sum(
        m[None, :, None] * (apart / far[:, :, None] - (x / cube)[None]) * xp.asarray(1 - np.eye(5))[:, :, None], axis=1
    )
    return xp.concatenate([y[15:], (2.95912208286 * (pull - (SUN + m)[:, None] * x / cube)).reshape(15)])


def nf4(xp, t, y):
    first = -2 / 21 - 120 * (t - 5) / (1 + 4 * (t - 5) ** 2) ** 2
    return [xp.where(t <= 10, first, -2 * y[0])]


def plain(field, start, end=20.0):
    return Posed(field, start, end, stiff=False)


NONSTIFF = {
    "NA1": plain(lambda xp, t, y: [-y[0]], (1.0,)),
    "NA2": plain(lambda xp, t, y: [-(y[0] ** 3) / 2], (1.0,)),
    "NA3": plain(lambda xp, t, y: [y[0] * xp.cos(t)], (1.0,)),
    "NA4": plain(lambda xp, t, y: [y[0] / 4 * (1 - y[0] / 20)], (1.0,)),
    "NA5": plain(lambda xp, t, y: [(y[0] - t) / (y[0] + t)], (4.0,)),
    "NB1": plain(lambda xp, t, y: [2 * (y[0] - y[0] * y[1]), -(y[1] - y[0] * y[1])], (1.0, 3.0)),
    "NB2": plain(linear([[-1, 1, 0], [1, -2, 1], [0, 1, -1]]), (2.0, 0.0, 1.0)),
    "NB3": plain(lambda xp, t, y: [-y[0], y[0] - y[1] ** 2, y[1] ** 2], (1.0, 0.0, 0.0)),
    "NB4": plain(nb4, (3.0, 0.0, 0.0)),
    "NB5": plain(lambda xp, t, y: [y[1] * y[2], -y[0] * y[2], -0.51 * y[0] * y[1]], (0.0, 1.0, 1.0)),
    "NC1": plain(linear(banded([1.0] * 9, [-1.0] * 9 + [0.0], [0.0] * 9)), (1.0, *[0.0] * 9)),
    "NC2": plain(linear(banded(np.arange(1.0, 10), [*-np.arange(1.0, 10), 0.0], [0.0] * 9)), (1.0, *[0.0] * 9)),
    "NC3": plain(linear(banded([1.0] * 9, [-2.0] * 10, [1.0] * 9)), (1.0, *[0.0] * 9)),
    "NC4": plain(linear(banded([1.0] * 50, [-2.0] * 51, [1.0] * 50)), (1.0, *[0.0] * 50)),
    "NC5": plain(nc5, PLACES + SPEEDS),
    **{f"ND{i}": kepler(e) for i, e in zip(range(1, 6), (0.1, 0.3, 0.5, 0.7, 0.9), strict=True)},
    "NE1": plain(
        lambda xp, t, y: [y[1], -(y[1] / (t + 1) + (1 - 0.25 / (t + 1) ** 2) * y[0])],
        (0.671396707141803, 0.09540051444747446),
    ),
    "NE2": plain(lambda xp, t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]], (2.0, 0.0)),
    "NE3": plain(lambda xp, t, y: [y[1], y[0] ** 3 / 6 - y[0] + 2 * xp.sin(2.78535 * t)], (0.0, 0.0)),
    "NE4": plain(lambda xp, t, y: [y[1], 0.032 - 0.4 * y[1] ** 2], (30.0, 0.0)),
    "NE5": plain(lambda xp, t, y: [y[1], xp.sqrt(1 + y[1] ** 2) / (25 - t)], (0.0, 0.0)),
    "NF3": plain(lambda xp, t, y: [y[1], 0.01 * y[1] * (1 - y[0] ** 2) - y[0] - abs(xp.sin(math.pi * t))], (0.0, 0.0)),
    "NF4": plain(nf4, (1.0,)),
}
