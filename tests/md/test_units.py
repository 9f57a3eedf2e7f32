"""Unit systems: beside published constants, LAMMPS' documentation and ASE, and against themselves."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit.md import METAL, REAL, REDUCED, SI, convert, reduced
from simkit.md.space._unit_text import si_value
from simkit.md.space._units import DIMENSIONS, UNIT_SYSTEMS

# The constants that LAMMPS uses (docs.lammps.org, `units`; its source `update.cpp`): older CODATA, hence 3e-6.
LAMMPS = {
    "metal": {"boltzmann": 8.617343e-5, "mass": 1.0364269e-4, "pressure": 1.6021765e6, "coulomb": 14.399645},
    "real": {"boltzmann": 0.0019872067, "mass": 48.88821291**2, "pressure": 68568.415, "coulomb": 332.06371},
}


@pytest.mark.parametrize("name", sorted(LAMMPS))
def test_constants_of_lammps(name):
    units, known = UNIT_SYSTEMS[name], LAMMPS[name]
    assert units.boltzmann == pytest.approx(known["boltzmann"], rel=3e-6)
    assert units.inside(1.0, "mass") == pytest.approx(known["mass"], rel=3e-6)
    assert units.outside(1.0, "pressure") == pytest.approx(known["pressure"], rel=3e-6)
    assert units.coulomb == pytest.approx(known["coulomb"], rel=3e-6)


def test_constants_of_codata():
    assert METAL.boltzmann == pytest.approx(8.617333262e-5, rel=1e-10)  # eV/K, CODATA 2022 to its printed digits
    assert SI.boltzmann == 1.380649e-23
    # Hartree times Bohr radius of CODATA 2022: e^2 / (4 pi epsilon_0), printed to 12 digits
    assert METAL.coulomb == pytest.approx(27.211386245981 * 0.529177210544, rel=1e-11)
    # R = N_A k_B in kcal / (mol K)
    assert REAL.boltzmann == pytest.approx(8.31446261815324 / 4184.0, rel=1e-14)


@pytest.mark.parametrize("dimension", sorted(DIMENSIONS))
def test_conversions_go_round(dimension):
    argon = reduced(length=3.405, energy=0.0103236, mass=39.948)
    for a, b, c in itertools.permutations((METAL, REAL, SI, argon), 3):
        there = convert(convert(convert(2.5, dimension, a, b), dimension, b, c), dimension, c, a)
        assert there == pytest.approx(2.5, rel=1e-13)  # some ten roundings
    assert convert(2.5, dimension, REDUCED, REDUCED) == 2.5


def test_known_conversions():
    assert convert(1.0, "energy", METAL, SI) == 1.602176634e-19
    assert convert(1.0, "energy", METAL, REAL) == pytest.approx(23.060547830619026, rel=1e-14)
    assert convert(1.0, "pressure", REAL, METAL) == pytest.approx(1.01325, rel=1e-14)
    assert convert(28.0855, "mass", METAL, REAL) == pytest.approx(28.0855, rel=1e-14)
    assert convert(1.0, "velocity", METAL, REAL) == pytest.approx(1e-3, rel=1e-14)
    assert convert(1.0, "viscosity", METAL, SI) == pytest.approx(0.1, rel=1e-14)
    assert convert(1.0, "electric conductivity", SI, SI) == 1.0
    assert METAL.to_unit(METAL.inside(1.0, "pressure"), "pressure", "GPa") == pytest.approx(1e-4, rel=1e-14)
    assert METAL.from_unit(1.0, "pressure", "GPa") == pytest.approx(1 / 160.2176634, rel=1e-14)


def test_numbers_inside_are_coherent():
    """Kinetic energy m v^2 / 2, force times length and pressure times volume are energies without any factor."""
    for units in (METAL, REAL, SI, reduced(3.405, 0.0103236, 39.948)):
        energy = units.si("energy")
        assert units.si("mass") * units.si("velocity") ** 2 == pytest.approx(energy, rel=1e-14)
        assert units.si("force") * units.si("length") == pytest.approx(energy, rel=1e-14)
        assert units.si("pressure") * units.si("volume") == pytest.approx(energy, rel=1e-14)
        assert units.si("momentum") == pytest.approx(units.si("mass") * units.si("velocity"), rel=1e-14)
        assert units.si("voltage") * units.si("charge") == pytest.approx(energy, rel=1e-14)
        coulomb = units.coulomb * energy * units.si("length") / units.si("charge") ** 2
        assert coulomb == pytest.approx(8.9875517862e9, rel=1e-10)


def test_reduced_units_of_argon():
    """Frenkel and Smit (2002), Understanding Molecular Simulation, table 3.1: 3.405 A, 119.8 K, 0.03994 kg/mol."""
    argon = reduced(length=3.405, energy=METAL.boltzmann * 119.8, mass=39.94)
    assert convert(1.0, "temperature", argon, SI) == pytest.approx(119.8)
    assert convert(1.0, "pressure", argon, SI) == pytest.approx(41.9e6, rel=3e-3)  # printed to three digits
    assert convert(1.0, "density", argon, SI) == pytest.approx(1680, rel=3e-3)
    assert convert(0.005, "time", argon, SI) == pytest.approx(1.09e-14, rel=2e-2)


def test_units_pass_through_programs():
    """The system holds no arrays: it is structure, and its conversions are differentiable."""
    assert jax.tree.leaves(METAL) == []
    half = jax.jit(lambda units, x: convert(x, "energy", units, REAL))(METAL, jnp.float32(0.5))
    assert half.dtype == jnp.float32
    slope = jax.grad(lambda x: METAL.outside(x**2, "mass"))(3.0)
    np.testing.assert_allclose(slope, METAL.outside(6.0, "mass"), rtol=1e-14)


def test_errors():
    with pytest.raises(simkit.UnknownNameError, match=r"`presure`.*`pressure`"):
        convert(1.0, "presure", METAL, SI)
    with pytest.raises(simkit.ArgumentError, match=r"scales.*reduced\(length, energy, mass\)"):
        convert(1.0, "length", REDUCED, SI)
    with pytest.raises(simkit.ArgumentError, match="scales"):
        convert(1.0, "length", METAL, REDUCED)
    with pytest.raises(simkit.ArgumentError, match="`energy` must be positive"):
        reduced(1.0, -1.0, 1.0)
    with pytest.raises(simkit.ArgumentError, match=r"`Angstrem-1` in `eV Angstrem-1` is none.*`Angstrom`"):
        si_value("eV Angstrem-1")
    with pytest.raises(simkit.ArgumentError, match="is empty"):
        si_value(" ")


def test_beside_ase():
    units = pytest.importorskip("ase.units")
    # ASE 3.29 has CODATA 2014: its k_B, e and N_A differ from those of today by up to 6e-7.
    assert METAL.boltzmann == pytest.approx(units.kB, rel=1e-6)
    assert METAL.outside(1.0, "pressure") == pytest.approx(1 / units.bar, rel=1e-6)
    assert convert(1.0, "energy", REAL, METAL) == pytest.approx(units.kcal / units.mol, rel=1e-6)
    # its unit of time is Angstrom sqrt(u / eV)
    assert math.sqrt(METAL.inside(1.0, "mass")) == pytest.approx(1e-3 / units.fs, rel=1e-6)
