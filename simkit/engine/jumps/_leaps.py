"""Leaps over many jumps: how far each goes, and how often each reaction happens in it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core import JumpSystem, flat_propensities
from ...linear import jacobian_places
from ._poisson import poisson, uniform

MOST = 2.0**30
"""Expected jumps of one reaction in a leap: they are counted by integers of 32 bits."""


class Leap(NamedTuple):
    """Result of one attempt of a member.

    - `y`: its numbers; `passed` the time that went by.
    - `halved`: how often the next leap is to be halved, since this one led below 0 and was given up.
    - `bad`: whether a propensity is negative or no number.
    """

    y: Array
    passed: Array
    halved: Array
    bad: Array


class Leaps:
    """The leaps of Cao, Gillespie and Petzold for one member.

    **Arguments:**

    - `system`, `y0`, `inputs`, `time`: values, of which the structure counts.
    - `jumps`: the change of the flat state by each reaction.
    - `state`: makes a state of its flat numbers.
    - `method`: `TauLeaping`.
    """

    def __init__(self, system: JumpSystem, given: Any, jumps: Float[np.ndarray, "r n"], state: Any, method: Any):
        self.jumps, self.state, self.method = jumps, state, method
        time, flat, inputs = given
        self.dtype = flat.dtype
        rates = lambda y: flat_propensities(system, time, state(y), inputs).astype(flat.dtype)
        places = jacobian_places(rates, flat)
        full = np.divmod(np.arange(jumps.size), jumps.shape[1])
        self.reaction, self.number = full if places is None else places
        self.colours = _colours(self.reaction, self.number, jumps.shape[1])

    def __call__(
        self, system: JumpSystem, given: tuple[Array, Array, Any], left: Array, halved: Array, bits: Array
    ) -> Leap:
        """One attempt of a member.

        **Arguments:**

        - `given`: time, state and inputs.
        - `left`: the time until its stop; `halved` how often the leap is to be halved.
        - `bits`: two random words.
        """
        time, y, inputs = given
        rates = lambda y: flat_propensities(system, time, self.state(y), inputs).astype(self.dtype)
        rate = rates(y)
        bad = jnp.any(~(rate >= 0))
        keys = jax.random.split(jax.random.wrap_key_data(bits, impl="threefry2x32"), 3)
        jumps = jnp.asarray(self.jumps, self.dtype)
        critical = (rate > 0) & (self._room(y) < self.method.critical)
        common = jnp.where(critical, 0, rate)
        longest = jnp.minimum(self._longest(rates, rate, common, y), MOST / jnp.max(common))
        longest = longest * 0.5 ** halved.astype(self.dtype)
        total, rare = jnp.sum(rate), jnp.sum(jnp.where(critical, rate, 0))
        # Where a leap would hold few jumps, one jump is drawn exactly.
        exact = ~(longest * total >= self.method.fewest)
        weights = jnp.where(exact | critical, rate, 0)
        sum_ = jnp.where(exact, total, rare)
        waiting = -jnp.log(uniform(keys[0], (), self.dtype)) / sum_
        step = jnp.minimum(jnp.where(exact, waiting, jnp.minimum(waiting, longest)), left)
        single = (waiting <= step) & (waiting < left) & (sum_ > 0)
        passed = jnp.cumsum(weights)
        chosen = jnp.sum(passed <= uniform(keys[1], (), self.dtype) * passed[-1])
        chosen = jnp.minimum(chosen, jnp.max(jnp.where(weights > 0, jnp.arange(len(rate)), 0)))
        expected = jnp.where(exact | ~(rate >= 0), 0, common * step)
        counts = poisson(keys[2], expected) + (single & (jnp.arange(len(rate)) == chosen)).astype(self.dtype)
        new = y + counts @ jumps
        # A jump that is drawn exactly is taken wherever it leads, as by the direct method.
        given_up = jnp.any((new < 0) & (y >= 0)) & ~exact
        return Leap(
            jnp.where(given_up, y, new),
            jnp.where(given_up, 0, step),
            jnp.where(given_up, halved + 1, 0).astype(jnp.int32),
            bad,
        )

    def _room(self, y: Array) -> Array:
        """Return how often each reaction may happen until a number of the state is used up."""
        taken = jnp.asarray(np.maximum(-self.jumps, 0), self.dtype)
        times = jnp.where(taken > 0, jnp.floor(y[None] / jnp.where(taken > 0, taken, 1)), jnp.inf)
        return jnp.min(times, axis=1)

    def _longest(self, rates: Any, rate: Array, common: Array, y: Array) -> Array:
        """The time in which no propensity is expected to change by more than the part `epsilon`."""
        relative = jnp.zeros_like(rate)
        for colour in range(max(self.colours, default=-1) + 1):
            along = jnp.where(self.colours == colour, y, 0)
            relative = relative + jnp.abs(jax.jvp(rates, (y,), (along,))[1])
        order = jnp.where(rate > 0, relative / jnp.where(rate > 0, rate, 1), 0)
        order = jnp.where(jnp.isfinite(order), order, jnp.inf)
        least = jnp.zeros_like(y).at[self.number].max(order[self.reaction])
        # A number may change by one at least; of one that no propensity reads nothing is asked.
        allowed = jnp.maximum(self.method.epsilon * y / least, 1)
        jumps = jnp.asarray(self.jumps, self.dtype)
        mean, variance = common @ jumps, common @ jumps**2
        ratio = lambda a, b: jnp.where(b > 0, a / jnp.where(b > 0, b, 1), jnp.inf)
        bounds = jnp.minimum(ratio(allowed, jnp.abs(mean)), ratio(allowed**2, variance))
        read = np.isin(np.arange(len(y)), self.number)
        return jnp.min(jnp.where(read, bounds, jnp.inf))


def _colours(rows: np.ndarray, columns: np.ndarray, size: int) -> np.ndarray:
    """A colour for each column, so that columns of one colour share no row."""
    of_row: dict[int, list[int]] = {}
    of_column: dict[int, list[int]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        of_row.setdefault(row, []).append(column)
        of_column.setdefault(column, []).append(row)
    colours = np.full(size, -1)
    for column, own in of_column.items():
        taken = {int(colours[other]) for row in own for other in of_row[row]}
        colours[column] = next(i for i in range(len(taken) + 1) if i not in taken)
    return colours
