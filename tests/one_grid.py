"""One of some processes whose devices hold one grid: an address, its number, where to write, and how many there are.

`test_processes.py` runs it and judges. What is recorded goes into a folder beside the results, which all of them see.
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

import simkit
from simkit import fluids
from simkit.fluids import Grid

TIMES = np.array([0.0, 0.02, 0.05])
LONG = np.linspace(0.0, 0.1, 11)
PROBES = {"volume": lambda system, t, y: jnp.mean(y.height), "along": lambda system, t, y: y.height[0]}


def water(devices=None, gravity=9.81, **options):
    system = fluids.ShallowWater(
        Grid((8, 6), 1.0, devices=devices), gravity=gravity, coriolis=1.0, reconstruction="first_order", **options
    )
    x, y = Grid((8, 6), 1.0).mesh()
    height = 1 + 0.1 * np.exp(-10 * ((x - 0.4) ** 2 + (y - 0.5) ** 2))
    return system, system.State(height, np.zeros((2, 8, 6)))


def plane(devices=None):
    shape = (12, 22)
    system = fluids.SpectralFlow2D(Grid(shape, devices=devices), viscosity=0.05)
    x, y = Grid(shape).mesh()
    return system, system.State(np.cos(x) * np.sin(2 * y) + np.sin(x + y))


RUNS = {
    "water, fixed": (water, lambda: simkit.Fixed(4)),
    "water, Courant": (water, lambda: simkit.Courant(0.4)),
    "plane, fixed": (plane, lambda: 0.01),
    "plane, adaptive": (plane, lambda: simkit.Adaptive(1e-6)),
}


def slope(make, devices):
    """The derivative of a mean by a parameter."""
    _, start = make()

    def mean(gravity):
        system, _ = make(devices, gravity)
        run = simkit.simulate(system, start, TIMES, step=simkit.Courant(0.4))
        return jnp.mean(jnp.square(run.final().velocity))

    return jax.jit(jax.grad(mean))(9.81)


def recorded(make, store, devices=None, times=LONG):
    system, start = make(devices)
    mean = {"mean": simkit.reducers.Mean()}
    options = {"frames": 2, "every": 4, "probes": PROBES, "reduce": mean}
    return simkit.record(system, start, times, store=store, step=simkit.Courant(0.4), **options)


def said(action):
    """The words of an error of simkit."""
    try:
        action()
    except simkit.SimkitError as error:
        return str(error)
    return ""


def main(address: str, number: str, result: str, count: str) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(coordinator_address=address, num_processes=int(count), process_id=int(number))
    every, found = jax.devices(), {}
    for name, (make, step) in RUNS.items():
        system, start = make(every)
        run = simkit.simulate(system, start, TIMES, step=step())
        on = simkit.simulate(system, run.final(), TIMES, step=step())  # from a state of which each holds a part
        for part, x in enumerate(jax.tree.leaves((run.ys, on.ys))):
            assert not x.is_fully_addressable
            found[f"{name}, {part}"] = multihost_utils.process_allgather(x, tiled=True)
    found["slope"] = slope(water, every)
    store = pathlib.Path(result).parent / "store"
    recorded(water, store, every, LONG[:5])  # a run that ended early
    run = recorded(water, store, every)
    found |= {"mean": run.reduced["mean"].height, "frames": run.trajectory().ys.height, "along": run["along"]}
    system, start = water(every)
    far = lambda: simkit.simulate(system, start, TIMES, step=simkit.Courant(0.4, max_steps=3))
    apart = lambda: simkit.simulate(water(every, 9.81 + int(number))[0], start, TIMES)
    members = lambda: simkit.ensemble(system, start, TIMES, over={"gravity": np.array([9.0, 10.0])})
    known = simkit.simulate(system, start, TIMES)
    saved = lambda: simkit.save(pathlib.Path(result).parent / "known.h5", known)
    part = lambda: simkit.record(system, known.final(), LONG, store=store.parent / "other")
    words = [far, apart, members, saved, part]
    np.savez(result, words=[said(action) for action in words], printed=repr(known), **found)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
