"""Sets of discrete velocities: D2Q9 and D3Q19."""

import functools
import itertools
from typing import Any, NamedTuple


class Lattice(NamedTuple):
    """Discrete velocities $c_i$, in cells a step, with their weights $w_i$.

    `opposite[i]` is the place of $-c_i$. `pairs` holds each pair of opposite velocities once. The speed of sound is
    $1/\\sqrt 3$.

    Qian, d'Humieres and Lallemand (1992), Europhys. Lett. 17:479.
    """

    velocities: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    opposite: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    @property
    def dimensions(self) -> int:
        """Number of axes."""
        return len(self.velocities[0])

    @property
    def size(self) -> int:
        """Number of velocities."""
        return len(self.velocities)

    def along(self, axis: int, sign: int) -> tuple[int, ...]:
        """Return the velocities with a component of this sign along an axis."""
        return tuple(i for i, c in enumerate(self.velocities) if c[axis] == sign)

    def dot(self, i: int, vector: Any) -> Any:
        """Return $c_i \\cdot v$ for a list of components; None for the velocity 0."""
        total = None
        for c, v in zip(self.velocities[i], vector, strict=True):
            if c:
                term = v if c > 0 else -v
                total = term if total is None else total + term
        return total


@functools.cache
def lattice_of(dimensions: int) -> Lattice:
    """D2Q9 in two and D3Q19 in three dimensions; the first velocity is 0."""
    weights = {2: (4 / 9, 1 / 9, 1 / 36), 3: (1 / 3, 1 / 18, 1 / 36)}[dimensions]
    every = itertools.product((0, 1, -1), repeat=dimensions)
    kept = sorted((c for c in every if sum(map(abs, c)) <= 2), key=lambda c: sum(map(abs, c)))
    opposite = tuple(kept.index(tuple(-x for x in c)) for c in kept)
    pairs = tuple((i, j) for i, j in enumerate(opposite) if i < j)
    return Lattice(tuple(kept), tuple(weights[sum(map(abs, c))] for c in kept), opposite, pairs)
