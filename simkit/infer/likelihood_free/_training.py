"""Learning of conditional densities: Adam on the mean log density, held against simulations that it does not see."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ..._doors import check_count, check_kind
from ..._errors import ArgumentError
from ...engine import awaited, note_trace
from ._density import Density, Network, SplineFlow, line_of, new_networks

BLOCK = 100
"""Steps between two looks at the simulations held out."""

HELD_OUT = 0.1
PATIENCE = 0.2
"""Share of all steps after which a density that has grown no more is final."""

WARM = 200
"""Steps in which the learning rate rises."""

STILL_GROWING = 0.02
"""Gain of the held-out log density in the last tenth of all steps, in nats a number, from which on more steps are advised."""


class Pairs(NamedTuple):
    """Numbers and their contexts, of order 1; rows from `there` on are not simulated yet."""

    y: Float[Array, "rows size"]
    context: Float[Array, "rows context"]
    there: Int[Array, ""]


class Learned(NamedTuple):
    """A density, its mean log density over the simulations held out, and whether more steps would have helped."""

    density: Density
    held_out: float
    growing: bool
    steps: int


def check_learning(simulations: Any, rounds: Any, network: Any) -> None:
    """Refuse numbers of simulations and rounds, or a network, by which nothing can be learned.

    **Raises:** an `ArgumentError`.
    """
    check_count("simulations", simulations, least=100)
    check_count("rounds", rounds)
    if simulations < 100 * rounds:
        raise ArgumentError(
            f"Argument `simulations` must be at least 100 a round, but it is {simulations} for {rounds}."
        )
    check_kind("network", network, SplineFlow, "a flow", "Write `simkit.infer.SplineFlow(layers=5)`.")


def still_growing(steps: int) -> str:
    """The sentence about a density that has not converged."""
    return (
        f"The learned density was still growing after {steps} steps: it has not converged. Give "
        f"`network=SplineFlow(steps={4 * steps})`."
    )


def learned(
    y: np.ndarray,
    context: np.ndarray,
    method: SplineFlow,
    key: PRNGKeyArray,
    rows: int | None = None,
    series: Any = None,
) -> Learned:
    """The conditional density of `y` given `context`, from pairs in random order.

    **Arguments:**

    - `rows`: room for so many pairs, so that rounds with more and more of them share one program.
    - `series`: makes the network that condenses contexts, from a key.
    """
    first, train = jax.random.split(key)
    rows = len(y) if rows is None else rows
    held = max(1, int(HELD_OUT * len(y)))
    line = line_of(y[held:].astype(float), context[held:].astype(float))
    z = np.asarray(line.residual(jnp.asarray(y, jnp.float32), jnp.asarray(context, jnp.float32)))
    known = _padded(z[held:], context[held:], rows - max(1, int(HELD_OUT * rows)))
    unseen = _padded(z[:held], context[:held], max(1, int(HELD_OUT * rows)))
    networks = new_networks(first, y.shape[1], context.shape[1], method, series)
    arrays, static = eqx.partition(networks, eqx.is_array)
    state = jax.vmap(_optimiser(method).init)(arrays)
    no_keys = jax.random.split(train, method.members)
    found = _block(arrays, static, state, method, known, unseen, jnp.asarray(0), jnp.asarray(0), no_keys)
    begin = awaited(found, "sample", "before the first step of learning")[2]
    best, kept, last_gain = np.asarray(begin, float), arrays, 0
    history = [best.mean()]
    blocks = max(1, method.steps // BLOCK)
    for number in range(blocks):
        keys = jax.random.split(jax.random.fold_in(train, number), method.members)
        found = _block(arrays, static, state, method, known, unseen, jnp.asarray(number), jnp.asarray(BLOCK), keys)
        arrays, state, values = awaited(found, "sample", f"after {(number + 1) * BLOCK} steps of learning")
        values = np.asarray(values, float)
        better = values > best
        kept = jax.tree.map(lambda new, old, better=better: _chosen(better, new, old), arrays, kept)
        if np.any(values > best + 1e-3):
            last_gain = number
        best = np.where(better, values, best)
        history.append(best.mean())
        if number - last_gain > PATIENCE * blocks:
            break
    density = Density(line, eqx.combine(kept, static), method.members)
    tail = history[-1 - max(1, blocks // 10)] if len(history) > blocks else history[-1]
    growing = history[-1] - tail > STILL_GROWING * y.shape[1]
    held_out = float(history[-1] - line.log_volume())
    return Learned(density, held_out, bool(growing), (len(history) - 1) * BLOCK)


def _padded(y: np.ndarray, context: np.ndarray, rows: int) -> Pairs:
    fill = lambda x: jnp.asarray(np.pad(x[:rows].astype(np.float32), ((0, max(0, rows - len(x))), (0, 0))))
    return Pairs(fill(y), fill(context), jnp.asarray(min(len(y), rows)))


def _chosen(better: np.ndarray, new: Array, old: Array) -> Array:
    return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _optimiser(method: SplineFlow) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(5.0), optax.scale_by_adam(), optax.add_decayed_weights(method.decay))


@eqx.filter_jit
def _block(
    arrays: PyTree,
    static: Network,
    state: PyTree,
    method: SplineFlow,
    known: Pairs,
    unseen: Pairs,
    number: Int[Array, ""],
    steps: Int[Array, ""],
    keys: Array,
) -> tuple[PyTree, PyTree, Float[Array, " members"]]:
    """A block of steps of every member, and the mean log density over what was held out."""
    note_trace("sample, learning of a density", {"method": method, "pairs": known})
    optimiser = _optimiser(method)
    value_of = lambda arrays, y, context: eqx.combine(arrays, static).log_prob(y, context)
    loss = lambda arrays, y, context: -jnp.mean(value_of(arrays, y, context))

    def member(arrays: PyTree, state: PyTree, key: PRNGKeyArray) -> tuple[PyTree, PyTree, Array]:
        def step(i: Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            arrays, state = carry
            rows = jax.random.randint(jax.random.fold_in(key, i), (method.batch,), 0, known.there)
            gradient = jax.grad(loss)(arrays, known.y[rows], known.context[rows])
            change, state = optimiser.update(gradient, state, arrays)
            rate = _rate(method, number * BLOCK + i)
            return jax.tree.map(lambda x, dx: x - rate * dx, arrays, change), state

        arrays, state = jax.lax.fori_loop(0, steps, step, (arrays, state))
        return arrays, state, _mean(eqx.combine(arrays, static), unseen)

    return jax.vmap(member)(arrays, state, keys)


def _mean(network: Network, pairs: Pairs) -> Float[Array, ""]:
    """The mean log density of the pairs that are there."""
    values = network.log_prob(pairs.y, pairs.context)
    there = jnp.arange(values.shape[0]) < pairs.there
    return jnp.sum(jnp.where(there, values, 0)) / jnp.maximum(pairs.there, 1).astype(values.dtype)


def _rate(method: SplineFlow, step: Array) -> Float[Array, ""]:
    """The learning rate at a step: a linear rise, then a cosine to a hundredth."""
    step = step.astype(jnp.float32)
    done = jnp.clip((step - WARM) / max(method.steps - WARM, 1), 0, 1)
    falling = 0.01 + 0.99 * 0.5 * (1 + jnp.cos(math.pi * done))
    return method.learning_rate * jnp.where(step < WARM, (step + 1) / WARM, falling)
