"""Draws of a posterior against a published reference."""

import pathlib
import sys

import jax
import numpy as np
import pytest

import simkit

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_hare_and_lynx(monkeypatch):
    """posteriordb's hudson_lynx_hare: means and standard deviations of 10,000 reference draws."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    import lynx_hare

    problem = lynx_hare.build()
    found = simkit.sample(problem, start=simkit.fit(problem, key=jax.random.key(0)), key=jax.random.key(1))
    draws = np.asarray(found.draws)
    # Some 2,000 independent draws: 0.022 of a standard deviation for a mean, 0.016 for a width, eight of each; four of those.
    assert np.abs((draws.mean((0, 1)) - lynx_hare.MEANS) / lynx_hare.SDS).max() < 0.09
    np.testing.assert_allclose(draws.std((0, 1)), lynx_hare.SDS, rtol=0.09)
