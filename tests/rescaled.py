"""Systems in other units, for tests that nothing depends on units."""

import jax

import simkit


class Rescaled(simkit.PlainSystem):
    """A system in other units: states times `size`, time times `span`, and its own parameters times `unit`."""

    inner: simkit.System
    size: jax.Array = simkit.quantity()
    span: jax.Array = simkit.quantity()
    unit: jax.Array = simkit.quantity(1.0)

    def vector_field(self, t, y, inputs):
        system = jax.tree.map(lambda x: x / self.unit, self.inner)
        slope = system.vector_field(t / self.span, jax.tree.map(lambda x: x / self.size, y), inputs)
        return jax.tree.map(lambda x: x / self.span * self.size, slope)

    @classmethod
    def example(cls):
        system, y0, times, _ = simkit.odes.LotkaVolterra.example()
        return simkit.Example(cls(system, 1.0, 1.0), y0, times)
