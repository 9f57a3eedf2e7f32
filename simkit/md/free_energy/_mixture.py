"""Equations of MBAR: the share of each state in a sample, and Newton's iteration for the free energies."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from ...linear import solve

ITERATIONS = 500
"""Most iterations. Newton's takes some ten; where states hardly overlap the self-consistent ones before it take more."""

SETTLED = 1e-3
"""Largest distance from the solution, in standard errors, at which free energies count as found."""


class Mixture(NamedTuple):
    """Samples of all states, and how much each counts.

    - `energies`: reduced energies of the states that were sampled, shape (states, samples).
    - `weight`: a sample's worth in independent samples, shape (samples,).
    - `counts`: its sums over the samples of each state.
    """

    energies: Float[Array, "states samples"]
    weight: Float[Array, " samples"]
    counts: Float[Array, " states"]

    def log_shares(self, f: Float[Array, " states"]) -> Float[Array, "states samples"]:
        """Logarithms of the probabilities that a sample came from each of the states, if all that is known is where it is."""
        return jax.nn.log_softmax(self._terms(f), axis=0)

    def log_density(self, f: Float[Array, " states"]) -> Float[Array, " samples"]:
        r"""$\ln \sum_k N_k e^{f_k - u_k(x_n)}$ of each sample."""
        return jax.nn.logsumexp(self._terms(f), axis=0)

    def excess(self, f: Float[Array, " states"]) -> Float[Array, " states"]:
        """Samples that each state seems to have, less those that it has; 0 at the solution."""
        return jnp.exp(self.log_shares(f)) @ self.weight - self.counts

    def curvature(self, f: Float[Array, " states"]) -> Float[Array, "states states"]:
        r"""The derivative of `excess`, with the direction in which all free energies grow together made regular: it has the
        eigenvalue $\sum_k N_k / K$, and nothing that is computed here depends on it."""
        shares = jnp.exp(self.log_shares(f))
        weighted = shares * self.weight[None]
        states = len(self.counts)
        level = jnp.sum(self.counts) / states**2
        return jnp.diag(jnp.sum(weighted, axis=1)) - weighted @ shares.T + jnp.full((states, states), level)

    def _terms(self, f: Array) -> Array:
        return (jnp.log(self.counts) + f)[:, None] - self.energies


def found(mixture: Mixture, start: Float[Array, " states"]) -> tuple[Float[Array, " states"], Bool[Array, ""]]:
    """The free energies, with sum zero, and whether they were found; without derivatives."""
    f, distance = _iterated(*lax.stop_gradient((mixture, start)))
    return f, distance <= SETTLED**2


def _iterated(mixture: Mixture, start: Array) -> tuple[Array, Array]:
    """Free energies with sum zero, and their squared distance from the solution in standard errors (the Newton decrement)."""
    eps = jnp.finfo(start.dtype).eps
    log_weight = jnp.log(mixture.weight)

    def size(f: Array) -> Array:
        return jnp.sum(mixture.excess(f) ** 2 / mixture.counts)

    def onward(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        f, _, before, _, count = carry
        excess = mixture.excess(f)
        move = solve(mixture.curvature(f), excess)
        # Newton's step, or where it leads to worse the self-consistent one, which never does for long.
        newton = f - move
        shares = jax.nn.logsumexp(mixture.log_shares(f) + log_weight[None], axis=1)
        consistent = f - (shares - jnp.log(mixture.counts))
        sizes = size(newton), size(consistent)
        better = sizes[0] < sizes[1]
        chosen, after = jnp.where(better, newton, consistent), jnp.where(better, *sizes)
        return chosen - jnp.mean(chosen), jnp.vdot(excess, move), after, after >= before, count + 1

    def unfinished(carry: tuple[Array, Array, Array, Array, Array]) -> Array:
        _, distance, _, stuck, count = carry
        near = distance <= SETTLED**2
        return (count < ITERATIONS) & ~(distance <= eps * eps) & ~(near & stuck)

    first = start - jnp.mean(start)
    infinite = jnp.full((), jnp.inf, start.dtype)
    begun = (first, infinite, size(first), jnp.zeros((), bool), jnp.zeros((), jnp.int32))
    f, distance, *_ = lax.while_loop(unfinished, onward, begun)
    return f, distance


def first_guess(energies: Float[Array, "states samples"], counts: tuple[int, ...]) -> Float[Array, " states"]:
    """Free energies by half the sum of the mean differences of energies in both states, from each state to the next."""
    owner = np.repeat(np.arange(len(counts)), counts)
    mine = jnp.asarray(owner[None] == np.arange(len(counts))[:, None]).astype(energies.dtype)
    steps = energies[1:] - energies[:-1]
    size = jnp.asarray(counts, energies.dtype)
    before = jnp.sum(steps * mine[:-1], axis=1) / size[:-1]
    after = jnp.sum(steps * mine[1:], axis=1) / size[1:]
    return jnp.concatenate([jnp.zeros(1, energies.dtype), jnp.cumsum(0.5 * (before + after))])
