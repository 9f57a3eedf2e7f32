"""Systems of equations that are given as text."""

import functools
import types
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._doors import check_entries, check_mapping, shown
from .._errors import ArgumentError
from .._types import Inputs, Outputs, Scalar, State, Time
from ..core import (
    Example,
    Input,
    Metadata,
    PlainSystem,
    as_float_array,
    dotted,
    quantity,
    value_text,
)
from ._equations import Equations, split_equations
from ._spelled import equations_html, equations_text


class EquationSystem(PlainSystem):
    """dy/dt = f(t, y, parameters, inputs) by formulas; `from_equations` makes one, with a field for each parameter.

    - `equations`: the text of the model.

    Its outputs are the states and what `outputs` of `from_equations` names.
    """

    # A class made at run time gives it, as a static field beside a field for each parameter.
    equations: eqx.AbstractVar[Equations]

    def reads(self) -> dict[str, Input] | None:
        return dict(self.equations.inputs)

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        rates = self.equations.compiled[1]
        names = [name for name, _ in self.equations.rates]
        found = dict(zip(names, self._values(rates, t, y, inputs), strict=True))
        slopes = {name: jnp.broadcast_to(found[name], jnp.shape(_of(y, name))) for name in names}
        return slopes if isinstance(y, Mapping) else type(y)(**slopes)

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Outputs:
        found = {name: _of(y, name) for name, _ in self.equations.rates}
        values = self._values(self.equations.compiled[2], t, y, inputs)
        return found | {name: value for (name, _), value in zip(self.equations.observed, values, strict=True)}

    def _values(self, roots: tuple[int, ...], t: Time, y: State, inputs: Inputs) -> list[Array]:
        formulas = self.equations.compiled[0]
        dtype = jnp.result_type(*jax.tree.leaves(y))
        given = dotted(inputs or {})

        def lookup(symbol: str) -> Any:
            sort, _, name = symbol.partition(":")
            if sort == "inputs":
                value = given[name]
            else:
                value = t if sort == "time" else _of(y if sort == "state" else self, name)
            return jnp.asarray(value).astype(dtype)

        return [jnp.asarray(value, dtype) for value in formulas.evaluate(roots, lookup)]

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made while the program runs, so it travels as its text.
        return _remade, (self.equations, {name: getattr(self, name) for name, _, _ in self.equations.parameters})

    def __repr__(self) -> str:
        rows = [f"{self.equations.name}", *(f"  {line}" for line in equations_text(self.equations).splitlines())]
        for name, _, known in self.equations.parameters:
            unit = "" if known.unit == "1" else f" {known.unit}"
            rows.append(f"  {name} = {value_text(getattr(self, name))}{unit}")
        return "\n".join(rows)

    def _html_parts(self) -> tuple[str, ...] | None:
        return self.equations.name, equations_html(self.equations)

    @classmethod
    def example(cls) -> "Example[EquationSystem]":
        raise ArgumentError("A system made by `from_equations` has no example: give its state and times.")


def from_equations(
    equations: Mapping[str, str],
    *,
    parameters: Mapping[str, Any],
    states: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Input] | None = None,
    outputs: Mapping[str, str] | None = None,
    name: str = "Equations",
) -> EquationSystem:
    """A system from equations as text, which are read as data and never run as code.

    **Arguments:**

    - `equations`: left side -> formula. "d algae" (or "dalgae/dt", "algae'") is the slope of a state; a name alone is a quantity
        that other formulas use.
    - `parameters`: name -> a number, or a `simkit.quantity` with value, unit, support and description.
    - `states`: name -> a `simkit.quantity` with the unit and description of a state.
    - `inputs`: name -> `Input(unit, default, doc)`, the functions of time that formulas may name.
    - `outputs`: name -> formula, what can be measured beside the states.
    - `name`: what the model is called, a name of Python.

    Formulas name states, parameters, inputs, assignments and `t`, the time. They know `+ - * / ^`, comparisons,
    `if(condition, a, b)`, `exp`, `ln`, `log10`, `sqrt`, `abs`, `min`, `max`, trigonometric and hyperbolic functions, `_pi`, `_e`.

    **Returns:** a system with a field for each parameter. Its initial state is `system.State(algae=1.0)`, or a dictionary.

    **Raises:** an `ArgumentError`, a `DataError` or an `UnknownNameError` (with the close matches) that names the equation.

    ```python
    import simkit
    pond = simkit.from_equations(
        {"d algae": "growth*algae*(1 - algae/capacity)"},
        parameters={"growth": simkit.quantity(0.8, unit="1/day", support=simkit.POSITIVE), "capacity": 9.0},
    )
    print(simkit.simulate(pond, pond.State(algae=1.0), [0.0, 5.0]).final().algae)  # prints 7.85
    ```
    """
    check_mapping("equations", equations, "formulas", '{"d algae": "growth*algae"}')
    check_mapping("parameters", parameters, "numbers", '{"growth": 0.8}')
    check_mapping("states", states or {}, "quantities", '{"algae": simkit.quantity(unit="g/m^3")}')
    check_mapping("inputs", inputs or {}, "inputs", '{"light": simkit.Input("W/m^2")}')
    check_entries("inputs", inputs or {}, Input, "an `Input`", 'Write `simkit.Input("W/m^2", default=0.0)`.')
    check_mapping("outputs", outputs or {}, "formulas", '{"chlorophyll": "0.02*algae"}')
    if not (isinstance(name, str) and name.isidentifier()):
        raise ArgumentError(f"Argument `name` must be a name of Python, such as `Pond`, but it is {name!r}.")
    rates, assignments = split_equations(equations)
    told = {key: _metadata("states", key, field) for key, field in (states or {}).items()}
    known = ["State", *(name for name in dir(EquationSystem) if not name.startswith("__"))]
    for key in parameters:
        if key in known:
            raise ArgumentError(
                f"The name `{key}` of a parameter must be another one, since systems have a method or a class of it. Rename it."
            )
    text = Equations(
        name,
        tuple(rates.items()),
        tuple(told.items()) + tuple((key, Metadata()) for key in rates if key not in told),
        tuple(assignments.items()),
        tuple(_texts(outputs or {}).items()),
        tuple((key, _value(key, field), _metadata("parameters", key, field)) for key, field in parameters.items()),
        tuple((inputs or {}).items()),
    )
    return _remade(text, {})


def _texts(outputs: Mapping[str, Any]) -> dict[str, str]:
    for name, text in outputs.items():
        if not isinstance(text, str):
            raise ArgumentError(
                f'The output `{name}` must be a formula as text, such as "0.02*algae", but it is {shown(text)}.'
            )
    return dict(outputs)


def _value(name: str, field: Any) -> float:
    value = field.default if _is_quantity(field) else field
    try:
        return float(as_float_array(value))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"The parameter `{name}` must be a number or a quantity with a value, such as `simkit.quantity(0.8)`, but it is "
            f"{shown(value)}."
        ) from error


def _is_quantity(field: Any) -> bool:
    return "simkit" in getattr(field, "metadata", {})


def _metadata(argument: str, name: str, field: Any) -> Metadata:
    if _is_quantity(field):
        return field.metadata["simkit"]
    if argument == "states":
        raise ArgumentError(
            f'Argument `states` must hold quantities, such as `simkit.quantity(unit="g/m^3")`, but `{name}` is {shown(field)}.'
        )
    return Metadata()


@functools.lru_cache(maxsize=512)
def _state_class(names: tuple[str, ...], told: tuple[tuple[str, Metadata], ...]) -> type[eqx.Module]:
    known = dict(told)
    fields = {name: quantity(unit=known[name].unit, support=known[name].support, doc=known[name].doc) for name in names}
    reduce = lambda self: (_state_remade, (names, told, {name: getattr(self, name) for name in names}))
    body = {"__annotations__": dict.fromkeys(names, Any), "__module__": __name__, "__reduce__": reduce, **fields}
    return types.new_class("State", (eqx.Module,), {}, lambda space: space.update(body))


def _state_remade(names: tuple[str, ...], told: tuple[tuple[str, Metadata], ...], values: dict[str, Any]) -> Any:
    return _state_class(names, told)(**values)


@functools.lru_cache(maxsize=512)
def _system_class(equations: Equations) -> type[EquationSystem]:
    names = [name for name, _, _ in equations.parameters]
    fields = {
        name: quantity(value, unit=known.unit, support=known.support, doc=known.doc)
        for name, value, known in equations.parameters
    }
    body = {
        "__annotations__": {"equations": Equations, **dict.fromkeys(names, Scalar)},
        "__module__": __name__,
        "__doc__": f"{equations.name}, by equations as text:\n\n{equations_text(equations)}",
        "State": _state_class(tuple(name for name, _ in equations.rates), equations.states),
        "equations": eqx.field(static=True),
        **fields,
    }
    return types.new_class(equations.name, (EquationSystem,), {}, lambda space: space.update(body))


def _remade(equations: Equations, values: Mapping[str, Any]) -> EquationSystem:
    return _system_class(equations)(equations=equations, **values)


def _of(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, Mapping) else getattr(owner, name)
