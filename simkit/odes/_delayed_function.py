"""Plain functions of the state and its past as systems."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import Inputs, Outputs, State
from ..core import DelayedSystem, Example, Metadata, Past, as_signals, at_time, stop_times
from ._function import as_parameters, check_function, positional_count, split_quantities


class DelayedFunctionSystem(DelayedSystem):
    """dy/dt = f(t, y, past, parameters) for a plain function; `from_delayed_function` makes one.

    - `parameters`: the parameters by name; their paths are the names alone.
    - `past_values`: the history as signals with the structure of the state, or None; their numbers have paths.
    - the others: what `from_delayed_function` was given.
    """

    parameters: dict[str, Any] = eqx.field(converter=as_parameters)
    past_values: Any = None
    function: Callable[..., Any] = eqx.field(static=True, kw_only=True)
    lag_function: Callable[..., Any] = eqx.field(static=True, kw_only=True)
    history_function: Callable[..., Any] | None = eqx.field(static=True, default=None, kw_only=True)
    output_function: Callable[..., Any] | None = eqx.field(static=True, default=None, kw_only=True)
    steps: int = eqx.field(static=True, default=512, kw_only=True)
    parameter_metadata: tuple[tuple[str, Metadata], ...] = eqx.field(static=True, default=(), kw_only=True)

    def delayed_field(self, t: ArrayLike, y: State, inputs: Inputs, past: Past) -> State:
        if positional_count(self.function) >= 5:
            return self.function(t, y, past, self.parameters, inputs)
        return self.function(t, y, past, self.parameters)

    def lags(self, t: ArrayLike, y: State, inputs: Inputs) -> Any:
        return self.lag_function(t, y, self.parameters)

    def history(self, t: ArrayLike, y0: State) -> State:
        if self.past_values is not None:
            return at_time(self.past_values, t)
        if self.history_function is None:
            return y0
        return jax.tree.map(jnp.asarray, self.history_function(t, self.parameters))

    def earliest(self) -> Any:
        starts = [signal.times[..., 0] for signal in _tables(self.past_values)]
        return jnp.max(jnp.stack(starts)) if starts else None

    def breaks(self) -> Array | None:
        return stop_times(self.past_values)

    def kept_steps(self) -> int:
        return self.steps

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> Outputs:
        if self.output_function is not None:
            return self.output_function(t, y, self.parameters)
        return {"y": y} if eqx.is_array(y) else y

    @classmethod
    def example(cls) -> "Example[DelayedFunctionSystem]":
        raise ArgumentError("A system made by `from_delayed_function` has no example: give its state and times.")


def _tables(history: Any) -> list[Any]:
    return [x for x in jax.tree.leaves(history, is_leaf=callable) if hasattr(x, "times")]


def from_delayed_function(
    f: Callable[..., Any],
    params: Mapping[str, Any],
    *,
    lags: str | Callable[..., Any],
    history: Callable[..., Any] | Any = None,
    outputs: Callable[..., Any] | None = None,
    kept_steps: int = 512,
) -> DelayedFunctionSystem:
    """A delayed system from a plain function, the quick path for a first look.

    **Arguments:**

    - `f`: `f(t, y, past, params)` or `f(t, y, past, params, inputs)`, the time derivative of the state, with its structure;
        `past(t - lag)` is the state at an earlier time.
    - `params`: numbers or arrays by name; `f` receives them as arrays, as does everything that fits or samples them.
    - `lags`: the name of the parameter that is the lag, or `lags(t, y, params)`, which returns all lags that `f` uses.
    - `history`: the state before the first time: `history(t, params)`, or data, signals such as `simkit.Interpolated(times,
        values)` with the structure of the state; by default the state at the first time. Numbers of data have paths,
        `past_values.x.values`.
    - `outputs`: `outputs(t, y, params)`, a dictionary of what can be measured; the state itself by default.
    - `kept_steps`: the number of steps that a simulation keeps, at least those of the longest lag.

    **Returns:** a `DelayedFunctionSystem`. **Raises** an `ArgumentError` for a function of another number of arguments.

    ```python
    import simkit

    fed_back = lambda t, y, past, params: {"x": -params["rate"] * past(t - params["lag"])["x"]}
    system = simkit.odes.from_delayed_function(fed_back, {"rate": 1.0, "lag": 1.0}, lags="lag")
    print(simkit.simulate(system, {"x": 1.0}, [0.0, 1.0, 2.0]).final()["x"])  # prints -0.5
    ```
    """
    check_function(f, params, "lambda t, y, past, params: {'x': -past(t - params['lag'])['x']}")
    if positional_count(f) not in (4, 5):
        raise ArgumentError(
            "Argument `f` must take (t, y, past, params) or (t, y, past, params, inputs), but it takes "
            f"{positional_count(f)} arguments."
        )
    if isinstance(lags, str):
        check_known(lags, params, "parameter")
        name = lags
        lags = _Named(name)
    elif not callable(lags):
        raise ArgumentError(
            f"Argument `lags` must be the name of a parameter or a function `lags(t, y, params)`, but it is {shown(lags)}."
        )
    if not isinstance(kept_steps, int) or isinstance(kept_steps, bool) or kept_steps < 2:
        raise ArgumentError(f"Argument `kept_steps` must be a whole number of at least 2, but it is {kept_steps!r}.")
    given = _is_function(history)
    values, told = split_quantities(params)
    return DelayedFunctionSystem(
        values,
        None if given or history is None else as_signals(history),
        function=f,
        lag_function=lags,
        history_function=history if given else None,
        output_function=outputs,
        steps=kept_steps,
        parameter_metadata=told,
    )


def _is_function(history: Any) -> bool:
    return callable(history) and not isinstance(history, eqx.Module)


class _Named(NamedTuple):
    """The lag that is a parameter."""

    name: str

    def __call__(self, t: ArrayLike, y: State, params: Mapping[str, Any]) -> Any:
        return params[self.name]
