"""Total variation of fields: closed forms of its minimisers, units, refusals and files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import Experiment, FieldLBFGS, Free, GaussNewtonCG, Problem
from simkit.fields import Matern, TotalVariation
from simkit.noise import Normal
from simkit.study import study_from_text


class Seen(simkit.StaticSystem):
    """A field that is seen as it is."""

    a: jax.Array

    def outputs(self, t, y, inputs):
        return {"x": self.a}

    @classmethod
    def example(cls):
        return simkit.Example(cls(jnp.zeros(4)), None, np.zeros(1))


def fitted(values, prior, deviation=1.0, **options):
    """The fit of a field that is seen once everywhere."""
    values = np.asarray(values)
    problem = Problem(
        Seen(jnp.zeros(values.shape, values.dtype)),
        Experiment("one", [0.0], {"x": values[None]}),
        free={"a": Free(prior)},
        noise={"x": Normal(deviation)},
    )
    return simkit.fit(problem, method=FieldLBFGS(**{"tolerance": 1e-8, "max_steps": 2000} | options))


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e6])
def test_an_island_on_a_line_comes_down_by_its_perimeter(unit):
    """Ends of 8 cells and an island of 16 of height 1: with n cells and errors s, lower by 2 alpha s^2 / n, the rest higher alike.

    The root at an edge is `slope` h = 1e-4 off, of which the square counts; between cells of one height slopes differ by rounding.
    """
    heights = np.zeros(32)
    heights[8:24] = 1.0
    weight, deviation = 0.3, 0.5
    prior = TotalVariation(weight / unit, slope=32e-4 * unit, box=1.0, ends="neumann")
    found = np.asarray(fitted(heights * unit, prior, deviation * unit)["a"]) / unit
    expected = np.where(heights > 0, 1 - 2 * weight * deviation**2 / 16, weight * deviation**2 / 8)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    blurred = fitted(heights * unit, Matern(0.5 * unit, length=0.1, box=1.0, ends="neumann"), deviation * unit)
    assert np.abs(np.asarray(blurred["a"]) / unit - heights).max() > 0.3


def test_a_ring_has_no_ends():
    heights = np.zeros(32)
    heights[8:24] = 1.0
    found = np.asarray(fitted(heights, TotalVariation(0.8, slope=32e-4, box=1.0), 0.5)["a"])
    np.testing.assert_allclose(found, np.where(heights > 0, 1 - 0.4 / 16, 0.4 / 16), atol=2e-3)


@pytest.mark.slow
def test_a_disc_comes_down_by_two_over_its_radius():
    """Strong and Chan (2003): a disc of radius R in a wide plane comes down by 2 lambda / R, here of lambda = alpha h^2 s^2.

    Differences to the next cells measure the perimeter of a disc of 16 cells to some per cent, and its corners become round.
    """
    size, radius = 48, 1 / 3
    places = (np.arange(size) + 0.5) / size - 0.5
    disc = (places[:, None] ** 2 + places[None] ** 2 < radius**2).astype(float)
    weight, deviation = 4.0, 3.0
    fit = fitted(disc, TotalVariation(weight, slope=0.05, box=(1.0, 1.0), ends="neumann"), deviation, tolerance=1e-5)
    found = np.asarray(fit["a"])
    down = 1 - np.median(found[disc > 0])
    np.testing.assert_allclose(down, 2 * weight * deviation**2 / size**2 / radius, rtol=0.08)
    # The edge stays: in the middle row all of it is between two cells.
    row = found[size // 2]
    assert np.abs(np.diff(row)).max() > 0.9 * (row.max() - row.min())


def test_positive_fields_single_precision_and_files(tmp_path):
    heights = np.where(np.arange(24) < 12, 1.0, 2.0)
    with jax.enable_x64(False):
        prior = TotalVariation(2.0, slope=0.1, box=1.0, ends="neumann")
        problem = Problem(
            Seen(jnp.ones(24)),
            Experiment("one", [0.0], {"x": heights[None]}),
            free={"a": Free(prior, transform="log")},
            noise={"x": Normal(0.2)},
        )
        fit = simkit.fit(problem, method=FieldLBFGS(tolerance=1e-4))
        assert fit["a"].dtype == jnp.float32
        np.testing.assert_allclose(fit["a"], heights, rtol=0.05)
        simkit.save(tmp_path / "a.h5", fit)
        again = simkit.load(tmp_path / "a.h5").field_fit
        np.testing.assert_array_equal(again["a"], fit["a"])
        ((_, kept),) = again.unknowns.fields
        assert isinstance(kept, TotalVariation)
        assert float(kept.weight) == 2.0


def test_its_energy_is_the_sum_over_cells():
    field = np.random.default_rng(0).normal(size=(3, 4))
    prior = TotalVariation(2.0, slope=0.5, box=(3.0, 2.0), ends=("neumann", "periodic"))
    down = np.vstack([np.diff(field, axis=0), np.zeros(4)]) / 1.0
    right = (np.roll(field, -1, axis=1) - field) / 0.5
    expected = -2.0 * 1.0 * 0.5 * np.sum(np.sqrt(down**2 + right**2 + 0.25) - 0.5)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(field)), expected, rtol=1e-12)
    white = prior.white(jnp.asarray(field))
    np.testing.assert_allclose(prior.root(white), field, rtol=1e-9)
    np.testing.assert_allclose(prior.log_prob_of_white(white), expected, rtol=1e-9)
    # A flat field: coordinates are white, but for waves that differences see as longer.
    curve = jax.hessian(lambda w: -prior.log_prob_of_white(w.reshape(3, 4)))(jnp.zeros(12))
    values = np.linalg.eigvalsh(np.asarray(curve))
    assert values[0] < 1e-9
    assert 0.3 < values[1] <= values[-1] < 1 + 1e-9


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: simkit.fit(p, method=GaussNewtonCG()), "`GaussNewtonCG`, which needs Gaussian priors"),
        (lambda p: simkit.fit(p, method=FieldLBFGS(modes=3)), "`modes`, which needs Gaussian priors"),
        (lambda p: simkit.sample(p, key=jax.random.key(0)), "`sample`, which draws and needs Gaussian priors"),
        (lambda p: simkit.prior_draws(p, jax.random.key(0), 3), "A draw from the priors needs Gaussian"),
        (lambda p: simkit.infer.numpyro_model(p), "needs Gaussian priors"),
        (lambda p: TotalVariation(1.0, slope=1.0, box=1.0, ends="dirichlet"), '"periodic" or "neumann"'),
        (lambda p: TotalVariation(1.0, slope=0.0, box=1.0), "`slope` must be a positive number"),
    ],
)
def test_what_is_refused(call, text):
    problem = Problem(
        Seen(jnp.zeros(4)),
        Experiment("one", [0.0], {"x": np.ones((1, 4))}),
        free={"a": Free(TotalVariation(1.0, slope=0.1, box=1.0))},
        noise={"x": Normal(1.0)},
    )
    with pytest.raises(simkit.ArgumentError, match=text):
        call(problem)


def test_a_study_takes_it_and_its_method():
    text = """
    [system]
    model = "spectral_flow_2d"
    grid = { shape = [8, 8] }
    [y0]
    velocity = { builder = "rest" }
    [solve]
    step = 0.1
    [noise]
    vorticity = { model = "normal", scale = 0.1 }
    [free]
    "y0.vorticity" = { prior = { total_variation = { weight = 2.0, slope = 0.1 } } }
    [experiments.tank]
    file = "pixels.csv"
    cells = ["i", "j"]
    start = 0.0
    """
    study = study_from_text(text, read={"pixels.csv": "time,i,j,vorticity\n0.1,1,2,0.5\n0.2,3,4,0.1"})
    assert study.fit["method"] == "field_lbfgs"
    prior = study.free["y0.vorticity"].prior
    assert isinstance(prior, TotalVariation)
    np.testing.assert_allclose(prior.box, 2 * np.pi)
    with pytest.raises(simkit.StudyError, match="slope"):
        study_from_text(text.replace(", slope = 0.1", ""), read={"pixels.csv": "time,i,j,vorticity\n0.1,1,2,0.5"})
