"""One of some processes that fit, profile, sample and predict side by side, run by test_devices.py; arguments as one_process.py."""

import sys

import jax
import numpy as np
import pytest

import simkit
from simkit import ArgumentError


def main(address: str, number: str, result: str, count: str) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(coordinator_address=address, num_processes=int(count), process_id=int(number))
    x = np.linspace(1.0, 2.0, 10)
    line = simkit.odes.from_response(lambda x, p: p["slope"] * x, {"slope": 1.0})
    data = simkit.Experiment("line", x, {"y": 2 * x + 0.1 * np.sin(9 * x)})
    free = {"slope": simkit.Free(bounds=(-5.0, 5.0))}
    problem = simkit.Problem(line, data, free=free, noise={"y": simkit.noise.Normal(0.1)})
    fit = simkit.fit(problem, starts=3)
    many = simkit.fit(problem, starts=18)
    np.testing.assert_allclose(many.estimate, fit.estimate, rtol=1e-6)  # a descent ends within 1e-4 standard errors
    profiles = simkit.profile(problem, fit, points=5)
    posterior = simkit.sample(problem, start=fit, chains=3, draws=50, warmup=50, key=jax.random.key(0))
    bands = simkit.predict(problem, posterior, count=5)
    np.savez(result, estimate=fit.estimate, lower=profiles.intervals, draws=posterior.draws, curves=bands.curves["y"])
    store = str(result).rpartition("/")[0] + "/store"
    lines: list[str] = []
    kept = simkit.fit(problem, starts=18, store=store)
    again = simkit.fit(problem, starts=18, store=store, progress=lines.append)
    np.testing.assert_array_equal(again.thetas, kept.thetas)
    np.testing.assert_allclose(kept.estimate, many.estimate, rtol=1e-6)
    part = simkit.fit(problem, starts=18, key=jax.random.key(1), store=f"{store}_cut", within=1e-3)
    assert part.cut
    assert len(part.thetas) == 4
    whole = simkit.fit(problem, starts=18, key=jax.random.key(1), store=f"{store}_cut")
    np.testing.assert_allclose(whole.estimate, many.estimate, rtol=1e-6)
    differing(problem, int(number))
    jax.distributed.shutdown()


def differing(problem: simkit.Problem, number: int) -> None:
    """Arguments that differ are told in both processes, and nothing waits for ever."""
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    for call in (
        lambda: simkit.fit(problem, starts=3, key=jax.random.key(number)),
        lambda: simkit.ensemble(system, y0, times, over={"growth": np.linspace(0.4, 0.6 + 0.1 * number, 4)}),
        lambda: simkit.ensemble(system, y0, times, over={"growth": np.linspace(0.4, 0.6, 4 + number)}),
    ):
        with pytest.raises(
            ArgumentError, match=r"same arguments and versions, but .* in process 0 and .* in process 1"
        ):
            call()


if __name__ == "__main__":
    main(*sys.argv[1:])
