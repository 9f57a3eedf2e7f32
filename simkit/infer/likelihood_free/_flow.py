"""A conditional density as a flow: a chain of invertible maps from data to independent normal numbers."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ._spline import numbers_of, spline

BLOCKS = 2
"""Residual blocks of the network of each layer."""

SHIFTS = 2
"""Numbers of a layer beside its spline: a shift and the logarithm of a scale."""


class Layer(eqx.Module):
    """One autoregressive map: the numbers that move an element depend on the elements before it and on the context.

    Weights are (inputs, outputs); masks hide what an element must not see. A flow holds all of its layers as one, with a leading
    axis, so that compiled code holds one of them.
    """

    inward: Float[Array, "*layer size width"]
    context: Float[Array, "*layer context width"]
    first: Float[Array, "*layer block width width"]
    second: Float[Array, "*layer block width width"]
    gates: Float[Array, "*layer block context width"]
    biases: Float[Array, "*layer places width"]
    outward: Float[Array, "*layer width numbers"]
    offset: Float[Array, "*layer numbers"]
    turn: Float[Array, "*layer size size"]


class Flow(eqx.Module):
    r"""The density of a vector z given a context c.

    Each layer turns z by a fixed rotation and moves its elements in order: $z_i \leftarrow S_i((z_i - m_i)\, e^{-s_i})$ with a
    rational-quadratic spline S; shift, scale and spline come from a masked network of z's earlier elements and c (Papamakarios et
    al. 2017, arXiv:1705.07057; Durkan et al. 2019, arXiv:1906.04032). What comes out is standard normal.

    - `layers`: with a leading axis of layers, in single precision.
    """

    layers: Layer
    bins: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of elements of z."""
        return self.layers.turn.shape[-1]

    def log_prob(self, z: Float[Array, "batch size"], context: Float[Array, "batch context"]) -> Float[Array, " batch"]:
        """The logarithm of the density of each z given its context."""

        def layer(carry: tuple[Array, Array], layer: Layer) -> tuple[tuple[Array, Array], None]:
            z, log_volume = carry
            z = z @ jax.lax.stop_gradient(layer.turn)
            numbers = network(layer, z, context, self.bins)
            scale = numbers[..., 1]
            z, slope = spline((z - numbers[..., 0]) * jnp.exp(-scale), numbers[..., SHIFTS:])
            return (z, log_volume + jnp.sum(slope - scale, axis=-1)), None

        (z, log_volume), _ = jax.lax.scan(layer, (z, jnp.zeros_like(z[:, 0])), self.layers)
        return log_volume - 0.5 * jnp.sum(z * z, axis=-1) - 0.5 * self.size * math.log(2 * math.pi)

    def sample(self, key: PRNGKeyArray, context: Float[Array, "batch context"]) -> Float[Array, "batch size"]:
        """One draw of z for each context."""
        z = jax.random.normal(key, (context.shape[0], self.size), context.dtype)
        places = jnp.arange(self.size)

        def layer(z: Array, layer: Layer) -> tuple[Array, None]:
            def element(i: Array, found: Array) -> Array:
                numbers = network(layer, found, context, self.bins)
                back, _ = spline(z, numbers[..., SHIFTS:], inverse=True)
                return jnp.where(places[None] == i, back * jnp.exp(numbers[..., 1]) + numbers[..., 0], found)

            found = jax.lax.fori_loop(0, self.size, element, jnp.zeros_like(z))
            return found @ layer.turn.T, None

        return jax.lax.scan(layer, z, self.layers, reverse=True)[0]


def new_flow(rng: np.random.Generator, size: int, context: int, layers: int, width: int, bins: int) -> Flow:
    """A flow that begins as the identity but for rotations."""
    count = size * (SHIFTS + numbers_of(bins))

    def weights(*shape: int, gain: float = 1.0) -> Array:
        found = rng.normal(size=(layers, *shape)) * (gain / max(shape[-2], 1) ** 0.5)
        return jnp.asarray(found, jnp.float32)

    turns = [np.linalg.qr(rng.normal(size=(size, size)))[0] if i else np.eye(size) for i in range(layers)]
    made = Layer(
        inward=weights(size, width),
        context=weights(context, width),
        first=weights(BLOCKS, width, width, gain=1.4),
        second=weights(BLOCKS, width, width, gain=0.3),
        gates=weights(BLOCKS, context, width),
        biases=jnp.zeros((layers, 1 + 2 * BLOCKS, width), jnp.float32),
        outward=weights(width, count, gain=0.0),
        offset=jnp.zeros((layers, count), jnp.float32),
        turn=jnp.asarray(np.stack(turns), jnp.float32),
    )
    return Flow(made, bins)


def network(
    layer: Layer, z: Float[Array, "batch size"], context: Float[Array, "batch context"], bins: int
) -> Float[Array, "batch size numbers"]:
    """The numbers that move each element, functions of those before it and of the context."""
    hidden_by = masks(z.shape[-1], layer.inward.shape[-1], SHIFTS + numbers_of(bins))
    inward, across, outward = (mask.astype(z.dtype) for mask in hidden_by)
    bias = layer.biases
    hidden = z @ (layer.inward * inward) + context @ layer.context + bias[:1]
    for i in range(BLOCKS):
        inner = jax.nn.silu(hidden) @ (layer.first[i] * across) + context @ layer.gates[i] + bias[1 + 2 * i][None]
        hidden = hidden + jax.nn.silu(inner) @ (layer.second[i] * across) + bias[2 + 2 * i][None]
    found = jax.nn.silu(hidden) @ (layer.outward * outward) + layer.offset[None]
    return found.reshape(*z.shape, -1)


def masks(size: int, width: int, numbers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masks of weights: a unit of degree k sees elements up to k, and element i sees units of degrees below i.

    **Reference:** Germain, Gregor, Murray & Larochelle (2015), arXiv:1502.03509.
    """
    degrees = np.arange(width) % max(size - 1, 1) + 1 if size > 1 else np.zeros(width, int)
    elements = np.arange(1, size + 1)
    inward = degrees[None] >= elements[:, None]
    across = degrees[None] >= degrees[:, None]
    outward = np.repeat(elements[None] > degrees[:, None], numbers, axis=1)
    return inward, across, outward
