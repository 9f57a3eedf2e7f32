"""Random data at given parameters, many data sets at once."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..core import Status
from ..engine import note_trace, over_members
from ..problem import Problem, named_parts


@eqx.filter_jit
def simulated(problem: Problem, truths: Array, keys: Array) -> tuple[dict[str, Array], Array]:
    """Random data at each row of `truths`, and whether they could be simulated."""
    note_trace("calibrate", named_parts(problem) | {"simulations": truths})

    def one(problem: Problem, member: tuple[Array, PRNGKeyArray]) -> tuple[dict[str, Array], Array]:
        truth, key = member
        data = problem.simulate_data(truth, key)
        seen = {name: jnp.isfinite(values) for name, values in problem.data.items()}
        drawn = jnp.stack([jnp.isfinite(x).all(where=seen[name]) for name, x in data.items()]).all()
        if not problem.likelihood.independent:
            return data, drawn
        heads, status = problem.heads(truth)
        finite = jnp.stack([jnp.isfinite(location).all() for location, _ in heads.values()]).all()
        return data, drawn & jnp.all(status == Status.OK) & finite

    return over_members(one, problem, (truths, keys))
