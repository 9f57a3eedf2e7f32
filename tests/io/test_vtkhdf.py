"""Fields as VTKHDF: the groups of the format, and what VTK itself reads."""

import h5py
import jax.numpy as jnp
import numpy as np
import pytest

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
    path = tmp_path_factory.mktemp("vtkhdf") / "gas.vtkhdf"
    return run, simkit.io.write_vtkhdf(path, system, run, outputs=["mach"]), system


def test_groups(gas):
    run, path, _ = gas
    with h5py.File(path) as file:
        root = file["VTKHDF"]
        assert root.attrs["Type"] == b"ImageData"
        np.testing.assert_array_equal(root.attrs["WholeExtent"], [0, 3, 0, 4, 0, 1])
        np.testing.assert_allclose(root.attrs["Origin"], [2.0, 0.0, 0.0])
        np.testing.assert_allclose(root.attrs["Spacing"], [0.5, 0.25, 0.25])
        np.testing.assert_allclose(root["Steps/Values"], [0.0, 0.5])
        assert sorted(root["CellData"]) == ["density", "mach", "pressure", "velocity"]
        assert root["CellData/velocity"].shape == (2, 1, 4, 3, 3)
        np.testing.assert_array_equal(root["CellData/velocity"][1, 0, :, :, 1].T, run.ys.velocity[1, 1])
        assert not root["CellData/velocity"][..., 2].any()


def test_vtk_reads_it(gas):
    reading = pytest.importorskip("vtkmodules.vtkIOHDF")
    as_numpy = pytest.importorskip("vtkmodules.util.numpy_support").vtk_to_numpy
    run, path, _ = gas
    reader = reading.vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    assert reader.GetNumberOfSteps() == 2
    for k in range(2):
        reader.SetStep(k)
        reader.Update()
        image = reader.GetOutput()
        assert image.GetDimensions() == (4, 5, 2)  # corners
        assert image.GetOrigin() == (2.0, 0.0, 0.0)
        data = image.GetCellData()
        np.testing.assert_array_equal(as_numpy(data.GetArray("density")), np.asarray(run.ys.density[k]).T.ravel())
        velocity = as_numpy(data.GetArray("velocity"))
        np.testing.assert_array_equal(velocity[:, 1], np.asarray(run.ys.velocity[k, 1]).T.ravel())


def test_what_is_refused(tmp_path, gas):
    run, path, system = gas
    with pytest.raises(simkit.ArgumentError, match="overwrite"):
        simkit.io.write_vtkhdf(path, system, run)
    with pytest.raises(simkit.ArgumentError, match="'mass', which is no field"):
        simkit.io.write_vtkhdf(tmp_path / "mass.vtkhdf", system, run, outputs=["mass"])
    faces = fluids.stretched_faces(4, 1.0)
    walls = [fluids.Periodic(), fluids.NoSlip()]
    zero = jnp.zeros((), int)
    states = fluids.IncompressibleFlow.State((jnp.ones((1, 3, 4)), jnp.zeros((1, 3, 5))))
    still = simkit.Trajectory(jnp.array([0.0]), states, zero, zero, zero, zero, "none")
    stretched = fluids.IncompressibleFlow(fluids.Grid((3, 4), 1.0, faces=(None, faces)), boundaries=walls)
    with pytest.raises(simkit.ArgumentError, match="equal cells"):
        simkit.io.write_vtkhdf(tmp_path / "walls.vtkhdf", stretched, still)
    equal = fluids.IncompressibleFlow(fluids.Grid((3, 4), 1.0), boundaries=walls)
    with pytest.raises(simkit.ArgumentError, match=r'outputs=\["velocity"\]'):
        simkit.io.write_vtkhdf(tmp_path / "faces.vtkhdf", equal, still)
