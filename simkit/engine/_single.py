"""One step of a solve, taken by itself: what a loop over steps in Python needs."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import Setup, check_derivative
from ._integrate import Method
from .adaptive._adaptive import integrate_adaptive, pose
from .adaptive._flow import first_step
from .adaptive._operation import solve_members
from .task._scales import settled
from .task._task import Options, Task


class Single(NamedTuple):
    """One attempted step: how long it was, where it ended, the state there, how long the next would be, whether it was accepted.

    Of a rejected one time and state are those before it.
    """

    tried: Array
    time: Array
    state: Any
    length: Array
    accepted: Array


@eqx.filter_jit
def settled_method(setup: Setup, times: Array, method: Method) -> Method:
    """A method for a solve that is taken step by step: tolerances that were left open follow from its first state."""
    system, y0, inputs = setup.system, setup.y0, setup.inputs
    task = Task(system, system.encode(y0), inputs, times, method.solver, method.step)
    return Method(method.solver, settled(task).step)


@eqx.filter_jit
def single_attempt(setup: Setup, method: Method, time: Array, end: Array, length: Array) -> Single:
    """The next attempt of an adaptive solve that stands at `time` with the state `setup.y0` and would try `length`.

    With a length of 0 it is the first, whose length is chosen. One compiled program serves all attempts of a solve, and the
    attempts are those of the solve: states differ by rounding.
    """
    system, y0, inputs = setup.system, setup.y0, setup.inputs
    state = system.encode(y0)
    check_derivative(system, state, time, inputs)
    once = dataclasses.replace(method.step, max_steps=1)
    task = Task(system, state, inputs, jnp.stack([time, end]), method.solver, once)
    member, ops, fixed, times, plan, _ = pose(task, Options(), length)
    first = first_step(member, ops, fixed, times[0], times[1], ops[0])
    _, _, steps, _, following, reached = solve_members(ops[0][None], *ops[1:], *fixed, times, plan=plan)
    accepted = steps[0] > 0
    tried = jnp.where(accepted, reached[0] - times[0], jnp.minimum(first, end - time))
    states, *_ = integrate_adaptive(task._replace(times=jnp.stack([time, time + tried])), Options(), tried)
    after = jax.tree.map(lambda x, before: jnp.where(accepted, x[-1], before), states, state)
    return Single(tried, jnp.where(accepted, reached[0], time), system.decode(after), following[0], accepted)
