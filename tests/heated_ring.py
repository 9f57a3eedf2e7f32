"""A field on a ring that diffuses and is seen at some places: its problem, and what dense linear algebra says of it."""

import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import Experiment, Free, Problem
from simkit.fields import resampled
from simkit.noise import Normal

SIZE = 48


class Heat(simkit.PlainSystem):
    """Diffusion on a ring, du/dt = rate (u[i-1] - 2 u[i] + u[i+1])."""

    rate: simkit.Scalar = simkit.quantity(20.0, support=simkit.POSITIVE)

    def vector_field(self, t, y, inputs):
        return self.rate * (jnp.roll(y, 1) - 2 * y + jnp.roll(y, -1))

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.ones(SIZE), jnp.linspace(0.0, 1.0, 3))


def ring(prior, transform=None, more=None, step=0.01):
    """Noisy data of every third place at two times; a truth drawn from the prior."""
    random = np.random.default_rng(0)
    truth = np.asarray(prior.mean + prior.root(jnp.asarray(random.normal(size=SIZE))))
    truth = np.exp(truth) if transform == "log" else truth
    times = np.array([0.05, 0.1])
    found = simkit.simulate(Heat(), jnp.asarray(truth), np.append(0.0, times), step=0.01).ys[1:]
    data = np.asarray(found) + 0.05 * random.normal(size=found.shape)
    data[:, np.arange(SIZE) % 3 > 0] = np.nan
    free = {"y0": Free(prior, transform=transform)} | (more or {})
    experiment = Experiment("ring", times, {"y": data}, start=0.0)
    problem = Problem(Heat(), experiment, free=free, noise={"y": Normal(0.05)}, y0=jnp.ones(SIZE), step=step)
    return problem, truth


def half(problem, prior):
    """The same problem with cells twice as wide, seen at the places of the finer one."""
    return Problem(
        Heat(rate=5.0),
        Experiment("ring", [0.05, 0.1], {"seen": problem.data["y"][0]}, start=0.0),
        free={"y0": Free(prior)},
        noise={"seen": Normal(0.05)},
        observables={"seen": lambda system, run: resampled(run.ys, SIZE)},
        y0=jnp.ones(SIZE // 2),
        step=0.01,
    )


def by_matrices(problem, prior):
    """Mean and covariance of the posterior of a linear problem whose prior has the mean 0.5."""
    predicted = lambda theta: problem.predict(theta)["y"][0].ravel()
    seen = np.isfinite(np.asarray(problem.data["y"]).ravel())
    matrix = np.asarray(jax.jacfwd(predicted)(jnp.zeros(SIZE)))[seen] / 0.05
    roots = np.asarray(jax.vmap(prior.root)(jnp.eye(SIZE)))
    wanted = np.asarray(problem.data["y"]).ravel()[seen] / 0.05
    covariance = np.linalg.inv(matrix.T @ matrix + np.linalg.inv(roots @ roots))
    return 0.5 + covariance @ matrix.T @ (wanted - matrix @ np.full(SIZE, 0.5)), covariance
