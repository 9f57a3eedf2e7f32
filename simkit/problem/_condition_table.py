"""Conditions as arrays: which number stands at which path in which experiment."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, PyTree

from .._errors import ArgumentError, check_known
from ..core import REAL, AbstractSignal, Setup
from ._derived import Derived
from ._experiment import Experiment
from ._field_prior import AbstractFieldPrior
from ._free import Free
from ._unknowns import Block, position

Table = dict[str, tuple[Array, Array]]
"""Path -> (index into the free parameters or -1, constant), both by experiment. The index of a whole array is that of its first."""

SINGLE = 100
"""Up to so many elements an array is freed number by number, each with a name and a row of the table of its own."""


def each_element(setup: Setup, free: Mapping[str, Any]) -> dict[str, Any]:
    """Free parameters by name; the path of a small array stands for each of its elements.

    A larger array, or one with a prior of fields, stays one unknown, unless some of its elements are given by themselves.
    """
    leaves, found = setup.leaves(), {}
    for name, value in free.items():
        shape = jnp.shape(leaves[name]) if name in leaves else ()
        if shape and not _is_whole(name, value, shape, free):
            start = np.asarray(getattr(value, "start", None), object)
            for place in np.ndindex(shape):
                own = value._replace(start=start[place]) if start.shape == shape else value
                found[".".join([name, *map(str, place)])] = own
        else:
            found[name] = value
    return found


def _is_whole(name: str, value: Any, shape: tuple[int, ...], free: Mapping[str, Any]) -> bool:
    """Tell whether an array is one unknown."""
    if not isinstance(value, Free):
        return False
    if isinstance(value.prior, AbstractFieldPrior):
        return True
    return math.prod(shape) > SINGLE and not any(other.startswith(f"{name}.") for other in free)


def shapes_of(setup: Setup, free: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each free parameter, () for a single number."""
    leaves = setup.leaves()
    return {name: jnp.shape(leaves[name]) if name in leaves else () for name in free}


def targets(
    setup: Setup,
    free: Mapping[str, Any],
    sets: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    derived: Derived | None = None,
) -> dict[str, str]:
    """Return for every name, free or derived, a path that it stands for: its own, or one that a `set` gives it.

    What derived numbers look at needs none.
    """
    names, read = dict.fromkeys(free), frozenset[str]()
    if derived is not None:
        names, read = names | dict.fromkeys(name for name, _ in derived.functions), derived.reads
    found = {name: name for name in names if _is_path(setup, name)}
    for label, conditions in zip(labels, sets, strict=True):
        for path, value in conditions.items():
            setup.locate(path, f"quantity (in `set` of {label})")
            if isinstance(value, str):
                if _is_element(setup, free, value):
                    continue
                check_known(value, names, f"free parameter (in `set` of {label})")
                found.setdefault(value, path)
    for name in names:
        if name not in found:
            if name in read:
                continue
            setup.locate(name, "quantity, and no `set` that names the free parameter,")
        path, index = setup.locate(found[name])
        if not index and jnp.ndim(setup.leaves()[path]) and path != name:
            raise ArgumentError(
                f"The free parameter `{name}` must be one number, but `{path}` is an array of shape "
                f"{jnp.shape(setup.leaves()[path])}. Name its elements, `{path}.0`, ..., or free `{path}` itself."
            )
    return found


def _is_element(setup: Setup, free: Mapping[str, Any], name: str) -> bool:
    """Tell whether a name is that of an element of a free array."""
    if name in free or not _is_path(setup, name):
        return False
    return setup.locate(name)[0] in free


def condition_table(
    setups: Sequence[Setup],
    experiments: Sequence[Experiment],
    free: Sequence[Block],
    sets: Sequence[Mapping[str, Any]],
    derived: Derived | None = None,
) -> Table:
    """Experiment `set`, then problem `set` (merged in `sets`), then a free path, then the experiment's own value.

    What is said of the last row of an input's table holds for the rows that repeat it where the table is filled up.
    """
    lengths = _longest([s.inputs for s in setups])
    paths = dict.fromkeys([path for conditions in sets for path in conditions])
    # Whole arrays first: what a `set` says of an element goes before.
    whole = [block.name for block in free if block.shape]
    named = [block.name for block in free if not block.shape] + (
        [] if derived is None else [name for name, _ in derived.functions]
    )
    alone = [name for name in named if _is_path(setups[0], name)]
    place_of = lambda name: position(free, name) if derived is None or (k := derived.index(name)) is None else k
    paths = dict.fromkeys(whole) | paths | dict.fromkeys(alone)
    table: Table = {}
    held = [setup.leaves() for setup in setups]  # once: to name all numbers of a setup takes longer than all the rest
    for path in paths:
        name, place = setups[0].locate(path)
        dtype = setups[0].get(path).dtype if path.startswith("inputs.") else held[0][name].dtype
        index, constants = [], []
        for setup, leaves, experiment, conditions in zip(setups, held, experiments, sets, strict=True):
            own = setup.get(path) if path.startswith("inputs.") else _element(leaves[name], place)
            value = conditions.get(path, own if place_of(path) is None else path)
            index.append(place_of(value) if isinstance(value, str) else -1)
            if not isinstance(value, str) and value is not own:
                _check_constant(experiment.name, path, value, setup)
            constants.append(own if isinstance(value, str) else value)
        table[path] = jnp.asarray(np.array(index)), _stacked(constants, dtype)
    return table | _repeats(table, setups, lengths)


def _element(leaf: ArrayLike, place: tuple[int, ...]) -> Any:
    return (leaf if isinstance(leaf, Tracer) else np.asarray(leaf))[place]


def _stacked(constants: Sequence[Any], dtype: DTypeLike) -> Array:
    """Numbers or arrays of all experiments as one array; in NumPy where they are known, since JAX is slow at single numbers."""
    if any(isinstance(c, Tracer) for c in constants):
        return jnp.stack([jnp.asarray(c, dtype) for c in constants])
    return jnp.asarray(np.stack([np.asarray(c, dtype) for c in constants]))


def _repeats(table: Table, setups: Sequence[Setup], lengths: Sequence[int]) -> Table:
    """The rows of a table for what repeats a number that it names."""
    owners: dict[str, dict[int, str]] = {}
    for path, (_, constants) in table.items():
        if path.startswith("inputs.") and constants.ndim == 1:
            for i, setup in enumerate(setups):
                for repeat in _repeated(setup, path, lengths):
                    owners.setdefault(repeat, {})[i] = path
    found: Table = {}
    for repeat, paths in owners.items():
        index, constants = [], []
        for i, setup in enumerate(setups):
            known = table[paths[i]] if i in paths else None
            index.append(-1 if known is None else known[0][i])
            constants.append(_filled_up(setup, lengths).get(repeat) if known is None else known[1][i])
        found[repeat] = jnp.asarray(index), jnp.stack(constants)
    return found


def _repeated(setup: Setup, path: str, lengths: Sequence[int]) -> Iterator[str]:
    """The paths at which the number of a path stands again once the tables are filled up."""
    nothing = lambda x: jnp.asarray(np.zeros(np.shape(x), jnp.result_type(x))) if eqx.is_array_like(x) else x
    marked = Setup(None, inputs=jax.tree.map(nothing, setup.inputs)).put({path: 1.0})
    for name, leaf in _filled_up(marked, lengths).leaves().items():
        for place in np.argwhere(np.asarray(leaf) != 0):
            found = ".".join([name, *map(str, place)])
            if found != path:
                yield found


def stack(trees: Sequence[Any], what: str, experiments: Sequence[Experiment]) -> Any:
    """The pytrees of all experiments with a leading experiment axis; signals of different length are padded."""
    shapes = [jax.tree.structure(tree) for tree in trees]
    for experiment, shape in zip(experiments, shapes, strict=True):
        if shape != shapes[0]:
            raise ArgumentError(
                f"The {what} of all experiments must have one structure, but that of `{experiment.name}` is {shape} and that of "
                f"`{experiments[0].name}` is {shapes[0]}."
            )
    lengths = _longest(trees)
    trees = [_filled_signals(tree, lengths) for tree in trees]

    def join(*leaves: ArrayLike) -> Array:
        if len({jnp.shape(leaf) for leaf in leaves}) > 1:
            raise ArgumentError(
                f"The {what} of all experiments must have one shape, but they are {[jnp.shape(x) for x in leaves]}."
            )
        return jnp.stack(leaves)

    return jax.tree.map(join, *trees)


def _signals(tree: PyTree) -> tuple[list[Any], Any]:
    return jax.tree.flatten(tree, is_leaf=lambda node: isinstance(node, AbstractSignal))


def _longest(trees: Sequence[Any]) -> list[int]:
    """Return for every signal the length of the longest table in any experiment; 0 where there is none."""
    columns = zip(*(_signals(tree)[0] for tree in trees), strict=True)
    return [max(node.length() if isinstance(node, AbstractSignal) else 0 for node in column) for column in columns]


def _filled_signals(tree: PyTree, lengths: Sequence[int]) -> Any:
    """Signals with tables of these lengths, filled up by repeats that change no value."""
    nodes, structure = _signals(tree)
    filled = [n.padded(size) if isinstance(n, AbstractSignal) else n for n, size in zip(nodes, lengths, strict=True)]
    return jax.tree.unflatten(structure, filled)


def _filled_up(setup: Setup, lengths: Sequence[int]) -> Setup:
    return Setup(setup.system, setup.y0, _filled_signals(setup.inputs, lengths), setup.noise)


def _is_path(setup: Setup, name: str) -> bool:
    try:
        setup.locate(name)
    except (KeyError, ArgumentError):
        return False
    return True


def _check_constant(experiment: str, path: str, value: Any, setup: Setup) -> None:
    """Refuse what is no number, or a known one outside the support of its quantity."""
    if jnp.ndim(value) and not isinstance(value, Array | np.ndarray):
        raise ArgumentError(
            f"`set` of experiment `{experiment}` must give `{path}` a number or a name, but gives {value!r}."
        )
    support = setup.metadata(path).support
    if support == REAL or isinstance(value, Tracer):
        return
    low, high = float(np.min(value)), float(np.max(value))
    # The least scatter is above 0: the density of data without any is infinite.
    zero = path.startswith("noise.") and path.endswith(".scale")
    if low < support.lower or high > support.upper or (zero and low == support.lower):
        raise ArgumentError(
            f"`set` of experiment `{experiment}` must give `{path}` a number inside its support {support}, but gives {value}."
        )
