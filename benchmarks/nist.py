"""How many digits of NIST's 27 certified regressions a fit reaches, from both starts, and in what time.

The claim: at least 8 digits of every parameter from both starts, and 4 of every standard error (3 for Lanczos1, whose scatter of
1e-13 is at the edge of double precision), by one method with one setting.

Run: python -m benchmarks.nist
"""

import pathlib
import sys
import time
from typing import Any

import jax
import numpy as np

import simkit

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))


def measure(name: str) -> dict[str, Any]:
    """Digits from both starts, digits of the standard errors, iterations and seconds of one problem."""
    from validation.test_nist import digits, regression

    given, problem = regression(name)
    seconds = []
    for _ in range(4):  # the first run compiles
        begin = time.perf_counter()
        result = jax.block_until_ready(simkit.fit(problem, starts=given.starts))
        seconds.append(time.perf_counter() - begin)
    ends = [jax.block_until_ready(simkit.fit(problem, starts=start)) for start in given.starts]
    errors = digits(np.asarray(result.rescale_errors().standard_error), given.standard_deviations)
    return {
        "digits": [float(digits(np.asarray(end.estimate), given.certified).min()) for end in ends],
        "error_digits": float(errors.min()),
        "iterations": [int(end.iterations[0]) for end in ends],
        "first_run": seconds[0],
        "run": float(np.median(seconds[1:])),
    }


def main() -> dict[str, float]:
    """Print one line a problem, and the worst of all."""
    from validation import nist

    simkit.enable_x64()
    print(
        f"{'problem':<10} {'digits 1':>8} {'digits 2':>8} {'errors':>7} {'steps':>11} {'first run s':>12} {'run ms':>8}"
    )
    found = {}
    for name in nist.MODELS:
        row = found[name] = measure(name)
        print(
            f"{name:<10} {row['digits'][0]:>8.1f} {row['digits'][1]:>8.1f} {row['error_digits']:>7.1f} "
            f"{'/'.join(map(str, row['iterations'])):>11} {row['first_run']:>12.2f} {1e3 * row['run']:>8.1f}",
            flush=True,
        )
    reached = sum(min(row["digits"]) >= 8 for row in found.values())
    print(f"{reached} of {len(found)} problems to 8 digits or more from both starts")
    regular = [row for name, row in found.items() if name != "Lanczos1"]  # its certified scatter is rounding
    return {
        "problems_to_8_digits": float(reached),
        "fewest_digits": min(min(row["digits"]) for row in found.values()),
        "fewest_error_digits": min(row["error_digits"] for row in regular),
        "lanczos1_error_digits": found["Lanczos1"]["error_digits"],
        "median_run_ms": 1e3 * float(np.median([row["run"] for row in found.values()])),
    }


if __name__ == "__main__":
    main()
