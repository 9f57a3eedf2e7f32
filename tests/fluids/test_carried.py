"""Drops in flows: exact streams, a decaying vortex against SciPy, balances of momentum and energy, grids with walls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import simkit
from simkit import fluids
from simkit.core import Setup
from simkit.testing import check_gradients, check_system

simkit.enable_x64()

GRID = fluids.Grid((16, 16))
VISCOSITY, TAU, GRAVITY = 0.05, 0.4, np.array([0.0, -0.3])
PLACES = np.random.default_rng(0).uniform(0.0, 2 * np.pi, (3, 2))
WIRES = {"drops.velocity": fluids.FlowAtBodies("flow", "drops")}


def _start(places=PLACES):
    state = fluids.SpectralFlow2D.State(fluids.vorticity(GRID, fluids.taylor_green(GRID)))
    return {"flow": state, "drops": fluids.Drops.State(places, np.zeros_like(places))}


def _both(**more):
    parts = {"flow": fluids.SpectralFlow2D(GRID, viscosity=VISCOSITY), "drops": fluids.Drops(TAU, GRAVITY)}
    return simkit.Coupled({**parts, **more}, WIRES)


def test_the_system_passes():
    check_system(fluids.Drops)


def test_drops_take_up_a_uniform_stream():
    system, y0, times, inputs = fluids.Drops.example()
    run = simkit.simulate(system, y0, times, inputs=inputs, step=simkit.Adaptive(1e-10))
    stream, tau, t = np.asarray(inputs["velocity"])[None], 0.1, np.asarray(times)[:, None, None]
    np.testing.assert_allclose(run.ys.velocity, stream * (1 - np.exp(-t / tau)), atol=1e-8)
    np.testing.assert_allclose(run.ys.position, stream * (t - tau * (1 - np.exp(-t / tau))), atol=1e-8)
    with pytest.raises(simkit.ArgumentError, match=r"`velocity` \(length/time\)"):
        simkit.simulate(system, y0, times)


def _exact(places, end, tau=TAU):
    """Drops in Taylor and Green's vortex, which keeps its form while it decays, by SciPy."""
    vortex = fluids.taylor_green(GRID)

    def velocity(t, x):
        known = np.exp(-2 * VISCOSITY * t)
        return known * np.stack([np.cos(x[:, 0]) * np.sin(x[:, 1]), -np.sin(x[:, 0]) * np.cos(x[:, 1])], axis=1)

    mesh = np.stack([np.asarray(x).ravel() for x in GRID.mesh()], axis=1)
    np.testing.assert_allclose(np.asarray(vortex).reshape(2, -1).T, velocity(0.0, mesh), atol=1e-12)

    def field(t, y):
        x, v = y.reshape(2, -1, 2)
        return np.concatenate([v.ravel(), ((velocity(t, x) - v) / tau + GRAVITY).ravel()])

    start = np.concatenate([places.ravel(), np.zeros(places.size)])
    found = scipy.integrate.solve_ivp(field, (0.0, end), start, method="LSODA", rtol=1e-11, atol=1e-12)
    return found.y[:, -1].reshape(2, -1, 2)[0]


def test_drops_in_a_decaying_vortex_are_those_of_scipy_and_the_order_is_two():
    exact, errors = _exact(PLACES, 2.0), []
    for h in (0.2, 0.1):
        run = simkit.simulate(_both(), _start(), [0.0, 2.0], step=h)
        errors.append(np.abs(run.final()["drops"].position - exact).max())
    assert run.solver.startswith("Strang")
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=0.2)
    whole = simkit.simulate(_both(), _start(), [0.0, 2.0], solver=simkit.solvers.Tsit5(), step=simkit.Adaptive(1e-9))
    np.testing.assert_allclose(whole.final()["drops"].position, exact, atol=1e-7)


def test_own_substeps_serve_drops_that_are_stiff_for_the_steps_of_the_flow():
    fast = Setup(_both()).put({"drops.response_time": 0.01}).system
    solvers = simkit.solvers
    parts = {"drops": solvers.RK4(), "flow": solvers.ETDRK4()}
    coarse = simkit.simulate(fast, _start(), [0.0, 1.0], solver=solvers.Strang(parts), step=0.1, on_failure="mark")
    assert not np.all(np.abs(coarse.final()["drops"].position) < 1e3)
    own = solvers.Strang(parts, substeps={"drops": 10})
    run = simkit.simulate(fast, _start(), [0.0, 1.0], solver=own, step=0.1).final()
    np.testing.assert_allclose(run["drops"].position, _exact(PLACES, 1.0, 0.01), atol=2e-3)


def _two_way(mass):
    flow = fluids.SpectralFlow2D(GRID, viscosity=VISCOSITY, force=fluids.InputForce())
    drops = fluids.Drops(TAU, np.zeros(2))
    return simkit.Coupled(
        {"flow": flow, "drops": drops}, {**WIRES, "flow.force": fluids.Reaction("flow", "drops", mass)}
    )


def test_what_drops_take_the_flow_gives():
    """Momentum: the force on the fluid is minus that on the drops. Energy: all that is lost goes into viscosity and drag."""
    both, mass, t = _two_way(0.3), 0.3, jnp.zeros(())
    y = _start()
    y["drops"] = fluids.Drops.State(PLACES, np.random.default_rng(1).normal(size=PLACES.shape))
    seen = both.received("flow", t, y, None)["force"]
    pull = both["drops"].pull(y["drops"], both.received("drops", t, y, None)["velocity"])
    cell = GRID.volume / GRID.size
    np.testing.assert_allclose(cell * seen.sum((1, 2)), -mass * pull.sum(0), rtol=1e-12)

    def energy(state):
        fluid = 0.5 * cell * jnp.sum(both["flow"].velocity(both.decode(state)["flow"]) ** 2)
        return fluid + 0.5 * mass * jnp.sum(state["drops"].velocity ** 2)

    state = both.encode(y)
    _, gain = jax.jvp(energy, (state,), (both.vector_field(t, state, None),))
    vortex = both.decode(state)["flow"].vorticity
    lost = VISCOSITY * cell * jnp.sum(vortex**2) + mass * TAU * jnp.sum(pull**2)
    np.testing.assert_allclose(gain, -lost, rtol=1e-10)


@pytest.mark.slow
def test_the_order_is_two_in_both_directions():
    start, steps = _start(), (0.2, 0.1)
    both = _two_way(0.3)
    whole = simkit.simulate(both, start, [0.0, 1.0], solver=simkit.solvers.Tsit5(), step=simkit.Adaptive(1e-9)).final()
    assert np.abs(whole["flow"].vorticity - np.exp(-2 * VISCOSITY) * start["flow"].vorticity).max() > 0.05
    errors = []
    for h in steps:
        last = simkit.simulate(both, start, [0.0, 1.0], step=h).final()
        errors.append(np.abs(last["flow"].vorticity - whole["flow"].vorticity).max())
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=0.2)


def test_gradients_through_flow_and_drops():
    def last(viscosity, tau, mass):
        values = {"flow.viscosity": viscosity, "drops.response_time": tau, "wires.flow.force.mass": mass}
        system = Setup(_two_way(0.3)).put(values).system
        solver = simkit.solvers.Strang({"drops": simkit.solvers.Heun(), "flow": simkit.solvers.ETDRK2()})
        return simkit.simulate(system, _start(), [0.0, 0.6], solver=solver, step=0.2).final()["drops"].position

    check_gradients(last, (VISCOSITY, TAU, 0.3))


def test_a_staggered_flow_carries_drops_too():
    """The same vortex on a staggered grid, by second-order cells and linear interpolation: an error of a per cent."""
    grid = fluids.Grid((32, 32))
    flow = fluids.IncompressibleFlow(grid, viscosity=VISCOSITY, diffusion="implicit")
    both = simkit.Coupled({"flow": flow, "drops": fluids.Drops(TAU, GRAVITY)}, WIRES)
    velocity = lambda x: (jnp.cos(x[0]) * jnp.sin(x[1]), -jnp.sin(x[0]) * jnp.cos(x[1]))
    start = {"flow": flow.start(velocity), "drops": fluids.Drops.State(PLACES, 0 * PLACES)}
    run = simkit.simulate(both, start, [0.0, 1.0], step=0.05)
    np.testing.assert_allclose(run.final()["drops"].position, _exact(PLACES, 1.0), atol=5e-3)


def test_a_shear_between_walls():
    walls = [fluids.Periodic(), (fluids.NoSlip(), fluids.NoSlip([1.0, 0.0]))]
    grid = fluids.Grid((8, 8), lengths=(1.0, 1.0))
    flow = fluids.IncompressibleFlow(grid, viscosity=1.0, boundaries=walls)
    y = flow.start(lambda x: (x[1], 0 * x[0]))
    wire, places = fluids.FlowAtBodies("flow", "drops"), jnp.array([[0.3, 0.4], [7.9, 0.6], [-0.1, 0.99]])
    system = {"flow": flow}
    seen = wire(system, 0.0, {"flow": y, "drops": fluids.Drops.State(places, 0 * places)}, {})
    np.testing.assert_allclose(seen, [[0.4, 0.0], [0.6, 0.0], [15 / 16, 0.0]], atol=1e-12)  # constant near the wall


def test_what_drops_take_a_flow_between_walls_gives():
    """Drops near walls too. Along the walls, which are free, all momentum that one side loses the other gains."""
    grid, mass, t = fluids.Grid((8, 6), lengths=(2.0, 1.0)), 0.3, jnp.zeros(())
    walls = [fluids.Periodic(), (fluids.FreeSlip(), fluids.FreeSlip())]
    flow = fluids.IncompressibleFlow(grid, viscosity=0.1, boundaries=walls, force=fluids.InputForce())
    wires = {**WIRES, "flow.force": fluids.Reaction("flow", "drops", mass)}
    both = simkit.Coupled({"flow": flow, "drops": fluids.Drops(TAU, np.zeros(2))}, wires)
    places, speeds = (
        jnp.array([[0.3, 0.43], [1.93, 0.99], [-0.1, 0.02]]),
        jnp.array([[1.0, 0.5], [-0.3, 2.0], [0.7, 1]]),
    )
    turning = lambda x: (jnp.sin(np.pi * x[0]) * jnp.cos(np.pi * x[1]), -jnp.cos(np.pi * x[0]) * jnp.sin(np.pi * x[1]))
    y = {"flow": flow.start(turning), "drops": fluids.Drops.State(places, speeds)}
    seen, cell = both.received("flow", t, y, None)["force"], grid.volume / grid.size
    velocity = both.received("drops", t, y, None)["velocity"]
    pull = both["drops"].pull(y["drops"], velocity)
    np.testing.assert_allclose([cell * f.sum() for f in seen], -mass * pull.sum(0), rtol=1e-12)
    work = sum(cell * jnp.sum(f * u) for f, u in zip(seen, y["flow"].velocity, strict=True))
    np.testing.assert_allclose(work, -mass * jnp.sum(pull * velocity), rtol=1e-12)
    slope = both.vector_field(t, y, None)
    gained = cell * slope["flow"].velocity[0].sum(), mass * slope["drops"].velocity[:, 0].sum()
    assert abs(gained[0]) > 0.1
    np.testing.assert_allclose(sum(gained), 0.0, atol=1e-13)
    with pytest.raises(simkit.ArgumentError, match=r"input `force` must .*\(8, 6\), \(8, 7\)"):
        flow.vector_field(t, y["flow"], {"force": (1.0, 2.0)})


def test_what_cannot_be_coupled_is_said():
    rows = {
        r"no input of `flow`, a IncompressibleFlow, `force`": lambda: simkit.Coupled(
            {"flow": fluids.IncompressibleFlow(GRID), "drops": fluids.Drops()}, {"flow.force": lambda s, t, y, o: 0.0}
        ),
        "no input of `flow`": lambda: simkit.Coupled(
            {"flow": fluids.SpectralFlow2D(GRID)}, {"flow.force": lambda s, t, y, o: 0.0}
        ),
        r"positions of the shape \(bodies, 2\)": lambda: simkit.simulate(
            _both(drops=fluids.Drops(TAU, np.zeros(3))), _start(np.zeros((3, 3))), [0.0, 1.0], step=0.1
        ),
        "The velocity at bodies is known of": lambda: fluids.carried._wires.velocity_at(
            fluids.Burgers(GRID), None, jnp.zeros((1, 2))
        ),
    }
    for text, call in rows.items():
        with pytest.raises(simkit.SimkitError, match=text):
            call()
