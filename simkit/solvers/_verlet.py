"""Velocity Verlet for separable systems."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._types import State, Time
from ..core import SeparableSystem, System, SystemTerm, at_time
from ._registry import SOLVERS
from ._stepper import Step, Stepper, hermite


@SOLVERS.named("velocity_verlet")
class VelocityVerlet(Stepper):
    r"""The symplectic method of order 2 for positions q and momenta p:

    $$p_{1/2} = p_0 + \tfrac{h}{2} F(t_0, q_0), \quad q_1 = q_0 + h\, v(p_{1/2}), \quad
    p_1 = p_{1/2} + \tfrac{h}{2} F(t_1, q_1)$$

    One force a step, kept for the next one. With fixed steps the energy error stays bounded for very long times; a good step
    is a twentieth to a fiftieth of the fastest period, and beyond 1/pi of it the method is unstable. Between steps the cubic
    Hermite polynomial with the slopes at both ends, whose error is smaller than the method's.

    Verlet (1967), Phys. Rev. 159:98, doi:10.1103/PhysRev.159.98; Hairer, Lubich and Wanner (2003), Acta Numerica 12:399,
    doi:10.1017/S0962492902000144.
    """

    family: ClassVar[type[System]] = SeparableSystem
    adaptive: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    evaluations: ClassVar[int] = 1
    order: ClassVar[int] = 2

    def init(self, term: SystemTerm, t: Time, y: State) -> Any:
        return _force(term, jnp.asarray(t), y.position)

    def advance(self, term: SystemTerm, t0: Time, t1: Time, h: Time, y0: State, memory: PyTree) -> Step:
        velocity = term.system.velocity
        middle = _moved(y0.momentum, 0.5 * h, memory)
        position = _moved(y0.position, h, velocity(middle))
        force1 = _force(term, t1, position)
        momentum = _moved(middle, 0.5 * h, force1)
        y1 = _phase(y0, position, momentum)
        # XLA drops these two velocities where nothing interpolates.
        slopes = {"k0": (velocity(y0.momentum), memory), "k1": (velocity(momentum), force1)}
        dense = {name: jax.tree.map(lambda k: h * k, _phase(y0, *slope)) for name, slope in slopes.items()}
        return Step(y1, None, {"y0": y0, "y1": y1, **dense}, force1)

    def polynomial(self, dense: dict[str, Any]) -> tuple[State, ...]:
        return hermite(**dense)


def _force(term: SystemTerm, t: Time, position: State) -> Any:
    return term.system.force(t, position, at_time(term.inputs, t))


def _moved(start: PyTree, h: Time, slope: PyTree) -> Any:
    return jax.tree.map(lambda x, k: x + h * k, start, slope)


def _phase(like: Any, position: State, momentum: State) -> Any:
    return eqx.tree_at(lambda phase: (phase.position, phase.momentum), like, (position, momentum))
