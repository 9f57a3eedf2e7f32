"""Large stiff problems, for us and for peers: fields by NumPy's names, and the same in the language of pydiffsol."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Stiff:
    """A problem: `field(xp, y)` with NumPy or its like, the start, the last time, absolute tolerance over relative one.

    `code` is the problem in DiffSL, empty where that was not written; `sparsity` gives rows and columns of the Jacobian. A state is
    `species` arrays of one length; the last `algebraic` of them have equations 0 = f.
    """

    field: Callable[[Any, Any], Any]
    y0: np.ndarray
    end: float
    scale: float
    sparsity: tuple[np.ndarray, np.ndarray]
    code: str = ""
    species: int = 1
    algebraic: int = 0


def robertson(copies: int) -> Stiff:
    """Copies of Robertson's reactions (1966), all first species before all second ones, to t = 1e4."""

    def field(xp: Any, y: Any) -> Any:
        a, b, c = y.reshape(3, copies)
        slow, fast, back = 0.04 * a, 3e7 * b * b, 1e4 * b * c
        return xp.concatenate([back - slow, slow - back - fast, fast])

    one = np.arange(copies)
    rows, columns = ([one + i * copies for i, _ in PAIRS], [one + j * copies for _, j in PAIRS])
    code = f"""
    in {{ k = 1 }}
    u_i {{ (0:{copies}): x = 1, ({copies}:{2 * copies}): y = 0, ({2 * copies}:{3 * copies}): z = 0 }}
    F_i {{ -0.04 * k * x_i + 1e4 * y_i * z_i, 0.04 * k * x_i - 1e4 * y_i * z_i - 3e7 * y_i * y_i, 3e7 * y_i * y_i }}
    """
    y0 = np.repeat([1.0, 0.0, 0.0], copies)
    return Stiff(field, y0, 1e4, 1e-4, (np.concatenate(rows), np.concatenate(columns)), code)


PAIRS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2))


def _laplacian(side: int) -> Any:
    """The five-point Laplacian with walls at 0, of side^2 points in the unit square."""
    import scipy.sparse as sp

    line = sp.diags_array([np.ones(side - 1), -2 * np.ones(side), np.ones(side - 1)], offsets=[-1, 0, 1])
    whole = sp.kron(sp.eye_array(side), line) + sp.kron(line, sp.eye_array(side))
    return (whole * (side + 1) ** 2).tocoo()


def _entries(matrix: Any) -> str:
    return ", ".join(
        f"({i},{j}): {v!r}" for i, j, v in zip(*map(np.ndarray.tolist, matrix.coords), matrix.data.tolist())
    )


def _around(xp: Any, u: Any, side: int) -> Any:
    u = xp.pad(u.reshape(side, side), 1)
    sums = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return (sums * (side + 1) ** 2).ravel()


def heat(side: int) -> Stiff:
    """Heat on a square with cold walls, to t = 0.1."""
    matrix = _laplacian(side)
    x = np.arange(1, side + 1) / (side + 1)
    y0 = (16 * np.outer(x * (1 - x), x * (1 - x))).ravel()
    starts = ", ".join(f"({i}): {v!r}" for i, v in enumerate(y0.tolist()))
    code = f"in {{ k = 1 }}\nA_ij {{ {_entries(matrix)} }}\nb_i {{ {starts} }}\nu_i {{ x = b_i }}\nF_i {{ A_ij * x_j }}"
    return Stiff(lambda xp, y: _around(xp, y, side), y0, 0.1, 1e-2, matrix.coords, code)


def brusselator(side: int) -> Stiff:
    """The Brusselator with diffusion 0.02 on a square with walls at 0, to t = 5."""
    count = side**2

    def field(xp: Any, y: Any) -> Any:
        u, v = y[:count], y[count:]
        cubic = u * u * v
        spread = lambda w: 0.02 * _around(xp, w, side)
        return xp.concatenate([1 + cubic - 4.4 * u + spread(u), 3.4 * u - cubic + spread(v)])

    matrix = _laplacian(side)
    i, j = matrix.coords
    all_, cells = np.concatenate, np.arange(count)
    rows = all_([i, i + count, cells, cells + count])
    columns = all_([j, j + count, cells + count, cells])
    x, y = np.meshgrid(*2 * (np.arange(1, side + 1) / (side + 1),), indexing="ij")
    y0 = all_([(22 * y * (1 - y) ** 1.5).ravel(), (27 * x * (1 - x) ** 1.5).ravel()])
    return Stiff(field, y0, 5.0, 1e-2, (rows, columns), species=2)


def foodweb(side: int) -> Stiff:
    """Prey and predators that diffuse on a square with closed walls, predators in balance, to t = 1 (Brown and Hindmarsh 1989)."""
    import scipy.sparse as sp

    count = side**2
    x = np.tile(np.linspace(0, 1, side), side)
    y = np.repeat(np.linspace(0, 1, side), side)
    rate = 1 + 50 * x * y + 1000 * np.sin(4 * np.pi * x) * np.sin(4 * np.pi * y)

    def spread(xp: Any, c: Any) -> Any:
        c = xp.pad(c.reshape(side, side), 1, mode="reflect")
        sums = c[2:, 1:-1] + c[:-2, 1:-1] + c[1:-1, 2:] + c[1:-1, :-2] - 4 * c[1:-1, 1:-1]
        return (sums * (side - 1) ** 2).ravel()

    def field(xp: Any, c: Any) -> Any:
        prey, hunters = c[:count], c[count:]
        growth = prey * (rate - prey - 0.5e-6 * hunters)
        balance = hunters * (-rate + 1e4 * prey - hunters)
        return xp.concatenate([spread(xp, prey) + growth, 0.05 * spread(xp, hunters) + balance])

    line = sp.diags_array([np.ones(side - 1), -2 * np.ones(side), np.ones(side - 1)], offsets=[-1, 0, 1]).tolil()
    line[0, 1] = line[-1, -2] = 2
    matrix = ((sp.kron(sp.eye_array(side), line) + sp.kron(line, sp.eye_array(side))) * (side - 1) ** 2).tocoo()
    i, j = matrix.coords
    cells = np.arange(count)
    rows = np.concatenate([i, i + count, cells, cells + count])
    columns = np.concatenate([j, j + count, cells + count, cells])
    prey = 10 + (16 * x * (1 - x) * y * (1 - y)) ** 2
    listed = lambda values: ", ".join(f"({k}): {v!r}" for k, v in enumerate(values.tolist()))
    code = f"""
    in {{ k = 1 }}
    D_ij {{ {_entries(matrix)} }}
    b_i {{ {listed(rate)} }}
    p_i {{ {listed(prey)} }}
    u_i {{ c = p_i, ({count}:{2 * count}): h = 1e5 }}
    dudt_i {{ (0:{count}): dc = 0, ({count}:{2 * count}): dh = 0 }}
    M_i {{ dc_i, ({count}:{2 * count}): 0 }}
    s_i {{ D_ij * c_j }}
    q_i {{ 0.05 * D_ij * h_j }}
    F_i {{ k * (s_i + c_i * (b_i - c_i - 0.5e-6 * h_i)), k * (q_i + h_i * (-b_i + 1e4 * c_i - h_i)) }}
    """
    y0 = np.concatenate([prey, np.full(count, 1e5)])
    return Stiff(field, y0, 1.0, 1.0, (rows, columns), code, species=2, algebraic=1)


def network(species: int) -> Stiff:
    """Reactions of random pairs, two to one and back, with rates over six decades, to t = 100."""
    rng = np.random.default_rng(3)
    a, b, c = rng.integers(0, species, (3, species))
    ahead, back = 10 ** rng.uniform(-3, 3, species), 10 ** rng.uniform(-3, 1, species)
    change = np.zeros((species, species))
    np.add.at(change, (a, np.arange(species)), -1.0)
    np.add.at(change, (b, np.arange(species)), -1.0)
    np.add.at(change, (c, np.arange(species)), 2.0)

    import scipy.sparse as sp

    moved = sp.csr_array(change)
    order, where, sizes = moved.data, moved.indices, np.diff(moved.indptr)
    rows = np.repeat(np.arange(species), sizes)

    def field(xp: Any, y: Any) -> Any:
        rate = ahead * y[a] * y[b] - back * y[c]
        if xp is np:
            return moved @ rate
        return xp.zeros(species).at[rows].add(order * rate[where])

    pairs = [(r, of[k]) for r, k in zip(rows, where) for of in (a, b, c)]
    i, j = np.array([*pairs, *[(s, s) for s in range(species)]]).T
    return Stiff(field, rng.uniform(0.1, 1.0, species), 100.0, 1e-3, (i, j))


PROBLEMS: dict[str, Callable[[], Stiff]] = {
    "robertson3": lambda: robertson(1),
    "robertson30": lambda: robertson(10),
    "robertson300": lambda: robertson(100),
    "robertson3000": lambda: robertson(1000),
    "robertson30000": lambda: robertson(10_000),
    "heat32": lambda: heat(32),
    "brusselator32": lambda: brusselator(32),
    "brusselator128": lambda: brusselator(128),
    "foodweb20": lambda: foodweb(20),
    "network500": lambda: network(500),
}

LARGER: dict[str, Callable[[], Stiff]] = {"brusselator64": lambda: brusselator(64)}
"""Problems for our own solvers alone."""
