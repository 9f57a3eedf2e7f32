"""Particle systems: many bodies that bring their own step and keep a list of neighbours between steps."""

import abc
from collections.abc import Mapping
from typing import Any, TypeVar

from jaxtyping import Array, Bool, PyTree

from .._errors import ArgumentError
from .._types import Inputs, State
from ._names import Setup
from ._system import System


class ParticleSystem(System):
    """Many bodies whose forces need to know who is near whom.

    Such a system brings its own step, in two halves between which the list of neighbours must hold; the list is made again when it
    no longer does. The steps of a window between two save times carry what `opened` makes of state and force. A subclass is
    `simkit.md.Particles`; potentials, spaces and dynamics are what users vary.
    """

    @property
    @abc.abstractmethod
    def smooth(self) -> bool:
        """Tell whether the whole state follows the vector field: no noise, no thermostat."""

    @property
    @abc.abstractmethod
    def noisy(self) -> bool:
        """Tell whether steps draw random numbers, so that runs need a key."""

    @property
    @abc.abstractmethod
    def inner_steps(self) -> int:
        """Number of the system's own steps in one step of the user."""

    @abc.abstractmethod
    def prepared(self, y0: State) -> "ParticleSystem":
        """The system with room for the neighbours of these concrete bodies; called before a simulation is traced."""

    @abc.abstractmethod
    def limited(self) -> "ParticleSystem":
        """The system that says where it has no room for neighbours, for who can give it more and begin again, and does nothing slow
        to do without."""

    @abc.abstractmethod
    def enlarged(self, tally: PyTree) -> "ParticleSystem":
        """The system with room for what a run, or the members of an ensemble, needed; called where there was not enough."""

    @abc.abstractmethod
    def listed(self, state: State) -> Any:
        """The neighbours of a state, and how much room they need."""

    @abc.abstractmethod
    def relisted(self, state: State, lists: PyTree) -> Any:
        """The neighbours of a later state, and how much room any needed so far."""

    @abc.abstractmethod
    def outdated(self, state: State, lists: PyTree) -> Bool[Array, ""]:
        """Tell whether the neighbour list of a state may be out of date."""

    @abc.abstractmethod
    def tally(self, lists: PyTree) -> Any:
        """Return statistics of the lists after a run: the capacity that they needed, and how often they were made."""

    @abc.abstractmethod
    def fits(self, lists: PyTree) -> Bool[Array, ""]:
        """Tell whether the capacity held all neighbours so far."""

    @abc.abstractmethod
    def forces(self, state: State, lists: PyTree) -> Any:
        """The forces on the bodies."""

    @abc.abstractmethod
    def opened(self, h: Array, state: State, force: Any) -> State:
        """Return the carry of a window of steps of length h, from a state and its force."""

    @abc.abstractmethod
    def moved(self, h: Array, carry: State, key: Array) -> State:
        """The first half of a step: positions where forces are asked for. The key is the step's own."""

    @abc.abstractmethod
    def restores(self, state: State) -> bool:
        """Tell whether the backward pass may reconstruct the carry of a window, to rounding, instead of storing it."""

    @abc.abstractmethod
    def stored(self, carry: State) -> Any:
        """Return the part of a carry that is stored where the rest is reconstructed."""

    @abc.abstractmethod
    def restored(self, h: Array, stored: PyTree, after: Any, begun: State) -> State:
        """The carry before a step of length h, of what is stored of it and of the next one; all are `begun` where h is 0."""

    @abc.abstractmethod
    def kicked(self, h: Array, carry: State, force: Any, key: Array) -> State:
        """The second half of a step."""

    @abc.abstractmethod
    def complaint(self, state: State, h: float, start: float) -> str:
        """Explain a failure in steps of length h after this sound state and time; called outside jit."""

    @abc.abstractmethod
    def closed(self, h: Array, carry: State, force: Any) -> State:
        """The state at the end of a window: the inverse of `opened`."""


Driven = TypeVar("Driven", bound=ParticleSystem)


def driven(system: Driven, values: Inputs) -> Driven:
    """The system with some of its quantities as inputs have them: `values` by path, such as `dynamics.temperature`."""
    if not values:
        return system
    if not isinstance(values, Mapping) or any(str(path).split(".")[0] == "space" for path in values):
        raise ArgumentError(
            "Argument `inputs` must name quantities of the particles' potential, dynamics, masses or charges, such as "
            f"`{{'dynamics.temperature': ramp}}`, but it is {values!r}. A cell moves by its dynamics."
        )
    return Setup(system).put(values).system
