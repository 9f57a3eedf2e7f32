"""Modes, walls and refusals of flows in a layer between two plane walls."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import simkit
from simkit import fluids
from simkit.fluids.layers._legendre import lobatto
from simkit.fluids.layers._tables import diffusion, stokes
from simkit.testing import check_system

D, N = fluids.Dirichlet, fluids.Neumann
HOT_BELOW = (D(jnp.asarray(1.0)), D(jnp.asarray(0.0)))


def heat(**given):
    return fluids.LayerScalar(**({"diffusivity": 1.0, "buoyancy": 1e4, "walls": HOT_BELOW} | given))


def flow(layer, **given):
    return fluids.PlaneLayerFlow(layer, **({"viscosity": 1.0, "scalars": {"temperature": heat()}} | given))


def along(speed, dimensions=2):
    return fluids.NoSlip(jnp.array([speed] + [0.0] * (dimensions - 1)))


@pytest.mark.parametrize("count", [8, 9, 65])
def test_means_over_the_points_are_exact(count):
    points = lobatto(count)
    for degree in (0, 2, 2 * count - 4):
        np.testing.assert_allclose(points.weights @ points.places**degree, 1 / (degree + 1), rtol=1e-13)


def test_modes_of_diffusion_are_sines_and_cosines():
    """Rates of modes that 40 polynomials resolve; among functions of mean 0 those of tan x = x as well."""
    layer = fluids.PlaneLayer((1, 65))
    n = np.arange(1, 9)
    np.testing.assert_allclose(diffusion(layer, (True, True)).rates[:8], (np.pi * n) ** 2, rtol=1e-12)
    np.testing.assert_allclose(diffusion(layer, (True, False)).rates[:8], (np.pi * (n - 0.5)) ** 2, rtol=1e-12)
    np.testing.assert_allclose(diffusion(layer, (False, False)).rates[:8], (np.pi * (n - 1)) ** 2, rtol=1e-12)
    root = 4.493409457909064  # of tan x = x
    balanced = diffusion(layer, (True, True), balanced=True)
    np.testing.assert_allclose(balanced.rates[:3], [4 * np.pi**2, 4 * root**2, 16 * np.pi**2], rtol=1e-12)


def test_stokes_modes_have_the_rates_of_their_transcendental_equations():
    """Between free walls (n pi)^2 + K^2; even modes between rigid ones, K tanh(K/2) = -q tan(q/2) with the rate q^2 + K^2."""
    layer = fluids.PlaneLayer((4, 65), (2 * np.pi / 3.0, 1.0))
    free = stokes(layer, (False, False)).rates[1, 0, 0]
    np.testing.assert_allclose(free[:8], (np.pi * np.arange(1, 9)) ** 2 + 9.0, rtol=1e-11)
    rigid = stokes(layer, (True, True)).rates[1, 0, 0]
    even = np.sqrt(rigid[:8:2] - 9.0)
    np.testing.assert_allclose(3 * np.tanh(1.5) + even * np.tan(even / 2), 0, atol=1e-8)
    odd = np.sqrt(rigid[1:8:2] - 9.0)
    np.testing.assert_allclose(3 / np.tanh(1.5) - odd / np.tan(odd / 2), 0, atol=1e-8)


WALLS = {
    "rigid": (fluids.NoSlip(), fluids.NoSlip()),
    "free": (fluids.FreeSlip(), fluids.FreeSlip()),
    "mixed": (fluids.NoSlip(), fluids.FreeSlip()),
}


@eqx.filter_jit
def admitted(system, y):
    """Admitted part of a state."""
    return system.decode(system.encode(y))


def divergence(layer, velocity):
    """Divergence and slopes across, by Fourier series along the walls and of polynomials through the points across."""
    velocity, total = np.asarray(velocity), 0.0
    for axis in range(layer.dimensions - 1):
        n, length = layer.shape[axis], layer.lengths[axis]
        k = 2 * np.pi / length * np.fft.fftfreq(n, 1 / n)
        k = k.reshape([-1 if i == axis else 1 for i in range(layer.dimensions)])
        total = total + np.fft.ifft(1j * k * np.fft.fft(velocity[axis], axis=axis), axis=axis).real
    s = lobatto(layer.shape[-1]).places
    vander, slopes = np.polynomial.legendre.legvander(s, s.size - 1), np.zeros((s.size, s.size))
    for i in range(s.size):
        slopes[:, i] = np.polynomial.legendre.legval(s, np.polynomial.legendre.legder(np.eye(s.size)[i], axis=0))
    across = slopes @ np.linalg.inv(vander) * 2 / layer.depth
    return total + velocity[-1] @ across.T, velocity @ across.T


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "name"),
    [((16, 17), "rigid"), ((8, 6, 17), "mixed"), ((8, 6, 17), "free")],
    ids=["rigid-2d", "mixed-3d", "free-3d"],
)
def test_states_have_no_divergence_and_meet_the_walls(shape, name):
    d = len(shape)
    layer = fluids.PlaneLayer(shape, (2.0, 1.5, 0.7)[-d:])
    system = flow(layer, walls=WALLS[name])
    y = system.start(key=jax.random.key(0), noise=1.0)
    again = admitted(system, y)
    size = float(jnp.abs(y.velocity).max())
    np.testing.assert_allclose(again.velocity, y.velocity, atol=1e-13 * size)
    np.testing.assert_allclose(again.scalars["temperature"], y.scalars["temperature"], atol=1e-13)
    spread, slope = divergence(layer, y.velocity)
    bound = 1e-12 * np.abs(slope).max()
    assert np.abs(spread).max() < bound
    for end, wall in zip((0, -1), WALLS[name], strict=True):
        assert np.abs(y.velocity[-1][..., end]).max() < 1e-13 * size
        if isinstance(wall, fluids.NoSlip):
            assert np.abs(y.velocity[..., end]).max() < 1e-13 * size
        else:
            assert np.abs(slope[:-1][..., end]).max() < bound


@pytest.mark.slow
@pytest.mark.parametrize(("dimensions", "name"), [(2, "rigid"), (3, "rigid"), (3, "free")])
def test_products_keep_energy_and_mean_square(dimensions, name):
    """Without viscosity, diffusion and buoyancy kinetic energy and the mean square of a scalar stay, however coarse the layer."""
    layer = fluids.PlaneLayer((8, 6, 9)[-dimensions:] if dimensions == 2 else (8, 6, 9), 1.0)
    carried = heat(buoyancy=0.0, walls=N())
    system = flow(layer, walls=WALLS[name], scalars={"temperature": carried}, coriolis=3.0 if dimensions == 3 else None)
    leaves, structure = jax.tree.flatten(system.encode(system.start(key=jax.random.key(0))))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    rough = [jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    modes = system.encode(system.decode(structure.unflatten(rough)))

    def totals(modes):
        y = system.decode(modes)
        return layer.mean(jnp.sum(y.velocity**2, axis=0)), layer.mean(y.scalars["temperature"] ** 2)

    slope = system.nonlinear(0.0, modes, None)
    values, changes = jax.jvp(totals, (modes,), (slope,))
    rate = float(jnp.sqrt(layer.mean(jnp.sum(system.decode(slope).velocity ** 2, axis=0)) / values[0]))
    assert rate > 1  # so that the products are not small
    for value, change in zip(values, changes, strict=True):
        assert abs(change) < 1e-13 * rate * value


@pytest.mark.slow
def test_flows_along_the_walls_are_exact():
    layer = fluids.PlaneLayer((4, 17), (2.0, 0.5), origin=(0.0, -0.25))
    z = layer.mesh()[1]
    for walls, force, exact in (
        (fluids.NoSlip(), 3.0, 1.5 / 0.2 * (0.25**2 - z**2)),
        ((along(-1.0), along(2.0)), 0.0, 0.5 + 6.0 * z),
        ((fluids.NoSlip(), fluids.FreeSlip()), 3.0, 1.5 / 0.2 * (0.75 - z) * (z + 0.25)),
    ):
        system = flow(layer, viscosity=0.2, walls=walls, force=force, scalars={"heat": heat(buoyancy=0.0)})
        np.testing.assert_allclose(system.start().velocity[0], exact, atol=1e-14)
        rest = admitted(system, system.State(jnp.zeros((2, *layer.shape)), {"heat": system.start().scalars["heat"]}))
        run = simkit.simulate(system, rest, [0.0, 50.0], step=0.05)
        np.testing.assert_allclose(run.final().velocity[0], exact, atol=1e-14)
    system = fluids.PlaneLayerFlow(layer, viscosity=0.2, bulk_velocity=2.0)
    run = simkit.simulate(system, system.start(key=jax.random.key(0), noise=0.1), [0.0, 30.0], step=0.025)
    exact = 3.0 * (1 - (z / 0.25) ** 2)
    np.testing.assert_allclose(run.final().velocity[0], exact, atol=1e-13)
    found = system.outputs(0.0, run.final(), None)
    np.testing.assert_allclose(found["wall_shear"], [[4.8], [-4.8]], rtol=1e-12)
    np.testing.assert_allclose(found["dissipation"], 0.2 * (24.0**2) / 3, rtol=1e-12)


@pytest.mark.parametrize(
    ("walls", "exact", "flux"),
    [
        ((D(2.0), D(-1.0)), lambda z: 2 - 1.5 * z, (3.0, 3.0)),
        ((D(2.0), N(0.5)), lambda z: 2 + 0.5 * z, (-1.0, -1.0)),
        ((N(0.5), D(2.0)), lambda z: 3 - 0.5 * z, (1.0, 1.0)),
        ((N(0.5), N(-0.5)), lambda z: 0.5 - 0.5 * z, (1.0, 1.0)),
    ],
    ids=["values", "value-below", "value-above", "slopes"],
)
def test_conduction_between_given_values_and_slopes(walls, exact, flux):
    """Slopes are outward; the flux is upward; without a given value the mean is 0."""
    layer = fluids.PlaneLayer((4, 9), (1.0, 2.0))
    system = flow(layer, scalars={"salt": heat(diffusivity=2.0, walls=walls)})
    start = system.start()
    np.testing.assert_allclose(start.scalars["salt"], exact(layer.mesh()[1]), atol=1e-14)
    slope = system.nonlinear(0.0, system.encode(start), None)
    assert max(float(jnp.abs(x).max()) for x in jax.tree.leaves(slope)) < 1e-10 * 1e4
    found = system.outputs(0.0, start, None)
    np.testing.assert_allclose(found["flux_salt"], flux, rtol=1e-13)
    np.testing.assert_allclose(found["nusselt_salt"], [1.0, 1.0], rtol=1e-13)


@pytest.mark.slow
def test_no_conduction_to_compare_with():
    """The same flux at both walls: what the mean values differ by is rounding."""
    layer = fluids.PlaneLayer((4, 13), (2.0, 1.0))
    system = flow(layer, scalars={"heat": heat(diffusivity=0.3, buoyancy=0.0, walls=N(1.0))})
    found = system.outputs(0.1, simkit.simulate(system, system.start(), [0.0, 0.1], step=0.05).final(), None)
    assert np.isnan(found["nusselt_heat"]).all()
    np.testing.assert_allclose(found["flux_heat"], [0.3, -0.3], rtol=1e-12)


@pytest.mark.slow
def test_a_plate_that_starts_at_once():
    r"""Stokes' first problem: fluid at rest beside a wall that moves, $u = U \operatorname{erfc}(z / 2 \sqrt{\nu t})$."""
    layer = fluids.PlaneLayer((4, 33), (1.0, 1.0))
    system = flow(layer, viscosity=0.01, scalars=None, walls=(along(1.0), fluids.NoSlip()))
    with pytest.warns(UserWarning, match="does not meet the walls"):
        end = simkit.simulate(system, system.start(jnp.zeros((2, 4, 33))), [0.0, 0.5], step=0.005).final()
    exact = scipy.special.erfc(layer.mesh()[1] / (2 * np.sqrt(0.01 * 0.5)))
    np.testing.assert_allclose(end.velocity[0], exact, atol=2e-3)


@pytest.mark.slow
def test_a_mean_grows_by_what_flows_in():
    layer = fluids.PlaneLayer((4, 9), (1.0, 2.0))
    system = flow(layer, scalars={"heat": heat(diffusivity=0.5, walls=(N(1.0), N(0.25)))})
    run = simkit.simulate(system, system.start(key=jax.random.key(0)), [0.0, 4.0], step=0.01)
    before, after = (layer.mean(x.scalars["heat"]) for x in (system.start(), run.final()))
    np.testing.assert_allclose(after - before, 4.0 * 0.5 * 1.25 / 2.0, rtol=1e-12)


@pytest.mark.slow
def test_units_of_any_size_and_both_float_types():
    """Lengths of 1e-12 and times of 1e-9 change nothing but the numbers."""
    ends = {}
    for dtype in ("float64", "float32"):
        for length, time in ((1.0, 1.0), (1e-12, 1e-9)):
            layer = fluids.PlaneLayer((16, 17), (2 * length, length))
            kappa = length**2 / time
            warm = fluids.LayerScalar(kappa, buoyancy=5e3 * length / time**2, walls=HOT_BELOW)
            system = fluids.PlaneLayerFlow(layer, viscosity=kappa, walls=WALLS["mixed"], scalars={"heat": warm})
            start = system.start(key=jax.random.key(0), noise=0.1)
            system, start = simkit.cast((system, start), jnp.dtype(dtype))
            run = simkit.simulate(system, start, [0.0, 0.2 * time], step=0.005 * time)
            assert run.final().velocity.dtype == dtype
            ends[dtype, length] = np.asarray(run.final().velocity, float) * time / length
    whole = ends["float64", 1.0]
    np.testing.assert_allclose(ends["float64", 1e-12], whole, atol=1e-12 * np.abs(whole).max())
    for length in (1.0, 1e-12):
        np.testing.assert_allclose(ends["float32", length], whole, atol=1e-4 * np.abs(whole).max())


@pytest.mark.slow
def test_conformance():
    check_system(fluids.PlaneLayerFlow)


@pytest.mark.slow
def test_a_source_and_a_given_start():
    layer = fluids.PlaneLayer((8, 9), (2.0, 1.0))
    pushed = lambda t, y, inputs: fluids.PlaneLayerFlow.State(y.velocity, {"temperature": -y.scalars["temperature"]})
    system = flow(layer, walls=fluids.FreeSlip(), scalars={"temperature": heat(walls=D())})
    fed = flow(layer, walls=fluids.FreeSlip(), scalars={"temperature": heat(walls=D())}, source=pushed)
    x, z = layer.mesh()
    y = system.start(scalars={"temperature": jnp.asarray(np.sin(np.pi * x) * z * (1 - z))}, key=jax.random.key(0))
    modes = system.encode(y)
    more = jax.tree.map(jnp.subtract, fed.nonlinear(0.0, modes, None), system.nonlinear(0.0, modes, None))
    for found, expected in (
        (more.velocity, modes.velocity),
        (more.scalars["temperature"], -modes.scalars["temperature"]),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.slow
def test_a_start_that_is_not_admitted_and_a_last_state_that_is_not_resolved():
    layer = fluids.PlaneLayer((8, 9), (2.0, 1.0))
    system = flow(layer)
    y = system.start()
    slipping = system.State(y.velocity.at[0].add(1.0), y.scalars)
    with pytest.warns(UserWarning, match="does not meet the walls"):
        system.review(slipping, None, None)
    modes = system.encode(system.start(key=jax.random.key(0), noise=1.0))
    rough = jax.tree.map(jnp.ones_like, modes)
    assert "is not resolved by its layer" in system.note(1.0, system.decode(rough))
    assert not system.note(1.0, y)
    deep = flow(fluids.PlaneLayer((16, 16, 17), (2.0, 2.0, 1.0)), walls=fluids.FreeSlip())
    assert not deep.note(1.0, deep.start(key=jax.random.key(0), noise=1.0))


LAYER = fluids.PlaneLayer((8, 9), (2.0, 1.0))


def simulated(**given):
    system = flow(LAYER)
    y = system.start()
    values = {"velocity": y.velocity, "scalars": y.scalars, "step": 1e-3} | given
    step = values.pop("step")
    return simkit.simulate(system, system.State(**values), [0.0, step], step=step)


REFUSED = {
    "no point across": (lambda: fluids.PlaneLayer((8, 5)), "at least 8 points across"),
    "one axis": (lambda: fluids.PlaneLayer((8,)), r"must be the numbers of points \(nx, nz\)"),
    "walls at one place": (lambda: fluids.PlaneLayer((8, 9), (1.0, 0.0)), "`lengths` must be positive"),
    "no viscosity": (lambda: flow(LAYER, viscosity=0.0), "`viscosity` must be positive"),
    "a negative diffusivity": (lambda: heat(diffusivity=-1.0), "`diffusivity` must be positive"),
    "a wall of a scalar": (lambda: flow(LAYER, walls=D()), "`walls` must be the conditions"),
    "a value of many numbers": (lambda: heat(walls=D(jnp.ones(2))), "`walls` must be one number"),
    "a value that is no number": (lambda: heat(walls=D(jnp.asarray(jnp.inf))), "`walls` must be finite"),
    "a text for a number": (lambda: D("1"), "must be a real number"),
    "a force that is no number": (lambda: flow(LAYER, force=jnp.asarray(jnp.nan)), "`force` .* must be finite"),
    "a wall of no speed": (lambda: flow(LAYER, walls=along(jnp.inf)), "must be finite"),
    "a step too long for buoyancy": (lambda: simulated(step=0.1), r"`step` must be at most \S+ for `ETDRK4`"),
    "three walls": (lambda: heat(walls=(D(), D(), D())), "`walls` must be the conditions"),
    "a wall that moves away": (lambda: flow(LAYER, walls=fluids.NoSlip(jnp.array([0.0, 1.0]))), "moves along itself"),
    "a wall of three components": (lambda: flow(LAYER, walls=along(1.0, 3)), "velocity of a wall"),
    "rotation in two dimensions": (lambda: flow(LAYER, coriolis=1.0), r"Take `PlaneLayer\(\(8, 1, 9\)"),
    "force and flux": (lambda: flow(LAYER, force=1.0, bulk_velocity=1.0), "must not both be given"),
    "force of two components": (lambda: flow(LAYER, force=jnp.ones(2)), r"`force` .* have the shape \(1,\)"),
    "a name that clashes": (lambda: flow(LAYER, scalars={"velocity": heat()}), "may be called 'velocity'"),
    "a name of an output": (
        lambda: flow(LAYER, scalars={"a": heat(), "nusselt_a": heat()}),
        "may be called 'nusselt_a'",
    ),
    "no name": (lambda: flow(LAYER, scalars={"my heat": heat()}), "must be a word"),
    "an unknown scalar": (lambda: flow(LAYER).start(scalars={"salt": 1.0}), "but names salt"),
    "a start without scalars": (lambda: simulated(scalars={}), "state with the scalars of the flow"),
    "a start of another shape": (lambda: simulated(velocity=jnp.zeros((2, 9, 8))), "the axis across last"),
    "a step too long": (
        lambda: simulated(velocity=flow(LAYER).start(key=jax.random.key(0), noise=100.0).velocity, step=0.5),
        r"`step` must be at most \S+ for `ETDRK4`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with pytest.raises(simkit.ArgumentError, match=text):
        call()
