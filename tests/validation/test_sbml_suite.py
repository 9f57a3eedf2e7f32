"""Cases of the SBML test suite with fast reactions and with events, read and solved as PEtab problems, against the results that it
publishes; `benchmarks/sbml_suite.py` runs all."""

import csv
from pathlib import Path

import numpy as np
import pytest
from petab_models import write_problem

import simkit

DATA = Path(__file__).parents[2] / "data/sbml"
CASES = {
    "00870": "a fast equilibrium beside a slow reaction",
    "01399": "a rate that is zero without either of two species",
    "01546": "a conversion factor",
    "01569": "two fast reactions, of which one goes backwards",
    "01119": "priorities of events with delays",
}
SLOW = {
    "00952": "two events of equal priority, one of which happens every 0.01, at random",
    "00978": "values of the time of the trigger and of the time of the event, priorities, persistence",
    "01336": "events at the start, priorities, persistence",
}


def settings(case):
    lines = (DATA / f"{case}-settings.txt").read_text().splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.parametrize("case", [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in SLOW)])
def test_published_results(tmp_path, case):
    told = settings(case)
    with open(DATA / f"{case}-results.csv", newline="", encoding="utf-8") as file:
        head, *rows = [row for row in csv.reader(file) if row]
    table = dict(zip((name.strip() for name in head), np.array(rows, float).T, strict=True))
    names = [name.strip() for name in told["variables"].split(",")]
    # All compartments here are of size 1, so that amounts and concentrations are the same.
    observables = "".join(f"\no_{name} | {name} | sd" for name in names)
    data = "".join(f"\no_{name} | c0 | {time} | 1" for name in names for time in next(iter(table.values())))
    path = write_problem(
        tmp_path,
        (DATA / f"{case}-sbml-l3v1.xml").read_text(),
        "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\nsd | lin | 0.1 | 10 | 1 | 1",
        "observableId | observableFormula | noiseFormula" + observables,
        "observableId | simulationConditionId | time | measurement" + data,
    )
    read = simkit.petab.load(path)
    heads, status = read.problem.heads(read.nominal)
    assert int(status[0]) == 0
    for name in names:
        expected = table[name]
        # The suite's tolerances: 1e-4 of both kinds or wider, and of its own results some 1e-6.
        bound = float(told["absolute"]) + float(told["relative"]) * np.abs(expected)
        assert np.all(np.abs(np.asarray(heads[f"o_{name}"][0])[0] - expected) <= bound / 3), name
