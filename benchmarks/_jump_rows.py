"""Rows of jump processes: exact paths of reaction networks beside BioNetGen's `run_network`.

Networks are those of SciMLBenchmarks.jl: a receptor with a ligand and an adaptor (`multistate.net`, 9 species, 18 reactions),
phosphorylation at three sites (`multisite2.net`, 66 species, 288 reactions) and EGFR (`egfr_net.net`, 356 species, 3,749
reactions). They are no part of simkit: put them into `benchmarks/.models`; one that is not there is passed over. The peer's cost
of a jump is that which it reports of one long run, without reading the file; ours that of an ensemble, compiled before. The means
of all species at the end agree first, within 6 standard errors of their difference.
"""

import functools
import json
import time

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit

PACKAGES = ("numpy", "bionetgen==0.8.7")
MODELS = {"multistate": (10.0, 10_000, 1000.0), "multisite2": (0.1, 1000, 20.0), "egfr_net": (0.1, 128, 20.0)}
"""End of the runs, how many of ours, and the end of the peer's long run."""
PEER_RUNS, SAMPLES = 200, 3
FURTHEST = 6.0  # standard errors; of 431 species a right pair of programs passes it once in some million runs


def rows(names: tuple[str, ...] = tuple(MODELS)) -> dict[str, float]:
    """The count of the stochastic suite as it was recorded; the cost of a jump, and over the peer's, by network."""
    recorded = json.loads((_harness.HERE / "sbml_stochastic.json").read_text())
    found: dict[str, float] = {"dsmts_within": len(recorded["right"].split())}
    for name in names:
        path = _harness.HERE / ".models" / f"{name}.net"
        if not path.exists():
            print(f"{path} is not there.")
            continue
        end, runs, long = MODELS[name]
        given = {"path": str(path), "end": end, "runs": PEER_RUNS, "long": long, "samples": SAMPLES}
        theirs, _ = _harness.run_peer("run_network", PACKAGES, "run_network.py", options=given)
        network = simkit.networks.load(path)
        system, times = network.as_jumps(), jnp.array([0.0, end])
        parameter = next(iter(system.parameters))
        over = {parameter: jnp.broadcast_to(system.parameters[parameter], (runs,))}
        run = functools.partial(simkit.ensemble, system, system.start(), times, over=over)
        jax.block_until_ready(run(key=jax.random.key(0)).ys)
        costs = []
        for seed in range(1, SAMPLES + 1):
            begun = time.process_time()
            members = run(key=jax.random.key(seed))
            jax.block_until_ready(members.ys)
            costs.append((time.process_time() - begun) / np.asarray(members.steps, float).sum())
        # The peer's columns are in the order of the file.
        apart = distance(members, theirs["ends"], order_of(path))
        assert apart < FURTHEST, f"{name}: the means differ by {apart:.2f} standard errors"
        ours, peer = min(costs), float(theirs["costs"].min())
        _harness.print_table(
            f"{name}: one jump",
            ["", "CPU, ns"],
            [["run_network", f"{1e9 * peer:.0f}"], ["simkit", f"{1e9 * ours:.0f}"]],
        )
        found |= {f"ssa_{name}_ns": 1e9 * ours, f"ssa_{name}_vs_run_network": ours / peer}
    return found


def order_of(path) -> list[str]:
    """The names of the species of a network file, in its order."""
    text = path.read_text().split("begin species")[1].split("end species")[0]
    return [line.split()[1] for line in text.strip().splitlines()]


def distance(members, ends: np.ndarray, order: list[str]) -> float:
    """The largest difference of means in standard errors."""
    ours = np.stack([np.asarray(members.ys[name][:, -1], float) for name in order], axis=1)
    error = np.sqrt(ours.var(axis=0) / len(ours) + ends.var(axis=0) / len(ends))
    apart = np.abs(ours.mean(axis=0) - ends.mean(axis=0))
    return float(np.max(np.where(error > 0, apart / np.where(error > 0, error, 1), np.where(apart > 0, np.inf, 0))))
