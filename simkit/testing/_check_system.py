"""The conformance suite that every system passes."""

import functools
import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray, PyTree

from .._errors import ArgumentError, SimulationError
from .._types import Inputs, State
from ..core import (
    ConstrainedSystem,
    DelayedSystem,
    DiscreteSystem,
    Setup,
    SplitSystem,
    StaticSystem,
    StochasticSystem,
    System,
    Trajectory,
    as_float_array,
    as_inputs,
    at_time,
    cast,
    named_leaves,
    refuse_jumps,
)
from ..engine import Adaptive, Fixed, Method, integrate, resolve
from ..solvers import Euler, Stepper
from ._gradients import Slopes, compare_slopes, directional_slopes, irregular_weights, relative_steps, typical_size

# Steps of the short run whose gradient is checked: enough for every parameter to act, few enough to compile and run fast.
STEPS, WINDOWS = 16, 2

LAGS = 2.5
"""Length of the short run of a system with delays, in longest lags: past the first jumps of derivatives."""


class SystemReport(NamedTuple):
    """Result of `check_system`; the system passed every check."""

    system: str
    solver: str
    steps: int
    names: tuple[str, ...]
    mode_error: float
    difference_error: float
    drift: dict[str, float]
    single_error: float

    def __str__(self) -> str:
        rows = [
            ("example", f"{self.steps} steps of {self.solver}"),
            (
                "gradient",
                f"by {len(self.names)} quantities: {', '.join(self.names[:8])}{', ...' * (len(self.names) > 8)}",
            ),
            (
                "modes",
                f"reverse and forward agree to {self.mode_error:.1e}, finite differences to {self.difference_error:.1e}",
            ),
            ("invariants", ", ".join(f"{name} {drift:.1e}" for name, drift in self.drift.items()) or "none"),
            ("float32", f"within {self.single_error:.1e} of float64" if self.single_error else "not compared"),
        ]
        return f"{self.system} passed\n" + "\n".join(f"  {name:<10}  {text}" for name, text in rows)


def check_system(
    system: System | type[System],
    y0: State = None,
    times: ArrayLike | Sequence[float] | None = None,
    *,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
    solver: Stepper | None = None,
    span: float | None = None,
    drift: float = 1e-7,
    tolerance: float | None = None,
) -> SystemReport:
    """Run the conformance suite on one system: what every verb of simkit relies on.

    - Fields, state and example are well formed, all of one float type, and the derivative keeps structure, shapes and dtype.
    - The example runs to its end with finite outputs, and the invariants hold under a tight tolerance.
    - New values never trace again; `vmap` over parameters equals a loop.
    - Reverse mode, forward mode and finite differences agree for every parameter and every number of the initial state.
    - Everything survives being saved and loaded, and runs in float32.
    - A stochastic system repeats its path with the same key, changes it with another, and its gradient is that of one path.

    **Arguments:**

    - `system`: a class, of which the example is checked, or a system with its own `y0`, `times` and `inputs`.
    - `key`: of a stochastic system, `jax.random.key(0)` by default.
    - `solver`: by default the one that `simulate` would choose.
    - `span`: over how long a time from `times[0]` on the gradients are checked, in sixteen fixed steps; by default 32 of the
        example's own mean steps (3 in float32), or sixteen times the fastest time scale where the system is stiff.
    - `drift`: how much an invariant may change, relative to its largest magnitude (absolutely for one below 1);
        in float32 at least 1e-3.
    - `tolerance`: of the finite differences, see `check_gradients`.

    **Returns** a report that prints, and **raises** an `AssertionError` that names the check that failed and the quantity.

    ```python
    import simkit
    print(simkit.testing.check_system(simkit.odes.ExponentialDecay))
    ```
    """
    setup, times = _as_setup(system, y0, times, inputs)
    name = type(setup.system).__name__
    refuse_jumps(
        setup.system,
        "`check_system` takes derivatives by all parameters",
        "check those by which its rate does not change with `check_gradients`.",
    )
    _check_declaration(setup, name)
    key = jax.random.key(0) if key is None and isinstance(setup.system, StochasticSystem) else key
    method, trajectory, invariants = _run_example(setup, times, solver, key, name)
    drifts = _check_invariants(invariants, drift, name)
    short, fixed = _short_run(setup, times, trajectory, method, span)
    names = _element_names(setup)
    scales = _scales(setup, trajectory)
    slopes, states = _check_transformations(setup, short, fixed, key, scales, name)
    try:
        mode_error, difference_error = compare_slopes(slopes, [f"`{path}`" for path in names], tolerance)
    except AssertionError as error:
        raise AssertionError(f"The gradient of a simulation of {name} is wrong. {error}") from None
    _check_round_trip(setup, name)
    single_error = _check_float32(setup, short, fixed, key, states, trajectory, name)
    steps = int(trajectory.steps)
    return SystemReport(name, trajectory.solver, steps, names, mode_error, difference_error, drifts, single_error)


def _as_setup(
    system: System | type[System], y0: State, times: ArrayLike | Sequence[float] | None, inputs: Inputs
) -> tuple[Setup, Array]:
    if isinstance(system, type):
        if y0 is not None or times is not None or inputs is not None:
            raise ArgumentError(
                "Argument `system` must be a system, not a class, where `y0`, `times` or `inputs` are given."
            )
        example = system.example()
        if not isinstance(example.system, system):
            raise AssertionError(f"`example` of {system.__name__} gives a {type(example.system).__name__}.")
        system, y0, times, inputs = example
    elif times is None:
        raise ArgumentError("Argument `times` must be given with a system; give its class to check its example.")
    y0 = jax.tree.map(as_float_array, y0)
    return Setup(system, y0, as_inputs(system, inputs, y0)), as_float_array(times)


def _check_declaration(setup: Setup, name: str) -> None:
    """Every number a strongly typed array, all of one float type, all finite."""
    words = jax.tree_util.tree_flatten_with_path((setup.system, setup.y0))[0]
    for path, leaf in words:
        label = f"`{jax.tree_util.keystr(path[1:]).lstrip('.')}` of {name}"
        if isinstance(leaf, bool | int | float | complex | np.ndarray):
            raise AssertionError(f"{label} is a plain {type(leaf).__name__}; declare it with `quantity`.")
        if isinstance(leaf, jax.Array) and leaf.weak_type:
            raise AssertionError(f"{label} is weakly typed and would trace again; declare it with `quantity`.")
    found = {path: jnp.asarray(leaf) for path, leaf in setup.leaves().items()}
    if not found:
        raise AssertionError(f"{name} has no parameters and no state: no field is a float array.")
    types = {leaf.dtype.name for leaf in found.values()}
    if len(types) > 1:
        listed = ", ".join(f"{path} {leaf.dtype.name}" for path, leaf in found.items())
        raise AssertionError(
            f"Parameters, state and inputs of {name} must share one float type, but they are {listed}."
        )
    for path, leaf in found.items():
        if not np.isfinite(np.asarray(leaf)).all():
            raise AssertionError(f"`{path}` of {name} is not finite.")


@eqx.filter_jit
def _run(setup: Setup, times: Array, method: Method, key: PRNGKeyArray | None) -> tuple[Trajectory, Any, Any]:
    trajectory = integrate(setup, times, method, key=key)

    def at(t: Array, y: State) -> tuple[Any, Any]:
        return setup.system.outputs(t, y, at_time(setup.inputs, t)), setup.system.invariants(t, y)

    return trajectory, *jax.vmap(at)(times, trajectory.ys)


def _run_example(
    setup: Setup, times: Array, solver: Stepper | None, key: PRNGKeyArray | None, name: str
) -> tuple[Method, Trajectory, Any]:
    try:
        step = _tight_step(setup.system, times, solver)
        method = resolve(setup.system, setup.y0, times, solver=solver, step=step, inputs=setup.inputs)
        trajectory, outputs, invariants = _run(setup, times, method, key)
    except (ArgumentError, SimulationError) as error:
        raise AssertionError(f"The example of {name} does not run. {error}") from error
    if int(trajectory.status) != 0:
        raise AssertionError(f"The example of {name} does not run to its end with {trajectory.solver}:\n{trajectory}")
    for path, leaf in named_leaves(outputs).items():
        if not np.isfinite(np.asarray(leaf)).all():
            raise AssertionError(f"The output `{path}` of {name} is not finite.")
    return method, trajectory, invariants


def _tight_step(system: System, times: Array, solver: Stepper | None) -> Adaptive | Fixed | None:
    """Tolerances near what the float type resolves; many fixed steps for a method that cannot adapt them."""
    if isinstance(system, StochasticSystem | StaticSystem | DiscreteSystem):
        return None
    if solver is not None and not solver.adaptive:
        return Fixed(-(-4000 // max(1, times.size - 1)))
    return Adaptive(max(1e-10, 100 * float(jnp.finfo(times.dtype).eps)), max_steps=200_000)


def _check_invariants(invariants: dict[str, Array], allowed: float, name: str) -> dict[str, float]:
    drifts = {}
    allowed = max([allowed, *(1e4 * float(jnp.finfo(values.dtype).eps) for values in invariants.values())])
    for label, values in invariants.items():
        values = np.asarray(values)
        drifts[label] = float(np.max(np.abs(values - values[:1])) / max(1.0, float(np.max(np.abs(values)))))
        if not drifts[label] <= allowed:
            raise AssertionError(
                f"The invariant `{label}` of {name} changes by {drifts[label]:.1e} (relative), but may by {allowed:.1e}."
            )
    return drifts


def _short_run(
    setup: Setup, times: Array, trajectory: Trajectory, method: Method, span: float | None
) -> tuple[Array, Method]:
    """Times and method of the run whose gradient is checked."""
    if isinstance(setup.system, StaticSystem) or method.solver is None:
        return times, method
    start, end = float(times[0]), float(times[-1])
    if isinstance(setup.system, DiscreteSystem):
        each = STEPS // WINDOWS
        short = jnp.asarray(start + setup.system.step * each * np.arange(WINDOWS + 1), times.dtype)
        return short, Method(method.solver, Fixed(each))
    if isinstance(setup.system, DelayedSystem):
        # Steps end where lags say, so that they cannot be fixed; differences need tolerances far below their own error.
        span = LAGS * _longest_lag(setup, times) if span is None else span
        short = jnp.linspace(start, start + min(span, end - start), WINDOWS + 1, dtype=times.dtype)
        tight = _tight_step(setup.system, times, method.solver)
        assert tight is not None
        return short, Method(method.solver, tight)
    constrained = isinstance(setup.system, ConstrainedSystem)
    if span is None and method.solver.stiff and not constrained:
        span = STEPS / float(_fastest_rate(setup, times, trajectory.ys))
    if span is None:
        # Twice the steps that 1e-10 asks for are short for Euler's method; those of float32 are some ten times as long.
        length = STEPS * (2.0 if times.dtype == jnp.float64 else 0.2)
        span = (end - start) * length / max(int(trajectory.steps), 2 * STEPS)
    short = jnp.linspace(start, start + span, WINDOWS + 1, dtype=times.dtype)
    # Every method differentiates the same vector field, and Euler's compiles fastest.
    solver = method.solver if constrained or isinstance(setup.system, StochasticSystem) else Euler()
    return short, Method(solver, Fixed(STEPS // WINDOWS))


def _longest_lag(setup: Setup, times: Array) -> float:
    """The longest lag at the start of a system with delays."""
    system: Any = setup.system
    lags = system.lags(times[0], system.encode(setup.y0), at_time(setup.inputs, times[0]))
    return max(float(np.max(np.asarray(lag))) for lag in jax.tree.leaves(lags))


@eqx.filter_jit
def _fastest_rate(setup: Setup, times: Array, ys: State) -> Array:
    """The largest Frobenius norm of the Jacobian on the trajectory; a step of its inverse is stable for any method."""
    system: Any = setup.system
    if isinstance(system, SplitSystem):
        return jnp.max(jax.vmap(lambda t, y: _split_rate(system, t, y, setup.inputs))(times, ys))

    def norm(t: Array, y: State) -> Array:
        flat, restore = ravel_pytree(system.encode(y))
        slope = lambda x: ravel_pytree(system.vector_field(t, restore(x), at_time(setup.inputs, t)))[0]
        return jnp.sqrt(jnp.sum(jnp.abs(jax.jacfwd(slope)(flat)) ** 2))

    return jnp.max(jax.vmap(norm)(times, ys))


def _split_rate(system: SplitSystem, t: Array, y: State, inputs: Inputs) -> Array:
    """The fastest rate of the linear part, and how fast the rest changes the state: a spectrum is too long for a Jacobian."""
    state = system.encode(y)
    largest = lambda tree: jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in jax.tree.leaves(tree)]))
    rest = largest(system.nonlinear(t, state, at_time(inputs, t)))
    return largest(system.linear()) + rest / jnp.maximum(largest(state), float(jnp.finfo(t.dtype).tiny))


def _observed(setup: Setup, times: Array, method: Method, key: PRNGKeyArray | None) -> Any:
    """Return the quantities whose gradient is checked: the states after the first time, or the outputs of a static system."""
    if isinstance(setup.system, StaticSystem):
        return jax.vmap(lambda t: setup.system.outputs(t, None, at_time(setup.inputs, t)))(times)
    return jax.tree.map(lambda leaf: leaf[1:], integrate(setup, times, method, key=key).ys)


def _check_transformations(
    setup: Setup, times: Array, method: Method, key: PRNGKeyArray | None, scales: Array, name: str
) -> tuple[Slopes, Any]:
    """One trace for all values, vmap against a loop, keys; returns derivatives to compare, and the states."""
    moving, fixed = eqx.partition((setup.system, setup.y0), eqx.is_inexact_array)
    point, restore = ravel_pytree(moving)
    traces = 0

    def states(x: Array, key: PRNGKeyArray | None) -> Any:
        system, y0 = eqx.combine(restore(x), fixed)
        return _observed(Setup(system, y0, setup.inputs), times, method, key)

    @jax.jit
    def simulate(x: Array, key: PRNGKeyArray | None) -> Any:
        nonlocal traces
        traces += 1
        return states(x, key)

    # Each component counts alike, however small it is beside the others: by its largest value on the run.
    first = simulate(point, key)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(first)):
        raise AssertionError(
            f"The short run of {name}, over {float(times[-1] - times[0]):.3g} in {STEPS} fixed steps, is not finite. Give a "
            "shorter `span`."
        )
    sizes = jax.tree.map(lambda leaf: jnp.asarray(float(np.max(np.abs(leaf))) or 1.0, leaf.dtype), first)

    # This program runs once and briefly, so that optimising it costs more than it gains.
    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def differentiate(x: Array, sizes: PyTree, key: PRNGKeyArray | None) -> Slopes:
        ways = jnp.diag(scales)
        return directional_slopes(lambda x: _scaled(states(x, key), sizes), x, ways, ("reverse", "forward"))

    slopes = differentiate(point, sizes, key)
    steps = relative_steps(point.dtype)
    for row in {0, point.size - 1}:  # two of the simulations that the differences made side by side
        other = point.at[row].add(steps[0] * scales[row])
        single, together = np.sum(_scaled(simulate(other, key), sizes)), np.asarray(slopes.values)[0, 0, row]
        # The same operations in another order; the scaled terms are about 1, and a solve can amplify rounding errors.
        if not abs(single - together) <= 10 * float(jnp.finfo(point.dtype).eps) ** 0.5 * max(
            float(slopes.size), abs(single)
        ):
            raise AssertionError(
                f"`vmap` over the quantities of {name} gives {together:.8g}, but a single simulation {single:.8g} (scaled)."
            )
    if traces != 1:
        raise AssertionError(f"New values of the quantities of {name} trace its simulation again.")
    if not _equal(first, simulate(point, key)):
        raise AssertionError(f"Two simulations of {name} with the same values{' and key' * (key is not None)} differ.")
    if key is not None and _equal(first, simulate(point, jax.random.fold_in(key, 1))):
        raise AssertionError(f"A simulation of {name} does not depend on its key: its diffusion is 0.")
    return slopes, first


def _scales(setup: Setup, trajectory: Trajectory) -> Array:
    """Return the step of each number in differences: its own size, and for a zero of the state the largest value of the
    component."""

    def of_state(start: Array, values: Array) -> Array:
        return jnp.where(start == 0, jnp.max(jnp.abs(values), axis=0), start)

    sized = setup.system, jax.tree.map(of_state, setup.y0, trajectory.ys)
    return typical_size(ravel_pytree(eqx.filter(sized, eqx.is_inexact_array))[0])


def _scaled(states: PyTree, sizes: PyTree) -> Array:
    flat = jnp.concatenate(jax.tree.leaves(jax.tree.map(lambda leaf, size: jnp.ravel(leaf / size), states, sizes)))
    return flat * irregular_weights(flat.shape, flat.dtype)


def _equal(found: PyTree, expected: PyTree) -> bool:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True) for a, b in pairs)


def _element_names(setup: Setup) -> tuple[str, ...]:
    """The path of every number of the system and the initial state, in the order in which they are ravelled."""
    names = []
    for path, leaf in Setup(setup.system, setup.y0).leaves().items():
        shape = np.shape(leaf)
        names += [".".join([path, *map(str, index)]) for index in np.ndindex(shape)] if shape else [path]
    return tuple(names)


def _check_round_trip(setup: Setup, name: str) -> None:
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, setup)
    file.seek(0)
    blank = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, setup)
    loaded = eqx.tree_deserialise_leaves(file, blank)
    pairs = zip(setup.leaves().items(), loaded.leaves().values(), strict=True)
    for path, same in ((path, bool(np.array_equal(a, b)) and a.dtype == b.dtype) for (path, a), b in pairs):
        if not same:
            raise AssertionError(f"`{path}` of {name} is another number after saving and loading.")


def _check_float32(
    setup: Setup,
    times: Array,
    method: Method,
    key: PRNGKeyArray | None,
    expected: PyTree,
    trajectory: Trajectory,
    name: str,
) -> float:
    """Run in float32, and compare with the states of the suite's own run where that was in float64."""
    if isinstance(setup.system, DelayedSystem):
        method = Method(method.solver, Adaptive())
    single = cast((setup, times, method), jnp.float32)
    try:
        found = eqx.filter_jit(_observed)(*single, key)
    except (ArgumentError, TypeError, ValueError) as error:
        raise AssertionError(
            f"{name} does not run in float32: a constant has a float type of its own. {error}"
        ) from error
    worst = 0.0
    if times.dtype == jnp.float32 or key is not None:  # the path of a Wiener process depends on the float type
        expected = found
    largest = expected if isinstance(setup.system, StaticSystem) else trajectory.ys
    leaves = zip(named_leaves(found).items(), jax.tree.leaves(expected), jax.tree.leaves(largest), strict=True)
    for (path, a), b, values in leaves:
        if a.dtype != jnp.float32:
            raise AssertionError(f"`{path}` of {name} is {a.dtype.name} in a simulation in float32.")
        size = float(np.max(np.abs(np.asarray(values)))) or 1.0
        error = float(np.max(np.abs(np.asarray(a, np.float64) - np.asarray(b)))) / size
        # A few steps lose a few digits of seven; three are left in every well-posed problem.
        if not (math.isfinite(error) and error <= 1e-3):
            raise AssertionError(f"`{path}` of {name} is wrong by {error:.1e} (relative) in float32.")
        worst = max(worst, error)
    return worst
