"""The check that a vector field has the form of the state."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._errors import ArgumentError, SimkitError
from .._types import Inputs, Time
from ._given_system import MISTAKES, misfit
from ._names import named_leaves
from ._signals import at_time
from ._system import System


def check_derivative(system: System, state: PyTree, t: Time, inputs: Inputs) -> None:
    """Refuse a vector field whose result does not look like the (encoded) state; the component is named.

    **Raises:** an `ArgumentError` where structure, shape or float type differ. Nothing is computed or compiled.
    """
    name = type(system).__name__
    try:
        slope = jax.eval_shape(lambda t, y, i: system.vector_field(t, y, at_time(i, t)), t, state, inputs)
    except MISTAKES as error:
        if not isinstance(error, SimkitError) and "traced for jit returned a value of type" in str(error):
            raise ArgumentError(
                f"`vector_field` of {name} must return numbers with the structure of the state, but it returned something else: "
                f"{str(error).partition('returned ')[2].partition(', which')[0]}."
            ) from error
        if isinstance(error, SimkitError) or (text := misfit(error, system, state, at_time(inputs, t))) is None:
            raise
        raise ArgumentError(text) from error
    if jax.tree.structure(slope) != jax.tree.structure(state):
        raise ArgumentError(
            f"`vector_field` of {name} must return the structure of the state, {jax.tree.structure(state)}, but it returned "
            f"{jax.tree.structure(slope)}."
        )
    slopes = jax.tree.leaves(slope)
    for (component, leaf), found in zip(named_leaves(state).items(), slopes, strict=True):
        label = f"component `{component}` of the state" if component else "the state"
        if leaf.shape != found.shape:
            raise ArgumentError(
                f"`vector_field` of {name} must keep the shape of {label}, {leaf.shape}, but it returned {found.shape}."
            )
        if jnp.result_type(leaf) != found.dtype:
            raise ArgumentError(
                f"`vector_field` of {name} must keep the float type of {label}, {leaf.dtype}, but it returned {found.dtype}. "
                f"System, state and inputs must share one float type: `simkit.cast(tree, {leaf.dtype})` converts them."
            )
