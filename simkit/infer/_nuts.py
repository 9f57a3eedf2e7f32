"""NUTS: Hamiltonian Monte Carlo without a path length to tune, in NumPyro's kernel and our own loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.infer import NUTS as Kernel

from ..engine import note_trace, over_members
from ._target import Target


class NUTS(eqx.Module):
    """The no-U-turn sampler with a dense mass matrix, started from the fit.

    **Arguments:**

    - `target_accept`: the mean acceptance probability that the step size is tuned to; raise it towards 0.99 when
        trajectories diverge.
    - `max_depth`: a trajectory takes at most `2**max_depth` steps.
    - `block`: draws between two reports of progress; the loop is compiled once for a block.

    **Reference:** Hoffman & Gelman (2014), Journal of Machine Learning Research 15:1593.
    """

    target_accept: float = eqx.field(static=True, default=0.8)
    max_depth: int = eqx.field(static=True, default=10)
    block: int = eqx.field(static=True, default=50)


class Chains(NamedTuple):
    """What a block of draws leaves behind, with a leading chain axis and then a draw axis."""

    theta: Float[Array, "chain draw parameter"]
    log_density: Float[Array, "chain draw"]
    diverging: Array
    steps: Array
    accept: Array


class Start(NamedTuple):
    """Where chains begin, in unconstrained coordinates, and the covariance that serves as inverse mass matrix."""

    u: Float[Array, "chain parameter"]
    covariance: Float[Array, "parameter parameter"]


def kernel_for(target: Target, method: NUTS, covariance: Array) -> Kernel:
    """NumPyro's kernel for one chain. A kernel is made anew in every trace and never kept: it holds traced arrays.

    It works in JAX's default float type, whatever that of the problem.
    """
    dtype = target.problem.bounds.dtype
    return Kernel(
        potential_fn=lambda u: -target.log_density(u.astype(dtype)).astype(u.dtype),
        inverse_mass_matrix=_default(covariance),
        dense_mass=True,
        step_size=0.5,
        target_accept_prob=method.target_accept,
        max_tree_depth=method.max_depth,
        forward_mode_differentiation=target.gradient == "forward",
    )


@eqx.filter_jit
def first_states(target: Target, method: NUTS, start: Start, keys: Array, warmup: int) -> Any:
    """The state of every chain before its first draw."""
    note_trace("sample, first states", target.parts() | {"method": method, "chains": start.u, "warmup": warmup})
    return over_members(_first(method, warmup), (target, start.covariance), (start.u, keys))


@eqx.filter_jit
def advance(
    target: Target, method: NUTS, covariance: Array, states: Any, warmup: int, draws: int
) -> tuple[Any, Chains]:
    """Every chain some draws further."""
    chains = jax.tree.leaves(states)[0]
    note_trace("sample", target.parts() | {"method": method, "chains": chains, "warmup": warmup, "block": draws})

    def chain(shared: Any, state: Any) -> Any:
        target, covariance = shared
        kernel = kernel_for(target, method, covariance)
        # The kernel prepares its sampling function in `init`; the abstract call does that and compiles nothing.
        jax.eval_shape(lambda u, key: kernel.init(key, warmup, init_params=u), state.z, state.rng_key)

        def one(state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            u = state.z.astype(covariance.dtype)
            density = -state.potential_energy.astype(u.dtype) - target.coordinates.log_volume(u)
            found = target.coordinates.natural(u), density, state.diverging, state.num_steps
            return state, (*found, state.accept_prob.astype(u.dtype))

        state, found = jax.lax.scan(one, state, None, length=draws)
        return state, Chains(*found)

    return over_members(chain, (target, covariance), states)


def _first(method: NUTS, warmup: int) -> Any:
    def init(shared: Any, member: Any) -> Any:
        target, covariance = shared
        u, key = member
        return kernel_for(target, method, covariance).init(key, warmup, init_params=_default(u))

    return init


def _default(x: Array) -> Array:
    return x.astype(jnp.result_type(float))
