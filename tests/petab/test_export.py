"""Problems written as PEtab: read back they have the same likelihood."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import ArgumentError
from simkit.networks._expression import Formulas, Graph
from simkit.petab._traced_formulas import traced
from simkit.solvers import Rodas5P

KEY = np.random.default_rng(3)


class Cells(eqx.Module):
    count: simkit.Scalar = simkit.quantity(support=simkit.POSITIVE)
    food: simkit.Scalar = simkit.quantity(support=simkit.POSITIVE)


class Growth(simkit.PlainSystem):
    """Cells that eat: Monod's equations, with an array of two yields."""

    rate: simkit.Scalar = simkit.quantity(1.0, support=simkit.POSITIVE)
    half: simkit.Scalar = simkit.quantity(0.5, support=simkit.POSITIVE)
    yields: jax.Array = simkit.quantity((0.4, 0.6))

    def vector_field(self, t, y, inputs):
        grown = self.rate * y.count * y.food / (self.half + y.food) * jnp.where(t < 100, 1.0, 0.0)
        return Cells(count=grown * jnp.sum(self.yields), food=-jnp.sqrt(grown**2))

    def outputs(self, t, y, inputs):
        return {"density": 2 * y.count, "food": y.food}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), Cells(count=0.1, food=1.0), jnp.linspace(0.0, 5.0, 6))


@pytest.fixture(scope="module")
def problem():
    times = np.array([0.5, 1.0, 3.0])
    draw = lambda: np.exp(0.1 * KEY.standard_normal(3))
    experiments = [
        simkit.Experiment("rich", times, {"density": draw(), "food": draw()}, start=0.0, y0=Cells(count=0.1, food=2.0)),
        simkit.Experiment(
            "poor",
            times[:2],
            {"density": [np.nan, 0.4]},
            start=0.0,
            y0=Cells(count=0.3, food=0.2),
            set={"half": 0.7, "noise.density.scale": "wide"},
        ),
    ]
    return simkit.Problem(
        Growth(),
        experiments,
        free={
            "rate": simkit.Free(dist.LogNormal(0.0, 0.5), bounds=(0.01, 100.0)),
            "y0.count": simkit.Free(bounds=(0.01, 10.0)),
            "yields.1": simkit.Free(dist.Normal(0.5, 0.2), bounds=(0.0, 2.0)),
            "noise.food.scale": simkit.Free(dist.LogUniform(0.01, 1.0), bounds=(0.01, 1.0)),
            "wide": simkit.Free(bounds=(0.01, 10.0)),
        },
        noise={"density": simkit.noise.Normal(0.3), "food": simkit.noise.LogNormal(0.2)},
        solver=Rodas5P(),
        step=simkit.Adaptive(1e-8, 1e-10),
    )


@pytest.mark.slow
def test_what_is_written_reads_back_to_the_same_likelihood(tmp_path, problem):
    theta = jnp.array([1.3, 0.2, 0.7, 0.3, 0.5])
    path = simkit.petab.write(problem, tmp_path / "new", nominal=theta)
    read = simkit.petab.load(path, step=simkit.Adaptive(1e-8, 1e-10))
    assert read.problem.names == ("rate", "y0__count", "yields__1", "noise__food__scale", "wide")
    assert read.problem.log == problem.log
    np.testing.assert_allclose(read.nominal, theta)
    both = jax.jit(lambda theta, p: (p.log_likelihood(theta)[0], p.log_prior(theta)))
    for factor in (1.0, 1.4):
        ours, back = both(theta * factor, problem), both(theta * factor, read.problem)
        # Two solves at 1e-8 that step alike but for rounding.
        np.testing.assert_allclose(back[0], ours[0], rtol=1e-7)
        # A normal prior is cut off at the bounds by one and not by the other: a constant.
        np.testing.assert_allclose(back[1], ours[1], atol=0.01)


@pytest.mark.filterwarnings("ignore")  # of the packages behind it
def test_the_package_of_petab_finds_nothing_wrong(tmp_path, problem):
    from petab import v1

    read = v1.Problem.from_yaml(str(simkit.petab.write(problem, tmp_path)))
    assert not v1.lint_problem(read)


def test_operations_that_sbml_lacks_are_named():
    with pytest.raises(ArgumentError, match=r"The field.*uses `erf`"):
        traced(jax.scipy.special.erf, (jnp.zeros(()),), (np.asarray(0),), Graph(), "The field")


def test_what_petab_has_no_words_for_is_named(tmp_path, problem):
    count = simkit.Problem(
        Growth(),
        simkit.Experiment("one", [1.0], {"density": [1.0]}, start=0.0, y0=Cells(count=0.1, food=2.0)),
        free={"rate": simkit.Free(bounds=(0.1, 10.0))},
        noise={"density": simkit.noise.StudentT(0.3)},
    )
    with pytest.raises(ArgumentError, match=r"noise of `density`.*StudentT"):
        simkit.petab.write(count, tmp_path)


def test_traces_mean_what_jax_means():
    def function(x, y):
        z = jnp.stack([x, y, jnp.log1p(x) * jnp.clip(y, 0.0, 1.0)])
        return jnp.sum(jnp.where(z > 0.5, jax.nn.sigmoid(z), jnp.tanh(z) ** 3)) + jnp.sign(x - y) / jnp.sqrt(x)

    graph = Graph()
    names = [graph.symbol(name) for name in "xy"]
    at = (jnp.asarray(0.7), jnp.asarray(2.5))
    node = int(traced(function, at, tuple(map(np.asarray, names)), graph, "It"))
    found = Formulas(tuple(graph.nodes)).evaluate([node], dict(zip("xy", at, strict=True)).__getitem__)[0]
    np.testing.assert_allclose(found, function(*at), rtol=1e-12)
