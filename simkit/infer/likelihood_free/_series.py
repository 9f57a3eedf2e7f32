"""A network that condenses series to a few numbers, learned together with the density that uses them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_count
from ..._errors import DataError
from ._features import Features

LENGTH, STRIDE = 5, 2
"""Times that a convolution sees, and the distance between two places at which it looks."""


class SeriesSummary(eqx.Module):
    """A network for series: convolutions over time, each of which halves the number of times, and a network of what is left.

    It is learned together with the density. All outputs must be series, with the times of the data along the second axis.

    - `channels`: of each convolution. `outputs`: numbers that it condenses the data to.
    """

    channels: int = eqx.field(static=True, default=32)
    outputs: int = eqx.field(static=True, default=16)

    def __check_init__(self) -> None:
        check_count("channels", self.channels)
        check_count("outputs", self.outputs)

    def maker(self, features: Features) -> Callable[[PRNGKeyArray], Any]:
        """The function that makes such a network for the data that features were made of, from a key."""
        masks = [along_times(mask.there) for _, mask in features.seen]
        rows = {mask.shape[1] for mask in masks}
        if len(rows) != 1 or min(rows) < 2 * LENGTH:
            raise DataError(
                f"`SeriesSummary` needs series of at least {2 * LENGTH} times, but the data have {sorted(rows)}:"
                " leave `summary` out."
            )
        return lambda key: SeriesNetwork.of(self, masks, key)


def along_times(mask: np.ndarray) -> np.ndarray:
    """An array of data with times along its second axis: those of a simulator have all of them in one row."""
    return mask[:, 0] if mask.shape[1] == 1 and mask.ndim > 2 else mask


class SeriesNetwork(eqx.Module):
    """Convolutions over the times of all series, and a network of what they leave, whose numbers are the outputs."""

    convolutions: tuple[eqx.nn.Conv1d, ...]
    last: eqx.nn.MLP
    places: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)

    @staticmethod
    def of(method: SeriesSummary, masks: list[np.ndarray], key: PRNGKeyArray) -> "SeriesNetwork":
        """A network for data of which masks say which are there."""
        rows, places, count = masks[0].shape[1], [], 0
        for mask in masks:
            numbers = np.full(mask.shape, -1)
            numbers[mask] = count + np.arange(mask.sum())  # missing data take no place among features
            count += int(mask.sum())
            places += list(np.moveaxis(numbers, 1, -1).reshape(-1, rows))
        depth = max(1, int(np.log2(rows / LENGTH)))
        keys = jax.random.split(key, depth + 1)
        sizes = [len(places), *[method.channels] * depth]
        layers = [
            eqx.nn.Conv1d(sizes[i], sizes[i + 1], LENGTH, STRIDE, padding="SAME", dtype=jnp.float32, key=keys[i])
            for i in range(depth)
        ]
        inputs = method.channels * int(np.ceil(rows / 2**depth))
        last = eqx.nn.MLP(inputs, method.outputs, 2 * method.channels, 1, jax.nn.silu, dtype=jnp.float32, key=keys[-1])
        table = tuple(tuple(int(i) for i in place) for place in places)
        return SeriesNetwork(tuple(layers), last, table, rows, method.outputs)

    def __call__(self, features: Float[Array, " features"]) -> Float[Array, " outputs"]:
        places = np.array(self.places)
        x = jnp.where(places >= 0, features[np.maximum(places, 0)], 0)
        for layer in self.convolutions:
            x = jax.nn.silu(_convolved(layer, x))
        return self.last(x.ravel())


def _convolved(layer: eqx.nn.Conv1d, x: Float[Array, "channels times"]) -> Float[Array, "more fewer"]:
    """The convolution as one product with all windows: derivatives of batched convolutions are slow on CPUs."""
    rows = -(-x.shape[1] // STRIDE)
    beyond = max(0, (rows - 1) * STRIDE + LENGTH - x.shape[1])
    padded = jnp.pad(x, ((0, 0), (beyond // 2, beyond - beyond // 2)))
    windows = jnp.stack([padded[:, i : i + (rows - 1) * STRIDE + 1 : STRIDE] for i in range(LENGTH)], axis=1)
    weight = layer.weight.reshape(layer.weight.shape[0], -1)
    assert layer.bias is not None
    return weight @ windows.reshape(-1, rows) + layer.bias
