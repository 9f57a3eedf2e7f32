"""Waiting for results: Ctrl-C is obeyed, and a standstill becomes an error."""

import os
import signal
import threading
import time

import jax
import jax.numpy as jnp
import pytest

import simkit
from simkit.engine import _awaited, awaited


class Never:
    """A result that never comes."""

    shape = (3,)

    def is_ready(self):
        return False

    def devices(self):
        return {"cpu:0"}


@pytest.fixture
def soon(monkeypatch):
    """A standstill is one after a third of a second, and nothing is arranged for the end of this process."""
    ended = []
    monkeypatch.setattr(_awaited, "STANDSTILL", 0.3)
    monkeypatch.setattr(_awaited, "CHECKED", 0.1)
    monkeypatch.setattr(_awaited, "_end_with_python", lambda: ended.append(True))
    return ended


def test_results_come_as_they_are():
    x = jax.jit(lambda x: jnp.linspace(0.0, x, 1000).sum())(3.0)
    results = {"x": x, "key": jax.random.key(0), "text": "as it is", "none": None}
    assert awaited(results, "fit", "here") is results
    assert jax.jit(lambda x: awaited(x, "fit", "inside") + 1)(1.0) == 2  # tracers are passed over


def test_a_standstill_says_where(soon):
    with pytest.raises(simkit.StandstillError, match=r"`fit` stood still: from 20 starts, .* shape \(3,\) on cpu:0"):
        _awaited._wait(Never(), "fit", "from 20 starts")
    assert soon


def test_work_in_another_thread_is_no_standstill(soon):
    done = threading.Event()
    # Hashing in C computes without the interpreter's lock, as XLA does.
    import hashlib

    def work():
        while not done.is_set():
            hashlib.sha256(bytes(10**6)).digest()

    worker = threading.Thread(target=work)
    worker.start()
    late = time.monotonic() + 1.0

    class Late(Never):
        def is_ready(self):
            return time.monotonic() > late

    try:
        _awaited._wait(Late(), "fit", "from 20 starts")
    finally:
        done.set()
        worker.join()


def test_a_callback_that_sleeps_is_no_standstill(soon):
    def slow(x):
        time.sleep(1.0)
        return x

    f = jax.jit(lambda x: jax.pure_callback(slow, jax.ShapeDtypeStruct((), x.dtype), x))
    assert awaited(f(jnp.ones(())), "simulate", "in a callback") == 1


def test_ctrl_c_is_obeyed_at_once():
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _awaited._wait(Never(), "fit", "from 20 starts")
    assert time.monotonic() - begin < 5.0  # a wait inside of JAX would never end; sleeps are of 20 ms
