"""Breaking points: times at which derivatives of a solution jump, on which steps end."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import DelayedSystem, SystemTerm, at_time, stop_times

MOST_POINTS = 4096
"""Most breaking points of a solve. Where several lags make more of them, they are followed over fewer lags."""


MOST_NEUTRAL = 512
"""The same where slopes of the past enter, whose breaking points do not end after some lags but with the run."""


@functools.cache
def _sums(lags: int, levels: int) -> np.ndarray:
    """Numbers of each lag in all sums of at most so many lags, the empty sum first."""
    if not lags:
        return np.zeros((1, 0))
    rows = [
        np.bincount(np.array(chosen, int), minlength=lags)
        for level in range(levels + 1)
        for chosen in itertools.combinations_with_replacement(range(lags), level)
    ]
    return np.array(rows, float).reshape(-1, lags)


def flat_lags(term: SystemTerm, t: Array, y: object) -> Array:
    """All lags at a time and a state, shape `(lags,)`."""
    return lag_numbers(term.system, t, y, at_time(term.inputs, t))


def lag_numbers(system: DelayedSystem, t: Array, y: object, inputs: object) -> Array:
    """All lags of a system with the values of its inputs, shape `(lags,)`."""
    found = jax.tree.leaves(system.lags(t, y, inputs))
    return jnp.concatenate([jnp.ravel(jnp.asarray(x, t.dtype)) for x in found] or [jnp.zeros(0, t.dtype)])


def first_points(term: SystemTerm, begin: Array) -> Array:
    """The times at which a derivative jumps by no lag: the first time, the breaks of the history, the stops of the inputs."""
    system: DelayedSystem = term.system
    bases = [begin[None]]
    for found in (system.breaks(), stop_times(term.inputs)):
        if found is not None:
            bases.append(jnp.asarray(found, begin.dtype))
    return jnp.concatenate(bases)


def image_count(base: int, lags: int, order: int) -> int:
    """The number of breaking points that follow from some, each followed over as many lags as the order says."""
    return min(base * math.comb(order + lags, lags), MOST_POINTS)


def breaking_points(
    term: SystemTerm, lags: Array, begin: Array, end: Array, levels: int, most: int = MOST_POINTS
) -> Array:
    r"""Times within a run at which steps end, sorted, then its end, then infinite ones, with derivatives.

    At the start the first derivative jumps; a sum of k lags later the one of order k + 1 does, which a method of order p feels up
    to k = p. The same follows the breaks of the history and the stops of the inputs. Where slopes of the past enter, all of them
    are of order 1. They are followed over so many lags, or as many as there is room for.
    """
    base = first_points(term, begin)
    while levels > 1 and base.size * math.comb(levels + lags.size, lags.size) > most:
        levels -= 1
    sums = jnp.asarray(_sums(lags.size, levels), begin.dtype)
    # Not a product of matrices: an infinite or missing lag must not touch the sums without it.
    total = jnp.sum(jnp.where(sums > 0, sums * lags[None], 0), axis=1)
    points = (base[:, None] + total[None]).reshape(-1)
    inside = jax.lax.stop_gradient((points > begin) & (points < end))
    points = jnp.where(inside, points, jnp.inf)
    return jnp.sort(jnp.concatenate([points, end[None], jnp.full_like(end, jnp.inf)[None]]))
