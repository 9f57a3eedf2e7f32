"""Steppers: one file a method or a family of methods, each a Diffrax solver on Diffrax's public interface."""

from ._choose import Choice as Choice
from ._choose import choose as choose
from ._explicit import AbstractExplicitRungeKutta as AbstractExplicitRungeKutta
from ._explicit import Tsit5 as Tsit5
from ._stepper import Stepper as Stepper
