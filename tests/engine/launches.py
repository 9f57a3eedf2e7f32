"""Notes of the kernels that a test launches, and systems that kernels do not take as they are."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import pytest

import simkit
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


def with_own_derivative() -> simkit.System:
    """A system whose field holds a function that states its derivative itself, a wrong one."""

    @jax.custom_jvp
    def power(x):
        return x**3

    power.defjvp(lambda primals, tangents: (power(primals[0]), 7.0 * tangents[0]))  # no derivative of it
    return simkit.odes.from_function(lambda t, y, p: -p["rate"] * power(y), {"rate": 1.0})


def with_unknown_operation() -> simkit.System:
    """A system whose field holds an operation that no kernel has."""
    return simkit.odes.from_function(lambda t, y, p: jax.scipy.special.gammaln(1 + y**2) - p["rate"] * y, {"rate": 1.0})
