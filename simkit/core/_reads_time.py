"""Functions of time that may not depend on it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval as pe

from .._types import Time


def reads_time(function: Callable[[Time], Any], t: Time) -> bool:
    """Tell whether a result of a function of time depends on it: whether its program reads the time, whatever the numbers are."""
    program = jax.make_jaxpr(function)(jnp.asarray(t, float)).jaxpr
    return bool(pe.dce_jaxpr(program, [True] * len(program.outvars))[1][0])
