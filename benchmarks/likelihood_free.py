"""Posteriors of sbibm's tasks from simulations alone, beside its reference posteriors and its published tables.

The figure is C2ST: the accuracy of a classifier that tells our 10,000 draws from the reference's, 0.5 at best; means over
observations.
Beside it stand the best of eight published methods with as many simulations, and the CPU time of learning and of drawing.

Run: `python benchmarks/likelihood_free.py TASK SIMULATIONS OBSERVATIONS`, such as `two_moons 10000 3`; without arguments all
tasks with 10,000 simulations and three observations. Needs scikit-learn, and the benchmark's files as `_sbibm.py` says.
"""

import sys
import time
from typing import Any

import jax
import numpy as np
from _harness import print_table
from _sbibm import BEST, FOLDER, TASKS, c2st, observed

import simkit
from simkit import NeuralLikelihood, NeuralPosterior, SplineFlow

STEPS = {10_000: 8_000, 100_000: 20_000}
BY_LIKELIHOOD = ("slcp", "lotka_volterra")
"""Tasks whose likelihood is simpler than their posterior, or whose data tell far more than the prior."""


IN_ROUNDS = ("sir",)
"""Tasks whose data tell a hundredth of the prior."""


def method_of(task: str, simulations: int) -> Any:
    """The method that the documentation advises for a task."""
    if task in BY_LIKELIHOOD:
        network = SplineFlow(layers=3, bins=4, learning_rate=2e-3, steps=STEPS[simulations] // 2)
        return NeuralLikelihood(simulations=simulations, rounds=5, network=network)
    if task in IN_ROUNDS:
        network = SplineFlow(steps=STEPS[simulations] // 2, members=2)
        return NeuralPosterior(simulations=simulations, rounds=4, network=network)
    members = 3 if simulations < 100_000 else 1  # their mean, where simulations are few
    return NeuralPosterior(simulations=simulations, network=SplineFlow(steps=STEPS[simulations], members=members))


def run(task: str, simulations: int, observations: int) -> tuple[list[float], float]:
    """C2ST by observation, and the CPU seconds of all learning and drawing."""
    found, cpu = [], 0.0
    made, method = TASKS[task](), method_of(task, simulations)
    for number in range(1, observations + 1):
        data, reference = observed(task, number)
        start = time.process_time()
        problem = made.problem.with_data(made.shaped(data))
        if isinstance(method, NeuralPosterior) and method.rounds == 1:  # one for all observations
            method = simkit.learn_posterior(problem, method=method, key=jax.random.key(0))
        posterior = simkit.sample(problem, method=method, draws=2_500, key=jax.random.key(number))
        cpu += time.process_time() - start
        order = [posterior.names.index(name) for name in made.names]
        found.append(c2st(reference, np.asarray(posterior.flat())[:, order]))
        print(task, simulations, number, f"C2ST {found[-1]:.3f}", f"CPU s {cpu:.0f}", posterior.warnings, flush=True)
    return found, cpu


def main(tasks: tuple[str, ...] = tuple(TASKS), simulations: int = 10_000, observations: int = 3) -> dict[str, float]:
    simkit.enable_x64()
    if not FOLDER.exists():
        print(f"{FOLDER} is not there.")
        return {}
    rows, table = {}, []
    for task in tasks:
        found, cpu = run(task, simulations, observations)
        mean, best = float(np.mean(found)), BEST[task, simulations]
        table.append([task, f"{mean:.3f}", f"{best:.3f}", f"{cpu:.0f}", "" if mean <= best + 0.02 else "apart"])
        rows[f"{task}_c2st"] = mean
    heads = ["task", "C2ST", "best published", "CPU s", ""]
    print_table(f"sbibm, {simulations} simulations, {observations} observations", heads, table)
    return rows


if __name__ == "__main__":
    given = sys.argv[1:]
    print(main(tuple(given[:1]), *map(int, given[1:])) if given else main())
