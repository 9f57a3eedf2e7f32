"""Flows between plane walls: how far onsets, a growth rate and a heat flux lie from published ones, and what a step costs."""

from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np

import simkit
from simkit import fluids

FIXED = (fluids.Dirichlet(jnp.asarray(1.0)), fluids.Dirichlet(jnp.asarray(0.0)))
FLUX = (fluids.Neumann(jnp.asarray(1.0)), fluids.Neumann(jnp.asarray(-1.0)))
RIGID, FREE = fluids.NoSlip(), fluids.FreeSlip()
ONSETS: dict[str, tuple[float, float, Any, Any, float, float]] = {
    "free": (27 * np.pi**4 / 4, np.pi / np.sqrt(2), FREE, FIXED, 1.0, 0.01),
    "rigid": (1707.762, 3.117, RIGID, FIXED, 1.0, 0.01),
    "rigid_free": (1100.65, 2.682, (RIGID, FREE), FIXED, 1.0, 0.01),
    "flux": (720.0, 0.01, RIGID, FLUX, 40.0, 0.1),
}
Rows = dict[str, float]


def convection(rayleigh: Any, wavenumber: float, shape: tuple[int, ...], **given: Any) -> fluids.PlaneLayerFlow:
    """A flow by the depth and the diffusion time."""
    prandtl, ends = given.pop("prandtl", 1.0), given.pop("ends", FIXED)
    layer = fluids.PlaneLayer(shape, (*[2 * np.pi / wavenumber] * (len(shape) - 1), 1.0))
    heat = fluids.LayerScalar(1.0, buoyancy=rayleigh * prandtl, walls=ends)
    return fluids.PlaneLayerFlow(layer, viscosity=prandtl, scalars={"temperature": heat}, **given)


def onsets() -> Rows:
    """Relative errors of critical Rayleigh numbers, by Newton's method on the growth rate of a simulation."""
    rows: Rows = {}
    for name, (exact, wavenumber, walls, ends, span, step) in ONSETS.items():

        def growth(rayleigh: Any, of: Any = (wavenumber, walls, ends, span, step)) -> Any:
            wavenumber, walls, ends, span, step = of
            system = convection(rayleigh, wavenumber, (4, 25), walls=walls, ends=ends)
            start = system.start(key=jax.random.key(1), noise=1e-9)
            run = simkit.simulate(system, start, [0.0, span, 2 * span], step=step, on_failure="mark")
            size = jnp.sum(run.ys.velocity[:, 1] ** 2, axis=(1, 2))
            return 0.5 * jnp.log(size[2] / size[1]) / span

        both, rayleigh = jax.jit(jax.value_and_grad(growth)), jnp.asarray(1.03 * exact, jnp.float64)
        for _ in range(3):
            value, slope = both(rayleigh)
            rayleigh = rayleigh - value / slope
        rows[f"layer_onset_{name}_error"] = abs(float(rayleigh) / exact - 1)
    return rows


def poiseuille() -> Rows:
    """The error of the speed and growth of a wave of plane Poiseuille flow, Re = 10,000 and alpha = 1 (Orszag 1971)."""
    layer = fluids.PlaneLayer((4, 97), (2 * np.pi, 2.0))
    system = fluids.PlaneLayerFlow(layer, viscosity=1e-4, force=2e-4)
    start = system.start(key=jax.random.key(1), noise=1e-9)
    run = simkit.simulate(system, start, [0.0, 400.0, 410.0], step=0.1)
    waves = np.fft.fft(np.asarray(run.ys.velocity[1:, 1]), axis=1)[:, 1]
    speed = 1j * np.log(np.sum(waves[1] * waves[0].conj()) / np.sum(np.abs(waves[0]) ** 2)) / 10.0
    return {"layer_orszag_error": float(abs(speed - (0.23752649 + 0.00373967j)))}


def rolls() -> Rows:
    """The Nusselt number of steady rolls over that of Clever and Busse (1974), and how far dissipation says another one."""
    system = convection(5000.0, 3.117, (32, 49), prandtl=0.71)
    end = simkit.simulate(system, system.start(key=jax.random.key(0), noise=0.3), [0.0, 6.0], step=0.005).final()
    found = system.outputs(0.0, end, None)
    flux = float(found["nusselt_temperature"][0])
    budget = 1 + float(found["dissipation"]) / (5000.0 * 0.71)
    return {"layer_nusselt_vs_published": flux / 2.116, "layer_nusselt_budget_error": abs(budget / flux - 1)}


def steps() -> Rows:
    """Milliseconds of a step of `ETDRK4`, four evaluations, in float64 and float32."""
    rows: Rows = {}
    for name, shape in {"2d_128x65": (128, 65), "3d_32x32x33": (32, 32, 33)}.items():
        for dtype in ("float64", "float32"):
            system = convection(1e5, 3.117, shape)
            start = system.start(key=jax.random.key(0), noise=1e-2)
            system, start = simkit.cast((system, start), jnp.dtype(dtype))
            times = np.array([0.0, 2e-3], dtype)
            run = lambda system=system, start=start, times=times: simkit.simulate(
                system, start, times, step=simkit.Fixed(20), on_failure="mark"
            )
            timing = _harness.compare({name: run}, samples=7)[name]
            rows[f"layer_{name}_{dtype}_ms"] = 1e3 * timing.minimum / 20
    return rows


def layers() -> Rows:
    """All rows of flows between plane walls."""
    rows = {**onsets(), **poiseuille(), **rolls(), **steps()}
    _harness.print_table("Flows between plane walls", ["", "found"], [[name, f"{x:.4g}"] for name, x in rows.items()])
    return rows
