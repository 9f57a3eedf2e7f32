"""Claim: of the cases of PEtab's own test suite none is wrong; each is right, or refused by name.

Cases are those of PEtab-dev/petab_test_suite: of versions 1 and 2 in SBML and PySB, log likelihoods and simulated observables
within the tolerances that each case states; and formulas, to 1e-12. Run: `PETAB_SUITE=checkout python benchmarks/petab_suite.py`,
ten minutes of one core. The counts go to `benchmarks/petab_suite.json`.
"""

import csv
import json
import math
import os
import pathlib
import subprocess
from typing import Any

import jax.numpy as jnp
import numpy as np
import yaml

import simkit
from simkit.networks._expression import Formulas, Graph
from simkit.petab._mathml import Reader, parsed

HERE = pathlib.Path(__file__).parent
PARTS = {"PEtab 1, SBML": "v1.0.0/sbml", "PEtab 2, SBML": "v2.0.0/sbml", "PEtab 2, PySB": "v2.0.0/pysb"}


def case(folder: pathlib.Path) -> str:
    """How one problem ends: right, wrong, or refused with the sentence."""
    told = yaml.safe_load((folder / f"_{folder.name}_solution.yaml").read_text())
    try:
        read = simkit.petab.load(folder / f"_{folder.name}.yaml")
    except simkit.DataError as error:
        return f"refused: {error}"
    problem = read.problem
    found = float(problem.log_likelihood(read.nominal)[0])
    if not abs(found - told["llh"]) < told["tol_llh"]:
        return f"wrong: a log likelihood of {found}, where {told['llh']} is published"
    expected: dict[str, list[float]] = {}
    for name in told["simulation_files"]:
        with open(folder / name, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                expected.setdefault(row["observableId"], []).append(float(row["simulation"]))
    heads, _ = problem.heads(read.nominal)
    for name, values in expected.items():
        seen = np.ravel(heads[name][0])[np.isfinite(np.ravel(problem.dataset.values[name]))]
        if len(seen) != len(values) or not np.abs(np.sort(seen) - np.sort(values)).max() < told["tol_simulations"]:
            return f"wrong: {name} of {np.sort(seen)}, where {np.sort(values)} is published"
    return "right"


def value(text: str) -> float:
    """The value of a formula, with 0.7 for `a` and 1.3 for every other name."""
    graph = Graph()
    node = Reader(graph, graph.symbol).read(parsed(text, "The formula"), "The formula")
    symbols = lambda name: jnp.asarray(0.7 if name == "a" else 1.3)
    return float(Formulas(tuple(graph.nodes)).evaluate([node], symbols)[0])


def formula(text: str, expected: Any) -> str:
    """How one formula ends; what a formula with names should be is Python's value."""
    wanted = eval(expected, {"a": 0.7, "b": 1.3, "inf": math.inf}) if isinstance(expected, str) else float(expected)
    try:
        found = value(text)
    except simkit.DataError as error:
        return f"refused: {error}"
    return "right" if np.allclose(found, wanted, rtol=1e-12, equal_nan=True) else f"wrong: {found}"


def main() -> dict[str, float]:
    simkit.enable_x64()
    suite = pathlib.Path(os.environ["PETAB_SUITE"])
    cases = suite / "petabtests/cases"
    ends: dict[str, dict[str, str]] = {}
    for part, place in PARTS.items():
        print(part, flush=True)
        ends[part] = {folder.name: case(folder) for folder in sorted((cases / place).glob("[0-9]*"))}
    told = yaml.safe_load((cases / "v2.0.0/math/math_tests.yaml").read_text())["cases"]
    ends["PEtab 2, formulas"] = {one["expression"]: formula(one["expression"], one["expected"]) for one in told}
    commit = subprocess.run(["git", "-C", suite, "log", "-1", "--format=%h of %as"], capture_output=True, text=True)
    counts: dict[str, Any] = {
        "origin": f"PEtab-dev/petab_test_suite, {commit.stdout.strip()}; benchmarks/petab_suite.py"
    }
    for part, found in ends.items():
        words = [end.split(":")[0] for end in found.values()]
        counts[part] = {word: words.count(word) for word in ("right", "refused", "wrong")}
        print(part, counts[part], flush=True)
        for name, end in found.items():
            if end != "right":
                print(f"  {name}: {end[:200]}")
    (HERE / "petab_suite.json").write_text(json.dumps(counts, indent=1) + "\n")
    wrong = sum(counts[part]["wrong"] for part in ends)
    return {"petab_suite_right": sum(counts[part]["right"] for part in ends), "petab_suite_wrong": wrong}


if __name__ == "__main__":
    main()
