"""Figures of flows for the page of validation."""

import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

import simkit
from simkit import fluids
from simkit.viz._style import Drawing, color, few_ticks, new_figure, styled

INK = "#222222"
OURS = {"color": INK, "linewidth": 1.2}


@styled
def cavity() -> tuple[Drawing, dict[str, float]]:
    """Velocities through the middle of a cavity with a moving lid, and the table of Ghia, Ghia and Shin (1982)."""
    from validation.test_fluids_walls import GHIA_U, GHIA_V, GHIA_X, GHIA_Y

    n = 64
    lid = fluids.NoSlip(jnp.array([1.0, 0.0]))
    grid = fluids.Grid((n, n), 1.0)
    system = fluids.IncompressibleFlow(grid, viscosity=0.01, boundaries=[fluids.NoSlip(), (fluids.NoSlip(), lid)])
    run = simkit.simulate(system, system.start(), [0.0, 20.0], step=simkit.Courant(0.9))
    u, v = (np.asarray(x[-1]) for x in run.ys.velocity)
    places = np.concatenate([[0.0], (np.arange(n) + 0.5) / n, [1.0]])
    along, across = np.array([0.0, *u[n // 2], 1.0]), np.array([0.0, *v[:, n // 2], 0.0])
    figure = new_figure(7.0, 2.8)
    left, right = figure.subplots(1, 2)
    left.plot(along, places, **OURS, label="simkit, 64 cells")
    left.plot(GHIA_U, GHIA_Y, "o", color=color(1), label="Ghia, Ghia and Shin")
    left.set(xlabel="velocity along the lid", ylabel="height")
    left.legend()
    right.plot(places, across, **OURS)
    right.plot(GHIA_X, GHIA_V, "o", color=color(1))
    right.set(xlabel="place along the lid", ylabel="velocity across")
    gaps = [CubicSpline(places, along)(GHIA_Y) - GHIA_U, CubicSpline(places, across)(GHIA_X) - GHIA_V]
    return figure, {"largest difference": float(np.abs(gaps).max())}


@styled
def starting() -> tuple[Drawing, dict[str, float]]:
    """Flow between plates that a force sets in motion, and one that a plate drags along: exact series."""
    figure = new_figure(7.0, 2.8)
    gaps = {}
    for axes, (name, times, draw) in zip(
        figure.subplots(1, 2),
        [("Poiseuille", (0.1, 0.4, 1.0), _poiseuille), ("Couette", (0.2, 0.5, 1.0, 3.0), _couette)],
        strict=True,
    ):
        y, rows, exact = draw(np.array([0.0, *times]))
        for k, t in enumerate(times):
            axes.plot(exact[k], y, **OURS, label="exact series" if not k else None)
            axes.plot(rows[k][::3], y[::3], "o", color=color(k), markersize=3, label=f"t = {t:g}")
        axes.set(xlabel="velocity", ylabel="place between the plates", title=name, xlim=(-0.02, 1.02))
        axes.legend(loc="lower right" if name == "Couette" else "upper right")
        gaps[name] = float(np.abs(rows - exact).max())
    return figure, gaps


def _poiseuille(times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    viscosity, push = 0.5, 1.0
    grid = fluids.Grid((4, 64), (0.25, 2.0), origin=(0.0, -1.0))
    walls = [fluids.Periodic(), fluids.NoSlip()]
    force = jnp.array([push, 0.0])
    system = fluids.IncompressibleFlow(grid, viscosity=viscosity, boundaries=walls, force=force)
    run = simkit.simulate(system, system.start(), times, step=simkit.Courant(0.9))
    y, n = grid.centres(1), np.arange(200)[:, None]
    k, sign = (n + 0.5) * np.pi, (-1.0) ** n
    series = [np.sum(2 * sign / k**3 * np.cos(k * y) * np.exp(-viscosity * k**2 * t), axis=0) for t in times[1:]]
    exact = push / viscosity * ((1 - y**2) / 2 - np.array(series))
    return y, np.asarray(run.ys.velocity[0])[1:, 0], exact


def _couette(times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    viscosity, grid = 0.1, fluids.Grid((2, 48), (1.0, 1.0))
    walls = [fluids.Periodic(), (fluids.NoSlip(), fluids.NoSlip(jnp.array([1.0, 0.0])))]
    system = fluids.IncompressibleFlow(grid, viscosity=viscosity, boundaries=walls)
    run = simkit.simulate(system, system.start(), times, step=simkit.Courant(0.9))
    y, n = grid.centres(1), np.arange(1, 200)[:, None]
    wave = 2 / (np.pi * n) * (-1.0) ** n * np.sin(n * np.pi * y)
    series = [np.sum(wave * np.exp(-viscosity * (n * np.pi) ** 2 * t), axis=0) for t in times[1:]]
    return y, np.asarray(run.ys.velocity[0])[1:, 0], y + np.array(series)


@styled
def riemann() -> tuple[Drawing, dict[str, float]]:
    """Sod's tube and Stoker's dam break, 200 cells, beside the exact solutions of their Riemann problems."""
    from tests.fluids.exact import dam_break, gas_tube

    grid = fluids.Grid(200, 1.0)
    left = jnp.asarray(grid.centres(0)) < 0.5
    pick = lambda a, b: jnp.where(left, a, b)
    gas = fluids.CompressibleFlow.State(pick(1.0, 0.125), jnp.zeros((1, 200)), pick(1.0, 0.1))
    tube = fluids.CompressibleFlow(grid, boundaries=fluids.Open())
    run = simkit.simulate(tube, gas, [0.0, 0.2], step=simkit.Courant(0.5))
    x = grid.centres(0)
    exact, _ = gas_tube((1.0, 0.0, 1.0), (0.125, 0.0, 0.1), 1.4, (x - 0.5) / 0.2)
    end = run.final()
    panels = [("density", end.density, exact[0]), ("pressure", end.pressure, exact[2])]
    dam = fluids.Grid(200, 10.0, origin=-5.0)
    height = jnp.where(jnp.asarray(dam.centres(0)) < 0, 1.0, 0.1)
    shallow = fluids.ShallowWater(dam, boundaries=fluids.Open())
    water = simkit.simulate(
        shallow, fluids.ShallowWater.State(height, jnp.zeros((1, 200))), [0.0, 1.0], step=simkit.Courant(0.5)
    ).final()
    broken, _ = dam_break(1.0, 0.1, 9.81, dam.centres(0))
    figure = new_figure(7.0, 2.5)
    axes = figure.subplots(1, 3)
    for ax, (name, values, truth) in zip(axes, panels, strict=False):
        _beside(ax, x, np.asarray(values), truth)
        ax.set(xlabel="place", ylabel=name, title="Sod's tube, t = 0.2")
    _beside(axes[2], dam.centres(0), np.asarray(water.height), broken[0])
    axes[2].set(xlabel="place [m]", ylabel="height [m]", title="Stoker's dam, 1 s")
    axes[0].legend()
    return figure, {
        f"mean error of {name}": float(np.abs(np.asarray(values) - truth).mean())
        for name, values, truth in [*panels, ("height", water.height, broken[0])]
    }


def _beside(axes, x, values, truth) -> None:
    axes.plot(x, truth, color=color(1), label="exact")
    axes.plot(x[::3], values[::3], "o", color=INK, markersize=2, label="simkit")


@styled
def waves() -> tuple[Drawing, dict[str, float]]:
    """Burgers' equation by Cole and Hopf, and two solitons of Korteweg and de Vries that pass each other."""
    from tests.fluids.exact import two_solitons

    figure = new_figure(7.0, 2.6)
    left, right = figure.subplots(1, 2)
    grid, viscosity = fluids.Grid(256), 0.05
    x = grid.mesh()[0]

    def steepened(t):
        parts = [(1.0, 0, 0.0), (0.5, 1, 0.3), (0.2, 2, 1.1)]
        phi = sum(a * np.exp(-viscosity * k**2 * t) * np.cos(k * x + p) for a, k, p in parts)
        slope = sum(-a * k * np.exp(-viscosity * k**2 * t) * np.sin(k * x + p) for a, k, p in parts)
        return -2 * viscosity * slope / phi

    times = [0.0, 2.0, 8.0]
    run = simkit.simulate(
        fluids.Burgers(grid, viscosity=viscosity), fluids.Burgers.State(steepened(0.0)), times, step=0.01
    )
    gaps = {"Burgers": _over_time(left, x, times, run.ys.u, steepened)}
    left.set(xlabel="place", ylabel="u", title="Burgers: Cole and Hopf")
    grid = fluids.Grid(384, lengths=60.0)
    x = grid.mesh()[0]
    times = [0.0, 8.0, 16.0]
    pass_by = lambda t: two_solitons(x - 30.0, t - 8.0)
    run = simkit.simulate(fluids.KortewegDeVries(grid), fluids.Burgers.State(pass_by(0.0)), times, step=1e-3)
    gaps["Korteweg and de Vries"] = _over_time(right, x, times, run.ys.u, pass_by)
    right.set(xlabel="place", title="Korteweg and de Vries: two solitons")
    for axes in (left, right):
        few_ticks(axes, 5, 5)
        axes.legend()
    return figure, gaps


def _over_time(axes, x, times, rows, exact) -> float:
    every, gap = max(1, len(x) // 48), 0.0
    for k, (t, row) in enumerate(zip(times, rows, strict=True)):
        truth = exact(t)
        axes.plot(x, truth, **OURS, label=None if k else "exact")
        axes.plot(x[::every], np.asarray(row)[::every], "o", color=color(k), markersize=3, label=f"t = {t:g}")
        gap = max(gap, float(np.abs(np.asarray(row) - truth).max()))
    return gap
