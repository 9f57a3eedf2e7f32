"""Problems with known solutions that the tests of the steppers share."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit import PlainSystem, SeparableSystem, quantity


class Field(PlainSystem):
    """Any field of an array state: `rates(t, y, parameters)` returns an array or a list of one number a component."""

    parameters: jax.Array = quantity()
    rates: Callable[..., Any] = eqx.field(static=True)

    def vector_field(self, t, y, inputs):
        rates = self.rates(t, y, self.parameters)
        return jnp.stack(rates) if isinstance(rates, list) else rates

    @classmethod
    def example(cls):
        raise NotImplementedError


class Halves(eqx.Module):
    """A state of two arrays, so that the steppers meet a tree."""

    a: jax.Array = quantity()
    b: jax.Array = quantity()


class Curved(PlainSystem):
    """Nonlinear and non-autonomous with a known solution (Hairer, Norsett and Wanner I, section II.1, problem 1.1)."""

    rate: jax.Array = quantity(1.0)

    def vector_field(self, t, y, inputs):
        a, b, k = y.a, y.b, self.rate
        first = jnp.stack([2 * t * a[1] ** 0.2 * b[1], 10 * t * jnp.exp(5 * (b[0] - 1)) * b[1]])
        return Halves(k * first, k * jnp.stack([2 * t * b[1], -2 * t * jnp.log(a[0])]))

    @classmethod
    def example(cls):
        raise NotImplementedError

    @staticmethod
    def start(dtype=float):
        return Halves(jnp.ones(2, dtype), jnp.ones(2, dtype))

    @staticmethod
    def exact(t):
        s = np.sin(t * t)
        return Halves(np.stack([np.exp(s), np.exp(5 * s)], -1), np.stack([s + 1, np.cos(t * t)], -1))


class Swing(SeparableSystem):
    """A pendulum: nonlinear and separable, positions and momenta of any shape."""

    stiffness: jax.Array = quantity(1.0)

    def velocity(self, momentum):
        return momentum

    def force(self, t, position, inputs):
        return jax.tree.map(lambda q: -self.stiffness * jnp.sin(q), position)

    def invariants(self, t, y):
        return {"energy": jnp.sum(0.5 * y.momentum**2 - self.stiffness * jnp.cos(y.position))}

    @classmethod
    def example(cls):
        raise NotImplementedError

    @staticmethod
    def start(dtype=float):
        return SeparableSystem.State(jnp.asarray([1.0, 0.5], dtype), jnp.asarray([0.0, 0.3], dtype))


def robertson(t, y, k):
    a, b, c = k[0] * y[0], k[1] * y[1] * y[1], k[2] * y[1] * y[2]
    return [c - a, a - b - c, b]


ROBERTSON = (0.04, 3e7, 1e4)


def van_der_pol(t, y, k):
    return [y[1], k[0] * (1 - y[0] * y[0]) * y[1] - y[0]]


def van_der_pol_fast(t, y, k):
    """In the scaling of the Test Set for IVP Solvers, with epsilon = k[0]."""
    return [y[1], ((1 - y[0] * y[0]) * y[1] - y[0]) / k[0]]


def hires(t, y, k):
    a, b, c, d, e, f, g, m = y
    v = k[0] * f * m
    return [
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -v + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        v - 1.81 * g,
        1.81 * g - v,
    ]


HIRES_START = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0057)


def oregonator(t, y, k):
    return [
        k[0] * (y[1] + y[0] * (1 - k[1] * y[0] - y[1])),
        (y[2] - (1 + y[0]) * y[1]) / k[0],
        k[2] * (y[0] - y[2]),
    ]


def lotka_volterra(t, y, k):
    return [(k[0] - k[1] * y[1]) * y[0], (k[2] * y[0] - k[3]) * y[1]]


def lorenz(t, y, k):
    return [k[0] * (y[1] - y[0]), y[0] * (k[1] - y[2]) - y[1], y[0] * y[1] - k[2] * y[2]]


def fitzhugh_nagumo(t, y, k):
    return [y[0] - y[0] ** 3 / 3 - y[1] + k[0], k[1] * (y[0] + 0.7 - 0.8 * y[1])]


def brusselator(t, y, k):
    return [k[0] + y[0] ** 2 * y[1] - (k[1] + 1) * y[0], k[1] * y[0] - y[0] ** 2 * y[1]]
