"""Inputs that systems declare: by name, with a unit and a default, so that a wrong name is a sentence."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._errors import ArgumentError, check_known
from .._types import Inputs


class Input(NamedTuple):
    """Declaration of an input, which a system returns by name from its method `reads`.

    **Arguments:**

    - `unit`: as text, such as `"mg/h"`.
    - `default`: the value where the input is not given; None where it must be given. Verbs fill it in for every system, so that
        `vector_field` receives all declared inputs that have one.
    - `doc`: one line for tables and messages.

    ```python
    import simkit

    class Tank(simkit.PlainSystem):
        def reads(self):
            return {"inflow": simkit.Input(unit="m3/s", default=0.0, doc="what flows in")}
        ...
    ```
    """

    unit: str = "1"
    default: float | None = None
    doc: str = ""


def check_inputs(system: Any, inputs: Inputs) -> None:
    """Refuse inputs by names that a system does not declare, and inputs without one that it needs.

    A system that declares nothing takes any, and one without inputs is a matter of `warn_of_unread`.

    **Raises:** an `UnknownNameError` or an `ArgumentError`.
    """
    declared = system.reads()
    if not declared or not (inputs is None or isinstance(inputs, Mapping)):
        return
    given = dotted(inputs or {})
    for name in given:
        check_known(name, declared, "input of this system")
    for name, known in declared.items():
        if known.default is None and name not in given:
            unit = "" if known.unit == "1" else f" ({known.unit})"
            raise ArgumentError(
                f"Argument `inputs` must give `{name}`{unit}, which {type(system).__name__} reads and which has no default."
            )


def dotted(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs by dotted names; a dictionary in them holds those of a part."""
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        inside = dotted(value) if isinstance(value, Mapping) else {"": value}
        found |= {f"{name}.{key}".rstrip("."): entry for key, entry in inside.items()}
    return found
