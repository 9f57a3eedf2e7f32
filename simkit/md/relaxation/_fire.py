"""The fast inertial relaxation engine."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._errors import ArgumentError
from ._minimiser import Minimiser, Search, bounded

GROW, SHRINK, START, FADE, DELAY = 1.1, 0.5, 0.1, 0.99, 5  # the authors' own


class Motion(NamedTuple):
    """Velocity, step of time, how much of the velocity is turned downhill, steps downhill so far, and the greatest stiffness."""

    velocity: Array
    step: Array
    turned: Array
    downhill: Array
    stiffness: Array


class FIRE(Minimiser):
    r"""FIRE: motion of unit masses whose velocity is turned downhill, and which stops whenever it goes uphill:

    $$v \to (1 - \alpha) v + \alpha |v| \frac{F}{|F|}, \qquad v \to v + F\, dt, \qquad x \to x + v\, dt$$

    with a step of time that grows downhill, up to what the greatest stiffness seen allows. It needs more steps than L-BFGS near a
    minimum, and it goes from a rough start to the nearest one without leaps.

    **Argument:** `most`: the farthest an atom moves in a step, in the unit of length.

    **Good values:** a tenth of the distance of neighbours.

    **Source:** Bitzek et al. (2006), doi:10.1103/PhysRevLett.97.170201.
    """

    most: float = eqx.field(static=True, default=0.1)

    def __check_init__(self):
        if not self.most > 0:
            raise ArgumentError(f"Argument `most` must be positive, but it is {self.most}.")

    @property
    def name(self) -> str:
        return "FIRE"

    def begun(self, point: Array, energy: Array, slope: Array, weight: Array) -> Search:
        size = jnp.max(jnp.abs(weight * slope))
        step = jnp.sqrt(0.1 * self.most / jnp.where(size > 0, size, 1.0)).astype(slope.dtype)
        turned = jnp.full_like(step, START)
        return Search(
            point, energy, slope, Motion(jnp.zeros_like(slope), step, turned, jnp.zeros((), jnp.int32), 0 * step)
        )

    def proposed(self, search: Search, weight: Array) -> tuple[Array, Search]:
        motion, force = search.kept, -search.slope
        power = jnp.vdot(force, motion.velocity)
        ahead = power > 0
        ratio = jnp.linalg.norm(motion.velocity) / jnp.where(ahead, jnp.linalg.norm(force), 1.0)
        velocity = jnp.where(ahead, (1 - motion.turned) * motion.velocity + motion.turned * ratio * force, 0.0)
        downhill = jnp.where(ahead, motion.downhill + 1, 0)
        long = ahead & (downhill > DELAY)
        still = ~ahead & (motion.downhill > 0)
        step = motion.step * jnp.where(long, GROW, jnp.where(still, SHRINK, 1.0)).astype(motion.step.dtype)
        known = motion.stiffness > 0
        step = jnp.where(known, jnp.minimum(step, 1 / jnp.sqrt(jnp.where(known, motion.stiffness, 1.0))), step)
        turned = jnp.where(long, motion.turned * FADE, jnp.where(ahead, motion.turned, START)).astype(
            motion.turned.dtype
        )
        velocity = velocity + step * force
        trial = search.point + bounded(step * velocity, weight, self.most)
        kept = Motion(velocity, step, turned, downhill, motion.stiffness)
        return trial, Search(search.point, search.energy, search.slope, kept)

    def judged(self, search: Search, trial: Array, energy: Array, slope: Array, weight: Array) -> Search:
        motion = search.kept
        good = jnp.isfinite(energy) & jnp.isfinite(slope).all()
        moved = jnp.linalg.norm(trial - search.point)
        seen = jnp.linalg.norm(slope - search.slope) / jnp.where(moved > 0, moved, 1.0)
        # Forgotten by and by: stiff contacts of the start open.
        stiffness = jnp.where(good, jnp.maximum(0.99 * motion.stiffness, seen), motion.stiffness)
        velocity = jnp.where(good, motion.velocity, 0.0)
        step = jnp.where(good, motion.step, SHRINK * motion.step)
        kept = Motion(velocity, step, motion.turned, motion.downhill, stiffness)
        pick = lambda new, old: jnp.where(good, new, old)
        point, slope = pick(trial, search.point), pick(slope, search.slope)
        return Search(point, pick(energy, search.energy), slope, kept)
