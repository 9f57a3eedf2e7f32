"""simulate: a system, a state and times in, a trajectory out."""

import dataclasses
from typing import Any, Literal

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError, SimulationError
from .._types import Inputs, State
from ..core import (
    Setup,
    StaticSystem,
    Status,
    StochasticSystem,
    System,
    SystemTerm,
    Trajectory,
    as_float_array,
    as_signals,
    brownian_shape,
    check_tolerance,
    family_of,
    guard,
    jump_times,
    stochastic_terms,
)
from ..solvers import Stepper, check_serves, choose
from ._check import check_derivative, check_times
from ._diagnose import diagnose
from ._grid import fixed_grid
from ._step import Adaptive, Fixed, as_step

Gradient = Literal["reverse", "forward"]

# An adaptive step this much shorter than the whole span makes no progress; without a floor a derivative that is not finite
# would use up `max_steps` in rejected steps.
SHORTEST_STEP = 1e-24


class Method(eqx.Module):
    """How a system is integrated: the solver, the step rule and why they were taken."""

    solver: Stepper | None
    step: Adaptive | Fixed
    reason: str = eqx.field(static=True, default="given")


def simulate(
    system: System,
    y0: State,
    times: Any,
    *,
    solver: Stepper | None = None,
    step: float | Adaptive | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
    gradient: Gradient = "reverse",
    on_failure: Literal["raise", "mark"] = "raise",
) -> Trajectory:
    """Integrate a system from `y0` at `times[0]` and save the state at `times`.

    **Arguments:**

    - `system`: the system; its array fields are its parameters.
    - `y0`: the state at `times[0]`, a pytree of float arrays.
    - `times`: shape `(times,)`, increasing, in the system's unit of time. The solution is saved exactly there: adaptive
        solves use the method's own dense output, fixed steps end on each time.
    - `solver`: a stepper from `simkit.solvers`; by default chosen from the system, and reported by the trajectory.
    - `step`: a number (a fixed step, at most this long), `Fixed(substeps)` or `Adaptive(rtol, atol, max_steps)`; by default
        `Adaptive()` where the solver estimates its error.
    - `inputs`: a pytree of signals, of which the system receives the values.
    - `key`: a random key, needed by stochastic systems only.
    - `gradient`: which derivative an adaptive solve supports, "reverse" (`grad`) or "forward" (`jvp`, `jacfwd`; less memory
        and less work for up to some thirty parameters). Fixed steps support both, whatever is said here.
    - `on_failure`: "raise" a `SimulationError`, or "mark" it in the trajectory's status. Under a transformation such as `jit` or
        `vmap` a failure is always marked.

    **Returns:** a `Trajectory`.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    trajectory = simkit.simulate(system, y0, times)
    print(trajectory)
    ```
    """
    y0, inputs = jax.tree.map(as_float_array, y0), as_signals(inputs)
    leaves = jax.tree.leaves(y0)
    dtype = jnp.result_type(*leaves) if leaves else None
    if not isinstance(system, StaticSystem):
        times = check_times(times)
    # Inside jit a known array would become a tracer, but a step length and the probe for stiffness need its values.
    known = times if isinstance(times, jax.core.Tracer) else np.asarray(times)
    times = as_float_array(times) if dtype is None else jnp.asarray(times, dtype)
    method = resolve(system, y0, known, solver=solver, step=step, inputs=inputs)
    if on_failure not in ("raise", "mark"):
        raise ArgumentError(f'Argument `on_failure` must be "raise" or "mark", but it is {on_failure!r}.')
    setup = Setup(system, y0, inputs)
    # The reason holds numbers of this very call: kept out of the compiled function, it cannot make it compile again.
    trajectory = integrate(setup, times, Method(method.solver, method.step), gradient=gradient, key=key)
    if method.reason != "given" and method.solver is not None:
        trajectory = dataclasses.replace(trajectory, solver=f"{trajectory.solver} (chosen: {method.reason})")
    if on_failure == "raise" and not isinstance(trajectory.status, jax.core.Tracer) and int(trajectory.status) != 0:
        raise SimulationError(diagnose(setup, trajectory))
    return trajectory


def resolve(
    system: System,
    y0: State,
    times: Any,
    *,
    solver: Stepper | None = None,
    step: float | Adaptive | Fixed | None = None,
    inputs: Inputs = None,
) -> Method:
    """The solver and the step rule for a system: what the user gave, completed and checked."""
    family = family_of(system)
    if family is StaticSystem:
        return Method(None, Fixed(), "no dynamics")
    reason = "given"
    if solver is None:
        solver, reason = choose(system, y0, times, inputs, fixed=step is not None and not isinstance(step, Adaptive))
    check_serves(solver, system)
    if step is None:
        step = Adaptive() if solver.adaptive else _default_step(system, solver, times)
    step = as_step(step, times)
    if isinstance(step, Adaptive):
        if not solver.adaptive:
            raise ArgumentError(
                f"`{type(solver).__name__}` has no error estimate, so argument `step` must be a number or `Fixed(substeps)`, but "
                "it is Adaptive."
            )
        if not isinstance(step.rtol, jax.core.Tracer):
            check_tolerance(float(step.rtol), jnp.result_type(*jax.tree.leaves(y0)))
    return Method(solver, step, reason)


def _default_step(system: System, solver: Stepper, times: Any) -> Fixed:
    if isinstance(system, StochasticSystem):
        return Fixed(max(1, -(-1000 // max(1, times.shape[0] - 1))))
    raise ArgumentError(
        f"`{type(solver).__name__}` has no error estimate, so argument `step` must be given: a fixed step length, or "
        "`Fixed(substeps)`. A good first try is a fiftieth of the fastest period."
    )


@eqx.filter_jit
def integrate(
    setup: Setup, times: Array, method: Method, *, gradient: Gradient = "reverse", key: PRNGKeyArray | None = None
) -> Trajectory:
    """The pure core of `simulate`: it marks failures, never raises them, and composes with every transformation."""
    system, y0, inputs = guard((setup.system, setup.y0, setup.inputs))
    if isinstance(system, StaticSystem):
        zero = jnp.zeros((), int)
        ys = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (times.shape[0], *leaf.shape)), y0)
        return Trajectory(times, ys, zero + int(Status.OK), zero, zero, zero, "none")
    state = system.encode(y0)
    check_derivative(system, state, times, inputs)
    if isinstance(method.step, Fixed):
        states, status, counts = _integrate_fixed(system, state, inputs, times, method, key)
    else:
        states, status, counts = _integrate_adaptive(system, state, inputs, times, method, gradient)
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(states)]).all()
    status = jnp.where((status == Status.OK) & ~finite, int(Status.NON_FINITE), status)
    accepted, rejected = counts
    evaluations = (accepted + rejected) * method.solver.evaluations
    name = type(method.solver).__name__
    return Trajectory(times, jax.vmap(system.decode)(states), status, accepted, rejected, evaluations, name)


def _integrate_fixed(system: Any, state: Any, inputs: Any, times: Array, method: Method, key: Any) -> Any:
    if isinstance(system, StochasticSystem):
        if key is None:
            raise ArgumentError(
                f"`{type(system).__name__}` is stochastic, so argument `key` must be a random key, such as `jax.random.key(0)`."
            )
        shape = brownian_shape(system, times[0], state, inputs)
        terms = stochastic_terms(system, inputs, diffrax.UnsafeBrownianPath(shape, key, method.solver.levy_area))
    else:
        terms = SystemTerm(system, inputs)
    jumps = jump_times(inputs)
    substeps = method.step.substeps
    states = fixed_grid(terms, method.solver, state, times, substeps, jumps)
    windows = times.shape[0] - 1 + (0 if jumps is None else jumps.shape[0])
    return states, jnp.asarray(int(Status.OK)), (jnp.asarray(windows * substeps), jnp.asarray(0))


def _integrate_adaptive(system: Any, state: Any, inputs: Any, times: Array, method: Method, gradient: Gradient) -> Any:
    if gradient not in ("reverse", "forward"):
        raise ArgumentError(f'Argument `gradient` must be "reverse" or "forward", but it is {gradient!r}.')
    step = method.step
    dtype = times.dtype
    span = jax.lax.stop_gradient(times[-1] - times[0])
    controller = diffrax.PIDController(
        step.rtol.astype(dtype), step.atol.astype(dtype), dtmin=SHORTEST_STEP * span, force_dtmin=False
    )
    if (jumps := jump_times(inputs)) is not None:
        controller = diffrax.ClipStepSizeController(controller, jump_ts=jnp.sort(jumps.astype(dtype)))
    solution = diffrax.diffeqsolve(
        SystemTerm(system, inputs),
        method.solver,
        times[0],
        times[-1],
        None,
        state,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=controller,
        adjoint=diffrax.ForwardMode() if gradient == "forward" else diffrax.RecursiveCheckpointAdjoint(),
        max_steps=step.max_steps,
        throw=False,
    )
    result, good = solution.result, diffrax.RESULTS.successful
    failure = jnp.where(
        result == diffrax.RESULTS.max_steps_reached,
        int(Status.STEP_LIMIT),
        jnp.where(result == diffrax.RESULTS.dt_min_reached, int(Status.STEP_TOO_SMALL), int(Status.NON_FINITE)),
    )
    status = jnp.where(result == good, int(Status.OK), failure)
    # Rows after the failure hold Diffrax's filler, infinity; nothing must take it for a state.
    states = jax.tree.map(lambda leaf: jnp.where(jnp.isinf(leaf), jnp.nan, leaf), solution.ys)
    return states, status, (solution.stats["num_accepted_steps"], solution.stats["num_rejected_steps"])
