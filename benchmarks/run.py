"""Run one benchmark: `python benchmarks/run.py NAME`.

It calls `main()` of `benchmarks/NAME.py`, which prints its tables and returns row -> figure, and prints that as one JSON object in
its last line. Where simkit is not installed, an environment with simkit is made first; the peers' environments are made when the
benchmark asks for them. All stand in `benchmarks/.envs`.
"""

import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent


def benchmarks() -> list[str]:
    """The names of all benchmarks."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem[0] != "_" and path.stem != "run")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in benchmarks():
        print(f"usage: python benchmarks/run.py NAME, where NAME is one of {', '.join(benchmarks())}", file=sys.stderr)
        return 2
    if importlib.util.find_spec("simkit") is None:
        return _in_own_environment(arguments)
    from simkit.core import set_compiler

    set_compiler()  # as on the command line of simkit, and for the peers in this process too: docs/performance.md says what it does
    (name,) = arguments
    figures = importlib.import_module(name).main()
    print(json.dumps({row: float(f"{float(figure):.6g}") for row, figure in figures.items()}))
    return 0


def _in_own_environment(arguments: list[str]) -> int:
    folder = HERE / ".envs" / "simkit"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    probe = [python, "-c", "import simkit"]
    if not python.exists() or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        print("Setting up benchmarks/.envs/simkit", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "-e", f"{HERE.parent}[test]"]
        subprocess.run(install, check=True, stdin=subprocess.DEVNULL)
    return subprocess.run([python, __file__, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
