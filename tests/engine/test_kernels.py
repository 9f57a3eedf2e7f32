"""Kernels of lanes, run step by step, against the programs of XLA's that they take the place of."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from engine.launches import both, noting, with_own_derivative, with_unknown_operation
from jax.sharding import AxisType, PartitionSpec

import simkit
from simkit.engine.adaptive import _adjoint_kernel, _kernel
from simkit.engine.kernels import _emit, _launch, _mode
from simkit.engine.kernels._mode import NotInKernel, forced
from simkit.engine.stepping import _grid_kernel
from simkit.odes import OrnsteinUhlenbeck, from_function
from simkit.solvers import RK4, SRA1, EulerMaruyama, Heun, Rodas5P, Tsit5

STEP = simkit.Adaptive(1e-7, 1e-9)
ROUNDING = 1e-9
COUNT = 5  # not a multiple of the lanes of a block
MU = np.linspace(0.5, 12.0, COUNT)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were launched."""
    adjoint = _adjoint_kernel._Adjoint, "found"
    return noting(monkeypatch, solve=(_kernel, "_solution"), adjoint=adjoint, grid=(_grid_kernel, "_in_kernel"))


def field(t, y, p):
    return jnp.stack([y[1], p["mu"] * (1 - y[0] ** 2) * y[1] - y[0] + 0.1 * jnp.sin(t)])


SYSTEM = from_function(field, {"mu": 1.0})
START = jnp.array([2.0, 0.1])


def states(mu, times=2, solver=None, step=STEP, **known):
    save = np.linspace(0.0, 2.0, times)
    return simkit.ensemble(SYSTEM, START, save, over={"mu": mu}, solver=solver or Tsit5(), step=step, **known)


@pytest.mark.parametrize(
    ("times", "solver"), [(2, Tsit5()), (7, Tsit5()), (7, Rodas5P())], ids=["end", "rows", "stiff"]
)
def test_members_take_the_same_steps(used, times, solver):
    expected, found = both(lambda: states(MU, times, solver), used, "solve")
    close(found.ys, expected.ys, ROUNDING)
    for name in ("status", "steps", "rejected"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_members_have_their_own_times_starts_and_tolerances(used):
    def one(mu, start, end):
        times = jnp.stack([jnp.zeros(()), 0.4 * end, end])
        y0 = jnp.stack([start, jnp.zeros(())])
        return simkit.simulate(from_function(field, {"mu": mu}), y0, times, solver=Tsit5(), step=STEP).ys

    members = jnp.asarray(MU), jnp.linspace(0.5, 2.0, COUNT), jnp.linspace(1.0, 3.0, COUNT)
    expected, found = both(lambda: jax.vmap(one)(*members), used, "solve")
    close(found, expected, ROUNDING)


def test_inputs_that_jump(used):
    """Steps end there, and derivatives know it: by the times of the jumps as well."""
    driven = from_function(lambda t, y, p, inputs: inputs["dose"] - p["rate"] * y, {"rate": 1.0})

    def run(rate, at):
        inputs = {"dose": simkit.Pulses(at, jnp.array([1.0, 2.0]), 0.3)}
        times = np.linspace(0.0, 2.0, 5)
        return simkit.ensemble(
            driven, jnp.ones(1), times, over={"rate": rate}, inputs=inputs, solver=Tsit5(), step=STEP
        ).ys

    arguments = jnp.linspace(0.5, 2.0, COUNT), jnp.array([0.25, 1.2])
    expected, found = both(lambda: run(*arguments), used, "solve")
    close(found, expected, ROUNDING)
    used.clear()
    loss = lambda *x: jnp.sum(run(*x) ** 2)
    expected, found = both(lambda: jnp.concatenate(jax.grad(loss, (0, 1))(*arguments)), used, "solve", "adjoint")
    close(found, expected, ROUNDING)


@pytest.mark.parametrize("solver", [Tsit5(), Rodas5P()], ids=["explicit", "stiff"])
@pytest.mark.parametrize("times", [2, 5])
def test_gradients(used, solver, times):
    loss = lambda mu: jnp.sum(states(mu, times, solver).ys[:, 1:] ** 2)
    expected, found = both(lambda: jax.grad(loss)(jnp.asarray(MU)), used, "solve", "adjoint")
    close(found, expected, ROUNDING)


def test_gradients_by_what_all_members_share_and_by_the_start(used):
    def loss(shared, start):
        system = from_function(field, {"mu": shared})
        run = lambda x: simkit.simulate(system, jnp.stack([x, shared]), [0.0, 0.7, 2.0], solver=Tsit5(), step=STEP).ys
        return jnp.sum(jax.vmap(run)(start) ** 2)

    arguments = jnp.array(2.0), jnp.linspace(0.5, 2.0, COUNT)
    slope = lambda: jnp.concatenate([x.reshape(-1) for x in jax.grad(loss, (0, 1))(*arguments)])
    expected, found = both(slope, used, "solve", "adjoint")
    close(found, expected, ROUNDING)


def test_gradients_of_many_parts_are_those_of_one(used, monkeypatch):
    """A record of few rows is walked back part by part; members of several turns are put together again."""
    loss = lambda mu: jnp.sum(states(mu, 5).ys ** 2)
    expected = jax.grad(loss)(jnp.asarray(MU))
    sizes = _adjoint_kernel._Adjoint._sizes
    small = lambda self: sizes(self)._replace(rows=7, parts=-(-self.plan.sizes.max_steps // 7), members=3)
    monkeypatch.setattr(_adjoint_kernel._Adjoint, "_sizes", small)
    monkeypatch.setattr(_adjoint_kernel, "LANES", 2)
    monkeypatch.setattr(_launch, "LANES", 2)
    with forced("interpret"):
        found = jax.grad(lambda mu: jnp.sum(states(mu, 5, step=simkit.Adaptive(1e-7, 1e-9, max_steps=200)).ys ** 2))(
            jnp.asarray(MU)
        )
    close(found, expected, ROUNDING)
    assert used == ["solve", "adjoint"]


@pytest.mark.parametrize("solver", [Tsit5(), Rodas5P()], ids=["explicit", "stiff"])
def test_tangents_of_two_orders(used, solver):
    run = lambda s: states(s * jnp.asarray(MU), 4, solver).ys
    expected, found = both(lambda: jax.jacfwd(jax.jacfwd(run))(1.0), used, "solve")
    close(found, expected, ROUNDING)


def test_several_directions_of_two_orders(used):
    """Saved rows of mixed derivatives: the directions of the second order stand outside those of the first."""
    run = lambda q: states(q[0] * jnp.asarray(MU[:2]) + q[1], 4).ys
    second = lambda: jax.jacfwd(jax.jacfwd(run))(jnp.array([1.0, 0.3]))
    expected, found = both(second, used, "solve")
    close(found, expected, ROUNDING)


def test_hessians_forward_over_reverse(used):
    loss = lambda s: jnp.sum(states(s * jnp.asarray(MU), 3).ys ** 2)
    expected, found = both(lambda: jax.hessian(loss)(1.0), used, "solve", "adjoint", "adjoint")
    close(found, expected, ROUNDING)


def test_several_directions_at_once(used):
    expected, found = both(
        lambda: jax.jacrev(lambda mu: states(mu, 3).ys[0])(jnp.asarray(MU)), used, "solve", "adjoint"
    )
    close(found, expected, ROUNDING)


def test_members_that_fail_do_not_touch_others(used):
    """One escapes to infinity, one needs too many steps; asked for, their derivatives are NaN, else 0."""
    explosive = from_function(lambda t, y, p: p["rate"] * y**2, {"rate": 1.0})
    step = simkit.Adaptive(1e-6, 1e-9, max_steps=60)

    def run(rate):
        times = [0.0, 0.2, 1.0]
        return simkit.ensemble(explosive, jnp.ones(1), times, over={"rate": rate}, solver=Tsit5(), step=step)

    rate = jnp.array([0.3, 1.5, 0.5, -0.2, 900.0])

    def all_of_it():
        found = run(rate)
        whole = jax.grad(lambda rate: jnp.sum(run(rate).ys ** 2))(rate)
        some = jax.grad(lambda rate: jnp.sum(jnp.where(jnp.arange(COUNT)[:, None] % 4, 0, run(rate).ys[:, 1]) ** 2))(
            rate
        )
        return found.ys, found.status, whole, some

    expected = all_of_it()
    with forced("interpret"):
        found = all_of_it()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_allclose(a, b, rtol=1e-7)
    assert set(np.asarray(found[1])) > {0}
    assert "adjoint" in used


@pytest.mark.parametrize("solver", [Tsit5(), RK4(), Rodas5P()], ids=["Tsit5", "RK4", "Rodas5P"])
@pytest.mark.parametrize("times", [2, 4])
def test_fixed_steps(used, solver, times):
    expected, found = both(lambda: states(MU, times, solver, 0.05).ys, used, "grid")
    close(found, expected, 1e-12)


@pytest.mark.parametrize("solver", [EulerMaruyama(), SRA1()], ids=["increments", "areas"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_noise(used, solver, dtype):
    """Members draw in a kernel what they draw outside."""
    system, y0, _, _ = OrnsteinUhlenbeck.example()
    system, y0 = simkit.cast((system, y0), dtype)
    over, times = {"volatility": jnp.linspace(0.1, 0.5, COUNT, dtype=dtype)}, np.array([0.0, 0.2, 0.5], dtype)
    run = lambda: simkit.ensemble(system, y0, times, over=over, solver=solver, step=0.05, key=jax.random.key(3)).ys.x
    expected, found = both(run, used, "grid")
    close(found, expected, 20 * float(jnp.finfo(dtype).eps))
    assert len(set(np.asarray(found)[:, -1])) == COUNT


def test_batches_of_batches_of_fixed_steps(used):
    def run(start, mu):
        system = from_function(field, {"mu": mu})
        return simkit.simulate(system, jnp.stack([start, mu]), [0.0, 0.5, 1.0], solver=RK4(), step=0.05).ys

    nested = jax.vmap(jax.vmap(run, in_axes=(None, 0)), in_axes=(0, None))
    arguments = jnp.linspace(0.5, 2.0, 3), jnp.asarray(MU[:2])
    expected, found = both(lambda: nested(*arguments), used, "grid")
    close(found, expected, 1e-12)


def test_single_precision(used):
    system, start = simkit.cast(SYSTEM, jnp.float32), START.astype(jnp.float32)
    times, over = np.array([0.0, 0.7, 2.0], np.float32), {"mu": MU.astype(np.float32)}
    run = lambda step: simkit.ensemble(system, start, times, over=over, solver=Tsit5(), step=step).ys
    for step, name in ((simkit.Adaptive(1e-4, 1e-5), "solve"), (0.02, "grid")):
        used.clear()
        expected, found = both(functools.partial(run, step), used, name)
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("size", [25, 24])
def test_larger_states_stay_with_programs_of_xla(used, size):
    chain = from_function(lambda t, y, p: p["rate"] * (jnp.roll(y, 1) - y), {"rate": 1.0})
    over = {"rate": np.linspace(0.5, 1.0, COUNT)}
    start = jnp.arange(1.0, size + 1)
    for step in (STEP, 0.05):
        run = lambda step=step: simkit.ensemble(chain, start, [0.0, 1.0], over=over, solver=Tsit5(), step=step).ys
        expected = run()
        with forced("interpret"):
            found = run()
        close(found, expected, ROUNDING)
    assert used == (["solve", "grid"] if size == 24 else [])


def test_functions_with_their_own_derivatives_keep_them(used):
    """Inlined they would lose them: such a system is solved in a kernel, and differentiated outside."""
    odd = with_own_derivative()
    over = jnp.linspace(0.5, 1.0, COUNT)
    run = lambda rate: simkit.ensemble(odd, jnp.ones(1), [0.0, 1.0], over={"rate": rate}, solver=Tsit5(), step=STEP).ys
    expected, found = both(lambda: run(over), used, "solve")
    close(found, expected, ROUNDING)
    used.clear()
    expected, found = both(lambda: jax.jvp(run, (over,), (over,)), used)
    close(found, expected, ROUNDING)


def test_operations_that_no_kernel_has_are_left_to_xla(used):
    special = with_unknown_operation()
    over = {"rate": np.linspace(0.5, 1.0, COUNT)}
    run = lambda: simkit.ensemble(special, jnp.ones(1), [0.0, 1.0], over=over, solver=Tsit5(), step=STEP).ys
    expected, found = both(run, used)
    close(found, expected, 0.0)


def grid(field, p, y=(1.0, 0.3)):
    system, y = from_function(field, {"p": 1.0}), jnp.asarray(y)
    return simkit.ensemble(system, y, [0.0, 0.3], over={"p": p}, solver=Heun(), step=simkit.Fixed(3)).ys


ODD = {
    "a product of nothing": lambda t, y, p: -p["p"] * y * jnp.prod(y[2:]),
    "all of nothing": lambda t, y, p: jnp.where(jnp.all(y[2:] > 0), -p["p"] * y, p["p"] * y),
    "signed words": lambda t, y, p: (
        -p["p"] * y + 1e-3 * (jax.lax.bitcast_convert_type(y, jnp.int32)[:, 1] % 7).astype(y.dtype)
    ),
    "short words": lambda t, y, p: (
        -p["p"] * y + 1e-3 * (jax.lax.bitcast_convert_type(y.astype(jnp.float32), jnp.uint16)[:, 1] % 7).astype(y.dtype)
    ),
    "words": lambda t, y, p: (
        -p["p"] * y + 1e-3 * (jax.lax.bitcast_convert_type(y, jnp.uint32)[:, 1] % 7).astype(y.dtype)
    ),
    "three cases": lambda t, y, p: jax.lax.select_n(jnp.floor(y).astype(jnp.int32) % 3, y, 2 * y, p["p"] * y),
    "the larger of flags": lambda t, y, p: y * p["p"] * jnp.maximum(y > 0.1, y > 0.2).astype(y.dtype),
    "an extreme": lambda t, y, p: -p["p"] * y + 0.1 * jnp.max(y) - 0.2 * jnp.min(y),
    "a matrix": lambda t, y, p: -jnp.linalg.solve(jnp.eye(2) + p["p"] * jnp.outer(y, y), y),
    "a sort": lambda t, y, p: -p["p"] * jnp.sort(y)[::-1],
    "an order": lambda t, y, p: -p["p"] * y[jnp.argsort(-y)],
    "an index": lambda t, y, p: -p["p"] * y + jnp.array([0.1, 0.2, 0.3])[jnp.floor(8 * y[0]).astype(int) - 6],
    "an index beyond": lambda t, y, p: -p["p"] * y.at[jnp.floor(3 * y[0]).astype(int)].set(0.5),
    "a part": lambda t, y, p: (
        -p["p"] * y + jax.lax.dynamic_slice(jnp.arange(4.0), [jnp.floor(3 * y[0]).astype(int)], [2])
    ),
    "a branch": lambda t, y, p: jax.lax.cond(y[0] > 0.9, lambda y: -p["p"] * y, lambda y: 0.3 * y[::-1], y),
    "an empty slice": lambda t, y, p: -p["p"] * y + jnp.sum(y[2:]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_operations(name):
    """In a kernel or not, the result is the same; and a GPU's compiler refuses none that would be found too late."""
    p = jnp.linspace(0.5, 1.2, 3)
    expected = grid(ODD[name], p)
    with forced("interpret"):
        close(grid(ODD[name], p), expected, 1e-13)
    if jax.__version_info__ < (0, 11):
        with forced("triton"):
            jax.jit(functools.partial(grid, ODD[name])).trace(p).lower(lowering_platforms=("cuda",))


def test_gradients_of_fields_that_sort_index_and_branch(used):
    def field(t, y, p):
        low = jax.lax.cond(y[0] > 0.6, lambda y: -p["mu"] * jnp.sort(y), lambda y: -0.5 * y, y)
        return low + p["mu"] * jnp.array([0.1, 0.2])[jnp.floor(2 * jnp.clip(y[1], 0.0, 0.9)).astype(int)]

    system, step = from_function(field, {"mu": 1.0}), simkit.Adaptive(1e-6, 1e-8)

    def loss(mu):
        known = {"over": {"mu": mu}, "solver": Tsit5(), "step": step}
        return jnp.sum(simkit.ensemble(system, jnp.array([1.0, 0.8]), [0.0, 0.4, 1.0], **known).ys ** 2)

    expected, found = both(lambda: jax.grad(loss)(jnp.linspace(0.5, 1.5, COUNT)), used, "solve", "adjoint")
    close(found, expected, ROUNDING)


def test_tangents_of_an_extreme_are_shared_by_all_that_are_it(used):
    system = from_function(lambda t, y, p: -p["p"] * y + 0.1 * jnp.max(y), {"p": 1.0})
    over = {"p": jnp.linspace(0.5, 1.2, 3)}
    step = simkit.Adaptive(1e-2, 1e-2)
    run = lambda y: simkit.ensemble(system, y, [0.0, 0.3], over=over, solver=Tsit5(), step=step).ys[:, -1]
    push = lambda: jax.jvp(run, (jnp.full(3, 0.5),), (jnp.array([1.0, 0.0, 0.0]),))[1]
    expected, found = both(push, used, "solve")
    close(found, expected, ROUNDING)


@pytest.mark.parametrize("checked", [True, False])
def test_members_that_devices_share_or_repeat(checked):
    mesh = jax.make_mesh((2,), ("m",), axis_types=(AxisType.Auto,))
    p = jnp.linspace(0.5, 1.2, 4)
    field = lambda t, y, p: -p["p"] * y
    for spec in (PartitionSpec(), PartitionSpec("m")):
        run = jax.jit(
            jax.shard_map(functools.partial(grid, field), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=checked)
        )
        expected = run(p)
        with forced("interpret"):
            close(run(p), expected, 1e-13)


class Keyed(simkit.PlainSystem):
    rate: Any
    key: Any

    def vector_field(self, t, y, inputs):
        return -self.rate * y + 0.1 * jax.random.normal(self.key)

    @classmethod
    def example(cls):
        raise NotImplementedError


@pytest.mark.parametrize("step", [STEP, simkit.Fixed(3)], ids=["adaptive", "fixed"])
def test_random_keys_as_leaves(step):
    def run(rate):
        system = Keyed(rate, jax.random.key(0))
        return simkit.simulate(
            system, jnp.array(1.0), [0.0, 0.3], solver=Heun() if step is not STEP else Tsit5(), step=step
        ).ys

    rates = jnp.array([1.0, 2.0])
    expected = [run(rate) for rate in rates]
    for kind in ("off", "interpret"):
        with forced(kind):
            close(jax.vmap(run)(rates), np.stack(expected), 1e-12)


def test_rewritten_programs_compute_what_they_did():
    def function(x, y):
        z = jnp.where(jnp.any(x > 2), x * y + 3.0, x - y * x)
        return jax.lax.cond(jnp.all(y > 0), lambda z: z * 2, lambda z: z - x * z, z), jnp.sqrt(jax.lax.stop_gradient(x))

    for x, y in itertools.product(([1.0, 1.5], [1.0, 4.0]), ([1.0, 2.0], [-1.0, 2.0])):
        x, y = jnp.array(x), jnp.array(y)
        with forced("interpret"):
            found = _emit.rewritten(function)(x, y)
        close(found, function(x, y), 1e-15)
    with forced("interpret"), pytest.raises(NotInKernel, match="no operation `sort`"):
        _emit.rewritten(jnp.sort)(jnp.ones(4))


def test_products_become_part_of_sums():
    program = jax.make_jaxpr(lambda a, b, c: a * b + c)(*jnp.ones((3, 4)))
    counts = []
    for mode in ("triton", "interpret"):
        with forced(mode):
            rewritten = jax.make_jaxpr(lambda *x: _emit.emitted(program.jaxpr, program.consts, x))(*jnp.ones((3, 4)))
            counts.append(sum(eqn.primitive.name.startswith("elementwise_inline_asm") for eqn in rewritten.eqns))
    assert counts == [1, 0]


def test_the_choice(monkeypatch):
    """It is refused where a verb begins, not in the middle of a trace."""
    assert _mode.mode() == "off"  # no GPU here
    monkeypatch.setenv(_mode.VARIABLE, "interpret")
    assert _mode.mode() == "interpret"
    monkeypatch.setenv(_mode.VARIABLE, "fast")
    with pytest.raises(simkit.ArgumentError, match=r'`?SIMKIT_KERNELS`? must be "auto", "off" or "interpret"'):
        _mode.mode()
    with pytest.raises(simkit.ArgumentError, match="SIMKIT_KERNELS") as found:
        states(MU)
    assert found.value.__cause__ is None


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="newer releases lower kernels where there is a GPU alone")
def test_kernels_are_lowered_for_gpus_without_one():
    def loss(mu, solver, step):
        return jnp.sum(states(mu, 4, solver, step).ys ** 2)

    with forced("triton"):
        for solver, step, kernels in ((Tsit5(), STEP, 2), (Rodas5P(), STEP, 2)):
            slope = jax.jit(jax.grad(functools.partial(loss, solver=solver, step=step)))
            text = slope.trace(jnp.asarray(MU)).lower(lowering_platforms=("cuda",)).as_text()
            assert text.count("xla.gpu.triton") == kernels
