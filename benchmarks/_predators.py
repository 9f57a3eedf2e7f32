"""A fit that several benchmarks make: predator and prey with noise, at so many times."""

import numpy as np
import numpyro.distributions as dist

import simkit


def problem(times: np.ndarray, step: simkit.Adaptive | None = None) -> simkit.Problem:
    """Four rates from both populations, whose noise has the scale 0.5; by steps of one's own where they are given."""
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    noise = 0.5 * np.random.default_rng(0).normal(size=(2, len(times)))
    clean = simkit.simulate(system, y0, np.concatenate([[0.0], times])).ys
    pairs = zip(("hare", "lynx"), noise, strict=True)
    data = {name: np.asarray(getattr(clean, name))[1:] + own for name, own in pairs}
    return simkit.Problem(
        system,
        simkit.Experiment("a", times, data, start=0.0),
        free={
            path: simkit.Free(dist.LogUniform(0.003, 3.0)) for path in ("growth", "predation", "conversion", "death")
        },
        noise={name: simkit.noise.Normal(scale=0.5) for name in data},
        y0=y0,
        **({} if step is None else {"step": step}),
    )
