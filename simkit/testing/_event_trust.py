"""check_events: whether the events of a run have derivatives."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from .._types import Inputs, State
from ..core import Event, NamedEvents, Setup, Status, StochasticSystem, SystemTerm, Trajectory, as_events, at_time
from ..engine import Fixed, Varying, simulate
from ..solvers import Stepper, slope_of

GRAZING = 1e-3
"""Slope of a condition at its event, as a share of its largest terms over the run, below which it grazes."""

TOUCHING = 1e-6
"""Distance from zero of a condition where it turns, as a share of its range, below which it touches: the square of `GRAZING`."""

NEAR = 1e-2
"""The same share by a cubic between two rows, from which on the turn itself is looked for."""


class EventTrust(eqx.Module):
    """Result of `check_events`; it prints itself.

    - `slopes`: of each event of a condition the slope dg/dt + dg/dy f, as a share of the largest sizes of its terms over the run.
    - `complaints`: sentences about events that have no derivative, empty where all have.
    """

    slopes: dict[str, np.ndarray]
    complaints: tuple[str, ...] = eqx.field(static=True)

    @property
    def trusted(self) -> bool:
        """Tell whether all events have derivatives."""
        return not self.complaints

    def __repr__(self) -> str:
        lines = [f"Events: {'trusted' if self.trusted else 'NOT trusted'}"]
        for name, slopes in self.slopes.items():
            least = f", slopes of at least {slopes.min():.2g} of the largest" if slopes.size else ""
            lines.append(f"  {name}: {slopes.size} times{least}")
        lines += [f"  {text}" for text in self.complaints]
        if self.complaints:
            lines.append(
                "  Remedy: the derivative does not exist there. Smooth the contact (a stiff spring in place of a wall), end the "
                "run before it, or move the parameters away from it."
            )
        return "\n".join(lines)


def check_events(
    system: Any,
    y0: State,
    times: ArrayLike | Sequence[float],
    *,
    events: Event | Sequence[Event] | Mapping[str, Event],
    solver: Stepper | None = None,
    step: float | Varying | Fixed | None = None,
    inputs: Inputs = None,
    key: PRNGKeyArray | None = None,
) -> EventTrust:
    r"""Check that the events of a run pass zero with a slope, so that their times have derivatives.

    With g the condition and f the field, the time of an event moves by $-\delta g / s$ with

    $$s = \partial_t g + \partial_y g \cdot f$$

    Three cases have none, and are told: an event whose s is below 1e-3 of the largest that its terms are over the run (it grazes),
    a condition that turns within 1e-6 of its range from zero (it touches, or just misses), and a state that stays on the surface
    after its event, or events without time going on (it slides or rests). A condition of a system with noise has no slope, so that
    there only the last is told.

    **Arguments:** as of `simulate`. **Returns:** an `EventTrust`.

    **Source:** di Bernardo, Budd, Champneys and Kowalczyk (2008), Piecewise-smooth Dynamical Systems, chapters 2 and 5, on grazing
    and sliding.

    ```python
    import numpy as np
    import simkit
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    half = simkit.Event(lambda system, t, y, inputs: y.amount - 0.5)
    print(simkit.testing.check_events(system, y0, times, events=half))
    ```
    """
    given = as_events(events)
    assert given is not None
    setup = Setup(system, jax.tree.map(jnp.asarray, y0), inputs)
    named = dict(zip(given.names, given.events, strict=True))
    options: Any = {"solver": solver, "step": step, "inputs": inputs, "on_failure": "mark"}
    trajectory = simulate(system, y0, times, key=key, events=named, **options)
    slopes, complaints = {}, []
    for name, event in named.items():
        if not event.timed and not isinstance(system, StochasticSystem):
            slopes[name], said = _judged(setup, name, event, trajectory, options)
            complaints += said
    if int(trajectory.status) == Status.ENDLESS_EVENTS and trajectory.events is not None:
        happened = np.asarray(trajectory.events.times)[np.asarray(trajectory.events.happened)]
        since = f", from {happened[-1]:.6g} on" if happened.size else ""
        complaints.append(f"The state slides or rests{since}: events follow each other without time going on.")
    return EventTrust(slopes, tuple(complaints))


class _Slope(eqx.Module):
    """The derivative of a condition along the solution."""

    setup: Setup
    event: Event

    def __call__(self, system: Any, t: Any, y: Any, inputs: Any) -> Any:
        return _terms(self.setup, self.event, t, y)[2]


def _terms(setup: Setup, event: Event, t: Any, y: Any) -> tuple[Any, Any, Any]:
    """The condition, the terms of its slope (by time, and by each encoded state), and the slope."""
    system, condition = setup.system, event.condition
    assert condition is not None
    flat, unravel = ravel_pytree(system.encode(y))
    t = jnp.asarray(t, flat.real.dtype)

    def value(t: Any, flat: Any) -> Any:
        return condition(system, t, system.decode(unravel(flat)), at_time(setup.inputs, t))

    field = ravel_pytree(slope_of(SystemTerm(system, setup.inputs), t, unravel(flat)))[0]
    g, slope = jax.jvp(value, (t, flat), (jnp.ones_like(t), field))
    by_time, by_state = jax.grad(value, (0, 1))(t, flat)
    return g, jnp.concatenate([by_time[None], (by_state * field).real]), slope


@eqx.filter_jit
def _all_terms(setup: Setup, event: Event, times: Any, states: Any) -> Any:
    return jax.vmap(lambda t, y: _terms(setup, event, t, y))(times, states)


def _judged(
    setup: Setup, name: str, event: Event, trajectory: Trajectory, options: Any
) -> tuple[np.ndarray, list[str]]:
    """Relative slopes of the events of one condition, and sentences about those that have no derivative."""
    events, said = trajectory.events, []
    assert events is not None
    terms = lambda times, states: [np.asarray(x) for x in _all_terms(setup, event, times, states)]
    g, sizes, speeds = terms(trajectory.times, trajectory.ys)
    own, there = np.asarray(events[name].happened), np.asarray(events[name].times)
    before, after = (terms(events[name].times, side) for side in (events[name].before, events[name].after))
    rows = np.concatenate([np.abs(sizes), np.abs(before[1][own])])
    scale = np.nanmax(rows, axis=0, initial=0.0).sum()
    reach = np.nanmax(np.abs(g), initial=0.0)
    if not scale or not reach:
        return np.zeros(0), [f"`{name}`: its condition is zero, or stands still, at all save times."]
    slopes = np.abs(before[2][own]) / scale
    for i in np.flatnonzero(slopes < GRAZING):
        said.append(
            f"`{name}` grazes at {there[own][i]:.6g}: its slope is {slopes[i]:.1e} of the largest of its terms."
        )
    rests = (np.abs(after[0][own]) <= TOUCHING * reach) & (np.abs(after[2][own]) < GRAZING * scale)
    if event.change is not None and not event.ends:
        for i in np.flatnonzero(rests & (slopes >= GRAZING)):
            said.append(f"`{name}` slides or rests at {there[own][i]:.6g}: its change leaves the state on the surface.")
    happened = np.asarray(events.times)[np.asarray(events.happened)]
    for i in _turns(np.asarray(trajectory.times), g, speeds, happened, NEAR * reach):
        time, value = _turn(setup, event, trajectory, int(i), options)
        if abs(value) <= TOUCHING * reach:
            said.append(f"`{name}` touches at {time:.6g}: its condition turns at {value:.1e}, of {reach:.2g}.")
    return slopes, said


def _turns(times: np.ndarray, g: np.ndarray, slopes: np.ndarray, happened: np.ndarray, near: float) -> np.ndarray:
    """The rows after which a condition turns near zero, by the cubic through two of them, and where nothing happens."""
    h, shares = np.diff(times)[:, None], np.linspace(0.0, 1.0, 33)[None]
    first, last, a, b = g[:-1, None], g[1:, None], h * slopes[:-1, None], h * slopes[1:, None]
    bend = shares * (1 - shares)
    cubic = first + shares * (last - first) + bend * ((1 - shares) * (a - last + first) - shares * (b - last + first))
    quiet = ~((happened[None] >= times[:-1, None]) & (happened[None] <= times[1:, None])).any(axis=1)
    return np.flatnonzero(quiet & (slopes[:-1] * slopes[1:] < 0) & (np.abs(cubic).min(axis=1) <= near))


def _turn(setup: Setup, event: Event, trajectory: Trajectory, row: int, options: Any) -> tuple[float, float]:
    """The time at which a condition turns after a row, and its value there."""
    state = jax.tree.map(lambda x: x[row], trajectory.ys)
    turned = Event(_Slope(setup, event), ends=True)
    times = np.asarray(trajectory.times)[row : row + 2]
    found = simulate(setup.system, state, times, events=turned, **options)
    value = _terms(setup, event, found.event_time, found.event_state)[0]
    return float(found.event_time), float(value)


def contacts_of(setup: Setup, times: np.ndarray, solver: Any, step: Any) -> EventTrust | None:
    """`check_events` of one experiment; None where it has no events of a condition."""
    events = setup.events
    if not isinstance(events, NamedEvents) or all(event.timed for event in events.events):
        return None
    named = dict(events.items())
    return check_events(setup.system, setup.y0, times, events=named, solver=solver, step=step, inputs=setup.inputs)
