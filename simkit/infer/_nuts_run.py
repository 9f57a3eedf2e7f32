"""A posterior by NUTS: where chains begin, their blocks of draws, and chains that are stuck."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from .._errors import SamplingError
from .._processes import from_first, several
from .._progress import Progress
from ..engine import awaited, over_processes
from ..stores import Followed, Journal
from ._counts import Counts
from ._diagnostics import describe_quality, stuck_chains, untuned_chains
from ._journal_blocks import in_blocks
from ._modes import Modes, describe_modes, visited
from ._nuts import NUTS, Chains, Frame, Part, advance, block_of, first_chains, on_host, parts, retuned, searching
from ._nuts_tree import Chain
from ._posterior import Posterior
from ._starts import spread_starts
from ._target import Target

RESTARTS = 2
"""Number of restarts of stuck chains before the result is refused."""

FULL = 150
"""Number of draws of the shortest warm-up whose windows have their full lengths: steps of a shorter one may be wrong anywhere."""

LOOKING = Part(0, False, False, False, False)
"""A block without draws, after which the density of each place is known."""


@dataclasses.dataclass
class Run:
    """The parts that all blocks of a posterior share."""

    target: Target
    method: NUTS
    counts: Counts
    size: int
    counter: Progress
    held: Journal | Followed | None

    def looked_at(self, frame: Frame, covariances: np.ndarray, places: np.ndarray) -> dict[str, np.ndarray]:
        """The state of chains at the given places, with the densities there, by the program that draws."""
        chains = first_chains(frame, covariances, places)
        keys = np.zeros((len(places), 2), np.uint32)  # which no draw asks for
        found, _ = self._advanced(frame, chains, keys, LOOKING, "where chains begin")
        return on_host(found)

    def draws(self, frame: Frame, chains: Chain, key: PRNGKeyArray, label: str) -> Chains:
        """Blocks of draws in a Python loop around one compiled program: progress, Ctrl-C and stores come for free."""
        _, draws, warmup = self.counts
        total = warmup + draws
        schedule, divergent = parts(warmup, total, self.size), 0
        keys = hash_keys(key, chains.place.shape[0])
        begun = [0, *(part.until for part in schedule)]
        self.counter.begin(total, "draws a chain")

        def step(done: int, state: Chain) -> tuple[Chain, Chains]:
            nonlocal divergent
            part, first = schedule[done], begun[done]
            stage = f"draws {first} to {part.until} of {total} a chain"
            state, block = self._advanced(frame, state, keys, part, stage)
            if not self.counter.silent:
                self.counter.kept = self.counter.kept if self.counter.computed else first
                divergent += int(np.asarray(block.diverging).sum())
                self.counter.add(min(part.until, total) - first, detail=f"{divergent} divergent")
            return retuned(state, part), block

        least = 1 + sum(part.warming for part in schedule)
        begin = lambda: chains
        blocks = in_blocks(len(schedule), begin, step, self.held, label, Chains, key, least=least)
        # Joined outside of JAX: a slice of every new length would be a program of its own.
        lengths = np.diff(begun)

        def joined(*rows: Array) -> Array:
            kept = [np.asarray(x)[:, :length] for x, length in zip(rows, lengths, strict=False)]
            return jnp.asarray(np.concatenate(kept, axis=1)[:, warmup:total])

        return jax.tree.map(joined, *blocks)

    def _advanced(self, frame: Frame, chains: Chain, keys: np.ndarray, part: Part, stage: str) -> tuple[Chain, Chains]:
        """Chains after a block; of several processes each takes its share of them there, and gets the others."""
        block = block_of(self.method, part)

        def here(roots: Any, keys: Any, *state: Any) -> tuple[Chain, Chains]:
            return awaited(
                advance(self.target, self.method, roots, Chain(*state), keys, block, self.size), "sample", stage
            )

        return over_processes(here, np.asarray(frame.roots, self.target.problem.bounds.dtype), keys, *chains)


def hash_keys(key: PRNGKeyArray, count: int) -> np.ndarray:
    """Two words for each chain, whatever kind of key the caller has."""
    return np.asarray(_words(key, count))


@functools.partial(jax.jit, static_argnums=1)
def _words(key: PRNGKeyArray, count: int) -> Array:
    return jax.random.bits(key, (count, 2), jnp.uint32)


def sample_nuts(
    target: Target,
    method: NUTS,
    modes: Modes,
    counts: Counts,
    key: PRNGKeyArray,
    counter: Progress,
    held: Journal | Followed | None,
) -> Posterior:
    """Draws of chains that begin around the modes of a fit."""
    chains, draws, warmup = counts
    size = min(method.block, warmup + draws) if held is None else held.settings["every"]
    run = Run(target, method, counts, size, counter, held)
    place, first, again = jax.random.split(key, 3)
    mode = modes.allotted(chains)
    covariances = np.asarray(modes.covariances[mode])
    frame = Frame.of(covariances, warmup)
    begin = _first_places(run, modes, mode, frame, place)
    found = run.draws(frame, searching(begin), first, "draws")
    warnings: list[str] = []
    for attempt in range(RESTARTS + 1):
        # What is left of chains with wrong steps in the end is a matter of warnings.
        stuck = _stuck(found, method.target_accept if attempt < RESTARTS and warmup >= FULL else None)
        if not stuck:
            break
        if found.theta.shape[1] < draws:  # the time was up: what is stuck is judged once all draws are there
            named = ", ".join(f"chain {chain + 1} ({reason})" for chain, reason in stuck.items())
            warnings.append(f"Stuck so far: {named}.")
            break
        named = "; ".join(f"chain {chain + 1} ({reason})" for chain, reason in stuck.items())
        if attempt == RESTARTS or len(stuck) == chains:
            raise SamplingError(
                f"Stuck after {attempt} restart(s): {named}. Chains that are stuck must not be averaged with the others. Look at "
                "the fit's `optima()`, take `TemperedSMC()`, give more informative priors, or reparametrise."
            )
        warnings.append(f"Stuck and started again from the others: {named}.")
        place, first, again = jax.random.split(again, 3)
        # What the others drew decides where the stuck ones begin, so a run with more draws has other second chances.
        label = f"again{attempt + 1}of{draws}"
        found = _restarted(
            run, found, covariances, stuck, place, lambda frame, begin, k=first, n=label: run.draws(frame, begin, k, n)
        )
    explained = []
    if len(modes.shares) > 1:
        u = jax.vmap(jax.vmap(target.coordinates.unconstrained))(found.theta)
        explained = describe_modes(modes, chains, visited(modes, np.asarray(u)))
    warnings += explained + describe_quality(found.theta, found.diverging, bool(explained))
    problem = target.problem
    return Posterior(*found, problem.names, problem.units, "NUTS", tuple(warnings))


def _stuck(found: Chains, target: float | None) -> dict[int, str]:
    """The chains that have to start again, each with the reason; those with wrong steps where a `target` of acceptance is given.

    Of several processes the first decides for all: what follows is computed together.
    """

    def judged() -> dict[int, str]:
        stuck = stuck_chains(found.theta, found.log_density)
        return stuck if stuck or target is None else untuned_chains(found.accept, target)

    return from_first(judged) if several() else judged()


def _first_places(
    run: Run, modes: Modes, mode: Int[np.ndarray, " chain"], frame: Frame, key: PRNGKeyArray
) -> dict[str, np.ndarray]:
    """Chains at places drawn around their modes."""
    looks: list[dict[str, np.ndarray]] = []
    covariances = np.asarray(modes.covariances[mode])

    def densities(places: np.ndarray) -> np.ndarray:
        looks.append(run.looked_at(frame, covariances, places))
        return -looks[-1]["energy"]

    which = spread_starts(densities, modes.centers[mode], modes.roots()[mode], mode, key)
    return {name: np.stack([look[name] for look in looks])[which, np.arange(len(mode))] for name in looks[0]}


def _restarted(
    run: Run,
    found: Chains,
    covariances: np.ndarray,
    stuck: dict[int, str],
    place: PRNGKeyArray,
    draws: Callable[[Frame, Chain], Chains],
) -> Chains:
    """The chains with the stuck ones run again from draws of the good ones, in the program that is compiled already."""
    chains = found.theta.shape[0]
    good = [chain for chain in range(chains) if chain not in stuck]
    pool = jnp.concatenate([found.theta[chain] for chain in good])
    picks = jax.random.choice(place, pool.shape[0], (chains,), replace=pool.shape[0] < chains)
    places = jax.vmap(run.target.coordinates.unconstrained)(pool[picks])
    own = covariances[np.array(good)[np.asarray(picks) // found.theta.shape[1]]]
    frame = Frame.of(own, run.counts.warmup)
    fresh = draws(frame, searching(run.looked_at(frame, own, np.asarray(places))))
    replace = np.array([chain in stuck for chain in range(chains)])

    def merge(new: Array, old: Array) -> Array:
        return jnp.where(replace.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(merge, fresh, found)
