"""One interval of a system as a pure function: fixed steps from a state to the next, without saved times, checks or a status."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._types import Inputs, State, Time
from ..core import System, SystemTerm, refuse_jumps
from ..solvers import Stepper

UNROLLED = 4
"""Most steps that are written out; more are a loop."""


def transition(
    system: System,
    solver: Stepper,
    substeps: int,
    t: Time,
    length: Array,
    y: State,
    inputs: Inputs,
) -> State:
    """The state after `length`, in equal steps of a one-step method, with signals that do not jump in between.

    What loops of a controller call thousands of times a second: `simulate` gives the same numbers, with everything around them.
    """
    refuse_jumps(
        system,
        "A controller plans with the drift",
        "simulate it, or write the mean of its jumps into a system of its own.",
    )
    term = SystemTerm(system, inputs)
    state, h = system.encode(y), length / substeps
    memory = solver.init(term, t, state)

    def one(carry: tuple[State, Any], index: Array | int) -> tuple[tuple[State, Any], None]:
        state, memory = carry
        begin = t + index * h
        found = solver.advance(term, begin, begin + h, h, state, memory)
        return (found.state, found.memory), None

    carry = state, memory
    if substeps <= UNROLLED:
        for index in range(substeps):
            carry, _ = one(carry, index)
    else:
        carry, _ = jax.lax.scan(one, carry, jnp.arange(substeps, dtype=length.dtype))
    return system.decode(carry[0])
