"""Tasks of sbibm, the benchmark of simulation-based inference, as problems, with its observations and reference posteriors.

Lueckmann, Boelts, Greenberg, Goncalves & Macke (2021), arXiv:2101.04653. The folder `benchmarks/.sbibm/TASK/NUMBER` holds the files
`observation.csv` and `reference_posterior_samples.csv.bz2` of `sbibm/tasks/TASK/files/num_observation_NUMBER`.
"""

import bz2
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from _harness import HERE
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

import simkit
from simkit import Free, Problem

FOLDER = HERE / ".sbibm"
HALF = 0.5**0.5
"""The cosine of 45 degrees."""

BEST = {
    ("two_moons", 10_000): 0.554,
    ("two_moons", 100_000): 0.530,
    ("slcp", 10_000): 0.713,
    ("slcp", 100_000): 0.578,
    ("lotka_volterra", 10_000): 0.738,
    ("lotka_volterra", 100_000): 0.695,
    ("sir", 10_000): 0.561,
    ("sir", 100_000): 0.547,
    ("gaussian_linear", 10_000): 0.536,
    ("gaussian_linear", 100_000): 0.506,
}
"""The best mean C2ST of ten observations in the tables that the benchmark's authors publish (sbi-benchmark/results,
main_paper.csv): SNPE, SNLE, SNRE, NPE, NLE, NRE, SMC-ABC and REJ-ABC."""


class Task(NamedTuple):
    """A problem of the first observation, where its data go, and the names of its unknowns in the benchmark's order."""

    problem: Problem
    shaped: Callable[[np.ndarray], dict[str, np.ndarray]]
    names: list[str]


def read(path: Path) -> np.ndarray:
    """A table of numbers, packed or not."""
    text = (bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()).decode()
    return np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2)


def observed(task: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The data of an observation, and 10,000 draws of its posterior."""
    folder = FOLDER / task / str(number)
    return read(folder / "observation.csv")[0], read(folder / "reference_posterior_samples.csv.bz2")


def by_simulator(simulate: Any, size: int, free: Free, count: int) -> Task:
    names = [f"theta.{i}" for i in range(size)]
    parameters = {"theta": np.zeros(size)}
    problem = simkit.from_simulator(simulate, parameters, np.zeros(count), free=dict.fromkeys(names, free))
    return Task(problem, lambda x: {"x": x[None, None]}, names)


def two_moons() -> Task:
    def simulate(p: Any, key: Any) -> Any:
        (a, b), (turn, radius) = p["theta"], jax.random.split(key)
        angle = jax.random.uniform(turn, minval=-jnp.pi / 2, maxval=jnp.pi / 2)
        r = 0.1 + 0.01 * jax.random.normal(radius)
        return jnp.stack([jnp.cos(angle) * r + 0.25 - jnp.abs(a + b) * HALF, jnp.sin(angle) * r + (b - a) * HALF])

    return by_simulator(simulate, 2, Free(bounds=(-1.0, 1.0)), 2)


def slcp() -> Task:
    def simulate(p: Any, key: Any) -> Any:
        t = p["theta"]
        noise = jax.random.normal(key, (4, 2))
        one, two, rho = t[2] ** 2, t[3] ** 2, jnp.tanh(t[4])
        first = jnp.sqrt(one**2 + 1e-6)
        slope = rho * one * two / first
        second = jnp.sqrt(two**2 + 1e-6 - slope**2)
        return jnp.stack([t[0] + first * noise[:, 0], t[1] + slope * noise[:, 0] + second * noise[:, 1]], 1).ravel()

    return by_simulator(simulate, 5, Free(bounds=(-3.0, 3.0)), 8)


def gaussian_linear() -> Task:
    def simulate(p: Any, key: Any) -> Any:
        return p["theta"] + 0.1**0.5 * jax.random.normal(key, (10,))

    return by_simulator(simulate, 10, Free(dist.Normal(0.0, 0.1**0.5)), 10)


def lotka_volterra() -> Task:
    def field(t: Any, y: Any, p: Any) -> Any:
        met = y["prey"] * y["predators"]
        return {
            "prey": p["alpha"] * y["prey"] - p["beta"] * met,
            "predators": p["delta"] * met - p["gamma"] * y["predators"],
        }

    names, high, low = ["alpha", "beta", "gamma", "delta"], dist.LogNormal(-0.125, 0.5), dist.LogNormal(-3.0, 0.5)
    times = 2.1 * np.arange(10)
    problem = Problem(
        simkit.from_function(field, {"alpha": 0.9, "beta": 0.05, "gamma": 0.9, "delta": 0.05}),
        simkit.Experiment("one", times, dict.fromkeys(["prey", "predators"], np.ones(10))),
        y0={"prey": 30.0, "predators": 1.0},
        free=dict(zip(names, map(Free, (high, low, high, low)), strict=True)),
        noise=dict.fromkeys(["prey", "predators"], simkit.noise.LogNormal(0.1)),
    )
    return Task(problem, lambda x: {"prey": x[None, :10], "predators": x[None, 10:]}, names)


def sir() -> Task:
    people = 1e6

    def field(t: Any, y: Any, p: Any) -> Any:
        new = p["beta"] * y["susceptible"] * y["infected"] / people
        return {"susceptible": -new, "infected": new - p["gamma"] * y["infected"]}

    def share(t: Any, y: Any, p: Any) -> Any:
        return {"share": jnp.clip(y["infected"] / people, 1e-12, 1.0)}

    free = {"beta": Free(dist.LogNormal(np.log(0.4), 0.5)), "gamma": Free(dist.LogNormal(np.log(0.125), 0.2))}
    problem = Problem(
        simkit.from_function(field, {"beta": 0.4, "gamma": 0.125}, outputs=share),
        simkit.Experiment("one", 17.0 * np.arange(10), {"share": simkit.Successes(np.ones(10), 1000)}),
        y0={"susceptible": people - 1, "infected": 1.0},
        free=free,
        noise={"share": simkit.noise.Binomial()},
    )
    return Task(problem, lambda x: {"share": x[None] / 1000}, list(free))


TASKS = {f.__name__: f for f in (two_moons, slcp, lotka_volterra, sir, gaussian_linear)}


def c2st(reference: np.ndarray, ours: np.ndarray) -> float:
    """Accuracy of the benchmark's classifier that tells two sets of draws apart: 0.5 where they are alike."""
    mean, sd = reference.mean(axis=0), reference.std(axis=0, ddof=1)
    draws = np.concatenate([(reference - mean) / sd, (ours - mean) / sd])
    which = np.repeat([0.0, 1.0], [len(reference), len(ours)])
    width = 10 * reference.shape[1]
    network = MLPClassifier((width, width), max_iter=10_000, random_state=1)
    folds = KFold(5, shuffle=True, random_state=1)
    return float(np.mean(cross_val_score(network, draws, which, cv=folds, scoring="accuracy")))
