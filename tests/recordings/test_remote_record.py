"""Recordings in an object store."""

import fsspec
import numpy as np

import simkit


def test_a_recording_in_an_object_store_goes_on():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    times, url = np.linspace(0.0, 4.0, 9), "memory://bucket/recording"
    try:
        run = simkit.record(system, y0, times[:5], store=url, every=4)
        longer = simkit.record(system, y0, times, store=url, every=4)
        again = simkit.recordings.open(url)
        assert str(again.store) == str(run.store) == url
        np.testing.assert_array_equal(again.final()["hare"], longer.final().hare)
        np.testing.assert_allclose(longer.final().hare, simkit.simulate(system, y0, times).ys.hare[-1], rtol=1e-4)
    finally:
        fsspec.filesystem("memory").store.clear()
