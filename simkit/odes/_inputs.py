"""Optional inputs of a model."""

from typing import Any

from .._errors import check_known
from .._types import Inputs


def optional_input(inputs: Inputs, name: str) -> Any:
    """The value of the input `name`, or 0 where a model runs without inputs."""
    if inputs is None:
        return 0.0
    check_known(name, {name} if name in inputs else set(inputs), "input of this system")
    return inputs[name]
