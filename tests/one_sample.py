"""One of some processes that share the chains of a posterior, run by test_processes.py: an address, its number, where to write,
and how many there are."""

import sys

import jax
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, TimeUpError
from simkit.infer import _nuts_run

CHAINS, DRAWS, WARMUP = 3, 60, 200


def example() -> simkit.Problem:
    """A curve with two unknowns, whose data scatter."""
    x = np.linspace(0.0, 2.0, 12)
    curve = simkit.odes.from_response(
        lambda x, p: p["size"] * jax.numpy.exp(-p["rate"] * x), {"size": 1.0, "rate": 1.0}
    )
    data = simkit.Experiment("decay", x, {"y": 2 * np.exp(-0.7 * x) + 0.05 * np.sin(9 * x)})
    free = {"size": simkit.Free(bounds=(0.1, 5.0)), "rate": simkit.Free(bounds=(0.1, 3.0))}
    return simkit.Problem(curve, data, free=free, noise={"y": simkit.noise.Normal(0.1)})


def asked(problem: simkit.Problem, **others):
    """Arguments of the posterior that one process and several draw; one start is not shared, so that it ends at the same bits."""
    start = simkit.fit(problem, starts=1)
    return {"chains": CHAINS, "draws": DRAWS, "warmup": WARMUP, "key": jax.random.key(3), "start": start, **others}


def restarted(problem: simkit.Problem) -> simkit.Posterior:
    """A posterior whose second chain is said to have wrong steps once, so that it begins again from draws of the others."""
    told = [{}, {1: "for this test"}]
    known, _nuts_run.untuned_chains = _nuts_run.untuned_chains, lambda accept, target: told.pop() if told else {}
    try:
        return simkit.sample(problem, **asked(problem))
    finally:
        _nuts_run.untuned_chains = known


def watched(lanes: set[int]) -> None:
    """Note with how many chains the program of draws is called."""
    whole = _nuts_run.advance

    def noting(target, method, roots, chains, *others):
        lanes.add(len(chains.place))
        return whole(target, method, roots, chains, *others)

    _nuts_run.advance = noting


def main(address: str, number: str, result: str, count: str) -> None:
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(coordinator_address=address, num_processes=int(count), process_id=int(number))
    problem, lanes = example(), set()
    watched(lanes)
    drawn = simkit.sample(problem, **asked(problem))
    assert lanes == {2}  # of three chains each process has two
    folder = str(result).rpartition("/")[0]
    kept = simkit.sample(problem, store=f"{folder}/store", every=50, **asked(problem))
    # What the first call keeps another one goes on with: here after a time that is up at once, in the warm-up.
    with pytest.raises(TimeUpError):
        simkit.sample(problem, store=f"{folder}/cut", every=50, within=1e-3, **asked(problem))
    resumed = simkit.sample(problem, store=f"{folder}/cut", every=50, **asked(problem))
    read = simkit.sample(problem, store=f"{folder}/store", **asked(problem))
    own = jax.random.key(int(number))
    with pytest.raises(ArgumentError, match=r"`sample` with the same arguments and versions, but .*key.* in process 0"):
        simkit.sample(problem, **asked(problem, key=own))
    fitted = simkit.sample(problem, store=f"{folder}/fitted", **asked(problem, start=None, chains=2))
    assert fitted.draws.shape == (2, DRAWS, 2)
    alone = simkit.sample(problem, **asked(problem, chains=1))
    again = restarted(problem)
    whole = {"again": again, "drawn": drawn, "kept": kept, "resumed": resumed, "read": read, "alone": alone}
    np.savez(result, **{name: np.asarray(found.draws) for name, found in whole.items()}, steps=np.asarray(drawn.steps))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
