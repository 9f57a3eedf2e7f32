"""Detection of the sparsity pattern of a function's Jacobian, from the operations that it is made of."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, Inexact

from ._on_numbers import evaluated
from ._pattern import Pattern
from ._programs import CALLS, called_program, nested_programs, scan_counts
from ._sparse_rows import Full, check_room, chosen_rows, kept_rows, picked, places, stacked, union

# Operations on single elements, whose result depends on what the same elements of their operands depend on.
_NAMES = """
    abs acos acosh add add_any asin asinh atan atan2 atanh cbrt clamp conj convert_element_type cos cosh digamma
    div erf erf_inv erfc exp exp2 expm1 igamma igamma_grad_a igammac imag integer_pow lgamma log log1p logistic
    max min mul neg nextafter polygamma pow real regularized_incomplete_beta rem rsqrt select_n sign sin sinh sqrt
    square sub tan tanh zeta
"""
ELEMENTWISE = frozenset(_NAMES.split())
# Operations that move elements and compute nothing: run on the numbers of the elements they tell where each one goes. With each
# stands how many of its operands are moved; all of them where it is None.
MOVES: dict[str, int | None] = {
    "broadcast_in_dim": 1,
    "concatenate": None,
    "dynamic_slice": 1,
    "dynamic_update_slice": 2,
    "expand_dims": 1,
    "gather": 1,
    "pad": 2,
    "reshape": 1,
    "rev": 1,
    "scatter": 3,
    "slice": 1,
    "split": 1,
    "squeeze": 1,
    "stack": None,
    "tile": 1,
    "transpose": 1,
    "unstack": 1,
}
ADDING_SCATTERS = frozenset({"scatter-add", "scatter_add", "scatter-sub", "scatter_sub"})
# Operations that return their operands, one by one.
PASSED_ON = frozenset(
    {"copy", "copy_p", "optimization_barrier", "pcast", "pvary", "reduce_precision", "sharding_constraint"}
)
REDUCTIONS = frozenset({"reduce_max", "reduce_min", "reduce_prod", "reduce_sum"})
ALONG_AN_AXIS = {
    "cumsum": "axis",
    "cumprod": "axis",
    "cummax": "axis",
    "cummin": "axis",
    "cumlogsumexp": "axis",
    "sort": "dimension",
}
# Concrete arrays are followed up to this many elements: index tables and masks are far smaller.
KNOWN_UP_TO = 10**7
# Scans of up to this many turns are written out.
WRITTEN_OUT_UP_TO = 32
# A loop's carry is followed for this many turns before everything is taken to depend on everything.
TURNS = 8


class Traced(NamedTuple):
    """An array inside a program: its value where that is known, and what it depends on.

    **Arguments:** `known`, its value where no traced value enters; `dependence`, which inputs each element depends on, as a
    sparse matrix of a row for each element, or None where it depends on none.
    """

    known: Any
    dependence: Any
    shape: tuple[int, ...]


def jacobian_pattern(function: Callable[[Array], Array], y: Inexact[Array, " n"]) -> Pattern | None:
    """The places of the Jacobian of a function from a vector to one as long that may differ from 0, whatever its values.

    None where there are millions of them: such a matrix is as good as full. Pattern as `jacobian_places`, with the diagonal.
    """
    found = jacobian_places(function, y)
    return None if found is None else Pattern.of(*found, y.size)


def jacobian_places(
    function: Callable[[Array], Array], y: Inexact[Array, " n"]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The rows and columns of the numbers of a Jacobian that may differ from 0.

    The directional derivative is traced as a program of the direction, so that rules of `custom_jvp` count and not what they
    stand for. Each operation passes on which inputs its operands depend on. An operation that the detection does not know makes
    each of its results depend on all inputs of its operands, so that the pattern may be too large and never too small. Nothing
    is evaluated but tables of indices and masks.
    """
    import scipy.sparse as sp  # a tenth of a second, which small systems need not wait for

    like = jax.ShapeDtypeStruct(y.shape, y.dtype)
    closed = jax.make_jaxpr(lambda y, along: jax.jvp(function, (y,), (along,))[1])(like, like)
    n, shape = math.prod(y.shape), tuple(y.shape)
    given = [Traced(None, None, shape), Traced(None, sp.eye_array(n, dtype=bool, format="csr"), shape)]
    try:
        (result,) = _Interpreter(n).run(closed.jaxpr, closed.consts, given)
    except Full:
        return None
    if result.dependence is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    found = result.dependence.tocoo()
    return found.row.astype(np.int64), found.col.astype(np.int64)


class _Interpreter:
    """Evaluation of a program on dependences in place of numbers."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], given: Sequence[Traced]) -> list[Traced]:
        values: dict[Any, Traced] = {}

        def read(atom: Any) -> Traced:
            if isinstance(atom, Literal):
                return _constant(atom.val)
            return values[atom]

        for var, const in zip(jaxpr.constvars, consts, strict=True):
            values[var] = _constant(const)
        for var, traced in zip(jaxpr.invars, given, strict=True):
            values[var] = traced
        for eqn in jaxpr.eqns:
            operands = [read(x) for x in eqn.invars]
            found = self.applied(eqn, operands)
            for var, traced in zip(eqn.outvars, found, strict=True):
                if not _is_inexact(var):
                    traced = traced._replace(dependence=None)  # whole numbers and truth values have no derivatives
                values[var] = traced
        return [read(x) for x in jaxpr.outvars]

    def applied(self, eqn: JaxprEqn, operands: list[Traced]) -> list[Traced]:
        name, shapes = eqn.primitive.name, [_shape(var) for var in eqn.outvars]
        if name in CALLS:
            return self.run(*called_program(eqn.params), operands)
        if all(x.dependence is None for x in operands):
            return self.independent(eqn, operands, shapes)
        if not any(_is_inexact(var) for var in eqn.outvars):
            return [Traced(None, None, shape) for shape in shapes]
        if name in PASSED_ON and len(operands) == len(shapes):
            return [x._replace(known=None) for x in operands]
        if name in ELEMENTWISE:
            return [Traced(None, self.elementwise(name, operands, shape), shape) for shape in shapes]
        if name in MOVES and (moved := self.moved(eqn, operands)) is not None:
            return [Traced(None, x, shape) for x, shape in zip(moved, shapes, strict=True)]
        if name in ADDING_SCATTERS and operands[1].known is not None:
            return [Traced(None, self.scattered(eqn, operands), shapes[0])]
        if name in REDUCTIONS:
            kept = self.reduced(operands[0], tuple(eqn.params["axes"]))
            return [Traced(None, kept, shape) for shape in shapes]
        if name in ALONG_AN_AXIS:
            axis = eqn.params[ALONG_AN_AXIS[name]]
            return [Traced(None, self.along(operands, axis % len(shapes[0])), shape) for shape in shapes]
        if name == "dot_general":
            return [Traced(None, self.product(eqn, operands), shapes[0])]
        if name == "stop_gradient":
            return [Traced(None, None, shape) for shape in shapes]
        if name == "cond":
            branches = [self.run(branch.jaxpr, branch.consts, operands[1:]) for branch in eqn.params["branches"]]
            return [
                Traced(None, union([found[i].dependence for found in branches]), shape)
                for i, shape in enumerate(shapes)
            ]
        if name == "scan":
            return self.scanned(eqn, operands, shapes)
        if name == "while":
            return self.looped(eqn, operands, shapes)
        return self.everything(operands, shapes)

    def independent(self, eqn: JaxprEqn, operands: list[Traced], shapes: list[tuple[int, ...]]) -> list[Traced]:
        """The results of an operation that no input enters: their values where all operands are known."""
        small = all(math.prod(shape) <= KNOWN_UP_TO for shape in shapes)
        if small and not eqn.effects and all(x.known is not None for x in operands) and not nested_programs(eqn.params):
            known = evaluated(eqn, [x.known for x in operands])
            return [Traced(value, None, shape) for value, shape in zip(known, shapes, strict=True)]
        return [Traced(None, None, shape) for shape in shapes]

    def elementwise(self, name: str, operands: list[Traced], shape: tuple[int, ...]) -> Any:
        if name == "select_n" and operands[0].known is not None:
            which = np.broadcast_to(np.asarray(operands[0].known), shape).ravel().astype(int)
            parts = [
                None if x.dependence is None else kept_rows(which == i) @ _spread(x, shape)
                for i, x in enumerate(operands[1:])
            ]
            return union(parts)
        if name == "clamp":
            operands = [operands[1], operands[0], operands[2]]
        dependence = union([_spread(x, shape) for x in operands])
        if name == "mul":
            for x in operands:
                if x.known is not None and not np.all(x.known):
                    dependence = kept_rows(np.broadcast_to(np.asarray(x.known) != 0, shape).ravel()) @ dependence
        return dependence

    def moved(self, eqn: JaxprEqn, operands: list[Traced]) -> list[Any] | None:
        """Elements moved: the operation itself, run on the numbers of all elements, 0 standing for no element.

        None where the places depend on values that are not known.
        """
        numbers, offset, parts = [], 1, []
        carried = MOVES[eqn.primitive.name]
        for i, x in enumerate(operands):
            indices = eqn.primitive.name == "scatter" and i == 1
            if indices or (carried is not None and i >= carried):
                if x.known is None:
                    return None
                numbers.append(np.asarray(x.known))
            elif x.dependence is None:
                numbers.append(np.zeros(x.shape, np.int32))
            else:
                count = math.prod(x.shape)
                numbers.append(np.arange(offset, offset + count, dtype=np.int32).reshape(x.shape))
                parts.append(x.dependence)
                offset += count
        sources = [np.asarray(x).ravel() for x in evaluated(eqn, numbers)]
        sources = [np.where((x > 0) & (x < offset), x, 0) for x in sources]
        whole = stacked(parts)
        return [chosen_rows(x - 1) @ whole for x in sources]

    def scattered(self, eqn: JaxprEqn, operands: list[Traced]) -> Any:
        """Elements added to others: where each update goes is what the transpose of the operation reads."""
        operand, indices, updates = operands
        count = math.prod(operand.shape)
        parts = [operand.dependence]
        if updates.dependence is not None:
            with jax.ensure_compile_time_eval():
                add = lambda u: eqn.primitive.bind(
                    jnp.zeros(operand.shape), jnp.asarray(indices.known), u, **eqn.params
                )
                numbers = jnp.arange(1, count + 1, dtype=jnp.result_type(float)).reshape(operand.shape)
                found = jax.vjp(add, jnp.zeros(updates.shape))[1](numbers)[0]
                target = np.abs(np.asarray(found)).ravel().astype(int)  # negative where updates are subtracted
            parts.append(chosen_rows(target - 1, count).T.tocsr() @ updates.dependence)
        return union(parts)

    def reduced(self, x: Traced, axes: tuple[int, ...]) -> Any:
        kept = [1 if i in axes else size for i, size in enumerate(x.shape)]
        count = math.prod(kept)
        target = np.broadcast_to(np.arange(count).reshape(kept), x.shape).ravel()
        return chosen_rows(target, count).T.tocsr() @ x.dependence

    def along(self, operands: list[Traced], axis: int) -> Any:
        parts = []
        for x in operands:
            if x.dependence is not None:
                kept = [1 if i == axis else size for i, size in enumerate(x.shape)]
                source = np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), x.shape).ravel()
                parts.append(chosen_rows(source) @ self.reduced(x, (axis,)))
        return union(parts)

    def product(self, eqn: JaxprEqn, operands: list[Traced]) -> Any:
        (left_summed, right_summed), (left_shared, right_shared) = eqn.params["dimension_numbers"]
        parts = []
        for this, other, summed, shared, other_summed, other_shared, first in (
            (operands[0], operands[1], left_summed, left_shared, right_summed, right_shared, True),
            (operands[1], operands[0], right_summed, right_shared, left_summed, left_shared, False),
        ):
            if this.dependence is None:
                continue
            # Numbers of the elements and the other factor, both as (shared, free, summed).
            own = _arranged(np.arange(math.prod(this.shape)).reshape(this.shape), shared, summed)
            known = np.ones(other.shape, bool) if other.known is None else np.asarray(other.known) != 0
            factor = _arranged(known, other_shared, other_summed)
            batches, free, _ = own.shape
            others = factor.shape[1]
            out = np.arange(batches * free * others)
            out = out.reshape(batches, free, others) if first else out.reshape(batches, others, free).transpose(0, 2, 1)
            if other.known is None:  # a full factor: union over what is summed once, then repeated
                row = np.broadcast_to(np.arange(batches * free).reshape(batches, free, 1), own.shape)
                gathered = places(row.ravel(), own.ravel(), (batches * free, math.prod(this.shape))) @ this.dependence
                source = np.empty(out.size, int)
                source[out.ravel()] = np.broadcast_to(
                    np.arange(batches * free).reshape(batches, free, 1), out.shape
                ).ravel()
                parts.append(picked(gathered, source))
            else:
                batch, column, inner = np.nonzero(factor)
                rows = out[batch, :, column].ravel()
                columns = own[batch, :, inner].ravel()
                check_room(int(np.diff(this.dependence.indptr)[columns].sum()))
                parts.append(places(rows, columns, (out.size, math.prod(this.shape))) @ this.dependence)
        return union(parts)

    def scanned(self, eqn: JaxprEqn, operands: list[Traced], shapes: list[tuple[int, ...]]) -> list[Traced]:
        """A scan: written out where it is short; in longer ones every turn may see what any turn sees."""
        consts, carries = scan_counts(eqn.params, len(operands))
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        if length <= WRITTEN_OUT_UP_TO:
            return self.written_out(eqn, operands, shapes)
        slices = [
            Traced(None, None if x.dependence is None else self.reduced(x, (0,)), x.shape[1:])
            for x in operands[consts + carries :]
        ]
        fixed = operands[:consts]
        start = operands[consts : consts + carries]
        found = self.repeated(lambda carry: self.run(body.jaxpr, body.consts, [*fixed, *carry, *slices]), start)
        if found is None:
            return self.everything(operands, shapes)
        stacked = []
        for x, shape in zip(found[carries:], shapes[carries:], strict=True):
            whole = x.dependence
            if whole is not None:
                source = np.broadcast_to(np.arange(math.prod(x.shape)).reshape((1, *x.shape)), shape).ravel()
                whole = chosen_rows(source, math.prod(x.shape)) @ whole
            stacked.append(Traced(None, whole, shape))
        return [*(x._replace(known=None) for x in found[:carries]), *stacked]

    def written_out(self, eqn: JaxprEqn, operands: list[Traced], shapes: list[tuple[int, ...]]) -> list[Traced]:
        consts, carries = scan_counts(eqn.params, len(operands))
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        carry, stacked = operands[consts : consts + carries], operands[consts + carries :]
        results: list[list[Traced]] = [[] for _ in shapes[carries:]]
        for turn in reversed(range(length)) if eqn.params["reverse"] else range(length):
            slices = [_turn(x, turn) for x in stacked]
            carry_and_results = self.run(body.jaxpr, body.consts, [*operands[:consts], *carry, *slices])
            carry = carry_and_results[:carries]
            for kept, x in zip(results, carry_and_results[carries:], strict=True):
                kept.append(x)
        if eqn.params["reverse"]:
            results = [kept[::-1] for kept in results]
        whole = [Traced(None, self.joined(kept), shape) for kept, shape in zip(results, shapes[carries:], strict=True)]
        return [*carry, *whole]

    def joined(self, parts: list[Traced]) -> Any:
        """Arrays one after the other, along a new first axis."""
        import scipy.sparse as sp

        if all(x.dependence is None for x in parts):
            return None
        empty = lambda x: sp.csr_array((math.prod(x.shape), self.inputs), dtype=bool)
        return stacked([empty(x) if x.dependence is None else x.dependence for x in parts])

    def looped(self, eqn: JaxprEqn, operands: list[Traced], shapes: list[tuple[int, ...]]) -> list[Traced]:
        skipped, consts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        body = eqn.params["body_jaxpr"]
        fixed, start = operands[skipped : skipped + consts], operands[skipped + consts :]
        found = self.repeated(lambda carry: self.run(body.jaxpr, body.consts, [*fixed, *carry]), start)
        return self.everything(operands, shapes) if found is None else found

    def repeated(self, body: Callable[[list[Traced]], list[Traced]], start: list[Traced]) -> list[Traced] | None:
        """The results of a loop's body once its carry has grown no further; None where that takes too long."""
        carry = [x._replace(known=None) for x in start]
        for _ in range(TURNS):
            found = body(carry)
            grown = [
                x._replace(dependence=union([x.dependence, y.dependence]))
                for x, y in zip(carry, found[: len(carry)], strict=True)
            ]
            if all(_count(x) == _count(y) for x, y in zip(carry, grown, strict=True)):
                return [*carry, *found[len(carry) :]]
            carry = grown
        return None

    def everything(self, operands: list[Traced], shapes: list[tuple[int, ...]]) -> list[Traced]:
        """Every result depends on all that the operands depend on."""
        import scipy.sparse as sp

        seen = np.zeros(self.inputs, bool)
        for x in operands:
            if x.dependence is not None:
                seen[x.dependence.indices] = True
        columns = np.flatnonzero(seen)
        found = []
        for shape in shapes:
            count = math.prod(shape)
            check_room(count * len(columns))
            data = np.ones(count * len(columns), bool)
            start = np.arange(count + 1) * len(columns)
            whole = sp.csr_array((data, np.tile(columns, count), start), shape=(count, self.inputs))
            found.append(Traced(None, whole, shape))
        return found


def _turn(x: Traced, turn: int) -> Traced:
    """The slice of a scanned array in one turn."""
    shape = x.shape[1:]
    count = math.prod(shape)
    own = None if x.dependence is None else x.dependence[turn * count : (turn + 1) * count]
    return Traced(None if x.known is None else np.asarray(x.known)[turn], own, shape)


def _shape(var: Any) -> tuple[int, ...]:
    return tuple(var.aval.shape)


def _is_inexact(var: Any) -> bool:
    return jnp.issubdtype(var.aval.dtype, jnp.inexact)


def _constant(value: Any) -> Traced:
    known = None if isinstance(value, jax.core.Tracer) or np.size(value) > KNOWN_UP_TO else np.asarray(value)
    return Traced(known, None, tuple(np.shape(value)))


def _spread(x: Traced, shape: tuple[int, ...]) -> Any:
    """Dependences of an operand in the shape of the result: a number alone stands for all elements."""
    if x.dependence is None or x.shape == shape:
        return x.dependence
    source = np.broadcast_to(np.arange(math.prod(x.shape)).reshape(x.shape), shape).ravel()
    return picked(x.dependence, source)


def _count(x: Traced) -> int:
    return 0 if x.dependence is None else x.dependence.nnz


def _arranged(x: np.ndarray, shared: Sequence[int], summed: Sequence[int]) -> Any:
    """An array with its axes as (shared, free, summed), each made one."""
    free = [i for i in range(x.ndim) if i not in shared and i not in summed]
    sizes = [math.prod(x.shape[i] for i in axes) for axes in (shared, free, summed)]
    return np.transpose(x, [*shared, *free, *summed]).reshape(sizes)
