"""No compiled program of ours holds a batched call of LAPACK: on JAX 0.10 two of them can wait for each other for ever."""

import contextlib
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import linear
from simkit.core import Setup
from simkit.petab._steady import steady_state

CALL = re.compile(r"custom_call @(lapack_\w+)\(.*?: \((.*?)\) ->", re.DOTALL)
OPERAND = re.compile(r"tensor<((?:\d+x)*)\w+>")


def batched(text: str) -> list[str]:
    """Calls of LAPACK whose operands are more than one matrix."""
    found = []
    for name, operands in CALL.findall(text):
        shapes = [[int(n) for n in shape.split("x")[:-1]] for shape in OPERAND.findall(operands)]
        if any(math.prod(shape[:-2]) > 1 for shape in shapes):
            found.append(f"{name}({operands})")
    return found


def calls(text: str) -> list[str]:
    return [name for name, _ in CALL.findall(text)]


@pytest.fixture
def programs(tmp_path):
    """All programs that are compiled in a test, as text, by the name of their file."""
    folder = str(tmp_path / "programs")
    jax.config.update("jax_dump_ir_to", folder)
    yield lambda: {path.name: path.read_text() for path in pathlib.Path(folder).glob("*.mlir")}
    jax.config.update("jax_dump_ir_to", "")


def test_a_batched_call_is_seen():
    """What the other tests look for: it stands in a program that JAX batched by itself."""
    a = jnp.ones((4, 3, 3))
    assert batched(jax.jit(jax.vmap(jnp.linalg.cholesky)).lower(a).as_text())
    text = jax.jit(jax.vmap(linear.cholesky)).lower(a).as_text()
    assert calls(text)
    assert not batched(text)


def test_fits_profiles_and_samplers(programs):
    x = np.linspace(1.0, 2.0, 6)
    line = simkit.odes.from_response(lambda x, p: p["slope"] * x + p["shift"], {"slope": 1.0, "shift": 0.0})
    free = {name: simkit.Free(bounds=(-5.0, 5.0)) for name in ("slope", "shift")}
    data = simkit.Experiment("line", x, {"y": 2 * x + 0.1 * np.sin(9 * x)})
    problem = simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(0.1)})
    fit = simkit.fit(problem, starts=18)
    simkit.profile(problem, fit, names=["slope"], points=5)
    key = jax.random.key(0)
    # What counts is that the programs are compiled: so few draws may be refused.
    with contextlib.suppress(simkit.SamplingError):
        simkit.sample(problem, start=fit, chains=2, draws=10, warmup=10, key=key)
    with contextlib.suppress(simkit.SamplingError):
        simkit.sample(problem, method=simkit.TemperedSMC(moves=1, leapfrog=1), chains=2, draws=20, key=key)
    found = programs()
    called = {name for text in found.values() for name in calls(text)}
    assert {"lapack_dgeqrf_ffi", "lapack_dgesdd_ffi", "lapack_dsyevd_ffi", "lapack_dpotrf_ffi"} <= called
    assert not {name: batched(text) for name, text in found.items() if batched(text)}


@pytest.mark.parametrize("n", [3, 8, 14])
def test_implicit_steps_in_lanes(n):
    """Of more than twelve states LAPACK factorises, one member after the other."""

    def loss(rates):
        system = simkit.from_function(lambda t, y, p: -p["rates"] * y + jnp.roll(y, 1), {"rates": rates})
        found = simkit.simulate(system, jnp.ones(n), [0.0, 1.0], solver=simkit.solvers.Rodas5P(), on_failure="mark")
        return jnp.sum(found.final())

    text = jax.jit(jax.vmap(jax.value_and_grad(loss))).lower(jnp.ones((4, n))).as_text()
    assert not batched(text)
    assert calls(text) or n <= 12


def test_a_field_of_the_user_that_calls_lapack():
    """Three dimensions of a batch: members, tangents and lanes."""
    rng = np.random.default_rng(0)
    matrix = jnp.asarray(rng.normal(size=(3, 3))) + 4 * jnp.eye(3)

    def loss(rate):
        turned = lambda t, y, p: -jnp.linalg.solve(matrix + p["rate"] * jnp.outer(y, y), y)
        system = simkit.from_function(turned, {"rate": rate})
        found = simkit.simulate(system, jnp.ones(3), [0.0, 1.0], solver=simkit.solvers.Tsit5(), on_failure="mark")
        return jnp.sum(found.final())

    forward, backward = jax.vmap(jax.value_and_grad(loss)), jax.vmap(jax.jacfwd(loss))
    rates = jnp.linspace(0.1, 0.4, 4)
    for function in (forward, backward):
        text = jax.jit(function).lower(rates).as_text()
        assert calls(text)
        assert not batched(text)
    slopes, h = jax.jit(backward)(rates), 1e-5
    values = jax.jit(forward)(jnp.array([0.1 + h, 0.1 - h, 0.2, 0.3]))
    # Central differences of a solve of 1e-6, whose steps may change: 1e-6 / h at worst, far less where they do not.
    np.testing.assert_allclose((values[0][0] - values[0][1]) / (2 * h), slopes[0], rtol=1e-4)
    np.testing.assert_allclose(values[1][2], jax.jit(backward)(jnp.full(4, 0.2))[0], rtol=1e-8)


def test_steady_states_of_many_conditions():
    rows = jnp.zeros((3, 3))

    def state(rate):
        system = simkit.from_function(lambda t, y, p: 1.0 - p["rate"] * y * jnp.array([1.0, 2.0, 3.0]), {"rate": rate})
        return steady_state(Setup(system, jnp.ones(3), None), jnp.zeros(()), rows)[0]

    text = jax.jit(jax.vmap(jax.jacfwd(state))).lower(jnp.ones(4)).as_text()
    assert calls(text)
    assert not batched(text)
