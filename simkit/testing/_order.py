"""The order of convergence of a stepper, measured."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import Setup, StochasticSystem, System, as_float_array, as_inputs
from ..engine import Fixed, integrate, resolve
from ..solvers import Stepper

# Errors nearer to round-off than this many machine epsilons would measure noise.
ROUND_OFF = 50


def order_of_convergence(
    solver: Stepper,
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    exact: Callable[[Any], State] | None = None,
    substeps: Sequence[int] = (8, 16, 32),
    inputs: Inputs = None,
) -> float:
    r"""The order of convergence of a stepper on a deterministic problem, measured with fixed steps.

    The least-squares slope p of $\log e$ over $\log h$, where the error e is the largest over the times and the components,
    each relative to the component's largest magnitude. A method of order p should give its order to some 0.2 while the error
    is small and far from round-off.

    **Arguments:**

    - `solver`, `system`, `y0`, `times`, `inputs`: as in `simulate`.
    - `exact`: the exact state as a function of time; without it the same solver with eight times the finest steps stands in,
        which raises the measured order slightly (by 0.02 or less from order 2 on, 0.1 for order 1).
    - `substeps`: two or more numbers of steps between consecutive times. Good values: 8, 16, 32 for methods of order 4 or 5
        over a span in which the solution changes by its own size.

    **Returns:** the measured order.

    **Raises:** an `ArgumentError` where the system is stochastic, fewer than two numbers of steps are given, a run fails, or an
    error lies at round-off.

    ```python
    import simkit
    from simkit.testing import order_of_convergence
    simkit.enable_x64()
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    print(order_of_convergence(simkit.solvers.RK4(), system, y0, times))  # prints 4.0
    ```
    """
    if isinstance(system, StochasticSystem):
        raise ArgumentError(
            f"Argument `system` must be deterministic, but `{type(system).__name__}` is stochastic: its strong order needs many "
            "solutions on one Brownian path each."
        )
    if len(set(substeps)) < 2:
        raise ArgumentError(
            f"Argument `substeps` must hold two or more different numbers, but it is {tuple(substeps)}."
        )
    y0 = jax.tree.map(as_float_array, y0)
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    times, inputs = jnp.asarray(times, dtype), as_inputs(system, inputs, y0)

    def solve(count: int) -> list[Any]:
        method = resolve(system, y0, times, solver=solver, step=Fixed(count), inputs=inputs)
        trajectory = integrate(Setup(system, y0, inputs), times, method)
        if int(trajectory.status) != 0:
            raise ArgumentError(
                f"Argument `substeps` must suffice for `{type(solver).__name__}`, but with {count} the run failed."
            )
        return [np.asarray(leaf, float) for leaf in jax.tree.leaves(trajectory.ys)]

    if exact is None:
        reference = solve(8 * max(substeps))
    else:
        states = [jax.tree.leaves(exact(float(t))) for t in times]
        reference = [np.stack([np.asarray(leaf, float) for leaf in leaves]) for leaves in zip(*states, strict=True)]
    errors = np.array([_distance(solve(count), reference) for count in substeps])
    if errors.min() < ROUND_OFF * float(jnp.finfo(dtype).eps):
        raise ArgumentError(
            f"Argument `substeps` must leave errors well above round-off in {dtype.name}, but with {tuple(substeps)} they are "
            f"{', '.join(f'{e:.1e}' for e in errors)}. Take fewer steps."
        )
    return -float(np.polyfit(np.log(np.array(substeps, float)), np.log(errors), 1)[0])


def _distance(found: list[Any], reference: list[Any]) -> float:
    sizes = [np.maximum(np.max(np.abs(b), axis=0), np.finfo(float).tiny) for b in reference]
    return max(float(np.max(np.abs(a - b) / size)) for a, b, size in zip(found, reference, sizes, strict=True))
