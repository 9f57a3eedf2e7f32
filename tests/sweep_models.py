"""What the tests of sweeps send to other processes: those can import a module by name, but not a test."""

import os
import pathlib
import signal
import sys
import time

import jax
import numpy as np

import simkit

COUNT, CHUNK = 22, 4  # five whole chunks and one of two members
RATES = np.linspace(0.1, 1.0, COUNT)
TIMES = np.linspace(0.0, 2.0, 5)


def setup(**changes):
    """The arguments of a small sweep: exponential decay at several rates."""
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    return {
        "system": system,
        "y0": y0,
        "times": TIMES,
        "over": {"rate": RATES},
        "chunk": CHUNK,
        "step": simkit.Fixed(4),
        **changes,
    }


def final(system, trajectory):
    """The last state, and how much decayed."""
    (state,) = jax.tree.leaves(trajectory.ys)
    return {"final": state[-1], "decayed": {"part": 1.0 - state[-1] / state[0]}}


def half(system, t, y, inputs):
    return y.amount - 0.5


def doubled(system, t, y, inputs):
    return type(y)(2.0 * y.amount)


def passed(system, trajectory):
    """When an event happened, how often, and when the last of those with room."""
    return {"first": trajectory.event_time, "often": trajectory.events.count, "times": trajectory.events.times}


def deadly(system, trajectory):
    """`final`, but a rate above 0.99 ends the process: every time, or once where SIMKIT_TEST_FLAG names a file."""

    def act(rate):
        flag = os.environ.get("SIMKIT_TEST_FLAG")
        if rate > 0.99 and not (flag and pathlib.Path(flag).exists()):
            if flag:
                pathlib.Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rate

    shape = jax.ShapeDtypeStruct((), system.rate.dtype)
    rate = jax.pure_callback(act, shape, system.rate, vmap_method="sequential")
    return {**final(system, trajectory), "rate_seen": rate}


def slow(system, trajectory):
    """`final`, but each member takes a tenth of a second, and SIMKIT_TEST_WORKERS names a folder of the processes that computed."""

    def act(rate):
        time.sleep(0.1)
        if folder := os.environ.get("SIMKIT_TEST_WORKERS"):
            (pathlib.Path(folder) / str(os.getpid())).touch()
        return rate

    shape = jax.ShapeDtypeStruct((), system.rate.dtype)
    rate = jax.pure_callback(act, shape, system.rate, vmap_method="sequential")
    return {**final(system, trajectory), "rate_seen": rate}


def raising(system, trajectory):
    """`final`, but a rate above 0.99 raises."""

    def act(rate):
        if rate > 0.99:
            raise RuntimeError("rates above 0.99 are not for me")
        return rate

    shape = jax.ShapeDtypeStruct((), system.rate.dtype)
    rate = jax.pure_callback(act, shape, system.rate, vmap_method="sequential")
    return {**final(system, trajectory), "rate_seen": rate}


def main(store, pause):
    """Sweep slowly, saying how far it is: for tests that kill it in the middle."""
    simkit.enable_x64()

    def say(line):
        print(line, flush=True)
        time.sleep(float(pause))

    print(simkit.sweep(**setup(store=store, progress=say)).finished, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
