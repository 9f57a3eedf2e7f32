"""Programs for a GPU, compiled where there is none: how long that takes, and how many kernels and waits of the host a step costs.

It needs JAX with CUDA (`pip install "jax[cuda13]"`), no driver and no device: XLA compiles for the description of an H100. Of each
loop of the optimised program it prints the operations that are started one by one. A `conditional` or a `while` among them makes
the host wait for the device, some ten microseconds each; a `fusion` is a kernel of some three. The programs are those of
`accelerator.py`.

Run: `JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 python benchmarks/run.py gpu_program`. Some: `ROWS=md`, of ensembles, fallback and md.
"""

import collections
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import _ensemble_problems as problems
import jax
import jax.numpy as jnp
import md as particles
import numpy as np
from jax._src import xla_bridge  # there is no other way to the plugin without a device
from jax._src.mesh import AbstractDevice
from jax.experimental import topologies

import simkit
from simkit import md as molecules
from simkit.engine.kernels._mode import forced

KIND = "NVIDIA H100 80GB HBM3"
TARGET = f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84978434048 shared_memory_per_block_optin: 232448 registers_per_core_limit: 65536
  registers_per_block_limit: 65536 cuda_compute_capability {{ major: 9 minor: 0 }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{KIND}"
"""
STARTED = ("fusion", "custom-call", "while", "conditional", "sort", "copy", "scatter", "gather", "fft", "dot")
Rows = dict[str, float]


def device() -> Any:
    """A device that programs are compiled for."""
    with contextlib.suppress(Exception):
        xla_bridge.discover_pjrt_plugins()
    return topologies.get_topology_desc("H100", platform="cuda", target_config=TARGET, topology="1x1x1").devices[0]


@contextlib.contextmanager
def as_on_gpu() -> Iterator[None]:
    """Take the ways of a GPU while tracing."""
    described = AbstractDevice(device_kind=KIND, num_cores=None, platform="gpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=described)
    with mock.patch.object(jax, "default_backend", return_value="gpu"), jax.sharding.use_abstract_mesh(mesh):
        yield


def compiled(name: str, function: Callable[..., Any], *arguments: Any, device: Any) -> tuple[Rows, str]:
    """Seconds of compilation, and the optimised program."""
    place = jax.sharding.SingleDeviceSharding(device)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), arguments)
    began = time.perf_counter()
    with as_on_gpu():
        lowered = jax.jit(function).trace(*shapes).lower(lowering_platforms=("cuda",))
    between = time.perf_counter()
    text = lowered.compile().as_text() or ""
    spent = time.perf_counter() - between
    print(f"{name}: traced in {between - began:.1f} s, compiled in {spent:.1f} s", flush=True)
    return {f"{name}_compile_s": spent}, text


def started(text: str) -> dict[str, collections.Counter[str]]:
    """Operations that are started one by one, by computation."""
    found: dict[str, collections.Counter[str]] = {}
    name = ""
    for line in text.splitlines():
        begin = re.match(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line)
        if begin:
            name = begin.group(1)
        operation = re.match(rf"\s+(?:ROOT )?%?[\w.\-]+ = .*? ({'|'.join(STARTED)})\(", line)
        if operation and not re.match("fused|wrapped|gemm", name):
            found.setdefault(name, collections.Counter())[operation.group(1)] += 1
    return found


def show(text: str) -> None:
    rows = sorted(started(text).items(), key=lambda item: -item[1].total())
    for name, counts in [row for row in rows if row[1].total() > 2][:6]:
        print(f"    {name}: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()), flush=True)


def ensembles(device: Any) -> Rows:
    rows: Rows = {}
    with forced("triton"):
        for case in (problems.lorenz(), problems.robertson()):
            over = {path: jnp.asarray(values) for path, values in case.over.items()}
            states, loss = solves(case)
            for label, function in (("solve", states), ("gradient", jax.grad(loss))):
                rows |= compiled(f"{case.name}_{label}", function, over, device=device)[0]
    return rows


def solves(case: problems.Case) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    step = simkit.Adaptive(case.rtol, case.atol)

    def states(over: Any) -> Any:
        return simkit.ensemble(case.system, case.start, case.times(2), over=over, solver=case.solver, step=step).ys

    return states, lambda over: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(states(over)))


def fallback(device: Any) -> Rows:
    case = problems.lorenz()
    over = {path: jnp.asarray(values) for path, values in case.over.items()}
    with forced("off"):
        rows, text = compiled("without_kernel", solves(case)[0], over, device=device)
    show(text)
    return rows


def md(device: Any) -> Rows:
    rows: Rows = {}
    for cells in (10, 20):
        start = molecules.crystal("fcc", (4 / particles.DENSITY) ** (1 / 3), (cells,) * 3)
        position = np.asarray(start.position) + 0.05 * np.random.default_rng(0).normal(size=start.position.shape)
        y0 = particles.as_type(molecules.Atoms(jnp.asarray(position), jnp.zeros_like(start.position)), "float32")
        system = particles.as_type(molecules.Particles(molecules.LennardJones(), start.space), "float32")
        with mock.patch.object(jax, "default_backend", return_value="gpu"):
            system = system.prepared(y0)
        leaves, structure = jax.tree.flatten((system, y0))
        places = [i for i, x in enumerate(leaves) if hasattr(x, "shape")]

        def run(arrays: Any, leaves: Any = leaves, places: Any = places, structure: Any = structure) -> Any:
            held = list(leaves)
            for i, x in zip(places, arrays, strict=True):
                held[i] = x
            system, y0 = jax.tree.unflatten(structure, held)
            return simkit.simulate(system, y0, np.array([0.0, 0.5]), step=particles.H).ys

        found, text = compiled(f"md_{len(position)}", run, [leaves[i] for i in places], device=device)
        rows |= found
        show(text)
    return rows


ROWS = {"ensembles": ensembles, "fallback": fallback, "md": md}


def main() -> Rows:
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    place = device()
    found: Rows = {}
    for name in [name for name in os.environ.get("ROWS", "").split(",") if name] or list(ROWS):
        print(f"\n== {name}", flush=True)
        found |= ROWS[name](place)
    return found
