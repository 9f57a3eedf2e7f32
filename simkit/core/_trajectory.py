"""Result of a simulation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from .._types import State
from ._events import Events
from ._guard import alike_together
from ._html import html_page, trajectory_html
from ._names import Setup, named_leaves
from ._quantity import unit_of
from ._status import Status
from ._tables import data_set

SHOWN = 3
"""Most failed members that are printed."""


class Trajectory(eqx.Module):
    """The states at the asked times, and how the simulation went.

    - `times`: shape `(times,)`; the predictors of a static system, shape `(data,)` or `(data, predictors)`.
    - `ys`: the states, with a leading time axis; NaN from the time of a failure on, and after an event that ends the run.
    - `status`: a `Status`; 0 is success.
    - `steps`, `rejected`, `evaluations`: accepted steps, rejected steps and evaluations of the vector field.
    - `solver`: the name of the solver and, where it was chosen, the reason.
    - `over`: of an ensemble the values by which its members differ, path -> shape `(members, ...)`.
    - `reduced`: the results of reducers by name; NaN of a failed member. A trajectory that has them holds the first and the last
        of the asked times only.
    - `events`: the `Events` that happened, with their times and the states on both sides; None where none were asked for.
    - `kept_steps`: of a system with delays how many of its last steps were kept, for states of the past; else 0.
    - `notes`: sentences about the numerics, such as of an absolute tolerance that is larger than a state.

    The trajectory of an ensemble has a leading member axis on every array: `jax.tree.map(lambda x: x[3], trajectory)` is that
    of the fourth member.
    """

    times: Float[Array, "..."]
    ys: State
    status: Int[Array, "*members"]
    steps: Int[Array, "*members"]
    rejected: Int[Array, "*members"]
    evaluations: Int[Array, "*members"]
    solver: str = eqx.field(static=True, default="")
    over: dict[str, Array] = eqx.field(default_factory=dict)
    reduced: dict[str, Any] = eqx.field(default_factory=dict)
    events: Events | None = None
    kept_steps: int = eqx.field(static=True, default=0)
    lists: Any = None  # of a particle system: what its lists of neighbours needed, and how often they were made
    notes: tuple[str, ...] = eqx.field(
        static=True, default=()
    )  # what a reader of the numbers should know, a sentence each

    def filled(self, value: float = 0.0) -> "Trajectory":
        """The same with a number in place of each state that is not finite, and of all states of members that failed.

        That is how to leave failed members out of what is differentiated: their states become constants, before anything is made
        of them. `jnp.where(trajectory.status == 0, loss, 0.0)` alone gives the right value, but a gradient of NaN wherever the
        loss of a failed member has a slope that is not finite.
        """
        fine = self.status == Status.OK

        def fill(x: Array) -> Array:
            good = fine.reshape(fine.shape + (1,) * (x.ndim - fine.ndim))
            return jnp.where(good & jnp.isfinite(x), x, value)

        return eqx.tree_at(lambda t: t.ys, self, jax.tree.map(fill, self.ys), is_leaf=lambda x: x is None)

    def failures(self) -> list[str]:
        """A sentence for every member that failed: its number, the values that make it, and what happened."""
        status = np.atleast_1d(np.asarray(self.status))
        found = []
        for member in np.flatnonzero(status):
            values = ", ".join(f"{path} {np.asarray(x)[member]}" for path, x in self.over.items())
            found.append(
                f"member {member}"
                + (f" ({values})" if values else "")
                + f": {Status(int(status[member])).told(self.solver)}"
            )
        return found

    @property
    def event_time(self) -> Any:
        """The time of the first event: infinite where none happened, NaN of a failed member, None where none was asked for."""
        if self.events is None:
            return None
        first = self.events.times[..., 0]
        return jnp.where(jnp.isfinite(first) | (self.status == Status.OK), first, jnp.nan)

    @property
    def event_state(self) -> Any:
        """The state before the first event: that at the last time where none happened, None where none was asked for."""
        if self.events is None:
            return None
        happened, axis = self.events.happened[..., 0], self.status.ndim

        def first(before: Array, last: Array) -> Array:
            there = jax.lax.index_in_dim(before, 0, axis, keepdims=False)
            return jnp.where(happened.reshape(*happened.shape, *(1,) * (last.ndim - axis)), there, last)

        return jax.tree.map(first, self.events.before, self.final())

    def final(self) -> State:
        """The state at the last time."""
        axis = self.times.ndim - 1
        last = lambda leaf: jax.lax.index_in_dim(leaf, -1, axis, keepdims=False)
        if not self._traced():
            return jax.tree.map(last, self.ys)
        states, unpacked = alike_together(self.ys)
        return unpacked([last(x) for x in states])

    def to_xarray(self) -> Any:
        """Return the states as an `xarray.Dataset` over `time` (and `member`), units as attributes; xarray comes with the extra
        `xarray`.

        **Raises:** a `MissingPackageError` where it is not installed.
        """
        setup = Setup(None, self.ys)
        word = lambda path: "y" if path == "y0" else path.removeprefix("y0.")
        leaves = {word(path): leaf for path, leaf in setup.leaves().items()}
        units = {word(path): setup.metadata(path).unit for path in setup.leaves()}
        return data_set(leaves, self.times, units)

    def _repr_html_(self) -> str:
        return html_page(repr(self)) if self._traced() else trajectory_html(self, self._facts() + self._findings())

    def __repr__(self) -> str:
        if self._traced():
            return f"Trajectory(traced, times {getattr(self.times, 'shape', '?')})"
        rows, size = self._facts(), 0
        for name, leaf in named_leaves(self.ys).items():
            size += leaf.nbytes
            unit, label = unit_of(self.ys, name), name or "y"
            rows.append((label, f"{leaf.dtype}{list(leaf.shape)}" + (f" in {unit}" if unit != "1" else "")))
        rows += self._findings()
        rows.append(("memory", f"{size / 1024:.1f} KiB"))
        width = max(len(name) for name, _ in rows)
        return "Trajectory\n" + "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)

    def _traced(self) -> bool:
        return any(isinstance(leaf, Tracer) or leaf is None for leaf in (self.times, self.status))

    def _facts(self) -> list[tuple[str, str]]:
        """Return names and texts of the facts of a run: status, steps, method."""
        times, status = np.asarray(self.times), np.atleast_1d(np.asarray(self.status))
        rows = [("solver", self.solver or "-")]
        if status.size > 1:
            failed = int((status != 0).sum())
            rows.append(("members", f"{status.size}, {failed} failed"))
            rows += [("failed", text) for text in self.failures()[:SHOWN]]
        else:
            rows.append(("status", Status(int(status[0])).told(self.solver)))
        if times.size:
            rows.append(("times", f"{times.shape[-1]} from {times.min():g} to {times.max():g}"))
        steps, rejected, evaluations = (np.asarray(x).sum() for x in (self.steps, self.rejected, self.evaluations))
        rows.append(("steps", f"{steps} accepted, {rejected} rejected, {evaluations} evaluations"))
        if self.kept_steps:
            rows.append(("past", f"ring of the last {self.kept_steps} steps"))
        return rows + [("note", text) for text in self.notes]

    def _findings(self) -> list[tuple[str, str]]:
        """Return the results of an event and of reducers."""
        rows = []
        if self.events is not None:
            rows += [("event", text) for text in self.events.told()]
        for name, result in self.reduced.items():
            shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(result)]
            rows.append((f"reduced {name}", ", ".join(shapes[:SHOWN]) + (", ..." if len(shapes) > SHOWN else "")))
        return rows


def with_fields(trajectory: Trajectory, **changed: Any) -> Trajectory:
    """A copy with other values of some fields: what `dataclasses.replace` gives, without its checks, in a twentieth of the time."""
    copy = object.__new__(type(trajectory))
    vars(copy).update(vars(trajectory), **changed)
    return copy
