"""Lattice Boltzmann systems."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids
from simkit.fluids.lattice._lattice import lattice_of
from simkit.testing import check_system

WALL, LID = fluids.NoSlip(), fluids.NoSlip(jnp.array([1.0, 0.0]))
OPEN = (fluids.Inflow(0.5), fluids.FixedPressure())


def block(nx=24, ny=11):
    """A body in a channel, as booleans."""
    solid = np.zeros((nx, ny), bool)
    solid[6:9, 4:7] = True
    return solid


def tunnel(speed=0.5, viscosity=0.05, obstacle=None, **options):
    obstacle = block() if obstacle is None else obstacle
    sides = [(fluids.Inflow(speed), fluids.FixedPressure()), WALL]
    grid = fluids.Grid((24, 11), (24 / 11, 1.0))
    return fluids.LatticeBoltzmann(grid, step=0.01, viscosity=viscosity, boundaries=sides, obstacle=obstacle, **options)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_moments_of_the_weights(dimensions):
    """Isotropic to order 4, which is what the equations of flow follow from (Qian et al. 1992)."""
    lattice = lattice_of(dimensions)
    c, w = np.array(lattice.velocities, float), np.array(lattice.weights)
    assert lattice.size == {2: 9, 3: 19}[dimensions]
    assert all((c[list(lattice.opposite)] == -c).ravel())
    delta = np.eye(dimensions)
    np.testing.assert_allclose(w.sum(), 1, rtol=1e-15)
    np.testing.assert_allclose(np.einsum("i,ia,ib", w, c, c), delta / 3, atol=1e-16)
    fourth = sum(np.einsum(f"{pairs}->abcd", delta, delta) for pairs in ("ab,cd", "ac,bd", "ad,bc"))
    np.testing.assert_allclose(np.einsum("i,ia,ib,ic,id", w, c, c, c, c), fourth / 9, atol=1e-16)


@pytest.mark.slow
def test_the_example_is_sound():
    """One trace, derivatives, batches, files, single precision; the mass stays to rounding."""
    report = check_system(fluids.LatticeBoltzmann)
    assert report.drift["mass"] < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("collision", ["trt", "bgk"])
@pytest.mark.parametrize("shape", [(12, 9), (8, 7, 6)])
def test_mass_and_momentum_stay(collision, shape):
    """In a periodic box; in one with walls, a lid and a body the mass does."""
    d = len(shape)
    rng = np.random.default_rng(0)
    grid = fluids.Grid(shape, tuple(float(n) for n in shape))
    lid = fluids.NoSlip(jnp.array([0.1] + [0.0] * (d - 1)))
    solid = np.zeros(shape, bool)
    solid[3:5, 3:5] = True
    free = fluids.LatticeBoltzmann(grid, step=1.0, viscosity=0.02, collision=collision)
    sides = [WALL] * (d - 1) + [(WALL, lid)]
    closed = fluids.LatticeBoltzmann(
        grid, step=1.0, viscosity=0.02, boundaries=sides, obstacle=solid, collision=collision
    )
    for system in (free, closed):
        start = system.start(jnp.asarray(0.03 * rng.normal(size=(d, *shape))))
        end = simkit.simulate(system, start, [0.0, 50.0]).final()
        mass = [float(system.invariants(0.0, y)["mass"]) for y in (start, end)]
        assert abs(mass[1] - mass[0]) < 1e-13 * mass[0]  # some thousand roundings, at random
        if system is free:
            outputs = [system.outputs(0.0, y, None) for y in (start, end)]
            momentum = [np.asarray(o["density"]) * np.asarray(o["velocity"]) for o in outputs]
            momentum = [np.sum(x, tuple(range(1, d + 1))) for x in momentum]
            np.testing.assert_allclose(momentum[1], momentum[0], atol=1e-12)


@pytest.mark.slow
def test_a_force_accelerates_a_fluid():
    """By its acceleration times the time, in any units, and the start is at its velocity with half a step of force."""
    grid = fluids.Grid((4, 5), (0.4, 0.5))
    system = fluids.LatticeBoltzmann(grid, step=0.01, viscosity=0.03, force=[0.3, -0.2])
    start = system.start(jnp.broadcast_to(jnp.array([0.1, 0.4])[:, None, None], (2, 4, 5)))
    run = simkit.simulate(system, start, [0.0, 0.5, 1.0])
    for t, populations in zip(run.times, run.ys.populations, strict=True):
        velocity = system.velocity(system.State(populations))
        expected = np.array([0.1 + 0.3 * t, 0.4 - 0.2 * t])
        np.testing.assert_allclose(velocity, np.broadcast_to(expected[:, None, None], (2, 4, 5)), rtol=1e-12)


@pytest.mark.slow
def test_the_load_on_a_body_is_the_momentum_that_a_flow_loses():
    """In a periodic box with a force and a body, once steady: the force on the fluid is the load."""
    grid = fluids.Grid((12, 12), 1.0)
    solid = np.zeros((12, 12), bool)
    solid[4:8, 5:8] = True
    push = 0.05
    system = fluids.LatticeBoltzmann(grid, step=0.02, viscosity=0.1, force=[push, 0.0], obstacle=solid)
    end = simkit.simulate(system, system.start(), [0.0, 20.0]).final()
    outputs = system.outputs(0.0, end, None)
    expected = push * float(jnp.sum(jnp.where(system.solid, 0.0, outputs["density"]))) / grid.size
    np.testing.assert_allclose(outputs["drag"], [expected, 0.0], rtol=1e-9, atol=1e-10)
    assert outputs["lift"] == outputs["drag"][1]
    assert np.all(np.asarray(outputs["velocity"])[:, solid] == 0)


@pytest.mark.slow
def test_units_do_not_matter():
    """The same flow in metres and seconds and in lattice units has the same populations."""
    lattice = fluids.LatticeBoltzmann(
        fluids.Grid((12, 10), (12.0, 10.0)),
        step=1.0,
        viscosity=0.04,
        force=[1e-4, 0.0],
        boundaries=[fluids.Periodic(), WALL],
    )
    width, step = 2e-5, 3e-7
    metres = fluids.LatticeBoltzmann(
        fluids.Grid((12, 10), (12 * width, 10 * width)),
        step=step,
        viscosity=0.04 * width**2 / step,
        force=[1e-4 * width / step**2, 0.0],
        boundaries=[fluids.Periodic(), WALL],
    )
    runs = [simkit.simulate(s, s.start(), [0.0, 40 * s.step]).final().populations for s in (lattice, metres)]
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-9, atol=1e-18)


@pytest.mark.slow
def test_derivatives_of_a_drag():
    """By the speed of the inflow and the viscosity, through 200 steps with a bound of memory, against differences."""

    def drag(speed, viscosity):
        system = tunnel(speed, viscosity)
        times = np.array([0.0, 2.0])
        run = simkit.simulate(system, system.start(), times, gradient=simkit.Checkpointed("4 MiB"), on_failure="mark")
        return system.outputs(0.0, run.final(), None)["drag"][0]

    point, value = (jnp.array(0.5), jnp.array(0.05)), jax.jit(drag)
    found = jax.jit(jax.grad(drag, (0, 1)))(*point)
    for k in range(2):
        ends = [value(*(x + s * 1e-6 * (i == k) for i, x in enumerate(point))) for s in (1, -1)]
        np.testing.assert_allclose(found[k], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
    members = jax.jit(jax.vmap(drag, (0, None)))(jnp.array([0.4, 0.5]), point[1])
    np.testing.assert_allclose(members, [value(0.4, point[1]), value(*point)], rtol=1e-12)


@pytest.mark.slow
def test_single_precision():
    """The drag within some hundred roundings of numbers of its size."""
    system = tunnel()
    double = system, system.start()
    single = simkit.cast(double, jnp.dtype("float32"))
    drags = []
    for system, start in (double, single):
        end = simkit.simulate(system, start, np.array([0.0, 3.0], start.populations.dtype)).final()
        assert end.populations.dtype == start.populations.dtype
        drags.append(np.asarray(system.outputs(0.0, end, None)["drag"]))
    assert drags[1].dtype == np.float32
    np.testing.assert_allclose(drags[1], drags[0], atol=100 * 6e-8 * abs(drags[0][0]) * 10)


@pytest.mark.slow
def test_a_fit_finds_the_viscosity():
    """From velocities in a shear wave that decays."""
    grid = fluids.Grid((2, 16), (2 / 16, 1.0))
    make = lambda viscosity: fluids.LatticeBoltzmann(grid, step=0.01, viscosity=viscosity)
    wave = lambda x: (0.5 * jnp.sin(2 * jnp.pi * x[1]), 0 * x[1])
    truth = make(0.02)
    times = np.arange(5) * 0.2
    run = simkit.simulate(truth, truth.start(wave), times)
    data = np.stack([np.asarray(truth.velocity(truth.State(p))) for p in run.ys.populations])

    def misfit(log_viscosity):
        system = make(jnp.exp(log_viscosity))
        found = simkit.simulate(system, truth.start(wave), times, on_failure="mark")
        return jnp.sum((jax.vmap(lambda y: system.velocity(y))(found.ys) - data) ** 2)

    x, slope = jnp.log(0.03), jax.jit(jax.value_and_grad(misfit))
    curve = jax.jit(jax.grad(jax.grad(misfit)))
    for _ in range(8):
        x = x - slope(x)[1] / jnp.abs(curve(x))
    np.testing.assert_allclose(jnp.exp(x), 0.02, rtol=1e-8)


def test_a_body_by_its_distance_and_as_booleans():
    grid = fluids.Grid((24, 11), (24 / 11, 1.0))
    disk = fluids.Disk(jnp.array([0.7, 0.5]), 0.2)
    x, y = grid.mesh()
    mask = (x - 0.7) ** 2 + (y - 0.5) ** 2 < 0.04
    found = [tunnel(obstacle=body) for body in (disk, mask, fluids.Obstacle(disk))]
    for system in found:
        np.testing.assert_array_equal(system.solid, mask)
        np.testing.assert_array_equal(system.links, found[0].links)


GRID = fluids.Grid((24, 11), (24 / 11, 1.0))
REFUSED = {
    "too fast": (lambda: tunnel(speed=3.0), "Mach number is 0.572. Take a `step` of at most 0.00525"),
    "a lid too fast": (
        lambda: fluids.LatticeBoltzmann(GRID, step=0.1, viscosity=0.1, boundaries=[WALL, (WALL, LID)]),
        "the NoSlip at the upper end of axis 1, 1, must lie below",
    ),
    "a start too fast": (
        lambda: (lambda s: simkit.simulate(s, s.start(jnp.full((2, 24, 11), 2.0)), [0.0, 0.1]))(tunnel(obstacle=None)),
        "The speed of the flow at the start",
    ),
    "no viscosity": (lambda: tunnel(viscosity=0.0), "longer than 1/2, but it is 0.5 with viscosity 0"),
    "viscosity below rounding": (lambda: tunnel(viscosity=1e-18), "longer than 1/2"),
    "a mask of another shape": (lambda: tunnel(obstacle=np.zeros((11, 24), bool)), "booleans of the shape"),
    "a mask of numbers": (lambda: tunnel(obstacle=np.zeros((24, 11))), "it has the type float64"),
    "a body at the inflow": (
        lambda: tunnel(obstacle=fluids.Disk(jnp.array([0.0, 0.5]), 0.2)),
        "must not touch an open end, but it does at the lower end of axis 0",
    ),
    "a body everywhere": (lambda: tunnel(obstacle=np.ones((24, 11), bool)), "it fills the box"),
    "a side of another kind": (
        lambda: fluids.LatticeBoltzmann(GRID, step=0.01, viscosity=0.1, boundaries=fluids.FreeSlip()),
        "a pair of conditions for it",
    ),
    "an inflow without end": (
        lambda: fluids.LatticeBoltzmann(GRID, step=0.01, viscosity=0.1, boundaries=[(OPEN[0], WALL), WALL]),
        "need an `FixedPressure` somewhere",
    ),
    "open ends at two axes": (
        lambda: fluids.LatticeBoltzmann(GRID, step=0.01, viscosity=0.1, boundaries=[OPEN, OPEN[::-1]]),
        "at one axis, but has them at the axes",
    ),
    "a wall with a number": (
        lambda: fluids.LatticeBoltzmann(GRID, step=0.01, viscosity=0.1, boundaries=fluids.NoSlip(1.0)),
        "must have a component for each axis",
    ),
    "cells that are no squares": (
        lambda: fluids.LatticeBoltzmann(fluids.Grid((10, 10), (1.0, 2.0)), step=0.01, viscosity=0.1),
        "as wide along each axis",
    ),
    "a step of no time": (lambda: fluids.LatticeBoltzmann(GRID, step=0.0, viscosity=0.1), "`step` must be a positive"),
    "a collision": (
        lambda: fluids.LatticeBoltzmann(GRID, step=0.01, viscosity=0.1, collision="mrt"),
        '"trt" or "bgk"',
    ),
    "a start without density": (
        lambda: (lambda s: s.start(None, jnp.zeros((24, 11)).at[2, 3].set(-40.0)))(tunnel(obstacle=None, speed=0.1)),
        r"density of the start must be positive, but it is \S+ in the cell \(2, 3\)",
    ),
    "populations without density": (
        lambda: simkit.simulate(tunnel(), tunnel().State(jnp.full((9, 24, 11), -0.2)), [0.0, 0.1]),
        "density of the flow at the start must be positive",
    ),
    "an inflow that is no number": (
        lambda: tunnel(speed=np.nan),
        "velocity of the Inflow at the lower end of axis 0 must be finite",
    ),
    "a force that is no number": (lambda: tunnel(force=[np.nan, 0.0]), "`force` must be finite"),
    "a pressure without density": (
        lambda: fluids.LatticeBoltzmann(
            GRID, step=0.01, viscosity=0.1, boundaries=[(OPEN[0], fluids.FixedPressure(-100.0)), WALL]
        ),
        "pressure of the FixedPressure at the upper end of axis 0 must be above",
    ),
    "a body outside": (lambda: tunnel(obstacle=fluids.Disk(jnp.array([9.0, 9.0]), 0.2)), "no cell is solid"),
    "a body of negative radius": (
        lambda: tunnel(obstacle=fluids.Disk(jnp.array([1.0, 0.5]), -0.2)),
        "`radius` of a Disk must be positive and finite, but is -0.2",
    ),
    "a body of no number as radius": (lambda: tunnel(obstacle=fluids.Disk([1.0, 0.5], np.nan)), "but is nan"),
    "a body at no place": (
        lambda: tunnel(obstacle=fluids.Disk([np.nan, 0.5], 0.2)),
        "`centre` of a Disk must be finite",
    ),
    "a box without height": (lambda: tunnel(obstacle=fluids.Box([1.0, 0.5], [0.2, 0.0])), "`lengths` of a Box must be"),
    "distances that are no numbers": (
        lambda: tunnel(obstacle=lambda x: jnp.where(x[0] > 1.0, jnp.nan, x[1] - 0.2)),
        r"not a number at the centre of the cell \(11, 0\)",
    ),
    "a distance of another shape": (lambda: tunnel(obstacle=lambda x: -1.0), "must return distances of the shape"),
    "a viscosity that is no number": (lambda: tunnel(viscosity=np.nan), "`viscosity` must be finite"),
    "a derivative by whole cells": (
        lambda: jax.grad(jax.jit(lambda r: jnp.sum(tunnel(obstacle=fluids.Disk([0.7, 0.5], r)).solid.astype(float))))(
            0.2
        ),
        'no derivatives as long as it is made of whole cells. Take `surface="cut"`',
    ),
    "a state of another shape": (
        lambda: simkit.simulate(tunnel(), tunnel().State(jnp.zeros((9, 4, 4))), [0.0, 0.1]),
        "`y0.populations` must have the shape",
    ),
}


def test_a_body_of_whole_cells_may_be_made_in_a_trace():
    """It was refused, although a derivative by a speed needs none by the shape."""
    made = lambda radius: tunnel(obstacle=fluids.Disk(jnp.array([0.7, 0.5]), radius))
    inside = jax.jit(lambda radius: (made(radius).solid, made(radius).links))(0.2)
    for found, known in zip(inside, (made(0.2).solid, made(0.2).links), strict=True):
        np.testing.assert_array_equal(found, known)

    def drag(speed):
        system = made(0.2)
        state = system.start(lambda x: (speed * jnp.sin(4 * x[0]), 0 * x[0]))
        return system.outputs(0.0, state, None)["drag"][0]

    slope = float(jax.jit(jax.grad(drag))(0.1))
    rise = float(drag(0.11) - drag(0.09)) / 0.02
    assert abs(slope) > 1e-4
    assert (
        abs(slope / rise - 1) < 1e-9
    )  # an equilibrium has the square of a speed, whose difference is exact to rounding


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with pytest.raises(simkit.ArgumentError, match=text):
        call()


@pytest.mark.slow
def test_a_flow_that_becomes_too_fast_is_noted():
    system = fluids.LatticeBoltzmann(fluids.Grid((4, 4), 1.0), step=0.1, viscosity=0.1, force=[1.0, 0.0])
    run = simkit.simulate(system, system.start(), [0.0, 0.7])
    assert "Mach number 0.48" in run.notes[0]
    assert not simkit.simulate(system, system.start(), [0.0, 0.1]).notes


@pytest.mark.slow
def test_a_profile_and_a_number_as_inflow():
    """A number is a speed into the box, from either end."""
    flip = lambda field, sign: np.asarray(field)[..., ::-1, :] * sign
    ends = []
    for sides in (OPEN, OPEN[::-1]):
        system = fluids.LatticeBoltzmann(GRID, step=0.01, viscosity=0.1, boundaries=[sides, fluids.Periodic()])
        end = simkit.simulate(system, system.start(), [0.0, 3.0]).final()
        ends.append(system.velocity(end))
    np.testing.assert_allclose(flip(ends[1][0], -1), ends[0][0], rtol=1e-12)
    vector = eqx.tree_at(lambda s: s.boundaries[0][1].velocity, system, jnp.array([-0.5, 0.0]))
    np.testing.assert_allclose(
        vector.velocity(simkit.simulate(vector, vector.start(), [0.0, 3.0]).final()), ends[1], rtol=1e-12
    )


def test_a_relaxation_time_of_a_half_or_less_has_no_rates():
    """In batches no check sees a viscosity, and a relaxation time that is not above 1/2 must not pass for a flow."""
    system = tunnel()
    rates = lambda nu: eqx.tree_at(lambda s: s.viscosity, system, nu)._rates().even
    found = jax.vmap(rates)(jnp.array([0.05, 0.0, -0.05]))
    assert np.isfinite(found[0])
    assert np.isnan(found[1:]).all()
    assert np.isfinite(jax.grad(rates)(0.05))


def test_a_flow_that_blows_up_is_told_of_its_own_step():
    system = fluids.LatticeBoltzmann(fluids.Grid((4, 4), 1.0), step=0.1, viscosity=0.01, force=[8.0, 0.0])
    start = system.start(lambda x: (0.1 * jnp.sin(2 * jnp.pi * x[1]), 0.1 * jnp.sin(2 * jnp.pi * x[0])))
    with pytest.raises(simkit.SimulationError, match="make the system anew with a smaller `step`") as caught:
        simkit.simulate(system, start, [0.0, 100.0])
    assert "Adaptive" not in str(caught.value)
