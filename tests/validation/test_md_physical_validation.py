"""Runs before the package physical_validation, which knows nothing of ours: kinetic energies, and ensembles at two states.

It is not in the extra `test`, as its last release is for Python 3.11 and older: `pip install physical_validation`.
"""

import warnings

import numpy as np
import pytest
from md_runs import KEY, fluid

import simkit
from simkit import md

with warnings.catch_warnings():  # those of what it imports
    warnings.simplefilter("ignore")
    pv = pytest.importorskip("physical_validation")

pytestmark = pytest.mark.long
H, ATOMS = 0.004, 32
PRESSURE = 16.605390671738466
"""The package counts energies in kJ/mol, lengths in nm and pressures in bar: so many bar are a kJ/mol a cubic nm."""


def drawn(dynamics, ensemble, **state):
    """A run as the package wants it: energies and volumes in reduced units, frames further apart than they remember."""
    system, y0 = fluid(cells=2, dynamics=dynamics)
    run = simkit.simulate(system, y0, np.arange(0.0, 400.0, 0.4), step=H, key=KEY)
    found = md.averages(system, run, after=20.0)
    series = {name: np.asarray(values)[found.kept] for name, values in found.series.items()}
    kinetic, potential = series["kinetic_energy"], series["potential_energy"]
    volume = series.get("volume", np.full(len(kinetic), float(system.space.volume())))
    units = pv.data.UnitData(
        kb=1.0,
        energy_str="eps",
        energy_conversion=1.0,
        length_str="sigma",
        length_conversion=1.0,
        volume_str="sigma^3",
        volume_conversion=1.0,
        temperature_str="eps/k",
        temperature_conversion=1.0,
        pressure_str="eps/sigma^3",
        pressure_conversion=PRESSURE,
        time_str="tau",
        time_conversion=1.0,
    )
    lost = 3 if dynamics.conserves_momentum else 0
    topology = pv.data.SystemData(natoms=ATOMS, nconstraints=0, ndof_reduction_tra=lost, ndof_reduction_rot=0)
    known = {"volume": float(system.space.volume())} if ensemble == "NVT" else {}
    return pv.data.SimulationData(
        units=units,
        dt=0.4,
        system=topology,
        ensemble=pv.data.EnsembleData(ensemble, natoms=ATOMS, **known, **state),
        observables=pv.data.ObservableData(
            kinetic_energy=kinetic, potential_energy=potential, total_energy=kinetic + potential, volume=volume
        ),
    )


def kinetic(data):
    """Mean and width of the kinetic energy, in standard errors from what they must be."""
    return np.asarray(
        pv.kinetic_energy.distribution(data, strict=False, verbosity=0, bootstrap_seed=1, bs_repetitions=200)
    )


def test_a_canonical_run_passes_and_a_wrong_thermostat_does_not():
    right = [drawn(md.StochasticRescaling(t, 0.2), "NVT", temperature=t) for t in (1.5, 1.6)]
    for data in right:
        assert (np.abs(kinetic(data)) < 3).all()
    assert abs(pv.ensemble.check(*right, verbosity=0, bootstrap_seed=1)[0]) < 3
    wrong = drawn(md.Berendsen(1.5, 0.2), "NVT", temperature=1.5)
    assert np.abs(kinetic(wrong))[1] > 5


@pytest.mark.parametrize(
    "make",
    [lambda p: md.MTK(1.5, p, 0.5, 1.5), lambda p: md.StochasticCellRescaling(1.5, p, 0.2, 0.3, 0.1)],
    ids=["MTK", "StochasticCellRescaling"],
)
def test_runs_at_two_pressures_pass(make):
    runs = [drawn(make(p), "NPT", temperature=1.5, pressure=p) for p in (3.0, 3.6)]
    assert (np.abs(kinetic(runs[0])) < 3).all()
    assert abs(pv.ensemble.check(*runs, verbosity=0, bootstrap_seed=1)[0]) < 3
