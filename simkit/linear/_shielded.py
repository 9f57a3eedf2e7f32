"""Functions of other libraries that call LAPACK, made safe for batches."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import PyTree

from ._one_at_a_time import one_at_a_time
from ._programs import CALLS, called_program, nested_programs, scan_counts

LIBRARY = frozenset(
    [
        "cholesky",
        "cholesky_update",
        "eig",
        "eigh",
        "geqp3",
        "geqrf",
        "hessenberg",
        "householder_product",
        "lu",
        "ormqr",
        "qr",
        "schur",
        "svd",
        "symmetric_product",
        "triangular_solve",
        "tridiagonal",
        "tridiagonal_solve",
    ]
)
"""Operations that JAX leaves to LAPACK on CPUs."""


def shielded(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with every call of LAPACK in it made one at a time, here and under `vmap`; without reverse mode.

    It is traced, and what calls LAPACK is written again; the rest stays as it is. Islands of `shard_map` in it stay, too.
    """

    def called(*arguments: PyTree) -> Any:
        program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not calls_library(program.jaxpr):
            found = jax.core.eval_jaxpr(program.jaxpr, program.consts, *jax.tree.leaves(arguments))
        else:
            found = _evaluated(program.jaxpr, program.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return called


def calls_library(jaxpr: Jaxpr) -> bool:
    """Tell whether a program, or one nested in it, calls LAPACK."""
    return any(map(_concerns, jaxpr.eqns))


def _concerns(eqn: JaxprEqn) -> bool:
    name = eqn.primitive.name
    return name in LIBRARY or (
        (name in CALLS or name in CONTROL) and any(map(calls_library, map(_plain, nested_programs(eqn.params))))
    )


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    held = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
    for eqn in jaxpr.eqns:
        given = [atom.val if isinstance(atom, Literal) else held[atom] for atom in eqn.invars]
        if _concerns(eqn):
            found = _applied(eqn, given)
        else:
            variables = list(dict.fromkeys(atom for atom in eqn.invars if not isinstance(atom, Literal)))
            alone = jaxpr.replace(constvars=[], invars=variables, outvars=eqn.outvars, eqns=[eqn], effects=eqn.effects)
            found = jax.core.eval_jaxpr(alone, (), *(held[atom] for atom in variables))
        held.update(zip(eqn.outvars, found, strict=True))
    return [atom.val if isinstance(atom, Literal) else held[atom] for atom in jaxpr.outvars]


def _applied(eqn: JaxprEqn, given: list[Any]) -> list[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in LIBRARY:
        function = one_at_a_time(lambda *xs: eqn.primitive.bind(*xs, **params))
        for _ in range(given[0].ndim - (1 if name == "tridiagonal_solve" else 2)):
            function = jax.vmap(function)
        found = function(*given)
        return list(found) if eqn.primitive.multiple_results else [found]
    if name in CONTROL:
        return CONTROL[name](params, given)
    return _evaluated(*called_program(params), given)


def _plain(program: ClosedJaxpr | Jaxpr) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _as_function(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    return lambda *xs: _evaluated(closed.jaxpr, closed.consts, xs)


def _cond(params: dict[str, Any], given: list[Any]) -> list[Any]:
    return jax.lax.switch(given[0], [_as_function(branch) for branch in params["branches"]], *given[1:])


def _while(params: dict[str, Any], given: list[Any]) -> list[Any]:
    one, two = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    goes_on, body = _as_function(params["cond_jaxpr"]), _as_function(params["body_jaxpr"])
    return jax.lax.while_loop(
        lambda state: goes_on(*given[:one], *state)[0], lambda state: body(*given[one:two], *state), given[two:]
    )


def _scan(params: dict[str, Any], given: list[Any]) -> list[Any]:
    one, carries = scan_counts(params, len(given))
    two = one + carries
    body = _as_function(params["jaxpr"])

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        found = body(*given[:one], *carry, *x)
        return found[: len(carry)], found[len(carry) :]

    carry, ys = jax.lax.scan(step, given[one:two], given[two:], params["length"], params["reverse"], params["unroll"])
    return [*carry, *ys]


def _linear_solve(params: dict[str, Any], given: list[Any]) -> list[Any]:
    lengths = params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    last = first + lengths.solve
    return _as_function(params["jaxprs"].solve)(*given[first:last], *given[last + lengths.transpose_solve :])


CONTROL = {"cond": _cond, "while": _while, "scan": _scan, "custom_linear_solve": _linear_solve}
"""Operations that hold several programs, or run one several times."""
