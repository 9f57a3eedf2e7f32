"""The probability that a simulation has data, learned where some failed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ...engine import awaited, note_trace

STEPS, BATCH, WIDTH = 2_000, 256, 32


class Validity(eqx.Module):
    """The probability that data at given parameters are finite: a classifier of simulations."""

    network: eqx.nn.MLP

    def log_prob(self, inputs: Float[Array, " parameter"]) -> Float[Array, ""]:
        """The logarithm of the probability, of parameters as the network sees them."""
        return jax.nn.log_sigmoid(self.network(inputs)[0])


def new_validity(inputs: int, key: PRNGKeyArray) -> Validity:
    """A classifier that is not trained yet."""
    return Validity(eqx.nn.MLP(inputs, 1, WIDTH, 2, jax.nn.silu, dtype=jnp.float32, key=key))


def learned_validity(inputs: np.ndarray, fine: np.ndarray, key: PRNGKeyArray) -> Validity:
    """The classifier that tells simulations that have data from those that have not."""
    first, train = jax.random.split(key)
    network = new_validity(inputs.shape[1], first).network
    arrays, static = eqx.partition(network, eqx.is_array)
    found = _trained(arrays, static, jnp.asarray(inputs, jnp.float32), jnp.asarray(fine, jnp.float32), train)
    return Validity(eqx.combine(awaited(found, "sample", "while failures were learned"), static))


@eqx.filter_jit
def _trained(arrays: PyTree, static: eqx.nn.MLP, inputs: Array, fine: Array, key: PRNGKeyArray) -> PyTree:
    note_trace("sample, learning of failures", {"simulations": inputs})
    optimiser = optax.adamw(optax.cosine_decay_schedule(3e-3, STEPS))

    def loss(arrays: PyTree, rows: Array) -> Array:
        logits = jax.vmap(eqx.combine(arrays, static))(inputs[rows])[:, 0]
        return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, fine[rows]))

    def step(i: Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        arrays, state = carry
        rows = jax.random.randint(jax.random.fold_in(key, i), (BATCH,), 0, inputs.shape[0])
        change, state = optimiser.update(jax.grad(loss)(arrays, rows), state, arrays)
        return optax.apply_updates(arrays, change), state

    return jax.lax.fori_loop(0, STEPS, step, (arrays, optimiser.init(arrays)))[0]
