"""Incompressible flow on a staggered grid: pressure, order, conservation, walls, obstacles, gradients, bad input."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids
from simkit.fluids import (
    Dirichlet,
    Disk,
    FreeSlip,
    Grid,
    IncompressibleFlow,
    Inflow,
    Neumann,
    NoSlip,
    Obstacle,
    Outflow,
    Periodic,
    stretched_faces,
)
from simkit.fluids.grids._boundary import as_boundaries
from simkit.fluids.staggered._around import moved, near
from simkit.fluids.staggered._diffusion import smoothed
from simkit.fluids.staggered._momentum import _between, diffusion, surrounded
from simkit.fluids.staggered._pressure import FastPoisson
from simkit.fluids.staggered._projection import Medium, iterated
from simkit.fluids.staggered._staggered import Staggered, ends_of

KEY = jax.random.key(0)


def laplacian(grid, walls, p):
    """Differences between neighbours, nothing through walls."""
    total = np.zeros_like(p)
    for axis in range(grid.dimensions):
        shape = [-1 if i == axis else 1 for i in range(grid.dimensions)]
        widths = grid.widths(axis).reshape(shape)
        if walls[axis]:
            slope = np.diff(p, axis=axis) / np.diff(grid.centres(axis)).reshape(shape)
            slope = np.pad(slope, [(int(i == axis),) * 2 for i in range(p.ndim)])
            total += np.diff(slope, axis=axis) / widths
        else:
            total += (np.roll(p, 1, axis) - 2 * p + np.roll(p, -1, axis)) / widths**2
    return total


@pytest.mark.parametrize("shape", [(9,), (8, 9), (7, 6), (4, 5, 6)])
def test_fast_poisson(shape):
    """Any mixture of periodic and walled axes, equal and stretched: the difference equation holds to rounding."""
    rng = np.random.default_rng(0)
    for walls in itertools.product([False, True], repeat=len(shape)):
        for stretched in {None, walls.index(True) if any(walls) else None}:
            faces = [stretched_faces(n, 1.3, clustering=1.5) if i == stretched else None for i, n in enumerate(shape)]
            grid = Grid(shape, tuple(1.0 + 0.3 * i for i in range(len(shape))), faces=faces)
            right, volumes = rng.normal(size=shape), grid.volumes()
            right -= (right * volumes).sum() / volumes.sum()
            p = np.asarray(jax.jit(FastPoisson(grid, walls))(right))
            np.testing.assert_allclose(laplacian(grid, walls, p), right, atol=1e-11)
            assert abs((p * volumes).sum()) < 1e-12


@eqx.filter_jit
def looked_at(system, y):
    return system.vector_field(0.0, y, None), system.outputs(0.0, y, None)


@pytest.mark.parametrize("mean", [0.0, 0.7])
def test_order_on_taylor_green(mean):
    """The exact slope of the vortices, carried by a mean flow, as the slope of the discrete ones: order 2."""
    errors = []
    for n in (32, 64):
        system = IncompressibleFlow(Grid((n, n)), viscosity=0.1)
        vortices = lambda x: (mean + jnp.cos(x[0]) * jnp.sin(x[1]), mean - jnp.sin(x[0]) * jnp.cos(x[1]))
        slope, outputs = looked_at(system, system.start(vortices))
        x, y = system.at.mesh(0, jnp.float64)
        u, dx, dy = jnp.cos(x) * jnp.sin(y), -jnp.sin(x) * jnp.sin(y), jnp.cos(x) * jnp.cos(y)
        exact = -2 * 0.1 * u - mean * (dx + dy)
        errors.append(float(jnp.abs(slope.velocity[0] - exact).max()))
        assert float(outputs["divergence"]) < 1e-12
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.05


def test_values_of_order_4_carry_vortices_with_a_quarter_of_the_error():
    """The slope of vortices in a mean flow is that of the exact solution, to order 2, with 3.8 times fewer errors than means."""

    @eqx.filter_jit
    def error(system):
        x, y = system.at.mesh(0, jnp.float64)
        vortices = lambda x: (3 + jnp.cos(x[0]) * jnp.sin(x[1]), 3 - jnp.sin(x[0]) * jnp.cos(x[1]))
        slope = system.vector_field(0.0, system.start(vortices), None).velocity[0]
        exact = -3 * (jnp.cos(x) * jnp.cos(y) - jnp.sin(x) * jnp.sin(y)) - 0.2 * jnp.cos(x) * jnp.sin(y)
        return jnp.abs(slope - exact).max()

    of = lambda n, flux: float(error(IncompressibleFlow(Grid((n, n)), viscosity=0.1, flux=flux)))
    coarse, fine, means = of(32, "central4"), of(64, "central4"), of(64, "central")
    assert abs(np.log2(coarse / fine) - 2) < 0.1
    assert means / fine > 3.5


def test_values_of_order_4_are_exact_for_cubics_and_means_at_ends():
    """Ghosts beyond the ends of an axis are place holders, which no cubic may read."""
    cubic = lambda x: 2 - x + 0.3 * x**2 - 0.1 * x**3
    values = jnp.asarray(cubic(np.arange(-2.0, 8.0))).at[jnp.array([0, -1])].set(1e3)
    found = _between("central4", values, 0, jnp.zeros(7), 1)
    np.testing.assert_allclose(found[1:-1], cubic(np.arange(-0.5, 5.6))[1:-1], rtol=1e-13)
    np.testing.assert_allclose(found[0], 0.5 * (values[1] + values[2]))
    np.testing.assert_allclose(found[-1], 0.5 * (values[-3] + values[-2]))


@pytest.mark.parametrize(
    ("shape", "boundaries", "axis"),
    [
        ((10, 12), None, None),
        ((10, 12), NoSlip(), 1),
        ((6, 5, 7), [Periodic(), NoSlip(), FreeSlip()], 1),
    ],
    ids=["periodic", "walls", "3-D"],
)
def test_central_fluxes_conserve_energy(shape, boundaries, axis):
    """Without viscosity and force the rate of the kinetic energy of any field is rounding, on stretched grids too."""
    faces = [stretched_faces(n, 1.0) if i == axis else None for i, n in enumerate(shape)]
    system = IncompressibleFlow(Grid(shape, 1.0, faces=faces), boundaries=boundaries)
    y = eqx.filter_jit(lambda s, u: s.start(u))(system, jax.random.normal(KEY, (len(shape), *shape)))
    energy, rate = eqx.filter_jit(lambda s, y: jax.jvp(s.energy, (y,), (s.vector_field(0.0, y, None),)))(system, y)
    assert float(energy) > 0.1
    assert abs(float(rate)) < 1e-13
    assert float(jnp.abs(system.at.divergence(y.velocity)).max()) < 1e-11


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is taken out")
def test_upwind_fluxes_take_energy_away():
    system = IncompressibleFlow(Grid((8, 8), 1.0), flux="upwind", boundaries=[Periodic(), NoSlip()])
    y = system.start(jax.random.normal(KEY, (2, 8, 8)))
    rate = eqx.filter_jit(lambda s, y: jax.jvp(s.energy, (y,), (s.vector_field(0.0, y, None),)))(system, y)[1]
    assert float(rate) < -0.1


def test_poiseuille_and_couette_are_steady():
    """Parabola and line are what the scheme has as steady states; the parabola with an offset of order dy^2."""
    grid = Grid((4, 16), (1.0, 2.0), origin=(0.0, -1.0))
    lid = NoSlip(jnp.array([0.5, 0.0]))
    couette = IncompressibleFlow(grid, viscosity=0.3, boundaries=[Periodic(), (NoSlip(), lid)])
    slope, _ = looked_at(couette, couette.start(lambda x: (0.25 * (1 + x[1]), 0 * x[1])))
    np.testing.assert_allclose(slope.velocity[0], 0, atol=1e-12)
    channel = IncompressibleFlow(grid, viscosity=0.3, boundaries=[Periodic(), NoSlip()], force=jnp.array([0.6, 0.0]))
    dy = grid.spacing(1)
    slope, _ = looked_at(channel, channel.start(lambda x: (1 - x[1] ** 2 + dy**2 / 4, 0 * x[1])))
    np.testing.assert_allclose(slope.velocity[0], 0, atol=1e-11)


@pytest.mark.slow
def test_what_comes_in_goes_out():
    """A channel with a disk in it: the flow through every section is the same, and drag points downstream."""
    grid = Grid((32, 24), (2.0, 1.5))
    disk = Disk(jnp.array([0.7, 0.75]), jnp.asarray(0.2))
    system = IncompressibleFlow(
        grid,
        viscosity=0.01,
        boundaries=[(Inflow(jnp.asarray(1.0)), Outflow()), FreeSlip()],
        obstacle=Obstacle(disk),
    )
    y = system.start(lambda x: (jnp.ones_like(x[0]), jnp.zeros_like(x[0])))
    slope, outputs = looked_at(system, y)
    # The pressure is found to 1e-8 of what it has to take away.
    np.testing.assert_allclose(slope.velocity[0].sum(axis=1), 0, atol=1e-4)
    assert float(outputs["drag"][0]) > 0.1
    assert abs(float(outputs["drag"][1])) < 1e-6
    here = near(system, 0.0, y.velocity[0].dtype, {})
    field, _ = moved(system, here, system._pushed(0.0, y), y.velocity)
    mobility = system.cut_at(0.0, field[0].dtype).mobility
    assert int(iterated(system.at, 1e-8, 100, Medium(mobility), system.at.divergence(field)).turns) <= 15


def test_a_warm_layer_rises():
    """Conduction between plates is steady whatever the Rayleigh number: buoyancy is balanced by pressure."""
    grid = Grid((6, 8), (1.0, 1.0))
    system = IncompressibleFlow(
        grid,
        viscosity=0.01,
        boundaries=[Periodic(), NoSlip()],
        diffusivity=0.02,
        scalar_boundaries=[Periodic(), (Dirichlet(1.0), Dirichlet(0.0))],
        buoyancy=jnp.array([0.0, 50.0]),
    )
    still = system.start(scalar=lambda x: 1 - x[1])
    slope, _ = looked_at(system, still)
    for leaf in jax.tree.leaves(slope):
        np.testing.assert_allclose(leaf, 0, atol=1e-11)
    blob = system.start(scalar=lambda x: jnp.exp(-20 * ((x[0] - 0.5) ** 2 + (x[1] - 0.5) ** 2)))
    slope, _ = looked_at(system, blob)
    assert float(slope.velocity[1][3, 4]) > 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is taken out")
def test_closures():
    """Smagorinsky's stress takes energy away and leaves a uniform flow alone; a learned source is added."""
    grid = Grid((8, 8), 1.0)
    push = lambda t, velocity: [0.1 * u for u in velocity]
    y = IncompressibleFlow(grid).start(jax.random.normal(KEY, (2, 8, 8)))
    rate = eqx.filter_jit(lambda s, y: jax.jvp(s.energy, (y,), (s.vector_field(0.0, y, None),)))
    assert float(rate(IncompressibleFlow(grid, smagorinsky=0.15), y)[1]) < -0.01
    energy, gained = rate(IncompressibleFlow(grid, source=push), y)
    np.testing.assert_allclose(gained, 0.2 * energy, rtol=1e-10)
    walled = IncompressibleFlow(grid, smagorinsky=0.15, boundaries=[Periodic(), NoSlip()])
    assert float(rate(walled, walled.start(jax.random.normal(KEY, (2, 8, 8))))[1]) < -0.01


@pytest.mark.slow
def test_gradients_through_pressure_and_obstacle():
    """By viscosity and by the shape, reverse against differences; and the adjoint's dot product."""
    grid = Grid((16, 12), (2.0, 1.5))

    def final(viscosity, radius):
        system = IncompressibleFlow(
            grid,
            viscosity=viscosity,
            boundaries=[(Inflow(jnp.asarray(1.0)), Outflow()), FreeSlip()],
            obstacle=Obstacle(Disk(jnp.array([0.7, 0.7]), radius)),
            tolerance=1e-13,
        )
        y0 = system.start(lambda x: (jnp.ones_like(x[0]), jnp.zeros_like(x[0])))
        run = simkit.simulate(system, y0, jnp.array([0.0, 0.08]), step=simkit.Fixed(4))
        return jnp.sum(run.ys.velocity[0][-1] ** 2) + 5 * jnp.sum(run.ys.velocity[1][-1] ** 3)

    at = jnp.asarray(0.05), jnp.asarray(0.25)
    value = jax.jit(final)
    found = jax.jit(jax.grad(final, argnums=(0, 1)))(*at)
    h = 1e-5
    for k in range(2):
        plus, minus = ([x + s * h * (i == k) for i, x in enumerate(at)] for s in (1, -1))
        np.testing.assert_allclose(found[k], (value(*plus) - value(*minus)) / (2 * h), rtol=1e-6)
    tangent = jax.jit(lambda *x: jax.jvp(final, x, at)[1])(*at)
    np.testing.assert_allclose(tangent, found[0] * at[0] + found[1] * at[1], rtol=1e-11)


@pytest.mark.parametrize("d", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_smoothing_inverts_diffusion(d):
    """(1 - a L) applied to what was smoothed is what there was, on equal and stretched axes, between all kinds of ends."""
    faces = [None, stretched_faces(7, 1.3, clustering=1.5), None][:d]
    grid = Grid((6, 7, 5)[:d], (1.0, 1.3, 0.8)[:d], faces=faces)
    still = (NoSlip(), FreeSlip())
    kinds = [(Periodic(),) * 2, (NoSlip(),) * 2, still]
    for first, second in itertools.product(kinds, kinds[1:]) if d == 3 else ((kinds[0], kinds[1]), (kinds[1], still)):
        boundaries = as_boundaries(grid, [first, second, *([FreeSlip()] * (d - 2))])
        at = Staggered(grid, ends_of(boundaries))
        keys = jax.random.split(KEY, d)
        field = tuple(at.inner(i, jax.random.normal(keys[i], at.shape(i))) for i in range(d))

        @jax.jit
        def back(field, at=at, boundaries=boundaries):
            smooth = tuple(smoothed(at, boundaries, i, u, 0.07) for i, u in enumerate(field))
            flow = surrounded(at, boundaries, smooth)
            rough = [at.inner(i, diffusion(at, boundaries, flow, i, 0.07, None)) for i in range(d)]
            return [u - v for u, v in zip(smooth, rough, strict=True)]

        for u, v in zip(back(field), field, strict=True):
            np.testing.assert_allclose(u, v, atol=1e-12)


def convection(diffusion, viscosity=0.1, diffusivity=0.2, faces=None):
    return IncompressibleFlow(
        Grid((10, 12), 1.0, faces=(None, faces)),
        viscosity=viscosity,
        boundaries=NoSlip(),
        force=lambda t, x: (jnp.sin(3 * t) * x[1], jnp.zeros_like(x[0])),
        diffusivity=diffusivity,
        scalar_boundaries=[Neumann(0.0), (Dirichlet(1.0), Dirichlet(0.0))],
        buoyancy=jnp.array([0.0, 2.0]),
        diffusion=diffusion,
    )


def turning(system):
    u = lambda a, b: 0.5 * jnp.sin(jnp.pi * a) ** 2 * jnp.sin(2 * jnp.pi * b)
    warm = lambda x: 1 - x[1] + 0.3 * jnp.cos(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])
    return system.start(lambda x: (u(x[0], x[1]), -u(x[1], x[0])), warm)


@pytest.mark.slow
@pytest.mark.parametrize("faces", [None, stretched_faces(12, 1.0, clustering=1.5)], ids=["equal", "stretched"])
def test_implicit_diffusion_is_of_order_two(faces):
    """Against explicit steps of a thousandth; the shortest implicit ones are 3 and 20 times the explicit limit."""
    explicit, implicit = convection("explicit", faces=faces), convection("implicit", faces=faces)
    y0, times = turning(explicit), np.array([0.0, 1.0])
    exact = simkit.simulate(explicit, y0, times, step=simkit.Fixed(1000)).final()
    errors = []
    for steps in (24, 48):
        found = simkit.simulate(implicit, y0, times, step=simkit.Fixed(steps))
        assert found.solver.startswith("WRK3")
        away = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), found.final(), exact)
        errors.append(max(jax.tree.leaves(away)))
        assert float(jnp.abs(implicit.at.divergence(found.final().velocity)).max()) < 1e-12
    assert errors[1] < 1e-4
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.15, errors


@pytest.mark.slow
def test_gradients_through_implicit_diffusion():
    """By viscosity and diffusivity, reverse against differences and forward mode."""

    def final(viscosity, diffusivity):
        system = convection("implicit", viscosity, diffusivity)
        run = simkit.simulate(system, turning(system), jnp.array([0.0, 0.3]), step=simkit.Fixed(6))
        return jnp.sum(run.final().velocity[0] ** 2) + jnp.sum(run.final().scalar ** 3)

    at = jnp.asarray(0.1), jnp.asarray(0.2)
    value, found = jax.jit(final), jax.jit(jax.grad(final, argnums=(0, 1)))(*at)
    h = 1e-5
    for k in range(2):
        plus, minus = ([x + s * h * (i == k) for i, x in enumerate(at)] for s in (1, -1))
        np.testing.assert_allclose(found[k], (value(*plus) - value(*minus)) / (2 * h), rtol=1e-6)
    tangent = jax.jit(lambda *x: jax.jvp(final, x, at)[1])(*at)
    np.testing.assert_allclose(tangent, found[0] * at[0] + found[1] * at[1], rtol=1e-10)


def test_bad_input():
    grid = Grid((8, 8), 1.0)
    with pytest.raises(simkit.ArgumentError, match="2 or 3 dimensions"):
        IncompressibleFlow(Grid(8))
    with pytest.raises(simkit.ArgumentError, match='"central", "central4" or "upwind"'):
        IncompressibleFlow(grid, flux="weno")
    with pytest.raises(simkit.ArgumentError, match='equal cells for the flux "central4"'):
        IncompressibleFlow(Grid((4, 8), 1.0, faces=[None, stretched_faces(8, 1.0)]), flux="central4")
    with pytest.raises(simkit.ArgumentError, match="cannot leave"):
        IncompressibleFlow(grid, boundaries=[(Inflow(1.0), NoSlip()), NoSlip()])
    with pytest.raises(simkit.ArgumentError, match="`diffusivity` must be given"):
        IncompressibleFlow(grid, buoyancy=jnp.ones(2))
    with pytest.raises(simkit.ArgumentError, match="periodic where"):
        IncompressibleFlow(grid, boundaries=NoSlip(), diffusivity=1.0)
    with pytest.raises(simkit.ArgumentError, match='"explicit" or "implicit"'):
        IncompressibleFlow(grid, diffusion="none")
    with pytest.raises(simkit.ArgumentError, match="over several devices"):
        IncompressibleFlow(Grid((8, 8), devices=jax.devices()[:2]), diffusion="implicit")
    walls = IncompressibleFlow(grid, boundaries=NoSlip(), diffusion="implicit")
    with pytest.raises(simkit.ArgumentError, match=r"`RK4` is explicit .* `WRK3` fits"):
        simkit.simulate(walls, walls.start(), np.array([0.0, 1.0]), solver=simkit.solvers.RK4(), step=0.01)
    system = IncompressibleFlow(grid, boundaries=NoSlip())
    with pytest.raises(simkit.ArgumentError, match="`start` makes"):
        simkit.simulate(
            system, fluids.IncompressibleFlow.State((jnp.zeros((8, 8)), jnp.zeros((8, 8)))), np.array([0.0, 1.0])
        )
    with pytest.raises(simkit.ArgumentError, match="`velocity` must have the shape"):
        system.start(jnp.zeros((8, 8)))
    with pytest.raises(simkit.ArgumentError, match=r"`force` must have the shape \(2,\)"):
        IncompressibleFlow(grid, force=jnp.ones(3))
    with pytest.raises(simkit.ArgumentError, match="needs a system with a `diffusivity`"):
        system.start(scalar=jnp.zeros((8, 8)))
    with pytest.warns(UserWarning, match=r"100% of the energy of `velocity`"):
        system.start(lambda x: (jnp.ones_like(x[0]), jnp.zeros_like(x[0])))  # in a closed box


def test_a_start_is_looked_at():
    system = IncompressibleFlow(Grid((6, 6), 1.0), viscosity=0.01)
    review = lambda system, y0: system.review(y0, None, None)
    rest = system.start()
    with pytest.raises(simkit.ArgumentError, match="`viscosity` of IncompressibleFlow must not be negative"):
        review(IncompressibleFlow(system.grid, viscosity=-0.01), rest)
    with pytest.raises(simkit.ArgumentError, match=r"IncompressibleFlow\.State of 2 components, but it is Flow2D"):
        review(system, fluids.SpectralFlow2D.State(jnp.zeros((6, 6))))
    with pytest.raises(simkit.ArgumentError, match="has no scalar, but"):
        review(IncompressibleFlow(system.grid, diffusivity=0.1), rest)
    shrinking = jnp.asarray(np.sin(2 * np.pi * system.grid.mesh(0)[0]))
    with pytest.warns(UserWarning, match=r"has a divergence, .* taken out"):
        review(system, fluids.IncompressibleFlow.State((shrinking, jnp.zeros((6, 6)))))
    across = fluids.IncompressibleFlow.State((shrinking.T, jnp.ones((6, 6))))
    review(system, across)  # warnings are errors


def test_too_few_steps_are_told_with_how_many_are_left():
    grid = Grid((4, 8), (1.0, 0.1))
    flow = IncompressibleFlow(grid, viscosity=1.0, boundaries=[Periodic(), NoSlip()])
    with pytest.raises(simkit.SimulationError, match=r'some 128[0-9]{2} of them are left.*diffusion="implicit"'):
        simkit.simulate(flow, flow.start(), np.array([0.0, 1.0]), step=simkit.Courant(0.9, max_steps=10))


@pytest.mark.parametrize("axis", [0, 1])
def test_profiles_of_an_inflow(axis):
    """Poiseuille's profile comes in between walls at the upper end of an axis, and leaves as it came."""
    n = 10
    x = (np.arange(n) + 0.5) / n
    profile = np.zeros((2, n))
    profile[axis] = -6 * x * (1 - x)
    shape, lengths = ((2 * n, n), (2.0, 1.0)) if axis == 0 else ((n, 2 * n), (1.0, 2.0))
    pairs = [NoSlip(), NoSlip()]
    pairs[axis] = (Outflow(), Inflow(jnp.asarray(profile)))
    flow = IncompressibleFlow(Grid(shape, lengths), viscosity=0.5, boundaries=pairs)
    end = simkit.simulate(flow, flow.start(), np.array([0.0, 1.0]), step=simkit.Courant(0.9)).final()
    out = np.take(np.asarray(end.velocity[axis]), 0, axis)
    np.testing.assert_allclose(out.mean(), profile[axis].mean(), rtol=1e-10)
    np.testing.assert_allclose(out, profile[axis], atol=0.02)  # the grid's own profile is another by 1 / n^2


def test_profiles_stand_where_the_component_does():
    """A wall's velocity that varies along it, in space, walls and a periodic axis beside it."""
    grid = Grid((4, 5, 6), (1.0, 2.0, 3.0))
    x, y, _ = grid.mesh()
    face = (slice(None), slice(None), 0)
    lid = np.stack([np.cos(2 * np.pi * x), y, 0 * x])[(slice(None), *face)]
    flow = IncompressibleFlow(grid, boundaries=[Periodic(), NoSlip(), (NoSlip(), NoSlip(jnp.asarray(lid)))])
    wide = surrounded(flow.at, flow.boundaries, flow.start().velocity).wide
    faces = 2 * np.cos(2 * np.pi * grid.faces(0)[:-1]) * np.cos(np.pi / 4)  # twice the mean of both cells
    np.testing.assert_allclose(wide[0][1:-1, 1:-1, -1], np.repeat(faces[:, None], 5, 1), atol=1e-12)
    np.testing.assert_allclose(wide[1][1:-1, 2:-2, -1], np.repeat(2 * grid.faces(1)[1:-1][None], 4, 0), atol=1e-12)
    wrong = NoSlip(jnp.zeros((3, 5, 4)))
    with pytest.raises(simkit.ArgumentError, match=r"axis 2 must be one number, .*\(3, 4, 5\)"):
        IncompressibleFlow(grid, boundaries=[Periodic(), NoSlip(), (NoSlip(), wrong)]).start()
