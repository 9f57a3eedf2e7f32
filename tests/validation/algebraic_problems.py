"""Differential-algebraic problems with published solutions.

Equations and end values: Mazzia and Magherini (2008), Test Set for Initial Value Problem Solvers, release 2.4 (chemical Akzo Nobel,
transistor amplifier, Robertson, slider crank); the pendulum's period is exact.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import ConstrainedSystem, Example, Scalar, quantity


class Problem(NamedTuple):
    """A problem, the numbers of the flat state that are compared, and their published values at the last time."""

    system: ConstrainedSystem
    y0: Any
    times: Any
    compared: Any
    published: np.ndarray


class AkzoNobel(ConstrainedSystem):
    """Two species that are mixed while carbon dioxide is added; the last concentration is in equilibrium."""

    inflow: Scalar = quantity(3.3, doc="transfer of carbon dioxide")

    def vector_field(self, t, y, inputs):
        a, b, c, d, e, f = y
        r1, r2, r3 = 18.7 * a**4 * jnp.sqrt(b), 0.58 * c * d, 0.58 / 34.4 * a * e
        r4, r5, added = 0.09 * a * d**2, 0.42 * f**2 * jnp.sqrt(b), self.inflow * (0.9 / 737 - b)
        slopes = (
            *(r2 - 2 * r1 - r3 - r4, added - 0.5 * r1 - r4 - 0.5 * r5, r1 - r2 + r3),
            *(r3 - r2 - 2 * r4, r2 - r3 + r5, 115.83 * a * d - f),
        )
        return jnp.stack(slopes)

    def mass(self, t):
        return jnp.asarray([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])

    @classmethod
    def example(cls):
        return Example(cls(), jnp.asarray([0.444, 0.00123, 0.0, 0.007, 0.0, 0.36]), jnp.asarray([0.0, 180.0]))


class Amplifier(ConstrainedSystem):
    """A transistor amplifier: capacitors between nodes make a matrix whose rows combine to zero."""

    capacity: Scalar = quantity(1e-6, unit="F", doc="of the first capacitor; the k-th has k times that")

    def vector_field(self, t, y, inputs):
        supply, source = 6.0, 0.1 * jnp.sin(200 * jnp.pi * t)
        g = lambda v: 1e-6 * (jnp.exp(v / 0.026) - 1)
        first, second = g(y[1] - y[2]), g(y[4] - y[5])
        currents = (
            (y[0] - source) / 1000,
            y[1] / 9000 + (y[1] - supply) / 9000 + 0.01 * first,
            y[2] / 9000 - first,
            (y[3] - supply) / 9000 + 0.99 * first,
            y[4] / 9000 + (y[4] - supply) / 9000 + 0.01 * second,
            y[5] / 9000 - second,
            (y[6] - supply) / 9000 + 0.99 * second,
            y[7] / 9000,
        )
        return jnp.stack(currents)

    def mass(self, t):
        m = np.zeros((8, 8))
        for first, second, count in ((0, 1, 1), (3, 4, 3), (6, 7, 5)):
            m[first, first] = m[second, second] = -count
            m[first, second] = m[second, first] = count
        m[2, 2], m[5, 5] = -2, -4
        return self.capacity * jnp.asarray(m)

    @classmethod
    def example(cls):
        y0 = jnp.asarray([0.0, 3.0, 3.0, 6.0, 3.0, 3.0, 6.0, 0.0])
        return Example(cls(), y0, jnp.asarray([0.0, 0.2]))


class Robertson(ConstrainedSystem):
    """Robertson's reactions with the conserved sum in the place of an equation."""

    class State(eqx.Module):
        a: Scalar = quantity(doc="reactant")
        b: Scalar = quantity(doc="intermediate")
        c: Scalar = quantity(doc="product")

    decay: Scalar = quantity(0.04, unit="1/s", doc="a turns into b")

    def vector_field(self, t, y, inputs):
        slow, fast, back = self.decay * y.a, 3e7 * y.b**2, 1e4 * y.b * y.c
        return self.State(a=back - slow, b=slow - back - fast, c=y.a + y.b + y.c - 1)

    def mass(self, t):
        return self.State(a=1.0, b=1.0, c=0.0)

    @classmethod
    def example(cls):
        return Example(cls(), cls.State(a=1.0, b=0.0, c=0.5), jnp.asarray([0.0, 40.0]))


class Pendulum(ConstrainedSystem):
    """A pendulum in Cartesian coordinates, its length differentiated twice; period 2."""

    gravity: Scalar = quantity(13.750371636040746, doc="of period 2 from the horizontal")
    length: Scalar = quantity(1.0, doc="length")

    def vector_field(self, t, y, inputs):
        x, z, u, v, tension = (y[name] for name in ("x", "z", "u", "v", "tension"))
        return {
            "x": u,
            "z": v,
            "u": -tension * x,
            "v": -tension * z - self.gravity,
            "tension": u * u + v * v - tension * (x * x + z * z) - self.gravity * z,
        }

    def mass(self, t):
        return {"x": 1.0, "z": 1.0, "u": 1.0, "v": 1.0, "tension": 0.0}

    def hidden(self, t, y, inputs):
        return {
            "length": y["x"] ** 2 + y["z"] ** 2 - self.length**2,
            "velocity": y["x"] * y["u"] + y["z"] * y["v"],
        }

    def invariants(self, t, y):
        return {"energy": 0.5 * (y["u"] ** 2 + y["v"] ** 2) + self.gravity * y["z"]}

    @classmethod
    def example(cls):
        y0 = {"x": jnp.asarray(1.0), **{name: jnp.asarray(0.0) for name in ("z", "u", "v", "tension")}}
        return Example(cls(), y0, jnp.asarray([0.0, 1.5]))


def _crank_matrices():
    """The constant matrices of the elastic rod."""
    height, density, length = 0.008, 7870.0, 0.3
    mass, stiffness = density * height**2 * length, 0.2e12 * height**2 / length
    coupling, pi = height**2 * length, 3.1415927
    m = np.diag([mass / 2, mass / 2, 8 * mass, 2 * mass])
    m[2, 3] = m[3, 2] = mass
    k = np.diag([pi**4 / 24 * (height / length) ** 2, pi**4 * 2 / 3 * (height / length) ** 2, 16 / 3, 7 / 3])
    k[2, 3] = k[3, 2] = -8 / 3
    b = np.zeros((4, 4))
    b[0, 2], b[0, 3], b[1, 3] = -16 / pi**3, 8 / pi**3 - 1 / pi, 0.5 / pi
    c1, c2 = np.array([0, 0, 2 / 3, 1 / 6]) * coupling, np.array([2 / pi, 0, 0, 0]) * coupling
    c12 = length * coupling * np.array([0, 0, 1 / 3, 1 / 6])
    c21 = length * coupling * np.array([1 / pi, -0.5 / pi, 0, 0])
    return [jnp.asarray(x) for x in (m, stiffness * k, coupling * (b - b.T), c1, c2, c12, c21)]


class Crank(ConstrainedSystem):
    """A slider crank with an elastic rod (Simeon 1996), its velocity constraints differentiated once."""

    speed: Scalar = quantity(150.0, doc="of the crank")

    def vector_field(self, t, y, inputs):
        p, v, w, force = y["p"], y["v"], y["w"], y["force"]
        inertia, loads = _crank_dynamics(p, v)
        rows = _crank_rows(p)
        turning = jax.jvp(lambda p: _crank_rows(p) @ v, (p,), (v,))[1]
        return {"p": v, "v": w, "w": inertia @ w - loads + rows.T @ force, "force": rows @ w + turning}

    def mass(self, t):
        return {"p": 1.0, "v": 1.0, "w": 0.0, "force": 0.0}

    def hidden(self, t, y, inputs):
        driven = jnp.stack([jnp.zeros_like(self.speed), jnp.zeros_like(self.speed), self.speed])
        return {"velocity": _crank_rows(y["p"]) @ y["v"] - driven}

    @classmethod
    def example(cls):
        start = {
            "p": jnp.asarray([0.0, 0.0, 0.450016933, 0.0, 0.0, 0.103339863e-4, 0.169327969e-4]),
            "v": jnp.asarray(
                [150.0, -74.9957670, -0.268938672e-5, 0.444896105, 0.463434311e-2, -0.178591076e-5, -0.268938672e-5]
            ),
            "w": jnp.zeros(7),
            "force": jnp.zeros(3),
        }
        return Example(cls(), start, jnp.asarray([0.0, 0.1]))


def _crank_rows(p):
    one, zero = jnp.ones_like(p[0]), jnp.zeros_like(p[0])
    long = 0.3 + p[6]
    first = [0.15 * jnp.cos(p[0]), long * jnp.cos(p[1]), zero, zero, zero, zero, jnp.sin(p[1])]
    second = [0.15 * jnp.sin(p[0]), long * jnp.sin(p[1]), one, zero, zero, zero, -jnp.cos(p[1])]
    return jnp.stack([jnp.stack(first), jnp.stack(second), jnp.stack([one, *[zero] * 6])])


def _crank_dynamics(p, v):
    """Inertia and loads; lengths 0.15 and 0.3, masses 0.36, 0.151104 and 0.075552."""
    m, k, b, c1, c2, c12, c21 = _crank_matrices()
    density, l1, l2 = 7870.0, 0.15, 0.3
    q, dq = p[3:], v[3:]
    s, c = jnp.sin(p[0] - p[1]), jnp.cos(p[0] - p[1])
    coupled = 0.5 * l1 * l2 * 0.151104 * c + density * l1 * (s * (c2 @ q) + c * (c1 @ q))
    turned = 0.0045339259 + q @ m @ q + 2 * density * (c12 @ q)
    first = jnp.concatenate(
        [jnp.stack([0.002727 + 0.151104 * l1**2 + 0 * c, coupled, 0 * c]), density * l1 * (c * c2 - s * c1)]
    )
    second = jnp.concatenate([jnp.stack([coupled, turned, 0 * c]), density * (c21 + q @ b)])
    third = jnp.concatenate([jnp.stack([0 * c, 0 * c, 0.075552 + 0 * c]), jnp.zeros(4)])
    below = jnp.concatenate([first[3:, None], second[3:, None], jnp.zeros((4, 1)), m], axis=1)
    inertia = jnp.concatenate([jnp.stack([first, second, third]), below])
    f1 = -0.5 * l1 * l2 * 0.151104 * v[1] ** 2 * s + density * l1 * v[1] ** 2 * (c * (c2 @ q) - s * (c1 @ q))
    f1 = f1 - 2 * density * l1 * v[1] * (c * (c1 @ dq) + s * (c2 @ dq))
    f2 = 0.5 * l1 * l2 * 0.151104 * v[0] ** 2 * s + density * l1 * v[0] ** 2 * (s * (c1 @ q) - c * (c2 @ q))
    f2 = f2 - 2 * density * v[1] * (c12 @ dq) - 2 * v[1] * (dq @ m @ q) - density * (q @ b @ dq)
    rod = v[1] ** 2 * (m @ q) + density * (v[1] ** 2 * c12 + l1 * v[0] ** 2 * (c * c1 + s * c2) + 2 * v[1] * (b @ dq))
    return inertia, jnp.concatenate([jnp.stack([f1, f2, 0 * f1]), rod - k @ q])


def problems() -> dict[str, Problem]:
    """All problems, in double precision."""
    first = lambda kind: kind.example()[:3]
    late = (*Robertson.example()[:2], jnp.asarray([0.0, 1e11]))
    akzo = [0.1150794920661702, 0.1203831471567715e-2, 0.1611562887407974, 0.3656156421249283e-3]
    amplifier = [-0.5562145012262709e-2, 0.3006522471903042e1, 0.2849958788608128e1, 0.2926422536206241e1]
    crank = [15.00000000000104, -0.3311734988256260, 0.1697373328427860, 0.1893192899613509e-3]
    return {
        "chemical Akzo Nobel": Problem(
            *first(AkzoNobel), slice(None), np.array([*akzo, 0.1708010885264404e-1, 0.4873531310307455e-2])
        ),
        "transistor amplifier": Problem(
            *first(Amplifier),
            slice(None),
            np.array([*amplifier, 2.704617865010554, 2.761837778393145, 4.770927631616772, 1.236995868091548]),
        ),
        "Robertson": Problem(*first(Robertson), slice(None), np.array([0.7158270688, 0.9185534765e-5, 0.2841637457])),
        "Robertson, late": Problem(
            *late, slice(None), np.array([0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050])
        ),
        "pendulum": Problem(
            *first(Pendulum),
            # x is zero at the bottom and has no digits; tension is 3 g there, u the largest speed.
            np.array([0, 1, 4]),
            np.array([3 * 13.750371636040746, np.sqrt(2 * 13.750371636040746), -1.0]),
        ),
        "slider crank": Problem(
            *first(Crank),
            np.arange(3, 10),
            np.array([*crank, 0.2375751249874e-4, -0.53238967705697e-5, -0.8363313279112e-5]),
        ),
    }


def digits(problem: Problem, trajectory: Any) -> float:
    """Significant correct digits of the worst number that is compared, the measure of the test set."""
    flat = np.asarray(jax.flatten_util.ravel_pytree(trajectory.final())[0])[problem.compared]
    return float(np.min(-np.log10(np.abs(flat / problem.published - 1) + 1e-300)))


__all__ = ["digits", "problems", "simkit"]
