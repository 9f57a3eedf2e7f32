"""Regulators and plans against SciPy, environments against those of Gymnasium."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import simkit
from simkit.control import ILQR, Environment, linearise, lqr, to_gymnasium
from simkit.odes import CartPole

CART = CartPole(gravity=9.8)
PUSH = {"force": (-10.0, 10.0)}
REST = CartPole.State(position=0.0, velocity=0.0, angle=0.05, spin=0.0)


class Linear(simkit.PlainSystem):
    a: jax.Array
    b: jax.Array

    def vector_field(self, t, y, inputs):
        return self.a @ y + self.b @ jnp.stack([inputs["u"], inputs["v"]])

    @classmethod
    def example(cls):
        return simkit.Example(cls(jnp.array([[0.0, 1.0], [2.0, -0.3]]), jnp.array([[0.0, 0.5], [1.0, 0.2]])), X, X)


X = jnp.array([1.0, -2.0])
LINEAR = Linear.example().system
WEIGHT = jnp.array([0.5, 0.8])


def fallen(y):
    return (jnp.abs(y.position) > 2.4) | (jnp.abs(y.angle) > 12 * 2 * np.pi / 360)


def cart_pole(**known):
    known = {"terminate": fallen, "solver": "euler", "step": simkit.Fixed(1), **known}
    return Environment(CART, PUSH, start=REST, reward=lambda y, action, after: 1.0, interval=0.02, **known)


@pytest.mark.parametrize("scale", [1.0, 1e-12])
@pytest.mark.parametrize(("n", "m"), [(2, 1), (6, 2)])
def test_regulators_are_those_of_scipy(n, m, scale):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, m))
    q, r = np.eye(n), 0.3 * np.eye(m) + 0.1
    for continuous, solve in ((False, scipy.linalg.solve_discrete_are), (True, scipy.linalg.solve_continuous_are)):
        expected = scale**2 * solve(a, b, q, r)  # with such weights SciPy finds none
        found = lqr(a, b, scale**2 * q, scale**2 * r, continuous=continuous)
        np.testing.assert_allclose(found.cost, expected, atol=1e-10 * np.abs(expected).max(), rtol=0)


def test_what_cannot_be_stabilised():
    unseen = np.diag([2.0, 0.5]), np.array([[0.0], [1.0]]), np.eye(2), np.eye(1)
    with pytest.raises(simkit.SimulationError, match="No regulator"):
        lqr(*unseen)
    assert np.isnan(jax.jit(lqr)(*unseen).gain).all()


def test_a_linear_plan_is_the_regulator():
    """With the regulator's cost at its end a horizon of seven is an infinite one; without bounds one iteration finds it."""
    a, b = linearise(LINEAR, X, {"u": 0.0, "v": 0.0}, interval=0.1)
    np.testing.assert_allclose(a, scipy.linalg.expm(0.1 * np.asarray(LINEAR.a)), atol=6e-6)  # RK4: (0.1 |A|)^5 / 120
    regulator = lqr(a, b, jnp.eye(2), jnp.diag(WEIGHT**2))
    end = np.linalg.cholesky(regulator.cost).T
    free = {"u": (-np.inf, np.inf), "v": (-np.inf, np.inf)}
    residuals = lambda y, u: jnp.concatenate([y, WEIGHT * u])
    plan = functools.partial(ILQR, LINEAR, residuals=residuals, final=lambda y: end @ y, interval=0.1, horizon=7)
    controller = plan(actions=free)
    action, after = jax.jit(controller)(X, controller.start(X))
    np.testing.assert_allclose(action, -regulator.gain @ X, atol=1e-10)
    np.testing.assert_allclose(after.gains[0], -regulator.gain, atol=1e-10)
    # Within bounds: the least squares of SciPy.
    controller = plan(actions={"u": (-0.5, 0.5), "v": (-0.4, 0.3)}, iterations=20)
    found = jax.jit(controller.plan)(X, controller.start(X))
    states, rows = [np.eye(2, 16)], []
    for k in range(7):
        u = np.eye(16)[2 + 2 * k : 4 + 2 * k]
        rows += [states[-1], WEIGHT[:, None] * u]
        states.append(a @ states[-1] + b @ u)
    rows = np.concatenate([*rows, end @ states[-1]])
    bounds = np.tile([-0.5, -0.4], 7), np.tile([0.5, 0.3], 7)
    expected = scipy.optimize.lsq_linear(rows[:, 2:], -rows[:, :2] @ X, bounds, tol=1e-14)
    np.testing.assert_allclose(found.actions.reshape(-1), expected.x, atol=1e-8)
    np.testing.assert_allclose(found.cost, 2 * expected.cost, rtol=1e-10)


def test_a_pole_is_swung_up_by_a_wrong_model():
    """From starts anywhere; the real pole is heavier by 30 % and longer by a tenth."""
    weights = jnp.array([3.0, 0.7, 0.2, 0.3, 0.03])
    residuals = lambda y, u: weights * jnp.stack([jnp.sin(y.angle / 2), y.position, y.velocity, y.spin, u[0]])
    final = lambda y: 3 * residuals(y, jnp.zeros(1))
    controller = ILQR(CartPole(cart_friction=0.1), PUSH, residuals, final, interval=0.05, horizon=30)
    real = CartPole(pole_mass=0.13, half_length=0.55, cart_friction=0.15)

    def start(key):
        k = jax.random.uniform(key, (4,), minval=-1.0)
        return CartPole.State(position=0.5 * k[0], velocity=0.5 * k[1], angle=np.pi * (1 + k[2]), spin=k[3])

    plant = Environment(real, PUSH, start=start, reward=lambda y, u, after: jnp.cos(after.angle), interval=0.05)

    def run(key):
        def on(carry, _):
            state, plan = carry
            action, plan = controller(state.y, plan)
            found = plant.step(state, action)
            return (found.state, plan), (found.reward, action)

        state, _ = plant.reset(key)
        return jax.lax.scan(on, (state, controller.start(state.y)), None, length=150)[1]

    up, actions = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(3), 8))
    assert np.all(np.abs(actions) <= 10.0)
    assert np.all(up[:, -20:] > 0.95)


def test_an_episode_is_pure():
    """Under `jit`, `vmap`, `scan` and `grad`; the limit truncates, a fall terminates, noise has its size."""
    environment = cart_pole(limit=7, noise=jnp.array([0.0, 0.0, 0.0, 0.3]))

    def episode(push, key):
        on = lambda state, _: (lambda found: (found.state, found))(environment.step(state, push[None]))
        return jax.lax.scan(on, environment.reset(key)[0], None, length=10)[1]

    keys = jax.random.split(jax.random.key(0), 4096)

    def third(push):
        found = jax.vmap(episode, (None, 0))(push, keys)
        return found.state.y.angle[0, 3], found

    both = jax.jit(jax.vmap(jax.value_and_grad(third, has_aux=True)))
    (angles, found), slopes = both(jnp.array([-10.0, -5.0 - 1e-4, -5.0, -5.0 + 1e-4]))
    np.testing.assert_allclose(slopes[2], (angles[3] - angles[1]) / 2e-4, rtol=1e-6)
    found = jax.tree.map(lambda x: x[0], found)
    assert found.truncated[0].tolist() == [i >= 6 for i in range(10)]
    assert bool(found.terminated[0, -1])
    assert not bool(found.terminated[0, 0])
    left = found.observation[:, 0] - jnp.stack(jax.tree.leaves(jax.tree.map(lambda x: x[:, 0], found.state.y)), axis=1)
    assert np.all(left[:, :3] == 0)
    # The variance of 4,096 draws has the relative standard deviation sqrt(2 / 4095) = 0.022: five of them.
    assert abs(np.var(left[:, 3]) / 0.09 - 1) < 0.11


def test_a_failed_step_ends_the_episode():
    runaway = simkit.from_function(lambda t, y, p, inputs: 1e3 * y**2 + inputs["u"], {"unused": 1.0})
    environment = Environment(
        runaway,
        {"u": (-1.0, 1.0)},
        start=jnp.ones(1),
        reward=lambda y, u, after: after[0],
        interval=1.0,
        solver="tsit5",
    )
    found = environment.step(environment.reset(jax.random.key(0))[0], jnp.zeros(1))
    assert bool(found.terminated)
    assert np.isnan(found.reward)


def test_gymnasium():
    """The trajectory of CartPole-v1 with its Euler steps, its own checker, and many that begin anew."""
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    environment = cart_pole()
    theirs = gymnasium.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    theirs.state = np.array([0.0, 0.0, 0.05, 0.0])
    step, state, rng = jax.jit(environment.step), environment.reset(jax.random.key(0))[0], np.random.default_rng(0)
    for _ in range(200):
        right = int(rng.integers(2))
        _, _, over, _, _ = theirs.step(right)
        found = step(state, jnp.array([10.0 if right else -10.0]))
        np.testing.assert_allclose(found.observation, np.array(theirs.state), atol=1e-13)
        state = found.state
        assert bool(found.terminated) == over
        if over:
            break
    else:
        pytest.fail("the pole did not fall")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on boxes without bounds and on symmetric ones
        check_env(to_gymnasium(environment), skip_render_check=True)
    many = to_gymnasium(environment, 3)
    many.reset(seed=1)
    overs = np.array([many.step(np.full((3, 1), 10.0, np.float32))[2] for _ in range(30)])
    assert overs.any()
    assert not (overs[1:] & overs[:-1]).any()


def test_float32_and_other_units():
    """A cart whose lengths are counted in units of 1e-12 of a metre, in float32: the same numbers in those units."""

    class Cart(simkit.PlainSystem):
        def vector_field(self, t, y, inputs):
            return jnp.stack([y[1], inputs["u"] - 0.1 * y[1]])

        @classmethod
        def example(cls):
            return simkit.Example(cls(), X, X)

    def action(unit, dtype):
        residuals = lambda y, u: jnp.concatenate([y * unit, 0.1 * unit * u])
        controller = ILQR(Cart(), {"u": (-1 / unit, 1 / unit)}, residuals, interval=0.1, horizon=10)
        start = jnp.array([1.0 / unit, 0.0], dtype)
        found, plan = jax.jit(controller)(start, controller.start(start))
        assert found.dtype == dtype
        assert np.isfinite(plan.cost)
        return float(found[0]) * unit

    np.testing.assert_allclose(action(1e-12, jnp.float32), action(1.0, jnp.float64), rtol=1e-5)


def test_linearise_says_which_state_and_inputs_it_needs():
    drive = simkit.from_equations(
        {"d w": "volt - k*w"}, parameters={"k": 1.0}, inputs={"volt": simkit.Input("V", default=0.0)}, name="Drive"
    )
    with pytest.raises(simkit.ArgumentError, match="cannot work with the form of its state"):
        linearise(drive, [1.0], {"volt": 1.0}, interval=0.02)
    with pytest.raises(simkit.ArgumentError, match="at least one input"):
        linearise(drive, drive.State(w=1.0), {})
    np.testing.assert_allclose(linearise(drive, drive.State(w=1.0), {"volt": 1.0})[1], [[1.0]])
