"""Spectral systems: what users see, what they are told, sources that learn, gradients, observables."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import fluids
from simkit.fluids import Burgers, Grid, SpectralFlow2D, SpectralFlow3D
from simkit.inspect._program_blocks import Survey
from simkit.study import REGISTRIES
from simkit.testing import check_system

MODELS = REGISTRIES["systems"].of("simkit.fluids")

GRID = Grid((16, 12), lengths=(2.0, 1.5))


@pytest.fixture(scope="module")
def start():
    return SpectralFlow2D.State(fluids.vorticity(GRID, fluids.random_velocity(GRID, jax.random.key(1), peak=1.0)))


class Stirrer(eqx.Module):
    """A closure that learns: a perceptron of the vorticity at each point."""

    net: eqx.nn.MLP

    def __call__(self, t, y, inputs):
        return jax.vmap(self.net)(y.vorticity.reshape(-1, 1)).reshape(y.vorticity.shape)


def system(viscosity=0.05, **options):
    return fluids.SpectralFlow2D(GRID, viscosity=viscosity, drag=0.1, **options)


@pytest.mark.slow
def test_gradients_and_the_transpose(start):
    """The derivative by start, viscosity, drag and force is linear, and reverse mode is its transpose; both are right."""

    def final(q):
        force = fluids.KolmogorovForce(amplitude=q["force"], waves=1)
        flow = eqx.tree_at(lambda s: s.drag, system(q["viscosity"], force=force), q["drag"])
        run = simkit.simulate(
            flow, SpectralFlow2D.State(q["start"]), np.linspace(0, 0.2, 3), step=0.02, on_failure="mark"
        )
        return run.ys.vorticity[1:]

    q = {"force": jnp.array(2.0), "viscosity": jnp.array(0.05), "drag": jnp.array(0.2), "start": start.vorticity}
    rng = np.random.default_rng(0)
    u = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), q)

    @jax.jit
    def both(q, u):
        value, forward = jax.jvp(final, (q,), (u,))
        v = jnp.cos(jnp.arange(float(value.size))).reshape(value.shape)
        back = jax.vjp(final, q)[1](v)[0]
        inner = lambda a, b: sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
        return inner(v, forward), inner(back, u), inner(v, value), jnp.sqrt(inner(v, v) * inner(forward, forward))

    ahead, behind, _, size = both(q, u)
    assert abs(ahead - behind) < 1e-12 * size
    h = 1e-5
    values = [both(jax.tree.map(lambda x, d, s=s: x + s * h * d, q, u), u)[2] for s in (1, -1)]
    np.testing.assert_allclose((values[0] - values[1]) / (2 * h), ahead, rtol=1e-6)  # h**2 and rounding by h


def transforms_of(block):
    """How many transforms a program makes, each branch counted once."""
    own = sum(x.primitive.name == "fft" for i, x in enumerate(block.jaxpr.eqns) if i not in block.inner)
    held = [inner for found in block.inner.values() for inner in found.blocks]
    return own + sum((inner.factor or 1) * transforms_of(inner) for inner in held)


LINE = Grid(256)
HELD = (64 * 5 + 50, 64 + 50, 90, 60)
"""In states: all steps with their stages, all steps, segments with stages, segments."""


def energy_of_burgers(viscosity, held):
    flow, y0 = fluids.Burgers(LINE, viscosity=viscosity), Burgers.State(jnp.sin(jnp.asarray(LINE.mesh()[0])))
    memory = simkit.Checkpointed(int(held * 16 * flow.waves.shape[0]))
    times = jnp.array([0.0, 0.25])
    run = simkit.simulate(flow, y0, times, step=simkit.Fixed(64), gradient=memory, on_failure="mark")
    return jnp.sum(run.final().u ** 2)


def test_what_reverse_mode_keeps_spares_transforms():
    count = lambda held: transforms_of(
        Survey(jax.make_jaxpr(jax.grad(lambda x: energy_of_burgers(x, held)))(0.05)).root
    )
    found = [count(held) for held in HELD]
    # Of the four stages of 64 steps: those to the modes once more without stages, both kinds once more in segments.
    np.testing.assert_array_equal(np.diff(found), [4 * 64, 4 * 64, 4 * 64])


@pytest.mark.slow
def test_what_reverse_mode_keeps_does_not_change_derivatives():
    found = [jax.jit(jax.grad(lambda x, h=held: energy_of_burgers(x, h)))(0.05) for held in HELD]
    np.testing.assert_allclose(found, found[0], rtol=1e-12)
    h = 1e-5
    slope = jax.jit(jax.grad(lambda x: energy_of_burgers(x, HELD[2])))
    second = jax.jit(lambda x: jax.jvp(slope, (x,), (1.0,))[1])(0.05)
    np.testing.assert_allclose(second, (slope(0.05 + h) - slope(0.05 - h)) / (2 * h), rtol=1e-6)


@pytest.mark.slow
def test_a_source_learns(start):
    """The numbers of a network in the right side have gradients."""
    net = eqx.nn.MLP(1, 1, 4, 1, activation=jnp.tanh, key=jax.random.key(0), dtype=float)

    def loss(net):
        run = simkit.simulate(system(source=Stirrer(net)), start, [0.0, 0.1], step=0.05, on_failure="mark")
        return jnp.sum(run.final().vorticity ** 2)

    arrays, rest = eqx.partition(net, eqx.is_array)
    value = jax.jit(lambda a: loss(eqx.combine(a, rest)))
    slope = jax.jit(jax.grad(lambda a: loss(eqx.combine(a, rest))))(arrays)
    change = jax.tree.map(lambda x: jnp.cos(jnp.arange(float(x.size))).reshape(x.shape), arrays)
    moved = [value(jax.tree.map(lambda x, d, s=s: x + s * d, arrays, change)) for s in (1e-5, -1e-5)]
    found = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(change), strict=True))
    np.testing.assert_allclose(found, (moved[0] - moved[1]) / 2e-5, rtol=1e-6)


def test_a_step_that_is_too_long_is_refused_with_the_limit(start):
    with pytest.raises(simkit.ArgumentError, match=r"`step` must be at most 0\.\d+ for `ETDRK4` to be stable"):
        simkit.simulate(system(1e-4), start, [0.0, 10.0], step=2.0)


def test_a_start_is_looked_at(start):
    grid = Grid((12, 12, 12))
    noise = np.random.default_rng(0).normal(size=(12, 12))
    with pytest.warns(UserWarning, match=r"not resolved by its grid: \d+\.\d% of a field's variance") as told:
        run = simkit.simulate(
            fluids.SpectralFlow2D(Grid((12, 12))), SpectralFlow2D.State(noise - noise.mean()), [0.0, 0.001], step=0.001
        )
    assert len(told) == 1
    assert run.notes[0].startswith("At the end, time 0.001, SpectralFlow2D is not resolved")
    assert "note" in repr(run)
    x = grid.mesh()[0]
    with pytest.warns(UserWarning, match=r"has divergence, 1 of the whole"):
        run = simkit.simulate(
            fluids.SpectralFlow3D(grid), SpectralFlow3D.State(np.stack([np.sin(x), 0 * x, 0 * x])), [0.0, 0.1], step=0.1
        )
    np.testing.assert_allclose(run.final().velocity, 0, atol=1e-14)
    with pytest.warns(UserWarning, match="has a mean vorticity"):
        simkit.simulate(system(), SpectralFlow2D.State(start.vorticity + 1), [0.0, 0.01], step=0.01)
    spoilt = SpectralFlow2D.State(start.vorticity.at[3, 4].set(jnp.nan))
    with pytest.raises(simkit.SimulationError, match=r"`y0\.vorticity\.3\.4` is nan"):
        simkit.simulate(system(), spoilt, [0.0, 0.01], step=0.01)
    with pytest.raises(simkit.ArgumentError, match=r"end in the shape \(16, 12\) of its grid"):
        simkit.simulate(system(), SpectralFlow2D.State(jnp.zeros((12, 16))), [0.0, 0.01], step=0.01)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fluids.SpectralFlow2D(Grid(8)), "must have 2 dimensions"),
        (lambda: fluids.SpectralFlow2D(GRID, mean_flow=[1.0]), r"shape \(2,\)"),
        (lambda: fluids.KortewegDeVries(GRID), "must have 1 dimensions"),
        (lambda: fluids.Burgers(Grid(4, faces=[fluids.stretched_faces(4)])), "equal cells"),
        (lambda: fluids.Boussinesq(flow=Burgers.State(1.0)), "must be a SpectralFlow2D"),
    ],
)
def test_systems_that_cannot_be(build, message):
    with pytest.raises(simkit.ArgumentError, match=message):
        build()


def test_observables(start):
    flow = system(force=fluids.KolmogorovForce(amplitude=2.0, waves=1), hyperviscosity=1e-9)
    velocity = jax.jit(lambda y: flow.velocity(y))(start)
    k, energy = fluids.energy_spectrum(GRID, velocity)
    np.testing.assert_allclose(energy.sum(), 0.5 * np.mean(np.sum(np.asarray(velocity) ** 2, axis=0)), rtol=1e-12)
    np.testing.assert_allclose(k[1], np.pi, rtol=1e-12)
    budget = fluids.energy_budget(flow, start)
    losses = budget["viscous"] + budget["drag"] + budget["hyperviscous"]
    np.testing.assert_allclose(budget["change"], budget["injection"] - losses, rtol=1e-10)
    np.testing.assert_allclose(budget["viscous"], fluids.dissipation(GRID, velocity, 0.05), rtol=1e-10)
    assert np.abs(fluids.divergence(GRID, velocity)).max() < 1e-11
    run = simkit.simulate(flow, start, [0.0, 0.05, 0.1], step=0.05)
    points = [[GRID.centres(0)[3], GRID.centres(1)[5]], [0.4, 0.2]]
    seen = fluids.Probes(points, "vorticity")
    np.testing.assert_allclose(seen(flow, run)[:, 0], run.ys.vorticity[:, 3, 5], rtol=1e-10)
    assert hash(seen) == hash(fluids.Probes(points, "vorticity"))
    with pytest.raises(simkit.UnknownNameError, match="no field of the state `vorticty`"):
        fluids.Probes(points, "vorticty")(flow, run)


@pytest.mark.slow
def test_adaptive_steps_agree_with_fixed_ones_and_members_with_runs(start):
    times = [0.0, 0.1, 0.3]
    fixed = simkit.simulate(system(), start, times, step=0.002)
    adaptive = simkit.simulate(system(), start, times, step=simkit.Adaptive(1e-6, 1e-9))
    assert adaptive.solver.startswith("KenCarp4")
    np.testing.assert_allclose(adaptive.ys.vorticity, fixed.ys.vorticity, atol=1e-5)


@pytest.mark.slow
def test_single_precision(start):
    flow, y0 = simkit.cast((system(force=fluids.KolmogorovForce(waves=1)), start), jnp.float32)
    run = simkit.simulate(flow, y0, np.array([0.0, 0.1], np.float32), step=0.02)
    assert run.ys.vorticity.dtype == jnp.float32
    double = simkit.simulate(system(force=fluids.KolmogorovForce(waves=1)), start, [0.0, 0.1], step=0.02)
    np.testing.assert_allclose(run.final().vorticity, double.final().vorticity, atol=1e-4)  # of values up to ten


@pytest.mark.slow
def test_an_ensemble_over_viscosity(start):
    times = np.array([0.0, 0.1])
    members = simkit.ensemble(system(), start, times, over={"viscosity": [0.02, 0.05]}, step=0.05)
    alone = simkit.simulate(system(), start, times, step=0.05)
    np.testing.assert_allclose(members.ys.vorticity[1], alone.ys.vorticity, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flow", "waves"])
def test_check_system(name):
    """What is checked of every system, on few cells."""
    if name == "flow":
        grid = Grid((8, 8))
        y0 = SpectralFlow2D.State(fluids.vorticity(grid, fluids.taylor_green(grid)) + np.sin(grid.mesh()[0]))
        force = fluids.KolmogorovForce(waves=1)
        checked = fluids.SpectralFlow2D(grid, viscosity=0.05, drag=0.1, hyperviscosity=1e-3, force=force)
    else:
        x = Grid(12).mesh()[0]
        checked, y0 = fluids.GinzburgLandau(Grid(12)), fluids.GinzburgLandau.State(0.5 * np.cos(x), 0.3 * np.sin(2 * x))
    check_system(checked, y0, np.linspace(0.0, 1.0, 5))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, kind in MODELS.items() if issubclass(kind, fluids.SpectralSystem)])
def test_examples_run(name):
    example = MODELS[name].example()
    step = 1.0 if name == "gray_scott" else 0.02
    run = simkit.simulate(example.system, example.y0, example.times, step=step)
    assert run.status == 0
    kept = jax.jit(jax.vmap(lambda y: example.system.invariants(0.0, y)))(run.ys)
    for values in kept.values():
        np.testing.assert_allclose(values[-1], values[0], rtol=1e-6, atol=1e-12)


def test_a_problem_has_gradients_of_flows_that_keep_their_stages():
    """Times differ between the experiments of a problem, so each member has its own: reverse mode against forward mode."""
    grid = fluids.Grid((16, 16))
    start = fluids.SmoothVorticity(grid, waves=3, weights=jnp.ones(28), size=1.5).state()
    flow = fluids.SpectralFlow2D(grid, viscosity=0.2, force=fluids.KolmogorovForce(amplitude=1.0, waves=2))
    data = {"vorticity": np.zeros((2, 16, 16))}
    experiments = [
        simkit.Experiment("a", [0.25, 0.5], data, start=0.0),
        simkit.Experiment("b", [0.2, 0.5], data, start=0.0),
    ]
    free = {"viscosity": simkit.Free(bounds=(0.01, 1.0)), "force.amplitude": simkit.Free(bounds=(0.1, 2.0))}
    noise = {"vorticity": simkit.noise.Normal(1.0)}
    problem = simkit.Problem(flow, experiments, y0=start, free=free, noise=noise, step=0.125)
    at = jnp.array([0.1, 0.8])
    reverse, forward = (derivative(problem.log_posterior)(at) for derivative in (jax.grad, jax.jacfwd))
    assert (np.abs(reverse) > 1e-3).all()
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)
