"""Rows of guided particles: variance of the log likelihood at equal CPU time, on stochastic Lotka-Volterra.

Both numbers are seen every year for 20 years, with errors of 10 as in `_particle_rows.py`, of 1, or as Poisson counts. Each filter
has 150 particles and steps of 0.1 year, and estimates the log likelihood at the true parameters 200 times.

- `guided_variance_ratio`, `guided_precise_variance_ratio`, `guided_counts_variance_ratio`: variance of the bootstrap filter's
  estimates times its CPU time over that of guided particles. Where all blind particles are far from the data its variance is no
  longer that of a normal number; the ratio says no more than that they are useless.
- `backward_distinct_ratio`: effective number of distinct particles at the first row, of 500 paths drawn backwards from 500 blind
  particles over that of their ancestors, with errors of 10.
- `noisy_step_ratio`: CPU time of an adaptive step of geometric Brownian motion over that of a fixed one, both of 1,000 members.
"""

import time

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit.noise import Normal, Poisson
from simkit.problem import with_fresh_key

COUNT, REPEATS, STEP = 150, 200, 0.1


def made(kind: str, proposal: str, count: int = COUNT) -> simkit.Problem:
    """The problem with one kind of data and of particles."""
    system, euler = simkit.odes.StochasticLotkaVolterra(), simkit.solvers.EulerMaruyama()
    times, start = np.arange(1.0, 21.0), system.State(jnp.asarray(50.0), jnp.asarray(100.0))
    run = simkit.simulate(system, start, np.append(0.0, times), step=STEP, solver=euler, key=jax.random.key(1))
    states, random = np.stack([run.ys.hare[1:], run.ys.lynx[1:]], axis=1), np.random.default_rng(2)
    if kind == "counts":
        data, noise = random.poisson(states).astype(float), Poisson()
    else:
        data, noise = states + float(kind) * random.normal(size=states.shape), Normal(float(kind))
    return simkit.Problem(
        system,
        simkit.Experiment("pond", times, {"hare": data[:, 0], "lynx": data[:, 1]}, start=0.0, y0=start),
        free={"growth": simkit.Free(bounds=(0.01, 9.0))},
        noise={"hare": noise, "lynx": noise},
        solver=euler,
        step=STEP,
        likelihood=simkit.filters.ParticleFilter(count, key=jax.random.key(0), proposal=proposal),
    )


def measured(problem: simkit.Problem) -> tuple[float, float, float]:
    """Mean and standard deviation of the estimated log likelihood, and the CPU seconds of one."""
    theta = jnp.asarray([float(problem.base.system.growth)])  # pyright: ignore[reportAttributeAccessIssue]
    one = jax.jit(lambda key: with_fresh_key(problem, key).log_likelihood(theta)[0])
    keys = list(jax.random.split(jax.random.key(1), REPEATS))
    values = np.array([float(one(key)) for key in keys])
    cpu = []
    for _ in range(5):
        begin = time.process_time()
        for key in keys[:20]:
            one(key).block_until_ready()
        cpu.append((time.process_time() - begin) / 20)
    return values.mean(), values.std(ddof=1), min(cpu)


def rows() -> dict[str, float]:
    """Measure both kinds of particles on three kinds of data."""
    simkit.enable_x64()
    table, found = [], {}
    for kind, name in (("10", "guided"), ("1", "guided_precise"), ("counts", "guided_counts")):
        (_, blind, first), (mean, deviation, second) = (measured(made(kind, x)) for x in ("bootstrap", "guided"))
        ratio = blind**2 * first / (deviation**2 * second)
        found[f"{name}_variance_ratio"] = float(ratio)
        table.append([kind, f"{mean:.2f}", f"{blind:.2f}", f"{deviation:.2f}", f"{second / first:.1f}", f"{ratio:.3g}"])
    head = ["data", "log likelihood", "sd, bootstrap", "sd, guided", "CPU ratio", "variance at equal CPU"]
    _harness.print_table(f"Lotka-Volterra by {COUNT} particles", head, table)
    return found | {"backward_distinct_ratio": distinct(), "noisy_step_ratio": noisy_steps()}


def distinct() -> float:
    """Count distinct particles at the first row, by ancestors and by backward simulation."""
    found = {}
    for proposal in ("bootstrap", "guided"):
        problem = made("10", proposal, 500)
        theta = [float(problem.base.system.growth)]  # pyright: ignore[reportAttributeAccessIssue]
        for backward in (False, True):
            run = lambda key, problem=problem, theta=theta, backward=backward: simkit.filters.states(
                problem, theta, paths=500, backward=backward, key=key
            )
            run(jax.random.key(0))
            begin = time.process_time()
            told = float(run(jax.random.key(1)).ancestors[0, 1])  # pyright: ignore[reportOptionalSubscript]
            found[proposal, backward] = told, time.process_time() - begin
    rows = [
        [name, "backward" if back else "ancestors", f"{told:.3g}", f"{cpu:.2f}"]
        for (name, back), (told, cpu) in found.items()
    ]
    _harness.print_table("500 paths of 500 particles", ["particles", "paths", "distinct, first row", "CPU s"], rows)
    return found["bootstrap", True][0] / found["bootstrap", False][0]


def noisy_steps() -> float:
    """Time adaptive and fixed steps of 1,000 paths."""
    system, y0, times, members = simkit.odes.GeometricBrownianMotion(0.5, 0.8), {"x": 1.0}, np.linspace(0, 2, 5), 1000
    cost = []
    for step in (simkit.Adaptive(1e-3), 0.01):
        run = lambda step=step: simkit.ensemble(
            system, y0, times, over={"growth": np.full(members, 0.5)}, step=step, key=jax.random.key(0)
        )
        steps, cpu = float((run().steps + run().rejected).sum()), []
        for _ in range(5):
            begin = time.process_time()
            jax.block_until_ready(run().ys)
            cpu.append(time.process_time() - begin)
        cost.append(min(cpu) / steps * 1e6)
    rows = [["adaptive", f"{cost[0]:.2f}"], ["fixed", f"{cost[1]:.3f}"]]
    _harness.print_table("Geometric Brownian motion, 1,000 paths", ["steps", "us a step"], rows)
    return cost[0] / cost[1]


if __name__ == "__main__":
    print(rows())
