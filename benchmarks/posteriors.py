"""Posteriors of posteriordb by NUTS, beside its reference draws: means, tails, divergences, and what an effective draw costs.

All posteriors with reference draws but one: 45 of 46, `mcycle_gp-accel_gp`'s draws being no part of the copy at hand.
Magnusson et al. (2025), posteriordb, arXiv:2407.04967. Put its folder `posterior_database` into `benchmarks/.posteriordb`.

For each number of a posterior the mean of ours is compared with that of the reference, in its standard deviations, less what Monte
Carlo errors of both explain: 2.58 standard errors, of quantiles by the effective sample size of what lies below (Vehtari et al.
2021, doi:10.1214/20-BA1221); and the 5 and 95 % quantiles in the same way. Goals: at most 0.05 for means and 0.1 for quantiles, no
divergent draw.

Run: `python benchmarks/posteriors.py`, or with the names of some posteriors.
"""

import json
import sys
import time
import zipfile
from typing import Any, NamedTuple

import coverage
import jax
import likelihood_free
import numpy as np
from _harness import HERE, print_table
from _posteriordb import MODELS, Posed
from scipy.stats import beta

import simkit
from simkit.infer._diagnostics import effective_sample_size

FOLDER = HERE / ".posteriordb"
SEEDS, DRAWS = 5, 1000
MONTE_CARLO = 2.58
"""Standard errors that Monte Carlo may explain: 99 % of them."""

MEANS, TAILS = 0.05, 0.1
QUANTILES = (0.05, 0.95)


class Compared(NamedTuple):
    """What one run differs by, in standard deviations beyond Monte Carlo error; its divergences and its price."""

    means: float
    tails: float
    divergent: int
    least: float
    cpu: float


def read(path: Any) -> Any:
    """The JSON inside a ZIP file."""
    with zipfile.ZipFile(path) as packed:
        return json.loads(packed.read(packed.namelist()[0]))


def references() -> dict[str, tuple[str, str]]:
    """Names of posteriors with reference draws, and their data sets and models."""
    found = {}
    for path in sorted((FOLDER / "reference_posteriors" / "draws" / "draws").glob("*.zip")):
        name = path.name.removesuffix(".json.zip")
        told = json.loads((FOLDER / "posteriors" / f"{name}.json").read_text(encoding="utf-8"))
        found[name] = told["data_name"], told["model_name"]
    return found


def quantile_with_error(draws: np.ndarray, share: float) -> tuple[float, float]:
    """A quantile and its Monte Carlo standard error."""
    value = np.quantile(draws, share)
    size = effective_sample_size((draws <= value).astype(float))
    low, high = beta.ppf((0.1587, 0.8413), size * share + 1, size * (1 - share) + 1)
    return value, float(np.quantile(draws, high) - np.quantile(draws, low)) / 2


def compared(posed: Posed, reference: dict[str, np.ndarray], seed: int) -> Compared:
    """One run beside the reference draws, `(chains, draws)` by name."""
    start = time.process_time()
    posterior = simkit.sample(posed.problem, key=jax.random.key(seed), draws=DRAWS)
    draws = np.asarray(posterior.draws)
    cpu = time.process_time() - start
    by_name = {name: draws[..., i] for i, name in enumerate(posterior.names)}
    ours = jax.jit(jax.vmap(jax.vmap(posed.named)))(by_name)
    means, tails, sizes = [], [], []
    for name, known in reference.items():
        mine, spread = np.asarray(ours[name], float), known.std()
        size = effective_sample_size(mine)
        error = MONTE_CARLO * np.sqrt(1 / size + 1 / effective_sample_size(known))
        sizes.append(size)
        means.append(abs(mine.mean() - known.mean()) / spread - error)
        for share in QUANTILES:
            (one, own), (other, its) = (quantile_with_error(x, share) for x in (mine, known))
            tails.append((abs(one - other) - MONTE_CARLO * np.hypot(own, its)) / spread)
    return Compared(max(means), max(tails), int(np.sum(posterior.diverging)), min(sizes), cpu)


def main(names: tuple[str, ...] = ()) -> dict[str, float]:
    simkit.enable_x64()
    if not FOLDER.exists():
        print(f"{FOLDER} is not there.")
        return {}
    rows, table, within, divergent = {}, [], 0, 0
    known = references()
    for name in names or known:
        data, model = known[name]
        posed = MODELS[model](read(FOLDER / "data" / "data" / f"{data}.json.zip"))
        chains = read(FOLDER / "reference_posteriors" / "draws" / "draws" / f"{name}.json.zip")
        reference = {key: np.array([chain[key] for chain in chains], float) for key in chains[0]}
        runs = [compared(posed, reference, seed) for seed in range(SEEDS)]  # a chain that stays stuck is an error
        worst = Compared(*(max(column) for column in zip(*runs, strict=True)))
        good = worst.means <= MEANS and worst.tails <= TAILS
        within, divergent = within + good, divergent + worst.divergent
        warm = runs[1:] or runs
        rate = np.median([run.least / run.cpu for run in warm])
        figures = f"{worst.means:.3f}", f"{worst.tails:.3f}", str(worst.divergent), f"{runs[0].cpu:.1f}", f"{rate:.0f}"
        table.append([name, str(posed.problem.size), *figures, "" if good else "apart"])
        print(table[-1], flush=True)
        rows[f"{name}_ess_a_cpu_s"] = float(rate)
    if not names:
        rows |= likelihood_free.main() | coverage.main()
    heads = ["posterior", "unknowns", "means", "tails", "divergent", "first CPU s", "least ESS a CPU s", ""]
    print_table("posteriordb, the worst of five seeds", heads, table)
    return rows | {
        "posteriordb_posteriors": len(table),
        "posteriordb_within": within,
        "posteriordb_divergent": divergent,
    }


if __name__ == "__main__":
    print(main(tuple(sys.argv[1:])))
