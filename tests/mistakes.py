"""A user's script: the lines marked `# wrong` are mistakes that a type checker underlines, and it underlines nothing else.

Read by a type checker in test_user_types.py, never run.
"""

import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import noise, odes

print(simkit.Tpyo)  # wrong
odes.LotkaVolterra(growth="fast")  # wrong
system, y0, times, _ = odes.LotkaVolterra.example()
simkit.simulate(odes.LotkaVolterra, y0, times)  # wrong
simkit.simulate(system, y0, times, solvr="tsit5")  # wrong
simkit.Problem(system, 3.0, free={}, noise={})  # wrong
simkit.fit(system)  # wrong
noise.Normal("0.1")  # wrong
simkit.Free(bounds=3)  # wrong
print(system.growht)  # wrong
run = simkit.simulate(system, y0, times)
run.fnal()  # wrong
odes.LotkaVolterra.State(hair=1.0, lynx=2.0)  # wrong

odes.LotkaVolterra(growth=0.5, death=np.float64(0.8), predation=jnp.asarray(0.03))
odes.LotkaVolterra.State(hare=30, lynx=4.0)
rate = 2 * system.growth + jnp.exp(system.death)
table = simkit.Interpolated([0.0, 1.0], [2.0, 3.0])
key = jax.random.key(0)
problem = simkit.Problem(
    system,
    simkit.Experiment("pelts", [0.0, 1.0], {"hare": [30.0, 31.0]}, y0={"hare": 30.0, "lynx": 4.0}),
    free={"growth": simkit.Free(bounds=(0.1, 2.0))},
    noise={"hare": noise.LogNormal(0.25)},
)
fit = simkit.fit(problem, starts=4, key=key)
print(fit.estimate, run.final(), rate, table)
