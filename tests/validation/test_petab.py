"""PEtab's benchmark problems against their published likelihoods and against simulations that are published beside them.

The collection: doi:10.5281/zenodo.8155057; `data/README.md` names the papers.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit

DATA = pathlib.Path(__file__).parents[2] / "data" / "petab"

# The published log likelihoods at the nominal parameters, of AMICI. That of Crauste is right to 1e-3 only: the published
# simulation of the same model gives -190.963978, and so does SciPy's Radau at 1e-12.
PUBLISHED = {
    "Boehm_JProteomeRes2014": -138.2220,
    "Rahman_MBS2016": -21.1535,
    "Bertozzi_PNAS2020": -158.8643,
    "Crauste_CellSystems2017": -190.9652,
    "Elowitz_Nature2000": 63.2028,
    "Fujita_SciSignal2010": 53.0838,
    "Weber_BMC2015": -296.2018,
}
QUICK = ("Boehm_JProteomeRes2014", "Bertozzi_PNAS2020")
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PUBLISHED]


def loaded(name, **options):
    (path,) = (DATA / name).glob("*.yaml")
    return simkit.petab.load(path, **options)


@pytest.mark.parametrize("name", NAMES)
def test_nominal_likelihoods_are_the_published_ones(name):
    read = loaded(name)
    value, status = jax.jit(lambda theta, problem: problem.log_likelihood(theta))(read.nominal, read.problem.lean())
    assert not np.asarray(status).any()
    np.testing.assert_allclose(value, PUBLISHED[name], atol=1e-3)
    if name.startswith("Crauste"):
        np.testing.assert_allclose(value, -190.963978, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Boehm_JProteomeRes2014", "Fujita_SciSignal2010", "Weber_BMC2015"])
def test_gradients_are_those_of_central_differences(name):
    # Solved tightly, since a difference divides the errors of two solutions by the distance between them.
    read = loaded(name, step=simkit.Adaptive(1e-10, 1e-12))
    problem = read.problem.lean()
    bounds = np.asarray(problem.coordinate_bounds())
    moved = np.asarray(problem.coordinates(read.nominal)) + 0.05 * np.random.default_rng(0).normal(size=len(bounds))
    z = jnp.asarray(np.clip(moved, bounds[:, 0] + 1e-2, bounds[:, 1] - 1e-2))
    value = lambda z, problem: problem.log_likelihood(problem.natural(z))[0]
    gradient = np.asarray(jax.jit(jax.jacfwd(value))(z, problem))
    at, h = jax.jit(value), 1e-3

    def difference(i):
        moved = [float(at(z.at[i].add(k * h), problem)) for k in (-2, -1, 1, 2)]
        return (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * h)

    differences = np.array([difference(i) for i in range(len(z))])
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5 * np.abs(differences).max())
