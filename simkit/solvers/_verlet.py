"""Velocity Verlet for separable systems."""

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax

from ..core import SeparableSystem, System, SystemTerm, at_time
from ._stepper import Stepper, hermite, reuse


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
    interpolation_cls: ClassVar[Any] = diffrax.ThirdOrderHermitePolynomialInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return _force(_bare(terms), t0, y0.position)

    def advance(self, terms: Any, t0: Any, t1: Any, h: Any, y0: Any, solver_state: Any, made_jump: Any):
        terms = _bare(terms)
        velocity = terms.system.velocity
        if reuse(made_jump):
            force0 = solver_state
        else:
            force0 = jax.lax.cond(made_jump, lambda: _force(terms, t0, y0.position), lambda: solver_state)
        middle = _moved(y0.momentum, 0.5 * h, force0)
        position = _moved(y0.position, h, velocity(middle))
        force1 = _force(terms, t1, position)
        momentum = _moved(middle, 0.5 * h, force1)
        y1 = _phase(y0, position, momentum)
        # XLA drops these two velocities where nothing interpolates.
        slopes = {"k0": (velocity(y0.momentum), force0), "k1": (velocity(momentum), force1)}
        dense = {name: jax.tree.map(lambda k: h * k, _phase(y0, *slope)) for name, slope in slopes.items()}
        return y1, None, {"y0": y0, "y1": y1, **dense}, force1, diffrax.RESULTS.successful

    def polynomial(self, dense: Any) -> tuple[Any, ...]:
        return hermite(**dense)


def _bare(terms: Any) -> Any:
    """The system's own term, without the wrapper that `diffeqsolve` puts around it; time runs forward."""
    return terms if isinstance(terms, SystemTerm) else terms.term


def _force(terms: Any, t: Any, position: Any) -> Any:
    return terms.system.force(t, position, at_time(terms.inputs, t))


def _moved(start: Any, h: Any, slope: Any) -> Any:
    return jax.tree.map(lambda x, k: x + h * k, start, slope)


def _phase(like: Any, position: Any, momentum: Any) -> Any:
    return eqx.tree_at(lambda phase: (phase.position, phase.momentum), like, (position, momentum))
