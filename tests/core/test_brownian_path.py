"""Increments of Brownian paths: normal, independent, and the same whatever the program and the batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.core import brownian_path
from simkit.odes import OrnsteinUhlenbeck
from simkit.solvers import EulerMaruyama

PATHS, STARTS, STEPS = 40_000, (0.0, 0.5), 3


def increments(key, dtype=jnp.float64, h=1.0):
    """Of two components, in three steps of two windows."""
    path = brownian_path(jax.ShapeDtypeStruct((2,), dtype), key, levy_area=False)
    t = jnp.asarray(0.0, dtype)
    found = []
    for start in STARTS:
        for number in range(STEPS):
            step = path.at(jnp.asarray(start, dtype), jnp.asarray(number, dtype))
            found.append(step.evaluate(t, jnp.asarray(h, dtype)))
    return jnp.concatenate(found)


KEYS = jax.random.split(jax.random.key(0), PATHS)


@pytest.fixture(scope="module", params=[jnp.float32, jnp.float64], ids=["float32", "float64"])
def drawn(request):
    return np.asarray(jax.jit(jax.vmap(lambda key: increments(key, request.param)))(KEYS), float)


def test_moments(drawn):
    """Of N numbers the mean, the variance and the fourth moment have the variances 1/N, 2/N and 96/N; five deviations."""
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert np.abs((drawn**power).mean(axis=0) - expected).max() < 5 * np.sqrt(variance / PATHS)


def test_tails(drawn):
    """Beyond four there are 6.3e-5 of them: a Poisson number, within five deviations."""
    expected = 6.334e-5 * drawn.size
    assert abs((np.abs(drawn) > 4).sum() - expected) < 5 * np.sqrt(expected)


def test_steps_components_windows_and_paths_are_independent(drawn):
    """Correlations of numbers and of their squares are normal with deviation 1/sqrt(N); 66 pairs, five deviations."""
    for values in (drawn, drawn**2):
        off = np.corrcoef(values.T) - np.eye(drawn.shape[1])
        assert np.abs(off).max() < 5 / np.sqrt(PATHS)
        assert abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]) < 5 / np.sqrt(PATHS)


def test_a_path_is_the_same_alone_and_in_a_batch():
    batch = jax.jit(jax.vmap(increments))(KEYS[:3])
    for key, row in zip(KEYS[:3], batch, strict=True):
        np.testing.assert_allclose(increments(key), row, rtol=1e-13)


def test_increments_grow_with_the_root_of_the_step_and_have_that_derivative():
    one = increments(KEYS[0])
    np.testing.assert_allclose(increments(KEYS[0], h=1e-12), 1e-6 * one, rtol=1e-12)
    slope = jax.jacfwd(lambda h: increments(KEYS[0], h=h))(4.0)
    np.testing.assert_allclose(slope, one / 4, rtol=1e-12)


def test_areas_have_a_twelfth_of_the_variance():
    def both(key):
        path = brownian_path(jax.ShapeDtypeStruct((), jnp.float64), key, levy_area=True)
        found = path.at(jnp.asarray(0.0), jnp.asarray(0.0)).evaluate(jnp.asarray(0.0), jnp.asarray(1.0), use_levy=True)
        return jnp.stack([found.W, found.H])

    w, h = np.asarray(jax.jit(jax.vmap(both))(KEYS)).T
    assert abs(12 * h.var() - 1) < 5 * np.sqrt(2 / PATHS)
    assert abs(w.var() - 1) < 5 * np.sqrt(2 / PATHS)
    assert abs(np.corrcoef(w, h)[0, 1]) < 5 / np.sqrt(PATHS)


def test_steps_off_a_grid_are_told_by_their_ends():
    path = brownian_path(jax.ShapeDtypeStruct((), jnp.float64), KEYS[0], levy_area=False)
    of = lambda a, b: float(path.evaluate(jnp.asarray(a), jnp.asarray(b)))
    assert of(0.1, 0.3) == of(0.1, 0.3)
    assert len({of(0.1, 0.3), of(0.1, 0.31), of(0.11, 0.3)}) == 3
    assert of(0.1, 0.3) == pytest.approx(of(0.1 + 1e-16, 0.3), rel=1e-12)  # the last bit of a time is rounding


def test_raw_keys_serve():
    raw = jax.random.PRNGKey(0)
    np.testing.assert_array_equal(increments(raw), increments(jax.random.key(0)))


NEVER = simkit.Event(lambda system, t, y, inputs: y.x - 1e6, "up", ends=True)


@pytest.mark.parametrize("start", [0.0, 1e9], ids=["near", "far"])
@pytest.mark.parametrize("events", [None, [NEVER]], ids=["plain", "event"])
def test_noise_far_from_zero(start, events):
    """Steps are a millionth of what single precision resolves there; of 2,000 ends the variance is known to 3 %, five of them."""
    system = OrnsteinUhlenbeck(reversion=1e-12, mean=0.0, volatility=1.0)
    times = start + jnp.array([0.0, 0.1])

    def end(key):
        y0, step = OrnsteinUhlenbeck.State(x=0.0), simkit.Fixed(100)
        return simkit.simulate(system, y0, times, solver=EulerMaruyama(), step=step, key=key, events=events).ys.x[1]

    ends = np.asarray(jax.jit(jax.vmap(end))(KEYS[:2000]))
    assert abs(ends.var() / 0.1 - 1) < 5 * np.sqrt(2 / 2000)


def test_parts_of_a_step_have_noise_of_their_own():
    """Three times cut ten steps: the steps that are whole draw what they draw without events, and parts are independent."""
    system = OrnsteinUhlenbeck(reversion=1e-12, mean=0.0, volatility=1.0)
    cuts = simkit.Event(at=jnp.array([0.13, 0.16, 0.57]), change=lambda system, t, y, inputs: y)
    run = lambda key, events: (
        simkit.simulate(
            system,
            OrnsteinUhlenbeck.State(x=0.0),
            jnp.linspace(0.0, 1.0, 11),
            solver=EulerMaruyama(),
            step=simkit.Fixed(1),
            key=key,
            events=events,
        ).ys.x
    )
    keys = KEYS[:4000]
    plain = np.diff(jax.jit(jax.vmap(lambda key: run(key, None)))(keys), axis=1)
    parted = np.diff(jax.jit(jax.vmap(lambda key: run(key, {"cut": cuts})))(keys), axis=1)
    whole = [0, 2, 3, 4, 6, 7, 8, 9]
    np.testing.assert_allclose(parted[:, whole], plain[:, whole], rtol=1e-9, atol=1e-12)
    for i in (1, 5):
        assert abs(parted[:, i].var() / 0.1 - 1) < 5 * np.sqrt(2 / 4000)
