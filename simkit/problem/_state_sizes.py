"""Sizes of the states of a problem, from its starts and its data: what absolute tolerances are chosen by, once and for all."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from .._types import Inputs, State
from ..core import Setup, Start, StaticSystem, named_leaves, traced
from ..engine import Adaptive, Method, note_trace, similar, sizes_of_start, state_sizes, unresolved
from ._dataset import Dataset
from ._field_prior import AbstractFieldPrior
from ._forward import ForwardModel
from ._free import Unknown


def settled(model: ForwardModel, data: Dataset, found: Sequence[Unknown]) -> Method:
    """The problem's method with an absolute tolerance for each state where it was left open.

    It follows from the starts of all experiments, the smallest of each state, at values in the middle of what is known about the
    unknowns, and from the data of outputs that are called as the state is. From then on it is a number of the problem, so that the
    likelihood does not change with the place at which it is asked for.
    """
    method = model.method
    if (
        isinstance(model.base.system, StaticSystem)
        or not isinstance(method.step, Adaptive)
        or method.step.atol is not None
    ):
        return method
    middles = [np.broadcast_to(_middle(model, u), u.shape).ravel() for u in found]
    theta, dtype = np.concatenate([np.zeros(0), *middles]), data.times.dtype
    if model.population is not None:
        theta[model.population.shared :] = 0  # the deviations of individuals
    size = _sizes(model, data, jnp.asarray(theta, dtype))
    return Method(method.solver, method.step.completed(dtype).scaled(size), method.reason)


def notes(model: ForwardModel, data: Dataset) -> tuple[str, ...]:
    """Return notes on a given absolute tolerance that is too large for the starts or the data."""
    step = model.method.step
    if not isinstance(step, Adaptive) or step.atol is None or np.ndim(step.atol) or traced(step.atol, model.base.y0):
        return ()
    largest = lambda x: float(np.max(np.abs(x), initial=0, where=np.isfinite(x)))
    sizes = {} if isinstance(model.base.y0, Start) else named_leaves(model.base.y0)
    sizes = {name: largest(np.asarray(x)) for name, x in sizes.items()}
    for name in sizes:
        if (name or "y") in data.values:
            sizes[name] = max(sizes[name], largest(np.asarray(data.values[name or "y"])))
    return unresolved(float(step.atol), sizes)


def _sizes(model: ForwardModel, data: Dataset, theta: Array) -> Array:
    y0 = _known_start(model, theta)
    if y0 is not None and any(np.isnan(x).any() for x in jax.tree.leaves(y0)):
        return jnp.ones(sum(x[0].size for x in jax.tree.leaves(y0)), data.times.dtype)  # a protocol makes the start
    each = [] if y0 is None else [jax.tree.map(lambda x, i=i: x[i], y0) for i in range(len(data.labels))]
    if each and all(map(similar, each)):
        size = np.stack([sizes_of_start(one) for one in each]).min(axis=0)
    else:
        size = jnp.min(_each(model, data.times, theta), axis=0)
    limit = _of_data(model, data)
    if limit is None or limit.shape != size.shape:  # of an encoded state data say nothing
        return jnp.asarray(size, data.times.dtype)
    return jnp.asarray((np if isinstance(size, np.ndarray) else jnp).minimum(size, limit), data.times.dtype)


def _known_start(model: ForwardModel, theta: Array) -> Any:
    """The starts of all experiments where they are what a solver steps and known as they are, else None."""
    base, table = model.base, model.table
    if model.population is not None or model.derived is not None or isinstance(base.y0, Start):
        return None
    if traced(base.y0, table, theta):
        return None
    first = jax.tree.map(lambda x: x[0], base.y0)
    if base.system.encode(first) is not first:
        return None
    paths, structure = jax.tree_util.tree_flatten_with_path(base.y0)
    names = [f"y0.{name}" if name else "y0" for name in named_leaves(base.y0)]
    touched = {path for path in table if path.split(".")[0] == "y0"}
    if not touched <= set(names):  # single numbers of an array
        return None
    values, leaves = np.asarray(theta), []
    for name, (_, leaf) in zip(names, paths, strict=True):
        if name in touched:
            leaf = _put(values, *(np.asarray(x) for x in table[name]))
        leaves.append(np.asarray(leaf))
    return jax.tree.unflatten(structure, leaves)


def _put(values: np.ndarray, index: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """A row of a table with the free numbers put in."""
    count, rows = math.prod(constant.shape[1:]), []
    for first, known in zip(index, constant, strict=True):
        rows.append(values[first : first + count].reshape(known.shape) if first >= 0 else known)
    return np.stack(rows)


@eqx.filter_jit
def _each(model: ForwardModel, times: Array, theta: Array) -> Array:
    note_trace("problem, sizes of states", {"system": model.base.system, "y0": model.base.y0, "times": times})

    def one(y0: State, inputs: Inputs, events: Any, times: Array, values: dict[str, Array]) -> Array:
        return state_sizes(Setup(model.base.system, y0, inputs, model.base.noise, events).put(values), times)

    base = model.base
    return eqx.filter_vmap(one)(base.y0, base.inputs, base.events, times, model.values(theta))


def _of_data(model: ForwardModel, data: Dataset) -> np.ndarray | None:
    """The largest datum of each number of a state that is an output with data, infinite for others; None where data are traced."""
    y0 = model.start_shapes()
    if any(isinstance(x, Tracer) for x in data.values.values()):
        return None
    found = []
    for name, leaf in named_leaves(y0).items():
        shape = tuple(leaf.shape[1:])
        values = data.values.get(name or "y")
        if values is None or tuple(values.shape[2:]) != shape:
            found.append(np.full((len(data.labels), *shape), np.inf))
            continue
        rows = np.abs(np.asarray(values, float))
        largest = np.where(np.isfinite(rows), rows, 0).max(axis=1)
        found.append(np.where(largest > 0, largest, np.inf))
    each = [sizes_of_start([x[i] for x in found]) for i in range(len(data.labels))]
    return np.stack(each).min(axis=0) if found else None


def _middle(model: ForwardModel, u: Unknown) -> float | np.ndarray:
    """A value, or an array of them, in the middle of what is known about an unknown."""
    if u.start is not None:
        return np.asarray(u.start, float)
    if isinstance(u.prior, AbstractFieldPrior):
        return np.exp(np.asarray(u.prior.mean, float)) if u.log else np.asarray(u.prior.mean, float)
    if math.isfinite(u.lower) and math.isfinite(u.upper):
        return math.exp(0.5 * (math.log(u.lower) + math.log(u.upper))) if u.lower > 0 else 0.5 * (u.lower + u.upper)
    centre = math.nan if u.prior is None else _centre(u.prior)
    if not math.isfinite(centre):
        leaves = model.base_setup(0).leaves()
        centre = float(np.asarray(leaves[u.name])) if u.name in leaves and np.ndim(leaves[u.name]) == 0 else 1.0
    return centre if u.lower < centre < u.upper else u.lower + 1.0 if math.isfinite(u.lower) else u.upper - 1.0


def _centre(prior: Any) -> float:
    """The centre of a prior as its own numbers tell it."""
    kind, inner = type(prior).__name__, getattr(prior, "base_dist", prior)
    loc, scale = (getattr(inner, name, None) for name in ("loc", "scale"))
    if kind == "LogNormal":
        return float(np.exp(np.asarray(prior.loc)))
    if loc is not None:
        return float(np.asarray(loc)) or (float(np.asarray(scale)) if scale is not None else 0.0)
    return float(np.asarray(scale)) if scale is not None else float(np.asarray(prior.mean))
