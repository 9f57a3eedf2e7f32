"""Plain functions as systems."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
from jax.typing import ArrayLike
from jaxtyping import Array

from .._doors import check_entries, check_mapping, shown
from .._errors import ArgumentError
from .._types import Inputs, Outputs, State
from ..core import Example, Input, Metadata, PlainSystem, StaticSystem, as_float_array


def as_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    for name in values:
        if not (isinstance(name, str) and name.isidentifier()) or name in (
            "y0",
            "inputs",
            "noise",
            "system",
            "parameters",
        ):
            raise ArgumentError(
                f"Argument `params` must name its parameters by Python names other than y0, inputs, noise, system and "
                f"parameters, but one is {name!r}. Rename it."
            )
    # A tree of something else than numbers, inside a transformation, passes as it is.
    return {name: as_float_array(value) if eqx.is_array_like(value) else value for name, value in values.items()}


def split_quantities(
    params: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[tuple[str, Metadata], ...]]:
    """The values of parameters, and unit, support and description of those that are given by `quantity`.

    **Raises:** an `ArgumentError` for a quantity without a value, or one outside of its support.
    """
    values, told = dict(params), []
    for name, field in params.items():
        if not (isinstance(field, dataclasses.Field) and "simkit" in field.metadata):
            continue
        known, value = field.metadata["simkit"], field.default
        if value is dataclasses.MISSING:
            raise ArgumentError(
                f"The parameter `{name}` must have a value, but its quantity has none. Write `simkit.quantity(0.8, ...)`."
            )
        values[name] = checked = as_float_array(value)
        lower, upper = known.support
        if not bool(((checked >= lower) & (checked <= upper)).all()) or (
            known.support.positive and not bool((checked > 0).all())
        ):
            good = "positive" if known.support.positive else f"between {lower:g} and {upper:g}"
            raise ArgumentError(f"The parameter `{name}` must be {good}, as its support says, but is {shown(value)}.")
        told.append((name, known))
    return values, tuple(told)


class FunctionSystem(PlainSystem):
    """dy/dt = f(t, y, parameters) for a plain function; `from_function` makes one.

    - `parameters`: the parameters by name; their paths are the names alone.
    - `function`, `output_function`, `invariant_function`, `declared`: what `from_function` was given.
    - `parameter_metadata`: unit, support and description of parameters by name, where they were given.
    """

    parameters: dict[str, Any] = eqx.field(converter=as_parameters)
    function: Callable[..., Any] = eqx.field(static=True)
    output_function: Callable[..., Any] | None = eqx.field(static=True, default=None)
    invariant_function: Callable[..., Any] | None = eqx.field(static=True, default=None)
    declared: tuple[tuple[str, Input], ...] | None = eqx.field(static=True, default=None)
    parameter_metadata: tuple[tuple[str, Metadata], ...] = eqx.field(static=True, default=())

    def reads(self) -> dict[str, Input] | None:
        if self.declared is None and positional_count(self.function) < 4:
            return {}
        return None if self.declared is None else dict(self.declared)

    def vector_field(self, t: ArrayLike, y: State, inputs: Inputs) -> State:
        if positional_count(self.function) >= 4:
            return self.function(t, y, self.parameters, inputs)
        return self.function(t, y, self.parameters)

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> Outputs:
        if self.output_function is not None:
            return self.output_function(t, y, self.parameters)
        return {"y": y} if eqx.is_array(y) else y

    def invariants(self, t: ArrayLike, y: State) -> dict[str, Array]:
        return {} if self.invariant_function is None else self.invariant_function(t, y, self.parameters)

    @classmethod
    def example(cls) -> "Example[FunctionSystem]":
        raise ArgumentError("A system made by `from_function` has no example: give its state and times.")


class FunctionResponse(StaticSystem):
    """A response f(x, parameters) to a predictor x; `from_response` makes one.

    - `parameters`: the parameters by name; their paths are the names alone.
    - `function`: what `from_response` was given; `parameter_metadata`: as of `FunctionSystem`.
    """

    parameters: dict[str, Any] = eqx.field(converter=as_parameters)
    function: Callable[..., Any] = eqx.field(static=True)
    parameter_metadata: tuple[tuple[str, Metadata], ...] = eqx.field(static=True, default=())

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> Outputs:
        response = self.function(t, self.parameters)
        return response if isinstance(response, dict | eqx.Module) else {"y": response}

    @classmethod
    def example(cls) -> "Example[FunctionResponse]":
        raise ArgumentError("A response made by `from_response` has no example: give its predictor.")


def from_function(
    f: Callable[..., Any],
    params: Mapping[str, Any],
    *,
    outputs: Callable[..., Any] | None = None,
    invariants: Callable[..., Any] | None = None,
    inputs: Mapping[str, Input] | None = None,
) -> FunctionSystem:
    """A system from a plain function, the quick path for a first look.

    **Arguments:**

    - `f`: `f(t, y, params)` or `f(t, y, params, inputs)`, the time derivative of the state, with its structure; the state is
        any pytree of float arrays, such as a dictionary or one array.
    - `params`: numbers or arrays by name, or a `simkit.quantity` with value, unit, support and description; `f` receives them as
        arrays, as does everything that fits or samples them.
    - `outputs`: `outputs(t, y, params)`, a dictionary of what can be measured; the state itself by default.
    - `invariants`: `invariants(t, y, params)`, a dictionary of what the exact solution conserves.
    - `inputs`: name -> `Input(unit, default, doc)`, the inputs that `f` reads, so that a wrong name is refused; by default none are
        declared.

    **Returns:** a `FunctionSystem`. **Raises** an `ArgumentError` for a function of another number of arguments.

    ```python
    import simkit
    system = simkit.odes.from_function(lambda t, y, params: {"x": -params["rate"] * y["x"]}, {"rate": 0.5})
    print(simkit.simulate(system, {"x": 1.0}, [0.0, 1.0, 2.0]).final()["x"])  # prints 0.368
    ```
    """
    check_function(f, params, "lambda t, y, params: {'x': -params['rate'] * y['x']}")
    if positional_count(f) not in (3, 4):
        raise ArgumentError(
            f"Argument `f` must take (t, y, params) or (t, y, params, inputs), but it takes {positional_count(f)} arguments."
        )
    values, told = split_quantities(params)
    if inputs is None:
        return FunctionSystem(values, f, outputs, invariants, parameter_metadata=told)
    check_mapping("inputs", inputs, "declarations", '{"inflow": simkit.Input(unit="m3/s")}')
    check_entries("inputs", inputs, Input, "a declaration", 'Write `simkit.Input(unit="m3/s", default=0.0)`.')
    if positional_count(f) != 4:
        raise ArgumentError(
            "Argument `f` must take (t, y, params, inputs) where `inputs` are declared, but it takes three."
        )
    return FunctionSystem(values, f, outputs, invariants, tuple(inputs.items()), told)


def from_response(f: Callable[..., Any], params: Mapping[str, Any]) -> FunctionResponse:
    """A regression model from a plain function, for fits without a simulation.

    **Arguments:**

    - `f`: `f(x, params)`, the response at one predictor x: a number, which becomes the output `y`, or a dictionary of outputs.
    - `params`: numbers or arrays by name, or a `simkit.quantity` each.

    **Returns:** a `FunctionResponse`. **Raises** an `ArgumentError` for a function of another number of arguments.

    ```python
    import simkit
    line = simkit.odes.from_response(lambda x, params: params["slope"] * x, {"slope": 2.0})
    ```
    """
    check_function(f, params, "lambda x, params: params['slope'] * x")
    if positional_count(f) != 2:
        raise ArgumentError(f"Argument `f` must take (x, params), but it takes {positional_count(f)} arguments.")
    values, told = split_quantities(params)
    return FunctionResponse(values, f, told)


def check_function(f: object, params: object, example: str) -> None:
    """Refuse a function that cannot be called, and parameters without names."""
    if not callable(f):
        raise ArgumentError(f"Argument `f` must be a function, such as `{example}`, but it is {shown(f)}.")
    check_mapping("params", params, "numbers", '{"rate": 0.5}')


def positional_count(function: Callable[..., Any]) -> int:
    """Return the number of positional arguments that a function requires."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)
