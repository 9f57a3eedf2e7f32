"""Bodies that are moved through incompressible flow: invariance, an oscillating cylinder, rotation, gradients, bad input."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import Disk, FlowScalar, FreeSlip, Grid, IncompressibleFlow, Neumann, NoSlip, Obstacle, Periodic
from simkit.fluids.staggered._moving import continued, kinematics, motion_of
from simkit.testing import check_gradients

ROUND = Disk(jnp.array([0.0, 0.0]), 0.5)


def forces(system, run):
    """The force on the body at all times of a run."""
    force = lambda t, y: system.drag(t, y)
    return np.asarray(jax.jit(jax.vmap(force))(jnp.asarray(run.times), run.ys))


@pytest.mark.slow
def test_a_cylinder_that_moves_is_one_in_a_stream():
    """Drawn through fluid at rest between walls, or held in a stream with walls that go along: one force in the mean.

    What a single moment has scatters with how the grid lies to the body.
    """
    n, speed = 8, 1.0
    grid, times = Grid((6 * n, 4 * n), (6.0, 4.0)), np.linspace(0.0, 2.0, 161)
    held = Obstacle(Disk(jnp.array([4.0, 2.0]), 0.5))
    drawn = Obstacle(ROUND, motion=lambda t: jnp.stack([4.0 - speed * t, 2.0 + 0 * t]))
    found = []
    for obstacle, wall in ((held, NoSlip(jnp.array([speed, 0.0]))), (drawn, NoSlip())):
        system = IncompressibleFlow(grid, viscosity=0.025, boundaries=[Periodic(), wall], obstacle=obstacle)
        stream = speed if obstacle is held else 0.0
        start = system.start(lambda x, u=stream: (u + 0 * x[0], 0 * x[0]))
        run = simkit.simulate(system, start, times, step=simkit.Fixed(2))
        found.append(forces(system, run)[80:, 0])  # over eight cells
    mean = [force.mean() for force in found]
    np.testing.assert_allclose(mean[1], mean[0], rtol=0.03)  # 0.8 % with 12 cells a diameter
    assert np.std(found[1] - found[0]) < 0.25 * mean[0]


@pytest.mark.slow
def test_an_oscillating_cylinder():
    """In-line oscillation in fluid at rest, Reynolds number 100, Keulegan-Carpenter number 5: Morison's coefficients.

    Duetsch, Durst, Becker and Lienhart (1998), J. Fluid Mech. 360:249: drag 2.09, added mass 1.45.
    """
    cells, period, count = 16, 5.0, 100

    def faces(fine, far):
        found = list(np.arange(0, fine + 1e-9, 1 / cells))
        while found[-1] < far:
            found.append(found[-1] + 1.12 * (found[-1] - found[-2]))
        return np.concatenate([-np.array(found[:0:-1]), found])

    x, y = faces(1.6, 9.0), faces(0.8, 8.0)
    grid = Grid((len(x) - 1, len(y) - 1), (x[-1] - x[0], y[-1] - y[0]), origin=(x[0], y[0]), faces=(x, y))
    w = 2 * np.pi / period
    body = Obstacle(ROUND, motion=lambda t: jnp.stack([-jnp.sin(w * t) / w, 0 * t]))
    system = IncompressibleFlow(grid, viscosity=0.01, boundaries=FreeSlip(), obstacle=body, tolerance=1e-6)
    times = np.linspace(0.0, 2 * period, 2 * count + 1)
    run = simkit.simulate(system, system.start(), times, step=simkit.Fixed(4))
    force, last = forces(system, run)[count:-1], times[count:-1]
    speed, change = -np.cos(w * last), w * np.sin(w * last)
    known = np.stack([-0.5 * np.abs(speed) * speed, -0.25 * np.pi * change], axis=1)
    drag, mass = np.linalg.lstsq(known, force[:, 0], rcond=None)[0]
    np.testing.assert_allclose(mass, 1.45, rtol=0.03)  # 1.43 with 12 cells a diameter, 1.44 with 20
    np.testing.assert_allclose(drag, 2.09, rtol=0.14)  # 2.44 with 12, 2.19 with 20
    assert np.abs(force[:, 1]).max() < 1e-3  # symmetric


def test_a_disk_that_spins():
    """It takes the fluid along, feels a torque against its spin, and no force."""
    grid = Grid((32, 32), (4.0, 4.0))
    spin = Obstacle(ROUND, motion=lambda t: (jnp.array([2.0, 2.0]), 2.0 * t))
    system = IncompressibleFlow(grid, viscosity=0.1, boundaries=FreeSlip(), obstacle=spin)
    end = simkit.simulate(system, system.start(), [0.0, 0.5], step=simkit.Courant(0.7)).final()
    out = system.outputs(0.5, end, None)
    assert float(out["torque"]) < -0.1
    np.testing.assert_allclose(out["drag"], 0, atol=1e-6)
    x, y = (np.asarray(c) - 2.0 for c in grid.mesh())
    inside = np.hypot(x, y) < 0.3
    np.testing.assert_allclose(np.asarray(out["velocity"][1])[inside], 2.0 * x[inside], atol=1e-6)
    assert 0.1 < float(out["velocity"][1][-11, 16]) < 1.0


@pytest.mark.slow
def test_gradients():
    """By the size of a motion, through faces that the body takes in and leaves behind."""
    grid = Grid((12, 12), (3.0, 3.0))

    def loss(numbers):
        size, radius = numbers
        motion = lambda t: jnp.stack([1.5 + size * jnp.sin(3.0 * t), 1.5 + 0 * t])
        body = Obstacle(Disk(jnp.array([0.0, 0.0]), radius), motion=motion)
        system = IncompressibleFlow(
            grid, viscosity=0.1, boundaries=[Periodic(), NoSlip()], obstacle=body, tolerance=1e-12
        )
        end = simkit.simulate(system, system.start(), [0.0, 0.5], step=simkit.Fixed(6)).final()
        return jnp.sum(end.velocity[0] ** 2) + system.drag(0.5, end)[0]

    check_gradients(loss, (jnp.array([0.31, 0.52]),), tolerance=1e-4, directions=2)


class Stroke(eqx.Module):
    """A motion with numbers that have names, along a table that was measured."""

    path: simkit.Interpolated
    amplitude: Any = simkit.quantity(0.3, support=simkit.POSITIVE)
    frequency: Any = simkit.quantity(0.5)

    def __call__(self, t):
        return jnp.stack([1.5 + self.amplitude * jnp.sin(2 * jnp.pi * self.frequency * t), self.path(t)])


@pytest.mark.slow
def test_numbers_of_a_motion():
    """Amplitude, frequency and a table have names; the gradient of a run by them is that of central differences, and a fit finds
    the amplitude."""
    seen = simkit.Interpolated([0.0, 0.2, 0.4, 0.6], [1.5, 1.55, 1.55, 1.5], kind="cubic")
    system = IncompressibleFlow(
        Grid((10, 10), (3.0, 3.0)),
        viscosity=0.1,
        boundaries=NoSlip(),
        obstacles={"wing": Obstacle(ROUND, motion=Stroke(seen))},
        tolerance=1e-12,
    )
    names = ("obstacles.wing.motion.amplitude", "obstacles.wing.motion.frequency")
    table = "obstacles.wing.motion.path.values"
    assert {*names, table} <= set(simkit.core.Setup(system).names())

    def energy(numbers):
        values = {table: seen.values.at[1].set(numbers[2])} | dict(zip(names, numbers, strict=False))
        changed = simkit.core.Setup(system).put(values).system
        return changed.energy(simkit.simulate(changed, changed.start(), [0.0, 0.3], step=simkit.Fixed(5)).final())

    numbers, value = jnp.array([0.3, 0.5, 1.55]), jax.jit(energy)
    found = jax.jit(jax.grad(energy))(numbers)
    expected = [(value(numbers + h) - value(numbers - h)) / (2 * h.sum()) for h in 1e-5 * jnp.diag(numbers)]
    np.testing.assert_allclose(
        found, expected, rtol=1e-4
    )  # kinks where the surface passes a face: 1e-5 apart none is met

    start = system.start()
    times = jnp.array([0.1, 0.2, 0.3])
    truth = simkit.core.Setup(system).put({names[0]: 0.37}).system
    data = simkit.simulate(truth, start, times, step=simkit.Fixed(2))
    outputs = {"energy": np.asarray(jax.vmap(truth.energy)(data.ys))}
    problem = simkit.Problem(
        system,
        [simkit.Experiment("beat", times, outputs, y0=start)],
        free={names[0]: simkit.Free(bounds=(0.1, 0.6))},
        noise={"energy": simkit.noise.Normal(1e-3)},
        step=simkit.Fixed(2),
    )
    fitted = simkit.fit(problem, starts=1, key=jax.random.key(0))
    np.testing.assert_allclose(fitted[names[0]], 0.37, rtol=1e-3)


def test_bad_input():
    grid = Grid((8, 8), (3.0, 3.0))
    with pytest.raises(simkit.ArgumentError, match="must be a function of time"):
        IncompressibleFlow(grid, obstacle=Obstacle(ROUND, motion=jnp.array([1.0, 1.0])))
    with pytest.raises(simkit.ArgumentError, match="`motion` of an Obstacle must be a function that JAX can trace"):
        IncompressibleFlow(grid, obstacle=Obstacle(ROUND, motion=lambda t: np.array([float(t), 1.0])))
    still = lambda t: jnp.array([1.5, 1.5])
    with pytest.raises(simkit.ArgumentError, match='"explicit" where an obstacle moves'):
        IncompressibleFlow(grid, obstacle=Obstacle(ROUND, motion=still), diffusion="implicit")
    system = IncompressibleFlow(grid, obstacle=Obstacle(ROUND, motion=lambda t: t))
    with pytest.raises(simkit.ArgumentError, match="`motion` must return the centre"):
        system.start()


def test_a_uniform_scalar_stays_uniform_beside_a_moved_body():
    """Cells that the body leaves have a divergence, which must make nothing of what is carried."""
    beat = lambda t: jnp.stack([1.0 + 0.3 * jnp.sin(3 * t), 1.0 + 0 * t])
    disk = Obstacle(Disk(jnp.zeros(2), 0.3), motion=beat)
    for named in ({"diffusivity": 0.01}, {"scalars": {"salt": FlowScalar(0.01, boundaries=Neumann())}}):
        ends = {"scalar_boundaries": Neumann()} if "diffusivity" in named else {}
        flow = IncompressibleFlow(
            Grid((16, 16), (2.0, 2.0)), viscosity=0.02, boundaries=NoSlip(), obstacle=disk, **named, **ends
        )
        y0 = flow.start(scalar=jnp.ones((16, 16))) if ends else flow.start(scalars={"salt": 1.0})
        end = simkit.simulate(flow, y0, [0.0, 0.5], step=0.01).final()
        found = end.scalar if ends else end.scalars["salt"]
        np.testing.assert_allclose(found, 1.0, rtol=1e-9)


@pytest.mark.parametrize(("apart", "inside"), [(0.5, -0.5), (1e-6, -4.0)])
def test_velocities_inside_are_bounded_by_those_outside(apart, inside):
    """Beside a plane: the line through a face half a cell away; of one that the body has just left, four times its velocity."""
    still = Obstacle(Disk(jnp.zeros(2), 0.25), motion=lambda t: jnp.stack([0.5 + 0 * t, 0.5 + 0 * t]))
    flow = IncompressibleFlow(Grid((16, 16), (16.0, 16.0)), viscosity=0.01, obstacle=still)
    place = kinematics(still, flow.at, 0.0, jnp.float64)
    assert place is not None
    motion = motion_of(flow.at, place)
    plane = lambda x: x[0] - (8.0 - apart)  # the faces at 8 are outside, those at 7 are inside
    slope = 1.0 if apart == 0.5 else 1.0 / apart
    speeds = tuple(slope * jnp.maximum(plane(flow.at.mesh(i, jnp.float64)), 0) for i in range(2))
    found = continued(flow.at, plane, motion, speeds)[0]
    np.testing.assert_allclose(found[7], inside, rtol=1e-8)  # 8 - (8 - apart) is rounded
