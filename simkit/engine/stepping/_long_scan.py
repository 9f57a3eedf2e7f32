"""Loops over steps whose derivatives keep no step: reconstructed ones, and ones whose segments begin in files.

Both are operations with a rule of their own: the tangent is a linear map that goes forward over the steps again, and its
transpose goes backward over them, with the states that it reconstructs or reads.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..batching._mesh import alike_arrays
from ..batching._paired import paired


class Loop(NamedTuple):
    """A loop `carry = ahead(given, carry)`, and how reverse mode goes back over it.

    - `ahead(given, carry) -> carry`: all steps.
    - `recorded(given, carry) -> carry, record`: the same, with arrays that the way back reads.
    - `back(given, begin, end, record, cotangents) -> of given, of begin`: the transpose of the derivative of all steps.

    Floats of `given` and the carry have derivatives; nothing else does, and none of the functions closes over a tracer.
    """

    ahead: Callable[[Any, Any], Any]
    recorded: Callable[[Any, Any], tuple[Any, Any]]
    back: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]]


def long_scan(loop: Loop, given: PyTree, carry: PyTree) -> Any:
    """The carry after a loop."""
    moving, fixed = eqx.partition(given, eqx.is_inexact_array)
    arrays, static = eqx.partition(fixed, eqx.is_array)
    whole = lambda moving, arrays: eqx.combine(moving, arrays, static)
    bound = Loop(
        lambda given, carry: loop.ahead(whole(*given), carry),
        lambda given, carry: loop.recorded(whole(*given), carry),
        lambda given, begin, end, record, cotangents: loop.back(whole(*given), begin, end, record, cotangents),
    )
    return _scan(bound, *alike_arrays((moving, arrays, carry)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _scan(loop: Loop, moving: PyTree, arrays: PyTree, carry: PyTree) -> Any:
    return loop.ahead((moving, arrays), carry)


@_scan.defjvp
def _scan_jvp(loop: Loop, primals: PyTree, tangents: PyTree) -> Any:
    moving, arrays, begin = primals
    end, record = loop.recorded((moving, arrays), begin)

    def pushed(known: PyTree, direction: PyTree) -> Any:
        moving, arrays, begin, _, _ = known
        ahead = lambda moving, begin: loop.ahead((moving, arrays), begin)
        return jax.jvp(ahead, (moving, begin), direction)[1]

    def pulled(known: PyTree, cotangents: PyTree) -> Any:
        moving, arrays, begin, end, record = known
        return loop.back((moving, arrays), begin, end, record, cotangents)

    direction = tangents[0], tangents[2]
    return end, paired(pushed, pulled, (moving, arrays, begin, end, record), direction)


Body = Callable[[Any, Any, Array], Any]
"""One step: what is given, the carry, the number of the step as an int32 -> the carry after it."""


def counted_loop(body: Body, given: PyTree, carry: PyTree, length: int) -> Any:
    """`carry = body(given, carry, i)` for i = 0, ... `length - 1`."""
    one = lambda state, _: ((body(given, state[0], state[1]), state[1] + 1), None)
    return jax.lax.scan(one, (carry, jnp.zeros((), jnp.int32)), None, length=length)[0][0]


def reversed_loop(body: Body, undo: Callable[..., Any], good: Callable[..., Array], length: int) -> Loop:
    """A loop of steps that are undone one by one.

    `undo(given, after, i, cotangents) -> before, of given, of before`: the carry before step i, and the transpose of the step's
    derivative. Cotangents are NaN unless `good(given, begin, end, found, cotangents)`, of the true carries, of the first one that
    is reconstructed, and of the cotangents found with it.
    """

    def back(given: PyTree, begin: PyTree, end: PyTree, record: PyTree, cotangents: PyTree) -> Any:
        def one(state: PyTree, _: None) -> Any:
            (after, i), cotangents, total = state
            before, by_given, cotangents = undo(given, after, i - 1, cotangents)
            return ((before, i - 1), cotangents, jax.tree.map(jnp.add, total, by_given)), None

        zeros = jax.tree.map(jnp.zeros_like, eqx.filter(given, eqx.is_inexact_array))
        state = ((end, jnp.asarray(length, jnp.int32)), cotangents, zeros)
        ((found, _), cotangents, total), _ = jax.lax.scan(one, state, None, length=length)
        right = good(given, begin, end, found, cotangents)
        marked = lambda tree: jax.tree.map(lambda x: jnp.where(right | (x == 0), x, jnp.nan), tree)
        return marked(total), marked(cotangents)

    ahead = lambda given, carry: counted_loop(body, given, carry, length)
    return Loop(ahead, lambda given, carry: (ahead(given, carry), ()), back)
