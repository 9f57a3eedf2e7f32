"""One grid over devices of two processes: the run of one process, to rounding, and recordings that each writes its part of."""

import pathlib

import jax
import numpy as np
import pytest
from helpers import in_processes
from one_grid import LONG, PROBES, RUNS, TIMES, recorded, slope, water

import simkit

# Sums in another order, in some tens of steps: some hundred roundings of numbers of order 1.
ROUNDING = 2e-13


@pytest.mark.slow
def test_two_processes_simulate_and_record_one_grid(tmp_path):
    script = pathlib.Path(__file__).parents[1] / "one_grid.py"
    one, two = (dict(np.load(result)) for result in in_processes(script, tmp_path))
    for name in one:
        if name != "words":
            np.testing.assert_array_equal(one[name], two[name])
    for name, (make, step) in RUNS.items():
        system, start = make()
        run = simkit.simulate(system, start, TIMES, step=step())
        on = simkit.simulate(system, run.final(), TIMES, step=step())
        for part, x in enumerate(jax.tree.leaves((run.ys, on.ys))):
            np.testing.assert_allclose(one[f"{name}, {part}"], x, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(one["slope"], slope(water, None), rtol=1e-11)
    check_recording(tmp_path, one)
    far, apart, members, saved, part = one["words"]
    assert "failed. Step limit reached" in far or "max_steps" in far
    assert "All processes must call `simulate` with the same arguments" in apart
    assert "gravity" in apart
    assert "`ensemble` takes no grid over devices of several processes" in members
    assert "Call `record`" in saved
    assert "Argument `y0` of `record` must be known to every process" in part
    assert "height    float64[3, 8, 6]" in str(one["printed"])


def check_recording(folder, one):
    """The recording that two processes wrote is read by one, which joins its pieces, and is that of one process."""
    alone = recorded(water, folder / "alone")
    run = simkit.recordings.open(folder / "store", water()[1])
    assert len(list((folder / "store").glob("piece-of-part-*.h5"))) == 2 * run.parts
    np.testing.assert_array_equal(run.trajectory().ys.height, one["frames"])
    for a, b in zip(jax.tree.leaves(run.trajectory().ys), jax.tree.leaves(alone.trajectory().ys), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=ROUNDING)
    for name in PROBES:
        np.testing.assert_allclose(run[name], alone[name], rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(run.probe_times, LONG)
    np.testing.assert_allclose(one["mean"], alone.reduced["mean"].height, rtol=0, atol=ROUNDING)
    next((folder / "store").glob("piece-of-part-000002-00001-*.h5")).unlink()
    assert simkit.recordings.open(folder / "store").end == LONG[8]  # a part is whole or not there
