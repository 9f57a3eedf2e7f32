"""Arrays of objects: each component of a small array an array over lanes, or a number that all lanes share."""

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array


def apart(value: Any) -> np.ndarray:
    """An array without lanes as an array of its numbers."""
    if _is_apart(value):
        return value
    result = np.empty(np.shape(value), object)
    known = not isinstance(value, jax.Array | jax.core.Tracer)
    for place in np.ndindex(result.shape):
        result[place] = np.asarray(value)[place] if known else value[place] if place else value
    return result


def _is_apart(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == object


def number(value: Any) -> Any:
    """The one number of an array without axes, which may be taken apart already."""
    return value[()] if _is_apart(value) else value


def apart_lanes(value: Any) -> np.ndarray:
    """An array with lanes on its last axis as an array of arrays over lanes."""
    if _is_apart(value):
        return value
    result = np.empty(np.shape(value)[:-1], object)
    for place in np.ndindex(result.shape):
        result[place] = value[place] if place else value
    return result


def boxed(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A list of components, or the one array of a scalar, as an array of objects."""
    result = np.empty(shape, object)
    if shape == ():
        result[()] = value
        return result
    for place, component in zip(np.ndindex(shape), value, strict=True):
        result[place] = component
    return result


def unboxed(value: np.ndarray, lanes: int, aval: Any) -> Any:
    """The way back, every component over lanes."""
    rows = [over_lanes(x, lanes, aval.dtype) for x in value.reshape(-1)]
    return rows if value.ndim else rows[0]


def together(value: np.ndarray, lanes: int, dtype: DTypeLike) -> Array:
    """Components stacked, lanes on the last axis."""
    rows = [over_lanes(x, lanes, dtype) for x in value.reshape(-1)]
    if value.ndim == 0:
        return rows[0]
    return jnp.stack(rows).reshape(*value.shape, lanes) if rows else jnp.zeros((*value.shape, lanes), dtype)


def over_lanes(x: Any, lanes: int, dtype: DTypeLike) -> Array:
    return x if jnp.ndim(x) else jnp.broadcast_to(jnp.asarray(x, dtype), (lanes,))
