"""Branches, loops and indices on components, where each lane has a condition, an end or an index of its own.

A branch is a selection, or, where no derivatives are taken of it, runs only if a lane wants it. A loop runs until its last lane
has ended, and the lanes that have ended stand still. An index selects among the components of an axis.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.lax import GatherScatterMode
from jax.typing import DTypeLike
from jaxtyping import Array

from ...linear import scan_counts
from ._emit import any_of
from ._mode import NotInKernel
from ._objects import boxed, over_lanes

Evaluate = Callable[[Any, Sequence[Any], Sequence[np.ndarray]], list[np.ndarray]]
"""Function of a program, its constants and its arguments, for operations that hold programs."""

MOST_ENTRIES = 64
"""Most entries of an axis that a lane indexes or sorts: each is compared."""


def lanes_of(values: Sequence[np.ndarray]) -> int:
    """Return the number of lanes of components; 0 where all are numbers that lanes share."""
    return max((x.shape[0] for v in values for x in v.reshape(-1) if jnp.ndim(x)), default=0)


def wide(x: Any, lanes: int, dtype: DTypeLike) -> Array:
    """A component over lanes, if there are any."""
    return over_lanes(x, lanes, dtype) if lanes else jnp.asarray(x, dtype)


def chosen(which: Any, no: Any, yes: Any, dtype: DTypeLike) -> Array:
    """`yes` where a flag is set, else `no`, of single components."""
    lanes = max((x.shape[0] for x in (which, no, yes) if jnp.ndim(x)), default=0)
    return jax.lax.select_n(wide(which, lanes, bool), wide(no, lanes, dtype), wide(yes, lanes, dtype))


def rows_of(value: np.ndarray) -> list[np.ndarray]:
    """The entries of the first axis, as arrays also where no axis is left."""
    return [value[i, ...] for i in range(value.shape[0])]


def _among(index: Any, cases: Sequence[np.ndarray], dtype: DTypeLike) -> np.ndarray:
    """The case with an index of each lane's own, the first or the last beyond the ends."""
    if len(cases) > MOST_ENTRIES:
        raise NotInKernel("an index among many entries")
    if (known := _known(index)) is not None:
        return cases[min(max(known, 0), len(cases) - 1)]
    found = cases[0].copy()
    for i, case in enumerate(cases[1:], 1):
        here = _bound(index) >= i
        for place in np.ndindex(found.shape):
            found[place] = chosen(here, found[place], case[place], dtype)
    return found


def _known(index: Any) -> int | None:
    """An index that is the same whatever the operands, as a number."""
    return None if isinstance(index, jax.core.Tracer) else int(index)


def _bound(index: Any) -> Any:
    return jnp.asarray(index).astype(jnp.int32)


def _selected(_: Evaluate, eqn: Any, which: np.ndarray, *cases: np.ndarray) -> list[np.ndarray]:
    dtype = eqn.outvars[0].aval.dtype
    shape, flag = cases[0].shape, eqn.invars[0].aval.dtype == bool
    which, found = np.broadcast_to(which, shape), np.empty(shape, object)
    for place in np.ndindex(shape):
        value = cases[0][place]
        for i, case in enumerate(cases[1:], 1):
            here = which[place] if flag else _bound(which[place]) >= i
            value = chosen(here, value, case[place], dtype)
        found[place] = value
    return [found]


def _gathered(_: Evaluate, eqn: Any, operand: np.ndarray, indices: np.ndarray) -> list[np.ndarray]:
    """Entries along one axis; of what JAX calls a gather the part that indexing by numbers needs."""
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    if len(numbers.start_index_map) != 1 or numbers.operand_batching_dims:
        raise NotInKernel("a gather along several axes")
    axis = numbers.start_index_map[0]
    if any(size != operand.shape[i] for i, size in enumerate(sizes) if i != axis):
        raise NotInKernel("a gather of parts")
    if sizes[axis] != 1 or not operand.shape[axis]:
        raise NotInKernel("a gather of several entries")
    dtype, batch = eqn.outvars[0].aval.dtype, indices.shape[:-1]
    cases = rows_of(np.moveaxis(operand, axis, 0))
    if axis not in numbers.collapsed_slice_dims:
        cases = [np.expand_dims(case, axis) for case in cases]
    found = np.empty((*batch, *cases[0].shape), object)
    for place in np.ndindex(batch):
        index = indices[(*place, 0)]
        found[(*place, ...)] = _filled(eqn.params, index, len(cases), _among(index, cases, dtype), dtype)
    rest = [i for i in range(found.ndim) if i not in numbers.offset_dims]
    order = np.argsort([*rest, *numbers.offset_dims])
    return [found.transpose(order)]


def _filled(params: Any, index: Any, count: int, value: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Entries with an index beyond the ends, as the mode of an operation has them."""
    if GatherScatterMode.from_any(params["mode"]) != GatherScatterMode.FILL_OR_DROP:
        return value
    fill = params["fill_value"]
    if fill is None:
        kind = jnp.dtype(dtype)
        inexact, flag = jnp.issubdtype(kind, jnp.inexact), jnp.issubdtype(kind, jnp.bool_)
        signed = jnp.issubdtype(kind, jnp.signedinteger)
        fill = jnp.nan if inexact else True if flag else jnp.iinfo(kind).min if signed else jnp.iinfo(kind).max
    outside, found = (_bound(index) < 0) | (_bound(index) >= count), value.copy()
    for place in np.ndindex(value.shape):
        found[place] = chosen(outside, value[place], fill, dtype)
    return found


def _scattered(_: Evaluate, eqn: Any, operand: np.ndarray, index: np.ndarray, update: np.ndarray) -> list[np.ndarray]:
    """One entry along one axis written over, or added to."""
    numbers = eqn.params["dimension_numbers"]
    axes, window = numbers.scatter_dims_to_operand_dims, numbers.update_window_dims
    plain = index.shape == (1,) and len(axes) == 1 and numbers.inserted_window_dims == axes
    if not plain or len(window) != update.ndim or update.ndim != operand.ndim - 1:
        raise NotInKernel("a scatter of several entries")
    dtype, found = eqn.outvars[0].aval.dtype, np.moveaxis(operand.copy(), axes[0], 0)
    if found.shape[0] > MOST_ENTRIES:
        raise NotInKernel("an index among many entries")
    adds, known = eqn.primitive.name != "scatter", _known(index[0])
    for i, *place in np.ndindex(found.shape[0], *update.shape):
        old, new = found[(i, *place)], update[tuple(place)]
        if adds:
            new = wide(old, lanes_of([found, update]), dtype) + wide(new, lanes_of([found, update]), dtype)
        if known is None:
            found[(i, *place)] = chosen(_bound(index[0]) == i, old, new, dtype)
        elif known == i:
            found[(i, *place)] = new
    return [np.moveaxis(found, 0, axes[0])]


def _sliced(_: Evaluate, eqn: Any, operand: np.ndarray, *starts: np.ndarray) -> list[np.ndarray]:
    """A slice that begins at indices of each lane's own."""
    dtype, found = eqn.outvars[0].aval.dtype, operand
    for axis, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
        room = found.shape[axis] - size
        if room:
            cases = [np.take(found, range(i, i + size), axis=axis) for i in range(room + 1)]
            found = _among(start[()], cases, dtype)
    return [found]


def _sorted(_: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """Arrays of one axis in the order of the first of them, by the number of entries that come before each."""
    keys, count = values[0], values[0].shape[0] if values[0].ndim == 1 else MOST_ENTRIES + 1
    if eqn.params["num_keys"] != 1 or count > MOST_ENTRIES:
        raise NotInKernel("a sort of many entries")
    kind = eqn.invars[0].aval.dtype

    def before(a: Any, b: Any, tie: bool) -> Array:
        a, b = jnp.asarray(a, kind), jnp.asarray(b, kind)
        less = (a <= b) if tie else (a < b)
        return less | (a == a) & (b != b) | ((a != a) & (b != b) if tie else a != a) & (b != b)

    ranks = []
    for i in range(count):
        ahead = [before(keys[j], keys[i], tie=j < i).astype(jnp.int32) for j in range(count) if j != i]
        ranks.append(functools.reduce(jnp.add, ahead) if ahead else np.int32(0))
    results = []
    for value, variable in zip(values, eqn.outvars, strict=True):
        found = np.empty(count, object)
        for place in range(count):
            number = value[0]
            for i in range(1, count):
                number = chosen(ranks[i] == place, number, value[i], variable.aval.dtype)
            found[place] = number
        results.append(found)
    return results


def _branch(evaluate: Evaluate, eqn: Any, index: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """All branches, and of each lane the results of its own."""
    cases = [evaluate(branch.jaxpr, branch.consts, values) for branch in eqn.params["branches"]]
    return [_among(index[()], list(own), v.aval.dtype) for *own, v in zip(*cases, eqn.outvars, strict=True)]


def _branch_if_wanted(evaluate: Evaluate, eqn: Any, index: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
    """The branches that a lane wants."""
    lanes, branches = lanes_of([index, *values]), eqn.params["branches"]
    which, avals = wide(index[()], lanes, jnp.int32), [v.aval for v in eqn.outvars]
    which = jnp.clip(which, 0, len(branches) - 1)

    def one(branch: Any, number: int) -> list[np.ndarray]:
        if not branch.jaxpr.eqns:
            return evaluate(branch.jaxpr, branch.consts, values)
        here = which == number
        run = lambda: _flat(evaluate(branch.jaxpr, branch.consts, values), avals, lanes)
        nothing = lambda: [wide(0, lanes, aval.dtype) for aval in avals for _ in range(aval.size)]
        return _parted(jax.lax.cond(any_of(here) if lanes else here, run, nothing), avals)

    cases = [one(branch, i) for i, branch in enumerate(branches)]
    return [_among(which, list(own), aval.dtype) for *own, aval in zip(*cases, avals, strict=True)]


def _looped(evaluate: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """A loop that ends with its last lane."""
    params, lanes = eqn.params, lanes_of(values)
    ends = np.cumsum([params["cond_nconsts"], params["body_nconsts"]])
    first, second, begin = values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] :]
    avals = [v.aval for v in eqn.outvars]

    def goes_on(carry: Sequence[Array]) -> Array:
        program = params["cond_jaxpr"]
        return wide(evaluate(program.jaxpr, program.consts, [*first, *_parted(carry, avals)])[0][()], lanes, bool)

    def turn(carry: Sequence[Array]) -> list[Array]:
        program, live = params["body_jaxpr"], goes_on(carry)
        found = _flat(evaluate(program.jaxpr, program.consts, [*second, *_parted(carry, avals)]), avals, lanes)
        return [jax.lax.select_n(live, old, new) for old, new in zip(carry, found, strict=True)]

    more = lambda carry: any_of(goes_on(carry)) if lanes else goes_on(carry)
    return _parted(jax.lax.while_loop(more, turn, _flat(begin, avals, lanes)), avals)


def _scanned(evaluate: Evaluate, eqn: Any, *values: np.ndarray) -> list[np.ndarray]:
    """A loop of a known number of turns, which all lanes take together."""
    params, lanes, program = eqn.params, lanes_of(values), eqn.params["jaxpr"]
    fixed, kept = scan_counts(params, len(values))
    ends = np.cumsum([fixed, kept])
    consts, begin, rows = values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] :]
    avals, types = [v.aval for v in eqn.outvars], [v.aval.dtype for v in eqn.invars[ends[1] :]]
    if params["length"] > MOST_ENTRIES and (rows or avals[kept:]):
        raise NotInKernel("a loop over many entries")

    def turn(carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        i, flat = carry
        place = params["length"] - 1 - i if params["reverse"] else i
        held = _parted(flat, avals)
        own = [_among(place, rows_of(x), kind) for x, kind in zip(rows, types, strict=True)]
        found = evaluate(program.jaxpr, program.consts, [*consts, *held[:kept], *own])
        for number, aval in enumerate(avals[kept:], kept):
            row, new = held[number].copy(), found[number]
            for where in np.ndindex(row.shape):  # the entry of this turn
                row[where] = chosen(place == where[0], row[where], new[where[1:]], aval.dtype)
            found[number] = row
        return i + 1, _flat(found, avals, lanes)

    empty = [np.full(aval.shape, 0, object) for aval in avals[kept:]]
    start = jnp.zeros((), jnp.int32), _flat([*begin, *empty], avals, lanes)
    return _parted(jax.lax.while_loop(lambda carry: carry[0] < params["length"], turn, start)[1], avals)


def _flat(values: Sequence[np.ndarray], avals: Sequence[Any], lanes: int) -> list[Array]:
    """The components of several arrays, each over lanes."""
    return [wide(x, lanes, aval.dtype) for v, aval in zip(values, avals, strict=True) for x in v.reshape(-1)]


def _parted(flat: Sequence[Array], avals: Sequence[Any]) -> list[np.ndarray]:
    """The way back."""
    ends = np.cumsum([0, *(aval.size for aval in avals)])
    parts = [flat[a:b] for a, b in itertools.pairwise(ends)]
    return [boxed(x if aval.shape else x[0], aval.shape) for x, aval in zip(parts, avals, strict=True)]


INDEXED: dict[str, Callable[..., list[np.ndarray]]] = {
    "select_n": _selected,
    "gather": _gathered,
    "scatter": _scattered,
    "scatter-add": _scattered,
    "dynamic_slice": _sliced,
    "sort": _sorted,
    "cond": _branch,
}
"""Operations whose derivatives are those of selections, of any order and in both modes."""

LOOPED: dict[str, Callable[..., list[np.ndarray]]] = {
    "cond": _branch_if_wanted,
    "while": _looped,
    "scan": _scanned,
}
"""Operations that are evaluated after all derivatives have been taken."""
