"""Arguments of the wrong kind are told in a sentence before anything is traced."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
import wrong_calls

import simkit
from simkit._doors import check_count, check_entries, check_key, check_kind, check_mapping
from simkit.core import as_state, check_supports, check_system
from simkit.solvers._named import SOLVERS, as_solver


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What every wrong call comes to without the checks of types that the tests of simkit run under, as for a user."""
    folder = tmp_path_factory.mktemp("doors")
    ran = subprocess.run(
        [sys.executable, wrong_calls.__file__], capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert not list(Path(folder).iterdir())  # nothing was begun
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", wrong_calls.ROWS)
def test_a_wrong_call_is_told_what_to_write(name, told):
    kind, text, ours = told[name]
    pattern = re.sub(r"([()\[\]{}])", r"\\\1", wrong_calls.ROWS[name][1])
    assert ours, f"{kind}: {text}"
    assert re.search(pattern, text, re.DOTALL), text
    assert text.endswith((".", "`.", ")."))  # a sentence


@pytest.mark.parametrize("name", wrong_calls.OWN_ERRORS)
def test_an_exception_of_the_users_function_comes_out_as_it_is(name, told):
    kind, _, ours = told[name]
    assert kind == wrong_calls.OWN_ERRORS[name][1]
    assert not ours


def test_a_dictionary_and_a_name_are_as_good():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    times = np.linspace(0.0, 2.0, 5)
    expected = simkit.simulate(system, y0, times, solver=simkit.solvers.Tsit5())
    given = {"hare": float(y0.hare), "lynx": float(y0.lynx)}
    found = simkit.simulate(system, given, times, solver="tsit5")
    jax.tree.map(np.testing.assert_array_equal, found.ys, expected.ys)


def test_every_solver_without_arguments_has_its_name():
    classes = {
        kind
        for kind in vars(simkit.solvers).values()
        if isinstance(kind, type)
        and issubclass(kind, simkit.solvers.Stepper)
        and not kind.__name__.startswith(("Abstract", "Stepper"))
    }
    # The first are what particles and discrete systems bring, the others take solvers: one of Diffrax, and those of the parts of
    # a coupled system, the stochastic one whose steps adapt, and the one that a run takes by itself where a system jumps.
    given = {
        simkit.solvers.ParticleStepper,
        simkit.solvers.DiscreteStepper,
        simkit.solvers.FromDiffrax,
        simkit.solvers.Strang,
        simkit.solvers.HalfSteps,
        simkit.solvers.WithJumps,
    }
    assert classes - set(SOLVERS.values()) == given
    assert all(isinstance(as_solver(name), kind) for name, kind in SOLVERS.items())


def test_the_doors_cost_next_to_nothing():
    """Under 20 microseconds a call; the least of many, since other work may come between."""
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    free, key, least = {"growth": simkit.Free()}, jax.random.key(0), 1.0
    solver = simkit.solvers.Tsit5()
    for _ in range(200):
        begin = time.perf_counter()
        check_system(system, y0)
        as_state(system, y0)
        check_supports(system)
        check_key(key)
        as_solver(solver)
        check_mapping("free", free, "unknowns", "{}")
        check_entries("free", free, simkit.Free, "an unknown", "")
        check_kind("free", free, dict, "a dictionary", "")
        check_count("count", 3)
        least = min(least, time.perf_counter() - begin)
    # All doors at once, the conversion of the state included; the checked types of the tests make it some ten times slower.
    assert least < 1e-3
