"""Priors as pytrees whose leaves have the same order in every process."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, PRNGKeyArray, PyTree

from ..core import as_float_array
from ._bisection import bisected


class StoredPrior(eqx.Module):
    """A NumPyro distribution, taken apart by the names of its fields.

    NumPyro flattens a distribution in the order of a set, which changes from process to process. Programs that take one as
    argument would then differ between two runs, and no compilation could be kept on disk.
    """

    values: tuple[Any, ...]  # arrays and further stored distributions, by sorted name
    names: tuple[str, ...] = eqx.field(static=True)
    settings: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    kind: type[dist.Distribution] = eqx.field(static=True)

    @classmethod
    def of(cls, prior: dist.Distribution) -> "StoredPrior":
        """Take a distribution apart; its numbers become strongly typed arrays."""
        kind = type(prior)
        names = tuple(sorted(kind.gather_pytree_data_fields()))
        values = tuple(cls._kept(vars(prior).get(name)) for name in names)
        settings = tuple((name, vars(prior).get(name)) for name in sorted(kind.gather_pytree_aux_fields()))
        return cls(values, names, settings, kind)

    def distribution(self) -> dist.Distribution:
        """The distribution again."""
        parts = {
            name: value.distribution() if isinstance(value, StoredPrior) else value
            for name, value in zip(self.names, self.values, strict=True)
        }
        settings = dict(self.settings)
        data = tuple(parts[name] for name in self.kind.gather_pytree_data_fields())
        aux = tuple(settings[name] for name in self.kind.gather_pytree_aux_fields())
        return self.kind.tree_unflatten(aux, data)

    @classmethod
    def _kept(cls, value: PyTree) -> Any:
        return cls.of(value) if isinstance(value, dist.Distribution) else jax.tree.map(as_float_array, value)


def drawn(prior: dist.Distribution, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
    """Draws of a distribution; of Student's, cut off, by its distribution function, whose inverse NumPyro borrows elsewhere."""
    base = getattr(prior, "base_dist", None)
    if not isinstance(base, dist.StudentT):
        return jnp.asarray(prior.sample(key, shape))
    below, up_to = (
        base.cdf(end) if (end := getattr(prior, name, None)) is not None else None for name in ("low", "high")
    )
    below, up_to = (jnp.asarray(default if x is None else x) for x, default in ((below, 0.0), (up_to, 1.0)))
    dtype = jnp.result_type(below, up_to, float)
    return inverted(base, jax.random.uniform(key, shape, dtype, below.astype(dtype), up_to.astype(dtype)))


def inverted(prior: dist.Distribution, u: Array) -> Array:
    """The number at which a distribution function is u, by bisection; NumPyro has few inverses."""
    edges = (getattr(prior.support, "lower_bound", -jnp.inf), getattr(prior.support, "upper_bound", jnp.inf))
    lower, upper = (jnp.broadcast_to(jnp.asarray(edge, u.dtype), u.shape) for edge in edges)
    both, above, below = jnp.isfinite(lower) & jnp.isfinite(upper), jnp.isfinite(lower), jnp.isfinite(upper)
    most = 0.9 * jnp.log(jnp.finfo(u.dtype).max)

    def place(s: Array) -> Array:
        """A number of the support for one between -1 and 1."""
        far = jnp.sinh(most * s)
        one = jnp.where(above, lower + jnp.exp(most * s), jnp.where(below, upper - jnp.exp(-most * s), far))
        return jnp.where(both, lower + 0.5 * (s + 1) * (upper - lower), one)

    beyond = lambda s: ~(jnp.asarray(prior.cdf(place(s)), u.dtype) < u)
    ends = bisected(beyond, jnp.full_like(u, -1), jnp.full_like(u, 1), 4 * jnp.finfo(u.dtype).nmant // 2)
    return place(0.5 * (ends[0] + ends[1]))
