"""Trajectories of other programs: what MDAnalysis reads of ours, and we of its files."""

import dataclasses

import numpy as np
import pytest

import simkit
from simkit.md import GROMACS, METAL, REAL, REDUCED, Frame, OpenSpace, space_from_vectors

mda = pytest.importorskip("MDAnalysis")

VECTORS = np.array([[20.0, 0, 0], [3, 19, 0], [1, 2, 18]])


def frames(units=METAL, count=4, first=6, vectors=VECTORS):
    """Frames with a time of 3 to 4.5 ps, and velocities of up to 1 Angstrom a ps."""
    random = np.random.default_rng(0)
    mass = np.full(5, METAL.inside(12.0, "mass"))
    space = OpenSpace() if vectors is None else space_from_vectors(vectors)
    found = [
        Frame(
            space,
            random.random((5, 3)) * 15,
            units=METAL,
            mass=mass,
            momentum=random.random((5, 3)) * mass[:, None],
            force=random.random((5, 3)),
            time=0.5 * (first + i),
            step=10 * (first + i),
        )
        for i in range(count)
    ]
    return [frame.converted(units) for frame in found]


@pytest.mark.parametrize("units", [METAL, REAL, GROMACS])
@pytest.mark.parametrize("ending", ["dcd", "xtc", "trr", "nc"])
def test_round_trip(tmp_path, ending, units):
    given = frames(units)
    path = simkit.io.write_trajectory(tmp_path / f"run.{ending}", given)
    found = simkit.io.read_trajectory(path, METAL)
    bound = 0.01 if ending == "xtc" else 3e-6
    for frame, expected in zip(found, frames(), strict=True):
        np.testing.assert_allclose(frame.position, expected.position, atol=bound)
        np.testing.assert_allclose(frame.space.vectors(), VECTORS, atol=3e-6)
    np.testing.assert_allclose(found.time, [3, 3.5, 4, 4.5], rtol=1e-6)
    if ending in ("xtc", "trr"):
        assert found.step.tolist() == [60, 70, 80, 90]
    if ending in ("trr", "nc"):
        velocity = frames()[2].momentum / frames()[2].mass[:, None]
        np.testing.assert_allclose(found.velocity[2], velocity, rtol=1e-5)
        np.testing.assert_allclose(found.force[2], frames()[2].force, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its own reader of DCD
def test_mdanalysis_reads_angstrom_and_picoseconds(tmp_path):
    path = simkit.io.write_trajectory(tmp_path / "run.dcd", frames(GROMACS))
    universe = mda.Universe.empty(5)
    universe.load_new(str(path))
    assert [step.time for step in universe.trajectory] == pytest.approx([3, 3.5, 4, 4.5])
    np.testing.assert_allclose(universe.trajectory[2].positions, frames()[2].position, rtol=1e-5)
    np.testing.assert_allclose(mda.lib.mdamath.triclinic_vectors(universe.dimensions), VECTORS, atol=1e-5)


def test_topology_gives_masses_and_symbols(tmp_path):
    pdb = "".join(
        f"ATOM  {i:5d}  {name:<3} WAT A   1    {i:8.3f}{0:8.3f}{0:8.3f}  1.00  0.00           {name[0]}\n"
        for i, name in enumerate(["O", "H1", "H2", "O", "H1"], 1)
    )
    (tmp_path / "top.pdb").write_text(pdb + "END\n")
    path = simkit.io.write_trajectory(tmp_path / "run.trr", frames())
    found = simkit.io.read_trajectory(path, METAL, topology=tmp_path / "top.pdb", frames=slice(-2, None))
    assert len(found) == 2
    assert found.symbols == ("O", "H", "H", "O", "H")
    np.testing.assert_allclose(METAL.outside(found.mass, "mass"), [15.999, 1.008, 1.008, 15.999, 1.008], rtol=1e-3)
    assert found[1].momentum is not None
    assert found[1].step == 90


def test_open_space_and_reduced_numbers(tmp_path):
    given = [dataclasses.replace(frame, units=REDUCED) for frame in frames(vectors=None)]
    found = simkit.io.read_trajectory(simkit.io.write_trajectory(tmp_path / "run.trr", given), REDUCED)
    assert found.vectors is None
    assert not found[0].space.periodic
    np.testing.assert_allclose(found.position[3], given[3].position, rtol=1e-6)


def test_one_frame_keeps_its_time(tmp_path):
    path = simkit.io.write_trajectory(tmp_path / "one.dcd", frames()[:1])
    assert float(simkit.io.read_trajectory(path, METAL)[0].time) == pytest.approx(3.0)


def test_refusals(tmp_path):
    short = dataclasses.replace(frames()[1], position=frames()[1].position[:4], mass=None, momentum=None, force=None)
    with pytest.raises(simkit.ArgumentError, match="frame 1 has 4 and the first 5"):
        simkit.io.write_trajectory(tmp_path / "a.dcd", [frames()[0], short])
    turned = frames(vectors=VECTORS.T)
    with pytest.raises(simkit.ArgumentError, match="a along x and b in the plane"):
        simkit.io.write_trajectory(tmp_path / "a.dcd", turned)
    uneven = [frames()[i] for i in (0, 1, 3)]
    with pytest.raises(simkit.ArgumentError, match="evenly spaced in time for DCD"):
        simkit.io.write_trajectory(tmp_path / "a.dcd", uneven)
    with pytest.raises(simkit.ArgumentError, match=r"No trajectory writer for format 'FOO'"):
        simkit.io.write_trajectory(tmp_path / "a.foo", frames())
    with pytest.raises(simkit.ArgumentError, match="a frame at least"):
        simkit.io.write_trajectory(tmp_path / "a.dcd", [])
    with pytest.raises(simkit.DataError, match="There is no file"):
        simkit.io.read_trajectory(tmp_path / "none.dcd", METAL)
    (tmp_path / "bad.dcd").write_bytes(b"no trajectory at all")
    with pytest.raises(simkit.DataError, match="cannot be read"):
        simkit.io.read_trajectory(tmp_path / "bad.dcd", METAL)
    path = simkit.io.write_trajectory(tmp_path / "run.trr", frames())
    with pytest.raises(simkit.DataError, match="of 4 `frames` takes none"):
        simkit.io.read_trajectory(path, METAL, frames=slice(10, None))
