"""Surfaces that cut the links of a lattice: order 2 at walls that lie anywhere, forces, motion, derivatives, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids

PERIODIC = fluids.Periodic()


def channel_error(n, surface):
    """Error of a parabola between walls 0.3 cells below and above the middle of links, over its largest speed."""
    h, viscosity = 1.0 / n, 0.1
    low, step = 2.7 * h, 0.1 * h**2 / viscosity  # relaxation time 0.8
    grid = fluids.Grid((3, n + 6), (3 * h, 1.0 + 6 * h))
    system = fluids.LatticeBoltzmann(
        grid,
        step=step,
        viscosity=viscosity,
        force=[0.08, 0.0],
        boundaries=PERIODIC,
        obstacle=lambda x: 0.5 - jnp.abs(x[1] - low - 0.5) + 0 * x[0],
        surface=surface,
    )
    end = simkit.simulate(system, system.start(), [0.0, round(20.0 / step) * step]).final()
    y = grid.centres(1) - low
    exact = 0.4 * y * (1 - y)
    return np.abs(np.asarray(system.velocity(end))[0, 1] - exact)[exact > 0].max() / 0.1


def test_a_channel_off_the_lattice_is_of_order_two():
    coarse, fine = channel_error(8, "cut"), channel_error(16, "cut")
    assert coarse < 0.03
    assert 1.85 < np.log2(coarse / fine) < 2.15
    assert channel_error(8, "cells") > 4 * coarse  # walls of whole cells lie 0.3 cells elsewhere


def couette(n):
    """An inner cylinder that turns in an outer one at rest, radii 1/2 and 1: errors of the velocity and of the torque."""
    cells = 2 * round(1.15 * n)
    width, viscosity, turning = 1.0 / n, 0.1, 0.2
    size, step = cells * width, 0.1 * width**2 / viscosity
    centre = jnp.array([size / 2 + 0.013, size / 2 - 0.007])
    far = lambda x: 1.0 - jnp.hypot(x[0] - centre[0], x[1] - centre[1])
    grid = fluids.Grid((cells, cells), (size, size))
    fluid = fluids.LatticeBoltzmann(
        grid, step=step, viscosity=viscosity, boundaries=PERIODIC, obstacle=far, surface="cut"
    )
    body = fluids.MovingBody(fluid, radius=0.5, motion=lambda t: (centre, turning * t), surface="cut")
    time = round(8.0 / step) * step
    outputs = body.outputs(time, simkit.simulate(body, body.start(), [0.0, time]).final(), None)
    x, y = (np.asarray(a) - float(c) for a, c in zip(grid.mesh(), centre, strict=True))
    r = np.hypot(x, y)
    between = (r > 0.5) & (r < 1.0)
    u, v = np.asarray(outputs["velocity"])
    swirl = turning / 3 * (1 / np.maximum(r, 0.1) - r)
    error = ((v * x - u * y) / r - swirl)[between]
    torque = -4 * np.pi * viscosity * turning / 3
    return np.sqrt(np.mean(error**2)) / (0.5 * turning), float(outputs["torque"]) / torque - 1


def test_flow_between_cylinders_and_its_torque():
    error, torque = couette(12)
    # Six cells in the gap; with 16 and 32 cells to the unit errors are 0.33 and 0.087 %, and 0.5 and 0.15 % of the torque.
    assert error < 8e-3
    assert abs(torque) < 0.015


@pytest.mark.slow
def test_the_order_between_cylinders():
    (coarse, first), (fine, second) = couette(16), couette(32)
    assert np.log2(coarse / fine) > 1.8
    assert np.log2(abs(first / second)) > 1.6
    assert abs(second) < 2e-3


def tunnel(centre, surface="cut", radius=3.3):
    walls = [PERIODIC, fluids.NoSlip()]
    grid = fluids.Grid((24, 16), (24.0, 16.0))
    disk = fluids.Disk(centre, radius)
    given = {"step": 1.0, "viscosity": 0.1, "force": [1e-4, 0.0], "boundaries": walls}
    return fluids.LatticeBoltzmann(grid, obstacle=disk, surface=surface, **given), grid, given


def test_a_body_at_rest_and_one_that_is_told_to_rest_are_the_same():
    centre = jnp.array([10.3, 8.2])
    fixed, grid, given = tunnel(centre)
    told = fluids.MovingBody(fluids.LatticeBoltzmann(grid, **given), radius=3.3, motion=lambda t: centre, surface="cut")
    first = simkit.simulate(fixed, fixed.start(), [0.0, 500.0]).final()
    second = simkit.simulate(told, told.start(), [0.0, 500.0]).final()
    a, b = fixed.outputs(0.0, first, None), told.outputs(0.0, second, None)
    fluid = ~np.asarray(fixed.solid)
    assert np.abs(np.asarray(a["velocity"] - b["velocity"])[:, fluid]).max() < 1e-13
    np.testing.assert_allclose(a["drag"], b["drag"], rtol=1e-2)  # of the mean of two steps, and of the next one
    # In steady flow body and walls take what the force gives; the body takes less than all.
    assert 0 < float(b["drag"][0]) < 1e-4 * fluid.sum()


def test_derivatives_by_the_place_of_a_body():
    @jax.jit
    def drag(x):
        system = tunnel(jnp.stack([x, jnp.asarray(8.21)]))[0]
        end = simkit.simulate(system, system.start(), [0.0, 60.0], on_failure="mark").final()
        return system.outputs(60.0, end, None)["drag"][0]

    at = jnp.asarray(10.33)
    slope = jax.jit(jax.grad(drag))(at)
    difference = (drag(at + 1e-5) - drag(at - 1e-5)) / 2e-5  # no centre of a cell is so near to the surface
    assert abs(float(slope / difference) - 1) < 1e-6


def test_derivatives_by_a_motion():
    _, grid, given = tunnel(jnp.array([10.0, 8.0]))
    fluid = fluids.LatticeBoltzmann(grid, **given)

    @jax.jit
    def work(amplitude):
        motion = lambda t: (jnp.stack([10.33 + 0 * t, 8.2 + amplitude * jnp.sin(0.1 * t)]), 0.2 * amplitude * t)
        shape = lambda x: jnp.sqrt((x[0] / 1.3) ** 2 + (x[1] * 1.3) ** 2) - 3.3
        body = fluids.MovingBody(fluid, radius=4.4, motion=motion, shape=shape, surface="cut")
        end = simkit.simulate(body, body.start(), [0.0, 25.0], on_failure="mark").final()
        outputs = body.outputs(25.0, end, None)
        return outputs["drag"][1] + outputs["torque"]

    at = jnp.asarray(0.04)
    difference = (work(at + 1e-5) - work(at - 1e-5)) / 2e-5
    assert abs(float(jax.jit(jax.grad(work))(at) / difference) - 1) < 1e-5


@pytest.mark.parametrize("surface", ["smooth", "cut"])
def test_a_disk_that_is_drawn_along_has_the_drag_of_one_in_a_stream(surface):
    """Galileo's principle: in a periodic box with as much counterflow, drag and mass over 18 cells of way."""
    grid = fluids.Grid((36, 36), (36.0, 36.0))
    fluid = fluids.LatticeBoltzmann(grid, step=1.0, viscosity=0.1, boundaries=PERIODIC)
    speed = 0.03

    def forces(pace, stream):
        motion = lambda t: jnp.stack([12.2 + pace * t, 18.3 + 0 * t])
        body = fluids.MovingBody(fluid, radius=4.2, motion=motion, surface=surface)
        flow = fluid.start(lambda x: (stream + 0 * x[0], 0 * x[0]))
        run = simkit.simulate(body, body.start(flow=flow), np.linspace(0.0, 600.0, 13))
        drags = jax.vmap(lambda t, y: body.outputs(t, y, None)["drag"])(
            run.times[1:], jax.tree.map(lambda a: a[1:], run.ys)
        )
        excess = np.asarray(run.ys.flow.populations).sum(axis=(1, 2, 3)) / grid.shape[0] ** 2
        return np.asarray(drags)[:, 0], excess

    still, _ = forces(0.0, -speed)
    moving, excess = forces(speed, 0.0)
    # Centres that change sides make the force of a cut surface jump by some per cent.
    assert np.abs(moving[2:] / still[2:] - 1).max() < (0.02 if surface == "smooth" else 0.12)
    assert abs(np.mean(moving[2:] / still[2:]) - 1) < 0.02
    assert np.abs(excess).max() < (1e-12 if surface == "smooth" else 1e-3)


def test_a_shape_that_is_a_disk_is_a_disk():
    _, grid, given = tunnel(jnp.array([10.0, 8.0]))
    fluid = fluids.LatticeBoltzmann(grid, **given)
    motion = lambda t: (jnp.stack([10.3 + 0.02 * t, 8.0 + 0 * t]), 0.01 * t)
    ends = []
    for shape in (None, lambda x: jnp.sqrt(jnp.maximum(x[0] ** 2 + x[1] ** 2, 1e-2)) - 3.3):
        body = fluids.MovingBody(fluid, radius=3.3, motion=motion, shape=shape)
        end = simkit.simulate(body, body.start(), [0.0, 50.0]).final()
        ends.append(body.outputs(50.0, end, None))
    np.testing.assert_allclose(ends[0]["velocity"], ends[1]["velocity"], atol=1e-14)
    np.testing.assert_allclose(ends[0]["drag"], ends[1]["drag"], rtol=1e-8)
    np.testing.assert_allclose(ends[0]["angle"], 0.5, rtol=1e-12)


def test_single_precision():
    fixed = tunnel(jnp.array([10.3, 8.2]))[0]
    exact = fixed.outputs(0.0, simkit.simulate(fixed, fixed.start(), [0.0, 200.0]).final(), None)["drag"]
    narrow = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, fixed)
    found = narrow.outputs(0.0, simkit.simulate(narrow, narrow.start(), [0.0, 200.0]).final(), None)["drag"]
    assert found.dtype == jnp.float32
    assert np.abs(np.asarray(found, float) - exact).max() < 1e-4 * np.abs(exact).max()


@pytest.mark.parametrize("surface", ["cells", "cut"])
@pytest.mark.parametrize("make", [lambda x: fluids.Disk([x, 8.0], 3.3), lambda x: fluids.Box([x, 8.0], [5.2, 3.4])])
def test_a_body_goes_on_beyond_a_periodic_end(make, surface):
    def of(x):
        return fluids.LatticeBoltzmann(
            fluids.Grid((24, 16), (24.0, 16.0), origin=(-3.0, 0.0)),
            step=1.0,
            viscosity=0.1,
            boundaries=[PERIODIC, fluids.NoSlip()],
            obstacle=make(x),
            surface=surface,
        )

    middle = of(9.0)
    for end in (-3.0, 21.0, 45.0):
        found = of(end)
        np.testing.assert_array_equal(found.solid, np.roll(middle.solid, -12, 0))
        np.testing.assert_array_equal(found.links, np.roll(middle.links, -12, 0))
        if surface == "cut":
            np.testing.assert_allclose(found.cuts, np.roll(middle.cuts, -12, 1), rtol=1e-12)


def test_a_body_that_is_known_is_checked_inside_of_a_trace():
    body = fluids.Disk([0.0, 8.0], -1.0)
    make = lambda: fluids.LatticeBoltzmann(FLUID.grid, step=1.0, viscosity=0.1, obstacle=body, surface="cut").cuts
    with pytest.raises(simkit.ArgumentError, match="radius"):
        jax.jit(make)()


def test_a_cylinder_beyond_a_periodic_end_and_a_body_at_a_wall():
    def solid(centre, *boundaries):
        grid = fluids.Grid((12, 8, 4), (12.0, 8.0, 4.0))
        return np.asarray(
            fluids.LatticeBoltzmann(
                grid, step=1.0, viscosity=0.1, boundaries=boundaries, obstacle=fluids.Disk(centre, 2.4)
            ).solid
        )

    ends = (PERIODIC, fluids.NoSlip(), PERIODIC)
    whole = solid([6.0, 4.0], *ends)
    np.testing.assert_array_equal(solid([0.0, 4.0], *ends), np.roll(whole, 6, 0))
    assert 2 * solid([6.0, 0.0], *ends).sum() == whole.sum()  # half of it is beyond the wall


def test_the_place_of_a_body_at_a_periodic_end_has_derivatives():
    """A share of a link that the end cuts changes with the place as it does in the middle."""

    def shares(x):
        grid = fluids.Grid((24, 16), (24.0, 16.0))
        disk = fluids.Disk(jnp.stack([x, jnp.asarray(8.2)]), 3.3)
        return fluids.LatticeBoltzmann(grid, step=1.0, viscosity=0.1, obstacle=disk, surface="cut").cuts

    slope = jax.jit(jax.jacfwd(shares))
    middle = slope(jnp.asarray(12.3))
    assert np.abs(middle).max() > 0.1
    np.testing.assert_allclose(slope(jnp.asarray(0.3)), np.roll(middle, 12, 1), rtol=1e-10, atol=1e-12)


FLUID = fluids.LatticeBoltzmann(fluids.Grid((24, 16), (24.0, 16.0)), step=1.0, viscosity=0.1)
MASK = np.zeros((24, 16), bool)
MASK[8:12, 6:9] = True


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tunnel([10.0, 8.0], surface="smooth"), '"cells" or "cut"'),
        (lambda: tunnel([12.0, 100.0]), "covers none"),
        (lambda: tunnel([12.0, 8.0], radius=-1.0), "`radius` of a Disk must be positive"),
        (lambda: tunnel([12.0, 8.0], radius=np.nan), "`radius` of a Disk must be positive"),
        (lambda: tunnel([12.0, 8.0], radius=30.0), "covers all"),
        (
            lambda: fluids.LatticeBoltzmann(FLUID.grid, step=1.0, viscosity=0.1, obstacle=MASK, surface="cut"),
            "must be a signed distance",
        ),
        (
            lambda: fluids.LatticeBoltzmann(
                FLUID.grid, step=1.0, viscosity=0.1, obstacle=lambda x: jnp.zeros(3), surface="cut"
            ),
            "distances of the shape",
        ),
        (lambda: fluids.LatticeBoltzmann(FLUID.grid, step=1.0, viscosity=0.1, surface="cut"), "there is no `obstacle`"),
        (lambda: fluids.MovingBody(FLUID, radius=4.0, surface="cut"), "need a `motion`"),
        (lambda: fluids.MovingBody(FLUID, radius=4.0, surface="sharp"), '"smooth" or "cut"'),
        (lambda: fluids.MovingBody(FLUID, radius=4.0, shape=3.0, motion=lambda t: t), "signed distance"),
        (
            lambda: fluids.MovingBody(FLUID, radius=4.0, motion=lambda t: (jnp.ones(2), jnp.ones(2))).start(),
            "one angle",
        ),
    ],
)
def test_mistakes(call, said):
    with pytest.raises(simkit.ArgumentError, match=said):
        call()
