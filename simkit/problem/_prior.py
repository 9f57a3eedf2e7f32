"""Priors as pytrees whose leaves have the same order in every process."""

from typing import Any

import equinox as eqx
import jax
import numpyro.distributions as dist
from jaxtyping import PyTree

from ..core import as_float_array


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
