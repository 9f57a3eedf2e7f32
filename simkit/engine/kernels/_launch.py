"""Kernels over members: what a block of lanes reads, and what it writes."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._mode import NotInKernel, mode

LANES = 32
"""Members of a program: one warp, whose threads wait for each other alone."""

EVEN_LANES = 128
"""The same where all members take as long: fewer, larger programs, of which more threads fit into a processor."""


class Given(NamedTuple):
    """An operand of a kernel: `(...,)` of all members, or `(..., members)` of each."""

    value: Array
    own: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what one member has."""
        return self.value.shape[:-1] if self.own else self.value.shape


class Made(NamedTuple):
    """A result of a kernel, `(rows, members)`."""

    rows: int
    dtype: Any


class Block:
    """View of one program of a kernel: its members, its operands as arrays of objects, and where its results go."""

    def __init__(self, given: Sequence[Given], references: Sequence[Any], made: Sequence[Any], turn: Any, lanes: int):
        self.lanes, self.made = lanes, made
        self.member = turn * lanes + jax.lax.iota(jnp.int32, lanes)
        self._given, self._references = given, references

    def operand(self, number: int) -> np.ndarray:
        """The components of an operand, each a number of all lanes or an array over lanes."""
        given, reference = self._given[number], self._references[number]
        found = np.empty(given.shape, object)
        for i, place in enumerate(np.ndindex(given.shape)):
            found[place] = reference[i, :] if given.own else reference[i]
        return found

    def gathered(self, number: int, row: Array) -> Array:
        """Row `row` of each lane of an operand of one axis."""
        given, reference = self._given[number], self._references[number]
        if given.own:
            return reference[row, jax.lax.iota(jnp.int32, self.lanes)]
        return reference[row]

    def read(self, number: int, row: Array) -> Array:
        """Row `row` of each lane of a result that was written before."""
        return self.made[number][row, jax.lax.iota(jnp.int32, self.lanes)]

    def barrier(self) -> None:
        """Let all threads of a block see what they have written."""
        from jax.experimental.pallas import triton

        if mode() == "triton":
            triton.debug_barrier()

    def put(self, number: int, row: Any, value: Array) -> None:
        """Write a row of a result."""
        self.made[number][row, :] = value

    def scattered(self, number: int, row: Array, value: Array, where: Array) -> None:
        """Write a row of its own in each lane that a mask names."""
        from jax.experimental.pallas import triton

        lane = jax.lax.iota(jnp.int32, self.lanes)
        triton.store(self.made[number].at[row, lane], value, mask=where)


def launch(
    body: Callable[[Block], None],
    given: Sequence[Given],
    made: Sequence[Made],
    members: int,
    lanes: int = LANES,
) -> list[Array]:
    """Run `body` for blocks of `lanes` members; its results, each `(rows, members)`.

    **Raises:** a `NotInKernel` where the compiler of kernels does not know an operation, or an operand is none of its kinds.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    if any(jnp.issubdtype(x.value.dtype, kind) for x in given for kind in (jnp.complexfloating, jax.dtypes.extended)):
        raise NotInKernel("complex numbers or random keys")
    count = -(-members // lanes) * lanes
    arrays, specs, places = [], [], []
    for x in given:
        places.append(len(arrays) if x.value.size else None)
        if not x.value.size:
            continue
        size = math.prod(x.shape)
        if x.own:
            arrays.append(_filled(x.value.reshape(size, members), count))
            specs.append(pl.BlockSpec((size, lanes), lambda i: (0, i)))
        else:
            arrays.append(x.value.reshape(size))
            specs.append(pl.BlockSpec((size,), lambda i: (0,)))

    def kernel(*references: Any) -> None:
        ins, outs = references[: len(arrays)], references[len(arrays) :]
        body(Block(given, [None if i is None else ins[i] for i in places], outs, pl.program_id(0), lanes))

    compiled, varying = mode() == "triton", jax.typeof(arrays[0]).mat
    call = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct((x.rows, count), x.dtype, manual_axis_type=varying) for x in made],
        grid=(count // lanes,),
        in_specs=specs,
        out_specs=[pl.BlockSpec((x.rows, lanes), lambda i: (0, i)) for x in made],
        interpret=not compiled,
        name="members",
        compiler_params=triton.CompilerParams(num_warps=max(1, lanes // 32), num_stages=1) if compiled else None,
    )
    found = _tried(call, arrays) if compiled else call(*arrays)
    return [x[:, :members] for x in found]


def _tried(call: Callable[..., Any], arrays: Sequence[Array]) -> list[Array]:
    """The results of a kernel that has been lowered once: what its compiler refuses is known before it is too late."""
    program = jax.make_jaxpr(call)(*arrays)
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # decision 133
        try:
            jax.jit(jax.extend.core.jaxpr_as_fun(program)).trace(*shapes).lower(lowering_platforms=("cuda",))
        except Exception as error:
            raise NotInKernel(f"an operation that its compiler refuses: {error}") from error
    return jax.core.eval_jaxpr(program.jaxpr, program.consts, *arrays)


def _filled(x: Array, count: int) -> Array:
    """Rows of members, filled up with the last one."""
    return x if x.shape[1] == count else jnp.pad(x, ((0, 0), (0, count - x.shape[1])), mode="edge")
