"""Steps by a Courant number or an error estimate on grids over devices: those of one device, and no device gathers a state."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import simkit
from simkit import fluids
from simkit.engine.task._flat import Flattening
from simkit.fluids import Grid

# Sums in another order, in some tens of steps: some hundred roundings of numbers of order 1.
ROUNDING = 2e-13

TWO = np.array(jax.devices()[:2])
LAYOUTS = {"slabs": TWO, "columns": TWO.reshape(1, 2)}


def bump(shape):
    x, y = Grid(shape, 1.0).mesh()
    return np.exp(-10 * ((x - 0.4) ** 2 + (y - 0.55) ** 2))


def water(devices):
    system = fluids.ShallowWater(
        Grid((8, 6), 1.0, devices=devices), coriolis=1.0, boundaries=fluids.Open(), reconstruction="first_order"
    )
    return system, system.State(jnp.asarray(1 + 0.1 * bump((8, 6))), jnp.zeros((2, 8, 6)))


def layers(devices):
    system = fluids.MultilayerShallowWater(
        Grid((8, 6), 1.0, devices=devices), [1.0, 1.1], gravity=1.0, reconstruction="first_order"
    )
    height = jnp.stack([1 - 0.1 * bump((8, 6)), 1 + 0.1 * bump((8, 6))])
    return system, system.State(height, jnp.zeros((2, 2, 8, 6)))


def gas(devices):
    system = fluids.CompressibleFlow(
        Grid((8, 6), 1.0, devices=devices), viscosity=0.01, boundaries=fluids.Open(), reconstruction="first_order"
    )
    return system, system.State(1 + bump((8, 6)), jnp.zeros((2, 8, 6)), 1 + 2 * bump((8, 6)))


def incompressible(devices):
    build = lambda devices: fluids.IncompressibleFlow(
        Grid((8, 6), 1.0, devices=devices), viscosity=0.01, flux="upwind", diffusivity=0.01
    )
    start = build(None).start(np.random.default_rng(0).normal(size=(2, 8, 6)), bump((8, 6)))
    return build(devices), jax.tree.map(jnp.asarray, jax.device_get(start))


def spectral(devices):
    # 22 cells keep 8 columns, which two devices share evenly: what fills up others would count in the error's mean.
    shape = (12, 22)
    system = fluids.SpectralFlow2D(Grid(shape, devices=devices), viscosity=0.05)
    plain = Grid(shape)
    return system, system.State(fluids.vorticity(plain, fluids.random_velocity(plain, jax.random.key(0), peak=2.0)))


def compiled(make, devices, step, gradient=False, **options):
    """The program of a run and what it finds: saved states, steps and, where asked for, the gradient by the start."""
    system, start = make(devices)

    def total(y):
        run = simkit.simulate(system, y, jnp.array([0.0, 0.02, 0.05]), step=step, **options)
        found = jax.tree.leaves(run.ys)
        return sum(jnp.sum(jnp.sin(x[-1])) for x in found), (found, run.steps)

    program = jax.jit(jax.value_and_grad(total, has_aux=True) if gradient else total).lower(start).compile()
    return program.as_text(), program(start)


def compare(make, layout, step, gradient=False, **options):
    _, one = compiled(make, None, step, gradient, **options)
    text, parts = compiled(make, LAYOUTS[layout], step, gradient, **options)
    assert "all-gather" not in text
    assert "all-reduce" in text  # the norm of the error or the least of the steps is of all devices
    for a, b in zip(*map(jax.tree.leaves, (one, parts)), strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=ROUNDING * max(1, np.abs(a).max()))


CASES = [
    pytest.param(water, "slabs", simkit.Courant(0.4), False, id="water, Courant"),
    pytest.param(water, "columns", simkit.Courant(0.4), True, id="water, Courant, gradient", marks=pytest.mark.slow),
    pytest.param(water, "slabs", simkit.Adaptive(1e-5), True, id="water, adaptive, gradient", marks=pytest.mark.slow),
    pytest.param(layers, "slabs", simkit.Courant(0.4), False, id="layers, Courant", marks=pytest.mark.slow),
    pytest.param(gas, "columns", simkit.Courant(0.4), False, id="gas, Courant", marks=pytest.mark.slow),
    pytest.param(gas, "slabs", simkit.Adaptive(1e-4), False, id="gas, adaptive", marks=pytest.mark.slow),
    pytest.param(incompressible, "slabs", simkit.Courant(0.4), True, id="incompressible", marks=pytest.mark.slow),
    pytest.param(spectral, "slabs", simkit.Adaptive(1e-6), False, id="modes", marks=pytest.mark.slow),
    pytest.param(spectral, "columns", simkit.Adaptive(1e-6), True, id="modes, gradient", marks=pytest.mark.slow),
]


@pytest.mark.filterwarnings("ignore:.*is taken out")
@pytest.mark.parametrize(("make", "layout", "step", "gradient"), CASES)
def test_states_and_gradients_are_those_of_one_device(make, layout, step, gradient):
    compare(make, layout, step, gradient)


class Pump(simkit.PlainSystem):
    """Three numbers beside a field, which devices do not share evenly."""

    rate: simkit.Scalar = simkit.quantity(1.0)

    def vector_field(self, t, y, inputs):
        return jnp.stack([inputs["level"] - self.rate * y[0], y[0] - y[1], -y[2]])

    def reads(self):
        return {"level": simkit.Input()}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.ones(3), jnp.linspace(0.0, 1.0, 3), inputs={"level": 1.0})


def pumped(devices):
    sea, start = water(devices)
    level = lambda system, t, y, outputs: jnp.mean(y["sea"].height ** 2)
    return simkit.Coupled({"pump": Pump(), "sea": sea}, {"pump.level": level}), {
        "pump": jnp.array([0.3, 0.2, 0.1]),
        "sea": start,
    }


@pytest.mark.parametrize(
    ("layout", "gradient"),
    [
        pytest.param("slabs", False, id="run", marks=pytest.mark.slow),
        pytest.param("columns", True, id="gradient", marks=pytest.mark.long),
    ],
)
def test_a_coupled_field_is_not_gathered(layout, gradient):
    """The few numbers of the other part are, in pieces of at most four by two."""
    step, options = simkit.Adaptive(1e-5), {"solver": simkit.solvers.Tsit5()}
    _, one = compiled(pumped, None, step, gradient, **options)
    text, parts = compiled(pumped, LAYOUTS[layout], step, gradient, **options)
    gathered = re.findall(r"= \w+\[([\d,]*)\]\S* all-gather", text)
    assert max(np.prod([int(n) for n in shape.split(",")]) for shape in gathered) <= 16
    for a, b in zip(*map(jax.tree.leaves, (one, parts)), strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-10 * max(1, np.abs(a).max()))  # sums of a gradient over steps


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(simkit.Courant(0.4), id="courant", marks=pytest.mark.slow),
        pytest.param(simkit.Fixed(4), id="fixed", marks=pytest.mark.long),
    ],
)
def test_events_on_parts(step):
    """A known time at which the water is stirred, and the passage of a condition that all cells decide."""
    stirred = simkit.Event(at=[0.013], change=lambda system, t, y, inputs: system.State(y.height, y.velocity + 0.1))
    passed = simkit.Event(lambda system, t, y, inputs: jnp.max(y.height) - 1.09, direction="down")
    compare(water, "slabs", step, events={"stirred": stirred, "passed": passed})


@pytest.mark.slow
def test_tolerances_of_every_number():
    """An array of tolerances stands in the order of the state, however devices divide it."""
    atol = np.geomspace(1e-9, 1e-5, 3 * 48)
    compare(water, "slabs", simkit.Adaptive(1e-7, atol))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", [water, spectral], ids=["cells", "modes"])
def test_each_device_holds_one_piece_of_the_flat_state(make, layout):
    system, start = make(LAYOUTS[layout])
    state = system.encode(start)
    way = Flattening(system, state)
    assert way.divided
    flat = jax.jit(way.flat)(state)
    assert sorted(shard.data.size for shard in flat.addressable_shards) == [flat.size // 2] * 2
    held = [{round(abs(x), 12) for x in np.asarray(shard.data).tolist()} for shard in flat.addressable_shards]
    for i, one in enumerate(held):
        own = np.concatenate([np.asarray(x.addressable_shards[i].data).ravel() for x in jax.tree.leaves(state)])
        assert one == {round(abs(x), 12) for x in own.tolist()}
    back = jax.jit(way.state)(flat)
    for a, b in zip(*map(jax.tree.leaves, (state, back)), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.sharding.is_equivalent_to(b.sharding, a.ndim)
    np.testing.assert_array_equal(way.ordered(ravel_pytree(state)[0]), flat)
    np.testing.assert_array_equal(way.joined(way.pieces(flat)), flat)


def test_a_state_that_no_device_divides_is_raveled():
    system, start = water(None)
    state = system.encode(start)
    way = Flattening(system, state)
    assert not way.divided
    np.testing.assert_array_equal(way.flat(state), ravel_pytree(state)[0])


def test_an_axis_that_does_not_deal_out_is_raveled():
    """Devices that would hold different shares of a leaf make no flat array device after device."""
    system, start = water(TWO)
    odd = jax.tree.map(lambda x: x[..., :7, :], water(None)[0].encode(start))
    assert not Flattening(system, odd).divided


@pytest.mark.slow
def test_members_beside_each_other():
    """Members of an ensemble are lanes behind the numbers of a state, which devices still divide."""
    found = []
    for devices in (None, TWO):
        system, start = water(devices)
        over = {"gravity": np.array([5.0, 9.0, 13.0])}
        run = simkit.ensemble(system, start, [0.0, 0.02, 0.05], over=over, step=simkit.Courant(0.4))
        found.append((run.ys, run.steps))
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(b, a, rtol=0, atol=ROUNDING * max(1, np.abs(a).max()))
