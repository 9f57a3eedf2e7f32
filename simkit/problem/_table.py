"""Conditions as arrays: which number stands at which path in which experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError, check_known
from ..core import AbstractSignal, Setup
from ._experiment import Experiment

Table = dict[str, tuple[Array, Array]]
"""Path -> (index into the free parameters or -1, constant), both by experiment."""


def targets(
    setup: Setup, free: Mapping[str, Any], sets: Sequence[Mapping[str, Any]], labels: Sequence[str]
) -> dict[str, str]:
    """For every free name a path it stands for: its own, or one that a `set` gives it."""
    found = {name: name for name in free if _is_path(setup, name)}
    for label, conditions in zip(labels, sets, strict=True):
        for path, value in conditions.items():
            setup.locate(path, f"quantity (in `set` of {label})")
            if isinstance(value, str):
                check_known(value, free, f"free parameter (in `set` of {label})")
                found.setdefault(value, path)
    for name in free:
        if name not in found:
            setup.locate(name, "quantity, and no `set` that names the free parameter,")
        path, index = setup.locate(found[name])
        if not index and jnp.ndim(setup.leaves()[path]):
            raise ArgumentError(
                f"The free parameter `{name}` must be one number, but `{path}` is an array of shape "
                f"{jnp.shape(setup.leaves()[path])}. Name its elements: `{path}.0`, ..."
            )
    return found


def condition_table(
    setups: Sequence[Setup], experiments: Sequence[Experiment], free: Sequence[str], sets: Sequence[Mapping[str, Any]]
) -> Table:
    """Experiment `set`, then problem `set` (merged in `sets`), then a free path, then the experiment's own value."""
    paths = dict.fromkeys([path for conditions in sets for path in conditions])
    paths |= dict.fromkeys(name for name in free if _is_path(setups[0], name))
    table: Table = {}
    for path in paths:
        index, constants = [], []
        for setup, experiment, conditions in zip(setups, experiments, sets, strict=True):
            value = conditions.get(path, path if path in free else setup.get(path))
            index.append(list(free).index(value) if isinstance(value, str) else -1)
            constants.append(setup.get(path) if isinstance(value, str) else _constant(experiment.name, path, value))
        table[path] = jnp.asarray(index), jnp.stack([jnp.asarray(c, setups[0].get(path).dtype) for c in constants])
    return table


def stack(trees: Sequence[Any], what: str, experiments: Sequence[Experiment]) -> Any:
    """The pytrees of all experiments with a leading experiment axis; signals of different length are padded."""
    shapes = [jax.tree.structure(tree) for tree in trees]
    for experiment, shape in zip(experiments, shapes, strict=True):
        if shape != shapes[0]:
            raise ArgumentError(
                f"The {what} of all experiments must have one structure, but that of `{experiment.name}` is {shape} and that of "
                f"`{experiments[0].name}` is {shapes[0]}."
            )
    trees = _same_lengths(trees)

    def join(*leaves: Any) -> Array:
        if len({jnp.shape(leaf) for leaf in leaves}) > 1:
            raise ArgumentError(
                f"The {what} of all experiments must have one shape, but they are {[jnp.shape(x) for x in leaves]}."
            )
        return jnp.stack(leaves)

    return jax.tree.map(join, *trees)


def _same_lengths(trees: Sequence[Any]) -> list[Any]:
    """Tabulated signals padded to the longest of all experiments, by repeats that change no value."""
    is_signal = lambda node: isinstance(node, AbstractSignal)
    flat = [jax.tree.flatten(tree, is_leaf=is_signal) for tree in trees]
    columns = list(zip(*(leaves for leaves, _ in flat), strict=True))
    for i, column in enumerate(columns):
        if isinstance(column[0], AbstractSignal):
            length = max(signal.length() for signal in column)
            columns[i] = tuple(signal.padded(length) for signal in column)
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(trees)
    return [jax.tree.unflatten(treedef, row) for (_, treedef), row in zip(flat, rows, strict=True)]


def _is_path(setup: Setup, name: str) -> bool:
    try:
        setup.locate(name)
    except (KeyError, ArgumentError):
        return False
    return True


def _constant(experiment: str, path: str, value: Any) -> Any:
    if jnp.ndim(value) and not isinstance(value, Array | np.ndarray):
        raise ArgumentError(
            f"`set` of experiment `{experiment}` must give `{path}` a number or a name, but gives {value!r}."
        )
    return value
