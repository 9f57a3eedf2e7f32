"""Chains that several processes share: the draws are those of one process, and each holds all of them."""

import pathlib

import numpy as np
import one_sample
import pytest
from helpers import in_processes

import simkit


@pytest.mark.slow
def test_two_processes_draw_what_one_draws(tmp_path):
    """Three chains, so that one of the processes has two of them and the other one beside a repeat."""
    one, two = (np.load(result) for result in in_processes(pathlib.Path(one_sample.__file__), tmp_path))
    problem = one_sample.example()
    for name, chains in (("drawn", one_sample.CHAINS), ("alone", 1)):
        expected = simkit.sample(problem, **one_sample.asked(problem, chains=chains))
        # The same arithmetic in programs of fewer lanes: rounding, which trajectories enlarge.
        np.testing.assert_allclose(one[name], expected.draws, rtol=1e-7)
    again = one_sample.restarted(problem)
    np.testing.assert_allclose(one["again"], again.draws, rtol=1e-7)
    assert any("chain 2 (for this test)" in text for text in again.warnings)
    for name in one.files:
        np.testing.assert_array_equal(one[name], two[name])
    np.testing.assert_array_equal(one["steps"], simkit.sample(problem, **one_sample.asked(problem)).steps)
    for name in ("kept", "resumed"):
        np.testing.assert_allclose(one[name], one["drawn"], rtol=1e-7)
    np.testing.assert_array_equal(one["read"], one["kept"])
