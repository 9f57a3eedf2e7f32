"""Coverage of nominal 90 % intervals of `sample`, on 200 data sets each: populations, censored and autoregressive data.

True values come from the priors, data from them, and each data set is fitted and sampled as a user would (`calibrate`). The share
of true values inside the central 90 % interval scatters by 2.1 %; goal: 87 to 93 %, of the parameters of each problem together.
The deviations of individuals, which are standard normal a priori, are not counted.

Run: `python benchmarks/coverage.py`, or with the name of a problem and the number of data sets.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from _harness import print_table

import simkit
from simkit import Experiment, Free, Individual, Problem

SETS, LEVEL = 200, 0.9


def population() -> Problem:
    """Ten animals that eliminate at rates of their own, with a covariate: a median, a spread, an effect and a noise."""
    times, weights = np.array([0.5, 1.0, 2.0, 4.0]), np.linspace(-1.5, 1.5, 10)
    decay = simkit.from_response(lambda t, p: {"left": 10.0 * jnp.exp(-p["rate"] * t)}, {"rate": 1.0})
    rate = Individual(
        Free(dist.LogNormal(-0.7, 0.5)),
        spread=Free(dist.HalfNormal(0.4)),
        effects={"weight": Free(dist.Normal(0.0, 0.3))},
        transform="log",
    )
    return Problem(
        decay,
        [Experiment(f"{i}", times, {"left": np.ones(4)}, covariates={"weight": w}) for i, w in enumerate(weights)],
        free={"rate": rate, "noise.left.scale": Free(dist.LogNormal(-1.0, 0.3))},
        noise={"left": simkit.noise.Normal(0.3)},
    )


def censored() -> Problem:
    """An exponential decay of which what falls below a limit is known to do so."""
    times = np.linspace(0.0, 6.0, 16)
    system = simkit.from_response(
        lambda t, p: {"left": p["dose"] * jnp.exp(-p["rate"] * t)}, {"dose": 10.0, "rate": 0.5}
    )
    return Problem(
        system,
        Experiment("one", times, {"left": simkit.Censored(np.where(times < 4, 5.0, 0.0), below=1.0)}),
        free={
            "dose": Free(dist.LogNormal(2.0, 0.3)),
            "rate": Free(dist.LogNormal(-0.7, 0.4)),
            "noise.left.scale": Free(dist.LogNormal(-0.7, 0.3)),
        },
        noise={"left": simkit.noise.Normal(0.5)},
    )


def autoregressive() -> Problem:
    """A straight line with residuals that remember."""
    system = simkit.from_response(lambda t, p: p["level"] + p["slope"] * t, {"level": 0.0, "slope": 0.0})
    times = np.linspace(0.0, 10.0, 30)
    return Problem(
        system,
        Experiment("one", times, {"y": np.ones(30)}),
        free={
            "level": Free(dist.Normal(0.0, 2.0)),
            "slope": Free(dist.Normal(0.0, 0.5)),
            "noise.y.scale": Free(dist.LogNormal(-0.7, 0.4)),
            "noise.y.time": Free(dist.LogNormal(0.0, 0.5)),
        },
        noise={"y": simkit.noise.Autocorrelated(0.5, 1.0)},
    )


PROBLEMS = {f.__name__: f for f in (population, censored, autoregressive)}


def main(names: tuple[str, ...] = tuple(PROBLEMS), sets: int = SETS) -> dict[str, float]:
    simkit.enable_x64()
    rows, table = {}, []
    for name in names:
        start = time.process_time()
        found = simkit.calibrate(PROBLEMS[name](), simulations=sets, key=jax.random.key(0), starts=4)
        shares = {n: x for n, x in found.coverage(LEVEL).items() if not n.startswith("eta.")}
        mean, cpu = float(np.mean(list(shares.values()))), time.process_time() - start
        worst = min(p for n, p in found.p_values().items() if n in shares)
        single = ", ".join(f"{n} {x:.1%}" for n, x in shares.items())
        table.append([name, f"{int(found.used.sum())}", f"{mean:.1%}", single, f"{worst:.3f}", f"{cpu:.0f}"])
        print(table[-1], flush=True)
        rows[f"coverage_{name}"] = mean
    heads = ["problem", "data sets", "covered", "by parameter", "least p of ranks", "CPU s"]
    print_table("Nominal 90 % intervals", heads, table)
    return rows


if __name__ == "__main__":
    given = sys.argv[1:]
    print(main(tuple(given[:1]), *map(int, given[1:])) if given else main())
