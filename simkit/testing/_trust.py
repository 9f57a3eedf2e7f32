"""check_gradient: whether the gradient of a likelihood is right, and whether it means anything."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from .._types import Inputs, State
from ..core import ParticleSystem, RandomSystem, StaticSystem, System, generator
from ..engine import Adaptive, Fixed, Varying, simulate
from ..fitting import some_start
from ..problem import Problem
from ..solvers import Stepper
from ._event_trust import EventTrust, contacts_of
from ._gradients import Mode, compare_slopes, directional_slopes, random_ways

DISCARD = 0.25
"""The share of a run in which a displacement turns towards the fastest growth."""
FRACTIONS = (0.25, 0.5, 1.0)
"""Shares of the data for which gradients are taken; the last is all of them."""


class Growth(eqx.Module):
    """Growth of a small displacement of the state over a run.

    - `exponent`: the finite-time Lyapunov exponent, per unit of time; `span`: the length of the run.
    - `horizon`: when an error of the solve has grown to the size of the state: derivatives beyond it are those of the rounding,
        not of the model. Infinite where nothing grows.
    """

    exponent: float = eqx.field(static=True)
    horizon: float = eqx.field(static=True)
    span: float = eqx.field(static=True)

    @property
    def trusted(self) -> bool:
        return self.span <= self.horizon


class GradientTrust(eqx.Module):
    """Result of `check_gradient`; it prints itself.

    - `gradient`: of the log-likelihood by the coordinates of a fit; `error`: the largest relative difference between reverse mode,
        forward mode and finite differences along random directions; `complaint`: what does not agree, empty where all does.
    - `contacts`: of each experiment with events of a condition, whether these have derivatives (`check_events`).
    - `growth`: of each experiment; `norms`: size of the gradient by the first quarter, the first half and all of the data.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    gradient: Float[Array, " parameters"]
    error: float = eqx.field(static=True)
    complaint: str = eqx.field(static=True)
    growth: dict[str, Growth]
    norms: dict[float, float] = eqx.field(static=True)
    contacts: dict[str, EventTrust] = eqx.field(default_factory=dict)

    @property
    def trusted(self) -> bool:
        """Tell whether the gradient is right and meaningful."""
        judged = (*self.growth.values(), *self.contacts.values())
        return not self.complaint and all(found.trusted for found in judged)

    def __repr__(self) -> str:
        lines = [
            f"Gradient of the log-likelihood by {len(self.names)} parameters: {'trusted' if self.trusted else 'NOT trusted'}"
        ]
        lines.append(f"  modes and finite differences: {self.complaint or f'agree to {self.error:.1e}'}")
        sizes = ", ".join(f"{norm:.3g} by {fraction:.0%} of the data" for fraction, norm in self.norms.items())
        lines.append(f"  size: {sizes}")
        for label, growth in self.growth.items():
            lines.append(
                f"  {label}: displacements grow as exp({growth.exponent:.3g} t); gradients mean something up to "
                f"{growth.horizon:.3g}, the data span {growth.span:.3g}"
            )
        for label, contact in self.contacts.items():
            lines += [f"  {label}: {text.strip()}" for text in repr(contact).splitlines()[1:]]
        if not all(growth.trusted for growth in self.growth.values()):
            lines.append(
                "  Remedy: fit windows shorter than that (one experiment a window, each with a free start: multiple shooting), or "
                "statistics of long runs in place of single times, differentiated by reweighting or by "
                "`simkit.shadow`. Tighter tolerances gain little: the horizon grows with their logarithm."
            )
        return "\n".join(lines)


def perturbation_growth(
    system: System,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
) -> Growth:
    r"""The finite-time Lyapunov exponent of a run, by the tangent of the simulation.

    $$\lambda = \frac{1}{t - t_d} \ln \frac{|\delta(t)|}{|\delta(t_d)|}, \qquad t_h = \frac{1}{\lambda} \ln \frac{1}{\epsilon}$$

    for a small displacement $\delta$, with the relative tolerance $\epsilon$ of the solve, or the square root of the float
    type's rounding for fixed steps; the first quarter of the run, to $t_d$, is for the displacement to turn.

    **Arguments:** as of `simulate`. **Returns:** a `Growth`.

    ```python
    import numpy as np
    import simkit
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    print(simkit.testing.perturbation_growth(system, y0, np.linspace(0.0, 20.0, 81)))
    ```
    """
    y0 = jax.tree.map(jnp.asarray, y0)
    moving, fixed = eqx.partition(y0, eqx.is_inexact_array)
    random = generator(jax.random.key(0) if key is None else key)
    towards = jax.tree.map(lambda x: jnp.asarray(random.standard_normal(x.shape), x.dtype), moving)

    def states(moving: PyTree) -> Any:
        return simulate(
            system, eqx.combine(moving, fixed), times, solver=solver, step=step, inputs=inputs, on_failure="mark"
        ).ys

    _, moved = jax.jvp(states, (moving,), (towards,))
    sizes = np.sqrt(sum(np.sum(np.asarray(x) ** 2, axis=tuple(range(1, x.ndim))) for x in jax.tree.leaves(moved)))
    times = np.asarray(times)
    first = min(int(DISCARD * len(times)), len(times) - 2)
    span = float(times[-1] - times[0])
    exponent = float(np.log(sizes[-1] / sizes[first]) / (times[-1] - times[first]))
    dtype = jax.tree.leaves(moving)[0].dtype
    tolerance = float(step.completed(dtype).rtol) if isinstance(step, Adaptive) else float(np.finfo(dtype).eps) ** 0.5
    if not math.isfinite(exponent):
        return Growth(math.inf, 0.0, span)
    return Growth(exponent, -math.log(tolerance) / exponent if exponent > 0 else math.inf, span)


def check_gradient(
    problem: Problem,
    theta: ArrayLike | Sequence[float] | None = None,
    *,
    directions: int = 3,
    modes: tuple[Mode, ...] = ("reverse", "forward"),
    key: PRNGKeyArray | None = None,
) -> GradientTrust:
    """Check the gradient of a problem's log-likelihood, and the time up to which it is meaningful.

    Reverse mode, forward mode and finite differences are compared along random directions. That a gradient is right does not make
    it useful: where nearby trajectories part exponentially it grows with them, and beyond a horizon it tells the rounding errors
    of the solve, not which way to go. The horizon comes from the finite-time Lyapunov exponent of every experiment.

    **Arguments:**

    - `problem`: the problem.
    - `theta`: where, in natural units; by default the given starts, or what the priors draw.
    - `directions`, `key`: how many random directions, and their random key, by default `jax.random.key(0)`.
    - `modes`: leave one out where it costs too much, such as forward mode by thousands of parameters.

    **Returns:** a `GradientTrust`, with the remedy where it is not to be trusted.

    **Source:** Metz, Freeman, Schoenholz and Kachman (2021), arXiv:2111.05803, on gradients of chaotic systems; Benettin et al.
    (1980), doi:10.1007/BF02128236, on exponents.
    """
    z = some_start(problem) if theta is None else problem.coordinates(jnp.asarray(theta))
    mode = problem.default_gradient if problem.default_gradient in modes else modes[0]
    ways = random_ways(z, directions, key)
    slopes = _slopes(problem, z, ways, modes)
    error, complaint = math.nan, ""
    try:
        error = max(compare_slopes(slopes, [f"random direction {i}" for i in range(directions)], None))
    except AssertionError as problem_found:
        complaint = str(problem_found)
    gradients = {fraction: _gradient(problem.until(fraction), z, mode) for fraction in FRACTIONS}
    norms = {fraction: float(jnp.linalg.norm(gradient)) for fraction, gradient in gradients.items()}
    growths = _growths(problem, z) if "forward" in modes else {}  # perturbations are followed by forward mode
    contacts = _contacts(problem, z)
    return GradientTrust(problem.names, gradients[FRACTIONS[-1]], error, complaint, growths, norms, contacts)


def _value(z: Array, problem: Problem) -> Array:
    return problem.log_likelihood(problem.natural(z))[0]


@eqx.filter_jit
def _slopes(problem: Problem, z: Array, ways: Array, modes: tuple[Mode, ...]) -> Any:
    return directional_slopes(lambda z: _value(z, problem)[None], z, ways, modes)


@eqx.filter_jit
def _gradient(problem: Problem, z: Array, mode: Mode) -> Array:
    return (jax.jacfwd if mode == "forward" else jax.grad)(_value)(z, problem)


def _growths(problem: Problem, z: Array) -> dict[str, Growth]:
    if isinstance(problem.base.system, StaticSystem | ParticleSystem | RandomSystem):
        return {}
    found, theta = {}, problem.natural(z)
    for i, label in enumerate(problem.labels):
        setup, method = problem.setup(theta, i), problem.method
        found[label] = perturbation_growth(
            setup.system, setup.y0, _times(problem, i), solver=method.solver, step=method.step, inputs=setup.inputs
        )
    return found


def _contacts(problem: Problem, z: Array) -> dict[str, EventTrust]:
    """Judge the events of each experiment that has any of a condition."""
    if isinstance(problem.base.system, StaticSystem | ParticleSystem):
        return {}
    theta, method = problem.natural(z), problem.method
    found = {
        label: contacts_of(problem.setup(theta, i), _times(problem, i), method.solver, method.step)
        for i, label in enumerate(problem.labels)
    }
    return {label: contact for label, contact in found.items() if contact is not None}


def _times(problem: Problem, index: int) -> np.ndarray:
    """The times of an experiment, each once."""
    times = np.asarray(problem.times[index])
    times = times[np.isfinite(times)]
    return times[np.r_[True, np.diff(times) > 0]]
