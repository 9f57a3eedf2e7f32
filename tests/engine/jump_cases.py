"""Jump processes that several tests of the engine run."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

import simkit

TIMES = np.array([0.0, 2.0, 5.0, 20.0])


class Herd(simkit.JumpSystem):
    """Arrivals at a rate, deaths one by one: counts are Poisson where none was there at the start."""

    arrival: simkit.Scalar = simkit.quantity(4.0, unit="1/s")
    death: simkit.Scalar = simkit.quantity(0.5, unit="1/s")
    timed: ClassVar[bool] = False

    def propensities(self, t, y, inputs):
        rate = self.arrival if inputs is None else inputs["arrival"]
        return {"arrival": rate * (1 + t) if self.timed else rate, "death": self.death * y["animals"]}

    def jumps(self):
        return {"arrival": {"animals": 1}, "death": {"animals": -1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"animals": 0.0}, TIMES)


class Divided(Herd):
    """Whatever reaches 10 is halved; at the time 4 everything dies."""

    def adjusted(self, before, t, y, inputs):
        halved = jnp.where(y["animals"] >= 10, 5.0, y["animals"])
        return {"animals": jnp.where((before[0] < 4) & (t >= 4), 0.0, halved).astype(y["animals"].dtype)}

    def stops(self):
        return jnp.array([4.0])


class Survivors(simkit.JumpSystem):
    """Deaths one by one: counts are binomial."""

    death: simkit.Scalar = simkit.quantity(0.5, support=simkit.POSITIVE)

    def propensities(self, t, y, inputs):
        return {"death": self.death * y["n"]}

    def jumps(self):
        return {"death": {"n": -1}}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"n": 20.0}, jnp.linspace(0.0, 2.0, 3))
