"""Fluxes through a face between two states of a gas: approximate solutions of Riemann's problem.

States are rows as `along` orders them: density, velocity across the face, other velocities, pressure. Fluxes are rows of mass,
momentum across, other momenta, energy.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array

from ._gas import Rows, to_conserved

RiemannSolver = Callable[[Rows, Rows, Array], Rows]


def rusanov(left: Rows, right: Rows, gamma: Array) -> Rows:
    """The mean of both fluxes less the jump times the fastest wave: robust, and the most diffusive.

    Rusanov (1961), J. Comput. Math. Phys. USSR 1:267.
    """
    ul, ur = to_conserved(left, gamma), to_conserved(right, gamma)
    fastest = jnp.maximum(jnp.abs(left[1]) + _sound(left, gamma), jnp.abs(right[1]) + _sound(right, gamma))
    pairs = zip(_flux(left, ul), _flux(right, ur), ul, ur, strict=True)
    return [0.5 * (fl + fr) - 0.5 * fastest * (b - a) for fl, fr, a, b in pairs]


def hllc(left: Rows, right: Rows, gamma: Array) -> Rows:
    """Two shocks and the contact between them, which stays sharp. Keeps densities and pressures positive.

    Toro, Spruce and Speares (1994), Shock Waves 4:25; speeds of waves as Batten, Clarke, Lambert and Causon (1997),
    SIAM J. Sci. Comput. 18:1553.
    """
    (rl, vl, *tl, pl), (rr, vr, *tr, pr) = left, right
    ul, ur = to_conserved(left, gamma), to_conserved(right, gamma)
    mean, sound, _ = _roe_mean(left, right, ul, ur, gamma)
    sl = jnp.minimum(vl - _sound(left, gamma), mean[1] - sound)
    sr = jnp.maximum(vr + _sound(right, gamma), mean[1] + sound)
    ml, mr = rl * (sl - vl), rr * (sr - vr)  # below and above 0
    contact = (pr - pl + vl * ml - vr * mr) / (ml - mr)
    leftwards = contact >= 0
    pick = lambda a, b: jnp.where(leftwards, a, b)
    r, v, p, energy, s, m = (pick(a, b) for a, b in zip((rl, vl, pl, ul[-1], sl, ml), (rr, vr, pr, ur[-1], sr, mr)))
    others = [pick(a, b) for a, b in zip(tl, tr, strict=True)]
    density = m / (s - contact)
    jump = pick(jnp.minimum(s, 0), jnp.maximum(s, 0))  # 0 where the flow is supersonic
    inside = density * (energy / r + (contact - v) * (contact + p / m))
    return [
        r * v + jump * (density - r),
        r * v * v + p + jump * (density * contact - r * v),
        *(r * v * t + jump * (density * t - r * t) for t in others),
        v * (energy + p) + jump * (inside - energy),
    ]


def roe(left: Rows, right: Rows, gamma: Array) -> Rows:
    """The linearised problem solved exactly, acoustic waves smeared where a rarefaction passes the speed of sound.

    Sharp at all waves. Where the linearised states between the waves have no positive density and pressure, as near a vacuum
    (Einfeldt, Munz, Roe and Sjogreen 1991, J. Comput. Phys. 92:273), it gives way to `rusanov`.
    Roe (1981), J. Comput. Phys. 43:357; Harten (1983), J. Comput. Phys. 49:357.
    """
    ul, ur = to_conserved(left, gamma), to_conserved(right, gamma)
    mean, sound, enthalpy = _roe_mean(left, right, ul, ur, gamma)
    density, v, *others = mean
    jumps = [b - a for a, b in zip(left, right, strict=True)]
    pressure = jumps[-1] / (sound * sound)
    strengths = {
        "left": 0.5 * (pressure - density * jumps[1] / sound),
        "right": 0.5 * (pressure + density * jumps[1] / sound),
        "contact": jumps[0] - pressure,
    }
    smear = 0.2 * sound

    def speed(s: Array) -> Array:
        size = jnp.abs(s)
        return jnp.where(size < smear, 0.5 * (s * s / smear + smear), size)

    slow, fast, here = speed(v - sound) * strengths["left"], speed(v + sound) * strengths["right"], jnp.abs(v)
    middle = here * strengths["contact"]
    kinetic = 0.5 * (v * v + sum(t * t for t in others))
    shear = [here * density * j for j in jumps[2:-1]]
    damping = [
        slow + fast + middle,
        slow * (v - sound) + fast * (v + sound) + middle * v,
        *((slow + fast + middle) * t + s for t, s in zip(others, shear, strict=True)),
        slow * (enthalpy - v * sound)
        + fast * (enthalpy + v * sound)
        + middle * kinetic
        + sum(t * s for t, s in zip(others, shear, strict=True)),
    ]
    fluxes = zip(_flux(left, ul), _flux(right, ur), damping, strict=True)
    found = [0.5 * (fl + fr) - 0.5 * d for fl, fr, d in fluxes]
    outwards = strengths["left"], v - sound, enthalpy - v * sound
    inwards = strengths["right"], v + sound, enthalpy + v * sound
    physical = _is_gas(ul, 1.0, others, *outwards) & _is_gas(ur, -1.0, others, *inwards)
    return [jnp.where(physical, a, b) for a, b in zip(found, rusanov(left, right, gamma), strict=True)]


def _is_gas(side: Rows, sign: float, others: Rows, strength: Array, v: Array, enthalpy: Array) -> Array:
    """Tell whether a conserved state beyond an acoustic wave of the linearised problem has positive density and pressure."""
    wave = [strength, strength * v, *(strength * t for t in others), strength * enthalpy]
    density, *momentum, energy = (a + sign * b for a, b in zip(side, wave, strict=True))
    return (density > 0) & (density * energy > 0.5 * sum(m * m for m in momentum))


def _sound(rows: Rows, gamma: Array) -> Array:
    return jnp.sqrt(gamma * rows[-1] / rows[0])


def _flux(rows: Rows, conserved: Rows) -> Rows:
    density, v, *others, pressure = rows
    mass = density * v
    return [mass, mass * v + pressure, *(mass * t for t in others), v * (conserved[-1] + pressure)]


def _roe_mean(left: Rows, right: Rows, ul: Rows, ur: Rows, gamma: Array) -> tuple[Rows, Array, Array]:
    """Roe's mean of density and velocities, the speed of sound there, and the enthalpy."""
    a, b = jnp.sqrt(left[0]), jnp.sqrt(right[0])
    share = a / (a + b)
    blend = lambda x, y: share * x + (1 - share) * y
    velocity = [blend(x, y) for x, y in zip(left[1:-1], right[1:-1], strict=True)]
    enthalpy = blend((ul[-1] + left[-1]) / left[0], (ur[-1] + right[-1]) / right[0])
    kinetic = 0.5 * sum(u * u for u in velocity)
    return [a * b, *velocity], jnp.sqrt((gamma - 1) * (enthalpy - kinetic)), enthalpy


RIEMANN_SOLVERS: dict[str, RiemannSolver] = {"hllc": hllc, "roe": roe, "rusanov": rusanov}
"""Riemann solvers by their names in study files."""
