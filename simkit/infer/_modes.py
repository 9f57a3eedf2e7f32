"""The optima of a fit as places where chains begin, and where chains have been."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array
from scipy import special

from ..fitting import REMEDY, FieldFit, FitResult, comparable, first_starts, images_of, masses, optima_rows, shares
from ._target import Target

Approximation = Callable[[Target, Array, Array, Array], tuple[Array, Array]]
"""Target, a place in natural units, the same in the coordinates of the fit, its covariance there -> center and covariance in
unconstrained coordinates."""

LOOKED_AT = 200
"""Number of draws of a chain that are assigned to optima."""

NEAR = 1e-6
"""A draw further from all modes than this share of normal draws is counted to none: on a bent ridge the nearest one by normal
approximations may be one that lies beyond a barrier."""

PASSAGES = 10
"""Fewest passages of all chains between two optima for which the weights of the modes count as known."""


class Modes(NamedTuple):
    """The optima of comparable mass, the most massive first.

    - `centers`, `covariances`: in unconstrained coordinates, the normal approximation around each.
    - `shares`: the part of each of the mass of all of them.
    - `optima`: their numbers in the fit.
    """

    centers: np.ndarray
    covariances: np.ndarray
    shares: np.ndarray
    optima: np.ndarray
    fit: FitResult | FieldFit

    def allotted(self, chains: int) -> np.ndarray:
        """The mode in which each chain begins: each has one where there are enough, and the others go by mass."""
        count = np.zeros(len(self.shares), int)
        count[:chains] = 1
        while count.sum() < chains:
            count[np.argmax(self.shares * chains - count)] += 1
        return np.repeat(np.arange(len(count)), count)

    def roots(self) -> np.ndarray:
        """Roots of the covariances."""
        return np.stack([root_of(each) for each in self.covariances])


def modes_of(target: Target, fit: FitResult | FieldFit, approximation: Approximation) -> Modes:
    """The modes that a fit of the target's problem found."""
    if isinstance(fit, FieldFit):
        found = approximation(target, fit.estimate, fit.z, fit.covariance())
        center, spread = (np.asarray(x)[None] for x in found)
        return Modes(center, spread, np.ones(1), np.zeros(1, int), fit)
    mass, first = masses(fit), first_starts(fit)
    chosen = comparable(mass)
    covariances = fit.covariance[None] if fit.covariances is None else fit.covariances
    found = []
    for k in chosen.tolist():
        theta = fit.estimate if k == 0 else fit.thetas[int(first[k])]
        z = fit.z if k == 0 else target.problem.coordinates(theta)
        found.append(approximation(target, theta, z, covariances[k]))
    centers, spreads = (np.stack([np.asarray(x) for x in part]) for part in zip(*found, strict=True))
    return Modes(centers, spreads, shares(mass[chosen]), chosen, fit)


def root_of(covariance: np.ndarray) -> np.ndarray:
    """A root R of a covariance, $R R^T$, which may be singular as far as its float type can tell."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        size, values, vectors = _principal(covariance)
        return size[:, None] * vectors * np.sqrt(np.maximum(values, 0))


def _principal(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Standard deviations, and eigenvalues and eigenvectors of the correlations: small numbers beside large ones keep theirs."""
    size = np.sqrt(np.diag(covariance))
    size = np.where(size > 0, size, 1)
    values, vectors = np.linalg.eigh(covariance / size[:, None] / size)
    return size, values, vectors


def distances(u: np.ndarray, center: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, float]:
    """The squares of distances from the centre of a normal distribution, in its standard deviations, and its log determinant."""
    size, values, vectors = _principal(np.asarray(covariance, float))
    values = np.maximum(values, 1e-300)
    square = (((u - center) / size @ vectors) ** 2 / values).sum(axis=-1)
    return square, float(np.log(values).sum() + 2 * np.log(size).sum())


def visited(modes: Modes, u: np.ndarray) -> np.ndarray:
    """The mode nearest to each draw by the normal approximations, -1 where none is near.

    The shape is `(chain, draw)`, the draws are in unconstrained coordinates.
    """
    thinned = np.asarray(u, float)[:, :: max(1, u.shape[1] // LOOKED_AT)]
    scores, squares = [], []
    for center, covariance in zip(modes.centers, modes.covariances, strict=True):
        square, volume = distances(thinned, center, covariance)
        squares.append(square)
        scores.append(square + volume)
    nearest = np.argmin(np.stack(scores), axis=0)
    square = np.take_along_axis(np.stack(squares), nearest[None], axis=0)[0]
    return np.where(special.chdtrc(thinned.shape[-1], square) < NEAR, -1, nearest)


def describe_modes(modes: Modes, chains: int, at: np.ndarray | None) -> list[str]:
    """Sentences about several modes: which chains are where, what that means and what to do; none where there is one.

    **Arguments:** `at`: shape `(chain, draw)`, where draws are, as `visited` gives it; None where all are drawn from one mode.
    """
    count = len(modes.shares)
    if count < 2:
        return []
    parts = ", ".join(f"{share:.2g}" for share in modes.shares[:8]) + (", ..." if count > 8 else "")
    text = f"The fit found {count} modes of comparable mass ({parts}, by Laplace's approximation)"
    if at is None:
        return [f"{text}, and this method takes the most massive one alone. {_remedy(modes)}"]
    if np.mean(at >= 0) < 0.5:
        return [
            f"{text}, but most draws lie far from their normal approximations, as on bent ridges, so whether chains pass between "
            f"the modes is not known. Compare the chains with `viz.plot_trace`. {_remedy(modes)}"
        ]
    passages = sum(int(np.sum(np.diff(row[row >= 0]) != 0)) for row in at)
    if passages >= PASSAGES * (count - 1):
        return [
            f"{text}; chains passed {passages} times between them, so the draws weigh them. Look at the effective sample sizes."
        ]
    left = count - len(np.unique(at[at >= 0]))
    too_few = f"{chains} chain{'s' if chains > 1 else ''} cannot begin in all of them"
    text += "; chains begin in all of them" if count <= chains else f"; {too_few}"
    places = "; ".join(_place(modes, k, at) for k in np.unique(at[at >= 0]).tolist()[:8])
    text += f" ({places}). "
    text += (
        "None passed from one to another: "
        if passages == 0
        else f"They passed {passages} times between them, too seldom: "
    )
    text += (
        "each is described, but how much of the posterior it holds comes from the number of its chains, which NUTS cannot "
        "estimate. R-hat shows that they differ. "
    )
    if left:
        text += f"Without draws: {left} of the modes; take `chains={max(count, chains)}` or more. "
    return [text + _remedy(modes)]


def _place(modes: Modes, k: int, at: np.ndarray) -> str:
    """The chains that spent most of their time in a mode, and the parameter in which it is most apart from the first."""
    home = np.array([np.bincount(row[row >= 0], minlength=len(modes.shares)).argmax() for row in at])
    assert isinstance(modes.fit, FitResult)  # a fit of fields has one optimum
    rows = optima_rows(modes.fit)
    estimate = rows[modes.optima[k]]["estimate"]
    spread = np.sqrt(np.diagonal(modes.covariances[k]))
    apart = np.abs(modes.centers[k] - modes.centers[0 if k else 1]) / np.where(spread > 0, spread, 1)
    name = modes.fit.names[int(np.argmax(apart[: modes.fit.free_count]))]
    chains = (np.flatnonzero(home == k) + 1).tolist()
    listed = ", ".join(map(str, chains[:8])) + (", ..." if len(chains) > 8 else "")
    who = f"chain{'s' if len(chains) != 1 else ''} {listed}" if chains else "no chain for most of its draws"
    return f"{who} near {name} = {estimate[name]:.4g}"


def _remedy(modes: Modes) -> str:
    assert isinstance(modes.fit, FitResult)
    images = images_of(modes.fit)
    kinds = [image.kind for k in modes.optima if (image := images[k]) is not None and image.of in modes.optima]
    if kinds:
        some = "Some of the modes" if len(kinds) < len(modes.optima) - 1 else "The modes"
        return f"{some} are one solution written in several ways: {REMEDY[kinds[0]]}."
    return "`TemperedSMC()` weighs them; a prior, a bound or more data may decide."
