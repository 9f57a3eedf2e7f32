"""Frames through files: extended XYZ and ASE."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError
from simkit.io import from_ase, read_extxyz, to_ase, write_extxyz
from simkit.md import METAL, REAL, REDUCED, SI, Frame, OpenSpace, Orthorhombic, Triclinic, convert, crystal, reduced

RNG = np.random.default_rng(0)
VECTORS = ("position", "momentum", "force")


def full_frame(space=None, units=METAL, atoms=5, step=3):
    """A frame that has everything."""
    space = Orthorhombic([4.0, 5.0, 6.5]) if space is None else space
    d = space.dimensions
    return Frame(
        space,
        RNG.normal(size=(atoms, d)) * 3,
        units=units,
        symbols=tuple("Si" if i % 2 else "C" for i in range(atoms)),
        mass=RNG.uniform(1, 2, atoms),
        charge=RNG.normal(size=atoms),
        momentum=RNG.normal(size=(atoms, d)),
        force=RNG.normal(size=(atoms, d)),
        energy=-1.25,
        time=0.1 * step,
        step=step,
    )


def assert_same(found, expected, rtol=0.0):
    assert type(found.space) is type(expected.space)
    assert found.units == expected.units
    assert (found.symbols, found.step) == (expected.symbols, expected.step)
    for name in (*VECTORS, "mass", "charge", "energy", "time"):
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=0.0, err_msg=name)
    for a, b in zip(jax.tree.leaves(found.space), jax.tree.leaves(expected.space), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=0.0)


SPACES = {
    "box": Orthorhombic([4.0, 5.0, 6.5]),
    "skewed": Triclinic([[4.0, 0.0, 0.0], [1.0, 5.0, 0.0], [0.5, -0.5, 6.0]]),
    "open": OpenSpace(),
    "plane": Orthorhombic([4.0, 5.0]),
    "open plane": OpenSpace(dimensions=2),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("units", [REDUCED, METAL, REAL], ids=lambda units: units.name)
def test_extxyz_round_trip(tmp_path, space, units):
    frames = [full_frame(space, units, atoms=n, step=n) for n in (5, 3)]
    path = write_extxyz(tmp_path / "a.xyz", frames)
    # Reduced numbers come back bit for bit; others after a product and a quotient.
    for a, b in zip(read_extxyz(path, units), frames, strict=True):
        assert_same(a, b, rtol=0.0 if units == REDUCED else 1e-14)
    write_extxyz(path, frames[0], append=True)
    assert [len(frame) for frame in read_extxyz(path)] == [5, 3, 5]


def test_extxyz_of_reduced_units_with_scales(tmp_path):
    argon = reduced(3.405, 0.0103236, 39.948)
    frame = full_frame(units=argon)
    (found,) = read_extxyz(write_extxyz(tmp_path / "a.xyz", frame), argon)
    assert_same(found, frame, rtol=1e-13)
    (metal,) = read_extxyz(tmp_path / "a.xyz")
    np.testing.assert_allclose(metal.position, 3.405 * frame.position, rtol=1e-14)
    np.testing.assert_allclose(METAL.outside(metal.mass, "mass"), 39.948 * frame.mass, rtol=1e-13)


def test_the_text_is_what_others_read(tmp_path):
    solid = crystal("fcc", 3.615, 1)
    frame = Frame(solid.space, solid.position, units=METAL, symbols=["Cu"] * 4, energy=-14.16, time=0.5, step=7)
    lines = write_extxyz(tmp_path / "a.xyz", frame).read_text().splitlines()
    assert lines[0] == "4"
    assert lines[1] == (
        'Lattice="3.615 0.0 0.0 0.0 3.615 0.0 0.0 0.0 3.615" Properties=species:S:1:pos:R:3 pbc="T T T" '
        "energy=-14.16 time=0.5 step=7"
    )
    assert lines[3] == "Cu 0.0 1.8075 1.8075"


def test_frames_of_others(tmp_path):
    path = tmp_path / "a.xyz"
    path.write_text(
        "2\nLattice=\"9 0 0 0 9 0 0 0 9\" note='with blanks' config_type={x y} flag "
        "Properties=id:I:1:species:S:1:pos:R:3:tags:I:1 energy=-1e0\n1 O 0 0 0 7\n2 H 1 0 0 8 extra\n\n"
        "1\njust a comment\nAr 1 2 3\n"
    )
    first, second = read_extxyz(path)
    assert first.symbols == ("O", "H")
    assert isinstance(first.space, Orthorhombic)
    assert first.energy == -1.0
    np.testing.assert_array_equal(first.position, [[0, 0, 0], [1, 0, 0]])
    assert isinstance(second.space, OpenSpace)
    np.testing.assert_array_equal(second.position, [[1, 2, 3]])
    np.testing.assert_allclose(read_extxyz(path, SI)[1].position, [[1e-10, 2e-10, 3e-10]])


GOOD = '2\nLattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3 pbc="T T T"\nO 0 0 0\nH 1 0 0\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one frame, but it is empty"),
        (
            GOOD.rstrip().rpartition("\n")[0],
            "cut short: the frame that begins on its line 1 must have 2 atoms, but only 1",
        ),
        (GOOD + "3\n", "frame that begins on its line 5 must have 3 atoms, but only 0"),
        (GOOD.replace("H 1 0 0", "H 1 0"), "Line 4 .*must have 4 columns, but it has 3"),
        (GOOD.replace("H 1 0 0", "H 1 0 O"), "Line 4 .*numbers in the column `pos`, but there is `O`"),
        (GOOD.replace("2\n", "two\n", 1), "Line 1 .*the number of atoms"),
        (GOOD.replace("2\n", "0\n", 1), "Line 1 .*at least 1"),
        (GOOD.replace("T T T", "T T F"), "Line 2 .*periodic along all axes or none.*vacuum"),
        (GOOD.replace("9 0 0 0 9", "9 0 0 9"), "Line 2 .*`Lattice` as 9 numbers"),
        (GOOD.replace("pos:R:3", "pos:R:x"), "Line 2 .*name:type:width"),
        (GOOD.replace("pos:R:3", "xyz:R:3"), "Line 2 .*must name a column `pos:R:3`"),
        (GOOD.replace("pbc", "energy=low pbc"), "Line 2 .*`energy` as a number"),
    ],
)
def test_bad_extxyz(tmp_path, text, message):
    path = tmp_path / "a.xyz"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_extxyz(path)


def test_another_unit_system(tmp_path):
    path = write_extxyz(tmp_path / "a.xyz", full_frame(units=REDUCED))
    with pytest.raises(DataError, match=r"numbers are in reduced and metal units are wanted.*scales"):
        read_extxyz(path, METAL)
    write_extxyz(path, full_frame(units=METAL))
    with pytest.raises(DataError, match=r"numbers are in metal and reduced units are wanted"):
        read_extxyz(path, REDUCED)
    with pytest.raises(simkit.ArgumentError, match="blanks"):
        write_extxyz(path, Frame(OpenSpace(), np.zeros((1, 3)), symbols=["a b"]))


def test_conversion_of_a_frame():
    frame = full_frame(units=METAL)
    real = frame.converted(REAL)
    np.testing.assert_allclose(
        REAL.outside(real.mass, "mass"), convert(METAL.outside(frame.mass, "mass"), "mass", METAL, REAL)
    )
    np.testing.assert_allclose(real.time, 1000 * frame.time, rtol=1e-14)
    np.testing.assert_allclose(real.energy, convert(frame.energy, "energy", METAL, REAL), rtol=1e-14)
    # p^2 / 2 m is an energy in both
    kinetic = lambda f: np.sum(f.momentum**2 / (2 * f.mass)[:, None])
    np.testing.assert_allclose(kinetic(real), convert(kinetic(frame), "energy", METAL, REAL), rtol=1e-13)
    assert_same(real.converted(METAL), frame, rtol=1e-13)


def test_frames():
    frame = full_frame()
    assert repr(frame) == "Frame of 5 atoms of C, Si at step 3, time 0.3 (metal units), with momentum, force, energy"
    assert frame.species(["Si", "C"]).tolist() == [1, 0, 1, 0, 1]
    np.testing.assert_array_equal(frame.state().momentum, frame.momentum)
    np.testing.assert_array_equal(Frame(OpenSpace(), np.ones((2, 3))).state().momentum, 0.0)
    with pytest.raises(simkit.UnknownNameError, match="element `C`"):
        frame.species(["Si", "Ge"])
    for changed, message in (
        ({"position": np.zeros((5, 2))}, r"`position` must have the shape \(atoms, 3\)"),
        ({"force": np.zeros((4, 3))}, r"`force` must have the shape \(5, 3\)"),
        ({"mass": np.zeros(4)}, r"`mass` must have the shape \(5,\)"),
        ({"symbols": ("Si",)}, "`symbols` must name each of the 5 atoms"),
        ({"position": np.full((5, 3), np.nan)}, r"must be finite, but atom 0"),
    ):
        with pytest.raises(simkit.ArgumentError, match=message):
            dataclasses.replace(frame, **changed)


@pytest.mark.parametrize("space", ["box", "skewed", "open"])
def test_ase_round_trip(space):
    pytest.importorskip("ase")
    frame = full_frame(SPACES[space])
    atoms = to_ase(frame)
    np.testing.assert_array_equal(atoms.get_forces(), frame.force)
    assert atoms.get_potential_energy() == frame.energy
    assert_same(from_ase(atoms), frame, rtol=1e-14)
    assert_same(from_ase(atoms, REAL), frame.converted(REAL), rtol=1e-13)
    argon = to_ase(full_frame(units=REDUCED))
    assert from_ase(argon, REDUCED).units == REDUCED


def test_velocities_and_files_in_ase(tmp_path):
    ase = pytest.importorskip("ase")
    io = pytest.importorskip("ase.io")
    frame = full_frame()
    kinetic = np.sum(frame.momentum**2 / (2 * frame.mass)[:, None])
    np.testing.assert_allclose(to_ase(frame).get_kinetic_energy(), kinetic, rtol=1e-12)
    # ASE's unit of time has CODATA 2014 in it, hence 1e-6
    speed = frame.momentum / frame.mass[:, None] * 1e-3  # Angstrom / fs
    np.testing.assert_allclose(to_ase(frame).get_velocities() * ase.units.fs, speed, rtol=1e-6)
    theirs = io.read(write_extxyz(tmp_path / "a.xyz", frame))
    assert_same(from_ase(theirs), frame, rtol=1e-14)
    io.write(tmp_path / "b.xyz", theirs, format="extxyz")
    (back,) = read_extxyz(tmp_path / "b.xyz")
    np.testing.assert_allclose(back.position, frame.position, atol=1e-8)  # ASE writes eight decimals
    np.testing.assert_allclose(back.momentum, frame.momentum, atol=1e-8)
    np.testing.assert_allclose(back.energy, frame.energy)
    slab = ase.Atoms("Cu", cell=[1, 1, 1], pbc=[True, True, False])
    with pytest.raises(simkit.ArgumentError, match="`pbc` is"):
        from_ase(slab)


def test_jax_arrays_are_taken():
    solid = crystal("sc", jnp.asarray(1.0), 2)
    assert isinstance(Frame(solid.space, solid.position).position, np.ndarray)
