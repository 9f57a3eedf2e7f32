"""Spread of a log likelihood that is estimated with random numbers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_key, shown
from .._errors import ArgumentError
from ..engine import note_trace
from ..problem import Problem, check_problem, named_parts, with_fresh_key
from ._rows import as_parameters


def spread(
    problem: Problem, theta: Any, *, key: PRNGKeyArray, repeats: int = 20
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""Return mean and standard deviation of the estimated log likelihood over fresh random numbers.

    **Arguments:** `problem` with the likelihood `ParticleFilter`; `theta`, free parameters in natural units; `repeats`, how many
    estimates: the standard deviation has a relative error of $1 / \sqrt{2 (\mathrm{repeats} - 1)}$.

    For particle Markov chains aim at a standard deviation of 1 to 1.5: the number of particles times its square over 1.5.
    """
    check_problem(problem)
    if problem.likelihood.with_key(key) is None:
        raise ArgumentError(
            f"The likelihood `{type(problem.likelihood).__name__}` draws no random numbers, so that its logarithm has no spread. "
            "`ParticleFilter` has one."
        )
    check_key(key, needed=True)
    if not isinstance(repeats, int) or repeats < 2:
        raise ArgumentError(f"Argument `repeats` must be an integer of at least 2, but it is {shown(repeats)}.")
    values = _values(problem, as_parameters(problem, theta), jax.random.split(key, repeats))
    return jnp.mean(values), jnp.std(values, ddof=1)


@eqx.filter_jit
def _values(problem: Problem, theta: Array, keys: Array) -> Array:
    note_trace("spread of a log likelihood", named_parts(problem) | {"repeats": keys})
    return jax.lax.map(lambda key: with_fresh_key(problem, key).log_likelihood(theta)[0], keys)
