"""Events: conditions or times at which a simulation changes its state or ends."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._doors import check_function
from .._errors import ArgumentError
from .._types import Inputs, State, Time
from ._quantity import as_float_array


class Event(eqx.Module):
    """A zero crossing g(t, y) = 0, or known times, at which the state changes or the simulation ends.

    A crossing is found to rounding rather than to a step, by a change of sign between the ends of a step: one there and back
    within a step is not seen; where that matters, tighten the tolerances. A member that starts with g = 0, or whose change
    leaves it there, is on the side to which it moves. Where the condition itself jumps past zero, with an input, the time is
    found but has no derivative.

    **Arguments:**

    - `condition(system, t, y, inputs)`: a number, smooth near the event, that passes zero there; `y` is the state as users see it
        and `inputs` the inputs' values at time t. Make the function once and pass the same one: a new one is compiled anew.
    - `direction`: "up" for passages from negative to positive, "down" for those from positive to negative, None for both.
    - `change(system, t, y, inputs)`: the state after the event; without it the state goes on as it is. An event with `values` gives
        it the value of the time as a fifth argument.
    - `ends`: whether the simulation ends there.
    - `at`: known times, shape `(times,)`, in place of a condition; infinite ones never come. They are parameters like all others.
    - `lag(system, values)`: with `at`, what is added to the times, one number or one for each, such as the lag time of a dose.
    - `values`: with `at`, a pytree of arrays of shape `(times, ...)`, such as doses; a list is an array.
    - `keep`: inside a transformation, how many events of a condition a trajectory lists; elsewhere its list grows. The states know
        of all of them.

    **Raises:** an `ArgumentError` for another direction, for neither or both of `condition` and `at`, for values of another length.

    ```python
    import simkit
    system, y0, times, _ = simkit.odes.ExponentialDecay.example()
    half = simkit.Event(lambda system, t, y, inputs: y.amount - 0.5, "down", ends=True)
    print(simkit.simulate(system, y0, times, events=half).event_time)  # prints 1.386
    ```
    """

    condition: Callable[..., Any] | None = None
    direction: Literal["up", "down"] | None = eqx.field(static=True, default=None)
    change: Callable[..., Any] | None = None
    ends: bool = eqx.field(static=True, default=False)
    at: Float[Array, " times"] | None = None
    values: Any = None
    lag: Callable[..., Any] | None = None
    keep: int = eqx.field(static=True, default=16)

    def __init__(
        self,
        condition: Callable[..., Any] | None = None,
        direction: Literal["up", "down"] | None = None,
        change: Callable[..., Any] | None = None,
        *,
        ends: bool = False,
        at: ArrayLike | Sequence[Any] | None = None,
        values: Any = None,
        lag: Callable[..., Any] | None = None,
        keep: int = 16,
    ):
        if (condition is None) == (at is None):
            given = "neither" if at is None else "both"
            raise ArgumentError(
                f"An event must have either a `condition` or times, `at`, but it has {given}. A condition is found while solving, "
                "such as `Event(lambda system, t, y, inputs: y.height)`; times are known, such as `Event(at=[0.0, 12.0])`."
            )
        if condition is not None:
            check_function("condition", condition, ("system", "t", "y", "inputs"))
        if direction not in ("up", "down", None):
            raise ArgumentError(f'Argument `direction` must be "up", "down" or None, but it is {direction!r}.')
        if direction is not None and at is not None:
            raise ArgumentError(
                "Argument `direction` must be left out of an event at known times, which no condition passes."
            )
        if not isinstance(ends, bool):
            raise ArgumentError(f"Argument `ends` must be True or False, but it is {ends!r}.")
        if values is not None and (at is None or change is None):
            raise ArgumentError(
                "Argument `values` must come with times, `at`, and with a `change` that takes one of them."
            )
        if lag is not None:
            check_function("lag", lag, ("system", "values"))
            if at is None:
                raise ArgumentError("Argument `lag` must come with times, `at`, but there are none.")
        if change is not None:
            value = () if values is None else ("value",)
            check_function("change", change, ("system", "t", "y", "inputs", *value))
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
            raise ArgumentError(f"Argument `keep` must be an integer of at least 1, but it is {keep!r}.")
        self.condition, self.direction, self.change, self.ends = condition, direction, change, ends
        self.keep, self.lag = keep, lag
        self.at = None if at is None else _checked_times(at)
        self.values = None if values is None else _checked_values(values, self.at)

    @property
    def timed(self) -> bool:
        """Tell whether the event has known times."""
        return self.condition is None

    def times(self, system: Any) -> Array:
        """The known times, with their lag; in the order of `at`."""
        assert self.at is not None
        return (
            self.at if self.lag is None else self.at + jnp.asarray(self.lag(system, self.values)).astype(self.at.dtype)
        )

    def changed(
        self, system: Any, t: Time, y: State, inputs: Inputs, value: Any = None, *, name: str = "event"
    ) -> State:
        """The state after the event, of this name, at time t, with one entry of `values` where it has them.

        **Raises:** an `ArgumentError` that names the event where the state has another structure or other shapes than before.
        """
        if self.change is None:
            return y
        found = self.change(system, t, y, inputs, *(() if self.values is None else (value,)))
        said = f"The `change` of the event `{name}` must give a state like the one that it gets"
        if jax.tree.structure(found) != jax.tree.structure(y):
            raise ArgumentError(
                f"{said}, of structure {jax.tree.structure(y)}, but it gives {jax.tree.structure(found)}. Return a copy with "
                'other numbers, such as `{**y, "speed": -y["speed"]}` or `dataclasses.replace(y, speed=-y.speed)`.'
            )

        def cast(x: Any, new: Any) -> Array:
            x, new = jnp.asarray(x), jnp.asarray(new)
            if new.shape != x.shape or (jnp.iscomplexobj(new) and not jnp.iscomplexobj(x)):
                raise ArgumentError(
                    f"{said}, but of an array of shape {x.shape} it makes one of shape {new.shape} and type {new.dtype}."
                )
            return new.astype(x.dtype)

        return jax.tree.map(cast, y, found)


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True)
class NamedEvents:
    """The events of a simulation, in the order in which those of one time happen; a pytree whose branches have their names."""

    names: tuple[str, ...]
    events: tuple[Event, ...]

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Event], ...], tuple[str, ...]]:
        """Return the events with their names as keys, and the names: the protocol of JAX."""
        keys = map(jax.tree_util.DictKey, self.names)
        return tuple(zip(keys, self.events, strict=True)), self.names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], events: Sequence[Event]) -> "NamedEvents":
        """Return the events of these names: the protocol of JAX."""
        return cls(names, tuple(events))

    def items(self) -> Iterator[tuple[str, Event]]:
        """The events with their names."""
        return zip(self.names, self.events, strict=True)

    @property
    def room(self) -> int:
        """The number of events that a trajectory has room for at first."""
        sizes = [1 if event.ends and not event.timed else event.keep for event in self.events]
        known = [0 if event.at is None else event.at.shape[0] for event in self.events]
        return max(1, sum(n if event.timed else m for event, m, n in zip(self.events, sizes, known, strict=True)))


def as_events(given: Any) -> NamedEvents | None:
    """Events by name: of one event, a list or a mapping; None where there is none.

    **Raises:** an `ArgumentError` for anything else.
    """
    if given is None or isinstance(given, NamedEvents):
        return given
    if isinstance(given, Event):
        return NamedEvents(("event",), (given,))
    if isinstance(given, Mapping):
        names, events = tuple(given), tuple(given.values())
    elif isinstance(given, list | tuple):
        names, events = tuple(f"event {i}" for i in range(len(given))), tuple(given)
    else:
        names, events = ("",), (given,)
    for name, event in zip(names, events, strict=True):
        if not isinstance(event, Event) or not isinstance(name, str):
            where = f" at {name!r}" if name else ""
            raise ArgumentError(
                "Argument `events` must be an event, a list of them or a mapping of names, such as "
                f"`simkit.Event(lambda system, t, y, inputs: y.x)`, but it holds{where} {event!r}."
            )
    return NamedEvents(names, events) if events else None


def check_own_events(system: Any, events: NamedEvents | None) -> None:
    """Refuse a run without events of a system that has some of its own.

    **Raises:** an `ArgumentError`.
    """
    if events is None and (own := system.own_events()):
        raise ArgumentError(
            f"Argument `events` must hold the events of this system, {', '.join(f'`{name}`' for name in list(own)[:6])}, since its "
            "equations alone are not all of it. Give `events=system.own_events()`, or these with others."
        )


def _checked_times(at: Any) -> Array:
    try:
        times = as_float_array(at)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `at` must be times, but it is {at!r}.") from error
    if times.ndim == 0:
        times = times[None]
    if times.ndim != 1 or jnp.iscomplexobj(times):
        raise ArgumentError(f"Argument `at` must be real times of shape (times,), but its shape is {times.shape}.")
    if not isinstance(times, jax.core.Tracer) and np.isnan(np.asarray(times)).any():
        raise ArgumentError(
            f"Argument `at` must hold no NaN, but entry {int(np.argmax(np.isnan(np.asarray(times))))} is."
        )
    return times


def _checked_values(values: Any, at: Any) -> Any:
    arrays = as_float_array(values) if isinstance(values, list | tuple) else jax.tree.map(as_float_array, values)
    for leaf in jax.tree.leaves(arrays):
        if leaf.ndim == 0 or leaf.shape[0] != at.shape[0]:
            raise ArgumentError(
                f"Argument `values` must have one entry for each of {at.shape[0]} times, but its shape is {leaf.shape}."
            )
    return arrays
