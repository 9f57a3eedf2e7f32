"""shadow: the derivative of a long time average of a chaotic system, with an error."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from .._doors import check_key
from .._errors import ArgumentError, SimulationError
from .._types import State
from ..core import Setup, System, SystemTerm, as_state, check_system, generator, started
from ..engine import Fixed, Varying, resolve, simulate
from ..solvers import SolverLike, slope_of
from ._posed import (
    check_autonomous,
    check_flow,
    check_modes,
    check_moving,
    check_outside,
    check_quantity,
    check_settle,
    checked_paths,
    checked_times,
)
from ._segments import Segments, Traced, segments_of, slopes_of_average


class Shadowed(eqx.Module):
    """Result of `shadow`; it prints itself.

    - `names`: the paths of the parameters; `value`, `error`: the derivative of the average by each and its standard error, from
        the scatter of independent runs.
    - `average`, `average_error`: the average itself. `runs`: shape `(runs, parameters)`, the derivative from each run.
    - `exponents`: the largest Lyapunov exponents, without that of a displacement along the trajectory, per unit of time, one
        for each homogeneous tangent, and `exponent_errors`. `span`: the length of a run.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    value: np.ndarray
    error: np.ndarray
    average: float
    average_error: float
    runs: np.ndarray
    exponents: np.ndarray
    exponent_errors: np.ndarray
    complete: bool = eqx.field(static=True)
    span: float = eqx.field(static=True)

    @property
    def modes(self) -> int:
        """The number of homogeneous tangents that were followed."""
        return len(self.exponents)

    @property
    def unstable(self) -> int:
        """The number of those that grow."""
        return int(np.sum(self.exponents > 0))

    @property
    def followed(self) -> bool:
        """Tell whether all growing tangents were followed: the slowest shrinks by over two errors, or there are no others."""
        return self.complete or bool(self.exponents[-1] < -2 * self.exponent_errors[-1])

    @property
    def neutral(self) -> int:
        """The number of exponents that are not told from zero: by two errors, and by a factor of 10 in a run where none grows."""
        grows = bool(np.any(self.exponents > 2 * self.exponent_errors + np.log(10) / self.span))
        least = 2 * self.exponent_errors + (0.0 if grows else np.log(10) / self.span)
        return int(np.sum(np.abs(self.exponents) <= least))

    @property
    def enough(self) -> bool:
        """Tell whether all growing tangents were followed and none is neutral, along which the average keeps its start."""
        return self.followed and self.neutral == 0

    def __repr__(self) -> str:
        lines = [
            f"Derivative of an average by shadowing, {len(self.runs)} runs: {'trusted' if self.enough else 'NOT trusted'}"
        ]
        lines.append(f"  average: {self.average:.6g} +- {self.average_error:.2g}")
        lines += [f"  by {n}: {v:.5g} +- {e:.2g}" for n, v, e in zip(self.names, self.value, self.error, strict=True)]
        exponents = ", ".join(f"{x:.3g}" for x in self.exponents)
        lines.append(f"  Lyapunov exponents of {self.modes} modes: {exponents}; {self.unstable} grow")
        if self.neutral:
            lines.append(
                f"  {self.neutral} of them are not told from zero, beside that of the trajectory itself: the average may depend on "
                "the start, as that of an oscillator without damping does, and then has no derivative by a parameter alone. "
                "Remedy: longer runs tell slow growth from none; of a system that conserves something take averages of one value "
                "of it, by differences."
            )
        if not self.followed:
            lines.append(
                f"  Remedy: a mode that is not followed may grow as well. Take more: `modes={2 * self.modes}`, or longer "
                f"runs where the last exponent, {self.exponents[-1]:.2g} +- {self.exponent_errors[-1]:.1g}, is not told from zero."
            )
        return "\n".join(lines)


def shadow(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    quantity: Callable[[Any, Any], Any],
    *,
    by: Sequence[str],
    modes: int | None = None,
    segments: int = 20,
    runs: int = 8,
    settle: float | None = None,
    solver: SolverLike | None = None,
    step: float | Varying | Fixed | None = None,
    key: PRNGKeyArray | None = None,
) -> Shadowed:
    r"""The derivative of a long time average of a chaotic system by parameters, by non-intrusive least-squares shadowing.

    $$\frac{d}{ds} \lim_{T \to \infty} \frac{1}{T} \int_0^T J(u(t; s), s) \, dt$$

    The derivative of a run grows exponentially and says nothing about its average. Near a trajectory of one parameter there
    runs another one of the changed parameter, its shadow, which starts elsewhere and stays near. Its displacement is an
    inhomogeneous tangent $v^*$ plus a combination of M homogeneous ones, $v = v^* + W a$, whose part perpendicular to the
    trajectory's slope f is least. In each of K segments the tangents start anew (orthogonal, and perpendicular to f), so that
    they stay of moderate size:

    $$\min_a \sum_i \int |v_i^\perp|^2 dt, \quad a_{i+1} = R_i a_i + b_i, \qquad
    \frac{d \bar J}{d s} = \frac{1}{T} \sum_i \left[ \int_i \left( \partial_u J \, v_i + \partial_s J \right) dt
    + \xi_i (\bar J - J) \Big|_{t_{i+1}} \right], \quad \xi = \frac{v \cdot f}{f \cdot f}$$

    Only products of the simulation's derivative with tangents are taken, M + P of them, M the number of modes and P that of
    parameters: no matrix of the size of the state, and any system and solver that `simulate` serves.

    **Arguments:**

    - `system`: a system without noise whose right side does not depend on time.
    - `y0`: where to start; a first part of the run, `settle` long, is left out.
    - `times`: shape `(times,)`, equally spaced; one run, of which the average is taken by the trapezoidal rule. Good values: 20
        to 100 times of decorrelation, with a spacing that resolves the quantity.
    - `quantity`: `quantity(system, y)`, the number that is averaged, of a state as users see it.
    - `by`: paths of the parameters, such as `["rayleigh"]`; an array's elements are named `forcing.3`.
    - `modes`: how many homogeneous tangents to follow, at least as many as grow; by default 2, 4, 8, ... until the last shrinks.
    - `segments`: how many segments a run has; it must divide the number of intervals. Tangents should grow by a factor of
        10 or so in each.
    - `runs`: how many runs, one after the other along one trajectory; their scatter is the error. At least 4.
    - `settle`: how long the start is left out, by default as long as one run.
    - `solver`, `step`: as in `simulate`. `key`: for the first tangents, by default `jax.random.key(0)`.

    **Returns:** a `Shadowed`: value, error, and the Lyapunov exponents that tell whether the modes suffice. Where `enough` is
    False the value is not to be used: a growing mode may be missing, or a mode beside the trajectory neither grows nor shrinks
    (a system that conserves something, or a torus), so that the average depends on the start.

    The error is that of sampling: of systems whose response is not smooth (not uniformly hyperbolic) shadowing has a bias that
    no run shows, and an end effect that falls with the length of a run; compare two lengths.

    **Raises:** an `ArgumentError` for times, modes or segments that do not fit, for a system with noise, jumps, delays or a right
    side that depends on time, for a quantity that is not one float, and inside `jit`, `vmap` or `grad`; an `UnknownNameError` for a
    path that names nothing; a `SimulationError` where a run fails or comes to rest.

    **Reference:** Ni and Wang (2017), Sensitivity analysis on chaotic dynamical systems by non-intrusive least squares
    shadowing, Journal of Computational Physics 347:56, doi:10.1016/j.jcp.2017.06.033; Wang, Hu and Blonigan (2014),
    doi:10.1016/j.jcp.2014.03.002.

    ```python
    import numpy as np
    import simkit

    simkit.enable_x64()
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    found = simkit.shadow(
        system, y0, np.linspace(0.0, 20.0, 401), lambda system, y: y.z, by=["rayleigh"], step=0.01, runs=4
    )
    print(found)
    ```
    """
    check_outside(system, y0, times)
    check_system(system, y0)
    check_flow(system)
    check_key(key)
    if not callable(quantity):
        raise ArgumentError(f"Argument `quantity` must be a function of system and state, but it is {quantity!r}.")
    by = checked_paths(by)
    y0 = as_state(system, started(y0))
    times = checked_times(times, segments, runs)
    setup = Setup(system)
    values = jnp.stack([jnp.asarray(setup.get(path)) for path in by])
    flat, restore = ravel_pytree(y0)
    if not jnp.issubdtype(flat.dtype, jnp.floating):
        raise ArgumentError(f"Argument `y0` must hold real numbers for `shadow`, but its type is {flat.dtype}.")
    span, most = float(times[-1] - times[0]), flat.size - 1
    check_modes(modes, flat.size)
    check_settle(span if settle is None else settle)
    whole = lambda values, y: jnp.asarray(quantity(setup.put(dict(zip(by, values, strict=True))).system, y))
    check_quantity(whole, values, y0)
    method = resolve(system, y0, times, solver=solver, step=step)
    spacing = float(times[1] - times[0])
    pace = spacing / method.step.substeps if isinstance(method.step, Fixed) else step
    starts = _starts(system, y0, span, runs, span if settle is None else settle, method.solver, pace)
    own = np.asarray(times[: (times.size - 1) // segments + 1])
    traced = _traced(setup, tuple(by), quantity, restore, own, method)
    check_autonomous(lambda t, state: traced.slope(values, state, t), starts[0], times)
    weights = jnp.asarray(np.r_[0.5, np.ones(own.size - 2), 0.5] * (own[1] - own[0]), flat.dtype)
    random = generator(jax.random.key(0) if key is None else key)
    count = min(2, most) if modes is None else modes
    while True:
        begin = jnp.asarray(random.standard_normal((count, flat.size)), flat.dtype)
        run = jax.jit(
            jax.vmap(lambda state, begin: segments_of(traced, values, state, begin, weights, segments), (0, None))
        )
        found = _result(tuple(by), run(starts, begin), span, count == most)
        if modes is not None or found.followed:
            return found
        count = min(2 * count, most)


def _starts(system: System, y0: State, span: float, runs: int, settle: float, solver: Any, step: Any) -> Array:
    """States along one trajectory, from which the runs start."""
    pieces = np.concatenate([[0.0], settle + span * np.arange(runs)])
    run = simulate(system, y0, pieces, solver=solver, step=step)
    return jax.vmap(lambda y: ravel_pytree(y)[0])(jax.tree.map(lambda x: x[1:], run.ys))


def _traced(
    setup: Setup, by: tuple[str, ...], quantity_of: Any, restore: Any, times: np.ndarray, method: Any
) -> Traced:
    def changed(values: Array) -> Any:
        return setup.put(dict(zip(by, values, strict=True))).system

    def rows(values: Array, state: Array) -> Array:
        run = simulate(
            changed(values), restore(state), times, solver=method.solver, step=method.step, on_failure="mark"
        )
        return jax.vmap(lambda y: ravel_pytree(y)[0])(run.ys)

    def slope(values: Array, state: Array, t: Array) -> Array:
        system = changed(values)
        encoded = system.encode(restore(state))
        found = slope_of(SystemTerm(system, None), t, encoded)
        return ravel_pytree(jax.jvp(system.decode, (encoded,), (found,))[1])[0]

    def quantity(values: Array, state: Array) -> Array:
        return jnp.asarray(quantity_of(changed(values), restore(state)))

    return Traced(rows, slope, quantity)


def _result(names: tuple[str, ...], found: Segments, span: float, complete: bool) -> Shadowed:
    runs = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), found) for i in range(found.value.shape[0])]
    reach, size, pace = (np.asarray(x, float) for x in (found.reach, found.size, found.pace))
    check_moving(reach.max(axis=1), size.max(axis=1), pace.sum(axis=1), float(jnp.finfo(found.size.dtype).eps))
    if not all(np.isfinite(x).all() for run in runs for x in run):
        raise SimulationError("A run of `shadow` is not finite: take a shorter `step`, or another start.")
    means, slopes = zip(*(slopes_of_average(run, span) for run in runs), strict=True)
    exponents = np.stack([np.log(np.abs(np.diagonal(run.factor, axis1=1, axis2=2))).sum(axis=0) / span for run in runs])
    order = np.argsort(-exponents.mean(axis=0))
    exponents, slopes = exponents[:, order], np.stack(slopes)
    error = lambda x: np.std(x, axis=0, ddof=1) / np.sqrt(len(runs))
    return Shadowed(
        names,
        slopes.mean(axis=0),
        error(slopes),
        float(np.mean(means)),
        float(error(np.array(means))),
        slopes,
        exponents.mean(axis=0),
        error(exponents),
        complete,
        span,
    )
