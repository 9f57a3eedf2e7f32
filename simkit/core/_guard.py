"""The gradient of a failed simulation is zero, not NaN."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

T = TypeVar("T")

# `where` masks cannot do this: a zero cotangent times an infinite slope is NaN on its way back. A custom_vjp would forbid
# forward mode and a linear_call does not batch, so it is a primitive: linear, with a transpose that drops what is not finite.
_forget = Primitive("forget_non_finite_cotangent")
_forget.def_impl(lambda x: x)
_forget.def_abstract_eval(lambda x: x)
ad.deflinear2(_forget, lambda cotangent, _: [jnp.where(jnp.isfinite(cotangent), cotangent, 0)])
batching.primitive_batchers[_forget] = lambda arguments, axes: (_forget.bind(*arguments), axes[0])
mlir.register_lowering(_forget, mlir.lower_fun(lambda x: x, multiple_results=False))


def guard(tree: T) -> T:
    """The identity; a cotangent that comes back through it loses its non-finite entries."""

    def mark(x: Any) -> Any:
        return _forget.bind(x) if isinstance(x, jax.Array) and eqx.is_inexact_array(x) else x

    return jax.tree.map(mark, tree)
