"""Runs that blow up, and starts from which they must: what the error says."""

import numpy as np
import pytest
from md_runs import H, fluid

import simkit
from simkit import md


@pytest.mark.slow
def test_a_step_that_is_too_long_names_the_pair_and_a_better_step():
    system, y0 = fluid()
    with pytest.raises(simkit.SimulationError, match=r"atoms \d+ and \d+ \(from 0\).*try `step=0.00\d`") as caught:
        simkit.simulate(system, y0, [0.0, 0.5], step=0.05)
    assert "In step 3 of length 0.05 after the time 0" in str(caught.value)
    better = float(str(caught.value).split("step=")[1].rstrip("`."))
    # The crystal is stiff: its highest frequency, about 100, has a period of 0.05.
    assert 0.0005 < better < 0.01
    found = simkit.simulate(system, y0, [0.0, 0.5], step=0.05, on_failure="mark")
    assert found.status == int(simkit.Status.NON_FINITE)
    assert not np.isfinite(found.final().position).any()


def test_atoms_that_overlap_at_the_start_are_named():
    system, y0 = fluid()
    near = md.Atoms(y0.position.at[5].set(y0.position[40] + 0.05), y0.momentum)
    with pytest.raises(simkit.SimulationError, match=r"Atoms 5 and 40 overlap.*0\.0866.*minimise"):
        simkit.simulate(system, near, [0.0, 0.5], step=H)
    same = md.Atoms(y0.position.at[5].set(y0.position[40]), y0.momentum)
    with pytest.raises(simkit.ArgumentError, match="atoms 5 and 40"):
        simkit.simulate(system, same, [0.0, 0.5], step=H)


@pytest.mark.slow
def test_an_absurd_pressure_is_not_blamed_on_the_step():
    system, y0 = fluid(dynamics=md.MTK(0.8, 1e6, 0.4, 2.0))
    with pytest.raises(simkit.SimulationError, match=r"barostat asks for a pressure of 1e\+06.*whatever the step"):
        simkit.simulate(system, y0, [0.0, 0.5], step=H)
