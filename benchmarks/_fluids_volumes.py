"""Finite volumes: incompressible flow beside jax-cfd, the pressure between walls beside cosine transforms, compressible flow."""

from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids
from simkit.fluids.staggered._pressure import FastPoisson
from simkit.fluids.staggered._projection import iterated

JAX_CFD = ["jax-cfd==0.2.1", "numpy"]
VISCOSITY = 1e-3
Rows = dict[str, float]


def incompressible(cells: int = 256, steps: int = 40) -> Rows:
    """CPU seconds of a step of forward Euler with central fluxes, beside jax-cfd's with the same and with its own fluxes."""
    grid = fluids.Grid((cells, cells))
    velocity = fluids.random_velocity(grid, jax.random.key(0), peak=6.0)
    systems = {flux: fluids.IncompressibleFlow(grid, viscosity=VISCOSITY, flux=flux) for flux in ("central", "upwind")}
    y0 = systems["central"].start(velocity)
    step = 2e-3
    times = np.array([0.0, step * steps])
    solver = simkit.solvers.Euler()
    # Its components stand on upper faces, ours on lower ones.
    given = {
        name: np.roll(np.asarray(u), -1, axis) for axis, (name, u) in enumerate(zip("uv", y0.velocity, strict=True))
    }
    rows: Rows = {}
    table = []
    for flux, name in (("central", "finite_volume_vs_jax_cfd"), ("upwind", "finite_volume_upwind_vs_jax_cfd")):
        run = lambda flux=flux: simkit.simulate(systems[flux], y0, times, step=step, solver=solver, on_failure="mark")
        found = {}
        ours, theirs = [], []
        for _ in range(3):
            options = {
                "precision": "float64",
                "viscosity": VISCOSITY,
                "step": step,
                "steps": steps,
                "samples": 5,
                "flux": flux,
            }
            found, _ = _harness.run_peer("jax_cfd", JAX_CFD, "jax_cfd_volumes.py", given, options)
            theirs.append(found["spent"])
            ours.append(_harness.compare({"simkit": run}, samples=5)["simkit"].cpu / steps)
        off = np.abs(np.roll(found["u"], 1, 0) - np.asarray(run().final().velocity[0])).max() / np.abs(found["u"]).max()
        print(f"{cells}^2 {flux}: jax-cfd differs by {off:.1e} of the largest value", flush=True)
        if not off < (1e-6 if flux == "central" else 3e-2):  # the same scheme; another limiter
            raise AssertionError("simkit and jax-cfd do not agree.")
        least = {"simkit": float(np.min(np.concatenate(ours))), "jax-cfd": float(np.min(np.concatenate(theirs)))}
        rows[name] = least["jax-cfd"] / least["simkit"]
        table.append([flux, f"{1e3 * least['simkit']:.3g}", f"{1e3 * least['jax-cfd']:.3g}", f"{rows[name]:.2f}"])
        if flux == "upwind":
            rows["finite_volume_vs_jax_cfd_default"] = least["jax-cfd"] / float(table[0][1]) * 1e3
    _harness.print_table(f"Staggered {cells}^2 float64", ["fluxes", "CPU ms a step", "jax-cfd", "x"], table)
    return rows


def pressure(cells: int = 256) -> Rows:
    """Poisson's equation between four walls, beside jax.scipy's cosine transforms; and iterations with an obstacle."""
    grid = fluids.Grid((cells, cells), 1.0)
    right = jax.random.normal(jax.random.key(0), grid.shape, jnp.float32)
    right = right - right.mean()
    ours = jax.jit(FastPoisson(grid, (True, True)))
    angle = np.pi * np.arange(cells) / cells
    values = (2 * np.cos(angle) - 2) * cells**2
    total = values[:, None] + values[None]
    total[0, 0] = 1
    inverse = jnp.asarray(np.where(total == 1, 0, 1 / total), jnp.float32)

    @jax.jit
    def theirs(right: Any) -> Any:
        return jax.scipy.fft.idctn(jax.scipy.fft.dctn(right, norm="ortho") * inverse, norm="ortho")

    np.testing.assert_allclose(ours(right), theirs(right), atol=1e-5)
    timings = _harness.compare({"dctn": lambda: theirs(right), "simkit": lambda: ours(right)}, samples=30)
    _harness.print_timings(f"Pressure between walls, {cells}^2 float32", timings, reference="dctn")
    disk = fluids.Obstacle(fluids.Disk(jnp.array([0.3, 0.5]), jnp.asarray(0.1)))
    channel = [(fluids.Inflow(jnp.asarray(1.0)), fluids.Outflow()), fluids.FreeSlip()]
    system = fluids.IncompressibleFlow(grid, viscosity=VISCOSITY, boundaries=channel, obstacle=disk)
    y = system.start(lambda x: (jnp.ones_like(x[0]), jnp.zeros_like(x[0])))

    @jax.jit
    def turns(y: Any) -> Any:
        moved = system._moved(system._pushed(0.0, y), y.velocity)
        mobility = system._cut(moved[0].dtype).mobility
        return iterated(system.at, 1e-8, 100, mobility, system.at.divergence(moved)).turns

    rows = {
        "wall_pressure_vs_dctn": timings["dctn"].minimum / timings["simkit"].minimum,
        "obstacle_iterations": int(turns(y)),
    }
    print(f"an obstacle takes {rows['obstacle_iterations']} iterations to 1e-8", flush=True)
    return rows


def compressible(cells: int = 256, steps: int = 20) -> Rows:
    """A Riemann problem in two dimensions, WENO5-Z, HLLC and RK3: milliseconds a step."""
    grid = fluids.Grid((cells, cells), 1.0)
    x, y = grid.mesh()
    corner = lambda a, b, c, d: jnp.asarray(np.where(x > 0.5, np.where(y > 0.5, a, d), np.where(y > 0.5, b, c)))
    velocity = jnp.stack([corner(0, 1.206, 1.206, 0), corner(0, 0, 1.206, 1.206)])
    gas = fluids.CompressibleFlow.State(corner(1.5, 0.5323, 0.138, 0.5323), velocity, corner(1.5, 0.3, 0.029, 0.3))
    rows: Rows = {}
    for dtype in ("float64", "float32"):
        system, start = simkit.cast((fluids.CompressibleFlow(grid, boundaries=fluids.Open()), gas), jnp.dtype(dtype))
        times = np.array([0.0, 2e-4 * steps])
        run = lambda system=system, start=start, times=times: simkit.simulate(
            system, start, times, step=simkit.Fixed(steps), on_failure="mark"
        )
        timing = _harness.compare({"simkit": run}, samples=5)["simkit"]
        rows[f"compressible_{dtype}_ms"] = 1e3 * timing.minimum / steps
        cpu = 1e3 * float(np.min(timing.cpu)) / steps
        print(
            f"compressible {cells}^2 {dtype}: {rows[f'compressible_{dtype}_ms']:.3g} ms a step, {cpu:.3g} of CPU",
            flush=True,
        )
    return rows
