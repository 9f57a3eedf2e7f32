"""The step that a particle system brings, in the form of a stepper."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._types import State, Time
from ..core import ParticleSystem, System, SystemTerm
from ._stepper import Step, Stepper, straight


class ParticleStepper(Stepper):
    """The step of a particle system's own dynamics, with its list of neighbours and its forces in its memory.

    `simkit.simulate` takes it for every particle system. Noise is drawn from the key 0 here, and from the key of `simulate` there.
    """

    family: ClassVar[type[System]] = ParticleSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 2

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        system = _system(term)
        lists = jax.lax.stop_gradient(system.listed(y))
        return lists, system.forces(y, lists), jnp.zeros((), jnp.int32)

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        system, (lists, force, count) = _system(term), memory
        key = jax.random.fold_in(jax.random.key(0), count)
        carry = system.moved(h, system.opened(h, y0, force), key)
        held = jax.lax.stop_gradient(carry)
        lists = jax.lax.cond(system.outdated(held, lists), lambda: system.relisted(held, lists), lambda: lists)
        force = system.forces(carry, lists)
        y1 = system.closed(h, system.kicked(h, carry, force, key), force)
        return Step(y1, None, {"y0": y0, "y1": y1}, (lists, force, count + 1))

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return straight(dense)


def _system(term: SystemTerm) -> ParticleSystem:
    assert isinstance(term.system, ParticleSystem)
    return term.system
