"""Derivatives of adaptive solves: the adjoint against the tangent and differences, records that are too small, failures."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine.composition import close

import simkit
from simkit.core import SplitSystem, quantity
from simkit.engine.adaptive._adaptive import integrate_adaptive
from simkit.engine.task._task import Options, Task
from simkit.odes import from_function
from simkit.solvers import Rodas5P, Tsit5

TIGHT = simkit.Adaptive(1e-11, 1e-13)
LOOSE = simkit.Adaptive(1e-6, 1e-9)
# Differences of fourth order over 1e-2: some 1e-7 from their truncation, and 1e-7 from solves that err by 1e-9 at 1e-11.
DIFFERENCES = 1e-6


def predation(t, y, p):
    """Two species; `a` is a number and `b` a vector."""
    return jnp.stack([p["a"] * y[0] - y[0] * y[1], p["b"][0] * y[0] * y[1] - p["b"][1] * y[1]])


def states(q, times, solver=None, step=LOOSE):
    """Five numbers, of which the last two are the initial state -> the states at the times, the first left out."""
    system = from_function(predation, {"a": q[0], "b": q[1:3]})
    found = simkit.simulate(system, q[3:], times, solver=solver or Tsit5(), step=step, on_failure="mark")
    return found.ys[1:]


Q = jnp.array([1.1, 0.9, 0.8, 1.3, 0.7])
SAVED = {
    "between steps": jnp.array([0.0, 0.3, 0.31, 1.0, 2.2, 4.0]),
    "final state only": jnp.array([0.0, 4.0]),
    "many in a step": jnp.linspace(0.0, 2.0, 90),
}


def pairing(function, v, w, *primals):
    """<w, J v> and <J' w, v>, with the larger of the products of norms |w| |J v| and |J' w| |v|, of which rounding is a part."""

    def both(*primals):
        moved = jax.jvp(function, primals, v)[1]
        back = jax.vjp(function, *primals)[1](w)
        return moved, back

    moved, back = jax.jit(both)(*primals)
    forward = np.vdot(w, moved)
    reverse = sum(np.vdot(a, b) for a, b in zip(back, v, strict=True))
    norm = lambda arrays: np.sqrt(sum(np.vdot(x, x) for x in arrays))
    return forward, reverse, max(norm([w]) * norm([moved]), norm(back) * norm(v))


@pytest.mark.parametrize("solver", [Tsit5(), Rodas5P()], ids=["Tsit5", "Rodas5P"])
@pytest.mark.parametrize(
    "saved", [pytest.param(s, marks=() if s.startswith("many") else pytest.mark.slow) for s in SAVED]
)
def test_adjoint_is_the_transpose_of_the_tangent(solver, saved):
    times = SAVED[saved]
    rng = np.random.default_rng(0)
    v, w = jnp.asarray(rng.normal(size=5)), jnp.asarray(rng.normal(size=(len(times) - 1, 2)))
    forward, reverse, scale = pairing(lambda q: states(q, times, solver), (v,), w, Q)
    # rounding of some hundred steps; <w, Jv> itself may be small by cancellation
    assert abs(forward - reverse) <= 1e-12 * scale


@pytest.mark.slow
def test_adjoint_of_members_that_share_parameters():
    """Three members: own initial states and one own parameter, the others shared."""
    times = SAVED["between steps"]
    rng = np.random.default_rng(1)
    own = jnp.stack([Q[2:] * f for f in (0.9, 1.0, 1.2)])
    function = lambda shared, own: jax.vmap(lambda o: states(jnp.concatenate([shared, o]), times))(own)
    v = jnp.asarray(rng.normal(size=2)), jnp.asarray(rng.normal(size=(3, 3)))
    w = jnp.asarray(rng.normal(size=(3, len(times) - 1, 2)))
    forward, reverse, scale = pairing(function, v, w, Q[:2], own)
    assert abs(forward - reverse) <= 1e-12 * scale
    # many cotangents at once
    jacobian = jax.jit(jax.jacrev(lambda s: function(s, own)[:, -1]))(Q[:2])
    alone = jax.jit(jax.jacfwd(lambda s: function(s, own)[:, -1]))(Q[:2])
    close(jacobian, alone)


def driven(z, step=TIGHT):
    """All that derivatives may be taken by, jump times and tables included; the saved states at three times."""

    def field(t, y, p, inputs):
        rates = predation(t, y, {"a": p["a"], "b": jnp.ones(2)})
        return rates + jnp.stack([inputs["dose"] + inputs["light"] * y[1], -inputs["harvest"] * y[1]])

    inputs = {
        "harvest": simkit.PiecewiseConstant(z[3:5], z[5:7]),
        "dose": simkit.Pulses(z[7:8], z[8:9], z[9]),
        "light": simkit.Interpolated(jnp.array([0.2, 0.9, 1.6]), z[10:13]),
    }
    system = from_function(field, {"a": z[0]})
    times = jnp.stack([z[13], z[14], z[15], z[16]])
    found = simkit.simulate(system, z[1:3], times, inputs=inputs, solver=Tsit5(), step=step, on_failure="mark").ys
    return jnp.sum(jnp.sin(found) * jnp.arange(1.0, 9.0).reshape(4, 2))


NAMES = [
    "parameter",
    "y0",
    "y0",
    "step time",
    "step time",
    "step value",
    "step value",
    "pulse time",
    "pulse amount",
    "pulse duration",
    "table",
    "table",
    "table",
    "start",
    "save time",
    "save time",
    "end",
]
Z = jnp.array([0.9, 1.2, 0.8, 0.4, 1.1, 0.1, 0.6, 0.7, 0.5, 0.25, 0.1, 0.4, 0.2, 0.05, 0.55, 1.3, 1.9])


def differ(function, z, h=1e-2):
    """Central differences of fourth order, the direction last."""
    function = jax.jit(function)
    slope = lambda row, h: (function(z + h * row) - function(z - h * row)) / (2 * h)
    return np.stack([(4 * slope(row, h / 2) - slope(row, h)) / 3 for row in jnp.eye(z.size)], axis=-1)


@pytest.mark.slow
def test_gradients_by_everything_agree_with_differences():
    found = jax.jit(jax.grad(driven))(Z)
    expected = differ(driven, Z)
    # The value of `PiecewiseConstant` before its first time is the first value, so that time alone is without effect.
    for name, a, b in zip(NAMES, found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=DIFFERENCES, atol=DIFFERENCES, err_msg=name)
    assert np.count_nonzero(np.abs(expected) > 1e-3) >= 16


@pytest.mark.long
def test_second_derivatives_by_everything():
    """Forward over reverse, forward over forward, and differences of the gradient. Reverse over reverse of this loss, with all its
    kinds of inputs, takes XLA ten minutes; the composition matrix has it for every solver and family."""
    # Tolerances are arguments, so that one program serves both. At the loose one the estimate of the error is far from rounding,
    # so that all programs take the same steps.
    loss = lambda z, rtol: driven(z, simkit.Adaptive(rtol, 0.01 * rtol))
    loose, tight = jnp.asarray(1e-6), jnp.asarray(1e-11)
    gradient, hessian = jax.jit(jax.grad(loss)), jax.jit(jax.hessian(loss))
    close(jax.jit(jax.jacfwd(loss))(Z, loose), gradient(Z, loose))
    expected = hessian(Z, loose)
    again = 1e-9  # the rounding of a second derivative: a digit more than that of a first
    close(jax.jit(jax.jacfwd(jax.jacfwd(loss)))(Z, loose), expected, again)
    close(expected, expected.T, again)
    close(hessian(Z, tight), differ(lambda z: gradient(z, tight), Z), 10 * DIFFERENCES)


@pytest.mark.long
def test_derivatives_by_a_time_of_derivatives_by_a_parameter():
    """Where the first derivative is by parameters alone it still depends on the times; all nestings, against differences."""

    def loss(rate, times):
        system = from_function(predation, {"a": rate, "b": Q[1:3]})
        task = Task(system, Q[3:], None, times, Tsit5(), TIGHT)
        return jnp.sum(jnp.sin(integrate_adaptive(task)[0]) * jnp.arange(1.0, 7.0).reshape(3, 2))

    rate, times = Q[0], jnp.array([0.05, 0.55, 1.3])
    expected = differ(lambda times: jax.grad(loss)(rate, times), times)
    assert np.abs(expected).min() > 0.1
    for by_rate in (jax.grad, jax.jacfwd):
        for by_times in (jax.jacfwd, jax.jacrev):
            found = jax.jit(by_times(by_rate(loss), 1))(rate, times)
            np.testing.assert_allclose(found, expected, rtol=DIFFERENCES)
    mirrored = jax.jit(jax.jacfwd(jax.grad(loss, 1)))(rate, times)
    np.testing.assert_allclose(mirrored, expected, rtol=DIFFERENCES)


@pytest.mark.slow
def test_a_record_too_small_changes_nothing():
    """The same gradient to the last bit or two, whether the record holds the solve or a sixth of it."""
    times = jnp.array([0.0, 1.0, 5.0, 9.0])
    step = simkit.Adaptive(1e-11, 1e-13, max_steps=512)
    qs = jnp.stack([Q * f for f in (0.8, 1.0, 1.1)])

    def total(qs, lanes, memory):
        def one(q):
            system = from_function(predation, {"a": q[0], "b": q[1:3]})
            task = Task(system, q[3:], None, times, Tsit5(), step)
            ys, _, (steps, rejected), _ = integrate_adaptive(task, Options(lanes, memory))
            return jnp.sum(jnp.sin(ys)), steps + rejected

        values, counts = jax.vmap(one)(qs)
        return jnp.sum(values), counts

    gradient = lambda **sizes: jax.jit(jax.grad(functools.partial(total, **sizes), has_aux=True))(qs)
    whole, counts = gradient(lanes=3, memory=None)
    assert counts.min() > 3 * 64  # 64 rows are what fits 3000 bytes beside the snapshots
    for lanes, memory in ((1, 3000), (3, 9000), (2, None)):
        close(gradient(lanes=lanes, memory=memory)[0], whole, 1e-14)


def blowing_up(t, y, p):
    """Runs into infinity at t = 1 / (grow y0); NaN with NaN; turns too often for the step limit when `turn` is large."""
    return p["grow"] * y**2 + p["shared"] * jnp.sin(p["turn"] * t)


@pytest.mark.slow
def test_failed_members_do_not_poison_the_others():
    step = simkit.Adaptive(1e-7, 1e-9, max_steps=200)
    grow = jnp.array([0.1, 5.0, 0.2, jnp.nan, 0.3, 1e200])
    turn = jnp.array([1.0, 1.0, 1e5, 1.0, 2.0, 1.0])

    def one(shared, grow, turn):
        system = from_function(blowing_up, {"grow": grow, "turn": turn, "shared": shared})
        found = simkit.simulate(
            system, jnp.ones(1), jnp.array([0.0, 0.4, 1.0]), solver=Tsit5(), step=step, on_failure="mark"
        )
        ys = jnp.where(found.status == 0, found.ys[:, 0], 0)  # what a failed member shows is not used
        return jnp.sum(ys), found.status

    def total(shared, grow, turn):
        values, status = jax.vmap(one, in_axes=(None, 0, 0))(shared, grow, turn)
        return jnp.sum(values), status

    shared = jnp.asarray(0.5)
    (common, own), status = jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))(shared, grow, turn)
    healthy = np.array([0, 4])
    assert set(np.flatnonzero(np.asarray(status) == 0)) == set(healthy)
    assert len(set(np.asarray(status))) >= 3
    alone = jax.jit(jax.grad(lambda *q: one(*q)[0], argnums=(0, 1)))
    slopes = [alone(shared, grow[i], turn[i]) for i in healthy]
    close(common, sum(s[0] for s in slopes), 1e-13)
    close(own[healthy], np.array([s[1] for s in slopes]), 1e-13)


@pytest.mark.slow
def test_times_that_coincide():
    """A padded table repeats its last time; a span may have no length."""
    padded = jnp.array([0.0, 1.0, 2.0, 2.0, 2.0])
    compiled = jax.jit(lambda q, times: states(q, times))
    slope = jax.jit(jax.jacrev(lambda q, times: states(q, times), argnums=(0, 1)))
    found = compiled(Q, padded)
    # The last column is the end of a step, the others its dense output: the same but for rounding.
    np.testing.assert_allclose(found[2:], np.stack([found[1]] * 2), rtol=1e-14)
    by_q, by_time = slope(Q, padded)
    np.testing.assert_allclose(by_q[2:], np.stack([by_q[1]] * 2), rtol=1e-13)
    field = predation(0.0, found[-1], {"a": Q[0], "b": Q[1:3]})
    for row in (1, 2, 3):  # each row follows its own time
        np.testing.assert_allclose(by_time[row, :, row + 1], field, rtol=1e-12)
    nothing = jnp.zeros(5)
    np.testing.assert_array_equal(compiled(Q, nothing), np.stack([Q[3:]] * 4))
    by_q, by_time = slope(Q, nothing)
    np.testing.assert_allclose(by_q[-1], np.eye(5)[3:], atol=1e-15)
    field = predation(0.0, Q[3:], {"a": Q[0], "b": Q[1:3]})
    np.testing.assert_allclose(by_time[-1, :, -1], field, rtol=1e-12)
    np.testing.assert_allclose(by_time[-1, :, 0], -field, rtol=1e-12)


@pytest.mark.slow
def test_single_precision():
    q, times = simkit.cast(Q, jnp.float32), jnp.array([0.0, 1.0, 2.0], jnp.float32)
    step = simkit.Adaptive(jnp.float32(1e-5), jnp.float32(1e-6))
    slope = jax.jit(jax.jacrev(lambda q: states(q, times, step=step)))(q)
    assert slope.dtype == jnp.float32
    expected = jax.jit(jax.jacrev(lambda q: states(q, times.astype(float))))(Q)
    close(slope, expected, 1e-4)  # ten tolerances


class Waves(SplitSystem):
    """Diffusion and growth on a ring; the encoded state is a complex spectrum."""

    a: jax.Array = quantity()

    def linear(self):
        return (-0.3 * self.a * jnp.arange(3.0) ** 2).astype(complex)

    def nonlinear(self, t, state, inputs):
        y = self.decode(state)
        return self.encode(y * (1 - y))

    def encode(self, y):
        return jnp.fft.rfft(y)

    def decode(self, state):
        return jnp.fft.irfft(state, 4)

    outputs = invariants = example = lambda *_: {}


@pytest.mark.slow
def test_a_complex_state():
    def final(q):
        times = jnp.array([0.0, 0.4, 1.0])
        found = simkit.simulate(Waves(q[0]), q[1:], times, solver=Tsit5(), step=TIGHT, on_failure="mark")
        return jnp.sum(jnp.sin(found.ys[1:]) * jnp.arange(1.0, 5.0)[None])

    q = jnp.array([1.1, 0.2, 0.6, 0.9, 0.4])
    found = jax.jit(jax.grad(final))(q)
    close(found, differ(final, q), DIFFERENCES)
    close(jax.jit(jax.jacfwd(final))(q), found)


@pytest.mark.slow
def test_values_captured_by_the_vector_field():
    """From outside `grad`, `jit` and `vmap`, in reverse and forward mode."""

    def final(rate, other):
        system = from_function(lambda t, y, p: -rate * jnp.sin(other["k"]) * y * p["a"], {"a": 1.5})
        return simkit.simulate(
            system, 2.0, jnp.array([0.0, 0.5, 1.0]), solver=Tsit5(), step=TIGHT, on_failure="mark"
        ).ys[-1]

    exact = lambda rate, k: 2.0 * jnp.exp(-1.5 * rate * jnp.sin(k))
    rates, k = jnp.array([0.3, 0.7, 1.1]), jnp.asarray(0.8)
    by = lambda f: jax.vmap(jax.grad(f, argnums=(0, 1)), in_axes=(0, None))(rates, k)
    found = jax.jit(lambda: by(lambda rate, k: final(rate, {"k": k})))()
    for a, b in zip(found, by(exact), strict=True):
        close(a, b, 1e-9)  # a hundred tolerances
    total = lambda k: jnp.sum(jax.vmap(lambda rate: final(rate, {"k": k}))(rates))
    expected = jax.grad(lambda k: jnp.sum(exact(rates, k)))(k)
    close(jax.jit(jax.grad(total))(k), expected, 1e-9)
    close(jax.jit(jax.jacfwd(total))(k), expected, 1e-9)


@jax.custom_vjp
def tripled(x):
    return x


tripled.defvjp(lambda x: (x, None), lambda _, g: (3 * g,))


@pytest.mark.parametrize("members", [1, 3])
def test_a_rule_of_the_users_own_inside_the_vector_field(members):
    """The rule lies, so that it shows whether it was used: y' = k counts three times."""
    final = lambda k: simkit.simulate(
        from_function(lambda t, y, p: tripled(p["k"]), {"k": k}),
        0.0,
        jnp.array([0.0, 0.5, 2.0]),
        solver=Tsit5(),
        step=LOOSE,
        on_failure="mark",
    ).ys[-1]
    ks = jnp.linspace(0.3, 0.9, members)
    slopes = jax.jit(jax.grad(lambda ks: jnp.sum(jax.vmap(final)(ks))))(ks)
    np.testing.assert_allclose(slopes, np.full(members, 6.0), rtol=1e-12)


def looped(t, y, p):
    """-k y, by a scan, a branch, and a loop whose length depends on the state."""
    sum_of_thirds, _ = jax.lax.scan(lambda s, _: (s + p["k"] * y / 3, None), jnp.zeros_like(y), None, length=3)
    halvings = jax.lax.while_loop(lambda i: i < 3 + (y > 1).astype(int), lambda i: i + 1, 0)
    rate = jax.lax.cond(p["k"] > 0.5, lambda x: -x, lambda x: 0 - 2 * x / 2, sum_of_thirds)
    return jnp.where(halvings >= 3, rate, 0)


@pytest.mark.parametrize("members", [1, 3])
def test_control_flow_inside_the_vector_field(members):
    final = lambda k: simkit.simulate(
        from_function(looped, {"k": k}), 2.0, jnp.array([0.0, 0.5, 1.0]), solver=Tsit5(), step=TIGHT, on_failure="mark"
    ).ys[-1]
    ks = jnp.linspace(0.3, 0.9, members)
    expected = -2.0 * jnp.exp(-ks)
    close(jax.jit(jax.grad(lambda ks: jnp.sum(jax.vmap(final)(ks))))(ks), expected, 1e-9)
    close(jax.jit(jax.vmap(lambda k: jax.jvp(final, (k,), (jnp.ones_like(k),))[1]))(ks), expected, 1e-9)


def test_a_loop_of_unknown_length_has_forward_derivatives_only():
    """Of JAX, not of ours: reverse mode through `while_loop`."""

    def field(t, y, p):
        return -jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * p["k"]), (0, y))[1]

    final = lambda k: simkit.simulate(
        from_function(field, {"k": k}), 2.0, jnp.array([0.0, 1.0]), solver=Tsit5(), step=TIGHT, on_failure="mark"
    ).ys[-1]
    k = jnp.asarray(0.8)
    close(jax.jit(jax.jacfwd(final))(k), -4.0 * k * jnp.exp(-(k**2)), 1e-9)
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        jax.grad(final)(k)
