"""Inputs that systems declare: by name, with a unit and a default, so that a wrong name is a sentence."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._errors import ArgumentError, check_known
from .._types import Inputs


class Input(NamedTuple):
    """Declaration of an input, which a system returns by name from its method `reads`.

    **Arguments:**

    - `unit`: as text, such as `"mg/h"`.
    - `default`: the value where the input is not given, which `from_function` and `Coupled` fill in; None where it must be given.
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


def with_defaults(declared: Mapping[str, Input], values: Mapping[str, Any] | None, like: Any) -> dict[str, Any]:
    """The values of inputs with the declared defaults of those that are not given, in the float type of a state."""
    found = dict(values or {})
    missing = {
        name: known.default for name, known in declared.items() if known.default is not None and name not in found
    }
    dtype = jnp.result_type(*jax.tree.leaves(like)) if missing else None
    return {**found, **{name: jnp.asarray(default, dtype) for name, default in missing.items()}}
