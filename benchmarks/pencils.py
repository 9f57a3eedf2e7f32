"""One grid over four host devices: slabs against 2 x 2 pencils, what a slope sends and how long it takes.

Bytes are those of the collective operations of the compiled program, for each device. Host devices share the cores of the machine
and send by copies in its memory, so that times show what the transpositions and exchanges cost beside the work, no speed-up.
"""

import os
import re
import time

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"

import jax
import numpy as np

from simkit import fluids
from simkit.fluids import Grid

ROUNDS = 15
BYTES = {"f32": 4, "c64": 8}
SENDING = re.compile(r"= (.*?) (all-to-all|collective-permute|all-gather|all-reduce)(?:-start)?\((.*)")


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    print(f"{'':28}{'':>10}{'KiB sent':>12}{'messages':>10}{'ms':>10}")
    for name, build, shape in CASES:
        rows = compared(build, shape)
        for layout, (sent, messages, least) in rows.items():
            print(f"{name:28}{layout:>10}{sent / 1024:12.1f}{messages:10d}{1e3 * least:10.2f}")
            key = f"{name} {layout}".replace(" ", "_").replace("^", "")
            figures |= {f"pencils_{key}_kib": sent / 1024, f"pencils_{key}_ms": 1e3 * least}
    return figures


def compared(build, shape) -> dict[str, tuple[float, int, float]]:
    """Bytes and messages of a device, and the least time of a slope, by how the devices stand."""
    four = np.array(jax.devices())
    placed = {"one": None, "slabs": four, "pencils": four.reshape(2, 2)}
    ready, expected = {}, None
    for layout, devices in placed.items():
        system, start = build(Grid(shape, devices=devices))
        state = system.encode(start)
        slope = jax.jit(lambda y, system=system: system.vector_field(0.0, y, None)).lower(state).compile()
        shown = jax.tree.leaves(system.decode(slope(state)) if isinstance(state, jax.Array) else slope(state))
        expected = shown if expected is None else expected
        for a, b in zip(shown, expected, strict=True):  # single precision
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-4 * float(np.abs(b).max() + 1))
        ready[layout] = slope, state
    least = dict.fromkeys(ready, np.inf)
    for _ in range(ROUNDS):
        for layout, (slope, state) in ready.items():
            begin = time.perf_counter()
            jax.block_until_ready(slope(state))
            least[layout] = min(least[layout], time.perf_counter() - begin)
    return {layout: (*sent(slope.as_text()), least[layout]) for layout, (slope, _) in ready.items()}


def sent(program: str) -> tuple[float, int]:
    """Bytes that leave a device, and to how many others in sum."""
    total, messages = 0.0, 0
    for shapes, kind, rest in SENDING.findall(program):
        parts = re.findall(r"(f32|c64)\[([\d,]*)\]", shapes)
        size = sum(BYTES[t] * int(np.prod([int(n) for n in dims.split(",") if n], initial=1)) for t, dims in parts)
        group = re.search(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\])", rest)
        count = 2 if group is None else len(group[1].split(",")) if group[1] else int(group[2])
        total += size if kind == "collective-permute" else size * (count - 1) / count
        messages += 1 if kind == "collective-permute" else count - 1
    return total, messages


def plane(grid):
    plain = Grid(grid.shape)
    start = fluids.vorticity(plain, fluids.random_velocity(plain, jax.random.key(0), peak=4.0))
    return fluids.SpectralFlow2D(grid, viscosity=1e-3), fluids.SpectralFlow2D.State(start)


def space(grid):
    start = fluids.taylor_green(Grid(grid.shape))
    return fluids.SpectralFlow3D(grid, viscosity=1e-3), fluids.SpectralFlow3D.State(start)


def gas(grid):
    x, *_ = Grid(grid.shape).mesh()
    ones = np.ones(grid.shape, np.float32)
    bump = (1 + 0.1 * np.sin(x)).astype(np.float32)
    wind = np.zeros((grid.dimensions, *grid.shape), np.float32)
    system = fluids.CompressibleFlow(grid)
    return system, system.State(bump, wind, ones)


def incompressible(grid):
    velocity = fluids.random_velocity(Grid(grid.shape), jax.random.key(0), peak=4.0)
    system = fluids.IncompressibleFlow(grid, viscosity=1e-3)
    return system, fluids.IncompressibleFlow(Grid(grid.shape), viscosity=1e-3).start(velocity)


CASES = [
    ("spectral flow 256^2", plane, (256, 256)),
    ("spectral flow 64^3", space, (64, 64, 64)),
    ("gas 256^2", gas, (256, 256)),
    ("gas 48^3", gas, (48, 48, 48)),
    ("incompressible flow 256^2", incompressible, (256, 256)),
    ("incompressible flow 48^3", incompressible, (48, 48, 48)),
]
