"""Trace from a number that is not finite back to the operation that made it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun  # pyright: ignore[reportPrivateImportUsage]
from jax.typing import ArrayLike
from jaxtyping import PyTree

from ..core import Place, place_of
from ._program_blocks import Block, Inner, Survey, carried_and_stacked, run_equation


class Culprit(NamedTuple):
    """The operation of which all operands are finite and a result is not.

    - `operation`: its name, such as `log` or `div`; `place`: the line of the model, None where it is none's.
    - `at`: where in the result; `operands`, `result`: the numbers there.
    """

    operation: str
    place: Place | None
    at: tuple[int, ...]
    operands: tuple[Any, ...]
    result: Any

    @property
    def text(self) -> str:
        """Sentence with the line, and what was computed from what."""
        numbers = ", ".join(f"{float(np.real(x)):.6g}" for x in self.operands)
        where = f" at {list(self.at)}" if self.at else ""
        line = (
            f"{self.place.function} ({self.place.file}:{self.place.line})" if self.place else "an operation of the loop"
        )
        return f"{line}: `{self.operation}` of ({numbers}) is {self.result}{where}"


class FromInput(NamedTuple):
    """It was not finite when it came in."""

    operand: int


def trace_back(
    function: Callable[..., PyTree], arguments: Sequence[Any], output: int | None = None
) -> Culprit | FromInput | None:
    """The operation that made an output of a function of arrays not finite; None where all outputs are finite.

    It is followed back through every loop and branch, value by value: an operation whose result is thrown away, as by `where`, is
    not blamed.
    """
    program = jax.make_jaxpr(function)(*arguments)
    root = Survey(program).root
    values = jax.tree.leaves(arguments)
    found = _Run(root, values)
    bad = [i for i, atom in enumerate(root.jaxpr.outvars) if not is_finite(found.read(atom))]
    if output is not None:
        bad = [i for i in bad if i == output]
    return found.blame(root.jaxpr.outvars[bad[0]]) if bad else None


def is_finite(value: Any) -> bool:
    """Tell whether all numbers of an array are finite; true for values that are no numbers."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
        return True
    return bool(jnp.isfinite(value).all())


class _Run:
    """All values of one run of a block, kept."""

    def __init__(self, block: Block, values: Sequence[Any]):
        self.block = block
        jaxpr = block.jaxpr
        self.known: dict[Any, Any] = dict(zip(jaxpr.constvars, block.consts, strict=True))
        self.known.update(zip(jaxpr.invars, values, strict=True))
        self.maker: dict[Any, int] = {}
        for place, equation in enumerate(jaxpr.eqns):
            out = run_equation(jaxpr, equation, [self.read(atom) for atom in equation.invars])
            self.known.update(zip(equation.outvars, out, strict=True))
            self.maker.update(dict.fromkeys(equation.outvars, place))

    def read(self, atom: Var | Literal) -> Any:
        return atom.val if isinstance(atom, Literal) else self.known[atom]

    def blame(self, atom: Var | Literal) -> Culprit | FromInput:
        """Find the operation that made a value that is not finite."""
        while True:
            if atom not in self.maker:
                inputs: list[Var | Literal] = list(self.block.jaxpr.invars)
                return FromInput(inputs.index(atom) if atom in inputs else -1)
            place = self.maker[atom]
            equation = self.block.jaxpr.eqns[place]
            operands = [self.read(x) for x in equation.invars]
            inner = self.block.inner.get(place)
            if inner is None:
                source = self._source(equation, operands, atom)
                if source is None:
                    return _culprit(equation, operands, self.read(atom))
            else:
                output = next(i for i, made in enumerate(equation.outvars) if made is atom)
                blamed = _blame_inner(inner, equation, operands, output)
                if isinstance(blamed, Culprit):
                    return blamed if blamed.place is not None else blamed._replace(place=place_of(equation))
                source = equation.invars[blamed.operand]
            if isinstance(source, Literal):
                return _culprit(equation, operands, self.read(atom))
            atom = source

    def _source(self, equation: JaxprEqn, operands: list[Any], atom: Var | Literal) -> Any:
        """The operand that it took over from, None where all are finite."""
        result = np.asarray(~jnp.isfinite(self.read(atom)))
        for x, value in zip(equation.invars, operands, strict=True):
            if isinstance(x, Literal) or is_finite(value):
                continue
            if equation.primitive.name == "select_n":
                chosen = np.asarray(operands[0]).astype(int)
                case = [i for i, other in enumerate(equation.invars[1:]) if other is x]
                mask = np.asarray(~jnp.isfinite(value)) & np.isin(chosen, case)
                if not (mask & result).any():
                    continue
            return x
        return None


def _culprit(equation: JaxprEqn, operands: list[Any], result: ArrayLike) -> Culprit:
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(result)))[0])
    shape = np.shape(result)
    held = [np.asarray(x) for x in operands if np.size(x)]
    numbers = tuple((x[index] if x.shape == shape else x.reshape(-1)[0]).item() for x in held)
    return Culprit(equation.primitive.name, place_of(equation), index, numbers, np.asarray(result)[index].item())


def _blame_inner(inner: Inner, equation: JaxprEqn, operands: list[Any], output: int) -> Culprit | FromInput:
    if inner.kind == "cond":
        branch = inner.blocks[int(operands[0])]
        blamed = _Run(branch, operands[1:]).blame(branch.jaxpr.outvars[output])
        return FromInput(blamed.operand + 1) if isinstance(blamed, FromInput) else blamed
    if inner.kind in ("scan", "while"):
        return _blame_loop(inner, equation, operands, output)
    block = inner.blocks[0]
    if inner.kind != "call":
        return _culprit_of_whole(block.jaxpr, equation, operands, output)
    return _Run(block, operands).blame(block.jaxpr.outvars[output])


def _culprit_of_whole(jaxpr: Jaxpr, equation: JaxprEqn, operands: list[Any], output: int) -> Culprit | FromInput:
    """An operation that is not looked into."""
    for i, value in enumerate(operands):
        if not is_finite(value):
            return FromInput(i)
    return _culprit(equation, operands, run_equation(jaxpr, equation, operands)[output])


def _blame_loop(inner: Inner, equation: JaxprEqn, operands: list[Any], output: int) -> Culprit | FromInput:
    """The first turn in which a value is not finite any more, and in that the operation."""
    block, params = inner.blocks[0], equation.params
    body = jax.jit(jaxpr_as_fun(ClosedJaxpr(block.jaxpr, list(block.consts))))
    skipped = params["cond_nconsts"] if inner.kind == "while" else 0
    given = operands[skipped:]
    carried, stacked = carried_and_stacked(equation, block.jaxpr, given)
    consts = len(given) - carried - stacked
    fixed, state, rows = given[:consts], given[consts : consts + carried], given[consts + carried :]
    turns = _turns(inner, equation, body, operands[:skipped], fixed, state, rows)
    target, last = output, len(turns)
    while True:
        turn = next((k for k in range(last) if not is_finite(turns[k][1][target])), None)
        if turn is None:  # it was not finite before the first turn
            return FromInput(skipped + consts + target)
        blamed = _Run(block, turns[turn][0]).blame(block.jaxpr.outvars[target])
        if isinstance(blamed, Culprit):
            return blamed
        place = blamed.operand
        if place < consts or place >= consts + carried:
            return FromInput(skipped + place)
        if turn == 0:
            return FromInput(skipped + place)
        target, last = place - consts, turn


def _turns(
    inner: Inner,
    equation: JaxprEqn,
    body: Callable[..., Sequence[Any]],
    of_condition: list[Any],
    fixed: list[Any],
    state: list[Any],
    rows: list[Any],
) -> list[tuple[list[Any], list[Any]]]:
    """Return the operands and results of every turn of a loop."""
    turns, params = [], equation.params
    if inner.kind == "while":
        condition = jax.jit(jaxpr_as_fun(params["cond_jaxpr"]))
        while bool(condition(*of_condition, *state)[0]):
            given = [*fixed, *state]
            state = list(body(*given))
            turns.append((given, state))
        return turns
    order = range(params["length"])
    for k in reversed(order) if params["reverse"] else order:
        given = [*fixed, *state, *[row[k] for row in rows]]
        out = list(body(*given))
        state = out[: len(state)]
        turns.append((given, out))
    return turns
