"""Traced programs: which operations hold others, in each version of JAX."""

from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr

CALLS = frozenset(
    [
        "checkpoint",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "custom_vmap_call",
        "jit",
        "pjit",
        "remat",
        "remat2",
    ]
)
"""Operations that are a program with a name, or with rules for derivatives or batches."""


def nested_programs(params: dict[str, Any]) -> list[ClosedJaxpr | Jaxpr]:
    """The programs that an operation holds."""
    parts = [part for value in params.values() for part in (value if isinstance(value, tuple | list) else [value])]
    return [part for part in parts if isinstance(part, ClosedJaxpr | Jaxpr)]


def called_program(params: dict[str, Any]) -> tuple[Jaxpr, list[Any]]:
    """The program that one of `CALLS` runs, and its constants."""
    program = nested_programs(params)[0]
    return (program.jaxpr, list(program.consts)) if isinstance(program, ClosedJaxpr) else (program, [])


def scan_counts(params: dict[str, Any], operands: int) -> tuple[int, int]:
    """The number of a scan's operands that are constants, and of those that are its carry."""
    if "num_consts" in params:  # JAX 0.10
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].update(range(operands)).unpack()
    return len(list(consts)), len(list(carry))
