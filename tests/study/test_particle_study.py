"""Studies of particles: what their tables give, and what is refused with which words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError, StudyError, UnknownNameError, md
from simkit.md.potentials._potential import Sum
from simkit.study import study_from_text
from simkit.study.runs import Found, average_particles

STUDY = """
[study]
seed = 3
[system]
model = "particles"
units = "reduced"
potential = { model = "lennard_jones", sigma = 1.0, cutoff = 2.0, truncation = { model = "switched", inner = 1.7 } }
dynamics = { model = "langevin", temperature = 1.2, friction = 1.0 }
[y0]
builder = "crystal"
lattice = "fcc"
density = 0.7
repeats = 3
[solve]
step = 0.005
[simulate]
times = { from = 0.0, to = 1.0, count = 11 }
trajectory = false
[averages]
after = 0.2
radial_distribution = { cutoff = 2.0, bins = 40 }
diffusion = { between = [0.1, 0.4] }
"""

HELD = '{ model = "mtk", temperature = 1.0, pressure = 1.0, period = 0.3, cell_period = 1.0 }'

SILICON = """
[system]
model = "particles"
units = "metal"
potential = { model = "stillinger_weber", file = "Si.sw", elements = ["Si"] }
dynamics = { model = "mtk", temperature = 300.0, pressure = 1.0, period = 0.1, cell_period = 1.0 }
mass = 28.0855
[y0]
builder = "crystal"
lattice = "diamond"
constant = 5.431
repeats = 2
"""
SW = "Si Si Si 2.1683 2.0951 1.80 21.0 1.20 -0.333333333333 7.049556277 0.6022245584 4.0 0.0 0.0\n"

MIXTURE = """
[system]
model = "particles"
mass = [1.0, 2.0]
charge = [0.5, -0.5]
[[system.potential]]
model = "weeks_chandler_andersen"
sigma = [1.0, 0.8]
cutoff = 1.2
[[system.potential]]
model = "coulomb_dsf"
cutoff = 2.5
[y0]
builder = "liquid"
atoms = 100
density = 0.5
fractions = [0.5, 0.5]
temperature = 1.0
"""


def changed(old, new, text=STUDY):
    """The study with one passage replaced, which must be there."""
    assert old in text
    return text.replace(old, new)


def test_a_study_of_particles_becomes_a_system_and_a_state():
    study = study_from_text(STUDY)
    system = study.system
    assert isinstance(system, md.Particles)
    assert system.potential.cutoff == 2.0
    assert system.potential.truncation == md.Switched(1.7)
    assert float(system.dynamics.temperature) == 1.2
    assert study.y0.position.shape == (108, 3)
    np.testing.assert_allclose(108 / system.space.volume(), 0.7, rtol=1e-12)
    assert study.averages == {"after": 0.2, "cutoff": 2.0, "bins": 40, "between": (0.1, 0.4)}
    assert study.simulate["trajectory"] is False
    np.testing.assert_array_equal(study.simulation_times, np.linspace(0, 1, 11))
    # Momenta follow from the seed, and have the temperature of the dynamics within four standard errors.
    assert abs(float(md.temperature(study.y0.momentum, jnp.ones(108))) - 1.2) < 4 * 1.2 * np.sqrt(2 / 321)
    again, other = study_from_text(STUDY), study_from_text(STUDY, seed=4)
    np.testing.assert_array_equal(study.y0.momentum, again.y0.momentum)
    assert not np.array_equal(study.y0.momentum, other.y0.momentum)
    assert (study.seed, other.seed) == (3, 4)


def test_numbers_stand_in_the_units_of_the_edge_and_potentials_in_files():
    study = study_from_text(SILICON, read={"Si.sw": SW})
    system, units = study.system, md.METAL
    assert study.files == {"Si.sw": SW}
    np.testing.assert_allclose(system.mass, units.inside(28.0855, "mass"), rtol=1e-15)
    np.testing.assert_allclose(system.dynamics.pressure, units.inside(1.0, "pressure"), rtol=1e-15)
    # The cohesive energy of silicon: Stillinger and Weber scaled the depth so that it is two of it an atom.
    np.testing.assert_allclose(float(system.prepared(study.y0).energy(study.y0)) / 64, -2 * 2.1683, atol=1e-4)


def test_a_mixture_with_charges():
    system = study_from_text(MIXTURE).system
    assert isinstance(system.potential, Sum)
    assert set(np.asarray(system.species)) == {0, 1}
    np.testing.assert_array_equal(system.mass, np.where(np.asarray(system.species) == 0, 1.0, 2.0))
    np.testing.assert_array_equal(system.charge, np.where(np.asarray(system.species) == 0, 0.5, -0.5))
    assert isinstance(system.dynamics, md.NVE)


def test_a_start_from_a_file(tmp_path):
    start = md.liquid(jax.random.key(0), 100, 0.5)
    momentum = md.maxwell_boltzmann(jax.random.key(1), jnp.ones(100), 1.0)
    frame = md.Frame(start.space, start.position, mass=np.full(100, 3.0), momentum=momentum)
    text = simkit.io.write_extxyz(tmp_path / "start.xyz", frame).read_text()
    study = study_from_text(
        changed('builder = "crystal"\nlattice = "fcc"\ndensity = 0.7\nrepeats = 3', 'file = "start.xyz"'),
        read={"start.xyz": text},
    )
    np.testing.assert_array_equal(study.y0.position, start.position)
    np.testing.assert_array_equal(study.y0.momentum, momentum)
    np.testing.assert_array_equal(study.system.mass, np.full(100, 3.0))
    with pytest.raises(StudyError, match=r"must be below the number of frames in `start.xyz`, 1, but it is 4"):
        study_from_text(
            changed(
                'builder = "crystal"\nlattice = "fcc"\ndensity = 0.7\nrepeats = 3', 'file = "start.xyz"\nframe = 4'
            ),
            read={"start.xyz": text},
        )


WRONG = {
    "no potential": (
        'potential = { model = "lennard_jones", sigma = 1.0, cutoff = 2.0, truncation = { model = "switched", inner = 1.7 } }',
        "",
        r"\[system\] of `study.toml` must give `potential`",
    ),
    "unknown potential": (
        '"lennard_jones"',
        '"lenard_jones"',
        "no potential `lenard_jones`. Close matches: `lennard_jones`",
    ),
    "unknown argument": (
        "sigma = 1.0",
        "sigam = 1.0",
        r"\[system.potential\].* has no `sigam`. Close matches: `sigma`",
    ),
    "negative": ("sigma = 1.0", "sigma = -1.0", "`sigma` in .*must be positive, but it is `-1.0`"),
    "text for a number": ("sigma = 1.0", 'sigma = "big"', "`sigma` .*must be a number or an array of numbers"),
    "inner beyond cutoff": ("inner = 1.7", "inner = 2.7", r"\[system\].*`inner` must lie between 0 and the cutoff"),
    "missing argument": (", friction = 1.0", "", r"\[system.dynamics\] .* must give `friction` to `langevin`"),
    "unknown dynamics": ('"langevin"', '"langvin"', "no dynamics `langvin`. Close matches: `langevin`"),
    "unknown units": ('"reduced"', '"metric"', "no unit system `metric`"),
    "unknown key": ('units = "reduced"', "unit = 1", r"\[system\] of `study.toml` has no key `unit`"),
    "no start": ('builder = "crystal"', "", "must say where the atoms are at the start"),
    "unknown builder": ('builder = "crystal"', 'builder = "cristal"', "no builder `cristal`"),
    "unknown lattice": ('"fcc"', '"ffc"', r"\[y0\].*no lattice `ffc`"),
    "density and constant": ("density = 0.7", "density = 0.7\nconstant = 1.6", "needs one of `constant`"),
    "too small a cell": ("repeats = 3", "repeats = 0", "`repeats` must be a whole number of at least 1"),
    "other units": ("density = 0.7", "density = 1e22", r"\[y0\].*must leave the atoms room.*not a mass"),
    "averages without a cutoff": ("cutoff = 2.0, bins = 40", "bins = 40", "radial_distribution.*must give `cutoff`"),
    "lags the wrong way": ("[0.1, 0.4]", "[0.4, 0.1]", "`between` .*must be two times, the smaller one first"),
    "a wrong pair": ("bins = 40", "pair = [0]", "`pair` .*must be two species"),
    "no temperature": (
        'dynamics = { model = "langevin", temperature = 1.2, friction = 1.0 }',
        "",
        r"\[y0\].*must give `temperature` for the momenta",
    ),
    "a wrong mass": ('units = "reduced"', "mass = [1.0, 2.0]", r"`mass` .*one a species \(1\) or an atom \(108\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_study_is_refused_in_words(name):
    old, new, words = WRONG[name]
    with pytest.raises((StudyError, UnknownNameError), match=words):
        study_from_text(changed(old, new))


def test_a_wrong_potential_file_is_refused_by_its_line():
    with pytest.raises((StudyError, DataError), match=r"potential file `Si.sw`"):
        study_from_text(SILICON, read={"Si.sw": SW[:40]})
    with pytest.raises(StudyError, match="has metal units, but the study has reduced ones"):
        study_from_text(changed('units = "metal"', "", SILICON), read={"Si.sw": SW})


def test_averages_go_with_particles_only():
    with pytest.raises(StudyError, match=r"\[averages\] .*goes with model = .particles. only"):
        study_from_text('[system]\nmodel = "lotka_volterra"\n[averages]\nafter = 1.0\n')


def test_second_virial_coefficients_are_a_model():
    study = study_from_text(
        '[system]\nmodel = "second_virial"\nscale = 2.0\npotential = { model = "morse", depth = 0.8, cutoff = 9.0 }\n'
    )
    assert isinstance(study.system, md.SecondVirial)
    assert study.system.scale == 2.0
    assert float(study.system.potential.depth) == 0.8


def test_averages_at_a_pressure_have_the_density():
    """What a cell that moves tells is recorded too: 108 atoms of mass 1 over its volume."""
    text = changed('{ model = "langevin", temperature = 1.2, friction = 1.0 }', HELD, changed("radial", "# radial"))
    text = changed("diffusion", "# diffusion", text)
    found = average_particles(study_from_text(text), Found())
    np.testing.assert_allclose(found.series["density"] * found.series["volume"], 108.0, rtol=1e-12)
    assert np.ptp(np.asarray(found.series["volume"])) > 0.1
