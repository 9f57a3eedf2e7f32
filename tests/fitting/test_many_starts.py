"""Many starts go through a queue: the same ends as all at once, and hopeless ones are given up."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tree_bitwise_equal

from simkit import Adaptive, Experiment, Free, Problem, from_function
from simkit.fitting import GaussNewton, _start_queue, fit
from simkit.fitting._local_model import best_model
from simkit.fitting._method import HOPELESS
from simkit.fitting._runs import _run, run
from simkit.fitting._start_queue import _hopeless
from simkit.noise import Normal
from simkit.odes import from_response
from simkit.solvers import Tsit5
from simkit.stores import Journal

TIMES = np.linspace(0.0, 3.0, 13)


@pytest.fixture(scope="module")
def problem():
    """A wave whose frequency has many local optima."""
    wave = from_response(lambda x, p: jnp.sin(p["rate"] * x), {"rate": 1.0})
    data = Experiment("wave", TIMES, {"y": np.sin(5.0 * TIMES)})
    return Problem(wave, data, free={"rate": Free(bounds=(0.1, 12.0))}, noise={"y": Normal(0.05)})


def test_a_queue_ends_where_all_at_once_end(problem):
    z, held = jnp.asarray(np.linspace(0.5, 11.5, 37)[:, None]), jnp.zeros((37, 1), bool)
    method = GaussNewton()
    queue = run(problem.lean(), method, 1.0, z, held)
    together = _run(problem.lean(), method, jnp.asarray(1.0), z, held)
    for one, other in zip(jax.tree.leaves(queue), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one, other)


def test_starts_that_cannot_reach_the_best_are_given_up():
    """Of five starts after 110 of 200 steps: at the best, on its way, crawling, crawling but near, and still young."""
    value = np.array([1.0, 100.0, 100.0, 1.5, 100.0])
    pace = np.array([0.0, 0.5, 1e-5, 1e-5, 1e-5])
    state = {
        "model": SimpleNamespace(value=value),
        "gains": np.repeat(pace[:, None], 10, axis=1),
        "iterations": np.array([110, 110, 110, 110, 20]),
    }
    # What is left times ten thousand times the pace: 0, 450000, 9, 9, and too early to say.
    assert list(_hopeless(state, 1.0, 200)) == [False, False, True, False, False]


def test_the_result_says_how_many_were_given_up(problem):
    found = fit(problem, starts=20)
    assert "0 given up" in repr(found)
    assert found.agreeing() >= 2


@pytest.fixture(scope="module")
def chase():
    """A state that follows a cosine at a rate, by an explicit solver: what it costs grows with the rate."""
    system = from_function(lambda t, y, p: {"x": p["rate"] * (jnp.cos(t) - y["x"])}, {"rate": 1.0})
    times = np.linspace(0.0, 6.0, 13)
    # The solution from 1 at the rate 1, of dx/dt = cos t - x.
    data = Experiment("chase", times, {"x": 0.5 * (np.cos(times) + np.sin(times) + np.exp(-times))})
    free = {"rate": Free(bounds=(0.01, 1e5), transform="log")}
    return Problem(system, data, y0={"x": 1.0}, free=free, noise={"x": Normal(0.1)}, solver=Tsit5(), step=Adaptive())


def test_simulations_are_held_at_a_multiple_of_the_median(chase, monkeypatch):
    """Of twenty starts two cost some thirty times as many steps: they wait until the others are done, and end where these do."""
    seen, advanced = [], _start_queue._advanced

    def told(problem, *rest):
        found = advanced(problem, *rest)
        seen.append((float(problem.method.step.budget), np.asarray(found[0]["model"].steps)))
        return found

    monkeypatch.setattr(_start_queue, "_advanced", told)
    rates = np.array([*np.geomspace(0.3, 3.0, 9), 300.0, 400.0, *np.geomspace(0.3, 3.0, 9)])
    ends = fit(chase, starts=rates[:, None], horizons=(1.0,))
    np.testing.assert_allclose(ends.thetas, 1.0, rtol=1e-4)  # as near as the solver's error lets it be
    budgets, most = np.array([budget for budget, _ in seen]), np.array([steps.max() for _, steps in seen])
    assert np.isinf(budgets[0])  # the first step shows what the median is
    assert 250 < most[0] / 2 < 10 * 50
    later = budgets > 5 * budgets[1]
    assert not later[1]
    assert later[-1]
    # Those two stay where they began until all others have ended.
    assert (most[1:][~later[1:]] == most[0]).all()
    assert most[-1] < 100


def test_starts_that_have_ended_simulate_nothing(chase):
    """In a batch of descents those at their end get the fewest steps that there are, whatever the others take."""
    lean = chase.lean()
    live = jnp.array([True, False])
    z = lean.coordinates(jnp.array([[2.0], [2.0]]))
    model, _ = jax.jit(jax.vmap(lambda z, live: best_model(lean, z, None, live)))(z, live)
    assert model.good[0]
    assert not model.good[1]
    assert model.steps[0] > 10 > 1 >= model.steps[1]


def test_a_store_gives_up_the_same_starts_however_often_it_is_interrupted(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(_start_queue, "TURN", 1)
    monkeypatch.setattr(_start_queue, "PATIENCE", 3)
    monkeypatch.setattr(_start_queue, "HOPE", 0.02)
    starts = np.linspace(4.0, 11.5, 18)[:, None]  # the best first
    whole = fit(problem, starts=starts, store=tmp_path / "whole")
    given_up = np.flatnonzero(np.asarray(whole.status) == HOPELESS)
    # The best is in the first block of four: those of later blocks are hopeless beside what was kept.
    assert given_up.size >= 2
    assert given_up.max() > 3
    assert f"{given_up.size} given up" in repr(whole)
    write = Journal.write

    class Crash(Exception):
        pass

    def crash(self, name, arrays):
        write(self, name, arrays)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write", crash)
        for _ in range(4):
            with pytest.raises(Crash):
                fit(problem, starts=starts, store=tmp_path / "killed")
    assert tree_bitwise_equal(fit(problem, starts=starts, store=tmp_path / "killed"), whole)
