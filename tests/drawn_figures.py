"""One figure of each kind, for tests that go over all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import synthetic

import simkit
from simkit import viz


def trajectory():
    system, y0, times, _ = simkit.odes.DoublePendulum.example()
    return simkit.simulate(system, y0, times[:21])


def prey():
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    return simkit.simulate(system, y0, times)


def mixture():
    return simkit.md.liquid(jax.random.key(0), 40, 0.7, fractions=(0.5, 0.5))


FLAT = simkit.md.crystal("hexagonal", 1.1, (4, 2))


GRID = simkit.fluids.Grid((12, 8), lengths=(3.0, 2.0))


def fields(grid, state):
    """A trajectory of three times, made by hand."""
    zero = jnp.zeros((), int)
    wave = jnp.stack([jnp.asarray(np.cos(2 * np.pi * grid.mesh()[0] / grid.lengths[0] + t)) for t in range(3)])
    return simkit.Trajectory(jnp.arange(3.0), state(wave), zero, zero, zero, zero)


def settled():
    """Members of which two are at rest and two swing between 1 and 3."""
    zero, t = jnp.zeros(4, int), np.linspace(0, 20, 81)
    rows = jnp.asarray([np.full(81, 2.0), 2.0 + np.exp(-t), 2 + np.sin(t), 2 + np.cos(t)])
    return simkit.Trajectory(jnp.asarray(t), {"x": rows}, zero, zero, zero, zero)


def shares():
    numbers = np.array([0.6, 0.1, 0.25])
    return simkit.sweeps.SobolIndices(
        ("k", "death", "x0"), numbers, numbers / 10, numbers + 0.05, numbers / 9, None, None, 0.95
    )


def field_fit():
    """A fit of a field and a number, with made-up directions."""
    prior = simkit.fields.Matern(1.0, length=0.5, box=(1.0, 2.0))
    data = simkit.Experiment("a", [1.0], {"x": np.ones((1, 6, 12))})
    model = Pictured(jnp.zeros((6, 12)))
    problem = simkit.Problem(model, data, free={"a": simkit.Free(prior)}, noise={"x": simkit.noise.Normal(1.0)})
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(72, 4)))[0].T
    values = np.sin(np.arange(72.0))
    counts = dict.fromkeys(("status", "products", "coarse", "simulations", "linearisations", "failures"), 0)
    return simkit.fitting.FieldFit(
        unknowns=problem.unknowns,
        units=("1",),
        data_count=72,
        estimate=jnp.asarray(values),
        z=jnp.asarray(values),
        objective=1.0,
        log_likelihood=-1.0,
        chi_squared=1.0,
        gradients=(1.0, 1e-7),
        first=1.0,
        method="by hand",
        eigenvalues=jnp.asarray([9.0, 4.0, 1.0, 0.1]),
        vectors=jnp.asarray(vectors),
        deviations=jnp.ones(72),
        directions=jnp.zeros((0, 72)),
        cuts=jnp.zeros(0),
        **counts,
    )


class Pictured(simkit.StaticSystem):
    """A picture that is seen as it is."""

    a: jax.Array

    def outputs(self, t, y, inputs):
        return {"x": self.a}

    @classmethod
    def example(cls):
        return simkit.Example(cls(jnp.zeros((6, 12))), None, np.arange(2.0))


def followed() -> tuple[simkit.assimilation.Assimilation, simkit.assimilation.Observations]:
    """Two numbers found from one of them, by hand."""
    times = np.arange(40.0)
    states = {"a": np.sin(0.3 * times), "b": np.cos(0.3 * times)}
    wide = {name: np.full(40, 0.2) for name in states}
    found = simkit.assimilation.Assimilation(
        times=jnp.asarray(times),
        mean=states,
        deviation=wide,
        forecast=states,
        forecast_deviation=wide,
        last={"a": 0.0, "b": 1.0},
        innovation=jnp.zeros((40, 1)),
        chi_square=jnp.asarray(1 + 0.5 * np.sin(times)),
        observed=jnp.ones(40, int),
        effective_rank=jnp.ones(40),
        status=jnp.zeros(40, int),
        smoothed={name: 0.9 * x for name, x in states.items()},
        smoothed_deviation=wide,
        method="by hand",
    )
    return found, simkit.assimilation.Observations(times, {"a": states["a"] + 0.1}, errors=0.2)


FIGURES = {
    "assimilation": lambda: viz.plot_assimilation(*followed(), time="days"),
    "field fit": lambda: viz.plot_field_fit(field_fit()),
    "bifurcation": lambda: viz.plot_bifurcation(np.arange(4.0), settled(), "x", parameter="k"),
    "sensitivity": lambda: viz.plot_sensitivity(shares()),
    "map": lambda: viz.plot_map(
        simkit.fluids.Sphere(5),
        {"a": simkit.fluids.rossby_haurwitz(simkit.fluids.Sphere(5), wave=2)[0]},
        units={"a": "1/s"},
    ),
    "fields": lambda: viz.plot_fields(GRID, fields(GRID, simkit.fluids.SpectralFlow2D.State), time="s"),
    "field on a line": lambda: viz.plot_fields(
        simkit.fluids.Grid(16), fields(simkit.fluids.Grid(16), simkit.fluids.Burgers.State)
    ),
    "spectrum": lambda: viz.plot_spectrum(GRID, {"a": np.cos(2 * np.pi * GRID.mesh()[1])}, slope=-3),
    "trajectory": lambda: viz.plot_trajectory(trajectory(), time="s"),
    "fit": lambda: viz.plot_fit(synthetic.observed(), synthetic.prediction(), time="year"),
    "waterfall": lambda: viz.plot_waterfall(synthetic.fit_result()),
    "parameters": lambda: viz.plot_parameters(synthetic.fit_result()),
    "correlation": lambda: viz.plot_correlation(synthetic.fit_result()),
    "corner": lambda: viz.plot_corner(synthetic.posterior(), truth=[1.0, 1.0, 1.0]),
    "trace": lambda: viz.plot_trace(synthetic.posterior()),
    "ranks": lambda: viz.plot_ranks(synthetic.posterior()),
    "atoms": lambda: viz.plot_atoms(
        mixture().space, mixture().position, species=mixture().species, diameter=(1.0, 0.8)
    ),
    "flat atoms": lambda: viz.plot_atoms(FLAT.space, FLAT.position, title="a plane"),
    "outputs": lambda: viz.plot_outputs(synthetic.averages()),
    "radial distribution": lambda: viz.plot_radial_distribution({"g": synthetic.averages()}),
    "forest": lambda: viz.plot_forest({"fit": synthetic.fit_result(), "posterior": synthetic.posterior()}),
    "phase": lambda: viz.plot_phase(prey(), "hare", "lynx", system=simkit.odes.LotkaVolterra.example().system),
    "spaghetti": lambda: viz.plot_spaghetti(synthetic.observed(), output="prey", time="year", log=True),
    "displacement": lambda: viz.plot_displacement(synthetic.averages()),
}
