"""Fields on grids as files: what xarray makes of them, and what the XDMF beside them points at."""

import xml.etree.ElementTree as ElementTree

import h5py
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import simkit
from simkit import fluids


@pytest.fixture(scope="module")
def gas(tmp_path_factory):
    """A gas at two times, made and not simulated."""
    grid = fluids.Grid((3, 4), (1.5, 1.0), origin=(2.0, 0.0))
    system = fluids.CompressibleFlow(grid)
    values = jnp.asarray(np.random.default_rng(0).uniform(1.0, 2.0, (2, 3, 4)))
    states = fluids.CompressibleFlow.State(values, jnp.stack([values, 2 * values], axis=1), 3 * values)
    zero = jnp.zeros((), int)
    run = simkit.Trajectory(jnp.array([0.0, 0.5]), states, zero, zero, zero, zero, "none")
    folder = tmp_path_factory.mktemp("fields")
    return run, simkit.io.write_fields(folder / "gas.nc", system, run, outputs=["mass", "mach"]), system


def test_xarray_reads_fields(gas):
    run, (path, _), _ = gas
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert dict(data.sizes) == {"time": 2, "x": 3, "y": 4, "component": 2}
        np.testing.assert_allclose(data.x, [2.25, 2.75, 3.25])
        assert data.density.dims == ("time", "y", "x")
        assert data.velocity.attrs["units"] == "length/time"
        np.testing.assert_array_equal(data.density.transpose("time", "x", "y"), run.ys.density)
        there = data.velocity.sel(component="y", time=0.5).interp(x=2.75, y=0.375)
        np.testing.assert_allclose(there, run.ys.velocity[1, 1, 1, 1])
        np.testing.assert_allclose(data.mass, np.asarray(run.ys.density).sum(axis=(1, 2)) * 0.5 * 0.25)
        assert data.mach.dims == ("time", "y", "x")


def test_xdmf_points_at_the_right_numbers(gas):
    run, (path, beside), _ = gas
    steps = ElementTree.parse(beside).findall("./Domain/Grid/Grid")
    assert [float(step.find("Time").attrib["Value"]) for step in steps] == [0.0, 0.5]
    assert steps[0].find("Topology").attrib["Dimensions"] == "5 4"
    names = [attribute.attrib["Name"] for attribute in steps[1].findall("Attribute")]
    assert names == ["density", "velocity_x", "velocity_y", "pressure", "mach"]
    slab, source = steps[1].findall("Attribute")[2].findall("./DataItem/DataItem")
    start, stride, count = np.array(slab.text.split(), int).reshape(3, -1)
    file, dataset = source.text.split(":")
    assert file == path.name
    assert (stride == 1).all()
    with h5py.File(path) as stored:
        found = stored[dataset][tuple(slice(a, a + n) for a, n in zip(start, count, strict=True))].squeeze()
    np.testing.assert_array_equal(found.T, run.ys.velocity[1, 1])


def test_components_stand_on_faces(tmp_path):
    system = fluids.IncompressibleFlow(fluids.Grid((3, 4), 1.0), boundaries=[fluids.Periodic(), fluids.NoSlip()])
    states = fluids.IncompressibleFlow.State((jnp.ones((1, 3, 4)), jnp.zeros((1, 3, 5))))
    zero = jnp.zeros((), int)
    run = simkit.Trajectory(jnp.array([0.0]), states, zero, zero, zero, zero, "none")
    (path,) = simkit.io.write_fields(tmp_path / "flow.nc", system, run, xdmf=False)
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data.velocity_x.dims == ("time", "y", "x_face")
        np.testing.assert_allclose(data.y_face, [0.0, 0.25, 0.5, 0.75, 1.0])
        assert data.velocity_y.shape == (1, 5, 3)


def test_bad_input(gas, tmp_path):
    run, (path, _), system = gas
    with pytest.raises(simkit.ArgumentError, match="exists"):
        simkit.io.write_fields(path, system, run)
    with pytest.raises(simkit.ArgumentError, match="must have a grid"):
        simkit.io.write_fields(tmp_path / "a.nc", simkit.odes.LotkaVolterra.example().system, run)
    with pytest.raises(simkit.ArgumentError, match="names 'heat', but"):
        simkit.io.write_fields(tmp_path / "a.nc", system, run, outputs=["heat"])
