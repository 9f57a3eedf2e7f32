"""NUTS: Hamiltonian Monte Carlo without a path length to tune."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.infer.hmc_util import build_adaptation_schedule

from .._errors import ArgumentError
from ..engine import note_trace, over_members
from ._nuts_tree import LOOK, SEARCH, Block, Chain, grown
from ._target import Target


class NUTS(eqx.Module):
    """The no-U-turn sampler with a dense mass matrix, started from the fit.

    **Arguments:**

    - `target_accept`: the mean acceptance probability that the step size is tuned to; raise it towards 0.99 when
        trajectories diverge.
    - `max_depth`: a trajectory takes at most `2**max_depth` steps.
    - `block`: draws between two reports of progress, at most; the loop is compiled once for a block.

    **Reference:** Hoffman & Gelman (2014), Journal of Machine Learning Research 15:1593; Betancourt (2017), arXiv:1701.02434.
    """

    target_accept: float = eqx.field(static=True, default=0.8)
    max_depth: int = eqx.field(static=True, default=10)
    block: int = eqx.field(static=True, default=50)

    def __check_init__(self):
        if not isinstance(self.target_accept, float | int) or not 0 < self.target_accept < 1:
            raise ArgumentError(
                "Argument `target_accept` of `NUTS` must lie between 0 and 1, such as 0.8 or 0.95, but it is "
                f"{self.target_accept!r}."
            )
        for name in ("max_depth", "block"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ArgumentError(f"Argument `{name}` of `NUTS` must be a positive integer, but it is {value!r}.")


class Chains(NamedTuple):
    """Result of a block of draws, with a leading chain axis and then a draw axis."""

    theta: Float[Array, "chain draw parameter"]
    log_density: Float[Array, "chain draw"]
    diverging: Array
    steps: Array
    accept: Array


FEW_DRAWS = 4
"""Draws of warm-up for each parameter below which the mass matrix keeps the correlations of the start.

A covariance of n draws of d parameters, used as mass matrix, leaves a condition number of ((1 + r) / (1 - r))^2, r = sqrt(d / n)
(Marchenko & Pastur), and the last window of the warm-up holds about half of its draws: 34 at this limit, and no end at d = n.
"""

SHRUNK, TOWARDS = 5.0, 1e-3
"""Number of draws that a learnt covariance is shrunk by, and the part of the identity that it is shrunk towards: Stan's."""


class Frame(NamedTuple):
    """Coordinates in which chains move: u = root x, a root for each chain.

    For few parameters `roots` holds widths alone, and the mass matrix learns correlations; for many it is a root of the
    covariance of the start, and the mass matrix learns widths along its columns. Learning adds a thousandth of the identity to
    covariances, which is more than those of parameters in small units.
    """

    roots: np.ndarray
    many: bool

    @classmethod
    def of(cls, covariances: Float[np.ndarray, "chain d d"], warmup: int) -> "Frame":
        """The frame of chains that start with these covariances."""
        covariances = np.asarray(covariances, float)
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        known = np.isfinite(variances) & (variances > 0)
        widths = np.where(known, np.sqrt(np.where(known, variances, 1)), 1)
        if warmup >= FEW_DRAWS * covariances.shape[1]:
            return cls(widths, False)
        return cls(
            np.stack([_root(c / w[:, None] / w) * w[:, None] for c, w in zip(covariances, widths, strict=True)]), True
        )

    def inside(self, places: Float[np.ndarray, "chain d"]) -> np.ndarray:
        """Unconstrained coordinates -> coordinates of the frame."""
        return np.linalg.solve(self.roots, places[..., None])[..., 0] if self.many else places / self.roots


def _root(covariance: np.ndarray) -> np.ndarray:
    """The lower root of a covariance; of its diagonal where it has none."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return np.diag(np.sqrt(np.diag(covariance)))


def first_chains(frame: Frame, covariances: np.ndarray, places: np.ndarray) -> Chain:
    """Chains whose places nothing is known of yet; their first block tells the densities there, and makes no draw."""
    x = frame.inside(np.asarray(places, float))
    count, d = x.shape
    if frame.many:
        spreads = np.ones((count, d))
    else:
        spreads = np.asarray(covariances, float) / frame.roots[:, :, None] / frame.roots[:, None]
    zero, whole = np.zeros(count), np.zeros(count, np.int32)
    return as_arrays(
        {
            "place": x,
            "slope": np.zeros_like(x),
            "energy": zero,
            "phase": whole + LOOK,
            "draw": whole,
            "gradients": np.zeros(count, np.uint32),
            "chance": np.zeros((count, d + 3)),
            "step": zero + 0.5,
            "averaging": np.zeros((count, 4)),
            "spread": spreads,
            "root": _momenta(spreads),
            "mean": np.zeros_like(x),
            "scatter": np.zeros_like(spreads),
            "seen": zero,
        }
    )


def on_host(chain: Chain) -> dict[str, np.ndarray]:
    """The state of chains by name, in NumPy."""
    return {name: np.asarray(x) for name, x in chain._asdict().items()}


def as_arrays(held: Mapping[str, np.ndarray]) -> Chain:
    """Chains in JAX's default types, whatever that of the problem: what a program of them is compiled for.

    They stay NumPy's arrays: those of JAX would be cut for several devices by programs of their own, one for each shape.
    """
    real = jnp.result_type(float)
    kinds = {name: real if np.issubdtype(x.dtype, np.floating) else x.dtype for name, x in held.items()}
    found: dict[str, Any] = {name: np.asarray(x, kinds[name]) for name, x in held.items()}
    return Chain(**found)


def searching(held: Mapping[str, np.ndarray]) -> Chain:
    """Chains that look for the length of their steps next."""
    return as_arrays({**held, "phase": np.full_like(held["phase"], SEARCH)})


def _momenta(spreads: np.ndarray) -> np.ndarray:
    """Roots of the mass matrices, which turn white numbers to momenta."""
    if spreads.ndim == 2:
        return 1 / np.sqrt(spreads)
    return np.stack([np.linalg.inv(_root(spread)).T for spread in spreads])


class Part(NamedTuple):
    """A block of draws: where it ends, what is learnt in it, and whether a window, or the warm-up, ends with it."""

    until: int
    warming: bool
    learning: bool
    window_ends: bool
    warmup_ends: bool


def parts(warmup: int, total: int, size: int) -> list[Part]:
    """The blocks of a run, of `size` draws at most: none goes over the end of a window of the warm-up."""
    windows = [(pair.start, pair.end + 1) for pair in build_adaptation_schedule(warmup)] if warmup else []
    found = []
    for number, (begin, end) in enumerate(windows):
        learning = 0 < number < len(windows) - 1
        for until in [*range(begin + size, end, size), end]:
            found.append(Part(until, True, learning, learning and until == end, until == warmup))
    return found + [Part(until, False, False, False, False) for until in range(warmup + size, total + size, size)]


@eqx.filter_jit
def advance(target: Target, method: NUTS, roots: Array, chains: Chain, keys: Array, block: Block, size: int) -> Any:
    """Every chain to the end of a block of at most `size` draws, or to the density of its place."""
    count = chains.place.shape[0]
    note_trace("sample", target.parts() | {"method": method, "chains": count, "mass": chains.spread, "block": size})
    dtype = target.problem.bounds.dtype
    # Momenta at still lower densities have squares that overflow, whose products may sum to a kinetic energy of minus infinity:
    # a step there would be taken.
    highest = jnp.finfo(dtype).max ** (1 / 3)

    def run(shared: Any, members: Any) -> Any:
        (target, block), (chains, roots, keys) = shared, members

        def unconstrained(root: Array, x: Array) -> Array:
            return (root @ x if root.ndim == 2 else x * root).astype(dtype)

        def energy(x: Array, root: Array) -> tuple[Array, Array]:
            value = -target.log_density(unconstrained(root, x)).astype(x.dtype)
            value = jnp.where(value < highest, value, jnp.inf)
            return value, value

        slope = (jax.jacfwd if target.gradient == "forward" else jax.grad)(energy, has_aux=True)
        energy_of = lambda root, x: slope(x, root)[::-1]
        chains, rows = grown(energy_of, roots, chains, keys, block, size, method.max_depth)
        x, (value, diverging, steps, accept) = rows[..., :-4], jnp.moveaxis(rows[..., -4:], -1, 0)
        u = jax.vmap(lambda root, x: jax.vmap(lambda x: unconstrained(root, x))(x))(roots, x)
        theta, density = target.in_natural_units(u, -value.astype(dtype))
        return chains, Chains(theta, density, diverging > 0, steps.astype(int), accept.astype(dtype))

    return over_members(run, (target, block), (chains, roots, keys), together=True)


def block_of(method: NUTS, part: Part) -> Block:
    """The part of a block that a program of chains is told."""
    real = jnp.result_type(float)
    told = (part.until, np.int32), (part.warming, bool), (part.learning, bool), (method.target_accept, real)
    found: list[Any] = [np.asarray(value, kind) for value, kind in told]
    return Block(*found)


def retuned(chain: Chain, part: Part) -> Chain:
    """Chains after a block: with the mass matrix of the window that ends there, and the mean length of the warm-up's steps.

    On the host, so that a program does not begin anew from states that it has spread over devices.
    """
    held = on_host(chain)
    if part.window_ends:
        scatter, mean = held["scatter"], held["mean"]
        seen = held["seen"].astype(float).reshape(-1, *[1] * (scatter.ndim - 1))
        one = np.eye(mean.shape[1]) if scatter.ndim == 3 else np.ones(mean.shape[1])
        learnt = (seen * scatter / np.maximum(seen - 1, 1) + TOWARDS * SHRUNK * one) / (seen + SHRUNK)
        held |= {"spread": learnt, "root": _momenta(learnt), "phase": np.full_like(held["phase"], SEARCH)}
        held |= {name: np.zeros_like(held[name]) for name in ("mean", "scatter", "seen")}
    if part.warmup_ends:
        held["step"] = np.exp(held["averaging"][:, 0])
    return as_arrays(held)
