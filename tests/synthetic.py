"""Results made up from a fixed random key, for tests of files and figures that need results but no computation."""

import jax.numpy as jnp
import numpy as np

import simkit
from simkit.infer._prediction import Prediction
from simkit.problem._observed import Observed

NAMES = ("growth", "y0.hare", "noise.hare.scale")
UNITS = ("1/year", "thousand", "1")


def fit_result(starts=6):
    """A fit of three parameters in which two starts end elsewhere and one fails."""
    random = np.random.default_rng(1)
    half = random.normal(size=(3, 3))
    covariance = jnp.asarray(half @ half.T + np.eye(3)) * 0.01
    estimate = jnp.array([0.5, 30.0, 0.2])
    objective = np.sort(np.concatenate([100 + 1e-3 * random.random(starts - 3), [105.0, 120.0, np.inf]]))
    return simkit.FitResult(
        estimate=estimate,
        standard_error=estimate * jnp.sqrt(jnp.diag(covariance)),
        z=jnp.log(estimate),
        covariance=covariance,
        information=jnp.linalg.inv(covariance),
        curvature=jnp.zeros(3),
        objective=jnp.asarray(objective),
        thetas=jnp.tile(estimate, (starts, 1)),
        status=jnp.array([0] * (starts - 2) + [1, 2]),
        iterations=jnp.full((starts,), 9),
        failures=jnp.zeros((starts,), int),
        log_likelihood=jnp.asarray(-95.0),
        chi_squared=jnp.asarray(40.0),
        bounds=jnp.array([[0.0, jnp.inf]] * 3),
        data_count=jnp.asarray(42),
        names=NAMES,
        units=UNITS,
        log=(True, True, True),
        method="GaussNewton",
        optimum=jnp.array([0] * (starts - 3) + [1, -1, -1]),
        log_mass=jnp.array([-100.0, -110.0]),
        covariances=jnp.stack([covariance, 2 * covariance]),
    )


def posterior(chains=4, draws=100, names=NAMES, units=UNITS):
    """Draws from a correlated log-normal distribution."""
    random = np.random.default_rng(2)
    half = 0.1 * random.normal(size=(len(names), len(names)))
    values = np.exp(random.normal(size=(chains, draws, len(names))) @ half.T)
    return simkit.Posterior(
        draws=jnp.asarray(values),
        log_density=jnp.asarray(random.normal(size=(chains, draws))),
        diverging=jnp.asarray(random.random((chains, draws)) < 0.02),
        steps=jnp.full((chains, draws), 7),
        accept=jnp.full((chains, draws), 0.8),
        names=tuple(names),
        units=tuple(units),
        method="NUTS",
        warnings=("A warning with <brackets> & more.",),
    )


def prediction(experiments=2, times=15, draws=30):
    """Bands for two outputs, one of them failed in one draw."""
    random = np.random.default_rng(3)
    grid = np.tile(np.linspace(0.0, 10.0, times), (experiments, 1))
    curves = {
        "prey": 3 + np.sin(grid) + 0.1 * random.normal(size=(draws, experiments, times)),
        "lynx": 2 + np.cos(grid) + 0.1 * random.normal(size=(draws, experiments, times)),
    }
    curves["prey"][3] = np.nan
    samples = {name: jnp.asarray(values + 0.2) for name, values in curves.items()}
    curves = {name: jnp.asarray(values) for name, values in curves.items()}
    labels = tuple(f"year_{i}" for i in range(experiments))
    return Prediction(jnp.asarray(grid), curves, samples, jnp.asarray(1), labels)


def observed(experiments=2, times=8):
    """Data to go with `prediction`, one of them missing."""
    grid = np.tile(np.linspace(0.0, 9.0, times), (experiments, 1))
    prey = 3 + np.sin(grid)
    prey[0, 2] = np.nan
    labels = tuple(f"year_{i}" for i in range(experiments))
    data = {"prey": prey, "lynx": 2 + np.cos(grid)}
    return Observed(labels, grid, data, {}, {"prey": "thousand", "lynx": "1"})


def averages(times=64):
    """What a run of particles measured, in metal units."""
    random = np.random.default_rng(4)
    grid, distance = np.linspace(0.0, 10.0, times), np.linspace(0.1, 9.9, 50)
    units = simkit.md.METAL
    names = {
        "kinetic_energy": "energy",
        "potential_energy": "energy",
        "temperature": "temperature",
        "pressure": "pressure",
    }
    return simkit.md.Averages(
        times=jnp.asarray(grid),
        series={name: jnp.asarray(k + random.normal(size=times)) for k, name in enumerate(names)},
        distance=jnp.asarray(distance),
        g=jnp.asarray(1 + np.sin(distance) / distance),
        g_error=jnp.full(50, 0.02),
        coordination=jnp.asarray(distance**3),
        lag=jnp.asarray(grid),
        displacement=jnp.asarray(6 * 0.1 * grid + 0.01 * (1 - np.exp(-grid))),
        diffusion=jnp.asarray(0.1),
        after=2.0,
        between=(1.0, 3.0),
        units=tuple((name, units.unit(kind)) for name, kind in {**names, "length": "length", "time": "time"}.items()),
    )
