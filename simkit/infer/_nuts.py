"""NUTS: Hamiltonian Monte Carlo without a path length to tune, in NumPyro's kernel and our own loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from numpyro.infer import NUTS as Kernel

from ..engine import note_trace, over_members
from ..linear import shielded
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
    """Result of a block of draws, with a leading chain axis and then a draw axis."""

    theta: Float[Array, "chain draw parameter"]
    log_density: Float[Array, "chain draw"]
    diverging: Array
    steps: Array
    accept: Array


class Start(NamedTuple):
    """Initial positions of chains in unconstrained coordinates, with covariances as first inverse mass matrices."""

    u: Float[Array, "chain parameter"]
    covariance: Float[Array, "chain parameter parameter"]


def kernel_for(target: Target, method: NUTS, covariance: Array) -> Kernel:
    """NumPyro's kernel for one chain. A kernel is made anew in every trace and never kept: it holds traced arrays.

    It works in JAX's default float type, whatever that of the problem, and in coordinates over the widths of the start: its
    adaptation adds a thousandth of the identity to covariances, which is more than those of parameters in small units.
    """
    dtype, widths = target.problem.bounds.dtype, _widths(covariance)
    return Kernel(
        potential_fn=lambda x: -target.log_density((x * widths).astype(dtype)).astype(x.dtype),
        inverse_mass_matrix=_default(covariance / widths[:, None] / widths),
        dense_mass=True,
        step_size=0.5,
        target_accept_prob=method.target_accept,
        max_tree_depth=method.max_depth,
        forward_mode_differentiation=target.gradient == "forward",
    )


def _widths(covariance: Array) -> Array:
    """Standard deviations of the parameters; 1 where there is none."""
    variances = jnp.diagonal(covariance)
    known = jnp.isfinite(variances) & (variances > 0)
    return jnp.where(known, jnp.sqrt(jnp.where(known, variances, 1)), 1)


@eqx.filter_jit
def first_states(target: Target, method: NUTS, start: Start, keys: Array, warmup: int) -> Any:
    """The state of every chain before its first draw."""
    note_trace("sample, first states", target.parts() | {"method": method, "chains": start.u, "warmup": warmup})
    return over_members(_first(method, warmup), target, (start.u, start.covariance, keys))


@eqx.filter_jit
def advance(
    target: Target, method: NUTS, covariance: Array, states: PyTree, warmup: int, draws: int
) -> tuple[Any, Chains]:
    """Every chain some draws further."""
    chains = jax.tree.leaves(states)[0]
    note_trace("sample", target.parts() | {"method": method, "chains": chains, "warmup": warmup, "block": draws})

    def chain(target: Target, member: PyTree) -> Any:
        state, covariance = member
        kernel, widths = kernel_for(target, method, covariance), _widths(covariance)
        # The kernel prepares its sampling function in `init`; the abstract call does that and compiles nothing.
        jax.eval_shape(lambda u, key: kernel.init(key, warmup, init_params=u), state.z, state.rng_key)

        def one(state: PyTree) -> Any:
            state = kernel.sample(state, (), {})
            u = (state.z * widths).astype(covariance.dtype)
            density = -state.potential_energy.astype(u.dtype) - target.coordinates.log_volume(u)
            found = target.coordinates.natural(u), density, state.diverging, state.num_steps
            return state, (*found, state.accept_prob.astype(u.dtype))

        # Its adaptation decomposes the covariance of each chain.
        one = shielded(one)
        state, found = jax.lax.scan(lambda state, _: one(state), state, None, length=draws)
        return state, Chains(*found)

    return over_members(chain, target, (states, covariance))


def _first(method: NUTS, warmup: int) -> Any:
    def init(target: Target, member: PyTree) -> Any:
        u, covariance, key = member
        kernel = kernel_for(target, method, covariance)
        return shielded(lambda x, key: kernel.init(key, warmup, init_params=x))(_default(u / _widths(covariance)), key)

    return init


def _default(x: Array) -> Array:
    return x.astype(jnp.result_type(float))
