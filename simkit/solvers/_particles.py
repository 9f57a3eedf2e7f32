"""The step that a particle system brings, as a Diffrax solver."""

from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp

from ..core import ParticleSystem, System, SystemTerm
from ._stepper import Stepper, straight


class ParticleStepper(Stepper):
    """The step of a particle system's own dynamics, with its list of neighbours and its forces in `solver_state`.

    `simkit.simulate` takes it for every particle system. Noise is drawn from the key 0 here, and from the key of `simulate` there.
    """

    family: ClassVar[type[System]] = ParticleSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    interpolation_cls: ClassVar[Any] = diffrax.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        system = _system(terms)
        lists = jax.lax.stop_gradient(system.listed(y0))
        return lists, system.forces(y0, lists), jnp.zeros((), jnp.int32)

    def advance(self, terms: Any, t0: Any, t1: Any, h: Any, y0: Any, solver_state: Any, made_jump: Any):
        system, (lists, force, count) = _system(terms), solver_state
        key = jax.random.fold_in(jax.random.key(0), count)
        carry = system.moved(h, system.opened(h, y0, force), key)
        held = jax.lax.stop_gradient(carry)
        lists = jax.lax.cond(system.outdated(held, lists), lambda: system.relisted(held, lists), lambda: lists)
        force = system.forces(carry, lists)
        y1 = system.closed(h, system.kicked(h, carry, force, key), force)
        return y1, None, {"y0": y0, "y1": y1}, (lists, force, count + 1), diffrax.RESULTS.successful

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return straight(dense)


def _system(terms: Any) -> ParticleSystem:
    system = (terms if isinstance(terms, SystemTerm) else terms.term).system
    assert isinstance(system, ParticleSystem)
    return system
