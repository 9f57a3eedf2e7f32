"""locate: where a simulation stopped being finite: component, step, time, and the line of the model."""

import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import (
    DelayedSystem,
    ParticleSystem,
    Setup,
    Status,
    StochasticSystem,
    System,
    Trajectory,
    at_time,
    named_leaves,
)
from ..engine import Fixed, Varying, finite_rows, resolve, simulate
from ..solvers import Rodas5P, Stepper
from ._failure_file import read_failure, write_failure
from ._locate_back import lost_derivative
from ._trace_back import Culprit, trace_back

MASKED = (
    "A likely cause is a branch of `where` that is not taken and whose slope is infinite: give it a safe argument, such as "
    "`jnp.sqrt(jnp.where(x > 0, x, 1.0))`."
)

HALVINGS = 60
"""So often an interval is halved to find the last time to which an adaptive solve gets."""
KEYS = 16
"""Number of noise draws that are tried for a step of a stochastic system."""


class Failure(eqx.Module):
    """A simulation that broke, a step before it did.

    - `setup`: system, state before the step (as `y0`) and inputs; `time`, `step`: when the step begins, and how long it is.
    - `number`: the step's number from the start of the simulation; `status`: what the simulation said.
    - `component`: the first number of the state that is not finite after the step, by its path.
    - `culprit`: the operation that made it so; None where the step is finite (it had too many steps, for example).
    - `derivative`: whether all states are finite and reverse mode is not: `component` is then the first quantity whose derivative
        is not finite, and `culprit` the first such operation on the way back, by the line of the model that it belongs to.

    It prints itself; `save` writes it to a file that `simkit replay` opens.
    """

    setup: Setup
    solver: Any
    time: float = eqx.field(static=True)
    step: float = eqx.field(static=True)
    number: int = eqx.field(static=True)
    status: int = eqx.field(static=True)
    component: str = eqx.field(static=True)
    culprit: Culprit | None = eqx.field(static=True)
    derivative: bool = eqx.field(static=True, default=False)

    def advance(self, key: PRNGKeyArray | None = None) -> State:
        """The state after the step that broke; inside `jax.disable_jit()` every operation of the model runs in Python."""
        return advanced(self.setup, self.solver, self.time, self.step, key)

    def slope(self) -> State:
        """The derivative at the state before, by the model's own function."""
        return slope_of(self.setup, self.time)

    def save(self, path: str | Path) -> Path:
        """Write everything of it that is a number to an HDF5 file: parameters, state and inputs by path, time, step."""
        about = {"time": self.time, "step": self.step, "number": self.number, "status": self.status}
        text = self.culprit.text if self.culprit else ""
        return write_failure(path, self.setup, about | {"component": self.component, "culprit": text})

    @classmethod
    def load(
        cls, path: str | Path, system: System, y0: State, inputs: Inputs = None, solver: Stepper | None = None
    ) -> "Failure":
        """A failure from its file; `system`, `y0` and `inputs` say what the numbers belong to, their values do not matter.

        **Raises:** a `ResultFileError` where the file is none of a failure or of another model.
        """
        setup, about = read_failure(path, Setup(system, jax.tree.map(jnp.asarray, y0), inputs))
        times = np.array([about["time"], about["time"] + about["step"]])
        solver = resolve(setup.system, setup.y0, times, solver=solver, step=Fixed(1)).solver
        assert solver is not None
        found = _culprit(setup, solver, about["time"], about["step"], None)
        known = (about[name] for name in ("time", "step", "number", "status", "component"))
        return cls(setup, solver, *known, culprit=found)

    def __repr__(self) -> str:
        name = type(self.setup.system).__name__
        lines = [f"Failure of {name}: {Status(self.status).told(type(self.solver).__name__)}"]
        if self.derivative:
            lines = [f"Failure of {name} in its derivatives: all states are finite, but reverse mode is not. {MASKED}"]
        lines.append(f"  step {self.number}, from time {self.time:.9g} to {self.time + self.step:.9g}")
        if self.component:
            lines.append(f"  first not finite: {self.component}")
        if self.culprit is not None:
            lines.append(f"  made by {self.culprit.text}")
        for name, leaf in list(named_leaves(self.setup.y0).items())[:8]:
            values = np.asarray(leaf)
            if values.size <= 4:
                lines.append(f"  before it, {name or 'y'} = {values.tolist()}")
            else:
                lines.append(f"  before it, {name or 'y'} between {values.min():.6g} and {values.max():.6g}")
        return "\n".join(lines)


def locate(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
    derivative: bool = True,
) -> Failure | None:
    """Find where a simulation or its derivatives break: which component, in which step, by which line of the model.

    The simulation runs as `simulate` runs it; the interval in which it breaks is run again step by step, and the step that breaks
    is followed back operation by operation, through loops and branches, from the component that is not finite to the operation
    that made it so.

    Where all states are finite, reverse mode is looked at in the same way, from the last time backwards: a gradient may be NaN
    though the simulation is fine. That compiles a gradient; particles have no such search.

    **Arguments:** as in `simulate`, and `derivative`: whether to look at derivatives where all states are finite.

    **Returns:** a `Failure`, or None where nothing fails.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    print(simkit.inspect.locate(system, y0, times))  # prints None
    ```
    """
    if isinstance(system, DelayedSystem):
        raise ArgumentError(
            f"A step of `{type(system).__name__}` does not stand by itself, since it sees its past, so none is run alone. "
            "Save densely, and look at the last rows that are finite."
        )
    y0 = jax.tree.map(jnp.asarray, y0)
    times = np.asarray(times)
    method = resolve(system, y0, times, solver=solver, step=step, inputs=inputs)
    assert method.solver is not None, "a static system has no steps"
    run = Runner(system, inputs, method.solver, method.step, key)
    whole = run(y0, times)
    status = int(whole.status)
    good = _good_rows(whole)
    if status == 0 and good == len(times):
        found = lost_derivative(Setup(system, y0, inputs), method, times, whole.ys, key) if derivative else None
        if found is None:
            return None
        start, length = found["start"], found["length"]
        number = int(run(y0, times[: found["row"] + 1]).steps) if found["row"] else 0
        named = found["component"], found["culprit"]
        return Failure(found["setup"], method.solver, start, length, number, status, *named, derivative=True)
    row = max(good - 1, 0)
    state, number = _row(whole.ys, row), 0
    if good == len(times) and status != 0:
        end = float(times[-1])
        return Failure(Setup(system, state, inputs), method.solver, end, 0.0, int(whole.steps), status, "", None)
    if isinstance(method.step, Fixed):
        state, start, length, number = _fixed_step(run, system, y0, times, whole, row, method.step.substeps)
    else:
        state, start, length, number = _adaptive_step(run, state, float(times[row]), float(times[row + 1]))
        if row:
            number += int(run(y0, times[: row + 1]).steps)
    setup = Setup(system, state, inputs)
    culprit, length, component = _broken_step(setup, method.solver, start, length, float(times[-1]) - start, key)
    return Failure(setup, method.solver, start, length, number, status, component, culprit)


@dataclasses.dataclass
class Runner:
    """`simulate` with all but the start and the times, and without its warnings and errors."""

    system: System
    inputs: Inputs
    solver: Stepper
    step: Any
    key: Any

    def __call__(
        self, y0: State, times: ArrayLike | Sequence[float], step: float | Varying | Fixed | None = None
    ) -> Trajectory:
        return _quiet(
            self.system, y0, np.asarray(times), self.solver, self.step if step is None else step, self.inputs, self.key
        )


def _quiet(
    system: System,
    y0: State,
    times: ArrayLike,
    solver: Stepper,
    step: float | Varying | Fixed | None,
    inputs: Inputs,
    key: PRNGKeyArray | None,
) -> Trajectory:
    """`simulate`, without its warnings: of a state in the middle of a run that breaks they say nothing new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return simulate(system, y0, times, solver=solver, step=step, inputs=inputs, key=key, on_failure="mark")


def _good_rows(trajectory: Trajectory) -> int:
    """Return the number of finite rows from the first on."""
    good = finite_rows(trajectory)
    return len(good) if good.all() else int(np.argmin(good))


def _row(ys: State, row: int) -> State:
    return jax.tree.map(lambda leaf: leaf[row], ys)


def ends_of_steps(times: np.ndarray, substeps: int) -> np.ndarray:
    """Return the starts and ends of the steps between save times."""
    edges = [np.linspace(a, b, substeps, endpoint=False) for a, b in itertools.pairwise(times)]
    return np.concatenate([*edges, times[-1:]])


def _fixed_step(
    run: Runner, system: System, y0: State, times: np.ndarray, whole: Trajectory, row: int, substeps: int
) -> tuple[State, float, float, int]:
    """The step among those of an interval after which the state is not finite."""
    if isinstance(system, StochasticSystem):  # the same noise needs the same start
        fine = ends_of_steps(times[: row + 2], substeps)
        found, before = run(y0, fine, Fixed(1)), 0
    else:
        fine = np.linspace(times[row], times[min(row + 1, len(times) - 1)], substeps + 1)
        found, before = run(_row(whole.ys, row), fine, Fixed(1)), row * substeps
    last = max(min(_good_rows(found) - 1, len(fine) - 2), 0)
    return _row(found.ys, last), float(fine[last]), float(fine[last + 1] - fine[last]), before + last


def _adaptive_step(run: Runner, state: State, start: float, end: float) -> tuple[State, float, float, int]:
    """The last time that a solve reaches, by halving the interval, and the state there."""
    low, high, number, reached = start, end, 0, state
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low < 1e-9 * max(abs(high), end - start):
            break
        found = run(state, [start, middle])
        if int(found.status) == 0 and _good_rows(found) == 2:
            low, number, reached = middle, int(found.steps), found.final()
        else:
            high = middle
    return reached, low, max(high - low, 1e-9 * (end - start)), number


def slope_of(setup: Setup, time: float) -> State:
    """The derivative of the state, by the model's own function."""
    system: Any = setup.system
    t = jnp.asarray(time)
    return system.decode(system.vector_field(t, system.encode(setup.y0), at_time(setup.inputs, t)))


def advanced(setup: Setup, solver: Stepper, time: float, length: float, key: PRNGKeyArray | None) -> State:
    """The state after one step; a method of several steps cannot take one alone and is stood in for by another stiff one."""
    times = jnp.asarray([time, time + length])  # an array of JAX's, also where compilation is switched off
    solver = Rodas5P() if solver.multistep else solver
    return _quiet(setup.system, setup.y0, times, solver, Fixed(1), setup.inputs, key).final()


def _broken_step(
    setup: Setup, solver: Stepper, start: float, length: float, longest: float, key: PRNGKeyArray | None
) -> tuple[Culprit | None, float, str]:
    """A step from a state that ends where nothing is finite: as long as it was, or longer for solvers that choose their steps."""
    keys = (
        [key]
        if key is None or not isinstance(setup.system, StochasticSystem)
        else [jax.random.fold_in(key, i) for i in range(KEYS)]
    )
    while True:
        for one in keys:
            after = named_leaves(advanced(setup, solver, start, length, one))
            bad = [(name, np.argwhere(~np.isfinite(np.asarray(x)))) for name, x in after.items()]
            bad = [(name, places) for name, places in bad if len(places)]
            if bad:
                name, places = bad[0]
                path = ".".join((name or "y", *map(str, places[0])))
                return _culprit(setup, solver, start, length, one), length, path
        if length >= longest:
            return None, length, ""
        length = min(4 * length, longest)


def _culprit(setup: Setup, solver: Stepper, start: float, length: float, key: PRNGKeyArray | None) -> Culprit | None:
    system: Any = setup.system
    if isinstance(system, ParticleSystem):
        setup = eqx.tree_at(lambda s: s.system, setup, system.prepared(setup.y0))
    moving, fixed = eqx.partition(setup.y0, eqx.is_inexact_array)
    leaves, shape = jax.tree.flatten(moving)

    def after(*leaves: Array) -> Any:
        y0 = eqx.combine(jax.tree.unflatten(shape, leaves), fixed)
        held = eqx.tree_at(lambda s: s.y0, setup, y0, is_leaf=lambda x: x is None)
        return [x for x in jax.tree.leaves(advanced(held, solver, start, length, key)) if eqx.is_inexact_array(x)]

    found = trace_back(after, leaves)
    return found if isinstance(found, Culprit) else None
