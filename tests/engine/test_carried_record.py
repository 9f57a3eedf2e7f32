"""The record that a solve keeps for its adjoint: gradients are those of forward mode, whatever wraps the solve."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.sharding import PartitionSpec as P

import simkit
from simkit.engine.adaptive import _sizes
from simkit.engine.adaptive._carried import merged_kept, parted_kept

TIMES = jnp.linspace(0.0, 3.0, 5)
DUE = jnp.array([0.0, 3.0])
START = jnp.array([1.0, 0.2])


def field(t, y, p):
    return jnp.array([y[1], p["a"] * (1 - y[0] ** 2) * y[1] - y[0]])


SYSTEM = simkit.from_function(field, {"a": 2.0})


def run(a, y0=START, times=TIMES, solver="Tsit5", rtol=1e-6, max_steps=4096):
    step = simkit.Adaptive(rtol, rtol, max_steps=max_steps)
    system = simkit.from_function(field, {"a": a})
    return simkit.simulate(system, y0, times, solver=solver, step=step, on_failure="mark").ys


def loss(a, **known):
    return jnp.sum(run(a, **known) ** 2)


def close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=1e-12)


def primitives(function, *arguments):
    """The names of the primitives in a traced function, those of inner ones included."""
    found = set()

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            found.add(equation.primitive.name)
            for inner in jaxprs_in_params(equation.params):
                walk(inner)

    walk(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("solver", "times"),
    [
        ("Tsit5", TIMES),
        pytest.param("Tsit5", DUE, marks=slow),
        pytest.param("Rodas5P", TIMES, marks=slow),
        pytest.param("Rodas5P", DUE, marks=slow),
        pytest.param("BDF", TIMES, marks=slow),
        pytest.param("BDF", DUE, marks=slow),
    ],
    ids=["Tsit5-saving", "Tsit5-end", "Rodas5P-saving", "Rodas5P-end", "BDF-saving", "BDF-end"],
)
def test_gradient_is_that_of_forward_mode(solver, times):
    known = {"solver": solver, "times": times}
    close(jax.jit(jax.grad(functools.partial(loss, **known)))(2.0), jax.jacfwd(functools.partial(loss, **known))(2.0))


def test_a_gradient_solves_once_and_keeps_the_record():
    assert "solve_members_recorded" in primitives(jax.grad(loss), 2.0)
    assert "solve_members_recorded" not in primitives(loss, 2.0)
    assert "solve_members_recorded" not in primitives(jax.jacfwd(loss), 2.0)


def test_more_steps_than_the_record_holds():
    """The adjoint solves again, part by part."""
    known = {"rtol": 1e-8, "times": jnp.array([0.0, 30.0])}
    step = simkit.Adaptive(1e-8, 1e-8, max_steps=4096)
    trajectory = simkit.simulate(SYSTEM, START, known["times"], solver="Tsit5", step=step)
    assert int(trajectory.steps) > 2 * _sizes.CARRIED_ROWS
    close(jax.grad(functools.partial(loss, **known))(2.0), jax.jacfwd(functools.partial(loss, **known))(2.0), 1e-7)


def test_a_failed_solve_has_no_gradient():
    assert jnp.isnan(jax.grad(functools.partial(loss, max_steps=5))(2.0))


@slow
@pytest.mark.parametrize("times", [TIMES, DUE], ids=["saving", "end"])
def test_batches_of_gradients(times):
    values = jnp.linspace(0.5, 3.0, 7)
    f = functools.partial(loss, times=times)
    expected = jax.vmap(jax.jacfwd(f))(values)
    close(jax.vmap(jax.grad(f))(values), expected)
    close(jax.grad(lambda a: jnp.sum(jax.vmap(f)(a)))(values), expected)
    grid = values[:6].reshape(2, 3)
    close(jax.vmap(jax.vmap(jax.grad(f)))(grid), expected[:6].reshape(2, 3))


@slow
def test_batches_with_more_members_than_lanes():
    """The batch keeps no record: its members are not all in lanes at once."""
    values = jnp.linspace(0.5, 3.0, 150)
    close(jax.vmap(jax.grad(loss))(values), jax.vmap(jax.jacfwd(loss))(values))
    outer = jax.vmap(jax.vmap(jax.grad(loss)))(values.reshape(50, 3))
    close(outer.ravel(), jax.vmap(jax.jacfwd(loss))(values))


def test_a_batch_of_cotangents_shares_the_record():
    f = lambda a: run(a).ravel()
    close(jax.jacrev(f)(2.0), jax.jacfwd(f)(2.0))


@slow
def test_second_derivatives():
    expected = jax.jacfwd(jax.jacfwd(loss))(2.0)
    for second in (jax.jacfwd(jax.grad(loss)), jax.grad(jax.grad(loss)), jax.jacrev(jax.jacfwd(loss))):
        close(second(2.0), expected, 1e-7)
    values = jnp.array([1.0, 2.0])
    close(jax.vmap(jax.hessian(loss))(values)[1], expected, 1e-7)


@slow
@pytest.mark.parametrize("max_steps", [200, 4096])
def test_a_batch_of_tangents_in_reverse_mode(max_steps):
    """The batch of a solve with tangents keeps no record, also where one has room for all steps."""
    f = lambda a: run(a, times=DUE, max_steps=max_steps)[-1, 0]
    mixed = lambda v: jax.grad(lambda a: jax.jvp(f, (a,), (v,))[1])(2.0)
    values = jnp.array([1.0, -2.0])
    close(jax.jit(jax.vmap(mixed))(values), values * jax.jacfwd(jax.jacfwd(f))(2.0), 1e-7)


@slow
def test_gradients_within_a_loop_and_a_checkpoint():
    def chained(a):
        def window(y, _):
            return run(a, y0=y, times=jnp.array([0.0, 1.0]))[-1], None

        return jnp.sum(jax.lax.scan(window, START, None, length=3)[0])

    expected = jax.jacfwd(chained)(2.0)
    close(jax.grad(chained)(2.0), expected)
    close(jax.grad(jax.checkpoint(chained))(2.0), expected)
    close(jax.vmap(jax.grad(chained))(jnp.array([2.0, 1.0]))[0], expected)


@slow
def test_gradients_over_a_mesh():
    mesh = jax.make_mesh((1,), ("members",), axis_types=(jax.sharding.AxisType.Auto,))
    values = jnp.linspace(0.5, 2.0, 4)
    each = jax.shard_map(jax.vmap(jax.grad(loss)), mesh=mesh, in_specs=P("members"), out_specs=P("members"))
    close(jax.jit(each)(values), jax.vmap(jax.jacfwd(loss))(values))
    whole = jax.shard_map(jax.vmap(loss), mesh=mesh, in_specs=P("members"), out_specs=P("members"))
    close(jax.grad(lambda a: jnp.sum(whole(a)))(values), jax.vmap(jax.jacfwd(loss))(values))


@slow
def test_tangents_of_a_linearised_solve():
    out, push = jax.linearize(lambda a: run(a)[-1], 2.0)
    close(push(1.0), jax.jvp(lambda a: run(a)[-1], (2.0,), (1.0,))[1])
    close(out, run(2.0)[-1])


@slow
def test_single_precision():
    to = lambda x: jnp.asarray(x, jnp.float32)
    f = lambda a: jnp.sum(run(a, y0=to(START), times=to(TIMES), rtol=1e-4) ** 2)
    found = jax.grad(f)(to(2.0))
    assert found.dtype == jnp.float32
    close(found, jax.jacfwd(f)(to(2.0)), 1e-4)


def test_parts_of_a_record_join_again():
    rows = [jnp.arange(24.0).reshape(2, 2, 6), jnp.arange(12.0).reshape(2, 6)]
    kept = [*rows, jnp.array([3]), jnp.arange(6), jnp.arange(6.0)]
    parts, axes = parted_kept(kept, 2)
    assert [x.shape for x in parts] == [(2, 2, 2, 3), (2, 2, 3), (2, 1), (2, 3), (2, 3)]
    for again, was in zip(merged_kept(parts, axes, 2), kept, strict=True):
        close(again, was)


def test_large_states_keep_no_record():
    sizes = _sizes.Sizes(max_steps=1000)
    assert sizes.carried(1, 100, 2, 8).rows == _sizes.CARRIED_ROWS
    assert sizes.carried(1, 10**6, 2, 8) is None
    assert sizes.carried(1000, 10, 2, 8) is None
    assert _sizes.Sizes(max_steps=10).carried(1, 2, 2, 8).rows == 12
    assert _sizes.Sizes(max_steps=1000, record_bytes=1000).carried(1, 100, 2, 8) is None


@pytest.mark.parametrize("memory", [None, "64 MiB"])
def test_steps_linked_by_their_slopes(memory):
    """One large state: cotangents pass through the slope that a step hands on, unless a user bounds the record."""
    start = jnp.linspace(-1.0, 1.0, 70)
    gradient = memory and simkit.Checkpointed(memory=memory)

    def ring(a, times=TIMES, max_steps=4096):
        pull = lambda t, y, p: p["a"] * (jnp.roll(y, 1) - y) - y**3
        step = simkit.Adaptive(1e-5, 1e-7, max_steps=max_steps)
        known = {"solver": "tsit5", "step": step, "gradient": gradient, "on_failure": "mark"}
        return simkit.simulate(simkit.from_function(pull, {"a": a}), start * a, times, **known)

    total = lambda a: jnp.sum(ring(a).ys[1:] * jnp.arange(70.0)[None])
    a = jnp.asarray(1.3)
    assert int(ring(a).steps) > 5
    close(jax.jit(jax.grad(total))(a), jax.jit(jax.jacfwd(total))(a))
    if memory is None:  # of higher order, over more members, and of a run that fails
        close(jax.grad(jax.grad(total))(a), jax.jacfwd(jax.jacfwd(total))(a))
        close(jax.vmap(jax.grad(total))(jnp.array([1.3, 0.7]))[0], jax.grad(total)(a))
        early = jax.grad(lambda a: jnp.sum(ring(a, max_steps=3).ys[0]))(a)
        close(early, jnp.sum(start))
        assert jnp.isnan(jax.grad(lambda a: jnp.sum(ring(a, max_steps=3).ys[-1]))(a))
