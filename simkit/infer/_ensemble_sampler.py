"""An affine-invariant ensemble sampler: many walkers, no gradients."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..engine import awaited, note_trace
from ..stores import Followed, Journal
from ._diagnostics import describe_quality
from ._journal_blocks import in_blocks
from ._modes import Modes, describe_modes, visited
from ._posterior import Posterior
from ._target import Target
from ._walked import Walked, joined


class EnsembleSampler(eqx.Module):
    """Walkers that propose along the lines between each other (the stretch move): needs no gradients and no tuning.

    Good for up to some ten parameters, and for likelihoods without useful gradients. A chain of the result is one walker;
    draws are thinned, so that `draws` of each walker are kept.

    **Arguments:** `walkers` (even, at least twice the parameters; by default four times), `thin` (moves between two draws
    that are kept) and `stretch` (the length of a proposal; 2 is the usual value).

    **Reference:** Goodman & Weare (2010), doi:10.2140/camcos.2010.5.65; in parallel as in Foreman-Mackey et al. (2013),
    doi:10.1086/670067.
    """

    walkers: int | None = eqx.field(static=True, default=None)
    thin: int = eqx.field(static=True, default=10)
    stretch: float = eqx.field(static=True, default=2.0)


def sample_ensemble(
    target: Target,
    method: EnsembleSampler,
    modes: Modes,
    chains: int,
    draws: int,
    warmup: int,
    key: PRNGKeyArray,
    held: Journal | Followed | None,
) -> Posterior:
    """Draws by the stretch move, started around the modes of the fit."""
    size = modes.centers.shape[1]
    walkers = max(method.walkers or 4 * size, 2 * size, chains, 4)
    walkers += walkers % 2
    place, run = jax.random.split(key)
    first = -(-warmup // method.thin)
    block = first + draws if held is None else held.settings["every"]

    def begin() -> tuple[Array, Array]:
        mode, dtype = modes.allotted(walkers), modes.centers.dtype
        roots = 0.5 * modes.roots()[mode]
        # Each half of the walkers proposes along lines to the other half, so both have walkers in all modes.
        order = np.argsort(np.arange(walkers) % 2, kind="stable")
        white = jax.random.normal(place, (walkers, size), dtype)
        us = jnp.asarray(modes.centers[mode][order]) + jnp.einsum("wij,wj->wi", jnp.asarray(roots[order]), white)
        return us, jnp.zeros(walkers, dtype)

    def step(done: int, state: tuple[Array, Array]) -> tuple[Any, Walked]:
        found = _run(target, method, *state, run, jnp.asarray(done * block), block)
        return awaited(found, "sample", f"after {done * block} draws of {walkers} walkers")

    blocks = in_blocks(-(-(first + draws) // block), begin, step, held, "walk", Walked, key, least=first // block + 1)
    found, theta, density = joined(target, blocks, slice(first, first + draws))
    none = jnp.zeros(density.shape, bool)
    names, problem = target.problem.names, target.problem
    steps = jnp.full(density.shape, method.thin)
    units = tuple(problem.unit(name) for name in names)
    explained = describe_modes(modes, walkers, visited(modes, np.asarray(found.us)))
    warnings = (*explained, *describe_quality(theta, none, bool(explained)))
    return Posterior(theta, density, none, steps, found.accepted, names, units, "stretch-move ensemble", warnings)


@eqx.filter_jit
def _run(
    target: Target, method: EnsembleSampler, us: Array, density: Array, key: PRNGKeyArray, first: Array, draws: int
) -> tuple[tuple[Array, Array], Walked]:
    """All walkers some draws further; before the `first` of all their densities are not known yet."""
    note_trace("sample", target.parts() | {"method": method, "walkers": us, "block": draws})
    walkers, size = us.shape
    half = walkers // 2
    densities = jax.vmap(target.log_density)

    def move(movers: Array, density: Array, others: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        length, partner, accept = jax.random.split(key, 3)
        a = method.stretch
        z = ((a - 1) * jax.random.uniform(length, (half,), movers.dtype) + 1) ** 2 / a
        other = others[jax.random.randint(partner, (half,), 0, half)]
        proposal = other + z[:, None] * (movers - other)
        new = densities(proposal)
        ratio = (size - 1) * jnp.log(z) + new - density
        taken = jnp.log(jax.random.uniform(accept, (half,), movers.dtype)) < ratio
        return jnp.where(taken[:, None], proposal, movers), jnp.where(taken, new, density), taken

    def sweep(state: tuple[Array, Array], key: PRNGKeyArray):
        us, density = state
        one, two = jax.random.split(key)
        first, first_density, taken = move(us[:half], density[:half], us[half:], one)
        second, second_density, also = move(us[half:], density[half:], first, two)
        state = jnp.concatenate([first, second]), jnp.concatenate([first_density, second_density])
        return state, jnp.concatenate([taken, also])

    def kept(state: tuple[Array, Array], key: PRNGKeyArray):
        state, taken = jax.lax.scan(sweep, state, jax.random.split(key, method.thin))
        return state, (*state, jnp.mean(taken, axis=0, dtype=us.dtype))

    density = jax.lax.cond(first == 0, densities, lambda us: density, us)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, first + jnp.arange(draws))
    state, found = jax.lax.scan(kept, (us, density), keys)
    return state, Walked(*(jnp.moveaxis(x, 0, 1) for x in found))
