"""The one progress mechanism: who is told what, where nothing is told, and that transformed verbs stay pure."""

import io
import sys
import threading
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import simkit
from simkit import _progress
from simkit._progress import Progress

SYSTEM, Y0, TIMES, _ = simkit.odes.ExponentialDecay.example()
LINE = simkit.odes.from_response(lambda t, p: p["slope"] * t, {"slope": 1.0})
DATA = simkit.Experiment("line", np.arange(1.0, 6.0), {"y": [1.1, 1.9, 3.0, 4.1, 4.9]})
PROBLEM = simkit.Problem(
    LINE, DATA, free={"slope": simkit.Free(dist.Normal(1.0, 1.0))}, noise={"y": simkit.noise.Normal(0.1)}
)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def fit():
    return simkit.fit(PROBLEM, starts=2, progress=False)


def assimilate(progress):
    members = simkit.assimilation.members_around(Y0, 5, key=KEY, deviation=0.1)
    seen = simkit.assimilation.Observations(
        np.array([1.0, 2.0]), {"amount": np.array([1.0, 0.5])}, errors=0.1, start=0.0
    )
    return simkit.assimilate(SYSTEM, members, seen, method=simkit.assimilation.ETKF(), step=0.1, progress=progress)


VERBS = {
    "fit": lambda fit, folder, progress: simkit.fit(PROBLEM, starts=2, progress=progress),
    "fit with a store": lambda fit, folder, progress: simkit.fit(PROBLEM, starts=5, store=folder, progress=progress),
    "profile": lambda fit, folder, progress: simkit.profile(PROBLEM, fit, points=3, progress=progress),
    "profile of a prediction": lambda fit, folder, progress: simkit.profile_prediction(
        PROBLEM, fit, "y", [1.0], progress=progress
    ),
    "sample": lambda fit, folder, progress: simkit.sample(
        PROBLEM, start=fit, key=KEY, chains=2, draws=20, warmup=20, progress=progress
    ),
    "predict": lambda fit, folder, progress: simkit.predict(PROBLEM, fit.estimate[None], progress=progress),
    "calibrate": lambda fit, folder, progress: simkit.calibrate(
        PROBLEM, key=KEY, simulations=24, draws=9, thin=1, warmup=50, chains=1, starts=1, progress=progress
    ),
    "ensemble": lambda fit, folder, progress: simkit.ensemble(
        SYSTEM, Y0, TIMES, over={"rate": np.array([0.1, 0.2])}, progress=progress
    ),
    "assimilate": lambda fit, folder, progress: assimilate(progress),
    "sweep": lambda fit, folder, progress: simkit.sweep(
        SYSTEM, Y0, TIMES, over={"rate": np.array([0.1, 0.2])}, store=folder, progress=progress
    ),
    "record": lambda fit, folder, progress: simkit.record(SYSTEM, Y0, TIMES, store=folder, progress=progress),
    "train": lambda fit, folder, progress: simkit.train(
        {"a": jnp.ones(3)}, lambda model: jnp.sum(model["a"] ** 2), steps=20, every=10, progress=progress
    ),
}
WORDS = {
    "fit": "data up to 100%",
    "fit with a store": "5 of 5 starts",
    "profile": "sides open",
    "profile of a prediction": "2 sides",
    "sample": "divergent",
    "calibrate": "24 of 24 simulations",
    "predict": "1 draws",
    "ensemble": "2 members",
    "assimilate": "2 cycles",
    "sweep": "2 of 2 members",
    "record": "0:00 left",
    "train": "loss",
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_and_is_silent_in_pipes(verb, fit, tmp_path, capsys):
    lines = []
    VERBS[verb](fit, tmp_path / "one", lines.append)
    assert any(WORDS[verb] in line for line in lines), lines
    VERBS[verb](fit, tmp_path / "two", None)
    VERBS[verb](fit, tmp_path / "three", False)
    assert capsys.readouterr() == ("", "")
    VERBS[verb](fit, tmp_path / "four", True)
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err
    assert "\r" not in found.err


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    found = Terminal()
    # Not `sys.stderr`, which pytest sets again between a fixture and its test.
    monkeypatch.setattr(_progress, "sys", types.SimpleNamespace(stderr=found, stdout=found, modules={}))
    monkeypatch.setattr(_progress, "AFTER", 0.05)
    monkeypatch.setattr(_progress, "REFRESH", 0.02)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("SIMKIT_PROGRESS", raising=False)
    return found


def test_a_terminal_has_one_line_that_moves(terminal):
    with Progress(4, 0, None, "things", "make") as counter:
        for _ in range(4):
            counter.add(1, detail="best 0.5")
            with Progress(9, 0, None, "inner"):  # a verb that another calls
                time.sleep(0.06)
    text = terminal.getvalue()
    assert text.count("\r") > 3
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "make: 4 of 4 things" in text
    assert "best 0.5" in text
    assert "inner" not in text
    assert max(len(line) for line in text.split("\r")) <= 60
    assert not [thread for thread in threading.enumerate() if thread.name == "simkit progress"]


def test_short_work_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "AFTER", 60.0)
    with Progress(4, 0, None) as counter:
        counter.add(4)
    assert terminal.getvalue() == ""


def test_the_switch_of_the_environment(terminal, monkeypatch, capsys):
    monkeypatch.setenv("SIMKIT_PROGRESS", "0")
    assert Progress(1, 0, None).silent
    assert not Progress(1, 0, True).silent
    monkeypatch.setattr(_progress, "sys", types.SimpleNamespace(stderr=io.StringIO(), modules={}))
    monkeypatch.setenv("SIMKIT_PROGRESS", "1")
    assert Progress(1, 0, None).mode == "lines"


def test_a_failure_ends_the_line_and_the_thread(terminal):
    def broken():
        with Progress(None, 0, None, verb="make"):
            time.sleep(0.15)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        broken()
    assert terminal.getvalue().endswith("\n")
    assert not [thread for thread in threading.enumerate() if thread.name == "simkit progress"]


def test_transformed_verbs_are_pure(terminal, monkeypatch, fit):
    """Under jit, vmap and grad a verb starts no thread and prints nothing, however long tracing takes."""
    begun = []
    monkeypatch.setattr(threading.Thread, "start", lambda self: begun.append(self.name))

    def last(rate):
        found = simkit.ensemble(SYSTEM, Y0, TIMES, over={"rate": rate * jnp.ones(2)}, step=0.1, progress=True)
        return found.ys.amount[:, -1].sum()

    rate = jnp.asarray(0.3)
    assert np.isfinite(jax.jit(last)(rate))
    assert np.isfinite(jax.grad(last)(rate))
    assert np.isfinite(jax.vmap(last)(rate[None])).all()
    curve = jax.jit(lambda theta: simkit.predict(PROBLEM, theta[None], progress=True).curves["y"])(fit.estimate)
    assert np.isfinite(curve).all()
    assert begun == []
    assert terminal.getvalue() == ""


def test_notebooks_are_terminals(monkeypatch, capsys):
    class ZMQInteractiveShell:
        pass

    class Module:
        get_ipython = staticmethod(ZMQInteractiveShell)

    monkeypatch.setitem(sys.modules, "IPython", Module)
    monkeypatch.setattr(_progress, "AFTER", 0.01)
    monkeypatch.delenv("SIMKIT_PROGRESS", raising=False)
    with Progress(None, 0, None, verb="make"):
        time.sleep(0.1)
    found = capsys.readouterr()
    assert "\rmake: 0:00" in found.out
    assert found.err == ""
