"""Claim: the 39 time courses of the SBML stochastic suite (DSMTS) are within its rule for means and standard deviations.

Cases are those of `cases/stochastic` of sbmlteam/sbml-test-suite, 00001 to 00039. Each is run 10,000 times by the direct method.
With the expected mean m and standard deviation s at a time the scores are Z = sqrt(n) (mean - m) / s and
Y = sqrt(n / 2) (sd^2 / s^2 - 1), within the ranges of the settings, (-3, 3) and (-5, 5). By the suite's own words a right simulator
leaves them 0 to 1 times a case, and 2 to 3 times calls for a second look. A case is `right` where at most 1 score of each output is
outside, with one seed or, as the second look, with another. The rule for Y is that of normal numbers: the variance of counts with
a kurtosis k scatters by (k - 1) / 2 times as much. A case that is outside of the rule by Y alone, and within it with Y over the
root of that number, is `skewed`; others are `wrong`. Run:
`CASES=sbml-test-suite/cases/stochastic python benchmarks/sbml_stochastic.py`; the count goes to `benchmarks/sbml_stochastic.json`.
"""

import csv
import json
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import simkit

RUNS = 10_000
ALLOWED = 1
RECORDED = pathlib.Path(__file__).with_suffix(".json")


def expected(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The expected values of a case by column."""
    with open(folder / f"{folder.name}-results.csv", newline="", encoding="utf-8") as opened:
        head, *rows = [row for row in csv.reader(opened) if row]
    values = np.array([[float(x) for x in row] for row in rows])
    return {name.strip(): column for name, column in zip(head, values.T, strict=True)}


def scores(folder: pathlib.Path, seed: int, runs: int = RUNS) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The scores of a case by column over their ranges: by the rule, and with the scatter that the kurtosis gives the variance."""
    table = expected(folder)
    times = next(iter(table.values()))
    system = simkit.petab.load_jumps(folder / f"{folder.name}-sbml-l3v1.xml")
    name = sorted(system.parameters)[0]
    over = {name: jnp.full(runs, system.parameters[name])}
    found = simkit.ensemble(system, system.start(), times, over=over, key=jax.random.key(seed))
    assert not found.failures(), found.failures()[0]
    seen = jax.vmap(jax.vmap(lambda t, y: system.outputs(t, y, None)))(found.times, found.ys)
    scored, corrected = {}, {}
    for column in table:
        output, _, kind = column.rpartition("-")
        if kind not in ("mean", "sd"):
            continue
        x, mean, sd = np.asarray(seen[output], float), table[f"{output}-mean"], table[f"{output}-sd"]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.sqrt(runs) * (x.mean(axis=0) - mean) / sd
            y = np.sqrt(runs / 2) * (x.var(axis=0, ddof=1) / sd**2 - 1)
        fixed = (sd == 0) & (x.std(axis=0) == 0) & (x.mean(axis=0) == mean)
        scored[column] = np.where(fixed, 0.0, np.where(sd == 0, np.inf, z / 3 if kind == "mean" else y / 5))
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = x - x.mean(axis=0)
            kurtosis = np.nan_to_num((apart**4).mean(axis=0) / x.var(axis=0) ** 2, nan=3.0)
        wider = np.sqrt(np.maximum(kurtosis - 1, 2) / 2) if kind == "sd" else 1.0
        corrected[column] = scored[column] / wider
    return scored, corrected


def ended(folder: pathlib.Path) -> dict[str, object]:
    """How a case ends: right, wrong or refused."""
    begun = time.process_time()
    try:
        count = lambda found: {column: int((np.abs(x) > 1).sum()) for column, x in found.items()}
        within = lambda outside: all(many <= ALLOWED for many in outside.values())
        for seed in (0, 1):
            outside, corrected = map(count, scores(folder, seed))
            if within(outside):
                break
    except simkit.SimkitError as error:
        return {"end": "refused", "why": str(error)}
    end = "right" if within(outside) else "skewed" if within(corrected) else "wrong"
    return {
        "end": end,
        "outside": outside,
        "corrected": corrected,
        "seed": seed,
        "cpu": round(time.process_time() - begun, 2),
    }


def main() -> dict[str, float]:
    """Run all cases and write down how they end."""
    simkit.enable_x64()
    source = pathlib.Path(os.environ["CASES"])
    cases = sys.argv[1:] or [f"{i:05d}" for i in range(1, 40)]
    found = {}
    for case in cases:
        found[case] = ended(source / case)
        print(case, found[case], flush=True)
        jax.clear_caches()
    ends = {
        end: " ".join(x for x in found if found[x]["end"] == end) for end in ("right", "skewed", "wrong", "refused")
    }
    if len(found) == 39:
        origin = f"cases/stochastic of sbmlteam/sbml-test-suite, 00001 to 00039; {RUNS} runs each; benchmarks/sbml_stochastic.py"
        RECORDED.write_text(json.dumps({"origin": origin, **ends}, indent=1) + "\n")
    return {
        "dsmts_within": len(ends["right"].split()),
        "dsmts_skewed": len(ends["skewed"].split()),
        "dsmts_cases": len(found),
    }


if __name__ == "__main__":
    print(main())
