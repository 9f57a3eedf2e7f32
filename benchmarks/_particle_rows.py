"""Rows of particle Markov chains: stochastic Lotka-Volterra with noisy data, beside the package `particles`.

The chemical Langevin equation of `simkit.odes.StochasticLotkaVolterra` by Euler's steps of 0.1 year; both numbers are seen every
year for 20 years with a standard deviation of 10; the logarithms of three rates are unknown. Both sides have the same model, steps,
data, priors, number of particles, first proposal and adaptive random walk (Haario et al. 2001), and one core.

- `particle_mcmc_speedup`: the least effective number of draws a CPU second of ours over theirs, without compiling and warm-up.
- `particle_gibbs_speedup`: that of `ParticleGibbs` with a few particles over that of `ParticleMetropolis`, and
  `particle_gibbs_apart`: the distance of its means from the reference.
- `particle_mcmc_apart`: the largest distance of our means from a reference, in standard deviations of the posterior: that of
  importance sampling with likelihoods that the peer's filter estimates, by some million particles in all (Tran et al. 2013,
  arXiv:1309.3339); `particle_mcmc_reference_error` is its own standard error in the same unit.
"""

import time
from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size

import simkit

PACKAGES = ("particles==0.4",)
COUNT, CHAINS, DRAWS, WARMUP = 150, 4, 4000, 1000
FEW = 20
"""Number of particles of `ParticleGibbs`."""
PEER_DRAWS, PEER_WARMUP = 5000, 1000
PLACES, REFERENCE = 2000, 1000
"""Number of draws of the reference, and of particles of each."""
STEP, SCALE, START = 0.1, 10.0, (50.0, 100.0)
MEANS, DEVIATIONS = (0.0, float(np.log(0.005)), float(np.log(0.6))), (0.5, 0.5, 0.5)
NAMES = ("growth", "predation", "death")


def made(count: int = COUNT) -> tuple[np.ndarray, simkit.Problem]:
    """Data of a simulation at the good values, and the problem with so many particles."""
    system = simkit.odes.StochasticLotkaVolterra()
    times, start = np.arange(1.0, 21.0), system.State(*map(jnp.asarray, START))
    run = simkit.simulate(system, start, np.append(0.0, times), step=STEP, key=jax.random.key(1))
    states = np.stack([run.ys.hare[1:], run.ys.lynx[1:]], axis=1)
    data = states + SCALE * np.random.default_rng(2).normal(size=states.shape)
    free = {
        name: simkit.Free(dist.LogNormal(mean, deviation))
        for name, mean, deviation in zip(NAMES, MEANS, DEVIATIONS, strict=True)
    }
    noise = simkit.noise.Normal(SCALE)
    problem = simkit.Problem(
        system,
        simkit.Experiment("pond", times, {"hare": data[:, 0], "lynx": data[:, 1]}, start=0.0, y0=start),
        free=free,
        noise={"hare": noise, "lynx": noise},
        step=STEP,
        likelihood=simkit.filters.ParticleFilter(count, key=jax.random.key(0)),
    )
    return data, problem


def timed(problem: simkit.Problem, method: Any) -> tuple[simkit.Posterior, np.ndarray, float, float]:
    """A posterior, the logarithms of its draws, the CPU time of these without the warm-up, and that of a first call."""
    options = {"method": method, "chains": CHAINS, "draws": DRAWS, "warmup": WARMUP}
    begin = time.process_time()
    simkit.sample(problem, key=jax.random.key(3), **{**options, "draws": 100, "warmup": 100})
    compiled = time.process_time() - begin
    begin = time.process_time()
    posterior = simkit.sample(problem, key=jax.random.key(4), **options)
    cpu = (time.process_time() - begin) * DRAWS / (DRAWS + WARMUP)
    return posterior, np.log(np.asarray(posterior.draws)), cpu, compiled


def effective(draws: np.ndarray) -> float:
    """The least effective number of draws of all parameters, of shape `(chain, draw, parameter)`."""
    return min(float(effective_sample_size(draws[..., i])) for i in range(draws.shape[-1]))


def rows() -> dict[str, float]:
    """Run both sides, compare their means with the reference, and time them."""
    simkit.enable_x64()
    data, problem = made()
    posterior, ours, cpu, compiled = timed(problem, simkit.ParticleMetropolis())
    gibbs, swept, gibbs_cpu, _ = timed(made(FEW)[1], simkit.ParticleGibbs())
    flat = ours.reshape(-1, 3)
    mean, covariance = flat.mean(axis=0), np.cov(flat.T)
    asked = {"steps": round(1 / STEP), "length": STEP, "start": START, "scale": SCALE, "seed": 5}
    chain, figures = _harness.run_peer(
        "particles",
        PACKAGES,
        "particles_lotka_volterra.py",
        {"data": data, "begin": mean, "covariance": covariance},
        {
            **asked,
            "work": "chain",
            "count": COUNT,
            "draws": PEER_DRAWS,
            "means": MEANS,
            "deviations": DEVIATIONS,
        },
    )
    theirs = chain["draws"][None, PEER_WARMUP:]
    peer_cpu = figures["cpu"] * (PEER_DRAWS - PEER_WARMUP) / PEER_DRAWS
    rate, peer_rate = effective(ours) / cpu, effective(theirs) / peer_cpu
    reference, error = referenced(data, mean, covariance, asked)
    deviation = flat.std(axis=0)
    apart = np.abs(mean - reference) / deviation
    gibbs_rate = effective(swept) / gibbs_cpu
    gibbs_apart = np.abs(swept.reshape(-1, 3).mean(axis=0) - reference) / deviation
    peer_apart = np.abs(theirs[0].mean(axis=0) - reference) / deviation
    _harness.print_table(
        f"Lotka-Volterra by {COUNT} particles; first call {compiled:.1f} CPU s",
        ["", "draws", "accepted", "least ESS", "ESS a CPU s", "from the reference, sd"],
        [
            [
                "simkit",
                str(CHAINS * DRAWS),
                f"{float(posterior.accept.mean()):.2f}",
                f"{effective(ours):.0f}",
                f"{rate:.1f}",
                f"{apart.max():.3f}",
            ],
            [
                f"ParticleGibbs, {FEW} particles",
                str(CHAINS * DRAWS),
                f"{float(gibbs.accept.mean()):.2f}",
                f"{effective(swept):.0f}",
                f"{gibbs_rate:.1f}",
                f"{gibbs_apart.max():.3f}",
            ],
            [
                "particles",
                str(theirs.shape[1]),
                f"{figures['accepted']:.2f}",
                f"{effective(theirs):.0f}",
                f"{peer_rate:.2f}",
                f"{peer_apart.max():.3f}",
            ],
        ],
    )
    return {
        "particle_mcmc_speedup": rate / peer_rate,
        "particle_mcmc_apart": float(apart.max()),
        "particle_gibbs_speedup": gibbs_rate / rate,
        "particle_gibbs_apart": float(gibbs_apart.max()),
        "particle_mcmc_reference_error": float((error / deviation).max()),
    }


def referenced(
    data: np.ndarray, mean: np.ndarray, covariance: np.ndarray, asked: dict
) -> tuple[np.ndarray, np.ndarray]:
    """Means of the posterior by importance sampling from a wide Student distribution, and their standard errors."""
    random, freedom = np.random.default_rng(6), 6
    root = np.linalg.cholesky(1.3 * covariance)
    white = random.normal(size=(PLACES, 3)) / np.sqrt(random.chisquare(freedom, (PLACES, 1)) / freedom)
    places = mean + white @ root.T
    found, _ = _harness.run_peer(
        "particles",
        PACKAGES,
        "particles_lotka_volterra.py",
        {"data": data, "places": places},
        {**asked, "work": "reference", "count": REFERENCE},
    )
    prior = -0.5 * (((places - np.array(MEANS)) / np.array(DEVIATIONS)) ** 2).sum(axis=1)
    proposal = -0.5 * (freedom + 3) * np.log1p((white**2).sum(axis=1) / freedom)
    log = found["log_likelihood"] + prior - proposal
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    reference = weights @ places
    error = np.sqrt((weights**2) @ (places - reference) ** 2)
    print(f"Reference: {PLACES} draws of {REFERENCE} particles, effective {1 / (weights**2).sum():.0f}")
    return reference, error


if __name__ == "__main__":
    print(rows())
