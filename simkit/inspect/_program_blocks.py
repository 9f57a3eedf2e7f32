"""A traced program as a tree of blocks: pieces of code without a loop or a branch, each with the number of times it runs.

Lengths of scans are known from the program. How often the body of a while loop or a branch of a condition ran is known only by
running: `count_runs` runs the program with a counter for each of them, of which the compiler drops everything else.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun  # pyright: ignore[reportPrivateImportUsage]
from jaxtyping import Array, PyTree

COUNTS = jnp.uint32


@dataclasses.dataclass(eq=False)
class Block:
    """A piece of a program.

    - `jaxpr`, `consts`: the code.
    - `inner`: what the equations that are not plain operations hold, by the place of the equation.
    - `factor`: how often it runs each time that the block around it runs; None where that has to be counted, by `counter`.
    - `measured`: whether anything in it has to be counted.
    """

    jaxpr: Jaxpr
    consts: Sequence[Any]
    inner: dict[int, "Inner"]
    factor: int | None = 1
    counter: int | None = None

    @property
    def measured(self) -> bool:
        return any(inner.measured for inner in self.inner.values())


@dataclasses.dataclass(eq=False)
class Inner:
    """Inner blocks of an equation, and how they run."""

    kind: str
    blocks: list[Block]

    @property
    def measured(self) -> bool:
        return any(block.factor is None or block.measured for block in self.blocks)


class Survey:
    """Blocks of a program, and how many counters they need."""

    def __init__(self, program: ClosedJaxpr):
        self.counters = 0
        self.root = self._block(program)

    def runs(self, block: Block, around: float, counts: np.ndarray) -> float:
        """Return the number of runs of a block in one that runs `around` times."""
        return around * block.factor if block.factor is not None else float(counts[block.counter])

    def _block(self, code: ClosedJaxpr | Jaxpr, factor: int | None = 1) -> Block:
        jaxpr, consts = (code.jaxpr, code.consts) if isinstance(code, ClosedJaxpr) else (code, ())
        counter = None
        if factor is None:
            counter, self.counters = self.counters, self.counters + 1
        inner = {}
        for place, equation in enumerate(jaxpr.eqns):
            found = self._inner(equation)
            if found is not None:
                inner[place] = found
        return Block(jaxpr, consts, inner, factor, counter)

    def _inner(self, equation: JaxprEqn) -> Inner | None:
        name, params = equation.primitive.name, equation.params
        if name == "scan":
            return Inner("scan", [self._block(params["jaxpr"], int(params["length"]))])
        if name == "while":
            return Inner("while", [self._block(params["body_jaxpr"], None)])
        if name == "cond":
            return Inner("cond", [self._block(branch, None) for branch in params["branches"]])
        if name == "shard_map":
            return Inner("shard_map", [self._block(params["jaxpr"], int(np.prod(params["mesh"].axis_sizes)))])
        if name == "custom_linear_solve":
            return Inner("linear_solve", [self._block(params["jaxprs"].solve)])
        held = [value for value in params.values() if isinstance(value, ClosedJaxpr | Jaxpr)]
        if name != "pallas_call" and held and len(_open(held[0]).invars) == len(equation.invars):
            return Inner("call", [self._block(held[0])])
        if not held and (traced := _implementation(equation)) is not None:
            return Inner("call", [self._block(traced)])
        return None


def _open(code: ClosedJaxpr | Jaxpr) -> Jaxpr:
    return code.jaxpr if isinstance(code, ClosedJaxpr) else code


def _implementation(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The code of an operation that is written in other operations, as those of the engine are; None for one of XLA's."""
    implementation = getattr(equation.primitive, "impl", None)
    inner = getattr(implementation, "func", implementation)
    if inner is None or getattr(inner, "__module__", "").startswith(("jax.", "jax_", "jaxlib")):
        return None
    avals: list[Any] = [x.aval for x in equation.invars]
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    found = jax.make_jaxpr(functools.partial(inner, **equation.params))(*shapes)
    if any(x.primitive is equation.primitive for x in found.jaxpr.eqns):
        return None
    return found


def count_runs(survey: Survey, program: ClosedJaxpr, arguments: Sequence[Any]) -> np.ndarray:
    """Return the number of runs of each counted block: shape `(counters,)`."""
    if not survey.counters:
        return np.zeros(0, int)

    def counts(*values: Array) -> Array:
        counters, _ = _run(survey.root, jnp.zeros(survey.counters, COUNTS), values)
        return counters

    return np.asarray(jax.jit(counts)(*arguments)).astype(np.int64)


def _run(block: Block, counters: Array, values: Sequence[Any]) -> tuple[Array, list[Any]]:
    """Evaluate a block; the counters go through all loops."""
    known: dict[Any, Any] = dict(zip(block.jaxpr.constvars, block.consts, strict=True))
    known.update(zip(block.jaxpr.invars, values, strict=True))

    def read(atom: Var | Literal) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for place, equation in enumerate(block.jaxpr.eqns):
        operands = [read(atom) for atom in equation.invars]
        inner = block.inner.get(place)
        if inner is not None and inner.measured:
            counters, out = RUNNERS[inner.kind](inner.blocks, equation, counters, operands)
        elif inner is not None and inner.kind == "call":
            counters, out = _run_call(inner.blocks, equation, counters, operands)
        else:
            out = run_equation(block.jaxpr, equation, operands)
        known.update(zip(equation.outvars, out, strict=True))
    return counters, [read(atom) for atom in block.jaxpr.outvars]


def run_equation(jaxpr: Jaxpr, equation: JaxprEqn, operands: list[Any]) -> list[Any]:
    """One operation: as a program of its own, since how an operation is bound is not public."""
    given = [i for i, atom in enumerate(equation.invars) if not isinstance(atom, Literal)]
    names = [Var(equation.invars[i].aval) for i in given]
    atoms = list(equation.invars)
    for i, name in zip(given, names, strict=True):
        atoms[i] = name
    about = jaxpr.debug_info._replace(arg_names=None, result_paths=None)
    program = Jaxpr((), names, equation.outvars, [equation.replace(invars=atoms)], equation.effects, about)
    return jaxpr_as_fun(ClosedJaxpr(program, ()))(*[operands[i] for i in given])


def _run_call(blocks: list[Block], equation: JaxprEqn, counters: Array, values: list[Any]) -> tuple[Array, list[Any]]:
    return _run(blocks[0], counters, values)


def _run_scan(blocks: list[Block], equation: JaxprEqn, counters: Array, values: list[Any]) -> tuple[Array, list[Any]]:
    params = equation.params
    carried, stacked = carried_and_stacked(equation, blocks[0].jaxpr, values)
    consts = len(equation.invars) - carried - stacked
    fixed, state, rows = values[:consts], values[consts : consts + carried], values[consts + carried :]

    def body(carry: PyTree, row: PyTree) -> Any:
        counters, state = carry
        counters, out = _run(blocks[0], counters, [*fixed, *state, *row])
        return (counters, out[:carried]), out[carried:]

    (counters, state), stacked = jax.lax.scan(
        body, (counters, list(state)), list(rows), length=params["length"], reverse=params["reverse"]
    )
    return counters, [*state, *stacked]


def carried_and_stacked(equation: JaxprEqn, body: Jaxpr, given: Sequence[Any]) -> tuple[int, int]:
    """Return the numbers of operands that a loop carries, and that it takes one row a turn of.

    For scans that stands under names that differ between versions of JAX; ranks tell.
    """
    carried = sum(_rank(o) == _rank(i) for o, i in zip(equation.outvars, body.outvars, strict=True))
    return carried, sum(np.ndim(x) != _rank(i) for x, i in zip(given, body.invars, strict=True))


def shape_of(atom: Var | Literal) -> tuple[int, ...]:
    """The shape of a value; that of what is no array has no axes."""
    return getattr(atom.aval, "shape", ())


def _rank(atom: Var | Literal) -> int:
    return len(shape_of(atom))


def _run_while(blocks: list[Block], equation: JaxprEqn, counters: Array, values: list[Any]) -> tuple[Array, list[Any]]:
    params, block = equation.params, blocks[0]
    first, second = params["cond_nconsts"], params["body_nconsts"]
    of_condition, of_body, state = values[:first], values[first : first + second], values[first + second :]
    condition = jaxpr_as_fun(params["cond_jaxpr"])

    def body(carry: PyTree) -> Any:
        counters, state = carry
        return _run(block, counters.at[block.counter].add(1), [*of_body, *state])

    return jax.lax.while_loop(lambda carry: condition(*of_condition, *carry[1])[0], body, (counters, list(state)))


def _run_cond(blocks: list[Block], equation: JaxprEqn, counters: Array, values: list[Any]) -> tuple[Array, list[Any]]:
    def branch(block: Block) -> Callable[..., Any]:
        return lambda counters, values: _run(block, counters.at[block.counter].add(1), values)

    return jax.lax.switch(values[0], [branch(block) for block in blocks], counters, values[1:])


def _run_shards(blocks: list[Block], equation: JaxprEqn, counters: Array, values: list[Any]) -> tuple[Array, list[Any]]:
    params = equation.params
    axes = jax.P(tuple(params["mesh"].axis_names))

    def body(counters: Array, values: list[Any]) -> Any:
        counted, out = _run(blocks[0], jnp.zeros_like(counters), values)
        return counted[None], out

    counted, out = jax.shard_map(
        body,
        mesh=params["mesh"],
        in_specs=(jax.P(), list(params["in_specs"])),
        out_specs=(axes, list(params["out_specs"])),
        check_vma=False,
    )(counters, values)
    return counters + jnp.sum(counted, axis=0, dtype=COUNTS), out


def _run_linear_solve(
    blocks: list[Block], equation: JaxprEqn, counters: Array, values: list[Any]
) -> tuple[Array, list[Any]]:
    lengths = equation.params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    consts, given = values[first : first + lengths.solve], values[sum(lengths) :]
    return _run(blocks[0], counters, [*consts, *given])


RUNNERS: dict[str, Callable[..., tuple[Array, list[Any]]]] = {
    "call": _run_call,
    "scan": _run_scan,
    "while": _run_while,
    "cond": _run_cond,
    "shard_map": _run_shards,
    "linear_solve": _run_linear_solve,
}
