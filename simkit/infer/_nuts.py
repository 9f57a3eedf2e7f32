"""NUTS: Hamiltonian Monte Carlo without a path length to tune, in NumPyro's kernel and our own loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree
from numpyro.infer import NUTS as Kernel

from ..engine import note_trace, over_members
from ..linear import cholesky, shielded
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


FEW_DRAWS = 4
"""Draws of warm-up for each parameter below which the mass matrix keeps the correlations of the start.

A covariance of n draws of d parameters, used as mass matrix, leaves a condition number of ((1 + r) / (1 - r))^2, r = sqrt(d / n)
(Marchenko & Pastur), and the last window of the warm-up holds about half of its draws: 34 at this limit, and no end at d = n.
"""


class Frame(NamedTuple):
    """Coordinates in which a chain moves: u = root x.

    For few parameters `root` holds widths alone, and the mass matrix learns correlations; for many it is a root of the
    covariance of the start, and the mass matrix learns widths along its columns.
    """

    root: Array
    many: bool

    @classmethod
    def of(cls, covariance: Array, warmup: int) -> "Frame":
        """The frame of a chain that starts with this covariance."""
        widths = _widths(covariance)
        if warmup >= FEW_DRAWS * covariance.shape[0]:
            return cls(widths, False)
        root = cholesky(covariance / widths[:, None] / widths) * widths[:, None]
        return cls(jnp.where(jnp.isfinite(root).all(), root, jnp.diag(widths)), True)

    def place(self, x: Array) -> Array:
        """Coordinates of the frame -> unconstrained coordinates."""
        return self.root @ x.astype(self.root.dtype) if self.many else x * self.root

    def inside(self, u: Array) -> Array:
        """Unconstrained coordinates -> coordinates of the frame."""
        return _default(solve_triangular(self.root, u, lower=True) if self.many else u / self.root)


def kernel_for(target: Target, method: NUTS, covariance: Array, frame: Frame) -> Kernel:
    """NumPyro's kernel for one chain. A kernel is made anew in every trace and never kept: it holds traced arrays.

    It works in JAX's default float type, whatever that of the problem, and in coordinates over the widths of the start: its
    adaptation adds a thousandth of the identity to covariances, which is more than those of parameters in small units.
    """
    dtype = target.problem.bounds.dtype
    # Momenta at still lower densities have squares that overflow, whose products may sum to a kinetic energy of minus infinity:
    # a step there would be taken.
    highest = jnp.finfo(dtype).max ** (1 / 3)

    def potential(x: Array) -> Array:
        value = -target.log_density(frame.place(x).astype(dtype)).astype(x.dtype)
        return jnp.where(value < highest, value, jnp.inf)

    scaled = jnp.ones_like(covariance[0]) if frame.many else covariance / frame.root[:, None] / frame.root
    return Kernel(
        potential_fn=potential,
        inverse_mass_matrix=_default(scaled),
        dense_mass=not frame.many,
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
        frame = Frame.of(covariance, warmup)
        kernel = kernel_for(target, method, covariance, frame)
        # The kernel prepares its sampling function in `init`; the abstract call does that and compiles nothing.
        jax.eval_shape(lambda u, key: kernel.init(key, warmup, init_params=u), state.z, state.rng_key)

        def one(state: PyTree) -> Any:
            state = kernel.sample(state, (), {})
            u = frame.place(state.z).astype(covariance.dtype)
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
        frame = Frame.of(covariance, warmup)
        kernel = kernel_for(target, method, covariance, frame)
        return shielded(lambda x, key: kernel.init(key, warmup, init_params=x))(frame.inside(u), key)

    return init


def _default(x: Array) -> Array:
    return x.astype(jnp.result_type(float))
