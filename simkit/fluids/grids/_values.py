"""Values that boundaries give: numbers, profiles, functions of time and place, and inputs."""

import dataclasses
from typing import Any

import equinox as eqx

from ..._doors import check_function, check_kind, shown
from ..._errors import ArgumentError
from ...core import REAL, AbstractSignal, Input, Support, quantity_or


class InputValue(eqx.Module):
    """The value that an input of the simulation gives at a boundary, such as `FixedPressure(InputValue("pressure"))`.

    It is a number, or has a shape that the boundary takes. A table or a jump in time is a signal of `inputs`, and in a `Coupled`
    system the output of another part.

    - `name`: of the input.
    """

    name: str = eqx.field(static=True)

    def __check_init__(self):
        check_kind("name", self.name, str, "the name of an input", 'Write `InputValue("pressure")`.')
        if not self.name.isidentifier():
            raise ArgumentError(
                f"Argument `name` must be a name of letters and digits, but it is {shown(self.name)}. Write "
                '`InputValue("pressure")`.'
            )


def varies(value: Any) -> bool:
    """Tell whether a value of a boundary is found at each time: a function, or an input."""
    return isinstance(value, InputValue) or (callable(value) and not isinstance(value, type))


def given(default: Any = dataclasses.MISSING, *, unit: str = "1", support: Support = REAL, doc: str = "") -> Any:
    """A field of a boundary: a quantity, a function `(t, x)`, or an `InputValue`."""
    return quantity_or(_admitted, default, unit=unit, support=support, doc=doc)


def _admitted(value: Any) -> bool:
    """Tell whether a value varies, and refuse functions of something else.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(value, AbstractSignal):
        raise ArgumentError(
            f"A value at a boundary is a signal, {type(value).__name__}, which has no place there. Write `InputValue(name)`, and "
            "give the signal to `simulate` by `inputs={name: ...}`."
        )
    if varies(value) and not isinstance(value, InputValue):
        check_function("value", value, ("t", "x"))
    return varies(value)


def values_of(end: eqx.Module) -> dict[str, Any]:
    """The values that a boundary gives, by the names of their fields."""
    return {field.name: getattr(end, field.name) for field in dataclasses.fields(end) if "simkit" in field.metadata}


def check_steady(end: eqx.Module, where: str) -> None:
    """Refuse values of a boundary that change.

    **Raises:** an `ArgumentError` that names the field.
    """
    for name, value in values_of(end).items():
        if varies(value):
            raise ArgumentError(
                f"The {name} of {type(end).__name__} {where} must be a number or an array, but it is {shown(value)}. Functions of "
                "time and inputs are for `IncompressibleFlow`, `CompressibleFlow` and `ShallowWater`."
            )


def inputs_of_values(ends: list[Any]) -> dict[str, Input]:
    """The inputs that boundaries read."""
    found = {}
    for end in ends:
        for name, value in values_of(end).items():
            if isinstance(value, InputValue):
                found[value.name] = Input(doc=f"{name} at the end of an axis, {type(end).__name__}")
    return found
