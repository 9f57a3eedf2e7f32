"""Every model that some unknowns at their targets make, each fitted from several starts by one program."""

import itertools

import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..problem import Problem
from ._fit_result import FitResult
from ._gauss_newton import GaussNewton
from ._runs import run
from ._starts import drawn_starts
from ._stored import blocks

TOGETHER = 8
"""Number of descents in one call, and of starts for each model: the fit of all unknowns, and others that are drawn."""

EXCHANGES = 5
"""Most rounds in which a model begins again from a smaller one that fits better."""


class Subsets:
    """The fit of each model: rows of `active` say which of the unknowns that may vanish are left in it.

    `z`, `value`, `log_likelihood`, `settled`: the best end of each model, its negative log posterior and log likelihood.
    """

    def __init__(self, lean: Problem, places: np.ndarray, target: np.ndarray):
        self.active = np.array(list(itertools.product((False, True), repeat=len(places))))
        self.active = self.active[np.argsort(self.active.sum(axis=1), kind="stable")]
        self._lean, self._places, self._target = lean, places, target
        count = len(self.active)
        self.z = np.tile(target.astype(float), (count, 1))
        self.value, self.log_likelihood = np.full(count, np.inf), np.full(count, np.nan)
        self.settled = np.zeros(count, bool)

    def descend(self, models: np.ndarray, z: np.ndarray) -> None:
        """Fit models, numbers of rows of `active`, from one place each, and keep what is better than what is known."""
        held = np.zeros(z.shape, bool)
        held[:, self._places] = ~self.active[models]
        z = np.where(held, self._target, z)
        for block in blocks(len(z), TOGETHER):
            end = run(self._lean, GaussNewton(), 1.0, z[block], held[block])
            value, penalty = np.asarray(end.model.value, float), np.asarray(end.model.penalty, float)
            ends, settled = np.asarray(end.z, float), np.asarray(end.status) == 0
            for i, model in enumerate(models[block].tolist()):
                if np.isfinite(value[i]) and value[i] < self.value[model]:
                    self.z[model], self.value[model], self.settled[model] = ends[i], value[i], settled[i]
                    self.log_likelihood[model] = penalty[i] - value[i]

    def exchange(self) -> None:
        """Begin models again from where a smaller one, which is a part of them, ended with a better value."""
        for _ in range(EXCHANGES):
            part = ~(self.active[None] & ~self.active[:, None]).any(axis=2)  # row: model, column: a part of it
            best = np.where(part, self.value[None], np.inf)
            source = best.argmin(axis=1)
            gain = self.value - best.min(axis=1)
            worse = np.flatnonzero(gain > 1e-9 * (1 + np.abs(self.value)))
            if not worse.size:
                return
            self.descend(worse, self.z[source[worse]])


def every_subset(lean: Problem, full: FitResult, places: np.ndarray, target: np.ndarray, key: PRNGKeyArray) -> Subsets:
    """Fit all models in which some of the unknowns at `places` are held at `target`, coordinates of the fit."""
    found = Subsets(lean, places, target)
    drawn: Array = drawn_starts(lean, key, TOGETHER - 1)
    starts = np.concatenate([np.asarray(full.z, float)[None], np.asarray(drawn, float)])
    models = np.repeat(np.arange(len(found.active)), TOGETHER)
    found.descend(models, np.tile(starts, (len(found.active), 1)))
    found.exchange()
    return found
