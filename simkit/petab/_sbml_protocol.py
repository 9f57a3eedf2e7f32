"""Protocol of an experiment of a PEtab problem: initial assignments, a steady state before the start, switches."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..core import Setup, Status, Trajectory
from ..engine import Method, integrate
from ..networks import TIME
from ..problem import AbstractProtocol
from ._consistent import consistent_state, opened
from ._passages import Passages
from ._past import Delay, asked, delayed_value, ordered, recalled
from ._queue import integrate_passages
from ._sbml_system import AbstractSBMLSystem, ConstrainedSBMLSystem, Roots
from ._steady import steady_state
from ._switches import NEVER, Switch, switch_name

FOREVER = 1e200
"""Time from which on a datum is one of the steady state."""


class SBMLProtocol(AbstractProtocol):
    """An experiment on an SBML model.

    - `start`: formulas of initial values of states, and of constants that have an initial assignment.
    - `volumes`: states that are amounts, though initial values are concentrations.
    - `switches`: the formulas of the times of switches.
    - `passages`: the events.
    - `delays`: values of earlier times.
    - `implied`: whether an initial assignment depends on what an algebraic rule determines.
    - `settles`, `endless`: whether any experiment starts from a steady state, and whether any datum is one of it.
    - `timeless`: whether all data are of a steady state, so that nothing needs to run in time.
    """

    start: Roots = eqx.field(static=True)
    volumes: Roots = eqx.field(static=True)
    switches: tuple[int, ...] = eqx.field(static=True)
    passages: Passages = eqx.field(static=True)
    settles: bool = eqx.field(static=True)
    endless: bool = eqx.field(static=True)
    implied: bool = eqx.field(static=True, default=False)
    delays: tuple[Delay, ...] = eqx.field(static=True, default=())
    timeless: bool = eqx.field(static=True, default=False)

    def at_other_times(self) -> "SBMLProtocol":
        return dataclasses.replace(self, timeless=False)

    def run(self, setup: Setup, times: Array, method: Method) -> tuple[Setup, Trajectory]:
        ok = jnp.array(True)
        system, first, inputs = self.opened(setup.system, setup.y0, times[0])
        if self.settles:
            earlier = eqx.tree_at(
                lambda s: s.parameters, setup.system, _changed(setup.system.parameters, setup.system.before)
            )
            given = {name: setup.system.before.get(name, jnp.full_like(y, jnp.nan)) for name, y in setup.y0.items()}
            earlier, begin, held = self.opened(earlier, given, times[0])
            moving = earlier.moving()
            start = Setup(moving, moving.packed(begin), held)
            found, settled = steady_state(start, times[0], earlier.kept_before)
            first = _following(setup, moving.unpacked(found), first)
            ok = settled | (setup.system.settled == 0)
        solved = system.moving()
        moving = Setup(solved, solved.packed(first), inputs)
        consistent = jnp.array(True)
        if isinstance(solved, ConstrainedSBMLSystem) and (solved.flow or self.passages.given):
            found, consistent = consistent_state(moving, times[0])
            moving = Setup(solved, found, inputs)
        finite, known = _before(times, FOREVER) if self.endless else times, None

        def run(times: Array) -> Trajectory:
            if self.timeless:
                return _standing(moving.y0, times)
            if self.passages.given:
                return integrate_passages(moving, system, times, method, self.passages)
            return integrate(moving, times, method)

        if self.delays:
            lags = system.formulas.symbols([delay.lag for delay in self.delays])
            # Lags that depend on the state are known at save times after a run alone.
            states = solved.unpacked(run(finite).ys) if lags & first.keys() else {}
            early = asked(system, self.delays, times, states)
            finite, places = ordered(early, times[0])
            known = early, places
        trajectory = run(finite)
        if self.endless:
            last, settled = steady_state(moving, times[0], system.kept)
            forever = times >= FOREVER
            ys = jax.tree.map(
                lambda y, end: jnp.where(_by_row(forever, y), jnp.broadcast_to(end, y.shape), y), trajectory.ys, last
            )
            trajectory = eqx.tree_at(lambda t: (t.times, t.ys), trajectory, (times, ys))
            ok = ok & (settled | ~jnp.any(forever))
        status = jnp.where(ok | (trajectory.status != Status.OK), trajectory.status, int(Status.NON_FINITE))
        status = jnp.where(consistent, status, int(Status.INCONSISTENT))
        if known is not None:
            late_enough = jnp.all(jnp.isfinite(known[0]))
            status = jnp.where(late_enough | (status != Status.OK), status, int(Status.BAD_LAG))
        trajectory = dataclasses.replace(trajectory, ys=solved.unpacked(trajectory.ys), status=status)
        if known is not None:
            opening = lambda t: first | self.before(setup, t)
            trajectory = recalled(system, self.delays, *known, trajectory, opening)
        return Setup(system, first, inputs, setup.noise), trajectory

    def before(self, setup: Setup, t: Array) -> dict[str, Array]:
        """Values, before the start, of initial assignments that depend on time."""
        names = [n for n, node in self.start if TIME in setup.system.formulas.symbols([node])]
        if not names:
            return {}
        system, first, _ = self.assigned(setup.system, setup.y0, t)
        return {name: first[name] if name in first else system.parameters[name] for name in names}

    def opened(
        self, system: AbstractSBMLSystem, given: dict[str, Array], t: Array
    ) -> tuple[Any, dict[str, Array], Any]:
        """The system with all its parameters, its initial state, and its inputs; what is given goes before what is assigned."""
        if self.implied:
            assert isinstance(system, ConstrainedSBMLSystem)
            given = opened(self, system, given, t)
        return self.assigned(system, given, t)

    def assigned(
        self, system: AbstractSBMLSystem, given: dict[str, Array], t: Array
    ) -> tuple[Any, dict[str, Array], Any]:
        """Return what `opened` does, for given values of what algebraic rules determine."""
        assigned, formulas = dict(self.start), system.formulas

        @functools.cache
        def value(name: str) -> Any:
            if name == TIME:
                return t
            held: Any = given[name] if name in given else system.parameters[name]
            if name not in assigned:
                return held
            found = formulas.evaluate([assigned[name]], inside)[0]
            return jnp.where(jnp.isnan(held), found, held)

        late = {delay.name: delay for delay in self.delays}

        # A state that is an amount is given, and assigned, as what its symbol means.
        volumes = dict(self.volumes)

        @functools.cache
        def inside(name: str) -> Any:
            if name in late:  # of the time before the start
                past = lambda time: lambda name: time if name == TIME else inside(name)
                return delayed_value(formulas, late[name], inside, past)
            found = value(name)
            return found * formulas.evaluate([volumes[name]], inside)[0] if name in volumes else found

        whole = {name: value(name) for name in system.parameters}
        first = {name: inside(name) for name in given}
        system = eqx.tree_at(lambda s: s.parameters, system, whole)
        when = formulas.evaluate(self.switches, _still(system))
        inputs = {switch_name(i): Switch(jnp.clip(jnp.asarray(x, t.dtype), -NEVER, NEVER)) for i, x in enumerate(when)}
        return system, first, inputs


def _standing(y0: dict[str, Array], times: Array) -> Trajectory:
    """The start at all times, where what follows is a steady state."""
    none = jnp.zeros((), int)
    ys = jax.tree.map(lambda y: jnp.broadcast_to(y, (*times.shape, *jnp.shape(y))), y0)
    return Trajectory(times, ys, none + int(Status.OK), none, none, none)


def _following(setup: Setup, found: dict[str, Array], first: dict[str, Array]) -> dict[str, Array]:
    """The start after a steady state: a state goes on from there unless the experiment sets it."""
    follows = setup.system.settled != 0
    return {name: jnp.where(follows & jnp.isnan(y), found[name], first[name]) for name, y in setup.y0.items()}


def _by_row(which: Array, values: Array) -> Array:
    """Return a mask of the rows, in the rank of values by row."""
    return which.reshape(-1, *(1,) * (values.ndim - 1))


def _before(times: Array, limit: float) -> Array:
    """Times, those from a limit on replaced by the last before it."""
    early = times < limit
    return jnp.where(early, times, jnp.max(jnp.where(early, times, times[0])))


def _changed(parameters: dict[str, Array], other: dict[str, Array]) -> dict[str, Array]:
    return {name: other.get(name, value) for name, value in parameters.items()}


def _still(system: AbstractSBMLSystem) -> Callable[[str], Any]:
    return lambda name: system.parameters[name]
