"""Differential evolution of the draws that a fit begins with."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

FAVOURED = 0.1
"""The part of the population towards which the others move."""

LEARNING = 0.1
"""Rate at which the lengths of moves and the numbers of exchanged coordinates follow the successful ones."""

SPREAD = 0.1
"""Scatter of the lengths and numbers."""

Values = Callable[[np.ndarray], np.ndarray]
"""Places, one a row -> the objective at each, infinite where it failed."""


def evolved(
    values: Values,
    places: Float[np.ndarray, "members parameters"],
    bounds: Float[np.ndarray, "parameters 2"],
    generations: int,
    random: np.random.Generator,
) -> Float[np.ndarray, "members parameters"]:
    """A population after so many generations, the best first.

    Every member moves towards one of the best and along the difference of two others, exchanges some coordinates, and gives way
    to the result only where that is better: so the population stays spread out. Simulations are compared, never differentiated,
    and plateaus do not hold it.

    Zhang & Sanderson (2009), IEEE Transactions on Evolutionary Computation 13:945, doi:10.1109/TEVC.2009.2014613: JADE with its
    archive.
    """
    z, value = np.array(places), values(places)
    size, count = z.shape
    archive, length, share = z.copy(), 0.5, 0.5
    rows = np.arange(size)
    for _ in range(generations):
        lengths = np.clip(length + SPREAD * random.standard_cauchy(size), 0.05, 1.0)
        shares = np.clip(random.normal(share, SPREAD, size), 0.0, 1.0)
        best = np.argsort(value, kind="stable")[: max(2, round(FAVOURED * size))]
        towards, one = z[random.choice(best, size)], z[random.integers(size, size=size)]
        pool = np.concatenate([z, archive])
        other = pool[random.integers(len(pool), size=size)]
        moved = z + lengths[:, None] * (towards - z + one - other)
        # Beyond a bound it ends half way there.
        moved = np.where(moved < bounds[:, 0], (z + bounds[:, 0]) / 2, moved)
        moved = np.where(moved > bounds[:, 1], (z + bounds[:, 1]) / 2, moved)
        exchanged = random.random(z.shape) < shares[:, None]
        exchanged[rows, random.integers(count, size=size)] = True
        moved = np.where(exchanged, moved, z)
        found = values(moved)
        better = found < value
        if better.any():
            gone = np.concatenate([archive, z[better]])
            archive = gone[random.permutation(len(gone))[:size]]
            lengths, shares = lengths[better], shares[better]
            # Lehmer's mean, which favours long moves: short ones succeed too easily.
            length = (1 - LEARNING) * length + LEARNING * float(np.sum(lengths**2) / np.sum(lengths))
            share = (1 - LEARNING) * share + LEARNING * float(np.mean(shares))
        z[better], value[better] = moved[better], found[better]
    return z[np.argsort(value, kind="stable")]
