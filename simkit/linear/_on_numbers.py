"""Operations of traced programs on known numbers, without compiling anything where NumPy has the same."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn


def evaluated(eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """An operation on known numbers: by NumPy where it is a plain one, since JAX would compile a program for it."""
    simple = _BY_NUMPY.get(eqn.primitive.name)
    if simple is not None:
        found = simple(eqn.params, *operands)
        return [np.asarray(x) for x in (found if eqn.primitive.multiple_results else [found])]
    with jax.ensure_compile_time_eval():
        found = eqn.primitive.bind(*map(jnp.asarray, operands), **eqn.params)
    return [np.asarray(x) for x in (found if eqn.primitive.multiple_results else [found])]


def _broadcast(params: dict[str, Any], x: np.ndarray) -> Any:
    shape = [1] * len(params["shape"])
    for size, axis in zip(np.shape(x), params["broadcast_dimensions"], strict=True):
        shape[axis] = size
    return np.broadcast_to(np.reshape(x, shape), params["shape"])


def _sliced(params: dict[str, Any], x: np.ndarray) -> Any:
    steps = params["strides"] or [1] * x.ndim
    return x[tuple(map(slice, params["start_indices"], params["limit_indices"], steps))]


def _padded(params: dict[str, Any], x: np.ndarray, value: Any) -> Any:
    for axis, (low, high, inner) in enumerate(params["padding_config"]):
        size = x.shape[axis]
        spread = np.full((*x.shape[:axis], max(size + (size - 1) * inner, 0), *x.shape[axis + 1 :]), value)
        spread[(*[slice(None)] * axis, slice(None, None, inner + 1))] = x
        edges = [(max(low, 0), max(high, 0)) if i == axis else (0, 0) for i in range(x.ndim)]
        spread = np.pad(spread, edges, constant_values=value)
        cut = slice(max(-low, 0), spread.shape[axis] - max(-high, 0))
        x = spread[(*[slice(None)] * axis, cut)]
    return x


_BY_NUMPY: dict[str, Callable[..., Any]] = {
    "add": lambda p, a, b: np.add(a, b),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda p, *xs: np.concatenate(xs, p["dimension"]),
    "convert_element_type": lambda p, x: np.asarray(x).astype(p["new_dtype"]),
    "eq": lambda p, a, b: np.equal(a, b),
    "expand_dims": lambda p, x: np.expand_dims(x, p["dimensions"]),
    "ge": lambda p, a, b: np.greater_equal(a, b),
    "gt": lambda p, a, b: np.greater(a, b),
    "iota": lambda p: _broadcast(
        {"shape": p["shape"], "broadcast_dimensions": (p["dimension"],)},
        np.arange(p["shape"][p["dimension"]], dtype=p["dtype"]),
    ),
    "le": lambda p, a, b: np.less_equal(a, b),
    "lt": lambda p, a, b: np.less(a, b),
    "mul": lambda p, a, b: np.multiply(a, b),
    "ne": lambda p, a, b: np.not_equal(a, b),
    "neg": lambda p, x: np.negative(x),
    "pad": _padded,
    "reshape": lambda p, x: np.reshape(x, p["new_sizes"]),
    "rev": lambda p, x: np.flip(x, p["dimensions"]),
    "select_n": lambda p, which, *cases: np.choose(np.asarray(which, int), cases) if cases else which,
    "slice": _sliced,
    "split": lambda p, x: np.split(x, np.cumsum(p["sizes"])[:-1], p["axis"]),
    "squeeze": lambda p, x: np.squeeze(x, tuple(p["dimensions"])),
    "stack": lambda p, *xs: np.stack(xs, p["axis"]),
    "sub": lambda p, a, b: np.subtract(a, b),
    "tile": lambda p, x: np.tile(x, p["reps"]),
    "transpose": lambda p, x: np.transpose(x, p["permutation"]),
    "unstack": lambda p, x: [np.squeeze(part, p["axis"]) for part in np.split(x, np.shape(x)[p["axis"]], p["axis"])],
}
