"""watch: a solve in Python, which stops before the steps that were asked for."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from .._errors import ArgumentError, check_known
from .._types import Inputs, State
from ..core import DelayedSystem, Setup, StochasticSystem, System, named_leaves, started
from ..engine import Fixed, Method, Varying, resolve, settled_method, single_attempt
from ..solvers import Stepper
from ._locate import Runner, advanced, ends_of_steps, slope_of

SHOWN = 8
"""Arrays of at most so many numbers are printed whole."""


class Moment(eqx.Module):
    """A solve, just before one of its steps.

    - `number`: how many steps were tried before this one, rejected ones included; `time`, `step`: where it begins and how long it
        will be.
    - `setup`: system, state (as `y0`) and inputs.
    - `fields`: the paths of the state that are printed; `moment["hare"]` is the value of any.
    """

    setup: Setup
    solver: Any
    number: int = eqx.field(static=True)
    time: float = eqx.field(static=True)
    step: float = eqx.field(static=True)
    fields: tuple[str, ...] = eqx.field(static=True)

    def __getitem__(self, field: str) -> np.ndarray:
        leaves = named_leaves(self.setup.y0)
        check_known(field, leaves, "field of the state")
        return np.asarray(leaves[field])

    def slope(self) -> State:
        """The derivative of the state, by the model's own function, in Python: `print` and a debugger work inside it."""
        with jax.disable_jit():
            return slope_of(self.setup, self.time)

    def advance(self, key: PRNGKeyArray | None = None) -> State:
        """The state after the step, operation by operation in Python: `print` and a debugger work inside the model."""
        with jax.disable_jit():
            return advanced(self.setup, self.solver, self.time, self.step, key)

    def __repr__(self) -> str:
        lines = [f"step {self.number}, from time {self.time:.9g} to {self.time + self.step:.9g}"]
        for field in self.fields:
            value = self[field]
            label = field or "y"
            if value.size <= SHOWN:
                lines.append(f"  {label} = {value.tolist()}")
            else:
                lines.append(
                    f"  {label} {value.dtype}{list(value.shape)} between {np.min(value):.6g} and {np.max(value):.6g}"
                )
        return "\n".join(lines)


def watch(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    steps: Iterable[int],
    *,
    fields: Sequence[str] | None = None,
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
) -> Iterator[Moment]:
    """Go through a solve and stop before the steps that are asked for, in a loop of Python: to print, to plot, to debug.

    **Arguments:**

    - `steps`: numbers of steps, from 0, such as `[0, 10]` or `range(100, 110)`. Of an adaptive solve rejected steps count as
        well. The loop ends where the solve ends.
    - `fields`: the paths of the state to print; all by default.
    - the others as in `simulate`.

    **Returns:** an iterator over `Moment`s, in the order of the steps.

    **Raises:** an `ArgumentError` where a field is not one of the state, or a number is below zero.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    for moment in simkit.inspect.watch(system, y0, times, [0, 10], fields=["hare"]):
        print(moment, moment.slope().lynx)  # or: breakpoint()
    ```
    """
    y0 = jax.tree.map(jnp.asarray, started(y0))
    known = list(named_leaves(y0))
    for field in fields or []:
        check_known(field, known, "field of the state")
    wanted = sorted({int(number) for number in steps})
    if wanted and wanted[0] < 0:
        raise ArgumentError(f"Argument `steps` must hold numbers from 0 on, but it holds {wanted[0]}.")
    times = np.asarray(times)
    method = resolve(system, y0, times, solver=solver, step=step, inputs=inputs)
    if method.solver is None:
        raise ArgumentError(f"`{type(system).__name__}` is static: it has no steps to watch.")
    if method.solver.multistep:
        raise ArgumentError(
            f"`{type(method.solver).__name__}` is a method of several steps, of which none stands by itself. To watch the solve, "
            "take another solver, such as `Rodas5P()`."
        )
    if isinstance(system, DelayedSystem):
        raise ArgumentError(
            f"A step of `{type(system).__name__}` does not stand by itself, since it sees its past. To look at the solve, save "
            "densely."
        )
    go = _fixed if isinstance(method.step, Fixed) else _adaptive
    for number, time, length, state in go(Setup(system, y0, inputs), times, method, wanted, key):
        setup = Setup(system, state, inputs)
        yield Moment(setup, method.solver, number, time, length, tuple(known if fields is None else fields))


Found = Iterator[tuple[int, float, float, State]]


def _adaptive(setup: Setup, times: np.ndarray, method: Method, wanted: list[int], key: PRNGKeyArray | None) -> Found:
    end = jnp.asarray(times[-1], jnp.result_type(*jax.tree.leaves(setup.y0)))
    time, length, state = end * 0 + times[0], end * 0, setup.y0
    method = settled_method(setup, jnp.asarray(times, end.dtype), Method(method.solver, method.step))
    left = iter(wanted)
    following = next(left, None)
    for number in itertools.count():
        if following is None or not time < end:
            return
        found = single_attempt(Setup(setup.system, state, setup.inputs), method, time, end, length)
        if number == following:
            yield number, float(time), float(found.tried), state
            following = next(left, None)
        time, state, length = found.time, found.state, found.length


def _fixed(setup: Setup, times: np.ndarray, method: Method, wanted: list[int], key: PRNGKeyArray | None) -> Found:
    assert isinstance(method.step, Fixed)
    fine = ends_of_steps(times, method.step.substeps)
    wanted = [number for number in wanted if number < len(fine) - 1]
    if not wanted:
        return
    assert method.solver is not None
    run = Runner(setup.system, setup.inputs, method.solver, Fixed(1), key)
    if isinstance(setup.system, StochasticSystem):  # the same noise needs the same start
        rows = run(setup.y0, fine[: wanted[-1] + 2]).ys
        for number in wanted:
            yield (*_at(fine, number), jax.tree.map(lambda leaf, number=number: leaf[number], rows))
        return
    state, left = setup.y0, set(wanted)
    for number in range(wanted[-1] + 1):
        if number in left:
            yield (*_at(fine, number), state)
        state = run(state, fine[number : number + 2]).final()


def _at(fine: np.ndarray, number: int) -> tuple[int, float, float]:
    return number, float(fine[number]), float(fine[number + 1] - fine[number])
