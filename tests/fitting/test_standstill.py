"""Fits of many parameters from many starts come to their end in plain Python processes, on few cores and several devices."""

import importlib.util
import os
import pathlib
import shutil
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks" / "standstill.py"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("taskset") is None, reason="cores are chosen by taskset")
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_fits_of_46_parameters_come_to_their_end(count, devices):
    """On JAX 0.10 and two cores they stood still, each within a minute or two of processor time."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < count:
        pytest.skip(f"there are {len(cores)} cores")
    spec = importlib.util.spec_from_file_location("standstill", SCRIPT)
    standstill = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(standstill)
    chosen = ",".join(map(str, cores[:count]))
    for _ in range(3):
        how, line = standstill.watched(sys.executable, chosen, devices, 600.0)
        assert how == "ended", line
