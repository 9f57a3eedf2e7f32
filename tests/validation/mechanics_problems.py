"""Mechanical problems of the Test Set for IVP Solvers (Mazzia and Magherini 2008, release 2.4) with its end values.

Those with constraints are written with index 1: the second derivative of the constraints determines the multipliers, and the
constraints themselves and their first derivative are `hidden`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from validation.algebraic_problems import Problem
from validation.stiff_problems import Posed

from simkit import ConstrainedSystem, Example, Scalar, quantity

# ---- without constraints ----


def pleiades(xp, t, y):
    """Seven stars in a plane, of masses 1 to 7, with nine close encounters; positions x and y, then their velocities."""
    place, velocity = y[:14].reshape(2, 7), y[14:]
    masses = np.arange(1.0, 8.0)
    away = place[:, None, :] - place[:, :, None]
    square = xp.sum(away**2, axis=0) + np.eye(7)
    pull = xp.sum(masses[None, None] * away / (square * xp.sqrt(square))[None], axis=2)
    return xp.concatenate([velocity, pull.ravel()])


PLEIADES_START = (
    *(3.0, 3.0, -1.0, -3.0, 2.0, -2.0, 2.0, 3.0, -3.0, 2.0, 0.0, 0.0, -4.0, 4.0),
    *(0.0, 0.0, 0.0, 0.0, 0.0, 1.75, -1.5, 0.0, 0.0, 0.0, -1.25, 1.0, 0.0, 0.0),
)


def beam(xp, t, y):
    """An elastic beam of 40 links, clamped at one end, whose free end a force pulls until t = pi: angles and their velocities.

    With A = C + i D, whose entries are those of a band of width 1 times exp(i (angle_k - angle_l)), the accelerations are the real
    part of A v, plus D w, where C w = D v + velocity^2: Hairer and Wanner, Solving Ordinary Differential Equations II, IV.1.
    """
    n = 40
    angle, velocity = y[:n], y[n:]
    push = xp.where(t <= np.pi, 1.5 * xp.sin(t) ** 2, 0.0)
    before, after = xp.concatenate([-angle[:1], angle[:-1]]), xp.concatenate([angle[1:], angle[-1:]])
    v = n**4 * (before - 2 * angle + after) + n**2 * push * (xp.cos(angle) + xp.sin(angle))
    band = np.diag([1.0, *[2.0] * (n - 2), 3.0]) - np.eye(n, k=1) - np.eye(n, k=-1)
    turned = angle[:, None] - angle[None]
    c, d = band * xp.cos(turned), band * xp.sin(turned)
    w = xp.linalg.solve(c, d @ v + velocity**2)
    return xp.concatenate([velocity, c @ v + d @ w])


PLEIADES = Posed(
    pleiades,
    PLEIADES_START,
    3.0,
    1e-3,
    (
        *(0.3706139143970502, 3.237284092057233, -3.222559032418324, 0.6597091455775310, 0.3425581707156584),
        *(1.562172101400631, -0.7003092922212495, -3.943437585517392, -3.271380973972550, 5.225081843456543),
        *(-2.590612434977470, 1.198213693392275, -0.2429682344935824, 1.091449240428980),
    ),
    tuple(range(14)),
    stiff=False,
)
BEAM = Posed(
    beam,
    (0.0,) * 80,
    5.0,
    1e-3,
    (
        *(-0.4790616859743763e-1, -0.9119134654647947e-1, -0.1244520128755561, -0.1483595472463012),
        *(-0.1639351238193223, -0.1725821847462537, -0.1761040960228576, -0.1767201761075488),
        *(0.3121293820596567, 0.5987609702624270, 0.8229176659201515, 0.9868747821728363),
        *(1.095490222005369, 1.156792132004482, 1.182198586299667, 1.186724615113034),
    ),
    tuple(range(4, 80, 5)),
)


# ---- with constraints ----


class CarAxis(ConstrainedSystem):
    """A car's axis whose left wheel rolls on a flat and whose right one on a bumpy road: constraints that depend on the time."""

    bump: Scalar = quantity(0.1, doc="height of the bumps")
    spring: Scalar = quantity(0.5, doc="length of the springs at rest")

    inertia = 10 * 1e-4 / 2

    def bumps(self, t):
        height = self.bump * jnp.sin(10 * t)
        return jnp.stack([jnp.sqrt(1 - height**2), height])

    def constraints(self, t, p):
        left, right = p[:2], p[2:]
        return jnp.stack([left @ self.bumps(t), jnp.sum((left - right) ** 2) - 1])

    def forces(self, t, p, multipliers):
        left, right, road = p[:2], p[2:], self.bumps(t)
        pulled = lambda x: (self.spring - jnp.linalg.norm(x)) * x / jnp.linalg.norm(x)
        held, weight = 2 * multipliers[1] * (left - right), jnp.asarray([0.0, -self.inertia])
        first = pulled(left) + multipliers[0] * road + held + weight
        return jnp.concatenate([first, pulled(right - road) - held + weight])

    def vector_field(self, t, y, inputs):
        p, v = y["p"], y["v"]
        slope = self.forces(t, p, y["multipliers"]) / self.inertia
        return {"p": v, "v": slope, "multipliers": second_derivative(self.constraints, t, p, v, slope)}

    def mass(self, t):
        return {"p": 1.0, "v": 1.0, "multipliers": 0.0}

    def hidden(self, t, y, inputs):
        along = lambda t, p: jax.jvp(self.constraints, (t, p), (jnp.ones_like(t), y["v"]))[1]
        return {"place": self.constraints(t, y["p"]), "velocity": along(t, y["p"])}

    @classmethod
    def example(cls):
        y0 = {
            "p": jnp.asarray([0.0, 0.5, 1.0, 0.5]),
            "v": jnp.asarray([-0.5, 0.0, -0.5, 0.0]),
            "multipliers": jnp.zeros(2),
        }
        return Example(cls(), y0, jnp.asarray([0.0, 3.0]))


def second_derivative(constraints, t, p, v, acceleration):
    """The second derivative by time of constraints along a motion."""
    one = jnp.ones_like(t)
    first = lambda t, p, v: jax.jvp(constraints, (t, p), (one, v))[1]
    return jax.jvp(first, (t, p, v), (one, v, acceleration))[1]


class CarAxisOfIndexThree(CarAxis):
    """The same as it is published: the constraints themselves stand for the equations of the multipliers."""

    def vector_field(self, t, y, inputs):
        slope = self.forces(t, y["p"], y["multipliers"]) / self.inertia
        return {"p": y["v"], "v": slope, "multipliers": self.constraints(t, y["p"])}

    def hidden(self, t, y, inputs):
        return {}


class Fekete(ConstrainedSystem):
    """Twenty points on a sphere that repel each other, with friction, until they rest as far apart as can be."""

    friction: Scalar = quantity(0.5, doc="of the velocities")

    def forces(self, p, v):
        away = p[:, None] - p[None]
        square = jnp.sum(away**2, axis=2) + np.eye(20)
        return jnp.sum(away / square[:, :, None], axis=1) - self.friction * v

    def vector_field(self, t, y, inputs):
        p, v = y["p"], y["v"]
        slope = self.forces(p, v) + 2 * y["multipliers"][:, None] * p
        return {"p": v, "v": slope, "multipliers": jnp.sum(p * slope + v * v, axis=1)}

    def mass(self, t):
        return {"p": 1.0, "v": 1.0, "multipliers": 0.0}

    def hidden(self, t, y, inputs):
        return {"place": jnp.sum(y["p"] ** 2, axis=1) - 1, "velocity": jnp.sum(y["p"] * y["v"], axis=1)}

    @classmethod
    def example(cls):
        rings = (
            (3, 2 * np.pi / 3, np.pi / 13, 3 * np.pi / 8, 1),
            (7, 2 * np.pi / 7, np.pi / 29, np.pi / 8, 1),
            (6, 2 * np.pi / 6, np.pi / 7, -2 * np.pi / 15, 1),
            (4, 2 * np.pi / 4, np.pi / 17, -3 * np.pi / 10, 0),
        )
        places = []
        for count, apart, shift, height, first in rings:
            turns = apart * np.arange(first, first + count) + shift
            along = np.cos(height)
            places.append(
                np.stack([along * np.cos(turns), along * np.sin(turns), np.full(count, np.sin(height))], axis=1)
            )
        y0 = {"p": jnp.asarray(np.concatenate(places)), "v": jnp.zeros((20, 3)), "multipliers": jnp.zeros(20)}
        return Example(cls(), y0, jnp.asarray([0.0, 1000.0]))


FEKETE_END = {
    0: (-0.4070263380333202, 0.3463758772791802, 0.8451942450030429),
    6: (-0.6385191643609878, -0.4310833259390688, 0.6375425027722121),
    12: (-0.8665731819284478, -0.4813878059756024, -0.1315929352982178),
    19: (0.2414481766969039, -0.3416456818373135, -0.9082846503446250),
}
"""Positions at t = 1000 of four of the points. All multipliers end as -19/4."""


def car_axis() -> Problem:
    """The car axis with its published end: multipliers, positions, velocities, the order of the flat state."""
    published = (
        *(-0.4736886750784630e-2, -0.1104680411345730e-2),
        *(0.4934557842755629e-1, 0.4969894602303324, 1.041742524885400, 0.3739110272652214),
        *(-0.7705836840321485e-1, 0.7446866596327776e-2, 0.1755681574942899e-1, 0.7703410437794031),
    )
    return Problem(*CarAxis.example()[:3], slice(None), np.array(published))


class Squeezer(ConstrainedSystem):
    """Andrews' squeezer: seven bodies and a spring that a torque drives; Hairer and Wanner, Solving ODEs II, section VII.7.

    Angles are beta, theta, gamma, phi, delta, omega and epsilon. Masses, inertias and forces follow from the places of the centres
    of mass by d'Alembert's principle, M(p) w = f(p, v) - G(p)^T multipliers, whose accelerations w are unknowns as in the set.
    """

    torque: Scalar = quantity(0.033, doc="that drives the first body")

    weights = np.array([0.04325, 0.00365, 0.02373, 0.00706, 0.0705, 0.00706, 0.05498])
    inertias = np.array([2.194e-6, 4.41e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5])

    def places(self, p):
        """Centres of mass and the tip that the spring pulls, (8, 2)."""
        beta, theta, gamma, phi, delta, omega, epsilon = p
        turned = lambda angle, x, y: jnp.stack(
            [x * jnp.cos(angle) - y * jnp.sin(angle), x * jnp.sin(angle) + y * jnp.cos(angle)]
        )
        a, b = np.array([-0.06934, -0.00227]), np.array([-0.03635, 0.03273])
        return jnp.stack(
            [
                turned(beta, 0.00092, 0.0),
                turned(beta, 0.007, 0.0) - turned(beta + theta, 0.0115, 0.0),
                b + turned(gamma, 0.01043, -0.01874),
                a + turned(delta, 0.04, 0.0) + turned(phi + delta, 0.0, -(0.02 - 0.01421)),
                a + turned(delta, 0.02308, 0.00916),
                a + turned(epsilon, 0.0, -0.04) + turned(omega + epsilon, 0.02 - 0.01421, 0.0),
                a + turned(epsilon, -0.00449, -0.01228),
                b + turned(gamma, 0.02, -0.018),
            ]
        )

    def constraints(self, t, p):
        """The end of the second body, where three others are joined."""
        beta, theta, gamma, phi, delta, omega, epsilon = p
        s, c = jnp.sin, jnp.cos
        x = 0.007 * c(beta) - 0.028 * c(beta + theta)
        y = 0.007 * s(beta) - 0.028 * s(beta + theta)
        return jnp.stack(
            [
                x - 0.035 * s(gamma) + 0.03635,
                y + 0.035 * c(gamma) - 0.03273,
                x - 0.02 * s(phi + delta) - 0.04 * c(delta) + 0.06934,
                y + 0.02 * c(phi + delta) - 0.04 * s(delta) + 0.00227,
                x - 0.02 * c(omega + epsilon) - 0.04 * s(epsilon) + 0.06934,
                y - 0.02 * s(omega + epsilon) + 0.04 * c(epsilon) + 0.00227,
            ]
        )

    def vector_field(self, t, y, inputs):
        p, v, w, multipliers = (y[name] for name in ("p", "v", "w", "multipliers"))
        turning = np.array([[1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0]])
        turning = np.concatenate([1.0 * turning, [[0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1]]])
        rows = jax.jacfwd(self.places)(p)
        bodies, tip = rows[:7], rows[7]
        # Accelerations of the centres of mass: by those of the angles, and by what the angles' velocities turn.
        along = lambda p: jax.jvp(self.places, (p,), (v,))[1]
        pushed = bodies @ w + jax.jvp(along, (p,), (v,))[1][:7]
        load = jnp.einsum("b,bxi,bx->i", self.weights, bodies, pushed) + turning.T @ (self.inertias * (turning @ w))
        apart = self.places(p)[7] - np.array([0.014, 0.072])
        length = jnp.linalg.norm(apart)
        load = load + 4530.0 * (1 - 0.07785 / length) * (apart @ tip)
        load = load - self.torque * np.eye(7)[0] + jax.jacfwd(self.constraints, 1)(t, p).T @ multipliers
        return {"p": v, "v": w, "w": load, "multipliers": second_derivative(self.constraints, t, p, v, w)}

    def mass(self, t):
        return {"p": 1.0, "v": 1.0, "w": 0.0, "multipliers": 0.0}

    def hidden(self, t, y, inputs):
        along = lambda p: jax.jvp(lambda p: self.constraints(t, p), (p,), (y["v"],))[1]
        return {"place": self.constraints(t, y["p"]), "velocity": along(y["p"])}

    @classmethod
    def example(cls):
        angle = 0.222668390165885884674473185609
        start = (-0.0617138900142764496358948458001, 0.0, 0.455279819163070380255912382449, angle)
        start = (*start, 0.487364979543842550225598953530, -angle, 1.23054744454982119249735015568)
        speeds = jnp.asarray([*SQUEEZER_START, 0.0, 0.0, 0.0, 0.0, 0.0])
        pulls = jnp.asarray([98.5668703962410896057654982170, -6.12268834425566265503114393122, 0.0, 0.0, 0.0, 0.0])
        y0 = {"p": jnp.asarray(start), "v": jnp.zeros(7), "w": speeds, "multipliers": pulls}
        return Example(cls(), y0, jnp.asarray([0.0, 0.03]))


SQUEEZER_END = (
    *(15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948, 0.5244099658805304),
    *(0.5347301163226948, 1.048080741042263),
)
"""The angles at t = 0.03, as published. At the start the first two accelerations are 14222.44 and -10666.83, the others 0."""
SQUEEZER_START = (14222.4439199541138705911625887, -10666.8329399655854029433719415)
