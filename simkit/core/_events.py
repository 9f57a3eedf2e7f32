"""The events that happened in a simulation."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from .._errors import check_known
from .._types import State


class Events(eqx.Module):
    """The events of a trajectory in the order in which they happened; `events["name"]` are those of one name.

    An array has room for more than happened: entries from `count` on have infinite times and -1 for `which`.

    - `names`: of the events that could happen.
    - `count`: how many happened, those without room included.
    - `times`: shape `(room,)`, with derivatives; infinite where none happened.
    - `which`: shape `(room,)`, the place of its name among `names`; -1 where none happened.
    - `before`, `after`: the states on both sides, with a leading axis `(room,)`, with derivatives; NaN where none happened.

    Those of an ensemble have a leading member axis on every array.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    count: Int[Array, "*members"]
    times: Float[Array, "*members room"]
    which: Int[Array, "*members room"]
    before: State
    after: State

    @property
    def room(self) -> int:
        """The number of events that there is room for."""
        return self.times.shape[-1]

    @property
    def happened(self) -> Bool[Array, "*members room"]:
        """Flag of each entry that holds an event."""
        return self.which >= 0

    def __getitem__(self, name: str) -> "Events":
        check_known(name, self.names, "event")
        if len(self.names) == 1:
            return self
        own = self.which == self.names.index(name)
        order = jnp.argsort(~own, axis=-1, stable=True)

        def picked(x: Array) -> Array:
            places = order.reshape(*order.shape, *(1,) * (x.ndim - order.ndim))
            return jnp.take_along_axis(x, places, axis=order.ndim - 1)

        own = picked(own)

        def emptied(x: Array) -> Array:
            return jnp.where(own.reshape(*own.shape, *(1,) * (x.ndim - own.ndim)), picked(x), jnp.nan)

        return dataclasses.replace(
            self,
            names=(name,),
            count=jnp.sum(own, axis=-1, dtype=self.count.dtype),
            times=jnp.where(own, picked(self.times), jnp.inf),
            which=jnp.where(own, 0, -1).astype(self.which.dtype),
            before=jax.tree.map(emptied, self.before),
            after=jax.tree.map(emptied, self.after),
        )

    def table(self) -> list[dict[str, Any]]:
        """One row for each event of one simulation: its name, time, and the states before and after."""
        rows, state = [], lambda tree, i: jax.tree.map(lambda x: np.asarray(x)[i], tree)
        for i in range(min(int(self.count), self.room)):
            name, time = self.names[int(self.which[i])], float(self.times[i])
            rows.append({"event": name, "time": time, "before": state(self.before, i), "after": state(self.after, i)})
        return rows

    def told(self) -> list[str]:
        """A sentence for each kind of event: how often it happened, and when."""
        if isinstance(self.times, Tracer):
            return [f"{name}, traced" for name in self.names]
        times, which = np.asarray(self.times), np.asarray(self.which)
        return [_told(name, times, which == i, self.names) for i, name in enumerate(self.names)]

    def __repr__(self) -> str:
        return "Events\n" + "\n".join(f"  {text}" for text in self.told())


def _told(name: str, times: np.ndarray, own: np.ndarray, names: tuple[str, ...]) -> str:
    """Tell of the events of one kind; `times` and `own` have shape (room,) or (members, room)."""
    said = "" if names == ("event",) else f"{name} "
    found = times[own]
    if times.ndim > 1:
        members = int(own.any(axis=-1).sum())
        often = f", {found.size} times" if found.size > members else ""
        between = f", from {found.min():g} to {found.max():g}" if found.size else ""
        return f"{said}{members} of {times.shape[0]} members{often}{between}"
    if not found.size:
        return f"{said}did not happen"
    if found.size == 1:
        return f"{said}at {found[0]:g}"
    return f"{said}{found.size} times, from {found.min():g} to {found.max():g}"
