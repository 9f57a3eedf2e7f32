"""Jump-diffusions: which stochastic systems jump as well, and where they are refused."""

from typing import Any

from .._errors import ArgumentError
from ._system import StochasticSystem


def jumps_too(system: Any) -> bool:
    """Tell whether a stochastic system jumps at random times as well.

    **Raises:** an `ArgumentError` where it has only a part of what jumps need.
    """
    if not isinstance(system, StochasticSystem):
        return False
    kind = type(system)
    own = {
        name: getattr(kind, name) is not getattr(StochasticSystem, name) for name in ("jump_rate", "jump", "jump_bound")
    }
    if any(own.values()) and not (own["jump_rate"] and own["jump"]):
        there = next(name for name, written in own.items() if written)
        missing = "jump" if own["jump_rate"] else "jump_rate"
        raise ArgumentError(
            f"`{kind.__name__}` defines `{there}`, but not `{missing}`, without which nothing jumps: write it."
        )
    return own["jump_rate"]


def refuse_jumps(system: Any, what: str, remedy: str) -> None:
    """Refuse a system that jumps where jumps would be left out.

    **Raises:** an `ArgumentError`.
    """
    if jumps_too(system):
        raise ArgumentError(f"{what}, but `{type(system).__name__}` jumps at random times: {remedy}")
