"""Planted numbers that are not finite: each is found where it was put, over all kinds of systems."""

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ResultFileError, SeparableSystem, fluids, md, quantity
from simkit.fluids import Force
from simkit.inspect import locate
from simkit.inspect._locate import Failure
from simkit.solvers import RK4, Rodas5P

TIMES = np.linspace(0.0, 3.0, 7)


class Drain(simkit.PlainSystem):
    """A tank that runs empty: the square root of what is in it, at 0.3 more than physics allows."""

    rate: Any = quantity()

    def vector_field(self, t, y, inputs):
        speed = jnp.sqrt(y[0])
        return jnp.stack([-self.rate * speed - 0.3, 0.1 * y[0]])

    outputs = invariants = example = lambda *_: {}


class Late(simkit.PlainSystem):
    """Breaks at time 2, in the second component, whatever the state; what `where` throws away is not finite from time 1 on."""

    rate: Any = quantity()

    def vector_field(self, t, y, inputs):
        thrown = jnp.where(t >= 0.99, 0.0, jnp.log(0.99 - t))
        broken = jnp.log(2.0 - t)
        return jnp.stack([-self.rate * y[0] + 0 * thrown, broken - y[1], y[2]])

    outputs = invariants = example = lambda *_: {}


class Pole(simkit.SeparableSystem):
    """A force beyond its range."""

    rate: Any = quantity()

    def velocity(self, momentum):
        return momentum

    def force(self, t, position, inputs):
        return self.rate * jnp.arccos(position)

    outputs = invariants = example = lambda *_: {}


class Noisy(simkit.StochasticSystem):
    """A drift that ends at 0."""

    rate: Any = quantity()

    interpretation: ClassVar[Literal["ito", "stratonovich"]] = "ito"
    noise_kind: ClassVar[Literal["additive", "diagonal", "general"]] = "additive"

    def drift(self, t, y, inputs):
        return -self.rate * y / jnp.sqrt(y)

    def diffusion(self, t, y, inputs):
        return 0.01 * jnp.ones_like(y)

    outputs = invariants = example = lambda *_: {}


class Fading(Force):
    """A force on a flow that has an end."""

    end: Any = quantity()

    def modes(self, t, waves, inputs, dtype):
        strength = 1e-4 * jnp.sqrt(self.end - t)
        return strength.astype(complex) * jnp.ones((waves.grid.dimensions, *waves.shape), complex)


class Cliff(md.ExternalField):
    """A field that atoms may not leave."""

    edge: Any = quantity()

    charged = False

    def each(self, view):
        return jnp.sqrt(self.edge - view.position[:, 0])


def heated(t, x, gas):
    """A source of energy with an end."""
    zero = jnp.zeros_like(gas.density)
    return fluids.CompressibleFlow.Conserved(zero, jnp.zeros((1, *zero.shape)), zero + jnp.log(0.02 - t))


def flow():
    system, y0, _, _ = fluids.SpectralFlow2D.example()
    return fluids.SpectralFlow2D(system.grid, viscosity=0.1, force=Fading(0.35)), y0, {"step": 0.025}


def gas():
    grid = fluids.Grid(16, 1.0)
    y0 = fluids.CompressibleFlow.State(jnp.ones(16), jnp.zeros((1, 16)), jnp.ones(16))
    return fluids.CompressibleFlow(grid, source=heated), y0, {"step": 0.004}


def closed(t, velocity):
    """A closure with an end, which a rounding of the velocity's size feels."""
    return [u + 1e-6 * jnp.sqrt(0.26 - t) for u in velocity]


def walls():
    grid = fluids.Grid((8, 8), (1.0, 1.0))
    system = fluids.IncompressibleFlow(grid, viscosity=0.1, source=closed)
    return system, system.start(lambda x: (jnp.sin(2 * jnp.pi * x[1]), 0 * x[0])), {"step": 0.02}


def atoms():
    position = jnp.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    system = md.Particles(md.LennardJones(1.0, 1.0, cutoff=2.0) + Cliff(3.5), md.OpenSpace(3))
    return system, md.Atoms(position, jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])), {"step": 0.01}


PLANTED = {
    # system, start, solver and step, function at fault, operation, component, time
    "adaptive": (lambda: (Drain(1.0), jnp.array([1.0, 0.0]), {}), "Drain.vector_field", "sqrt", "y.0", 1.1202),
    "fixed": (
        lambda: (Drain(1.0), jnp.array([1.0, 0.0]), {"solver": RK4(), "step": 0.01}),
        "Drain.vector_field",
        "sqrt",
        "y.0",
        1.12,
    ),
    "implicit": (
        lambda: (Drain(1.0), jnp.array([1.0, 0.0]), {"solver": Rodas5P()}),
        "Drain.vector_field",
        "sqrt",
        "y.0",
        1.1202,
    ),
    "in time": (
        lambda: (Late(1.0), jnp.ones(3), {"solver": RK4(), "step": 0.02}),
        "Late.vector_field",
        "log",
        "y.1",
        2.0,
    ),
    "force": (
        lambda: (Pole(0.3), SeparableSystem.State(jnp.array([0.5]), jnp.array([0.2])), {"step": 0.01}),
        "Pole.force",
        "acos",
        "momentum.0",
        None,
    ),
    "drift": (
        lambda: (Noisy(1.0), jnp.array([1.0]), {"step": 0.01, "key": jax.random.key(0)}),
        "Noisy.drift",
        "sqrt",
        "y.0",
        None,
    ),
    "spectral": (flow, "Fading.modes", "sqrt", "vorticity.", 0.35),
    "volumes": (gas, "heated", "log", "density.", 0.02),
    "closure": (walls, "closed", "sqrt", "velocity.0", 0.26),
    "atoms": (atoms, "Cliff.each", "sqrt", "momentum.1.0", None),
}


LONG = ("spectral", "volumes", "atoms")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in PLANTED]
)
def test_planted(name):
    made, function, operation, component, time = PLANTED[name]
    system, y0, numerics = made()
    found = locate(system, y0, TIMES, **numerics)
    assert found.culprit.place.function == function
    assert found.culprit.place.file == "test_locate.py"
    assert found.culprit.operation == operation
    assert found.component.startswith(component)
    if time is not None:
        assert found.time <= time + 1e-4
        assert found.time + found.step >= time - 1e-4
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found.setup.y0))
    assert not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found.advance(numerics.get("key"))))
    assert function in repr(found)


def test_what_does_not_fail():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    assert locate(system, y0, times) is None


def test_a_failure_goes_through_a_file(tmp_path):
    found = locate(Drain(1.0), jnp.array([1.0, 0.0]), TIMES, solver=RK4(), step=0.01)
    path = found.save(tmp_path / "failure.h5")
    back = Failure.load(path, Drain(7.0), jnp.zeros(2), solver=RK4())
    assert repr(back) == repr(found)
    with jax.disable_jit():
        assert np.isnan(back.advance()).any()
    with pytest.raises(ResultFileError, match="whose numbers are not those of"):
        Failure.load(path, *simkit.odes.LotkaVolterra.example()[:2])
