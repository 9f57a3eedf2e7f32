"""Rows of `accelerator.py` for kernels: beside a kernel written by hand, by a compiler of the machine, and beside XLA."""

import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import _ensemble_problems as problems
import _harness
import _predators
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import Adaptive, odes
from simkit.engine.kernels._mode import forced, mode
from simkit.solvers import EulerMaruyama, Tsit5

Rows = dict[str, float]
STEPS, STEP = 1000, 0.001


def least(function: Callable[[], Any], samples: int = 5) -> float:
    return float(np.min(_harness.compare({"simkit": function}, samples=samples)["simkit"].wall))


def large() -> bool:
    """Tell whether the machine is one that the sizes are meant for; on a processor they are a thousand times smaller."""
    return jax.default_backend() != "cpu"


def by_hand(members: int) -> tuple[float, list[float]] | None:
    """Seconds and end of one member by `peers/lorenz.cu`; None without a compiler for it."""
    compiler = shutil.which("nvcc")
    if compiler is None or not large():
        return None
    source = pathlib.Path(__file__).parent / "peers" / "lorenz.cu"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "lorenz"
        subprocess.run([compiler, "-O3", "-o", program, source], check=True)
        done = subprocess.run(
            [program, str(members), str(STEPS), str(STEP)], check=True, capture_output=True, text=True
        )
    spent, *end = map(float, done.stdout.split())
    return 1e-3 * spent, end


def fixed() -> Rows:
    """Lorenz systems with 1,000 fixed steps of Tsit5 in single precision, the contest of Utkarsh et al. (2024)."""
    members = 2**23 if large() else 2**13
    case = problems.lorenz()
    system, start = simkit.cast((case.system, case.start), jnp.float32)
    over = {"rayleigh": jnp.linspace(0.0, 21.0, members, dtype=jnp.float32)}
    times = np.array([0.0, STEPS * STEP], np.float32)
    run = jax.jit(lambda over: simkit.ensemble(system, start, times, over=over, solver=Tsit5(), step=STEP).ys)
    end = [float(leaf[members // 10, -1]) for leaf in jax.tree.leaves(run(over))]
    spent = least(lambda: run(over))
    rows = {"lorenz_fixed_ms": 1e3 * spent}
    line = f"{members} Lorenz systems, {STEPS} steps: simkit {1e3 * spent:.4g} ms"
    hand = by_hand(members)
    if hand is not None:
        if not np.allclose(end, hand[1], rtol=1e-4):
            raise AssertionError(f"simkit ends in {end}, the kernel in CUDA in {hand[1]}.")
        line += f", a kernel in CUDA {1e3 * hand[0]:.4g} ({spent / hand[0]:.2f}x)"
        rows["lorenz_fixed_vs_cuda"] = hand[0] / spent
    print(line, flush=True)
    return rows


def adaptive() -> Rows:
    """A million members with adaptive steps, by a kernel and by XLA's programs, and what a gradient costs."""
    rows: Rows = {}
    for case in (problems.lorenz(), problems.lotka_volterra(), problems.robertson()):
        rows |= million(case)
    return rows


def million(case: problems.Case) -> Rows:
    members = 1_000_000 if large() else 2_000
    step = Adaptive(case.rtol, case.atol, max_steps=100_000)
    over = {path: jnp.asarray(np.resize(values, members)) for path, values in case.over.items()}

    def states(over: Any) -> Any:
        return simkit.ensemble(case.system, case.start, case.times(2), over=over, solver=case.solver, step=step).ys

    def loss(over: Any) -> Any:
        return sum(jnp.sum(leaf[:, 1:] ** 2) for leaf in jax.tree.leaves(states(over)))

    run, slope = jax.jit(states), jax.jit(jax.grad(loss))
    spent, backward = least(lambda: run(over)), least(lambda: slope(over), 3)
    rows = {f"{case.name}_1e6_ms": 1e3 * spent, f"{case.name}_1e6_gradient_vs_forward": backward / spent}
    line = f"{case.name}, {members} members: {1e3 * spent:.4g} ms, a gradient {backward / spent:.2f} times that"
    if mode() == "triton" and case.name == "lorenz":
        with forced("off"):
            plain = jax.jit(states)
            slow = least(lambda: plain(over), 1)
        rows[f"{case.name}_1e6_vs_xla"] = slow / spent
        line += f"; XLA's programs {1e3 * slow:.4g} ms ({slow / spent:.0f}x)"
    print(line, flush=True)
    return rows


def stochastic() -> Rows:
    """Geometric Brownian motion, 20,000 and a million paths of 100 steps, beside a bare scan."""
    rows: Rows = {}
    for paths in (20_000, 1_000_000) if large() else (20_000,):
        rows |= brownian(paths)
    return rows


def brownian(paths: int) -> Rows:
    system, y0, _, _ = odes.GeometricBrownianMotion.example()
    key, volatility, times = jax.random.key(0), jnp.full(paths, 0.2), np.array([0.0, 1.0])

    def ours(key: Any, volatility: Any) -> Any:
        over = {"volatility": volatility}
        run = simkit.ensemble(system, y0, times, over=over, solver=EulerMaruyama(), step=0.01, key=key)
        return jax.tree.leaves(run.ys)[0][:, -1]

    def bare(key: Any, volatility: Any) -> Any:
        h = 0.01

        def step(carry: Any, _: None) -> Any:
            key, y = carry
            key, own = jax.random.split(key)
            noise = jnp.sqrt(h) * jax.random.normal(own, (paths,))
            return (key, y + system.growth * y * h + volatility * y * noise), None

        return jax.lax.scan(step, (key, jnp.ones(paths)), None, length=100)[0][1]

    ours, bare = jax.jit(ours), jax.jit(bare)
    for function in (ours, bare):
        found = np.log(np.asarray(function(key, volatility)))
        if not abs(found.std() / 0.2 - 1) < 5 / np.sqrt(2 * paths) + 0.01:  # the second is the error of so long steps
            raise AssertionError(f"The logarithms of paths vary by {found.std()}.")
    timings = _harness.compare({"simkit": lambda: ours(key, volatility), "scan": lambda: bare(key, volatility)})
    spent = {name: float(np.min(timing.wall)) for name, timing in timings.items()}
    print(f"{paths} paths: simkit {1e3 * spent['simkit']:.4g} ms, a scan {1e3 * spent['scan']:.4g} ms", flush=True)
    return {f"gbm_{paths}_vs_scan": spent["scan"] / spent["simkit"]}


def fits() -> Rows:
    """A fit from 64 starts and NUTS in four chains: wall seconds of a first call, with compilation, and of a second."""
    problem = _predators.problem(np.linspace(0.5, 10.0, 20))
    rows: Rows = {}
    for name, function in (
        ("fit", lambda: simkit.fit(problem, starts=64, key=jax.random.key(1)).thetas),
        ("nuts", lambda: simkit.sample(problem, draws=200, warmup=200, chains=4, key=jax.random.key(2)).draws),
    ):
        first, again = _wall(function), _wall(function)
        rows |= {f"{name}_first_s": first, f"{name}_s": again}
        print(f"{name}: {first:.3g} s, again {again:.3g} s", flush=True)
    return rows


def _wall(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began
