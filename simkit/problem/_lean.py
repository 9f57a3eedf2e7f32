"""The door to compiled code: a problem without words, its rows filled up, so that problems of one kind share their programs."""

import copy
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from ..core import AbstractSignal, Setup, StaticSystem, named_leaves
from ..engine import Fixed, Method
from ._prior import StoredPrior

if TYPE_CHECKING:
    from ._problem import Problem

PARTS = 4
"""Lengths between two powers of two. A row too many costs an adaptive solve one interpolation, so a fifth more rows are cheap."""

FIXED_PARTS = 8
"""The same where steps are fixed: a row too many there costs all steps of a window."""


def bucket(count: int, parts: int = PARTS) -> int:
    """The next of a row of lengths, `parts` between two powers of two and every one up to twice `parts`.

    With 4 parts: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...; less than 1 / `parts` is added.
    """
    size = 1
    while count > 2 * parts * size:
        size *= 2
    return -(-count // size) * size


def lean_problem(problem: "Problem") -> "Problem":
    """The problem as compiled code takes it.

    - What is text or a reason is left out: it would compile everything again.
    - Rows are filled up to a `bucket`: times with the last one, data with NaN, which is what missing means. An observable
        sees the whole trajectory and might take a mean of it, so a problem with observables keeps its rows.
    - Tables of inputs are filled up as well, by repeats that change no value.
    """
    fixed = isinstance(problem.method.step, Fixed) and not isinstance(problem.base.system, StaticSystem)
    parts = FIXED_PARTS if fixed else PARTS
    rows = row_count(problem)
    more = 0 if problem.observables else bucket(rows, parts) - rows
    base = problem.base
    inputs = _filled_tables(base.inputs, problem.table, parts)
    lean = copy.copy(problem)
    new = {
        "method": Method(problem.method.solver, problem.method.step),
        "labels": tuple(f"experiment {i + 1}" for i in range(len(problem.labels))),
        "times": filled(problem.times, more),
        "data": {name: filled(values, more, fill=np.nan) for name, values in problem.data.items()},
        "errors": {name: filled(values, more, fill=1.0) for name, values in problem.errors.items()},
        "base": Setup(base.system, base.y0, inputs, base.noise),
        "measurement": None if problem.measurement is None else problem.measurement.filled(more),
    }
    for name, value in new.items():
        object.__setattr__(lean, name, value)  # labels are static, which `equinox.tree_at` does not replace
    return lean


def named_parts(problem: "Problem") -> dict[str, Any]:
    """Everything that a program made from a problem depends on, by the names that users know, for `note_trace`."""
    free = zip(problem.names, problem.stored, problem.log, strict=True)
    return {
        "system": problem.base.system,
        "y0": problem.base.y0,
        "inputs": problem.base.inputs,
        "noise": problem.base.noise,
        "times": problem.times,
        "data": problem.data,
        "errors": problem.errors,
        "free": {name: {"prior": _named(prior), "transform": "log" if log else "linear"} for name, prior, log in free},
        "bounds": problem.bounds,
        "set": problem.table,
        "observables": problem.observables,
        "protocol": problem.protocol,
        "measurement": problem.measurement,
        "population": problem.population,
        "solver": problem.method.solver,
        "step": problem.method.step,
    }


def defining_parts(problem: "Problem") -> dict[str, Any]:
    """Everything that the density of a problem and the starts of its fit depend on, for `describe`."""
    return {
        **named_parts(problem),
        "prior": {name: _told(prior) for name, prior in zip(problem.names, problem.stored, strict=True)},
        "starts of free": problem.starts,
        "lengths": problem.lengths,
    }


def _told(prior: StoredPrior | None) -> Any:
    """A prior by the names of its numbers."""
    if prior is None:
        return "flat"
    values = zip(prior.names, prior.values, strict=True)
    told = {name: _told(value) if isinstance(value, StoredPrior) else value for name, value in values}
    return {"kind": prior.kind.__name__, **told, "settings": prior.settings}


def _named(prior: StoredPrior | None) -> str:
    """The kind of a prior, with what it cuts off or transforms."""
    if prior is None:
        return "flat"
    inner = [_named(value) for value in prior.values if isinstance(value, StoredPrior)]
    return " of ".join([prior.kind.__name__, *inner])


def row_count(problem: "Problem") -> int:
    """How many data an output can have in one experiment."""
    return next(iter(problem.data.values())).shape[1]


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


def _filled_tables(inputs: Any, table: Any, parts: int) -> Any:
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


def _filled_signal(signal: Any, parts: int) -> Any:
    each = [jax.tree.map(lambda x, i=i: np.asarray(x)[i], signal) for i in range(jax.tree.leaves(signal)[0].shape[0])]
    rows = each[0].length()
    if bucket(rows, parts) == rows:
        return signal
    return jax.tree.map(
        lambda *leaves: jnp.asarray(np.stack(leaves), leaves[0].dtype), *(s.padded(bucket(rows, parts)) for s in each)
    )
