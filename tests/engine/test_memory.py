"""Devices without memory for an ensemble: fewer lanes, then a sentence."""

import jax
import numpy as np
import pytest

import simkit
from simkit import SimulationError
from simkit.engine import _ensemble

SYSTEM, Y0, _, _ = simkit.odes.LotkaVolterra.example()
TIMES = np.linspace(0.0, 2.0, 5)
FULL = "RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes."


@pytest.fixture
def device(monkeypatch):
    """A device that has memory for so many lanes; the lanes that were asked for."""
    asked, real = [], _ensemble._run

    def run(task, values, members, options):
        asked.append(options.solve.lanes)
        if device.room < (options.solve.lanes or members):
            raise jax.errors.JaxRuntimeError(FULL)
        return real(task, values, members, options)

    def device(room):
        device.room = room
        return asked

    monkeypatch.setattr(_ensemble, "_run", run)
    return device


def test_fewer_members_at_a_time(device):
    over = {"growth": np.linspace(0.4, 0.7, 600)}
    asked = device(100)
    found = simkit.ensemble(SYSTEM, Y0, TIMES, over=over, step=simkit.Fixed(2))
    assert asked == [None, 75]
    device(600)
    whole = simkit.ensemble(SYSTEM, Y0, TIMES, over=over, step=simkit.Fixed(2))
    np.testing.assert_allclose(found.ys.hare, whole.ys.hare, rtol=1e-12)


def test_what_no_number_of_lanes_helps_is_told(device):
    asked = device(0)
    with pytest.raises(SimulationError, match=r"too little memory for an ensemble of 600 members.*RESOURCE"):
        simkit.ensemble(SYSTEM, Y0, TIMES, over={"growth": np.linspace(0.4, 0.7, 600)}, step=simkit.Fixed(2))
    assert asked == [None, 75]
