"""The families that systems belong to."""

from ._delayed_system import DelayedSystem
from ._discrete_system import DiscreteSystem
from ._jump_system import JumpSystem
from ._particle_system import ParticleSystem
from ._system import (
    ConstrainedSystem,
    PlainSystem,
    SeparableSystem,
    SplitSystem,
    StaticSystem,
    StiffTransportSystem,
    StochasticSystem,
    System,
    TransportSystem,
)

FAMILIES: tuple[type[System], ...] = (
    PlainSystem,
    ConstrainedSystem,
    DelayedSystem,
    SeparableSystem,
    SplitSystem,
    StiffTransportSystem,
    TransportSystem,
    StochasticSystem,
    JumpSystem,
    StaticSystem,
    ParticleSystem,
    DiscreteSystem,
)


def family_of(system: System) -> type[System]:
    """The family that a system belongs to."""
    for family in FAMILIES:
        if isinstance(system, family):
            return family
    raise TypeError(
        f"{type(system).__name__} must subclass one of the families "
        f"{', '.join(family.__name__ for family in FAMILIES)}, but it subclasses System alone."
    )
