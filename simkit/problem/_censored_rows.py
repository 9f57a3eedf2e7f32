r"""Data of correlated outputs of which some are censored: for each row a normal distribution's probability of a box, by simulation.

As in `_censored_series`, with the outputs of a row in place of times: a path draws what is censored from its set given the outputs
before it. The last output of a row is drawn for nothing, so that rows with one censored number are exact where it is last.
"""

from typing import Any

import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PRNGKeyArray

from ._censored import Limits, log_probability, steps_of
from ._correlated import (
    check_rows,
    correlated_groups,
    drawn_rows,
    marginal_of,
    root_of_rows,
    stacked,
    standard_residuals,
)
from ._dataset import Dataset
from ._fixed_points import PATHS, check_paths, fixed_points, log_mean
from ._forward import ForwardModel, Heads
from ._likelihood import AbstractLikelihood, LogProb
from ._noise import Normal
from ._normal_between import normal_between


class CensoredRows(AbstractLikelihood):
    r"""The likelihood of `Correlated` outputs of which some data are `Censored`; a problem takes it by itself.

    Each row of outputs that depend on each other goes along so many `paths` (the simulator of Geweke, Hajivassiliou and Keane) by
    fixed scrambled Sobol points, the same at every call.

    **Arguments:** `paths`: how many, a power of two.

    **Errors:** the log likelihood has an error that falls nearly as 1 / `paths`. `information` is not known: fits take `LBFGS`, and
    standard errors come from second derivatives.

    **References:** as of `CensoredSeries`.
    """

    paths: int

    def __init__(self, paths: int = PATHS):
        check_paths(paths)
        self.paths = paths

    @property
    def takes_censored(self) -> bool:
        return True

    def check(self, model: ForwardModel, data: Dataset) -> None:
        check_rows(model, data)

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> LogProb:
        heads, status = model.heads(theta, data)
        groups = correlated_groups({name: noise for name, (_, noise) in heads.items()}, data)
        joined = {name for names in groups for name in names}
        total = jnp.zeros((), data.times.dtype)
        for name, (location, noise) in heads.items():
            if name not in joined:
                total = total + jnp.sum(data.log_density(name, location, noise))
        for names in groups:
            total = total + jnp.sum(_log_density(names, heads, data, self.paths))
        return total, status

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array] | None:
        return drawn_rows(key, model.heads(theta, data)[0], data)


def _log_density(names: list[str], heads: Heads, data: Dataset, paths: int) -> Float[Array, "*rows"]:
    """The log density of each row of outputs that are correlated with each other."""
    seen = {name: jnp.isfinite(data.values[name]) for name in names}
    root = root_of_rows(names, heads, stacked(names, lambda name: seen[name]))[..., None]
    shape = seen[names[0]].shape
    points = jnp.asarray(fixed_points(paths, seen[names[0]].size, len(names)), root.dtype)
    points = points.reshape(*shape, len(names), paths)
    weight, white = jnp.zeros((*shape, paths), root.dtype), []
    for place, name in enumerate(names):
        location, noise = heads[name]
        own, share = marginal_of(noise), root[..., place, place, :]
        expected = sum((root[..., place, k, :] * one for k, one in enumerate(white)), start=jnp.zeros_like(weight))
        z = standard_residuals(data, name, location, noise)
        bare = own.log_prob(jnp.where(seen[name], data.values[name], 1), jnp.where(seen[name], location, 1))
        pull = (jnp.where(seen[name], z, 0)[..., None] - expected) / share
        more = (bare - norm.logpdf(z))[..., None] + norm.logpdf(pull) - jnp.log(share)
        if name in data.limits:
            hidden, ends = _sets(own, data.limits[name].of(seen[name]), data.values[name], location)
            inside = [
                jnp.where(there[..., None], (end[..., None] - expected) / share, infinite)
                for (there, end), infinite in zip(ends, (-jnp.inf, jnp.inf), strict=True)
            ]
            wanted = jnp.broadcast_to(hidden[..., None], weight.shape)
            chance = log_probability(Normal(jnp.ones((), root.dtype)), wanted, *inside, jnp.zeros_like(weight))
            pull = jnp.where(wanted, normal_between(points[..., place, :], *inside), pull)
            more = jnp.where(wanted, chance, more)
        white.append(pull)
        weight = weight + jnp.where(seen[name][..., None], more, 0)
    return log_mean(weight)


def _sets(own: Any, limits: Limits, values: Array, location: Array) -> tuple[Array, list[tuple[Array, Array]]]:
    """The data that are censored, and whether they have a lower and an upper end, with these in standard residuals."""
    seen = jnp.isfinite(values)
    hidden = seen & jnp.asarray(limits.censored(jnp.where(seen, values, 1)))
    ends = []
    for end in steps_of(own, limits, jnp.where(seen, values, 1)):
        there = hidden & jnp.isfinite(end)
        ends.append((there, own.standard(jnp.where(there, end, 1), jnp.where(there, location, 1))))
    return hidden, ends
