"""Networks beside an evaluation of their own in NumPy, solved by SciPy; derivatives beside differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import simkit

SPECIES, REACTIONS = 20, 60


def drawn():
    """A network of elementary reactions of random species with factors, as text and as arrays."""
    rng = np.random.default_rng(5)
    k, y0 = 10 ** rng.uniform(-2, 1, 12), rng.uniform(0.1, 2.0, SPECIES)
    left = [list(rng.integers(0, SPECIES, rng.integers(0, 3))) for _ in range(REACTIONS)]
    # What is made is at most as much as what is used, so that nothing grows without bounds.
    right = [list(rng.integers(0, SPECIES, min(len(side), 2) if side else 1)) for side in left]
    which, factor = rng.integers(0, 12, REACTIONS), rng.choice([0.5, 1.0, 2.0], REACTIONS)
    held = {3, 11}
    listed = lambda side: ",".join(str(i + 1) for i in side) or "0"
    lines = ["begin parameters", *(f"{i + 1} k{i} {x!r}" for i, x in enumerate(k.tolist())), "end parameters"]
    lines += ["begin species", *(f"{i + 1} {'$' * (i in held)}s({i}) {x!r}" for i, x in enumerate(y0.tolist()))]
    lines += ["end species", "begin reactions"]
    for r in range(REACTIONS):
        lines.append(f"{r + 1} {listed(left[r])} {listed(right[r])} {factor[r]}*k{which[r]} # reaction {r}")
    lines += [
        "end reactions",
        "begin groups",
        "1 all " + ",".join(f"{i + 1}*{i + 1}" for i in range(SPECIES)),
        "end groups",
    ]

    def field(t, y):
        slope = np.zeros(SPECIES)
        for r in range(REACTIONS):
            rate = factor[r] * k[which[r]] * np.prod(y[left[r]])
            for i in left[r]:
                slope[i] -= rate
            for i in right[r]:
                slope[i] += rate
        slope[list(held)] = 0.0
        return slope

    return "\n".join(lines), field, y0


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    text, field, y0 = drawn()
    path = tmp_path_factory.mktemp("networks") / "drawn.net"
    path.write_text(text)
    return simkit.networks.load(path), field, y0


def test_rates_and_jacobian(network):
    system, field, y0 = network
    order = [int(name[2:-1]) for name in system.rates.states]
    y = system.encode(system.start())
    np.testing.assert_allclose(y, y0[order], rtol=0, atol=0)
    found = system.vector_field(0.0, y, None)
    np.testing.assert_allclose(found, field(0.0, y0)[order], rtol=1e-13, atol=1e-13)  # sums of some ten terms near 1
    columns = []
    for i in order:  # central differences: rates are quadratic, so only rounding is left
        step = np.zeros(SPECIES)
        step[i] = 1e-3
        columns.append((field(0.0, y0 + step) - field(0.0, y0 - step))[order] / 2e-3)
    np.testing.assert_allclose(system.jacobian(0.0, y, None).whole(), np.array(columns).T, atol=1e-10, rtol=1e-10)


def test_trajectory_and_observable(network):
    system, field, y0 = network
    times = np.array([0.0, 0.5, 2.0])
    truth = scipy.integrate.solve_ivp(field, (0.0, 2.0), y0, "BDF", times, rtol=1e-10, atol=1e-12).y
    run = simkit.simulate(system, system.start(), jnp.asarray(times), step=simkit.Adaptive(1e-9, 1e-9))
    for i in range(SPECIES):
        np.testing.assert_allclose(
            run.ys[f"s({i})"], truth[i], rtol=1e-6, atol=1e-8
        )  # the peer's own error over some 200 steps
    found = system.outputs(times[-1], jax.tree.map(lambda y: y[-1], run.ys), None)["all"]
    assert float(found) == pytest.approx(np.arange(1, SPECIES + 1) @ truth[:, -1], rel=1e-6)


def test_derivatives_by_parameters_and_members(network):
    system, _, _ = network
    times = jnp.array([0.0, 1.0])

    def end(value):
        moved = eqx.tree_at(lambda s: s.parameters["k3"], system, value)
        return system.encode(
            simkit.simulate(moved, moved.start(), times, solver="rodas5p", step=simkit.Adaptive(1e-8, 1e-8)).final()
        )

    value = system.parameters["k3"]
    forward = jax.jit(jax.jacfwd(end))(value)
    # Central differences of runs at 1e-8: some 1e-8 / 1e-3 of the size of the states.
    h = 1e-3 * value
    runs = jax.jit(jax.vmap(end))(jnp.stack([value + h, value - h]))
    np.testing.assert_allclose(forward, (runs[0] - runs[1]) / (2 * h), rtol=2e-4, atol=2e-5)
    reverse = jax.jit(jax.grad(lambda v: end(v).sum()))(value)
    assert float(reverse) == pytest.approx(float(forward.sum()), rel=1e-6)


def test_single_precision(network):
    system, _, _ = network
    small = simkit.cast(system, jnp.float32)
    y = small.encode(jax.tree.map(lambda x: x.astype(jnp.float32), small.start()))
    found = small.vector_field(jnp.float32(0.0), y, None)
    assert found.dtype == jnp.float32
    expected = system.vector_field(0.0, system.encode(system.start()), None)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * float(jnp.abs(expected).max()))


def test_a_parameter_can_be_fitted(network):
    system, _, _ = network
    times = jnp.linspace(0.0, 1.0, 6)
    run = simkit.simulate(system, system.start(), times, step=simkit.Adaptive(1e-8, 1e-8))
    data = jax.vmap(lambda t, y: system.outputs(t, y, None))(run.times, run.ys)["all"]
    moved = eqx.tree_at(lambda s: s.parameters["k3"], system, system.parameters["k3"] * 1.5)
    experiment = simkit.Experiment("one", times, {"all": data}, y0=system.start())
    problem = simkit.Problem(
        moved, experiment, free={"k3": simkit.Free(bounds=(1e-3, 1e3))}, noise={"all": simkit.noise.Normal(0.1)}
    )
    found = simkit.fit(problem, starts=1, key=jax.random.key(0))
    assert float(found.estimate[0]) == pytest.approx(float(system.parameters["k3"]), rel=1e-3)


def test_rates_that_depend_on_nothing(tmp_path):
    path = tmp_path / "constant.net"
    path.write_text(
        "begin parameters\n 1 k 1\nend parameters\nbegin species\n 1 A() 10\n 2 B() 5\nend species\n"
        "begin reactions\n 1 0 1 k\nend reactions\n"
    )
    system = simkit.networks.load(path)
    step = simkit.Adaptive(1e-9, 1e-15)
    final = simkit.simulate(system, system.start(), np.linspace(0, 2, 3), step=step).final()
    assert np.allclose([final["A()"], final["B()"]], [12, 5], rtol=1e-12)
