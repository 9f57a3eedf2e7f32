"""Scans that keep what has no derivative, and linear maps that state their transposes, against the same written plainly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close
from jax.sharding import AxisType, PartitionSpec

from simkit.engine.batching._paired import paired
from simkit.engine.stepping._kept import Rules, State, kept_scan

H, STEPS = 0.2, 6
RULES = Rules(
    first=lambda p, f, c, i: (c[0] + H * c[1] / p["mass"], c[1]),
    stale=lambda p, f, m, k: jnp.max(jnp.abs(m[0] - k["position"])) > 0.2,
    build=lambda p, f, m, k: {"position": m[0], "order": jnp.argsort(m[0]), "built": k["built"] + 1},
    second=lambda p, f, m, k, i: kicked(p, f, m, k["order"], i),
)
Q = jnp.array([1.3, 2.0, 0.3, -1.0, 2.0, 0.5, 1.0, -0.2])


def kicked(p, f, middle, order, i):
    """The force is computed in the kept order, which must not matter."""
    x, v = middle
    force = (-p["stiffness"] * jnp.sin(x[order]))[jnp.argsort(order)] * f["weights"][i]
    return (x, v + H * force), force


def known(q):
    weights = 1 + 0.1 * jnp.cos(jnp.arange(STEPS, dtype=q.dtype))
    return {"mass": q[0], "stiffness": q[1]}, {"weights": weights}, (q[2:5], q[5:])


def run(q, rules=RULES):
    params, fixed, carry = known(q)
    kept = {"position": carry[0], "order": jnp.argsort(carry[0]), "built": jnp.asarray(0)}
    return kept_scan(rules, STEPS, params, fixed, State(carry, jnp.zeros(3), jax.lax.stop_gradient(kept)))


def found(q, rules=RULES):
    state = run(q, rules)
    return jnp.concatenate([*state.carry, state.aside])


def plain(q):
    params, fixed, (x, v) = known(q)
    force = x
    for i in range(STEPS):
        x = x + H * v / params["mass"]
        force = -params["stiffness"] * jnp.sin(x) * fixed["weights"][i]
        v = v + H * force
    return jnp.concatenate([x, v, force])


loss = lambda function, q: jnp.sum(jnp.cos(function(q)) * jnp.arange(1.0, 10.0))
ours, theirs = functools.partial(loss, found), functools.partial(loss, plain)


def test_values_and_first_derivatives():
    assert 2 <= run(Q).kept["built"] < STEPS  # it is made anew, and not at every step
    close(found(Q), plain(Q))
    expected = jax.jit(jax.grad(theirs))(Q)
    close(jax.jit(jax.grad(ours))(Q), expected)
    close(jax.jit(jax.jacfwd(ours))(Q), expected)
    close(jax.jit(jax.jacrev(found))(Q), jax.jit(jax.jacfwd(plain))(Q))


@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
def test_second_derivatives(outer, inner):
    close(jax.jit(outer(inner(ours)))(Q), jax.jit(jax.hessian(theirs))(Q))


LESS = RULES._replace(
    stored=lambda carry: carry[0],
    restored=lambda p, f, x, after, begun, i: (x, p["mass"] * (after - x) / H),
)


@pytest.mark.parametrize(
    "order", [jax.grad, jax.jacfwd, pytest.param(lambda f: jax.jacrev(jax.grad(f)), marks=pytest.mark.slow)]
)
def test_carries_that_are_restored_from_positions(order):
    less = functools.partial(loss, functools.partial(found, rules=LESS))
    close(jax.jit(order(less))(Q), jax.jit(order(theirs))(Q))


def test_a_batch_makes_anew_together():
    """One branch for all members: what one needs all do, and nothing is made anew at every step."""
    qs = jnp.stack([Q, 1.1 * Q, 0.7 * Q])
    built = jax.jit(jax.vmap(run))(qs).kept["built"]
    assert np.ptp(built) == 0
    assert built[0] < STEPS
    close(jax.jit(jax.vmap(jax.grad(ours)))(qs), jax.vmap(jax.grad(theirs))(qs))
    assert " cond[" in str(jax.make_jaxpr(jax.vmap(jax.grad(ours)))(qs))


@pytest.mark.parametrize("checked", [True, False])
def test_shards(checked):
    mesh = jax.make_mesh((2,), ("members",), axis_types=(AxisType.Auto,))
    spread = jax.shard_map(
        lambda qs: jax.vmap(jax.grad(ours))(qs),
        mesh=mesh,
        in_specs=PartitionSpec("members"),
        out_specs=PartitionSpec("members"),
        check_vma=checked,
    )
    qs = jnp.stack([Q, 1.1 * Q])
    close(jax.jit(spread)(qs), jax.vmap(jax.grad(theirs))(qs))


@pytest.mark.slow
def test_a_map_is_the_transpose_of_its_partner():
    """A product with a matrix that depends on what the map is given: all orders of differentiation, batches of either operand."""
    matrix = lambda a: jnp.outer(jnp.sin(a), a**2)[:, :2]
    forward = lambda a, d: {"found": matrix(a) @ d}
    backward = lambda a, c: matrix(a).T @ c["found"]
    stated = lambda a, d: jnp.sum(paired(forward, backward, a, d)["found"] ** 3)
    direct = lambda a, d: jnp.sum((matrix(a) @ d) ** 3)
    a, d = jnp.array([0.3, 1.2, -0.8]), jnp.array([0.7, -1.1])
    for order in (lambda f: f, jax.jacfwd, jax.jacrev):
        for other in (lambda f, **_: f, jax.jacfwd, jax.jacrev):
            made = [order(other(f, argnums=(0, 1))) for f in (stated, direct)]
            jax.tree.map(close, *(f(a, d) for f in made))
    many = jnp.stack([a, 2 * a])
    for axes in ((0, None), (None, 0), (0, 0)):
        given = many if axes[0] == 0 else a, jnp.stack([d, 3 * d]) if axes[1] == 0 else d
        slopes = [jax.vmap(jax.grad(f, argnums=(0, 1)), in_axes=axes)(*given) for f in (stated, direct)]
        jax.tree.map(close, *slopes)
        total = lambda a, d, f, axes: jnp.sum(jax.vmap(f, in_axes=axes)(a, d))
        summed = [jax.grad(total, argnums=(0, 1))(*given, f, axes) for f in (stated, direct)]
        jax.tree.map(close, *summed)
