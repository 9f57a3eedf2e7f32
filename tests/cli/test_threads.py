"""Several devices of one processor: fits on them come to their end."""

import os
import subprocess
import sys

import pytest

WINDOWS = """
from simkit.cli import _environment
_environment.set_devices(2)
import numpy as np, simkit
simkit.enable_x64()
model, example, _, _ = simkit.odes.Lorenz63.example()
grid = np.linspace(0.0, 12.0, 121)
truth = simkit.simulate(model, type(example)(x=-8.0, y=-8.0, z=27.0), grid, step=0.01).ys
noise = np.random.default_rng(1).normal(size=(3, len(grid)))
seen = {name: np.asarray(getattr(truth, name)) + noise[i] for i, name in enumerate("xyz")}
windows, free = [], {"rayleigh": simkit.Free(bounds=(15.0, 45.0))}
for k in range(0, len(grid) - 9, 10):
    own = slice(k, k + 10)
    where = {f"y0.{name}": f"window {k}, {name}" for name in seen}
    data = {name: values[own] for name, values in seen.items()}
    windows.append(simkit.Experiment(f"window {k}", grid[own] - grid[k], data, set=where))
    free |= {f"window {k}, {name}": simkit.Free(bounds=(v[k] - 4.0, v[k] + 4.0)) for name, v in seen.items()}
noise = {name: simkit.noise.Normal(1.0) for name in seen}
problem = simkit.Problem(model, windows, y0=example, free=free, noise=noise, step=0.02)
print(float(simkit.fit(problem, starts=3).estimate[0]))
"""


@pytest.mark.slow
def test_a_fit_of_many_parameters_ends_on_two_devices():
    """It waited for ever on JAX 0.10 and two cores."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = [sys.executable, "-c", WINDOWS]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert abs(float(done.stdout) - 28.0) < 0.5
