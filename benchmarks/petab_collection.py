"""PEtab: 20 starts on problems of the benchmark collection, beside pyPESTO with fides and AMICI.

Goal: the best objective at least as good as the peer's and as the published one, that of the collection's nominal parameters, in
less CPU time on three quarters of the problems. Each fit is a process of its own with a limit; CPU seconds are those of the whole
process, compilation by XLA or by a C++ compiler included, and of the 20 starts alone (ours: a second fit with another key).

Peer: pyPESTO with fides and AMICI in `benchmarks/.envs/amici`, or where `AMICI_PYTHON` points; its starts go on until they are 20
or its time is up.

Run: `PETAB_COLLECTION=checkout python benchmarks/petab_collection.py [PROBLEM ...]`, half a minute to three a problem and program.
The checkout is that of Benchmarking-Initiative/Benchmark-Models-PEtab; `LIMIT=400` gives each process more CPU seconds. Results
go to `benchmarks/petab_collection.json`.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from _harness import ENVIRONMENTS, HERE

STARTS, STEPS = 20, 200
GENERATIONS = 100
"""Draws evolve for so many, which costs about what 25 coarse steps from each do."""
ROUNDS = 2
"""Rounds after the starts: one from draws that did not evolve, one of scatter search between all ends."""
LIMIT = float(os.environ.get("LIMIT", 150.0))
"""The most that a process may take, CPU s; four times as long by the clock."""
AGAIN = 50.0
"""A fit that takes longer is not made a second time, to see what it costs without compilation, CPU s."""
RECORD = HERE / "petab_collection.json"
PROBLEMS = (
    *(
        "Boehm_JProteomeRes2014",
        "Rahman_MBS2016",
        "Perelson_Science1996",
        "Crauste_CellSystems2017",
        "Bruno_JExpBot2016",
    ),
    *("Elowitz_Nature2000", "Fiedler_BMCSystBiol2016", "Okuonghae_ChaosSolitonsFractals2020", "Oliveira_NatCommun2021"),
    *("Sneyd_PNAS2002", "Blasi_CellSystems2016", "Borghans_BiophysChem1997", "Zheng_PNAS2012", "Zhao_QuantBiol2020"),
    *(
        "Brannmark_JBC2010",
        "Armistead_CellDeathDis2024",
        "Weber_BMC2015",
        "Raia_CancerResearch2011",
        "Giordano_Nature2020",
    ),
    *("Fujita_SciSignal2010", "Schwen_PONE2014", "Laske_PLOSComputBiol2019"),
)


def ours(file: str) -> None:
    """Fit one problem and print what came out, line by line."""
    import jax

    import simkit

    simkit.enable_x64()
    # Hopeless simulations must not take all of their steps.
    read = simkit.petab.load(file, step=simkit.Adaptive(5e-7, 1e-12, max_steps=2000))
    nominal = jax.jit(lambda problem, theta: -problem.log_likelihood(theta)[0] - problem.log_prior(theta))
    print("nominal", float(nominal(read.problem, read.nominal)), flush=True)
    for seed in (1, 2):
        begin = time.process_time()
        result = simkit.fit(
            read.problem,
            starts=STARTS,
            screen=3,
            evolve=GENERATIONS,
            recombine=ROUNDS,
            horizons=(1.0,),
            key=jax.random.key(seed),
            method=simkit.GaussNewton(max_steps=STEPS, tolerance=1e-3),
            progress=False,
        )
        spent = time.process_time() - begin
        print("fit", float(np.min(result.objective)), spent, result.agreeing(), flush=True)
        if spent > AGAIN:
            break


def measured(words: list[str], folder: str, surroundings: dict[str, str]) -> tuple[list[list[str]], float, str]:
    """The lines that a process printed, its CPU seconds with those of its children, and how it ended."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as told:
        child = subprocess.Popen(
            words,
            stdout=out,
            stderr=told,
            cwd=folder,
            env=surroundings,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(LIMIT), int(LIMIT))),
        )
        begin, ended = time.monotonic(), "ended"
        while True:
            found, _, usage = os.wait4(child.pid, os.WNOHANG)
            if found:
                break
            if time.monotonic() - begin > 4 * LIMIT:
                os.killpg(child.pid, 9)
                _, _, usage = os.wait4(child.pid, 0)
                ended = "time"
                break
            time.sleep(0.2)
        child.returncode = 0
        ended = "time" if usage.ru_utime + usage.ru_stime >= LIMIT else ended
        out.seek(0)
        told.seek(0)
        lines = [line.split() for line in out.read().splitlines() if line.strip()]
        last = told.read().strip().splitlines()[-1:] or [""]
    if ended == "ended" and not any(line[:1] in (["fit"], ["start"]) for line in lines):
        ended = last[0][:160]
    return lines, usage.ru_utime + usage.ru_stime, ended


def our_row(file: pathlib.Path) -> dict[str, object]:
    lines, cpu, ended = measured([sys.executable, __file__, "--one", str(file)], str(HERE), dict(os.environ))
    fits = [line for line in lines if line[0] == "fit"]
    row: dict[str, object] = {"cpu_s": round(cpu, 1), "end": ended, "generations": GENERATIONS, "rounds": ROUNDS}
    row |= {line[0]: float(line[1]) for line in lines if line[0] == "nominal"}
    if fits:
        row |= {"best": float(fits[0][1]), "agree": int(fits[0][3]), "first_fit_cpu_s": round(float(fits[0][2]), 1)}
    if len(fits) > 1:
        row |= {"second_best": float(fits[1][1]), "second_fit_cpu_s": round(float(fits[1][2]), 1)}
    return row


def peer_row(file: pathlib.Path, python: str) -> dict[str, object]:
    surroundings = os.environ | {"PATH": f"{pathlib.Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        words = [python, str(HERE / "peers" / "pypesto_fit.py"), str(file), str(LIMIT), str(STARTS)]
        lines, cpu, ended = measured(words, folder, surroundings)
    starts = [line for line in lines if line[0] == "start"]
    row: dict[str, object] = {"cpu_s": round(cpu, 1), "end": ended, "starts": len(starts)}
    if starts:
        values = np.array([line[1] for line in starts], float)
        row |= {"best": float(values.min()), "starts_cpu_s": round(float(starts[-1][2]), 1)}
    return row


def main(names: tuple[str, ...] = PROBLEMS) -> dict[str, float]:
    checkout = pathlib.Path(os.environ["PETAB_COLLECTION"]) / "Benchmark-Models"
    python = os.environ.get("AMICI_PYTHON", str(ENVIRONMENTS / "amici" / "bin" / "python"))
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in names:
        file = next(
            file for file in (checkout / name / f"{name}.yaml", checkout / name / "problem.yaml") if file.exists()
        )
        record[name] = record.get(name, {}) | {"simkit": our_row(file)}  # of the peer, what was measured before
        print(name, record[name]["simkit"], flush=True)
        if pathlib.Path(python).exists():
            record[name]["pypesto"] = peer_row(file, python)
            print(name, record[name]["pypesto"], flush=True)
        RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")
    rows = [row for row in record.values() if "best" in row["simkit"]]
    near = lambda a, b: a < b + 0.1
    both = [row for row in rows if "best" in row.get("pypesto", {})]
    return {
        "petab_collection_fitted": len(rows),
        "petab_collection_as_good_as_nominal": sum(near(r["simkit"]["best"], r["simkit"]["nominal"]) for r in rows),
        "petab_collection_beside_pypesto": len(both),
        "petab_collection_as_good_as_pypesto": sum(near(r["simkit"]["best"], r["pypesto"]["best"]) for r in both),
        "petab_collection_less_cpu": sum(r["simkit"]["cpu_s"] < r["pypesto"]["cpu_s"] for r in both),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        ours(sys.argv[2])
    else:
        for row, figure in main(tuple(sys.argv[1:]) or PROBLEMS).items():
            print(f"{row:40s} {figure:g}")
