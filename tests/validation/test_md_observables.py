"""Observables beside MDAnalysis, where it is installed."""

import jax
import numpy as np
import pytest

from simkit.md import liquid, mean_squared_displacement, radial_distribution

# It warns of its own use of deprecated parts of NumPy and Python.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def gas():
    """Five frames of 300 atoms, as a simulation gives them and as a universe of MDAnalysis."""
    mda = pytest.importorskip("MDAnalysis")
    start = liquid(jax.random.key(0), 300, 0.8, least_distance=0.3)
    moved = 0.05 * jax.random.normal(jax.random.key(1), (5, 300, 3))
    # MDAnalysis computes in float32; with the same rounding here, no distance changes its bin.
    position = np.asarray(start.position[None] + moved.cumsum(axis=0), np.float32)
    box = np.concatenate([np.asarray(start.space.lengths, np.float32), np.full(3, 90, np.float32)])
    universe = mda.Universe.empty(300, trajectory=True)
    universe.load_new(position, dimensions=np.tile(box, (5, 1)))
    return start.space, position.astype(float), universe


def test_radial_distribution(gas):
    rdf = pytest.importorskip("MDAnalysis.analysis.rdf")
    space, position, universe = gas
    theirs = rdf.InterRDF(universe.atoms, universe.atoms, nbins=60, range=(0.0, 3.0), exclusion_block=(1, 1)).run()
    ours = radial_distribution(space, jax.numpy.asarray(position), cutoff=3.0, bins=60)
    assert np.abs(np.asarray(ours.g) - theirs.results.rdf).max() < 1e-5
    np.testing.assert_allclose(ours.distance, theirs.results.bins, rtol=1e-6)
    assert np.asarray(ours.g).max() > 1.2


def test_mean_squared_displacement(gas):
    msd = pytest.importorskip("MDAnalysis.analysis.msd")
    _, position, universe = gas
    theirs = msd.EinsteinMSD(universe, select="all", msd_type="xyz", fft=False).run()
    ours = mean_squared_displacement(jax.numpy.asarray(position))
    np.testing.assert_allclose(ours, theirs.results.timeseries, rtol=1e-5, atol=1e-6)  # float32
