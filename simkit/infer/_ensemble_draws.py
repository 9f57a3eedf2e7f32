"""Members of an inverted ensemble as draws of the posterior."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine import note_trace
from ..fitting import EnsembleFit
from ..problem import Problem, named_parts
from ._posterior import Posterior


def members_as_draws(problem: Problem, fit: EnsembleFit) -> Posterior:
    """The members of `EnsembleKalmanInversion` as a posterior of one chain, which result files, predictions and reports take."""
    density = _densities(problem.lean(), fit.members)[None]
    shape = density.shape
    warnings = [
        "Members of an ensemble are draws of the posterior as far as the model is linear over it, which no diagnostic here tells."
    ]
    if fit.reached < 1:
        warnings.append(f"The likelihood counted with a power of {fit.reached:.2g} only. Raise `max_steps`.")
    if shape[1] <= fit.members.shape[1]:
        warnings.append("No more members than unknowns: errors are too small in directions that the members leave out.")
    return Posterior(
        fit.members[None],
        density,
        jnp.zeros(shape, bool),
        jnp.zeros(shape, int),
        jnp.zeros(shape),
        problem.names,
        problem.units,
        "ensemble Kalman inversion",
        tuple(warnings),
    )


@eqx.filter_jit
def _densities(problem: Problem, members: Array) -> Array:
    note_trace("densities of members", named_parts(problem) | {"members": members})
    return jax.lax.map(problem.log_posterior, members)
