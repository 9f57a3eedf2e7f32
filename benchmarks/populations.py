"""Fits of populations by FOCE and SAEM: theophylline in twelve people and warfarin in 32, CPU seconds with compilation apart.

Theophylline is the study `examples/theophylline.toml`, two differential equations with adaptive steps, and the same model in closed
form; warfarin a closed form with a combined error. Answers are compared first: log likelihoods with those that nlmixr2 (FOCEi of
theophylline, -179.704) and NONMEM (FOCE of warfarin, -442.317) print, and the estimates of both methods with each other. The peers
themselves are programs in R and Fortran, which do not run here; the page on performance quotes a time that nlmixr2 prints.

Run: `python benchmarks/populations.py`. One thread counts, since CPU seconds are summed over threads.
"""

import csv
import dataclasses
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from _harness import HERE, print_table

import simkit
from simkit import Experiment, Free, Individual, Problem

ROUNDS = 3
PUBLISHED = {"theophylline, equations": -179.704, "theophylline, closed form": -179.704, "warfarin": -442.3172}
ORAL = simkit.from_response(
    lambda t, p: (
        (p["dose"] * p["ka"] / (p["v"] * (p["ka"] - p["cl"] / p["v"])))
        * (jnp.exp(-p["cl"] / p["v"] * t) - jnp.exp(-p["ka"] * t))
    ),
    {"dose": 300.0, "ka": 1.5, "cl": 2.7, "v": 32.0},
)


def equations() -> Problem:
    return simkit.load_study(HERE.parent / "examples" / "theophylline.toml").problem()


def closed(path: str, start: dict[str, tuple[float, float]], noise: simkit.noise.AbstractNoise) -> Problem:
    """One compartment with absorption, one dose at time zero, from a table with a dose as the first row of each person."""
    with (HERE.parent / path).open() as file:
        rows = list(csv.DictReader(file))
    runs = []
    for who in dict.fromkeys(row["ID"] for row in rows):
        own = [row for row in rows if row["ID"] == who]
        seen = [row for row in own if row["EVID"] == "0"]
        times, values = (np.array([float(row[name]) for row in seen]) for name in ("TIME", "DV"))
        runs.append(Experiment(who, times, {"y": values}, set={"dose": float(own[0]["AMT"])}))
    free: dict[str, Free | Individual] = {
        name: Individual(Free(bounds=(1e-3, 1e3), start=at), Free(bounds=(0.01, 5.0), start=spread), transform="log")
        for name, (at, spread) in start.items()
    }
    for name in (field.name for field in dataclasses.fields(noise)):
        free[f"noise.y.{name}"] = Free(bounds=(1e-3, 10.0), start=float(getattr(noise, name)), transform="log")
    return Problem(ORAL, runs, free=free, noise={"y": noise})


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "theophylline, equations": equations,
    "theophylline, closed form": lambda: closed(
        "examples/data/theophylline_doses.csv",
        {"ka": (1.57, 0.77), "cl": (2.72, 0.55), "v": (31.5, 0.32)},
        simkit.noise.Normal(0.7),
    ),
    "warfarin": lambda: closed(
        "data/warfarin/warfarin_PKS.csv",
        {"ka": (1.16, 1.0), "cl": (0.135, 1.0), "v": (7.4, 1.0)},
        simkit.noise.Combined(0.5, 0.2),
    ),
}


def main() -> dict[str, float]:
    simkit.enable_x64()
    numbers, table = {}, []
    for name, make in PROBLEMS.items():
        problem = make()
        fits = {
            "FOCE": lambda problem=problem: simkit.fit(problem, starts=1),
            "SAEM": lambda problem=problem: simkit.fit(problem, method=simkit.SAEM(), key=jax.random.key(1)),
        }
        first, times, found = {}, {way: [] for way in fits}, {}
        for way, run in fits.items():
            begun = time.process_time()
            found[way] = run()
            first[way] = time.process_time() - begun
        assert abs(float(found["FOCE"].log_likelihood) - PUBLISHED[name]) < 0.01
        apart = found["SAEM"].of_population().z - found["FOCE"].of_population().z
        error = np.sqrt(np.diag(found["FOCE"].of_population().covariance))
        assert float(np.abs(np.asarray(apart) / error).max()) < 0.5
        for _ in range(ROUNDS):  # A B A B
            for way, run in fits.items():
                begun = time.process_time()
                run()
                times[way].append(time.process_time() - begun)
        for way in fits:
            least, middle = min(times[way]), float(np.median(times[way]))
            likelihood = f"{float(found[way].log_likelihood):.2f}"
            table.append([name, way, f"{first[way] - least:.0f}", f"{least:.2f}", f"{middle:.2f}", likelihood])
            numbers[f"{way}, {name}"] = least
    print_table(
        "Fits of populations, CPU seconds", ["problem", "method", "compile", "least", "median", "log likelihood"], table
    )
    return numbers


if __name__ == "__main__":
    print(main())
