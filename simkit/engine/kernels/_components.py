"""Programs of small arrays evaluated component by component, each component an array over lanes.

A batch of small vectors is an array `(components, lanes)`, and XLA computes stacks and slices of it element by element, with a
branch for each. Taken apart, reshaping is renaming and costs nothing, and what is left are operations on whole lanes: a third to
a half of the time for systems of two or three states. Operations that are not known here are done on stacked arrays.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core import marked
from ._emit import CALLS
from ._mode import NotInKernel
from ._objects import apart, apart_lanes, over_lanes, together
from ._strict import Rules

ELEMENTWISE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "max",
        "min",
        "pow",
        "integer_pow",
        "sqrt",
        "rsqrt",
        "cbrt",
        "square",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "logistic",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "abs",
        "sign",
        "floor",
        "ceil",
        "round",
        "is_finite",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "xor",
        "not",
        "select_n",
        "convert_element_type",
        "clamp",
        "nextafter",
        "rem",
        "copy",
        "add_any",
        "shift_left",
        "shift_right_logical",
        "shift_right_arithmetic",
        "real",
        "imag",
        "conj",
    ]
)

MOST_COMPONENTS = 24
"""States up to this size are taken apart into components; larger ones are arrays with the lanes last."""

MOST_OPERATIONS = 3000
"""Programs that would become larger than this are left as they are: XLA would compile them for too long."""

MOST_IN_KERNEL = 20_000
"""The same for kernels, whose compiler takes such programs in seconds."""


def operations(jaxpr: Any, strict: bool = False) -> float:
    """About how many operations on lanes a program becomes; infinite where it is made of others than small arrays."""
    total = 0.0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in ("pjit", "jit") or (strict and name == "scan"):
            total += operations(eqn.params["jaxpr"].jaxpr, strict)
        elif strict and name == "custom_linear_solve":
            total += operations(eqn.params["jaxprs"].solve.jaxpr, strict)
        elif strict and name == "while":
            total += operations(eqn.params["body_jaxpr"].jaxpr, strict)
        elif strict and name == "cond":
            total += sum(operations(branch.jaxpr, strict) for branch in eqn.params["branches"])
        elif strict and name == "sort":
            total += 4 * eqn.invars[0].aval.size ** 2
        elif name in ELEMENTWISE:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            inner = math.prod(eqn.invars[0].aval.shape[i] for i in contracted)
            total += 2 * inner * eqn.outvars[0].aval.size
        elif name.startswith("reduce_"):
            total += eqn.invars[0].aval.size
        elif name not in _STRUCTURAL and name != "optimization_barrier":
            total += 4 * sum(v.aval.size for v in (*eqn.invars, *eqn.outvars))
    return total


def evaluated(
    jaxpr: Any, consts: Sequence[Any], arguments: Sequence[np.ndarray], rules: Rules | None = None
) -> list[np.ndarray]:
    """The results of a program: arrays of objects, each an array over lanes, or a number that all lanes share.

    With the `rules` of a kernel nothing is stacked: calls are inlined, barriers fall away.

    **Raises:** with `rules` a `NotInKernel` for an operation that is not done on components.
    """
    held: dict[Any, np.ndarray] = {}

    def read(atom: Any) -> np.ndarray:
        return apart(atom.val) if isinstance(atom, jax.extend.core.Literal) else held[atom]

    for variable, value in zip(jaxpr.constvars, consts, strict=True):
        known = rules is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
        held[variable] = apart(np.asarray(value) if known else value)
    for variable, value in zip(jaxpr.invars, arguments, strict=True):
        held[variable] = value
    for eqn in jaxpr.eqns:
        with marked(eqn):
            found = _apply(jaxpr, eqn, [read(atom) for atom in eqn.invars], rules)
        for variable, value in zip(eqn.outvars, found, strict=True):
            held[variable] = value
    return [read(atom) for atom in jaxpr.outvars]


def _apply(jaxpr: Any, eqn: Any, values: list[np.ndarray], rules: Rules | None) -> list[np.ndarray]:
    name = eqn.primitive.name
    if name in ("pjit", "jit") or (rules is not None and name in CALLS):
        inner = eqn.params[CALLS[name]]
        return evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), values, rules)
    if rules is not None and name in rules:
        return rules[name](functools.partial(evaluated, rules=rules), eqn, *values)
    if name == "split":
        ends = np.cumsum(eqn.params["sizes"])[:-1]
        return np.split(values[0], ends, axis=eqn.params["axis"])
    if name == "pvary":
        return values  # numbers are cast where they meet others over a mesh
    if name in ELEMENTWISE:
        return [_elementwise(eqn, values)]
    if name == "optimization_barrier":
        return _kept_apart(eqn, values)
    if name in _STRUCTURAL:
        return [_STRUCTURAL[name](eqn, *values)]
    if name == "reduce_sum":
        return [_reduced(values[0], list(map(int, eqn.params["axes"])), lambda a, b: a + b, eqn.outvars[0].aval.dtype)]
    if name == "dot_general" and values[0].size and values[1].size:
        return [_product(eqn, *values)]
    if rules is not None:
        raise NotInKernel(f"no operation `{name}` on components")
    return _stacked(jaxpr, eqn, values)


def _kept_apart(eqn: Any, values: list[np.ndarray]) -> list[np.ndarray]:
    """A barrier around all components together."""
    given = [jnp.asarray(value[place]) for value in values for place in np.ndindex(value.shape)]
    found = apart_of(given) if given else []
    result = [np.empty(value.shape, object) for value in values]
    held = iter(found)
    for new in result:
        for place in np.ndindex(new.shape):
            new[place] = next(held)
    return result


def apart_of(values: list[Array]) -> list[Array]:
    """Arrays computed once, whatever reads them. Older XLA for CPUs drops barriers but respects a branch."""
    if jax.__version_info__ >= (0, 11) or jax.default_backend() != "cpu":
        return jax.lax.optimization_barrier(values)
    x = values[0].reshape(-1)[0]
    always = (x >= x) | (x != x)  # known while running only
    return jax.lax.cond(always, lambda values: values, lambda values: [jnp.zeros_like(v) for v in values], values)


def _elementwise(eqn: Any, values: list[np.ndarray]) -> np.ndarray:
    shape = np.broadcast_shapes(*(v.shape for v in values))
    values = [np.broadcast_to(v, shape) for v in values]
    result = np.empty(shape, object)
    for place in np.ndindex(shape):
        given = [v[place] for v in values]
        lanes = max((x.shape[0] for x in given if jnp.ndim(x)), default=0)
        types = [atom.aval.dtype for atom in eqn.invars]
        if lanes:
            given = [over_lanes(x, lanes, dtype) for x, dtype in zip(given, types, strict=True)]
        else:
            given = [jnp.asarray(x, dtype) for x, dtype in zip(given, types, strict=True)]
        result[place] = eqn.primitive.bind(*_varied(given), **eqn.params)
    return result


def _varied(values: Sequence[Array]) -> list[Array]:
    """Numbers that vary alike over a mesh: what they were traced as is cast where they meet."""
    varying = [jax.typeof(x).mat.varying for x in values]
    axes = frozenset().union(*varying)
    pairs = zip(values, varying, strict=True)
    return [x if own == axes else jax.lax.pcast(x, tuple(axes - own), to="varying") for x, own in pairs]


def _reduced(value: np.ndarray, axes: Sequence[int], add: Any, dtype: Any) -> np.ndarray:
    for axis in sorted(axes, reverse=True):
        first = np.moveaxis(value, axis, 0)
        rows = [first[i, ...] for i in range(first.shape[0])]  # with the dots an array, also where no axis is left
        if not rows:  # a sum of nothing
            value = np.empty(first.shape[1:], object)
            value.fill(jnp.zeros((), dtype))
            continue
        value = functools.reduce(_objects(add), rows)
    return value


def _objects(function: Any) -> Any:
    """A function of numbers over arrays of objects; the arrays stay arrays where they have no axes."""

    def call(a: Any, b: Any) -> np.ndarray:
        a, b = (x if isinstance(x, np.ndarray) and x.dtype == object else _boxed(x) for x in (a, b))
        result = np.empty(np.broadcast_shapes(a.shape, b.shape), object)
        a, b = np.broadcast_to(a, result.shape), np.broadcast_to(b, result.shape)
        for place in np.ndindex(result.shape):
            result[place] = function(a[place], b[place])
        return result

    return call


def _boxed(x: Any) -> np.ndarray:
    box = np.empty((), object)
    box[()] = x
    return box


def _product(eqn: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    free = [i for i in range(a.ndim) if i not in left and i not in left_batch]
    other = [i for i in range(b.ndim) if i not in right and i not in right_batch]
    a = a.transpose(*left_batch, *free, *left)
    b = b.transpose(*right_batch, *other, *right)
    batch, inner = len(left_batch), len(left)
    a = a.reshape(*a.shape[: batch + len(free)], *(1 for _ in other), *a.shape[batch + len(free) :])
    b = b.reshape(*b.shape[:batch], *(1 for _ in free), *b.shape[batch:])
    products = _objects(lambda x, y: x * y)(a, b)
    axes = range(products.ndim - inner, products.ndim)
    return _reduced(products, axes, lambda x, y: x + y, eqn.outvars[0].aval.dtype)


def _stacked(jaxpr: Any, eqn: Any, values: list[np.ndarray]) -> list[np.ndarray]:
    """An operation done on arrays with lanes: what is not worth or not possible to take apart."""
    lanes = max((x.shape[0] for v in values for x in v.reshape(-1) if jnp.ndim(x)), default=0)
    given, variables = [], []
    for atom, value in zip(eqn.invars, values, strict=True):
        if not isinstance(atom, jax.extend.core.Literal) and atom not in variables:
            variables.append(atom)
            given.append(together(value, max(lanes, 1), atom.aval.dtype))
    program = jaxpr.replace(constvars=[], invars=variables, outvars=eqn.outvars, eqns=[eqn], effects=eqn.effects)
    apply = lambda *args: jax.core.eval_jaxpr(program, (), *args)
    found = jax.vmap(apply, in_axes=-1, out_axes=-1, axis_size=max(lanes, 1))(*given)
    # Of numbers that all lanes share the result is shared as well.
    return [apart_lanes(x) if lanes else apart(x[..., 0]) for x in found]


def _broadcast(eqn: Any, value: np.ndarray, *rest: Any) -> np.ndarray:
    shape, kept = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    wide = [1] * len(shape)
    for axis, size in zip(kept, value.shape, strict=True):
        wide[axis] = size
    return np.broadcast_to(value.reshape(wide), shape)


def _iota(eqn: Any) -> np.ndarray:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    wide = [1] * len(shape)
    wide[axis] = shape[axis]
    numbers = np.arange(shape[axis], dtype=eqn.params["dtype"]).reshape(wide)
    return apart(np.broadcast_to(numbers, shape))


def _slice(eqn: Any, value: np.ndarray) -> np.ndarray:
    strides = eqn.params["strides"] or (1,) * value.ndim
    ranges = zip(eqn.params["start_indices"], eqn.params["limit_indices"], strides, strict=True)
    return value[tuple(slice(*r) for r in ranges)]


_STRUCTURAL = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda eqn, value, *rest: value.reshape(eqn.params["new_sizes"]),
    "squeeze": lambda eqn, value: np.squeeze(value, axis=tuple(eqn.params["dimensions"])),
    "expand_dims": lambda eqn, value: np.expand_dims(value, tuple(eqn.params["dimensions"])),
    "transpose": lambda eqn, value: value.transpose(eqn.params["permutation"]),
    "concatenate": lambda eqn, *values: np.concatenate(values, axis=eqn.params["dimension"]),
    "rev": lambda eqn, value: np.flip(value, tuple(eqn.params["dimensions"])),
    "slice": _slice,
    "iota": _iota,
    "stack": lambda eqn, *values: np.stack(values, axis=eqn.params["axis"]),
}
