"""What explain counts, against counts by hand; what it says of calls, shapes and lines."""

import json
import xml.etree.ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, explain


def products(x):
    return jax.lax.fori_loop(0, 100, lambda _, y: y @ x, x)


def transforms(x):
    """As many turns as the data say."""
    return jax.lax.while_loop(lambda c: c[0] < c[2], lambda c: (c[0] + 1, jnp.fft.ifft(jnp.fft.fft(c[1])), c[2]), x)[1]


def bodies(x):
    """50 steps of bodies that attract each other: 3 differences, 5 for the square of a distance, 1 to soften, 3 for its power, 6 to
    add up, a pair; 12 a body for the step."""

    def acceleration(x):
        d = x[:, None] - x[None]
        square = jnp.sum(d * d, axis=-1) + 0.01
        return jnp.sum(d * (1 / (square * jnp.sqrt(square)))[..., None], axis=1)

    def step(state, _):
        x, v = state
        return (x + 0.1 * v, v + 0.1 * acceleration(x)), None

    return jax.lax.scan(step, (x, x), None, length=50)[0]


def stencil(u):
    """Heat on a ring: 2 sums, a product by 2, one by the rate, and the sum of the step."""
    step = lambda _, u: u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))
    return jax.lax.fori_loop(0, 1000, step, u)


COUNTS = {
    "products": (products, lambda: jnp.ones((48, 48)), 100 * 2 * 48**3),
    "transforms": (transforms, lambda: (0, jnp.ones((32, 64), complex), 37), 37 * 2 * 32 * 5 * 64 * 6),
    "bodies": (bodies, lambda: jnp.asarray(np.random.default_rng(0).random((96, 3))), 50 * (96**2 * 18 + 12 * 96)),
    "stencil": (stencil, lambda: jnp.ones(500), 1000 * 5 * 500),
}


@pytest.mark.parametrize("name", COUNTS)
def test_operations_by_hand(name):
    function, argument, expected = COUNTS[name]
    found = explain(function, arguments=(argument(),))
    assert found.programs[0].cost.flops == pytest.approx(expected, rel=0.02)
    assert found.programs[0].shares[0].place.startswith(function.__name__)


@pytest.fixture(scope="module")
def predation():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    return explain(system, y0, times, gradient=False), simkit.simulate(system, y0, times)


def test_a_simulation(predation):
    found, trajectory = predation
    assert found.calls.compiled_again == 0
    (program,) = found.programs
    lines = {share.place: share.flops for share in program.shares}
    of_field = [flops for place, flops in lines.items() if "LotkaVolterra.vector_field" in place]
    # Each line has two products and a difference... of two numbers; the solver evaluates it six times a step and once to begin.
    assert len(of_field) == 2
    steps = int(trajectory.steps + trajectory.rejected)
    for flops in of_field:
        assert 3 * 6 * steps <= flops <= 4 * 7 * (steps + 4)
    assert sum(lines.values()) == pytest.approx(program.cost.flops)
    assert program.memory.results >= 2 * 8 * len(trajectory.times)
    assert program.seconds.compile > 0
    assert program.seconds.run > 0


def test_it_prints_and_is_json_and_a_picture(predation):
    found, _ = predation
    text = repr(found)
    for words in (
        "growth float64[]",
        "ys.hare float64[81]",
        "the second call compiled 0",
        "LotkaVolterra.vector_field",
    ):
        assert words in text
    held = json.loads(found.to_json())
    assert held["compiles_again"] == 0
    assert {"name", "seconds", "flops", "bytes", "memory", "shares", "loops", "kernels"} <= set(held["programs"][0])
    picture = xml.etree.ElementTree.fromstring(found.svg())
    assert "ys.hare float64[81]" in ["".join(x.itertext()) for x in picture.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow
def test_shapes_of_an_ensemble_on_two_devices():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    found = explain(
        system, y0, times, over={"growth": np.linspace(0.4, 0.6, 30)}, devices=jax.devices()[:2], gradient=False
    )
    stages = {stage.label: stage.rows for stage in found.stages}
    assert stages["vmap: 30 members"] == [("growth", "float64", (30,))]
    assert stages["shard_map: 2 devices"] == [("growth", "float64", (15,))]
    assert ("ys.hare", "float64", (30, 81)) in stages["trajectory"]
    one = explain(
        system, y0, times, over={"growth": np.linspace(0.4, 0.6, 30)}, devices=jax.devices()[:1], gradient=False
    )
    # Lanes that have nothing to do compute on, so the sum over two devices is not quite that of one.
    assert found.programs[0].cost.flops == pytest.approx(one.programs[0].cost.flops, rel=0.5)


@pytest.mark.slow
def test_a_problem():
    times = np.linspace(0.0, 2.0, 9)
    line = simkit.odes.from_response(lambda x, params: params["slope"] * x, {"slope": 1.0})
    data = simkit.Experiment("line", times, {"y": 2 * times})
    problem = simkit.Problem(
        line, data, free={"slope": simkit.Free(bounds=(0.0, 9.0))}, noise={"y": simkit.noise.Normal(0.1)}
    )
    found = explain(problem)
    assert [program.name for program in found.programs][::2] == ["log-likelihood", "fit step (local model)"]
    assert found.calls.compiled_again == 0


def test_what_cannot_be_explained():
    with pytest.raises(ArgumentError, match="must be a system, a Problem or a function"):
        explain(3.0)
    with pytest.raises(ArgumentError, match="Argument `times` must be given"):
        explain(simkit.odes.LotkaVolterra.example()[0])


def dear(x):
    return jnp.sin(x) + jnp.exp(-x * x) + jnp.tanh(x)


def cheap(x):
    return x * 0.5


def test_time_is_that_of_the_lines():
    """A line of three transcendental functions of a matrix, and one that halves a row of it."""

    def both(x):
        return jax.lax.fori_loop(0, 200, lambda _, x: dear(x).at[0].set(cheap(x[0])), x)

    (program,) = explain(both, arguments=(jnp.ones((400, 400)),), gradient=False).programs
    seconds = {share.place.split(" ")[0]: 0.0 for share in program.shares}
    for share in program.shares:
        seconds[share.place.split(" ")[0]] += share.seconds
    assert sum(seconds.values()) == pytest.approx(program.seconds.run)
    assert seconds["dear"] > 0.5 * program.seconds.run
    assert seconds["dear"] > 10 * seconds.get("cheap", 0.0)


def test_steps_and_idle_lanes():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    members = {"growth": np.full(7, float(system.growth))}
    found = explain(system, y0, times, over=members, gradient=False)
    run = simkit.simulate(system, y0, times)
    tried = int(run.steps) + int(run.rejected)
    assert found.steps[:2] == (7 * int(run.steps), 7 * int(run.rejected))
    # Seven lanes, all as long: nothing is idle but what is left of the last block of attempts.
    assert 0 <= found.steps.idle <= 8 / tried
    assert "not stiff" in found.steps.solver
    assert "lanes       idle for" in repr(found)


def test_the_structure_of_a_jacobian_is_said_and_drawn():
    """A ring: three places a row, two of them in the corners; and a pair of states, which has no pattern."""
    ring = simkit.from_function(lambda t, y, p: p["k"] * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1)), {"k": 1e3})
    found = simkit.explain(ring, jnp.arange(300.0), [0.0, 1.0], gradient=False, solver=simkit.solvers.Rodas5P())
    assert "Jacobian    300 rows, 900 places (1 %), 3 derivatives, " in repr(found)
    assert json.loads(found.to_json())["jacobian"].startswith("300 rows, 900 places")
    drawn = found.spy()
    assert drawn.count("<rect") == 1 + len({(i // 2, j % 300 // 2) for i in range(300) for j in (i - 1, i, i + 1)})
    pair = simkit.explain(
        simkit.odes.LotkaVolterra(), simkit.odes.LotkaVolterra.State(1.0, 1.0), [0.0, 1.0], gradient=False
    )
    with pytest.raises(simkit.ArgumentError, match="no sparsity pattern"):
        pair.spy()
