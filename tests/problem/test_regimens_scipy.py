"""Doses of a subject with saturable elimination and two compartments, beside SciPy, which is stopped and started by hand."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import simkit
from simkit.problem import Dose, Doses, dose_event


@pytest.mark.slow
def test_phenytoin_with_infusions_a_reset_and_a_steady_state():
    system = simkit.odes.TwoCompartment()
    y0 = {"central": 0.0, "peripheral": 0.0}
    doses = [
        Dose(300.0, 0.0, "central", rate=150.0, every=24.0, steady=True),
        Dose(100.0, 1.0, "central", duration=4.0),
        Dose(200.0, 20.0, "peripheral", resets=True),
    ]
    event = dose_event(Doses(doses), y0)
    times = np.array([0.0, 0.5, 1.5, 2.5, 4.0, 12.0, 19.0, 21.0, 30.0])
    tight = simkit.Adaptive(1e-9, 1e-10)
    found = simkit.simulate(system, y0, times, events={"dose": event}, step=tight).ys

    def field(t, y, rate):
        central, peripheral = y / 25.0
        spread = 10.0 * (central - peripheral)
        return [rate - 21.0 * central / (5.0 + central) - spread, spread]

    def along(y, pieces):
        """The state at the end of pieces of (length, rate)."""
        for length, rate in pieces:
            y = solve_ivp(field, (0.0, length), y, args=(rate,), method="DOP853", rtol=1e-11, atol=1e-11).y[:, -1]
        return y

    state = np.zeros(2)
    for _ in range(150):  # cycle by cycle
        state = along(state, [(2.0, 150.0), (22.0, 0.0)])
    # Rates from 0 on: the first infusion ends at 2, the second lasts from 1 to 5.
    schedule = [(0.0, 1.0, 150.0), (1.0, 2.0, 175.0), (2.0, 5.0, 25.0), (5.0, 20.0, 0.0)]
    for i, t in enumerate(times[1:7], 1):
        expected = along(state, [(min(t, b) - a, rate) for a, b, rate in schedule if t > a])
        np.testing.assert_allclose([found.central[i], found.peripheral[i]], expected, rtol=1e-6)
    for i in (7, 8):
        expected = along(np.array([0.0, 200.0]), [(times[i] - 20.0, 0.0)])
        np.testing.assert_allclose([found.central[i], found.peripheral[i]], expected, rtol=1e-6)
