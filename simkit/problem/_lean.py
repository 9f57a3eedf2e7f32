"""Canonical form of a problem for compiled code: without words, its rows filled up, so that problems of a kind share programs."""

import dataclasses
from collections.abc import Collection
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .._types import Inputs
from ..core import AbstractSignal, Setup, StaticSystem, named_leaves
from ..engine import PARTS, Fixed, Method, bucket
from ._censored import OPEN, Limits
from ._dataset import Dataset
from ._forward import ForwardModel

FIXED_PARTS = 8
"""The same where steps are fixed: a row too many there costs all steps of a window."""


def lean_parts(model: ForwardModel, data: Dataset, fill: bool) -> tuple[ForwardModel, Dataset]:
    """The forward model and the data of a problem as compiled code takes them.

    - What is text or a reason is left out: it would compile everything again.
    - Rows are filled up to a `bucket`: times with the last one, data with NaN, which is what missing means. An observable
        sees the whole trajectory and might take a mean of it, so a problem with observables keeps its rows, and so does one
        that does not `fill` them.
    - Tables of inputs are filled up as well, by repeats that change no value.
    """
    base, method = model.base, model.method
    fixed = isinstance(method.step, Fixed) and not isinstance(base.system, StaticSystem)
    parts = FIXED_PARTS if fixed else PARTS
    more = bucket(data.rows, parts) - data.rows if fill and not model.observables else 0
    lean = dataclasses.replace(
        model,
        base=Setup(base.system, base.y0, _filled_tables(base.inputs, model.table, parts), base.noise, base.events),
        method=Method(method.solver, method.step),
        measurement=None if model.measurement is None else model.measurement.filled(more),
    )
    longer = Dataset(
        filled(data.times, more),
        {name: filled(values, more, fill=np.nan) for name, values in data.values.items()},
        {name: filled(values, more, fill=1.0) for name, values in data.errors.items()},
        tuple(f"experiment {i + 1}" for i in range(len(data.labels))),
        data.lengths,
        {name: _filled_limits(own, more) for name, own in data.limits.items()},
    )
    return lean, longer


def _filled_limits(limits: Limits, more: int) -> Limits:
    return Limits(**{end: filled(value, more, fill=OPEN[end]) for end, value in limits.by_name().items()})


def filled(values: Array, more: int, fill: float | Literal["last"] = "last") -> Array:
    """An array with `more` entries at the end of its second axis: a number, or repeats of the last entry."""
    if not more:
        return values
    width = [(0, 0), (0, more)] + [(0, 0)] * (values.ndim - 2)
    how: dict[str, Any] = {"mode": "edge"} if fill == "last" else {"constant_values": fill}
    if isinstance(values, Tracer):
        return jnp.pad(values, width, **how)
    # In NumPy: JAX would compile a program of its own for every length, and for every array without a named type as well.
    return jnp.asarray(np.pad(np.asarray(values), width, **how), values.dtype)


def _filled_tables(inputs: Inputs, table: Collection[str], parts: int) -> Any:
    """The stacked signals of all experiments with their tables filled up, but for those of which a number is free or set."""
    is_signal = lambda node: isinstance(node, AbstractSignal)
    paths, structure = jax.tree_util.tree_flatten_with_path(inputs, is_leaf=is_signal)
    names = [
        ".".join(("inputs", *(jax.tree_util.keystr((entry,), simple=True) for entry in path))) for path, _ in paths
    ]
    nodes = []
    for name, (_, node) in zip(names, paths, strict=True):
        touched = any(path == name or path.startswith(f"{name}.") for path in table)
        traced = any(isinstance(leaf, Tracer) for leaf in named_leaves(node).values())
        if is_signal(node) and not touched and not traced:
            node = _filled_signal(node, parts)
        nodes.append(node)
    return jax.tree.unflatten(structure, nodes)


def _filled_signal(signal: AbstractSignal, parts: int) -> Any:
    each = [jax.tree.map(lambda x, i=i: np.asarray(x)[i], signal) for i in range(jax.tree.leaves(signal)[0].shape[0])]
    rows = each[0].length()
    if bucket(rows, parts) == rows:
        return signal
    return jax.tree.map(
        lambda *leaves: jnp.asarray(np.stack(leaves), leaves[0].dtype), *(s.padded(bucket(rows, parts)) for s in each)
    )
