"""Rows of state assimilation: Lorenz-96 with 40 places, all observed with errors of 1, beside DAPPER.

Settings are those of Sakov and Oke (2008, Tellus A 60:361) and of Bocquet and Sakov (2013), as DAPPER lists them in
`mods/Lorenz96/sakov2008.py` with the errors that they should give (PUBLISHED). Both programs assimilate the same truth and the
same observations first, and their errors must agree within 6 standard errors of their difference; then ours runs over more seeds.
Steps are RK4 of 0.05 in both. The error of a run is the mean over time of the root mean square over places, without the first 20
units of time; a run whose error passes 1 has lost the truth, and is counted apart. CPU seconds are those of one process.

DAPPER 1.7.1's `Var4D` calls an operator of observations twice; the peer's script mends that. Its list names covariances of
0.2, 0.1 and 0.02 of the climate's, with which neither program gives the listed errors; a tenth does for a window of 1.

SEEDS and CYCLES set how much of ours is run.
"""

import os
import time

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit.assimilation import ETKF, LETKF, EnKF, FourDVar, Localisation, Observations, members_around
from simkit.odes import Lorenz96

PACKAGES = ("dapper==1.7.1",)
SEEDS, CYCLES = int(os.environ.get("SEEDS", "8")), int(os.environ.get("CYCLES", "4000"))
PEER_SEEDS, PEER_CYCLES = 3, 1000
SETTLING, LOST, FURTHEST = 20.0, 1.0, 6.0
PUBLISHED = {"enkf": 0.22, "etkf": 0.18, "letkf": 0.22, "4dvar1": 0.46, "4dvar2": 0.39, "4dvar4": 0.37}
INTERVAL = {"enkf": 0.05, "etkf": 0.05, "letkf": 0.05, "4dvar1": 0.2, "4dvar2": 0.2, "4dvar4": 0.2}
SHARE = {"4dvar1": 0.02, "4dvar2": 0.01, "4dvar4": 0.002}
MEMBERS = {"enkf": 40, "etkf": 24, "letkf": 7}
START = np.zeros(40)
START[0] = 1.0


def twin(seed: int, interval: float, cycles: int) -> dict[str, np.ndarray]:
    """A truth from a start near `START`, at all steps, and its observations."""
    random = np.random.default_rng(seed)
    start = Lorenz96.State(x=jnp.asarray(START + 0.001**0.5 * random.normal(size=40)))
    grid = 0.05 * np.arange(round(interval / 0.05) * cycles + 1)
    states = np.asarray(simkit.simulate(Lorenz96(), start, grid, step=0.05, solver="rk4").ys.x)
    truth = states[round(interval / 0.05) :: round(interval / 0.05)]
    return {"states": states, "truth": truth, "observed": truth + random.normal(size=truth.shape)}


def method_of(name: str, states: np.ndarray):
    """The method of a row; the climate's covariance is that of the truth, as in the peer."""
    if name == "enkf":
        return EnKF(1.06)
    if name == "etkf":
        return ETKF(1.02, rotation=True)
    if name == "letkf":
        return LETKF(Localisation(4.0, places=np.arange(40.0), period=40), 1.04, rotation=True)
    return FourDVar(SHARE[name] * np.cov(states.T), window=int(name[-1]), shift=1, iterations=10)


def run(name: str, data: dict[str, np.ndarray], seed: int) -> tuple[float, float]:
    """Error and CPU seconds a cycle of one run."""
    times = INTERVAL[name] * np.arange(1, len(data["truth"]) + 1)
    seen = Observations(times, {"x": data["observed"]}, errors=1.0, start=0.0)
    start = Lorenz96.State(x=jnp.asarray(START))
    if name in MEMBERS:
        start = members_around(start, MEMBERS[name], key=jax.random.key(seed), deviation=0.001**0.5)
    begun = time.process_time()
    found = simkit.assimilate(
        Lorenz96(),
        start,
        seen,
        method=method_of(name, data["states"]),
        step=0.05,
        solver="rk4",
        key=jax.random.key(1000 + seed),
        truth=Lorenz96.State(x=jnp.asarray(data["truth"])),
    )
    jax.block_until_ready(found.error)
    cost = (time.process_time() - begun) / times.size
    return float(np.asarray(found.error)[times > SETTLING].mean()), cost


def rows(names: tuple[str, ...] = tuple(PUBLISHED)) -> dict[str, float]:
    """Errors of ours, and how many times the peer's CPU seconds are ours."""
    simkit.enable_x64()
    figures: dict[str, float] = {}
    table: list[list[str]] = []
    for name in names:
        data = [twin(seed, INTERVAL[name], PEER_CYCLES) for seed in range(PEER_SEEDS)]
        arrays = {key: np.stack([each[key] for each in data]) for key in data[0]}
        options = {"method": name, "interval": INTERVAL[name], "settling": SETTLING, "share": SHARE.get(name, 0.0)}
        theirs, _ = _harness.run_peer("dapper", PACKAGES, "dapper_lorenz96.py", arrays, options)
        run(name, data[0], 0)
        ours, costs = np.array([run(name, each, seed) for seed, each in enumerate(data)]).T
        both = (ours < LOST) & (theirs["errors"] < LOST)
        apart = ours[both] - theirs["errors"][both]
        # Filters draw numbers of their own: their errors differ by some 0.01 over 30 units of time.
        allowed = FURTHEST * max(0.01 / np.sqrt(max(both.sum(), 1)), apart.std() / np.sqrt(max(both.sum(), 1)))
        assert not both.any() or abs(apart.mean()) < allowed, f"{name}: {ours} and {theirs['errors']} do not agree"
        cycles = CYCLES if name in MEMBERS else CYCLES // 4
        longer = np.array([run(name, twin(100 + seed, INTERVAL[name], cycles), seed)[0] for seed in range(SEEDS)])
        kept = longer[longer < LOST]
        mean, deviation = kept.mean(), kept.std(ddof=1) / np.sqrt(kept.size)
        speed = theirs["costs"].min() / costs.min()
        errors = [f"{mean:.4f}", f"{deviation:.4f}", f"{PUBLISHED[name]}", str(longer.size - kept.size)]
        same = [f"{ours[both].mean():.3f}", f"{theirs['errors'][both].mean():.3f}"]
        table.append(
            [name, *errors, *same, f"{1e3 * costs.min():.3f}", f"{1e3 * theirs['costs'].min():.3f}", f"{speed:.1f}"]
        )
        figures |= {f"lorenz96_{name}_rmse": float(mean), f"lorenz96_{name}_speed": float(speed)}
    head = ["", "error", "of its mean", "listed", "lost", "same data: ours", "DAPPER", "ms a cycle", "DAPPER", "ratio"]
    _harness.print_table(f"Lorenz-96, {SEEDS} runs of {CYCLES} cycles (4D-Var a quarter)", head, table)
    return figures
