"""A pass of particles over all data in which their parameters walk too: one iteration of iterated filtering."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ..core import Setup, started
from ..problem import Problem
from ._euler import Euler
from ._guided import guide_of, guided
from ._particles import ParticleFilter, middle, moved
from ._resampling import systematic
from ._rows import log_density, rows_of


class Walk(NamedTuple):
    """Random walk of the parameters of particles.

    - `width`: standard deviation of a step before each datum, shape `(parameters,)`, at the start of the pass.
    - `decay`: factor of the width over the whole pass.
    - `early`: parameters that act through initial states alone, which step once, at the start of an experiment.
    """

    width: Float[Array, " parameters"]
    decay: Float[Array, ""]
    early: Array


def perturbed_pass(
    problem: Problem,
    particles: Float[Array, "particles parameters"],
    natural: Callable[[Array], Array],
    log_prior: Callable[[Array], Array],
    walk: Walk,
    key: PRNGKeyArray,
) -> tuple[Float[Array, "particles parameters"], Int[Array, ""]]:
    """Parameters of all particles after all data of all experiments, and at how many data all particles died.

    Experiments follow each other in random order (Breto, Ionides and King 2020, doi:10.1080/01621459.2019.1604367); the prior
    counts in equal parts at each datum.

    **Arguments:** `natural`, `log_prior`: the way from a particle's coordinates to natural units, and the log prior density there.
    """
    likelihood: Any = problem.likelihood
    assert isinstance(likelihood, ParticleFilter)
    data, model = problem.dataset, problem.model
    rows, times, count = rows_of(data), data.times, particles.shape[0]
    experiments, length = times.shape[0], times.shape[1] - 1
    seen = jnp.stack([jnp.isfinite(x).reshape(experiments, length, -1).any(axis=-1) for x in rows.values.values()]).any(
        axis=0
    )
    total = jnp.maximum(jnp.sum(seen), 1).astype(particles.dtype)

    def setup_of(x: Array, place: Array) -> Setup:
        put: Any = model.setup(natural(x), place)
        return Setup(put.system, started(put.y0), put.inputs, put.noise)

    first = jax.vmap(lambda x: setup_of(x, jnp.zeros((), int)).y0)(particles)

    def step(carry: Any, now: tuple[Array, Array, Array, PRNGKeyArray]) -> tuple[Any, Array]:
        (x, states), (place, row, done, key) = carry, now
        for_walk, for_paths, for_choice = jax.random.split(key, 3)
        here = seen[place, row]
        size = walk.width * walk.decay ** (done / total)
        size = jnp.where(walk.early, jnp.where(row == 0, size * jnp.sqrt(total), 0), jnp.where(here, size, 0))
        x = x + size[None] * jax.random.normal(for_walk, x.shape, x.dtype)
        datum = jax.tree.map(lambda leaf: leaf[place, row], rows)
        t, until = times[place, row], times[place, row + 1]

        starts = jax.vmap(lambda x: setup_of(x, place).y0)(x)
        states = jax.tree.map(lambda new, old: jnp.where(row == 0, new, old), starts, states)
        guide = None
        if likelihood.proposal == "guided":
            # One guide for all: that of the mean parameters and the mean state.
            even = jnp.zeros((count,), x.dtype)
            euler = Euler.of(setup_of(jnp.mean(x, axis=0), place), model.method)
            guide = guide_of(euler, middle(states, even), t, until, datum)

        def one(x: Array, y: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
            setup = setup_of(x, place)
            share = jnp.where(here, log_prior(x) / total, 0)
            if guide is not None:
                flown = guided(Euler.of(setup, model.method), guide, y, t, until, datum, key)
                return flown.state, flown.gained + share
            y = moved(setup, y, t, until, model.method, key)
            return y, log_density(setup, until, y, datum) + share

        states, density = jax.vmap(one)(x, states, jax.random.split(for_paths, count))
        density = jnp.where(jnp.isfinite(density), density, -jnp.inf)
        best = jnp.max(density)
        alive = jnp.isfinite(best)
        weight = jnp.where(alive, jnp.exp(density - jnp.where(alive, best, 0)), 1)
        chosen = systematic(for_choice, weight)
        return jax.tree.map(lambda leaf: leaf[chosen], (x, states)), ~alive

    for_order, for_steps = jax.random.split(key)
    order = jax.random.permutation(for_order, experiments)
    places, within = jnp.repeat(order, length), jnp.tile(jnp.arange(length), experiments)
    done = jnp.cumsum(seen[places, within]).astype(particles.dtype)
    keys = jax.random.split(for_steps, experiments * length)
    (particles, _), dead = jax.lax.scan(step, (particles, first), (places, within, done, keys))
    return particles, jnp.sum(dead, dtype=int)
