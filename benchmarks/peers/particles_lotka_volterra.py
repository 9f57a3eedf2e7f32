"""Stochastic Lotka-Volterra by the package `particles`: particle Metropolis-Hastings, and a reference by importance sampling."""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import _harness
import numpy as np
import particles
from particles import distributions as dists
from particles import mcmc
from particles import state_space_models as ssm


class Moved(dists.ProbDist):
    """State one interval later: Euler's steps of the chemical Langevin equation."""

    dim, dtype = 2, float

    def __init__(self, start, rates, steps, length):
        self.start, self.rates, self.steps, self.length = start, rates, steps, length

    def rvs(self, size=None):
        shape = (size, 2) if np.ndim(self.start) < 2 else self.start.shape
        hare, lynx = np.broadcast_to(self.start, shape).T
        growth, predation, death = self.rates
        for _ in range(self.steps):
            h, w = np.maximum(hare, 0), np.maximum(lynx, 0)
            born, eaten, dead = growth * h, predation * h * w, death * w
            noise = RANDOM.normal(size=(3, hare.size)) * np.sqrt(self.length)
            root = np.sqrt(eaten) * noise[1]
            hare = hare + (born - eaten) * self.length + np.sqrt(born) * noise[0] - root
            lynx = lynx + (eaten - dead) * self.length + root - np.sqrt(dead) * noise[2]
        return np.stack([hare, lynx], axis=1)


class LotkaVolterra(ssm.StateSpaceModel):
    """The model with the logarithms of its rates as parameters."""

    default_params = {"growth": 0.0, "predation": -5.0, "death": -0.5}

    def _moved(self, start):
        rates = np.exp([self.growth, self.predation, self.death])
        return Moved(start, rates, OPTIONS["steps"], OPTIONS["length"])

    def PX0(self):
        return self._moved(np.array(OPTIONS["start"]))

    def PX(self, t, xp):
        return self._moved(xp)

    def PY(self, t, xp, x):
        return dists.IndepProd(*(dists.Normal(loc=x[:, k], scale=OPTIONS["scale"]) for k in range(2)))


OPTIONS = {}
RANDOM = np.random.default_rng(7)
NAMES = ("growth", "predation", "death")


def log_likelihood(theta, data, count):
    model = ssm.Bootstrap(ssm=LotkaVolterra(**dict(zip(NAMES, theta))), data=data)
    filtered = particles.SMC(fk=model, N=count)
    filtered.run()
    return filtered.logLt


def main(arrays, options):
    OPTIONS.update(options)
    data = list(arrays["data"])
    np.random.seed(options["seed"])  # noqa: NPY002  # the peer draws from it
    if options["work"] == "reference":
        places = arrays["places"]
        return {"log_likelihood": np.array([log_likelihood(x, data, options["count"]) for x in places])}, {}
    prior = dists.StructDist({n: dists.Normal(m, s) for n, m, s in zip(NAMES, options["means"], options["deviations"])})
    # In the order that the peer gives its parameters.
    begin = prior.rvs(size=1)
    order = [NAMES.index(name) for name in begin.dtype.names]
    for name, value in zip(NAMES, arrays["begin"]):
        begin[name] = value
    chain = mcmc.PMMH(
        ssm_cls=LotkaVolterra,
        prior=prior,
        data=data,
        Nx=options["count"],
        niter=options["draws"],
        theta0=begin,
        rw_cov=arrays["covariance"][np.ix_(order, order)],
        scale=1.0,
    )
    begun = time.process_time()
    chain.run()
    cpu = time.process_time() - begun
    draws = np.stack([chain.chain.theta[name] for name in NAMES], axis=1)
    return {"draws": draws}, {"cpu": cpu, "accepted": float(chain.acc_rate)}


_harness.serve(main)
