"""Information of one more datum of a series, whose residual is correlated with those that are there."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from ..engine import note_trace
from ..problem import Autocorrelated, Dataset, Problem, Series, named_parts, series_information, series_of

Slopes = tuple[Array, Array, Array, Array]


class Places(eqx.Module):
    """Series of one output, and possible data of each: their sensitivities in the coordinates of the fit.

    - `known`, `slopes`: series with the data that there are, and rows without data for those that are chosen.
    - `possible`, `possible_slopes`: the same at the times that may be chosen.
    """

    known: Series
    slopes: Slopes
    possible: Series
    possible_slopes: Slopes
    experiments: int = eqx.field(static=True)

    def with_datum(self, experiment: int, time: int, row: int) -> "Places":
        """The series with a datum of an experiment at one of the possible times, in place of a row that is there for it."""
        number = self.known.times.shape[0] // self.experiments
        own = slice(experiment * number, (experiment + 1) * number)
        put = lambda at, x: at.at[own, row].set(x[own, time])
        known, slopes = jax.tree.map(put, (self.known, self.slopes), (self.possible, self.possible_slopes))
        return dataclasses.replace(self, known=known, slopes=slopes)


class SeriesPlan:
    """Series of a problem while measurements of them are chosen, one after the other."""

    def __init__(self, problem: Problem, possible: Dataset, sensitivities: Any, z: Array, count: int):
        self.places = _places(problem, possible, sensitivities, z, count)
        self.chosen = 0

    def rows(self, block: np.ndarray, outputs: tuple[str, ...]) -> np.ndarray:
        """Sensitivities in standard deviations, shape `(outputs, experiments, times, numbers, parameters)`, of outputs with
        series in place of those in `block`."""
        found = list(block)
        for k, name in enumerate(outputs):
            if name in self.places:
                found[k] = _roots(np.asarray(_added(self.places[name]), float))
        most = max(x.shape[2] for x in found)
        return np.stack([np.pad(x, [(0, 0), (0, 0), (0, most - x.shape[2]), (0, 0)]) for x in found])

    def measure(self, name: str, experiment: int, time: int) -> None:
        """Count a datum of an output as measured."""
        if name in self.places:
            places = self.places[name]
            self.places[name] = places.with_datum(experiment, time, places.known.times.shape[1] - 1 - self.chosen)
        self.chosen += 1


def _roots(information: np.ndarray) -> np.ndarray:
    """Rows whose products are given matrices: those of their eigenvalues that are above rounding."""
    value, vector = np.linalg.eigh(information)
    return np.sqrt(np.maximum(value, 0))[..., None] * np.swapaxes(vector, -1, -2)


@eqx.filter_jit
def _places(problem: Problem, possible: Dataset, sensitivities: Any, z: Array, count: int) -> dict[str, Places]:
    note_trace("plan, series", named_parts(problem) | {"count": count})
    heads = lambda z: (problem.heads(problem.natural(z))[0],) * 2
    parts: Any = ((*jax.jacfwd(heads, has_aux=True)(z), problem.dataset), (*sensitivities, possible))
    found = {}
    for name, (_, noise) in parts[0][1].items():
        if not isinstance(noise, Autocorrelated):
            continue
        (known, slopes), (fresh, fresh_slopes) = (
            (series_of(data, name, *heads[name]), series_of(data, name, *jacobian[name], derivative=True))
            for jacobian, heads, data in parts
        )
        room = lambda x: jnp.concatenate([x, jnp.repeat(x[:, -1:], count, axis=1)], axis=1)
        known, slopes = jax.tree.map(room, (known, slopes))
        seen = known.seen.at[:, -count:].set(False)
        fresh = eqx.tree_at(lambda s: s.seen, fresh, jnp.ones_like(fresh.seen))
        known = eqx.tree_at(lambda s: s.seen, known, seen)
        found[name] = Places(known, slopes, fresh, fresh_slopes, len(problem.labels))
    return found


@eqx.filter_jit
def _added(places: Places) -> Float[Array, "experiments times parameters parameters"]:
    """The Fisher information that each possible datum adds to that of the series."""

    def one(known: Series, slopes: Slopes, possible: Series, possible_slopes: Slopes) -> Array:
        now = series_information(known, slopes)

        def added(row: Any) -> Array:
            (fresh, own), join = row, lambda x, y: jnp.concatenate([x, y[None]], axis=0)
            # Without white noise a datum is what another of its time is.
            same = jnp.any(known.seen & (known.times == fresh.times)) & (fresh.white == 0)
            series, moved = jax.tree.map(join, (known, slopes), (fresh, own))
            series = eqx.tree_at(lambda s: s.seen, series, series.seen.at[-1].set(~same))
            return series_information(series, moved) - now

        return lax.map(added, (possible, possible_slopes))

    each = lax.map(lambda row: one(*row), (places.known, places.slopes, places.possible, places.possible_slopes))
    return jnp.sum(each.reshape(places.experiments, -1, *each.shape[1:]), axis=1)
