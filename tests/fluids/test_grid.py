"""Grids, boundaries, Fourier series, sampling and initial conditions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids
from simkit.fluids import Grid, Waves
from simkit.fluids.grids._boundary import as_boundaries

UNEVEN = Grid((12, 15), lengths=(2.0, 3.0), origin=(-1.0, 0.5))
ROUNDING = 1e-12  # sums of a few hundred numbers of size one


def wave(grid, place="centre"):
    """A smooth periodic function that the coarsest grid here resolves, anywhere on it."""
    x, y = (
        2 * np.pi * (c - o) / length for c, o, length in zip(grid.mesh(place), grid.origin, grid.lengths, strict=True)
    )
    return np.sin(x - 0.3) * np.cos(2 * y + 0.7) + 0.4 + 0.2 * np.cos(3 * x)


def test_coordinates():
    np.testing.assert_allclose(UNEVEN.faces(0)[[0, -1]], [-1.0, 1.0])
    np.testing.assert_allclose(UNEVEN.centres(1)[0], 0.5 + 0.1)
    assert [float(x[0, 0]) for x in UNEVEN.mesh(0)] == [-1.0, UNEVEN.centres(1)[0]]
    np.testing.assert_allclose(UNEVEN.volumes().sum(), 6.0, rtol=1e-14)
    assert Grid(8).lengths == (2 * np.pi,)
    assert {Grid(8): 1}[Grid((8,))] == 1


def test_a_stretched_axis():
    faces = fluids.stretched_faces(16, 2.0, origin=-1.0, clustering=2.0)
    grid = Grid((4, 16), faces=(None, faces))
    assert (grid.uniform, grid.lengths[1], grid.origin[1]) == (False, 2.0, -1.0)
    np.testing.assert_allclose(grid.faces(1), faces)
    assert grid.widths(1)[0] < 0.5 * grid.widths(1)[8]
    np.testing.assert_allclose(grid.volumes().sum(), grid.volume, rtol=1e-14)
    with pytest.raises(simkit.ArgumentError, match="equal cells for Fourier series"):
        Waves(grid)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Grid((4, 4, 4, 4)), "one to three numbers"),
        (lambda: Grid((4, 4), lengths=(1.0, 2.0, 3.0)), "one for each of 2 axes"),
        (lambda: Grid((4, 4), lengths=-1.0), "must be positive"),
        (lambda: Grid(3, faces=[[0.0, 1.0, 1.0, 2.0]]), "do not rise"),
        (lambda: as_boundaries(UNEVEN, [fluids.Periodic()]), "one entry for each of 2 axes"),
        (
            lambda: as_boundaries(UNEVEN, [fluids.Periodic(), (fluids.Periodic(), fluids.NoSlip())]),
            "of axis 1 periodic or",
        ),
        (lambda: as_boundaries(UNEVEN, [fluids.Dirichlet(), fluids.Periodic()]), "a velocity at axis 0"),
        (
            lambda: as_boundaries(UNEVEN, [(fluids.Inflow(1.0), fluids.NoSlip()), fluids.Periodic()]),
            "cannot leave",
        ),
        (lambda: fluids.taylor_green(Grid(8)), "2 or 3 dimensions"),
        (lambda: as_boundaries(UNEVEN, fluids.NoSlip([0.0, 1.0])), "at axis 1 has the velocity 1.0 across it"),
        (lambda: as_boundaries(UNEVEN, fluids.NoSlip([0.0, 0.0, 1.0])), r"or have the shape \(2,\)"),
        (
            lambda: as_boundaries(UNEVEN, fluids.Dirichlet([0.0, 1.0]), kind="scalar"),
            "of Dirichlet at axis 0 must be one number",
        ),
    ],
)
def test_what_does_not_fit_is_named(build, message):
    with pytest.raises(simkit.ArgumentError, match=message):
        build()


def test_boundaries_are_pairs_with_quantities():
    walls = as_boundaries(UNEVEN, [fluids.Periodic(), (fluids.NoSlip(), fluids.NoSlip(velocity=[1.0, 0.0]))])
    assert [len(pair) for pair in walls] == [2, 2]
    assert jax.tree.leaves(walls)[1].shape == (2,)
    assert as_boundaries(UNEVEN, fluids.Neumann(), kind="scalar")[1][0].gradient == 0.0


@pytest.mark.parametrize("degree", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_waves_invert_and_differentiate(degree):
    grid = Grid((16, 15), lengths=(2.0, 3.0))
    waves, full, field = Waves(grid, degree), Waves(grid, degree, real=False), wave(grid)
    assert waves.cutoffs == (15 // (degree + 1), 14 // (degree + 1))

    @jax.jit
    def found(field):
        modes = waves.modes(field)
        assert modes.shape == waves.shape
        there = full.field(full.modes(jax.lax.complex(field, 0.5 * field)))
        back = waves.field(waves.laplacian(waves.inverse_laplacian(modes)))
        numbers = waves.inner(modes, modes), waves.mean(modes)
        return (
            waves.field(modes),
            there.real,
            2 * there.imag,
            back + 0.4,
            waves.field(waves.derivative(modes, 0)),
            numbers,
        )

    *same, slope, (square, mean) = found(field)
    for values in same:
        np.testing.assert_allclose(values, field, atol=ROUNDING)
    np.testing.assert_allclose(slope, slope_of_wave(grid), atol=ROUNDING)
    np.testing.assert_allclose(square, np.mean(field**2), rtol=ROUNDING)
    np.testing.assert_allclose(mean, 0.4, rtol=ROUNDING)


@pytest.mark.parametrize("shape", [(7,), (8, 9), pytest.param((6, 5, 8), marks=pytest.mark.slow)])
def test_transforms_of_several_fields_and_their_transposes(shape):
    """Three fields at once are those of NumPy's transforms one by one, for modes of no symmetry, too; vjp is the transpose."""
    rng = np.random.default_rng(0)
    waves = Waves(Grid(shape))
    axes = tuple(range(1, len(shape) + 1))
    modes = rng.normal(size=(3, *waves.shape)) + 1j * rng.normal(size=(3, *waves.shape))
    field = rng.normal(size=(3, *shape))
    wide = np.zeros((3, *shape[:-1], shape[-1] // 2 + 1), complex)
    wide[np.ix_(range(3), *(waves.indices(axis) for axis in range(len(shape))))] = modes

    @jax.jit
    def both(modes, field):
        return *jax.vjp(waves.field, modes)[1](field), *jax.vjp(waves.modes, field)[1](modes), waves.field(modes)

    to_modes, to_field, found = both(modes, field)
    np.testing.assert_allclose(found, np.fft.irfftn(wide, s=shape, axes=axes, norm="forward"), atol=ROUNDING)
    # JAX's convention: the derivative along d is the real part of the sum of the cotangent times d, without conjugates.
    np.testing.assert_allclose(np.sum(to_modes * modes).real, np.sum(field * found), rtol=ROUNDING)
    ahead = np.fft.rfftn(field, axes=axes, norm="forward")
    ahead = ahead[np.ix_(range(3), *(waves.indices(axis) for axis in range(len(shape))))]
    np.testing.assert_allclose(np.sum(to_field * field), np.sum(modes * ahead).real, rtol=1e-10)


def slope_of_wave(grid):
    """The derivative of `wave` along the first axis, by hand."""
    x, y = (
        2 * np.pi * (np.asarray(c) - o) / length
        for c, o, length in zip(grid.mesh(), grid.origin, grid.lengths, strict=True)
    )
    scale = 2 * np.pi / grid.lengths[0]
    return scale * (np.cos(x - 0.3) * np.cos(2 * y + 0.7) - 0.6 * np.sin(3 * x))


@pytest.mark.parametrize("axis", [0, 1])
def test_sampling_on_faces_is_exact_and_comes_back(axis):
    at_faces = fluids.centres_to_faces(UNEVEN, wave(UNEVEN), axis)
    np.testing.assert_allclose(at_faces, wave(UNEVEN, axis), atol=ROUNDING)
    np.testing.assert_allclose(fluids.faces_to_centres(UNEVEN, at_faces, axis), wave(UNEVEN), atol=ROUNDING)


def test_probes_are_exact_between_points_and_have_gradients():
    points = jnp.array([[0.123, 1.7], [-0.9, 3.3], [5.2, -4.0]])
    values, slopes = jax.jit(
        lambda p: (
            fluids.probe(UNEVEN, jnp.stack([wave(UNEVEN), 2 * wave(UNEVEN)]), p),
            jax.grad(lambda p: jnp.sum(fluids.probe(UNEVEN, wave(UNEVEN), p)))(p),
        )
    )(points)
    x, y = np.pi * (points[:, 0] + 1), 2 * np.pi / 3 * (points[:, 1] - 0.5)
    exact = np.sin(x - 0.3) * np.cos(2 * y + 0.7) + 0.4 + 0.2 * np.cos(3 * x)
    along = np.pi * (np.cos(x - 0.3) * np.cos(2 * y + 0.7) - 0.6 * np.sin(3 * x))
    across = -4 * np.pi / 3 * np.sin(x - 0.3) * np.sin(2 * y + 0.7)
    np.testing.assert_allclose(values, np.stack([exact, 2 * exact]), atol=ROUNDING)
    np.testing.assert_allclose(slopes, np.stack([along, across], 1), atol=1e-11)


def divergence(grid, velocity):
    """The largest mode of the divergence, in NumPy."""
    axes = range(1, grid.dimensions + 1)
    modes = np.fft.fftn(np.asarray(velocity), axes=axes, norm="forward")
    k = np.meshgrid(*(grid.wavenumbers(axis) for axis in range(grid.dimensions)), indexing="ij")
    return np.abs(sum(a * b for a, b in zip(k, modes, strict=True))).max() / np.abs(k).max()


@pytest.mark.parametrize("shape", [(16, 12), pytest.param((8, 10, 9), marks=pytest.mark.slow)])
def test_random_velocities_are_solenoidal_and_as_fast_as_asked(shape):
    grid = Grid(shape, lengths=tuple(1.0 + 0.5 * i for i in range(len(shape))))
    velocity = fluids.random_velocity(grid, jax.random.key(1), peak=2.0, speed=1.5)
    assert divergence(grid, velocity) < ROUNDING
    np.testing.assert_allclose(np.mean(np.sum(np.asarray(velocity) ** 2, axis=0)), 1.5**2, rtol=ROUNDING)
    assert not np.allclose(velocity, fluids.random_velocity(grid, jax.random.key(2), peak=2.0, speed=1.5))


@pytest.mark.parametrize("build", [fluids.taylor_green, fluids.double_shear_layer, fluids.kolmogorov_profile])
@pytest.mark.parametrize("shape", [(12, 16), (6, 12, 8)])
def test_initial_velocities_have_no_divergence(build, shape):
    grid = Grid(shape, lengths=tuple(1.0 + 0.5 * i for i in range(len(shape))))
    velocity = build(grid, 2.0)
    assert velocity.shape == (len(shape), *shape)
    assert divergence(grid, velocity) < ROUNDING


def test_the_vorticity_of_vortices_is_their_circulation():
    grid = Grid((48, 40), lengths=(6.0, 5.0))
    found = fluids.vortices(grid, [[1.5, 2.5], [4.5, 2.5]], [2.0, -0.5], radius=0.5)
    x, y = (np.asarray(c) for c in grid.mesh())
    direct = -1.5 / grid.volume + sum(
        c / (np.pi * 0.25) * np.exp(-((x - a - 6 * i) ** 2 + (y - 2.5 - 5 * j) ** 2) / 0.25)
        for a, c in ((1.5, 2.0), (4.5, -0.5))
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    )
    np.testing.assert_allclose(found, direct, atol=1e-10)  # what 40 waves resolve of a Gaussian this wide
    velocity = fluids.vortices(grid, [[1.5, 2.5], [4.5, 2.5]], [2.0, -0.5], radius=0.5, velocity=True)
    np.testing.assert_allclose(fluids.vorticity(grid, velocity), found, atol=1e-10)


@pytest.mark.slow
def test_single_precision_stays():
    grid = Grid((8, 8))
    velocity = fluids.taylor_green(grid, jnp.float32(1.0))
    assert velocity.dtype == jnp.float32
    assert fluids.vorticity(grid, velocity).dtype == jnp.float32
    assert fluids.centres_to_faces(grid, velocity, 0).dtype == jnp.float32
    assert fluids.random_velocity(grid, jax.random.key(0), speed=jnp.float32(1.0)).dtype == jnp.float32
