"""The distinct optima at which starts ended, and how much of the posterior each of them holds."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import erf, erfcx

from ._fitted import AGREE
from ._identifiability import null_directions
from ._method import CONVERGED
from ._prior_model import root_of_prior

NEAR = 1.0
"""Starts that are further apart, in standard errors of the better one, are at different optima. A quadratic objective is 0.5 higher
at that distance, so of starts that have converged only other optima are that far away."""

SURE = 3.0
"""Estimated objectives agree where they differ by no more than so many standard errors of their difference."""

MOST = 64
"""Largest number of distinct optima: those of four components with exchangeable labels, and of six signs."""

COMPARABLE = 1000.0
"""An optimum with at least this part of the largest mass is comparable with it: fewer of 1000 draws would be its own."""

ROUNDS, REACH = 4, 0.25
"""So often points are put between the ends of a ridge, until none is further from its neighbour than this part of the ridge."""

FAR = 20.0, 1e3
"""The width that stands for missing bounds along a direction that nothing constrains: in logarithms, and relative to the largest
size at hand. All optima share it, so that it matters for none of their shares."""


class Ends(NamedTuple):
    """End points of the starts, best first, in the coordinates of the fit.

    - `z`, `value`, `status`: of each start.
    - `roots`: matrices whose squares are the information of data and prior.
    - `gradient`: of the objective, which is 0 but on bounds.
    - `error`: standard errors of the values, where these are estimated with random numbers.
    """

    z: np.ndarray
    value: np.ndarray
    status: np.ndarray
    roots: np.ndarray
    gradient: np.ndarray
    error: np.ndarray | None = None


class Optima(NamedTuple):
    """The optimum at which each start ended, -1 for none, and the best start and the logarithm of the mass of each optimum."""

    optimum: np.ndarray
    first: np.ndarray
    log_mass: np.ndarray


Again = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Places in the coordinates of the fit -> where a short descent from there ends, and the objective there."""


def root_of(rows: np.ndarray, curvature: np.ndarray, count: int) -> np.ndarray:
    """A matrix whose square is the information of the first `count` coordinates, integrated over the others."""
    stacked = np.concatenate([rows, root_of_prior(curvature)])
    if count == rows.shape[1]:
        return stacked
    basis, _ = np.linalg.qr(stacked[:, count:])
    first = stacked[:, :count]
    return first - basis @ (basis.T @ first)


def optima_of(ends: Ends, bounds: np.ndarray, log: np.ndarray, again: Again | None) -> Optima:
    r"""The distinct optima, the best first.

    Two starts are at one optimum where their objectives agree within 0.1, and their places $z_1$, $z_2$ in the metric of the
    uncertainty, $|R (z_2 - z_1)| \le 1$ with $R^T R$ the information at the better one. Along a straight ridge, which no data
    constrain, all places agree; those of a bent one do where a chain of descents from between them connects them.

    **Arguments:** `bounds`: in the coordinates of the fit; `log`: which of these are logarithms; `again`: short descents from
    places between ridge ends, of which there are at most as many as there are starts.
    """
    optimum = np.full(len(ends.value), -1)
    first: list[int] = []
    for i in np.flatnonzero(np.isfinite(ends.value)).tolist():
        near = [k for k, head in enumerate(first) if _agree(ends, head, i)]
        if near:
            optimum[i] = near[0]
        elif (i == 0 or ends.status[i] == CONVERGED) and len(first) < MOST:
            optimum[i] = len(first)
            first.append(i)
    if again is not None and len(first) > 1:
        first = _without_ridges(ends, optimum, first, again)
    mass = [_log_mass(ends, i, bounds, log) for i in first]
    return Optima(optimum, np.array(first, int), np.array(mass))


def comparable(log_mass: np.ndarray) -> np.ndarray:
    """The optima of comparable mass, the most massive first."""
    mass = np.asarray(log_mass, float)
    order = np.argsort(-mass, kind="stable")
    return order[mass[order] >= mass[order[0]] - math.log(COMPARABLE)]


def shares(log_mass: np.ndarray) -> np.ndarray:
    """The mass of each optimum as a part of that of all."""
    mass = np.asarray(log_mass, float)
    part = np.exp(mass - mass.max())
    return part / part.sum()


def _agree(ends: Ends, head: int, i: int) -> bool:
    apart = ends.roots[head] @ (ends.z[i] - ends.z[head])
    noise = 0.0 if ends.error is None else SURE * np.hypot(ends.error[i], ends.error[head])
    return bool(ends.value[i] - ends.value[head] <= AGREE + noise and np.linalg.norm(apart) <= NEAR)


def _without_ridges(ends: Ends, optimum: np.ndarray, first: list[int], again: Again) -> list[int]:
    """The optima with those of one bent ridge joined; `optimum` is changed in place."""
    ridges = [k for k, i in enumerate(first) if _open(ends.roots[i])]
    ridges = [k for k in ridges if ends.value[first[k]] <= ends.value[first[ridges[0]]] + AGREE]
    if len(ridges) < 2:
        return first
    rows = np.array([first[k] for k in ridges])
    same = _chained(ends.z[rows], float(ends.value[rows].max()) + AGREE, again, len(ends.value))
    into = list(range(len(first)))
    for k, group in zip(ridges, same, strict=True):
        into[k] = ridges[int(np.flatnonzero(same == group)[0])]
    kept = sorted(set(into))
    optimum[:] = [-1 if k < 0 else kept.index(into[k]) for k in optimum]
    return [first[k] for k in kept]


def _open(root: np.ndarray) -> bool:
    """Tell whether there is a direction that neither data nor prior constrain."""
    size = np.linalg.norm(root, axis=0)
    values = np.linalg.svd(root / np.where(size > 0, size, 1), compute_uv=False)
    return bool(null_directions(values, root.dtype).any())


def _chained(z: np.ndarray, highest: float, again: Again, room: int) -> np.ndarray:
    """Return which points lie on one ridge: points between neighbours descend to the ridge, until neighbours are near or stay
    apart."""
    count, width = len(z), np.ptp(z, axis=0)
    size = np.where(width > 0, width, 1)
    points = z
    for _ in range(ROUNDS):
        distance, edges = _tree(points / size)
        far = sorted((edge for edge in edges if distance[edge] > REACH), key=lambda edge: -distance[edge])[:room]
        if not far:
            break
        ends, value = again(np.array([0.5 * (points[i] + points[j]) for i, j in far]))
        points = np.concatenate([points, ends[value <= highest]])
    distance, edges = _tree(points / size)
    group = np.arange(len(points))
    for i, j in edges:
        if distance[i, j] <= REACH:
            group[group == group[j]] = group[i]
    return group[:count]


def _tree(points: np.ndarray) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The distances between all points, by the coordinate that differs most, and the edges of the shortest tree (Prim)."""
    distance = np.abs(points[:, None] - points[None]).max(axis=-1)
    near, parent, inside = distance[0].copy(), np.zeros(len(distance), int), np.zeros(len(distance), bool)
    inside[0], edges = True, []
    for _ in range(len(distance) - 1):
        new = int(np.argmin(np.where(inside, np.inf, near)))
        edges.append((int(parent[new]), new))
        inside[new] = True
        closer = distance[new] < near
        near, parent = np.where(closer, distance[new], near), np.where(closer, new, parent)
    return distance, edges


def _log_mass(ends: Ends, i: int, bounds: np.ndarray, log: np.ndarray) -> float:
    r"""The logarithm of Laplace's approximation of the posterior's integral around an optimum, in natural units.

    $$\log \int e^{-f} d\theta \approx -f + \sum_\mathrm{log} z_j + \tfrac p2 \log 2\pi - \tfrac12 \log \det H + \log P$$

    with P the part of the normal distribution inside the bounds. Where the optimum is on a bound, against which the objective
    falls with the slope g, the normal's half becomes the integral of $e^{-g s - h s^2 / 2}$. A direction that nothing
    constrains has the width of its bounds.
    """
    z, root = ends.z[i], ends.roots[i]
    width = bounds[:, 1] - bounds[:, 0]
    missing = np.where(log, FAR[0], FAR[1] * max(np.abs(ends.z).max(initial=0.0), np.finfo(float).tiny))
    width = np.where(np.isfinite(width), width, missing)
    stacked = np.concatenate([root, np.diag(math.sqrt(12) / width)])  # the variance of an even distribution
    _, values, basis = np.linalg.svd(stacked, full_matrices=False)
    spread = np.sqrt(np.sum((basis / values[:, None]) ** 2, axis=0))
    below, above = (z - bounds[:, 0]) / spread, (bounds[:, 1] - z) / spread
    part = 0.5 * (erf(above / math.sqrt(2)) + erf(below / math.sqrt(2)))
    # The integral over the other coordinates leaves the precision 1 / spread^2.
    push = np.abs(ends.gradient[i]) * spread
    gap = np.where(ends.gradient[i] > 0, z - bounds[:, 0], bounds[:, 1] - z)
    held = (push > 1e-3) & (gap < 1e-3 * spread)
    part = np.where(held, 0.5 * erfcx(push / math.sqrt(2)), part)
    volume = 0.5 * len(z) * math.log(2 * math.pi) - np.log(values).sum() + np.log(part).sum()
    return float(-ends.value[i] + z[log].sum() + volume)
