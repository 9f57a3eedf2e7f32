"""Signals end a command in time, also where Python cannot see them."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import simkit

# A second lock of a mutex waits for ever in C, without the lock of the interpreter, and no signal ends it.
BLOCKED = """
import ctypes, sys, time
from simkit.cli import _commands, _main, _signals
def blocked(options):
    with _signals.telling(lambda: "Interrupted. All is kept."):
        print("begins", flush=True)
        if {in_c}:
            c, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(256)
            c.pthread_mutex_lock(mutex), c.pthread_mutex_lock(mutex)
        else:
            try:
                time.sleep(60)
            finally:
                time.sleep({after})
    return 0
_commands.models = blocked
sys.argv = ["simkit", "models"]
sys.exit(_main.main())
"""


@pytest.mark.parametrize(
    ("number", "code", "in_c", "after"),
    [
        (signal.SIGINT, 130, True, 0),
        (signal.SIGTERM, 143, True, 0),
        (signal.SIGTERM, 143, False, 0),
        (signal.SIGINT, 130, False, 60),
    ],
)
def test_every_command_ends_within_two_seconds(number, code, in_c, after):
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(simkit.__file__).parents[1])}
    words = [sys.executable, "-c", BLOCKED.format(in_c=in_c, after=after)]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.1)
    began = time.monotonic()
    process.send_signal(number)
    _, text = process.communicate(timeout=20)
    # 1.5 s of grace, and as much again for a machine that is busy.
    assert time.monotonic() - began < 3.0
    assert process.returncode == code
    assert text.strip() == (
        "Interrupted. All is kept." if in_c or after else "Interrupted; nothing was finished that could be kept."
    )
