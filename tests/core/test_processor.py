"""Settings of XLA for the processor, from a script."""

import os
import subprocess
import sys

import jax
import pytest

import simkit
from simkit import ArgumentError
from simkit.core import _processor


def run(program, flags=""):
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_script_has_what_the_command_line_has():
    program = """
import os, sys, simkit
simkit.enable_processor(devices=3)
import jax
print(jax.device_count(), *os.environ["XLA_FLAGS"].split())
"""
    count, *flags = run(program, "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=2")
    assert count == "3"
    assert flags[0] == "--xla_cpu_enable_fast_math=false"
    assert (_processor.WIDE_VECTORS in flags) == _processor.wide_vectors()


def test_settings_that_come_too_late_are_refused(monkeypatch):
    jax.devices()
    monkeypatch.setenv("XLA_FLAGS", "--a=1")
    with pytest.raises(ArgumentError, match="before JAX computes anything"):
        simkit.enable_processor(devices=7)
    assert os.environ["XLA_FLAGS"] == "--a=1"


def test_what_stands_already_may_be_asked_for_late(monkeypatch):
    monkeypatch.setattr(_processor, "wide_vectors", lambda: True)
    everything = f"{_processor.WIDE_VECTORS} --xla_backend_extra_options=x --xla_force_host_platform_device_count=2"
    monkeypatch.setenv("XLA_FLAGS", everything)
    simkit.enable_processor(devices=2)
    assert os.environ["XLA_FLAGS"].split() == everything.split()
