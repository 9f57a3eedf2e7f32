"""Posterior of the Hudson Bay lynx and hare: effective draws a CPU second, accuracy of the means, stuck chains over 20 seeds.

Beside simkit: NumPyro and Diffrax as one writes them by hand, and Stan (in environments of their own). Compilation is apart:
every sampler runs once before the clock starts, Stan's C++ is built before. A CPU second counts warm-up and draws.

Run: `python benchmarks/run.py lynx_hare`. SEEDS and PEER_SEEDS set how many repetitions are made.
"""

import os
import time
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import _harness
import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size
from numpyro.diagnostics import split_gelman_rubin as split_r_hat

import simkit
from simkit.odes import LotkaVolterra

SEEDS = int(os.environ.get("SEEDS", "20"))
PEER_SEEDS = int(os.environ.get("PEER_SEEDS", "3"))
STEP = 0.2

# posteriordb, hudson_lynx_hare-lotka_volterra: mean and standard deviation of 10,000 reference draws.
REFERENCE = {
    "growth": (0.546864, 0.06305),
    "predation": (0.0277473, 0.004155),
    "death": (0.800095, 0.08937),
    "conversion": (0.0240859, 0.003528),
    "y0.hare": (34.0352, 2.917),
    "y0.lynx": (5.9359, 0.5306),
    "noise.hare.scale": (0.248057, 0.04326),
    "noise.lynx.scale": (0.251017, 0.04359),
}
MEANS, SDS = np.array(list(REFERENCE.values())).T


def data() -> tuple[np.ndarray, np.ndarray]:
    """Years and pelts (hare, lynx)."""
    table = np.genfromtxt(_harness.HERE.parent / "examples" / "data" / "hudson_bay.csv", delimiter=",", names=True)
    return table["year"], np.stack([table["hare"], table["lynx"]], axis=1)


def build() -> simkit.Problem:
    """The model of posteriordb: truncated normal and log-normal priors, log-normal scatter."""
    years, pelts = data()
    free = {
        "growth": simkit.Free(dist.Normal(1.0, 0.5)),
        "predation": simkit.Free(dist.Normal(0.05, 0.05)),
        "death": simkit.Free(dist.Normal(1.0, 0.5)),
        "conversion": simkit.Free(dist.Normal(0.05, 0.05)),
        "y0.hare": simkit.Free(dist.LogNormal(np.log(10.0), 1.0)),
        "y0.lynx": simkit.Free(dist.LogNormal(np.log(10.0), 1.0)),
        "noise.hare.scale": simkit.Free(dist.LogNormal(-1.0, 1.0)),
        "noise.lynx.scale": simkit.Free(dist.LogNormal(-1.0, 1.0)),
    }
    experiment = simkit.Experiment("hudson_bay", years, {"hare": pelts[:, 0], "lynx": pelts[:, 1]})
    noise = {"hare": simkit.noise.LogNormal(0.25), "lynx": simkit.noise.LogNormal(0.25)}
    return simkit.Problem(
        LotkaVolterra(), experiment, free=free, noise=noise, y0=LotkaVolterra.State(30.0, 4.0), step=STEP
    )


def solve_error(problem: simkit.Problem) -> float:
    """The largest relative error of the solver's states over the draws one reference sd around the mean."""
    worst = 0.0
    times = np.asarray(problem.times[0])
    random = np.random.default_rng(0)
    for theta in np.abs(MEANS + SDS * random.normal(size=(8, 8))):
        setup = problem.setup(np.asarray(theta))
        fine = simkit.simulate(setup.system, setup.y0, times[1:], step=STEP / 16)
        coarse = simkit.simulate(setup.system, setup.y0, times[1:], step=STEP)
        for a, b in zip(jax.tree.leaves(coarse.ys), jax.tree.leaves(fine.ys), strict=True):
            worst = max(worst, float(np.max(np.abs(np.asarray(a) / np.asarray(b) - 1))))
    return worst


def summary(draws: np.ndarray, cpu: float) -> dict[str, Any]:
    """Figures of one run from draws of shape (chain, draw, parameter)."""
    ess = min(effective_sample_size(draws[..., i]) for i in range(draws.shape[-1]))
    r_hat = max(split_r_hat(draws[..., i]) for i in range(draws.shape[-1]))
    gap = float(np.max(np.abs(draws.mean((0, 1)) - MEANS) / SDS))
    return {"ess": ess, "r_hat": r_hat, "gap": gap, "cpu": cpu, "means": draws.mean((0, 1))}


def ours() -> list[dict[str, Any]]:
    """A fit and a posterior for every seed."""
    problem = build()
    start = simkit.fit(problem, key=jax.random.key(1000))
    simkit.sample(problem, start=start, key=jax.random.key(1000))  # compiles
    rows = []
    for seed in range(SEEDS):
        fit_key, key = jax.random.split(jax.random.key(seed))
        start = simkit.fit(problem, key=fit_key)
        mark = time.process_time()
        posterior = simkit.sample(problem, start=start, key=key)
        rows.append(summary(np.asarray(posterior.draws), time.process_time() - mark))
        rows[-1]["restarted"] = float(sum("started again" in text for text in posterior.warnings))
    return rows


def main() -> dict[str, float]:
    simkit.enable_x64()
    error = solve_error(build())
    print(f"largest relative error of the states with {20 / STEP:.0f} steps of Tsit5: {error:.1e}")
    ours_rows = ours()
    rows = {"simkit": ours_rows}
    years, pelts = data()
    given = {"times": years, "pelts": pelts}
    found, _ = _harness.run_peer(
        "numpyro", ["numpyro", "diffrax"], "numpyro_diffrax_lynx_hare.py", given, {"seeds": PEER_SEEDS}
    )
    names = ("ess", "r_hat", "gap", "cpu")
    gaps = np.max(np.abs(found["means"] - MEANS) / SDS, axis=1)
    columns = found["ess"], found["r_hat"], gaps, found["cpu"]
    rows["NumPyro + Diffrax"] = [dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]
    found, _ = _harness.run_peer(
        "stan", ["pystan", "numpy", "psutil", "setuptools"], "stan_lynx_hare.py", given, {"seeds": PEER_SEEDS}
    )
    stan = [np.moveaxis(draws, 0, -1).swapaxes(0, 1) for draws in found["draws"]]
    rows["Stan"] = [summary(draws, cpu) for draws, cpu in zip(stan, found["cpu"], strict=True)]
    table, figures = [], {"solve_error": error}
    for name, runs in rows.items():
        rate = np.array([run["ess"] / run["cpu"] for run in runs])
        low, high = np.quantile(rate, [0.25, 0.75])
        stuck = sum(run["r_hat"] > 1.1 for run in runs)
        row = [
            f"{len(runs)}",
            f"{np.median(rate):.0f}",
            f"{low:.0f}-{high:.0f}",
            f"{np.median([r['ess'] for r in runs]):.0f}",
        ]
        row += [f"{max(r['r_hat'] for r in runs):.3f}", f"{stuck}", f"{np.median([r['gap'] for r in runs]):.3f}"]
        table.append([name, *row, f"{np.median([r['cpu'] for r in runs]):.2f}"])
        short = name.split(" ")[0].lower()
        figures |= {f"{short}_ess_per_cpu_s": float(np.median(rate)), f"{short}_stuck_runs": float(stuck)}
    figures["restarted"] = sum(run["restarted"] for run in rows["simkit"])
    gaps = [run["gap"] for run in rows["simkit"]]
    pooled = float(np.max(np.abs(np.mean([run["means"] for run in ours_rows], axis=0) - MEANS) / SDS))
    figures |= {"mean_gap_median": float(np.median(gaps)), "mean_gap_max": float(max(gaps)), "mean_gap_pooled": pooled}
    head = ["", "runs", "min ESS / CPU s", "quartiles", "min ESS", "R-hat max", "stuck", "gap of means, sd", "CPU s"]
    _harness.print_table("Lynx and hare: 4 chains of 1000 draws (peers 500)", head, table)
    return figures


if __name__ == "__main__":
    main()
