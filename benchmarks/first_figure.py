"""Claim: the first figure of the first notebook stands 5 s after `import` with programs on disk, and 12 s without (CPU s).

It runs the cells of `examples/lynx_hare.ipynb` up to the first that shows a figure, in fresh processes.
`cold` begins with an empty folder for compiled programs, `warm` with the one that it filled.
"""

import json
import os
import subprocess
import sys
import tempfile

import _harness
import numpy as np

NOTEBOOK = _harness.HERE.parent / "examples" / "lynx_hare.ipynb"
COLD, WARM = 3, 7
PROGRAM = """
import ast, json, sys, time
begin = time.process_time()
marks, namespace = {}, {"__name__": "__main__"}
for cell in json.loads(sys.argv[1]):
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    shown = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    if not marks:
        marks["imports"] = time.process_time() - begin
    if hasattr(shown, "_repr_png_"):
        marks["drawn"] = time.process_time() - begin
        assert shown._repr_png_().startswith(b"\\x89PNG")
        break
print(json.dumps(marks | {"figure": time.process_time() - begin}))
"""


def main() -> dict[str, float]:
    cells = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    taken = {"cold": [], "warm": []}
    for _ in range(COLD):
        with tempfile.TemporaryDirectory() as folder:
            taken["cold"].append(_run(cells, folder))
    with tempfile.TemporaryDirectory() as folder:
        _run(cells, folder)
        taken["warm"] = [_run(cells, folder) for _ in range(WARM)]
    rows, figures = [], {}
    for name, runs in taken.items():
        least, median = ({mark: float(of([run[mark] for run in runs])) for mark in runs[0]} for of in (min, np.median))
        rows.append([name, *(f"{least[mark]:.2f} ({median[mark]:.2f})" for mark in ("imports", "drawn", "figure"))])
        figures |= {
            f"{name} first figure, CPU s, least": least["figure"],
            f"{name} imports, CPU s, least": least["imports"],
        }
    _harness.print_table(
        "CPU s from the start, least (median)", ["programs on disk", "imports", "drawn", "as PNG"], rows
    )
    return figures


def _run(cells: list[str], folder: str) -> dict[str, float]:
    cache = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-c", PROGRAM, json.dumps(cells)]
    # A checkout that is not installed is found from here, too.
    paths = os.pathsep.join(filter(None, [str(_harness.HERE.parent), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, **cache, "PYTHONPATH": paths}
    done = subprocess.run(command, cwd=NOTEBOOK.parent, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
