"""The stochastic steppers: strong order against exact solutions on the same Brownian paths."""

from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Fixed, StochasticSystem, quantity
from simkit.core import SystemTerm
from simkit.engine import fixed_grid
from simkit.solvers import SRA1, EulerMaruyama, Milstein, StratonovichHeun, Tsit5, VelocityVerlet

FINE = 2**9
PATHS = 1000


class Growth(StochasticSystem):
    """Geometric Brownian motion, dy = mu y dt + sigma y dW."""

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "diagonal"
    mu: jax.Array = quantity(0.5)
    sigma: jax.Array = quantity(0.8)

    def drift(self, t, y, inputs):
        return self.mu * y

    def diffusion(self, t, y, inputs):
        return self.sigma * y

    @classmethod
    def example(cls):
        raise NotImplementedError


class StratonovichGrowth(Growth):
    interpretation: ClassVar = "stratonovich"


class Forced(Growth):
    """dy = -mu y dt + sigma (1 + t) dW: additive, with a diffusion that changes with time."""

    noise_kind: ClassVar = "additive"

    def drift(self, t, y, inputs):
        return -self.mu * y

    def diffusion(self, t, y, inputs):
        return jnp.full_like(y, self.sigma * (1 + t))


class Bent(Forced):
    """A nonlinear drift under additive noise, without which order 3/2 is not the limit; it has no exact solution."""

    def drift(self, t, y, inputs):
        return -self.mu * jnp.sin(3 * y)


class SharedGrowth(Growth):
    """Two components driven by one process."""

    noise_kind: ClassVar = "general"

    def diffusion(self, t, y, inputs):
        return self.sigma * y[:, None]


class TabulatedPath(diffrax.AbstractBrownianPath):
    """A Brownian path known on a fine grid over [0, 1], with its exact integral: every coarser step sees the same path."""

    w: jax.Array
    integral: jax.Array
    levy_area: type = diffrax.SpaceTimeLevyArea

    @property
    def t0(self):
        return 0.0

    @property
    def t1(self):
        return 1.0

    def evaluate(self, t0, t1=None, left=True, use_levy=False):
        i, j = (jnp.round(t * FINE).astype(int) for t in (t0, t1))
        h, dw = t1 - t0, self.w[j] - self.w[i]
        if not use_levy:
            return dw[None]
        area = (self.integral[j] - self.integral[i] - self.w[i] * h) / h - 0.5 * dw
        return diffrax.SpaceTimeLevyArea(dt=h, W=dw[None], H=area[None])


def brownian_tables(seed=0):
    """W and its integral on the fine grid: over a step h, the integral is h (W0 + dW/2 + H) with H ~ N(0, h/12)."""
    rng, h = np.random.default_rng(seed), 1 / FINE
    dw, area = rng.normal(size=(PATHS, FINE)) * h**0.5, rng.normal(size=(PATHS, FINE)) * (h / 12) ** 0.5
    w = np.concatenate([np.zeros((PATHS, 1)), np.cumsum(dw, 1)], 1)
    steps = h * (w[:, :-1] + 0.5 * dw + area)
    return w, np.concatenate([np.zeros((PATHS, 1)), np.cumsum(steps, 1)], 1)


def exact_end(system, w, integral):
    mu, sigma = float(system.mu), float(system.sigma)
    if isinstance(system, Forced):
        # By parts with k(s) = exp(-mu (1 - s)) sigma (1 + s): k(1) W(1) minus the integral of k' W, k' taken at the middle of
        # each fine step, which errs by its curvature, (1/FINE)^2, far below the steppers'.
        middle = (np.arange(FINE) + 0.5) / FINE
        slope = sigma * np.exp(-mu * (1 - middle)) * (mu * (1 + middle) + 1)
        return np.exp(-mu) + 2 * sigma * w[:, -1] - np.diff(integral, axis=1) @ slope
    correction = 0.5 * sigma**2 if system.interpretation == "ito" else 0.0
    return np.exp(mu - correction + sigma * w[:, -1])


CASES = [
    (EulerMaruyama(), Growth(), 0.5),
    (Milstein(), Growth(), 1.0),
    (StratonovichHeun(), StratonovichGrowth(), 1.0),
    (EulerMaruyama(), Forced(), 1.0),
    (Milstein(), Forced(), 1.0),
    (StratonovichHeun(), Forced(), 1.0),
    (SRA1(), Bent(), 1.5),
    (SRA1(), Forced(), 2.0),  # where the drift is linear, the terms of order 3/2 vanish
]


@pytest.mark.parametrize(("solver", "system", "order"), CASES, ids=lambda v: type(v).__name__)
def test_strong_order(solver, system, order):
    w, integral = brownian_tables()

    def ends(count):
        def end(w, integral):
            terms = SystemTerm(system, None, TabulatedPath(w, integral))
            return fixed_grid(terms, solver, jnp.ones(1), jnp.asarray([0.0, 1.0]), count)[-1, 0]

        return np.asarray(jax.jit(jax.vmap(end))(jnp.asarray(w), jnp.asarray(integral)))

    # The finest steps stand in for the exact solution of `Bent`: 8 times finer than the last, 1 / 22 of its error.
    truth = ends(FINE) if isinstance(system, Bent) else exact_end(system, w, integral)
    counts = (8, 16, 32, 64)
    errors = [np.sqrt(np.mean((ends(count) - truth) ** 2)) for count in counts]
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    # A mean square over 1000 paths has a standard error of some 4 % (heavier tails for growth: 10 %); over a factor of eight in
    # the step that moves the slope by 0.05. The rest of 0.2 is the approach to the limit; orders lie half a unit apart.
    assert abs(slope - order) < 0.2


@pytest.mark.parametrize(
    "solver", [None, EulerMaruyama(), Milstein(), StratonovichHeun(), SRA1()], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64], ids=["float32", "float64"])
def test_moments_through_simulate(solver, dtype):
    """Mean and variance of the Ornstein-Uhlenbeck-like process, by both float types and the paths that simulate draws."""
    system = simkit.cast(Forced(), dtype)
    result = simkit.simulate(
        system,
        jnp.ones(4000, dtype),
        jnp.asarray([0.0, 0.5, 1.0], dtype),
        solver=solver,
        step=Fixed(25),
        key=jax.random.key(1),
    )
    y = np.asarray(result.ys[-1], float)
    assert result.ys.dtype == dtype
    s = np.linspace(0, 1, 2001)
    variance = np.trapezoid((0.8 * (1 + s) * np.exp(-0.5 * (1 - s))) ** 2, s)
    # Five standard errors of 4000 samples, and 1 % for the bias of first-order steps of 0.02.
    assert abs(y.mean() - np.exp(-0.5)) < 5 * np.sqrt(variance / 4000) + 0.01
    assert abs(y.var() / variance - 1) < 5 * np.sqrt(2 / 4000) + 0.02


def test_components_have_their_own_noise_and_shared_noise_is_shared():
    times, key = jnp.asarray([0.0, 1.0]), jax.random.key(0)
    own = simkit.simulate(Growth(), jnp.ones(2), times, step=0.1, key=key).ys[-1]
    shared = simkit.simulate(SharedGrowth(), jnp.ones(2), times, step=0.1, key=key).ys[-1]
    assert own[0] != own[1]
    assert shared[0] == shared[1] != 1


@pytest.mark.parametrize(
    ("solver", "system"), [(Milstein(), Growth()), (StratonovichHeun(), StratonovichGrowth()), (SRA1(), Forced())]
)
def test_gradients(solver, system):
    times, key = jnp.asarray([0.0, 1.0]), jax.random.key(3)

    def end(sigma):
        moved = type(system)(sigma=sigma)
        return simkit.simulate(moved, jnp.ones(2), times, solver=solver, step=Fixed(20), key=key).ys[-1].sum()

    value, reverse = jax.jit(jax.value_and_grad(end))(0.7)
    push = jax.jit(lambda s: jax.jvp(end, (s,), (jnp.ones(()),)))
    numeric = (push(jnp.asarray(0.7 + 1e-5))[0] - push(jnp.asarray(0.7 - 1e-5))[0]) / 2e-5
    np.testing.assert_allclose(reverse, push(jnp.asarray(0.7))[1], rtol=1e-11)
    np.testing.assert_allclose(reverse, numeric, rtol=1e-7)  # h^2 = 1e-10 and round-off over h = 1e-11
    assert np.isfinite(value)


@pytest.mark.parametrize(
    ("solver", "system", "sentence"),
    [
        (Tsit5(), Growth(), "`Tsit5` knows no noise .* `Milstein` fits"),
        (VelocityVerlet(), Growth(), "needs a SeparableSystem .* `Milstein` fits"),
        (StratonovichHeun(), Growth(), "reads an equation as Stratonovich .* meant as Ito. `Milstein` fits"),
        (EulerMaruyama(), StratonovichGrowth(), "meant as Stratonovich. `StratonovichHeun` fits"),
        (SRA1(), Growth(), "serves additive noise .* is diagonal. `Milstein` fits"),
        (Milstein(), SharedGrowth(), "is general. `EulerMaruyama` fits"),
    ],
)
def test_mismatch_names_the_stepper_that_fits(solver, system, sentence):
    with pytest.raises(simkit.ArgumentError, match=sentence):
        simkit.simulate(system, jnp.ones(2), jnp.asarray([0.0, 1.0]), solver=solver, step=0.1, key=jax.random.key(0))


def test_milstein_refuses_shared_processes():
    class Mislabelled(SharedGrowth):
        noise_kind: ClassVar = "diagonal"

    with pytest.raises(simkit.ArgumentError, match="a Wiener process of its own"):
        simkit.simulate(Mislabelled(), jnp.ones(2), jnp.asarray([0.0, 1.0]), step=0.1, key=jax.random.key(0))
