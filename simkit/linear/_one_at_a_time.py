"""Calls of LAPACK under `vmap`: one matrix after the other."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.custom_batching
from jaxtyping import PyTree

from ._threads import one_thread


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which calls LAPACK, so that a batch of it is a loop over single calls on CPUs.

    JAX 0.10 deals the matrices of one batched call out to XLA's threads, and the thread that made the call waits for them. As
    many such calls at once as there are threads wait for each other for ever. A single call waits for nobody. The loop is no
    slower than the batched call, and a quarter faster from some ten rows on. Other processors keep their batched calls.

    Forward mode goes through; reverse mode does not: what needs it has a rule for derivatives around this.
    """
    single = jax.custom_batching.custom_vmap(function)

    @single.def_vmap
    def batched(axis_size: int, in_batched: list[bool], *arguments: PyTree) -> tuple[Any, Any]:
        if not any(in_batched):  # the tangents alone are batched, and tracers of theirs are inside of the arguments
            found = function(*arguments)
            return found, jax.tree.map(lambda _: False, found)
        one = lambda mapped: single(*_put(arguments, in_batched, mapped))
        mapped = [x for x, given in zip(arguments, in_batched, strict=True) if given]
        if jax.default_backend() == "cpu":
            found = jax.lax.map(one, mapped)
        else:
            found = jax.vmap(lambda mapped: function(*_put(arguments, in_batched, mapped)))(mapped)
        return found, jax.tree.map(lambda _: True, found)

    @functools.wraps(function)
    def called(*arguments: PyTree) -> Any:
        one_thread()
        return single(*arguments)

    return called


def _put(arguments: tuple[Any, ...], given: list[bool], mapped: list[Any]) -> list[Any]:
    rest = iter(mapped)
    return [next(rest) if own else x for x, own in zip(arguments, given, strict=True)]
