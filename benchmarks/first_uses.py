"""Claim: the cost of twelve first uses in fresh processes, import and compilation included, without and with programs on disk.

Twelve uses, each in processes of its own: `cold` begins with an empty folder of compiled programs, `warm` with the one that it
filled (`simkit.enable_cache`).
"""

import os
import resource
import subprocess
import sys
import tempfile

import _harness

BEGIN = """
import numpy as np, simkit, jax, jax.numpy as jnp
simkit.enable_cache(); simkit.enable_x64()
"""
LYNX = """
table = np.genfromtxt("examples/data/hudson_bay.csv", delimiter=",", names=True)
system, y0, _, _ = simkit.odes.LotkaVolterra.example()
names = table.dtype.names
data = simkit.Experiment("pelts", table[names[0]] - table[names[0]][0], {"hare": table[names[1]], "lynx": table[names[2]]})
F = lambda a, b: simkit.Free(bounds=(a, b))
free = {"growth": F(0.1, 2), "death": F(0.1, 2), "predation": F(0.001, 0.2), "conversion": F(0.001, 0.2)}
problem = simkit.Problem(system, data, y0=y0, free=free, noise={k: simkit.noise.LogNormal(0.25) for k in ("hare", "lynx")})
"""
BOEHM = """
petab = simkit.petab.load("data/petab/Boehm_JProteomeRes2014/Boehm_JProteomeRes2014.yaml")
problem = petab.problem
"""
USES = {
    "import, and the name of a verb": "simkit.simulate",
    "Lotka-Volterra, one solve": "simkit.simulate(*simkit.odes.LotkaVolterra.example()[:3])",
    "30 stiff states, one solve by `Rodas5P`": """
field = lambda t, y, p: jnp.concatenate([
    -p["a"] * y[:10] + p["c"] * y[10:20] * y[20:],
    p["a"] * y[:10] - p["b"] * y[10:20] ** 2 - p["c"] * y[10:20] * y[20:],
    p["b"] * y[10:20] ** 2])
system = simkit.from_function(field, {"a": 0.04, "b": 3e7, "c": 1e4})
y0 = jnp.concatenate([jnp.ones(10), jnp.zeros(20)])
simkit.simulate(system, y0, [0.0, 1e4], solver="rodas5p", step=simkit.Adaptive(1e-6, 1e-8))
""",
    "Lotka-Volterra, gradient of an end": """
system, y0, times, _ = simkit.odes.LotkaVolterra.example()
jax.grad(lambda g: simkit.simulate(simkit.odes.LotkaVolterra(growth=g), y0, times).ys.hare[-1])(0.5)
""",
    "Lotka-Volterra, 1,000 members": """
system, y0, times, _ = simkit.odes.LotkaVolterra.example()
simkit.ensemble(system, y0, times, over={"growth": np.linspace(0.4, 0.6, 1000)})
""",
    "lynx and hare, fit from 16 starts": LYNX + "simkit.fit(problem)",
    "lynx and hare, fit and 4 x 200 draws": LYNX
    + "simkit.sample(problem, start=simkit.fit(problem, starts=4), draws=200, key=jax.random.key(0))",
    "Boehm, objective and gradient": BOEHM
    + "jax.jit(jax.value_and_grad(lambda t: problem.log_likelihood(t)[0]))(jnp.asarray(petab.nominal))",
    "Ornstein-Uhlenbeck, one path": """
system, y0, times, _ = simkit.odes.OrnsteinUhlenbeck.example()
simkit.simulate(system, y0, times, key=jax.random.key(0), step=0.01)
""",
    "500 atoms, 100 steps": """
md = simkit.md
start = md.crystal("fcc", 1.7, (5, 5, 5))
atoms = md.Atoms(start.position, 0.1 * jnp.sin(start.position))
simkit.simulate(md.Particles(md.LennardJones(cutoff=2.5), start.space), atoms, [0.0, 0.5], step=0.005)
""",
    "a flow of 128 x 128 cells": """
system, y0, _, _ = simkit.fluids.SpectralFlow2D.example()
simkit.simulate(system, y0, [0.0, 0.1], step=0.01)
""",
    "`simkit run examples/lynx_hare.toml`": """
import sys, tempfile
from simkit.cli import main
main(["run", "examples/lynx_hare.toml", "--out", tempfile.mkdtemp()])
""",
}


def main() -> dict[str, float]:
    rows, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:  # Writes the byte code.
        _run("import simkit; dir(simkit); [getattr(simkit, name) for name in dir(simkit)]", folder)
    for name, program in USES.items():
        with tempfile.TemporaryDirectory() as folder:
            cold, warm = (_run(program, folder) for _ in range(2))
            warm = min(warm, _run(program, folder))
        print(f"{name}: {cold:.1f}, {warm:.1f}", file=sys.stderr)
        rows.append((name, f"{cold:.1f}", f"{warm:.1f}"))
        figures |= {f"{name}, cold CPU s": cold, f"{name}, warm CPU s": warm}
    _harness.print_table("First uses in fresh processes", ["use", "cold, CPU s", "warm, CPU s"], rows)
    return figures


def _run(program: str, folder: str) -> float:
    before = _children()
    environment = os.environ | {"SIMKIT_CACHE": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # Byte code stays on disk, as where a package is installed.
    code = BEGIN + program
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, cwd=_harness.HERE.parent, stdout=subprocess.DEVNULL
    )
    return _children() - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
