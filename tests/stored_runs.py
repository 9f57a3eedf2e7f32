"""A fit and sampling runs with a store, which tests interrupt; as a program they write slowly, so that they can be killed midway.

`python stored_runs.py KIND STORE`, where KIND is a key of `RUNS`.
"""

import functools
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import simkit
from simkit.odes import from_response

X = np.linspace(0.0, 3.0, 9)
# Fixed numbers that look like scatter.
Y = 2.0 * np.exp(-0.8 * X) + 0.05 * np.array([0.3, -1.1, 0.9, -0.4, 0.5, 1.2, -0.3, 0.1, -0.7])
DECAY = from_response(lambda x, p: p["size"] * jnp.exp(-p["rate"] * x), {"size": 1.0, "rate": 1.0})
PRIORS = {"size": dist.LogNormal(0.0, 1.0), "rate": dist.LogNormal(0.0, 1.0)}


def problem(scale=0.05, priors=PRIORS):
    data = simkit.Experiment("decay", X, {"y": Y})
    free = {name: simkit.Free(prior) for name, prior in priors.items()}
    return simkit.Problem(DECAY, data, free=free, noise={"y": simkit.noise.Normal(scale)})


def run_fit(store=None, **options):
    options = {"starts": 18, "key": jax.random.key(5)} | options
    return simkit.fit(options.pop("problem", None) or problem(), store=store, **options)


def run_sample(method, store=None, **options):
    options = {"chains": 2, "draws": 60, "warmup": 40, "every": 8, "key": jax.random.key(6)} | options
    return simkit.sample(options.pop("problem", None) or problem(), method=method, store=store, **options)


RUNS = {
    "fit": run_fit,
    "nuts": functools.partial(run_sample, simkit.NUTS()),
    "ensemble": functools.partial(run_sample, simkit.EnsembleSampler(thin=2)),
}


def main(kind, store):
    """A run of which every write takes a while."""
    replace = os.replace

    def slow(*places):
        time.sleep(0.03)
        replace(*places)
        time.sleep(0.03)

    os.replace = slow
    print("begins", flush=True)
    RUNS[kind](store)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(*sys.argv[1:])
