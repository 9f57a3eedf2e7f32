"""Registry of solvers: each is declared beside its class."""

from .._registry import Registry
from ._stepper import Stepper

SOLVERS: Registry[type[Stepper]] = Registry("solver", Stepper, group="simkit.solvers")
"""Solvers by the names that study files and the argument `solver` take."""
