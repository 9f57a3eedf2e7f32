"""Coefficients of published methods that Diffrax holds, read when a method is first used: its import takes half a second."""

from collections.abc import Callable
from typing import Any

import numpy as np


class Lazily:
    """A class attribute that is made when it is first read."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.made = make, None

    def __get__(self, instance: Any, owner: type) -> Any:
        if self.made is None:
            self.made = self.make()
        return self.made


def lazily(make: Callable[[], Any]) -> Any:
    """Return a class attribute with the value of `make()`, which is called when the attribute is first read."""
    return Lazily(make)


def coefficients(method: str) -> Any:
    """Return the tableau of a method of Diffrax, or both tableaus of an implicit-explicit one."""
    import diffrax

    return getattr(diffrax, method).tableau


def dense_of_dopri8() -> np.ndarray:
    """Return the weights of the stages in the interpolant of `Dopri8`, a row for each power of theta from the first."""
    import diffrax

    return np.asarray(getattr(diffrax.Dopri8.interpolation_cls, "eval_coeffs")).T[::-1]  # noqa: B009


def dense_of_kencarp(method: str) -> np.ndarray:
    """Return the weights of the stages in the polynomial between steps, a row for each power of theta from the first."""
    import diffrax

    return np.asarray(getattr(diffrax, method).interpolation_cls.coeffs)[:, ::-1].T
