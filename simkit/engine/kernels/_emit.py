"""Programs on lanes rewritten for the compiler of kernels.

That compiler knows fewer operations than XLA, and it never contracts a product and a sum: written out as one operation
(`fma`), they take 1.7 times less time in a step of an explicit method. Here barriers fall away, calls are inlined, reductions of
flags become reductions of integers, and products that only a sum reads become part of it.
"""

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ._mode import NotInKernel, mode

LOWERED = frozenset(
    [
        *("add", "sub", "mul", "div", "neg", "max", "min", "pow", "integer_pow", "sqrt", "rsqrt", "cbrt", "square"),
        *("exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "logistic", "abs", "sign", "floor", "ceil"),
        *("is_finite", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "select_n", "rem", "nextafter"),
        *("convert_element_type", "bitcast_convert_type", "clamp", "add_any", "broadcast_in_dim", "iota"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic", "erf_inv", "reduce_max", "reduce_min"),
        *("reduce_sum", "squeeze", "expand_dims", "reshape"),
    ]
)
"""Operations that the compiler of kernels knows."""

DROPPED = frozenset(["optimization_barrier", "stop_gradient", "copy", "copy_p", "pvary", "pcast", "reshard"])
"""Operations that mean nothing within a kernel."""

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}

FUSED = {"float32": ("f32", "=f,f,f,f"), "float64": ("f64", "=d,d,d,d")}
"""Float type -> its name in the assembly of GPUs, and the registers of a fused product and sum."""


class _Product(NamedTuple):
    """A product that a sum may take in."""

    a: Any
    b: Any
    eqn: Any

    def value(self) -> Any:
        return self.eqn.primitive.bind(self.a, self.b, **self.eqn.params)


def rewritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of lanes with the operations that the compiler of kernels knows.

    **Raises:** `NotInKernel` on call where there is an operation that it does not know.
    """

    @functools.wraps(function)
    def call(*arguments: PyTree) -> Any:
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        found = emitted(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), found)

    return call


def emitted(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of a program, its operations rewritten."""
    held: dict[Any, Any] = {}
    counts = collections.Counter(v for eqn in jaxpr.eqns for v in eqn.invars if not _literal(v))
    counts.update(v for v in jaxpr.outvars if not _literal(v))
    summed = {v for eqn in jaxpr.eqns if eqn.primitive.name in _SUMS for v in eqn.invars if not _literal(v)}

    def read(atom: Any, whole: bool = True) -> Any:
        value = atom.val if _literal(atom) else held[atom]
        return value.value() if whole and isinstance(value, _Product) else value

    for variable, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True):
        held[variable] = value
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        plain = len(eqn.outvars) == 1 and str(getattr(eqn.outvars[0].aval, "dtype", "")) in FUSED
        if plain and name == "mul" and eqn.outvars[0] in summed and counts[eqn.outvars[0]] == 1:
            a, b = eqn.invars
            found = [_Product(read(a), read(b), eqn)]
        elif plain and name in _SUMS:
            found = [_sum(eqn, [read(v, whole=False) for v in eqn.invars])]
        else:
            found = _applied(eqn, [read(v) for v in eqn.invars])
        for variable, value in zip(eqn.outvars, found, strict=True):
            held[variable] = value
    return [read(atom) for atom in jaxpr.outvars]


def has_rules(jaxpr: Any) -> bool:
    """Tell whether a program calls functions that state their own derivatives."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.startswith(("custom_jvp", "custom_vjp")):
            return True
        inner = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple | list) else [value])]
        if any(has_rules(getattr(x, "jaxpr", x)) for x in inner if hasattr(getattr(x, "jaxpr", x), "eqns")):
            return True
    return False


def _literal(atom: Any) -> bool:
    return isinstance(atom, jax.extend.core.Literal)


def _applied(eqn: Any, values: list[Any]) -> list[Any]:
    name = eqn.primitive.name
    if name in DROPPED:
        return values
    if name in CALLS:
        inner = eqn.params[CALLS[name]]
        if hasattr(inner, "jaxpr"):
            return emitted(inner.jaxpr, inner.consts, values)
        return emitted(inner, (), values)
    if name in _REWRITTEN:
        return _REWRITTEN[name](eqn, *values)
    if name not in LOWERED:
        raise NotInKernel(f"no operation `{name}` in a kernel")
    if any(jnp.issubdtype(v.aval.dtype, jnp.complexfloating) for v in eqn.invars):
        raise NotInKernel("complex numbers")
    known = values and not any(isinstance(x, jax.core.Tracer) for x in values)
    if known and all(
        v.aval.shape == () for v in eqn.outvars
    ):  # numbers alone, of which rules for an operation may know nothing
        with jax.ensure_compile_time_eval():
            found = eqn.primitive.bind(*map(jnp.asarray, values), **eqn.params)
        return [np.asarray(x)[()] for x in (found if eqn.primitive.multiple_results else [found])]
    found = eqn.primitive.bind(*values, **eqn.params)
    return list(found) if eqn.primitive.multiple_results else [found]


def _sum(eqn: Any, values: list[Any]) -> Any:
    """A sum or a difference, of which one part may be a product that nothing else reads."""
    a, b = values
    whole = lambda x: x.value() if isinstance(x, _Product) else x
    minus = eqn.primitive.name == "sub"
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    if not shape or not (isinstance(a, _Product) or isinstance(b, _Product)):
        return eqn.primitive.bind(whole(a), whole(b), **eqn.params)
    if isinstance(a, _Product):
        return fma(a.a, a.b, whole(b), shape, dtype, negated=2 if minus else None)
    return fma(b.a, b.b, whole(a), shape, dtype, negated=0 if minus else None)


def fma(a: Any, b: Any, c: Any, shape: tuple[int, ...], dtype: Any, negated: int | None = None) -> Array:
    """a b + c, rounded once; one of the three may be `negated`, which costs nothing."""
    given = [jnp.broadcast_to(jnp.asarray(x, dtype), shape) for x in (a, b, c)]
    if mode() != "triton":
        a, b, c = (-x if i == negated else x for i, x in enumerate(given))
        return a * b + c
    from jax.experimental.pallas import triton

    kind, constraints = FUSED[str(dtype)]
    names = ["$1", "$2", "$3"]
    code = f"fma.rn.{kind} $0, {{}}, {{}}, {{}};"
    if negated is not None:  # a register of its own, which the assembler makes a sign of the operand
        code = f"{{{{ .reg .{kind} n; neg.{kind} n, {names[negated]}; {code} }}}}"
        names[negated] = "n"
    code = code.format(*names)
    like = [jax.ShapeDtypeStruct(shape, dtype)]
    return triton.elementwise_inline_asm(code, args=given, constraints=constraints, pack=1, result_shape_dtypes=like)[0]


def any_of(flags: Array) -> Array:
    """Tell whether any of the lanes' flags is set, as a scalar."""
    return jnp.max(flags.astype(jnp.int32)) > 0


def _all(eqn: Any, flags: Any) -> list[Array]:
    return [jnp.min(flags.astype(jnp.int32), axis=tuple(eqn.params["axes"])) > 0]


def _any(eqn: Any, flags: Any) -> list[Array]:
    return [jnp.max(flags.astype(jnp.int32), axis=tuple(eqn.params["axes"])) > 0]


def _cond(eqn: Any, index: Any, *values: Any) -> list[Any]:
    branches = [functools.partial(emitted, b.jaxpr, b.consts) for b in eqn.params["branches"]]
    return list(jax.lax.switch(index, [lambda *v, b=b: b(v) for b in branches], *values))


def _while(eqn: Any, *values: Any) -> list[Any]:
    first, second = (eqn.params[name] for name in ("cond_jaxpr", "body_jaxpr"))
    a = eqn.params["cond_nconsts"]
    b = a + eqn.params["body_nconsts"]
    types = [v.aval.dtype for v in eqn.outvars]

    def turn(carry: Sequence[Any]) -> list[Array]:
        found = emitted(second.jaxpr, second.consts, [*values[a:b], *carry])
        return [jnp.asarray(x, dtype) for x, dtype in zip(found, types, strict=True)]

    more = lambda carry: emitted(first.jaxpr, first.consts, [*values[:a], *carry])[0]
    return list(jax.lax.while_loop(more, turn, [jnp.asarray(x, d) for x, d in zip(values[b:], types, strict=True)]))


def _linear_solve(eqn: Any, *values: Any) -> list[Any]:
    lengths, program = eqn.params["const_lengths"], eqn.params["jaxprs"].solve
    begin = lengths.matvec + lengths.vecmat
    given = [*values[begin : begin + lengths.solve], *values[begin + lengths.solve + lengths.transpose_solve :]]
    return emitted(program.jaxpr, program.consts, given)


def _extreme(name: str) -> Callable[..., list[Any]]:
    """The larger or the smaller of two; of flags either or both."""

    def found(eqn: Any, a: Any, b: Any) -> list[Any]:
        if eqn.invars[0].aval.dtype != bool:
            return [eqn.primitive.bind(a, b, **eqn.params)]
        return [jnp.logical_or(a, b) if name == "max" else jnp.logical_and(a, b)]

    return found


def _selected(eqn: Any, which: Any, *cases: Any) -> list[Any]:
    if len(cases) > 2 or eqn.invars[0].aval.dtype != bool:
        raise NotInKernel("a selection among more than two")
    return [eqn.primitive.bind(which, *cases, **eqn.params)]


_SUMS = frozenset(["add", "sub", "add_any"])
_REWRITTEN: dict[str, Callable[..., list[Any]]] = {
    "reduce_or": _any,
    "reduce_and": _all,
    "cond": _cond,
    "while": _while,
    "custom_linear_solve": _linear_solve,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "select_n": _selected,
}
