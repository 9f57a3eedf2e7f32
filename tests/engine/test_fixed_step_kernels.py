"""Gradients and tangents of fixed steps in kernels, run step by step, against the programs of XLA's that they take the place of."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from engine.launches import both, noting, with_own_derivative, with_unknown_operation

import simkit
from simkit.engine.kernels import _back
from simkit.engine.kernels._mode import forced
from simkit.engine.stepping import _grid_adjoint, _grid_kernel, _grid_tangents
from simkit.odes import OrnsteinUhlenbeck, from_function
from simkit.solvers import RK4, SRA1, EulerMaruyama, Rodas5P, Tsit5

COUNT = 5  # not a multiple of the lanes of a block
MU = np.linspace(0.5, 3.0, COUNT)
START = np.array([2.0, 0.1])
# The same arithmetic, in sums of another order: some hundred steps long.
ROUNDING = {jnp.dtype("float64"): 1e-12, jnp.dtype("float32"): 1e-5}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were launched."""
    back, ahead = (_grid_adjoint._Adjoint, "found"), (_grid_tangents, "_in_kernel")
    return noting(monkeypatch, grid=(_grid_kernel, "_in_kernel"), back=back, ahead=ahead)


def field(t, y, p):
    return jnp.stack([y[1], p["mu"] * (1 - y[0] ** 2) * y[1] - y[0] + 0.1 * jnp.sin(t)])


SYSTEM = from_function(field, {"mu": 1.0})


def states(mu: Any, times: int = 3, solver: Any = None, **known: Any) -> Any:
    """States of members that take 40 steps: two parts of a record."""
    dtype = jnp.result_type(mu)
    save = np.linspace(0.0, 2.0, times).astype(dtype)
    step = simkit.Fixed(40 // (times - 1))
    system, start = simkit.cast((SYSTEM, jnp.asarray(START)), dtype)
    return simkit.ensemble(system, start, save, over={"mu": mu}, solver=solver or RK4(), step=step, **known).ys


def squares(ys: Any) -> Any:
    return jnp.sum(ys**2)


CASES = [
    (2, RK4(), "float64"),
    (3, RK4(), "float32"),
    (3, Tsit5(), "float64"),
    (2, Rodas5P(), "float64"),
    (3, Rodas5P(), "float32"),
]


@pytest.mark.parametrize(
    ("times", "solver", "dtype"), CASES, ids=lambda x: getattr(type(x), "order", None) and type(x).__name__
)
def test_gradients(used, times, solver, dtype):
    mu = jnp.asarray(MU, dtype)
    expected, found = both(lambda: jax.grad(lambda mu: squares(states(mu, times, solver)))(mu), used, "grid", "back")
    assert found.dtype == dtype
    close(found, expected, ROUNDING[found.dtype])


def one(mu: Any, shared: Any, start: Any, end: Any, step: Any = 9) -> Any:
    system = from_function(lambda t, y, p: p["shared"] * field(t, y, p), {"mu": mu, "shared": shared})
    times = jnp.stack([jnp.zeros(()), 0.4 * end, end])
    return simkit.simulate(system, start, times, solver=RK4(), step=simkit.Fixed(step)).ys


ARGUMENTS = jnp.asarray(MU), jnp.array(0.9), jnp.asarray(START), jnp.array(2.0)


def test_gradients_by_what_members_share_by_starts_and_by_times(used):
    members = jax.vmap(one, in_axes=(0, None, None, None))
    slope = lambda: jax.grad(lambda *x: squares(members(*x)), (0, 1, 2, 3))(*ARGUMENTS)
    for a, b in zip(*both(slope, used, "grid", "back"), strict=True):
        close(b, a, 1e-12)


def test_gradients_of_each_member(used):
    """`vmap` of `grad`, whose cotangents of what members share are not summed."""
    each = jax.vmap(jax.grad(lambda *x: squares(one(*x)), (0, 1, 2, 3)), in_axes=(0, None, 0, None))
    start = jnp.linspace(0.5, 1.5, COUNT)[:, None] * START[None]
    slope = lambda: each(*ARGUMENTS[:2], start, ARGUMENTS[3])
    for a, b in zip(*both(slope, used, "grid", "back"), strict=True):
        close(b, a, 1e-12)


def test_several_directions_and_batches_of_batches(used):
    """A batch of cotangents is one kernel; so are two batches, of which the inner one is summed."""
    jacobian = lambda: jax.jacrev(lambda mu: states(mu).reshape(-1)[:4])(jnp.asarray(MU))
    expected, found = both(jacobian, used, "grid", "back")
    close(found, expected, 1e-12)
    used.clear()
    loss = lambda mu, shared: squares(jax.vmap(one, in_axes=(0, None, None, None))(mu, shared, *ARGUMENTS[2:]))
    slope = jax.vmap(jax.grad(loss, (0, 1)), in_axes=(None, 0))
    slopes = lambda: slope(jnp.asarray(MU), jnp.array([0.8, 0.9, 1.1]))
    for a, b in zip(*both(slopes, used, "grid", "back"), strict=True):
        close(b, a, 1e-12)


@pytest.mark.parametrize("order", ["forward over reverse", "reverse over reverse", "reverse over forward"])
def test_second_derivatives(used, order):
    loss = lambda s: squares(states(s * jnp.asarray(MU)))
    first, second = {
        "forward over reverse": (jax.grad, jax.jacfwd),
        "reverse over reverse": (jax.grad, jax.grad),
        "reverse over forward": (jax.jacfwd, jax.grad),
    }[order]
    expected = second(first(loss))(1.0)
    with forced("interpret"):
        found = second(first(loss))(1.0)
    close(found, expected, 1e-12)
    assert "back" in used


def test_tangents_by_all_that_a_solve_is_made_of(used):
    members = jax.vmap(one, in_axes=(0, None, None, None))
    dots = jax.tree.map(lambda x: 0.3 + jnp.sin(x), ARGUMENTS)
    push = lambda: jax.jvp(members, ARGUMENTS, dots)
    for a, b in zip(*both(push, used, "grid", "ahead"), strict=True):
        close(b, a, 1e-12)


def test_tangents_of_each_member_and_of_batches(used):
    """Directions are taken together, of members by themselves and of batches of batches."""
    start = jnp.linspace(0.5, 1.5, COUNT)[:, None] * START[None]
    each = jax.vmap(jax.jacfwd(one, (0, 1, 2)), in_axes=(0, None, 0, None))
    jacobian = lambda: each(*ARGUMENTS[:2], start, ARGUMENTS[3])
    for a, b in zip(*both(jacobian, used, "grid", "ahead"), strict=True):
        close(b, a, 1e-12)
    used.clear()
    members = lambda mu, shared: jax.vmap(one, in_axes=(0, None, None, None))(mu, shared, *ARGUMENTS[2:])
    push = lambda mu, shared: jax.jvp(members, (mu, shared), (1 + mu, 1 + shared))[1]
    batches = lambda: jax.vmap(push, in_axes=(None, 0))(jnp.asarray(MU[:3]), jnp.array([0.8, 1.1]))
    expected, found = both(batches, used, "grid", "ahead")
    close(found, expected, 1e-12)


def test_tangents_with_jumps_noise_and_linear_equations(used):
    dot = jnp.linspace(1.0, 2.0, COUNT)
    of = lambda f: lambda: jax.jvp(f, (ARGUMENTS[0],), (dot,))
    times = lambda: jax.jvp(lambda at: driven(ARGUMENTS[0], at, RK4()), (jnp.array([0.25, 1.2]),), (dot[:2],))
    stiff, noise = of(lambda mu: states(mu, solver=Rodas5P())), of(lambda v: noisy(v, SRA1()))
    for push in (times, noise, stiff):
        used.clear()
        for a, b in zip(*both(push, used, "grid", "ahead"), strict=True):
            close(b, a, 1e-12)


def driven(rate: Any, at: Any, solver: Any) -> Any:
    """Doses at times `at`."""
    system = from_function(lambda t, y, p, inputs: inputs["dose"] - p["rate"] * y, {"rate": 1.0})
    known = {"inputs": {"dose": simkit.Pulses(at, jnp.array([1.0, 2.0]), 0.3)}, "step": simkit.Fixed(4)}
    return simkit.ensemble(system, jnp.ones(1), [0.0, 0.7, 2.0], over={"rate": rate}, solver=solver, **known).ys


@pytest.mark.parametrize("solver", [RK4(), Rodas5P()], ids=["explicit", "stiff"])
def test_inputs_that_jump(used, solver):
    """Windows end at jumps; derivatives by the times of jumps go through the ends of windows."""
    arguments = jnp.linspace(0.5, 2.0, COUNT), jnp.array([0.25, 1.2])
    expected, found = both(lambda: driven(*arguments, solver), used, "grid")
    close(found, expected, 1e-12)
    used.clear()
    slope = lambda: jnp.concatenate(jax.grad(lambda *x: squares(driven(*x, solver)), (0, 1))(*arguments))
    expected, found = both(slope, used, "grid", "back")
    assert np.abs(np.asarray(expected)).min() > 0
    close(found, expected, 1e-12)


def noisy(volatility: Any, solver: Any) -> Any:
    system, y0, _, _ = OrnsteinUhlenbeck.example()
    system, y0 = simkit.cast((system, y0), volatility.dtype)
    known = {"over": {"volatility": volatility}, "solver": solver, "step": 0.05, "key": jax.random.key(3)}
    return simkit.ensemble(system, y0, np.array([0.0, 1.0, 2.0], volatility.dtype), **known).ys.x


@pytest.mark.parametrize("solver", [EulerMaruyama(), SRA1()], ids=["increments", "areas"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_is_drawn_again(used, solver, dtype):
    volatility = jnp.linspace(0.1, 0.5, COUNT, dtype=dtype)
    slope = lambda: jax.grad(lambda v: squares(noisy(v, solver)))(volatility)
    expected, found = both(slope, used, "grid", "back")
    close(found, expected, ROUNDING[found.dtype])


def test_members_that_fail_do_not_touch_others(used):
    """One becomes infinite, after the first save time or before; asked for, its derivatives are NaN, else as XLA's."""
    explosive = from_function(lambda t, y, p: p["rate"] * y**2, {"rate": 1.0})
    rate = jnp.array([0.3, 40.0, 0.5, -0.2, 900.0])

    def run(rate):
        return simkit.ensemble(
            explosive, jnp.ones(1), [0.0, 0.2, 4.0], over={"rate": rate}, solver=RK4(), step=simkit.Fixed(20)
        )

    def all_of_it():
        some = lambda rate: jnp.where(jnp.arange(COUNT)[:, None] % 4, 0, run(rate).ys[:, 1])
        whole = jax.grad(lambda rate: squares(run(rate).ys))(rate)
        return run(rate).status, whole, jax.grad(lambda rate: squares(some(rate)))(rate)

    expected = all_of_it()
    with forced("interpret"):
        found = all_of_it()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert np.isnan(found[1]).any()
    assert np.isfinite(found[2][0])  # the state that is asked for was reached
    assert "back" in used


def test_small_units(used):
    """Lengths and times of 1e-12 a unit."""
    tiny = 1e-12
    system = from_function(lambda t, y, p: p["rate"] / tiny * (tiny - y) * (y / tiny), {"rate": 1.0})

    def loss(rate, start):
        times = np.array([0.0, 0.3, 2.0]) * tiny
        known = {"over": {"rate": rate}, "solver": Tsit5(), "step": simkit.Fixed(25)}
        return squares(simkit.ensemble(system, start, times, **known).ys / tiny)

    arguments = jnp.linspace(0.5, 1.5, COUNT), jnp.full(1, 0.2 * tiny)
    for a, b in zip(*both(lambda: jax.grad(loss, (0, 1))(*arguments), used, "grid", "back"), strict=True):
        close(b, a, 1e-12)


def test_members_in_turns_and_records_of_many_parts(used, monkeypatch):
    """Blocks of two members, of which three turns take two each, and records of seven steps."""
    for module in (_grid_adjoint, _grid_kernel):
        monkeypatch.setattr(module, "EVEN_LANES", 2)
    monkeypatch.setattr(_back, "LEAST_ROWS", 7)
    sizes, bounds = _grid_adjoint.sizes_of, []

    def small(*known):
        bounds.append(known[-1])
        found = sizes(*known)
        assert found == (7, 6, COUNT)  # the parts before the last have seven steps each
        return found._replace(members=2)

    monkeypatch.setattr(_grid_adjoint, "sizes_of", small)
    expected = jax.grad(lambda mu: squares(states(mu)))(jnp.asarray(MU))
    with forced("interpret"):
        slope = jax.grad(lambda mu: squares(states(mu, gradient=simkit.Checkpointed(5000))))
        found = slope(jnp.asarray(MU))
    close(found, expected, 1e-12)
    assert used == ["grid", "back"]
    assert bounds == [5000]


def test_sizes_of_records():
    """About twice the square root of the steps, within a bound where a block of members fits into it."""
    assert _back.sizes_of(10_000, 3, 3, "float32", 10**6, 128, None) == (100, 100, 10**6)
    assert _back.sizes_of(10_000, 3, 3, "float32", 10**6, 128, 10**6) == (100, 100, 10**6 // 2400)
    assert _back.sizes_of(10_000, 3, 3, "float64", 10**6, 128, 1) == (100, 100, 128)
    assert _back.sizes_of(20, 3, 3, "float32", 7, 128, None) == (20, 1, 128)


def test_functions_with_their_own_derivatives_keep_them(used):
    odd = with_own_derivative()

    def loss(rate):
        known = {"over": {"rate": rate}, "solver": RK4(), "step": simkit.Fixed(5)}
        return squares(simkit.ensemble(odd, jnp.ones(1), [0.0, 1.0], **known).ys)

    expected, found = both(lambda: jax.grad(loss)(jnp.linspace(0.5, 1.0, COUNT)), used)
    close(found, expected, 1e-13)


def test_operations_that_no_kernel_has_are_left_to_xla(used):
    special = with_unknown_operation()

    def loss(rate):
        known = {"over": {"rate": rate}, "solver": RK4(), "step": simkit.Fixed(5)}
        return squares(simkit.ensemble(special, jnp.ones(1), [0.0, 1.0], **known).ys)

    expected, found = both(lambda: jax.grad(loss)(jnp.linspace(0.5, 1.0, COUNT)), used)
    close(found, expected, 1e-14)


def of_members(mu: Any) -> Any:
    return squares(states(mu))


def of_stiff_members(mu: Any) -> Any:
    return squares(states(mu, solver=Rodas5P()))


def of_times(end: Any) -> Any:
    return squares(jax.vmap(one, in_axes=(0, None, None, None))(*ARGUMENTS[:3], end))


LOWERED = {
    "explicit": (of_members, MU),
    "single": (of_members, MU.astype(np.float32)),
    "stiff": (of_stiff_members, MU),
    "times": (of_times, np.array(2.0)),
    "jumps": (lambda at: squares(driven(ARGUMENTS[0], at, RK4())), np.array([0.25, 1.2])),
    "noise": (lambda v: squares(noisy(v, SRA1())), np.linspace(0.1, 0.5, COUNT)),
}


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="newer releases lower kernels where there is a GPU alone")
@pytest.mark.parametrize("name", LOWERED)
def test_kernels_are_lowered_for_gpus_without_one(name):
    loss, argument = LOWERED[name]
    with forced("triton"):
        argument = jnp.asarray(argument)
        for function in (jax.grad(loss), lambda x: jax.jvp(loss, (x,), (x,))):
            lowered = jax.jit(function).trace(argument).lower(lowering_platforms=("cuda",))
            assert lowered.as_text().count("xla.gpu.triton") == 2
