"""Stochastic runs of a network file by BioNetGen's `run_network`: amounts at one time, and the cost of a jump in one long run."""

import pathlib
import re
import subprocess
import tempfile

import _harness
import numpy as np


def main(arrays, options):
    import bionetgen

    program = pathlib.Path(bionetgen.__file__).parent / "bng-linux" / "bin" / "run_network"
    with tempfile.TemporaryDirectory() as folder:

        def run(seed, end):
            quiet = ["--cdat", "1", "--fdat", "0"]
            words = [
                program,
                "-p",
                "ssa",
                "-h",
                str(seed),
                "-o",
                f"{folder}/out",
                *quiet,
                options["path"],
                str(end),
                "1",
            ]
            told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            jumps = int(re.search(r"TOTAL STEPS:\s+(\d+)", told)[1])
            spent = float(re.search(r"Propagation took (\S+) CPU", told)[1])
            return np.loadtxt(f"{folder}/out.cdat")[-1, 1:], jumps, spent

        ends = np.array([run(seed, options["end"])[0] for seed in range(1, options["runs"] + 1)])
        costs = []
        for seed in range(1, options["samples"] + 1):
            _, jumps, spent = run(seed, options["long"])
            costs.append(spent / jumps)
    return {"ends": ends, "costs": np.array(costs)}, {}


if __name__ == "__main__":
    _harness.serve(main)
