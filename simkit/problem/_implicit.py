"""Derivatives of numbers that solve an equation, in any transformation."""

from collections.abc import Callable

import jax
from jaxtyping import Array, Float

Values = Float[Array, "..."]


def solving(root: Values, step: Callable[[Values], Values]) -> Values:
    r"""The root that was found, with the derivatives up to the third that its equation gives it.

    Two steps of Newton's method from the root change nothing of it but how it depends on the equation's numbers. A rule of
    `jax.custom_jvp` would be lost, without a word, in second derivatives that go backwards through a loop (JAX before 0.12).

    **Arguments:** `step`: x -> $f(x) / f'(x)$ of the equation f(x) = 0, differentiable by all that f depends on.
    """
    start = jax.lax.stop_gradient(root)
    found = start
    for _ in range(2):
        found = found - step(found)
    return start + (found - jax.lax.stop_gradient(found))
