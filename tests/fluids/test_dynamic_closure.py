"""The constant of Smagorinsky's closure from the flow itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.fluids import DynamicSmagorinsky, Grid, IncompressibleFlow, NoSlip, Periodic, random_velocity
from simkit.fluids.staggered._momentum import strain as magnitude
from simkit.fluids.staggered._momentum import surrounded


def constant_of(system, state):
    return np.asarray(jax.jit(lambda s, y: s.outputs(0.0, y, None)["smagorinsky"])(system, state))


def test_laminar_flow_has_none():
    """Poiseuille's and Couette's flow between walls, and rigid rotation: the tensors of Germano's identity do not overlap."""
    grid = Grid((8, 16, 8), (1.0, 1.0, 1.0))
    walls = [Periodic(), (NoSlip(), NoSlip(jnp.array([1.0, 0.0, 0.0]))), Periodic()]
    for profile in (lambda y: y, lambda y: y + 4 * y * (1 - y)):
        system = IncompressibleFlow(grid, boundaries=walls, smagorinsky=DynamicSmagorinsky(), viscosity=0.01)
        start = system.start(lambda x, p=profile: (p(x[1]), 0 * x[1], 0 * x[1]))
        found = constant_of(system, start)
        assert found.shape == (1, 16, 1)
        # Only the last cells, beyond which the test filter has no values, are not exact.
        np.testing.assert_allclose(found[0, 1:-1, 0], 0, atol=1e-6)


def test_it_is_what_germano_and_lilly_say():
    """The formula by NumPy on a periodic field whose derivatives are differences of the staggered grid."""
    n, key = 12, jax.random.key(3)
    grid = Grid((n, n, n), 2 * np.pi)
    system = IncompressibleFlow(grid, smagorinsky=DynamicSmagorinsky())
    state = system.start(random_velocity(grid, key=key))
    u = [np.asarray(c) for c in state.velocity]
    h = 2 * np.pi / n

    def hat(x):
        for axis in range(3):
            x = 0.25 * (np.roll(x, 1, axis) + np.roll(x, -1, axis)) + 0.5 * x
        return x

    def rate(i, j):
        if i == j:
            return (np.roll(u[i], -1, i) - u[i]) / h
        edge = (u[i] - np.roll(u[i], 1, j)) / h + (u[j] - np.roll(u[j], 1, i)) / h
        return 0.125 * sum(np.roll(edge, (-a, -b), (i, j)) for a in (0, 1) for b in (0, 1))

    centre = [0.5 * (c + np.roll(c, -1, i)) for i, c in enumerate(u)]
    strain = np.array([[rate(i, j) for j in range(3)] for i in range(3)])
    smooth = np.array([[hat(strain[i, j]) for j in range(3)] for i in range(3)])
    # |S| of the closure squares shears before it takes them to the centres, for all flows alike.
    size = np.asarray(magnitude(system.at, surrounded(system.at, system.boundaries, state.velocity)))
    coarse = np.sqrt(2 * (smooth**2).sum(axis=(0, 1)))
    left = np.array(
        [[hat(centre[i] * centre[j]) - hat(centre[i]) * hat(centre[j]) for j in range(3)] for i in range(3)]
    )
    left -= np.eye(3)[:, :, None, None, None] * np.trace(left) / 3
    model = (
        2
        * h**2
        * np.array([[hat(size * strain[i, j]) - 6 * coarse * smooth[i, j] for j in range(3)] for i in range(3)])
    )
    exact = np.sqrt(max((left * model).sum() / (model**2).sum(), 0))
    np.testing.assert_allclose(constant_of(system, state).item(), exact, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_isotropic_turbulence():
    """Decaying turbulence without viscosity finds 0.16 to 0.18 (Lilly 1967: 0.17 by the spectrum of Kolmogorov)."""
    grid = Grid((24, 24, 24), 2 * np.pi)
    system = IncompressibleFlow(grid, smagorinsky=DynamicSmagorinsky())
    start = system.start(random_velocity(grid, key=jax.random.key(0)))
    speed = float(jnp.sqrt(2 * system.energy(start) / grid.volume / 3))
    times = np.linspace(0.0, 6.0 / speed, 5)
    run = simkit.simulate(system, start, times, step=simkit.Courant(0.7))
    found = [constant_of(system, jax.tree.map(lambda x, k=k: x[k], run.ys)).item() for k in range(5)]
    assert found[0] < 0.12  # random phases drain nothing
    assert all(0.14 < c < 0.2 for c in found[2:])
    energy = jax.vmap(system.energy)(run.ys)
    assert np.all(np.diff(np.asarray(energy)) < 0)


def test_bad_input():
    with pytest.raises(simkit.ArgumentError, match="`average` must hold axes"):
        DynamicSmagorinsky(average=(0, 5))
    with pytest.raises(simkit.ArgumentError, match="which has 2"):
        IncompressibleFlow(Grid((8, 8)), smagorinsky=DynamicSmagorinsky(average=(2,)))
