"""Claim: of the time courses of the SBML test suite none is wrong; each is right, or refused by name, or fails with a status.

Cases are those of the semantic part of sbmlteam/sbml-test-suite, read as PEtab problems and solved at 1e-8, and compared
with the published results within the tolerances of their settings. One line of JSON a case goes to a file; cases that stand there
already are not run again. All take an hour or two of one core, mostly to compile. Run:
`CASES=sbml-test-suite/cases/semantic OUT=found.jsonl TAGS=Event python benchmarks/sbml_suite.py`; SHARD=0/2 runs every other case.
A case is given up after LIMIT seconds (300); NOT leaves out cases with such a tag; SEED runs them in a random order. How the
cases of one or more such files ended is added to `benchmarks/sbml_suite.json` by
`python benchmarks/sbml_suite.py record 2026-11-25 found.jsonl`, which `benchmarks/hybrid.py` reads.
"""

import collections
import csv
import json
import multiprocessing
import os
import pathlib
import random
import re
import sys
import tempfile
import time

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import libsbml
import numpy as np

import simkit

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
from petab_models import write_problem  # pyright: ignore[reportMissingImports]

CONSTANTS = ("time", "pi", "inf", "nan", "true", "false")


def tags_of(folder: pathlib.Path) -> set[str]:
    """The components and tests that a case names, and its type."""
    text = (folder / f"{folder.name}-model.m").read_text(errors="replace")
    found = re.findall(r"^(componentTags|testTags|testType):((?:.|\n(?!\w+:|\n))*)", text, re.MULTILINE)
    return {tag for _, value in found for tag in re.split(r"[,\s]+", value) if tag}


def settings_of(folder: pathlib.Path) -> dict[str, str]:
    """The settings of a case."""
    lines = (folder / f"{folder.name}-settings.txt").read_text().splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name.strip()}


def names_in(text: str) -> list[str]:
    """The names of a list in the settings."""
    return [x for x in re.split(r"[,\s]+", text) if x]


def seen_as(model: libsbml.Model, name: str) -> str:
    """A name of the model by which formulas of tables can ask for another one, which they would take for a constant."""
    if name.lower() not in CONSTANTS:
        return name
    alias = model.createParameter()
    alias.setId(f"seen_{name}")
    alias.setConstant(False)
    tree = libsbml.ASTNode(libsbml.AST_NAME)
    tree.setName(name)
    rule = model.createAssignmentRule()
    rule.setVariable(alias.getId())
    rule.setMath(tree)
    return alias.getId()


def formula_of(model: libsbml.Model, name: str, amounts: list[str]) -> str:
    """The formula of an output: a species as an amount or as a concentration."""
    species = model.getSpecies(name)
    if species is None or species.getHasOnlySubstanceUnits() == (name in amounts):
        return name
    return f"{name} {'*' if name in amounts else '/'} {species.getCompartment()}"


def run(folder: pathlib.Path) -> dict[str, object]:
    """How a case ends: right, wrong, refused or failed, with the reason."""
    told = settings_of(folder)
    files = sorted(folder.glob("*-sbml-l3*.xml")) or sorted(folder.glob("*-sbml-l2*.xml"))
    file = next((x for x in files if "l3v1" in x.name), files[-1])
    with open(folder / f"{folder.name}-results.csv", newline="", encoding="utf-8") as opened:
        head, *rows = [row for row in csv.reader(opened) if row]
    values = np.array([[float(x) for x in row] for row in rows])
    head = [x.strip() for x in head]
    table = dict(zip(head, values.T, strict=True))
    times, names = table[head[0]], names_in(told["variables"])
    document = libsbml.readSBML(str(file))
    model = document.getModel()
    aliases = {name: seen_as(model, name) for name in names}
    whole = file.read_text() if all(x == y for x, y in aliases.items()) else libsbml.writeSBMLToString(document)
    amounts = names_in(told.get("amount", ""))
    observables = "".join(f"\nob_{name} | {formula_of(model, aliases[name], amounts)} | sdsd" for name in names)
    data = "".join(f"\nob_{name} | c0 | {t} | 1" for name in names for t in times)
    parameters = "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\nsdsd | lin | 0.1 | 10 | 1 | 1"
    with tempfile.TemporaryDirectory() as place:
        path = write_problem(
            pathlib.Path(place),
            whole,
            parameters,
            "observableId | observableFormula | noiseFormula" + observables,
            "observableId | simulationConditionId | time | measurement" + data,
        )
        try:
            read = simkit.petab.load(path, step=simkit.Adaptive(1e-8, max_steps=100_000))
        except simkit.SimkitError as error:
            return {"end": "refused", "why": str(error)}
    heads, status = jax.jit(lambda theta: read.problem.heads(theta))(read.nominal)
    if int(status[0]) != 0:
        return {"end": "failed", "why": f"status {simkit.Status(int(status[0])).name}"}
    worst, at = 0.0, ""
    for name in names:
        expected, found = table[name], np.asarray(heads[f"ob_{name}"][0])[0]
        bound = float(told["absolute"]) + float(told["relative"]) * np.abs(expected)
        with np.errstate(invalid="ignore"):
            error = np.where(expected == found, 0.0, np.abs(found - expected) / bound)
        error = np.where(np.isnan(expected) & np.isnan(found), 0.0, np.where(np.isnan(error), np.inf, error))
        if error.max() > worst:
            worst, at = float(error.max()), f"{name} at {times[error.argmax()]}"
    return {"end": "right" if worst <= 1 else "wrong", "error": worst, "at": at}


def timed(folder: pathlib.Path) -> dict[str, object]:
    """How a case ends, and its seconds of CPU."""
    simkit.enable_x64()
    clock = time.process_time()
    try:
        ended = run(folder)
    except Exception as error:  # a case that breaks is a finding, not the end of the others
        ended = {"end": "broken", "why": f"{type(error).__name__}: {error}"[:500]}
    jax.clear_caches()
    return {**ended, "cpu": round(time.process_time() - clock, 2)}


def chosen(source: pathlib.Path) -> list[tuple[pathlib.Path, set[str]]]:
    """The cases that are asked for, with their tags, in the order in which they are run."""
    asked = os.environ
    part, parts = map(int, asked.get("SHARD", "0/1").split("/"))
    words, numbers, others = (
        asked.get("TAGS", "").split(","),
        asked.get("ONLY", "").split(","),
        names_in(asked.get("NOT", "")),
    )
    folders = sorted(x for x in source.iterdir() if x.name.isdigit() and (numbers == [""] or x.name in numbers))
    tagged = [(folder, tags_of(folder)) for folder in folders]
    found = [(x, tags) for x, tags in tagged if any(word in tag for word in words for tag in tags)]
    found = [(x, tags) for x, tags in found if not any(word in tag for word in others for tag in tags)]
    if "SEED" in asked:
        random.Random(int(asked["SEED"])).shuffle(found)
    return found[part::parts]


RECORDED = pathlib.Path(__file__).with_suffix(".json")


def record(date: str, files: list[str]) -> None:
    """Write down which cases ended how; of one that was run more than once the last end counts, and others keep theirs."""
    earlier = json.loads(RECORDED.read_text())
    lines = [line for file in files for line in pathlib.Path(file).read_text().splitlines()]
    ends: dict[str, dict[str, str]] = {}
    for kind in ("events", "others"):
        known = {case: end for end, cases in earlier[kind].items() for case in cases.split()}
        for one in map(json.loads, lines):
            if any("Event" in tag for tag in one["tags"]) == (kind == "events"):
                known[one["case"]] = one["end"]
        ends[kind] = {
            end: " ".join(sorted(case for case, its in known.items() if its == end))
            for end in sorted(set(known.values()))
        }
    origin = f"cases/semantic of sbmlteam/sbml-test-suite; benchmarks/sbml_suite.py, the last of them {date}"
    RECORDED.write_text(json.dumps({"origin": origin, **ends}, indent=1) + "\n")


def main() -> dict[str, int]:
    """Run the cases that are asked for, and count how they end."""
    source, out = pathlib.Path(os.environ["CASES"]), pathlib.Path(os.environ.get("OUT", "sbml_suite.jsonl"))
    limit = float(os.environ.get("LIMIT", "300"))
    found = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {one["case"] for one in found}
    fresh = multiprocessing.get_context("spawn")
    pool = fresh.Pool(1, maxtasksperchild=50)
    for folder, tags in chosen(source):
        if folder.name in done:
            continue
        try:
            ended = pool.apply_async(timed, (folder,)).get(limit)
        except multiprocessing.TimeoutError:  # a compilation ends with its process alone
            pool.terminate()
            pool, ended = (
                fresh.Pool(1, maxtasksperchild=50),
                {"end": "unfinished", "why": f"{limit:g} s were not enough"},
            )
        found.append({"case": folder.name, **ended, "tags": sorted(tags)})
        with open(out, "a") as file:
            file.write(json.dumps(found[-1]) + "\n")
    pool.terminate()
    counts = collections.Counter(str(one["end"]) for one in found)
    for one in found:
        if one["end"] != "right":
            print(one["case"], one["end"], one.get("why", ""), one.get("at", ""))
    print(dict(counts))
    return dict(counts)


if __name__ == "__main__":
    record(sys.argv[2], sys.argv[3:]) if sys.argv[1:2] == ["record"] else main()
