"""Rows of unknown fields: a vorticity of 64 x 64 from a tenth of noisy pixels at five later times, and an array of 10^5 unknowns.

The truth is a draw of the prior; over the time that is looked at the flow turns over about half a time, and each pixel has an error
of a fifth of the vorticity's standard deviation. L-BFGS and Gauss-Newton with conjugate gradients go to a gradient of 1e-6 of the
first; the cost is the CPU time of the second call, without compilation, over that of one simulation with its log density. Each is
measured with a problem of half as many cells an axis and longer steps, whose own fit counts in, and on the fine grid alone.
Intervals of 90 % are those of the low-rank normal approximation, by MODES directions; their coverage is the share of pixels.
"""

from typing import Any

import _harness
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import simkit
from simkit import fields, fluids

TIME, ERROR, SHARE, MODES = 1.0, 0.6, 0.1, 300
STEPS = {32: 0.05, 64: 0.02, 128: 0.01}
WIDE, CALLS = 317, 7


def matern() -> fields.Matern:
    """The prior of the vorticity."""
    return fields.Matern(3.0, length=0.8, box=(2 * np.pi, 2 * np.pi), smoothness=3.0, average=1e-3)


def vorticity(cells: int = 64) -> tuple[simkit.Problem, np.ndarray]:
    """The problem of so many cells an axis, and the truth."""
    random = np.random.default_rng(0)
    prior = matern()
    grid = fluids.Grid((cells, cells))
    flow, State = fluids.SpectralFlow2D(grid, viscosity=5e-3), fluids.SpectralFlow2D.State
    truth = np.asarray(prior.root(jnp.asarray(random.normal(size=grid.shape))))
    times = np.linspace(0.0, TIME, 6)
    seen = np.asarray(simkit.simulate(flow, State(jnp.asarray(truth)), times, step=STEPS[cells]).ys.vorticity)[1:]
    seen = seen + ERROR * random.normal(size=seen.shape)
    seen = np.where(random.random(seen.shape) < SHARE, seen, np.nan)
    problem = simkit.Problem(
        flow,
        simkit.Experiment("flow", times[1:], {"vorticity": seen}, start=0.0),
        free={"y0.vorticity": simkit.Free(prior)},
        noise={"vorticity": simkit.noise.Normal(ERROR)},
        y0=State(jnp.zeros(grid.shape)),
        step=STEPS[cells],
    )
    return problem, truth


def coarser(problem: simkit.Problem, cells: int) -> simkit.Problem:
    """The same data and prior, and a flow on fewer cells that is seen at the pixels of the finer grid."""
    grid, pixels = fluids.Grid((cells, cells)), problem.data["vorticity"].shape[2:]
    flow, State = fluids.SpectralFlow2D(grid, viscosity=5e-3), fluids.SpectralFlow2D.State
    return simkit.Problem(
        flow,
        simkit.Experiment("flow", problem.times[0][1:], {"seen": problem.data["vorticity"][0]}, start=0.0),
        free={"y0.vorticity": simkit.Free(matern())},
        noise={"seen": simkit.noise.Normal(ERROR)},
        observables={"seen": lambda system, run: fields.resampled(run.ys.vorticity, pixels)},
        y0=State(jnp.zeros(grid.shape)),
        step=STEPS[cells],
    )


class Heat(simkit.PlainSystem):
    """Diffusion on a plane of cells."""

    rate: simkit.Scalar = simkit.quantity(0.1)

    def vector_field(self, t, y, inputs):
        near = jnp.roll(y, 1, 0) + jnp.roll(y, -1, 0) + jnp.roll(y, 1, 1) + jnp.roll(y, -1, 1)
        return self.rate * (near - 4 * y)

    @classmethod
    def example(cls):
        return simkit.Example(cls(), jnp.zeros((WIDE, WIDE)), jnp.linspace(0.0, 1.0, 3))


def wide() -> dict[str, float]:
    """A problem with 10^5 unknowns: CPU seconds to build it, and its log density over the simulation."""
    random = np.random.default_rng(0)
    seen = np.where(random.random((4, WIDE, WIDE)) < 0.1, 0.3, np.nan)
    data = simkit.Experiment("plane", np.linspace(0.25, 1.0, 4), {"y": seen}, start=0.0)
    free, noise = {"y0": simkit.Free(dist.Normal(0.0, 1.0))}, {"y": simkit.noise.Normal(0.1)}

    def built() -> simkit.Problem:
        return simkit.Problem(
            Heat(), data, free=free, noise=noise, y0=jnp.zeros((WIDE, WIDE)), solver="rk4", step=simkit.Fixed(20)
        )

    begun = _harness.clock()
    problem = built()
    build = _harness.clock() - begun
    theta = jnp.full(WIDE**2, 0.1)
    density = jax.jit(lambda theta: problem.log_posterior(theta))
    alone = jax.jit(lambda theta: problem.model.solve(theta, problem.times)[1].ys)
    taken = _harness.compare({"density": lambda: density(theta), "alone": lambda: alone(theta)}, samples=CALLS)
    return {
        "field1e5_build_s": build,
        "field1e5_log_density_ratio": taken["density"].median / taken["alone"].median,
    }


def measured(
    problem: simkit.Problem, methods: dict[str, simkit.FieldLBFGS | simkit.GaussNewtonCG]
) -> tuple[dict[str, float], dict[str, Any]]:
    """CPU time of a second fit by each method, over that of one simulation with its log density, and the fits."""
    z = jnp.full(problem.size, 0.1)
    density = jax.jit(lambda z: problem.log_likelihood(problem.natural(z))[0])
    one = _harness.compare({"density": lambda: density(z)}, samples=CALLS)["density"].median
    runs, found = {}, {}
    for name, method in methods.items():
        simkit.fit(problem, method=method)
        begun = _harness.clock()
        found[name] = simkit.fit(problem, method=method)
        runs[name] = (_harness.clock() - begun) / one
    return runs, found


def finer() -> dict[str, float]:
    """The same on 128 x 128 cells, through two coarser grids."""
    problem, _ = vorticity(128)
    method = simkit.FieldLBFGS(coarse=[coarser(problem, cells) for cells in (64, 32)])
    runs, found = measured(problem, {"coarse": method})
    return {
        "vorticity128_runs": runs["coarse"],
        "vorticity128_gradients": float(found["coarse"].linearisations),
        "vorticity128_coarse_gradients": float(found["coarse"].before),
        "vorticity128_gradient": found["coarse"].gradients[-1],
    }


def rows() -> dict[str, float]:
    simkit.enable_x64()
    problem, truth = vorticity()
    coarse = coarser(problem, 32)
    methods = {
        "alone": simkit.FieldLBFGS(),
        "coarse": simkit.FieldLBFGS(coarse=coarse),
        "newton_alone": simkit.GaussNewtonCG(),
        "newton": simkit.GaussNewtonCG(coarse=coarse),
    }
    runs, found = measured(problem, methods)
    known = simkit.fit(problem, method=simkit.GaussNewtonCG(modes=MODES))
    ends = np.asarray(known.interval("y0.vorticity"))
    figures = {
        "vorticity64_runs": runs["coarse"],
        "vorticity64_alone_runs": runs["alone"],
        "vorticity64_newton_runs": runs["newton"],
        "vorticity64_newton_alone_runs": runs["newton_alone"],
        "vorticity64_gradients": float(found["coarse"].linearisations),
        "vorticity64_coarse_gradients": float(found["coarse"].before),
        "vorticity64_apart": abs(found["coarse"].objective - found["newton"].objective),
        "vorticity64_gradient": found["coarse"].gradients[-1],
        "vorticity64_coverage": float(((truth > ends[..., 0]) & (truth < ends[..., 1])).mean()),
        "vorticity64_error": float(np.std(np.asarray(found["coarse"]["y0.vorticity"]) - truth)),
        **finer(),
        **wide(),
    }
    print(known)
    _harness.print_table("Unknown fields", ["", ""], [[name, f"{value:.4g}"] for name, value in figures.items()])
    return figures
