"""Chains of thermostats, after Nose, Hoover, Martyna, Klein and Tuckerman: what couples to a kinetic energy."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

# The weights of Suzuki and Yoshida that make five steps of order 2 one of order 4.
_WEIGHT = 1 / (4 - 4 ** (1 / 3))
WEIGHTS = (_WEIGHT, _WEIGHT, 1 - 4 * _WEIGHT, _WEIGHT, _WEIGHT)


class Chain(eqx.Module):
    """Positions and momenta of the thermostats of a chain."""

    position: Array
    momentum: Array


class Scales(NamedTuple):
    """Constants of each thermostat: twice the mean kinetic energy that it holds, and its mass."""

    heats: Array
    masses: Array


def resting_chain(length: int, dtype: DTypeLike) -> Chain:
    still = jnp.zeros(length, dtype)
    return Chain(still, still)


def chain_scales(length: int, freedom: ArrayLike, thermal: Array, period: Array, dtype: DTypeLike) -> Scales:
    """Return the constants of a chain for a number of degrees of freedom, a thermal energy and the period of its oscillation."""
    counts = jnp.ones(length, dtype).at[0].set(jnp.asarray(freedom, dtype))
    heats = counts * thermal.astype(dtype)
    return Scales(heats, heats * ((period / (2 * np.pi)) ** 2).astype(dtype))


def chain_energy(chain: Chain, scales: Scales) -> Array:
    return jnp.sum(0.5 * chain.momentum**2 / scales.masses + scales.heats * chain.position)


def chained(chain: Chain, scales: Scales, doubled: Array, h: Array) -> tuple[Array, Chain]:
    """Return the factor of the momenta over a time h in which nothing else moves, and the chain after it.

    `doubled` is twice the kinetic energy. Two halves, so that it is its own inverse for -h.
    """
    heats, masses = scales
    scale, position, momentum = jnp.ones_like(doubled), chain.position, list(chain.momentum)
    last = len(momentum) - 1

    def pushed(j: int, w: Array) -> None:
        """A quarter of a step for the momentum of thermostat j, by what drives it and by the next one's friction."""
        driven = doubled * scale * scale if j == 0 else momentum[j - 1] ** 2 / masses[j - 1]
        half = 1.0 if j == last else jnp.exp(-0.125 * w * momentum[j + 1] / masses[j + 1])
        momentum[j] = (momentum[j] * half + 0.25 * w * (driven - heats[j])) * half

    for weight in WEIGHTS:
        w = weight * h * 2
        for j in range(last, -1, -1):
            pushed(j, w)
        scale = scale * jnp.exp(-0.5 * w * momentum[0] / masses[0])
        position = position + 0.5 * w * jnp.stack(momentum) / masses
        for j in range(last + 1):
            pushed(j, w)
    return scale, Chain(position, jnp.stack(momentum))
