"""Diagnosis of a failed simulation: which component failed, and at what time."""

from typing import Any

import jax
import numpy as np

from .._processes import spread
from ..core import (
    DelayedSystem,
    Explained,
    NamedEvents,
    ParticleSystem,
    Regimen,
    Setup,
    Status,
    StiffTransportSystem,
    SystemTerm,
    Trajectory,
    TransportSystem,
    at_time,
    jumps_too,
    named_leaves,
    started,
    traced,
)
from ..solvers import MOST_JUMPS, reason_of_failure


def diagnose(setup: Setup, trajectory: Trajectory, events: NamedEvents | None = None) -> str:
    """A sentence for a failed trajectory: the status message, the last good time and the component that broke."""
    status = Status(int(trajectory.status))
    if traced(setup.leaves(), trajectory.times, trajectory.ys):  # a status may be known where a derivative is taken
        remark = " Times that a derivative is taken by have to increase." if traced(trajectory.times) else ""
        return f"The simulation of {type(setup.system).__name__} failed. {status.message}{remark}"
    if spread(trajectory.ys):
        return (
            f"The simulation of {type(setup.system).__name__} failed. {status.told(trajectory.solver)} More than that is told "
            "where one process holds the whole grid: try fewer cells there."
        )
    times, leaves = np.asarray(trajectory.times), named_leaves(trajectory.ys)
    good = finite_rows(trajectory)
    failed = int(np.argmin(good)) if not good.all() else times.size - 1
    last = max(failed - 1, 0)
    if wrong := _non_finite_numbers(setup, from_start=last == 0):
        return (
            f"The simulation of {type(setup.system).__name__} cannot start: {wrong}. Every parameter, initial state and input "
            "must be a finite number."
        )
    if status is Status.INCONSISTENT:
        term, start = SystemTerm(setup.system, setup.inputs), setup.system.encode(started(setup.y0))
        reason = reason_of_failure(term, trajectory.times[0], start)
        return f"The simulation of {type(setup.system).__name__} cannot start at time {times[0]:g}: {reason}."
    where = f"between the times {times[last]:g} and {times[failed]:g}"
    text = f"The simulation of {type(setup.system).__name__} failed {where}. {status.told(trajectory.solver)}"
    if said := _of_events(setup, trajectory, events):
        return f"{text} {said}"
    if isinstance(setup.system, TransportSystem) and status is Status.STEP_LIMIT:
        text = (
            f"The simulation of {type(setup.system).__name__} failed {where}. {_of_transport(setup, trajectory, last)}"
        )
    if isinstance(setup.system, ParticleSystem):
        if status is not Status.NON_FINITE:
            return text
        said = _of_particles(setup.system, trajectory, last)
        return f"The simulation of {type(setup.system).__name__} failed {where}. {said}"
    if broken := _non_finite_slopes(setup, trajectory, last):
        text += f" The derivative of {broken} is not finite at the last good state, at time {times[last]:g}."
    else:
        broken = [name for name, x in leaves.items() if not np.isfinite(np.asarray(x)[failed]).all()]
        if status is Status.NON_FINITE and broken:
            text += f" Not finite: {_listed(broken)}."
        if status is Status.NON_FINITE and events is not None and any(not event.timed for event in events.events):
            text += " Or it is the condition of an event that is no number there."
    if status is Status.NON_FINITE and jumps_too(setup.system):
        text += (
            f" Or the rate of its jumps is no number, negative or above its bound, or there were more than {MOST_JUMPS} candidates "
            "of jumps in a step: take shorter steps."
        )
    size = {name: _largest(np.asarray(x)[last]) for name, x in leaves.items()}
    state = ", ".join(f"{name or 'y'} {value:.4g}" for name, value in list(size.items())[:8])
    return f"{text} Last good state (largest magnitude): {state}."


def with_cause(text: str, system: Any, trajectory: Trajectory, said: str) -> str:
    """A diagnosis with what the system says of the failure, instead of the general message where the system is certain."""
    general = Status(int(trajectory.status)).told(trajectory.solver)
    if said and isinstance(system, Explained) and system.certain and general in text:
        return text.replace(general, said)
    return f"{text} {said}".strip()


def _of_events(setup: Setup, trajectory: Trajectory, given: NamedEvents | None) -> str:
    """Return a sentence for the first event whose change is what failed; fixed steps go on after it."""
    events = trajectory.events
    rows = [] if events is None else events.table()
    if events is None or not rows:
        return ""
    name, time = rows[-1]["event"], rows[-1]["time"]
    if trajectory.status == Status.ENDLESS_EVENTS:
        return f"The last of {int(events.count)} was the event `{name}` at time {time:.6g}."
    if trajectory.status == Status.STEP_LIMIT and 8 * int(events.count) > int(trajectory.steps):
        return (
            f"Each event takes steps of its own, and {int(events.count)} happened, the last, `{name}`, at time {time:.6g}: raise "
            "`max_steps`."
        )
    not_finite = lambda state: [path for path, x in named_leaves(state).items() if not np.isfinite(x).all()]
    row = next((row for row in rows if not_finite(row["after"])), None)
    if row is None or not_finite(row["before"]):
        return ""
    name, time, broken = row["event"], row["time"], not_finite(row["after"])
    change: Any = None if given is None else given.events[given.names.index(name)].change
    if isinstance(change, Regimen):
        if wrong := _negative_of(change, setup, name):
            return wrong
        if change.steady:
            return (
                f"No steady state of repeated doses was found for the event `{name}` at time {time:.6g}. Where nothing leaves, or "
                "less than is given, there is none, nor where fixed steps are too long for the system; an infusion and a lag must "
                "not be longer than the interval between doses."
            )
    return f"The `change` of the event `{name}` at time {time:.6g} gives a state that is not finite: {_listed(broken)}."


def _negative_of(change: Regimen, setup: Setup, name: str) -> str:
    """Return a sentence for a lag or a bioavailability that is negative."""
    for what, paths, values in (
        ("lag", change.lag, change.lags(setup)),
        ("bioavailability", change.share, change.shares(setup)),
    ):
        for path, value in zip(paths, np.asarray(values), strict=True):
            if value < 0:
                where = f", `{path}`," if isinstance(path, str) else ""
                return f"The {what}{where} of doses of the event `{name}` must not be negative, but it is {value:g}."
    return ""


def _of_particles(system: ParticleSystem, trajectory: Trajectory, row: int) -> str:
    times = np.asarray(trajectory.times)
    substeps = int(trajectory.steps) // (times.size - 1)
    h = (times[row + 1] - times[row]) / substeps
    return system.complaint(jax.tree.map(lambda leaf: leaf[row], trajectory.ys), float(h), float(times[row]))


def _of_transport(setup: Setup, trajectory: Trajectory, row: int) -> str:
    """Return the number of steps that a transport needs: the remedy for too few is not that for a stiff reaction."""
    system: Any = setup.system
    t, y = trajectory.times[row], jax.tree.map(lambda leaf: leaf[row], trajectory.ys)
    longest = float(system.longest_step(t, system.encode(y), at_time(setup.inputs, t)))
    rest = float(trajectory.times[-1] - t)
    text = (
        f"The step limit was reached before the last time. At time {float(t):g} a step of Courant number 1 is {longest:.3g} long, "
        f"so that some {rest / longest:.0f} of them are left. Give more steps, `step=Courant(number, max_steps=...)`, or take "
        "wider cells where they are narrowest."
    )
    if isinstance(system, StiffTransportSystem) and not system.stiff:
        text += ' Where viscosity bounds the steps, `diffusion="implicit"` takes longer ones.'
    return text


def _non_finite_numbers(setup: Setup, from_start: bool) -> str:
    """List the parameters, initial states and inputs that were NaN before the first step; infinite ones for failures at the
    start."""
    for broken, relevant in ((np.isnan, True), (np.isinf, from_start)):
        found = []
        for path, leaf in setup.leaves().items() if relevant else ():
            values = np.asarray(leaf)
            for index in np.argwhere(broken(values)):
                found.append(f"`{'.'.join([path, *map(str, index)])}` is {values[tuple(index)]}")
        if found:
            return ", ".join(found[:4]) + (f" and {len(found) - 4} more are not finite" if len(found) > 4 else "")
    return ""


def _non_finite_slopes(setup: Setup, trajectory: Trajectory, row: int) -> str:
    t, y = trajectory.times[row], jax.tree.map(lambda leaf: leaf[row], trajectory.ys)
    system: Any = setup.system
    if isinstance(system, DelayedSystem):  # its slope depends on more than this state
        return ""
    slope = system.vector_field(t, system.encode(y), at_time(setup.inputs, t))
    if all(np.isfinite(np.asarray(x)).all() for x in jax.tree.leaves(slope)):
        return ""
    slope = system.decode(slope)  # to speak of what users see
    return _listed([name for name, x in named_leaves(slope).items() if not np.isfinite(np.asarray(x)).all()])


def _largest(x: np.ndarray | np.generic) -> float:
    """The largest magnitude of what is finite: that of a vacuum's velocity says nothing."""
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name or 'y'}`" for name in names)


def finite_rows(trajectory: Trajectory) -> np.ndarray:
    """Tell which of the saved states are finite."""
    rows = [np.isfinite(np.asarray(x)).reshape(len(x), -1).all(axis=1) for x in jax.tree.leaves(trajectory.ys)]
    return np.all(rows, axis=0)
