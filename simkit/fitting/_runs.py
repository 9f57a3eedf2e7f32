"""Descents from many places by one program, together or in blocks."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine import awaited, note_trace, over_members, over_processes
from ..problem import Problem, named_parts
from ._gauss_newton import GaussNewton
from ._method import AbstractMethod, End
from ._start_queue import LANES, queued
from ._stored import blocks


def run(
    problem: Problem,
    method: AbstractMethod,
    fraction: float,
    z: Array | np.ndarray,
    held: Array | np.ndarray,
    best: float | None = None,
    verb: str = "fit",
) -> End:
    """One stage from all starts, by one program for all stages and all problems of the same shapes.

    `best` is the least objective known elsewhere of many starts that seek one optimum, of which hopeless ones are given up;
    None where each start is wanted for itself.
    """
    # A fraction as a Python number, or starts that still lie spread over devices, would each compile a program of their own.
    start = jnp.asarray(np.asarray(z), z.dtype), jnp.asarray(np.asarray(held), bool)
    shorter = jnp.asarray(fraction, start[0].dtype)
    many = best is not None or len(z) > LANES

    def here(z: Array, held: Array) -> End:
        if many and isinstance(method, GaussNewton):
            return queued(problem, method, shorter, z, held, best)
        return awaited(_run(problem, method, shorter, z, held), verb, f"from {len(z)} starts")

    return over_processes(here, *start)


def in_blocks(
    problem: Problem, method: AbstractMethod, fraction: float, z: Array | np.ndarray, size: int, starts: int
) -> Any:
    """One stage from all places, so many at a time, by the program of a fit of so many starts; where they end, in NumPy."""
    if isinstance(method, GaussNewton) and starts > LANES:
        held = jnp.zeros(z.shape, bool)
        end = queued(problem, method, jnp.asarray(fraction, z.dtype), z, held, None, lanes=min(size, LANES))
        return jax.tree.map(np.asarray, end)
    ends = [run(problem, method, fraction, z[rows], np.zeros(z[rows].shape, bool)) for rows in blocks(len(z), size)]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[: len(z)], *ends)


@eqx.filter_jit
def _run(problem: Problem, method: AbstractMethod, fraction: Array, z: Array, held: Array) -> End:
    note_trace("fit", named_parts(problem) | {"method": method, "starts": z})

    def one(shared: tuple[Problem, AbstractMethod, Array], start: tuple[Array, Array]) -> End:
        problem, method, fraction = shared
        return method.descend(problem.until(fraction), *start)

    return over_members(one, (problem, method, fraction), (z, held))
