"""The cut at which sampled states overlap least."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...linear import eigenvalues

SHARED = 1.0
"""Fewest samples that the states on both sides of a cut must share. Two states that share M samples have a free energy difference
with a variance of about 1 / M, so that below one sample its standard error is larger than k_B T."""


def weakest_cut(
    shared: Float[Array, "states states"], counts: Float[Array, " states"]
) -> tuple[Float[Array, ""], Bool[Array, " states"]]:
    r"""Number of samples that are shared across the cut that shares least, and which states lie on one side of it.

    `shared[i, j]` is $\sum_n p_i(n) p_j(n)$, with the probability that sample n came from state i. The candidates are the cuts
    of the states in the order of the second eigenvector of the overlap matrix: in a row of windows, between any two neighbours.

    **Source:** Fiedler (1973), Czechoslovak Mathematical Journal 23:298; overlap by eigenvalues: Klimovich, Shirts and Mobley
    (2015), Journal of Computer-Aided Molecular Design 29:397, doi:10.1007/s10822-015-9840-9.
    """
    states = len(counts)
    if states < 2:
        return jnp.full((), jnp.inf, counts.dtype), jnp.zeros(states, bool)
    root = jnp.sqrt(counts)
    _, vectors = eigenvalues(shared / (root[:, None] * root[None]))
    order = jnp.argsort(vectors[:, -2] / root)
    ordered = shared[order][:, order]
    places = jnp.arange(states, dtype=jnp.int32)
    first = (places[None] <= places[:-1, None]).astype(counts.dtype)  # one row a cut
    across = jnp.sum((first @ ordered) * (1 - first), axis=1)
    cut = jnp.argmin(across)
    side = jnp.zeros(states, bool).at[order].set(places <= cut.astype(jnp.int32))
    return across[cut], side
