"""Notes of the kernels that a test launches."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from simkit.engine.kernels._mode import forced


def noting(monkeypatch: pytest.MonkeyPatch, **places: tuple[Any, str]) -> list[str]:
    """A list that grows by a name whenever the function of that place, an object and an attribute, has returned."""
    found: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            found.append(name)
            return result

        return call

    for name, (owner, attribute) in places.items():
        monkeypatch.setattr(owner, attribute, noted(name, getattr(owner, attribute)))
    return found


def both(function: Callable[[], Any], used: list[str], *names: str) -> tuple[Any, Any]:
    """A result by programs of XLA's and by kernels, which must be those that are named."""
    expected = function()
    with forced("interpret"):
        found = function()
    assert used == list(names)
    return expected, found
