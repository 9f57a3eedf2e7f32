"""Ranks of true values among posterior draws, and the test that they are uniform."""

import equinox as eqx
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from .._errors import ArgumentError
from ..core import name_width

BINS = 10
LEAST = 20
"""Fewest simulations for a test of ranks."""


LEFT_OUT = (
    "",
    "whose data could not be simulated or drawn at the true values",
    "in which no start of the fit could be simulated",
    "whose chains stayed stuck",
    "that did not begin in the time of `within`",
)
"""Words for each value of `Calibration.outcome`."""

DIVERGENT = 0.2
"""Share of divergent draws from which on a simulation is named."""


class Calibration(eqx.Module):
    """Ranks of the true values among posterior draws; uniform where inference is right.

    - `truths`, `ranks`: shape `(simulation, parameter)`, ranks from 0 to `draws`; -1 in simulations that have none.
    - `outcome`: 0 where a simulation has ranks; 1 where no data could be simulated at its true values, 2 where the fit found no
        start, 3 where chains stayed stuck, 4 where the time was up. What is left out has no part in the p-values.
    - `modes`: how many optima of comparable mass the fit found, 0 without a fit; `diverging`: the share of draws that diverged.
    """

    truths: Float[Array, "simulation parameter"]
    ranks: Int[Array, "simulation parameter"]
    outcome: Int[Array, " simulation"]
    modes: Int[Array, " simulation"]
    diverging: Float[Array, " simulation"]
    draws: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def used(self) -> Bool[Array, " simulation"]:
        """The simulations that have ranks."""
        return self.outcome == 0

    def p_values(self) -> dict[str, float]:
        """Return for every parameter the probability of ranks at least this uneven if inference is right (chi-square, ten
        bins)."""
        from jax.scipy.special import gammaincc

        ranks = np.asarray(self.ranks)[np.asarray(self.used)]
        found = {}
        for i, name in enumerate(self.names):
            counts = np.histogram(ranks[:, i], bins=BINS, range=(-0.5, self.draws + 0.5))[0]
            expected = self._expected() * len(ranks)
            statistic = float(np.sum((counts - expected) ** 2 / expected))
            found[name] = float(gammaincc((BINS - 1) / 2, statistic / 2))
        return found

    def coverage(self, level: float = 0.9) -> dict[str, float]:
        """Return for every parameter the share of simulations whose true value lies in the central interval of probability `level`.

        A rank stands for a part of the posterior, which the end of an interval may divide: that part counts by its share. With
        n simulations a right share scatters by sqrt(level (1 - level) / n).
        """
        if not 0 < level < 1:
            raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level!r}.")
        ranks, parts = np.asarray(self.ranks)[np.asarray(self.used)], self.draws + 1
        tail = (1 - level) / 2 * parts
        inside = np.clip(np.minimum(ranks + 1, parts - tail) - np.maximum(ranks, tail), 0, 1)
        return {name: float(inside[:, i].mean()) for i, name in enumerate(self.names)}

    def _expected(self) -> np.ndarray:
        """The share of the ranks 0 .. draws that falls in each bin."""
        return np.histogram(np.arange(self.draws + 1), bins=BINS, range=(-0.5, self.draws + 0.5))[0] / (self.draws + 1)

    def __repr__(self) -> str:
        if isinstance(self.ranks, Tracer):
            return f"Calibration(traced, parameters {self.names})"
        used, total = int(np.sum(self.used)), self.outcome.shape[0]
        lines = [
            f"Calibration: {used} of {total} simulations, ranks among {self.draws} draws; p-values of uniform ranks"
        ]
        width = name_width(self.names)
        for name, p in self.p_values().items():
            lines.append(f"  {name:<{width}} {p:.3f}" + ("  suspicious" if p < 0.01 / len(self.names) else ""))
        for outcome, words in enumerate(LEFT_OUT):
            if outcome and (count := int(np.sum(np.asarray(self.outcome) == outcome))):
                lines.append(f"  {count} simulations are left out {words}: the ranks say nothing of such data")
        if count := int(np.sum(np.asarray(self.modes) > 1)):
            lines.append(f"  {count} simulations had several optima of comparable mass")
        if count := int(np.sum(np.asarray(self.diverging) > DIVERGENT)):
            lines.append(f"  {count} simulations had more than {DIVERGENT:.0%} of divergent draws")
        return "\n".join(lines)
