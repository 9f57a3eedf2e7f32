"""Scatter search: starts between and beyond the places where others ended."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import ArgumentError, Experiment, Fixed, Free, Problem, fit
from simkit.fitting._recombine import _children, _distinct
from simkit.noise import Normal
from simkit.odes import from_response

NAMES = ("a", "b", "c", "d")


def rastrigin(unit=1.0):
    """Rastrigin's function as a sum of squares: an optimum near every point of whole numbers, the least at 0."""

    def response(x, p):
        places = jnp.stack([p[name] / unit for name in NAMES])
        return jnp.concatenate([places, np.sqrt(20.0) * jnp.sin(jnp.pi * places)])[x.astype(int)]

    data = Experiment("zeros", np.arange(8.0), {"y": np.zeros(8)})
    free = {name: Free(bounds=(-5.12 * unit, 4.9 * unit)) for name in NAMES}
    return Problem(from_response(response, dict.fromkeys(NAMES, unit)), data, free=free, noise={"y": Normal(1.0)})


@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_the_least_of_ten_thousand_optima(unit):
    problem = rastrigin(unit)
    plain = fit(problem, starts=16, key=jax.random.key(0))
    assert plain.log_likelihood < -0.9 - 8 * 0.9189385  # an optimum beside the least one, at 1 or farther
    found = fit(problem, starts=16, recombine=10, key=jax.random.key(0))
    np.testing.assert_allclose(found.estimate, np.zeros(4), atol=1e-6 * unit)
    assert len(found.objective) > len(plain.objective)
    assert np.all(np.diff(found.objective) >= 0)


def test_rounds_in_a_store(tmp_path):
    """A call with more rounds goes on after those that are kept, to the numbers of one that was never interrupted."""
    problem = rastrigin()
    ask = {"starts": 8, "key": jax.random.key(1), "progress": False}
    fit(problem, recombine=1, store=tmp_path / "kept", **ask)
    assert sorted(path.name for path in (tmp_path / "kept").glob("round*")) == ["round1"]
    told = []
    further = fit(problem, recombine=2, store=tmp_path / "kept", **ask | {"progress": told.append})
    whole = fit(problem, recombine=2, store=tmp_path / "whole", **ask)
    np.testing.assert_array_equal(further.objective, whole.objective)
    np.testing.assert_array_equal(further.thetas, whole.thetas)
    assert any("round 2 of 2" in line for line in told)


def test_one_optimum_ends_the_rounds():
    line = from_response(lambda x, p: p["slope"] * x, {"slope": 1.0})
    data = Experiment("line", [1.0, 2.0], {"y": [1.0, 2.0]})
    problem = Problem(line, data, free={"slope": Free(bounds=(0.0, 9.0))}, noise={"y": Normal(0.1)})
    assert len(fit(problem, starts=5, recombine=3).objective) == 5
    # Draws that evolved may have come to one place that is not the best: others, which did not, begin in the first round.
    told: list[str] = []
    evolved = fit(problem, starts=5, screen=2, evolve=30, recombine=3, key=jax.random.key(0), progress=told.append)
    assert len(evolved.objective) == 10
    assert any("round 1 of 3: 5 starts from draws that did not evolve" in line for line in told)


def test_ends_that_are_one_and_children_of_the_rest():
    z = np.array([[0.0, 0.0], [1e-9, 0.0], [1.0, 1.0], [5.0, 5.0], [9.0, 9.0]])
    elite = _distinct(z, np.array([1.0, 1.0, 2.0, np.inf, 3.0]), 4)
    np.testing.assert_array_equal(elite, z[[0, 2, 4]])
    children, own = _children(elite, 200, np.random.default_rng(0))
    assert np.bincount(own).tolist() == [200, 200, 200]
    # The best one's boxes with its neighbour reach half of the way on both sides; with the farthest, away from it alone.
    assert -9.0 <= children[own == 0].min() < -4.0
    assert 0.4 < children[own == 0].max() <= 0.5
    # Those of the worst reach towards the best alone where that is the farthest.
    assert children[own == 2].min() < 1.0


def test_a_count_that_is_none():
    with pytest.raises(ArgumentError, match="Argument `recombine` must be a whole number of at least 0, but it is -1"):
        fit(rastrigin(), recombine=-1)


@pytest.mark.parametrize("starts", [1, np.zeros((1, 4))])
def test_one_start_has_nothing_to_be_joined_with(starts):
    with pytest.raises(ArgumentError, match="Give more `starts`"):
        fit(rastrigin(), starts=starts, recombine=2)


def test_methods_without_descents_refuse_it():
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    data = Experiment("a", [1.0, 2.0], {"hare": [0.5, 0.2]}, start=0.0)
    free = {"growth": Free(bounds=(0.1, 2.0))}
    problem = Problem(system, data, free=free, noise={"hare": Normal(0.1)}, y0=y0, step=Fixed(5))
    with pytest.raises(ArgumentError, match="recombine"):
        fit(problem, method=simkit.EnsembleKalmanInversion(), recombine=2)


def test_rounds_within_a_time(monkeypatch):
    """Rounds for which there is no time are left out, and the result says so."""
    clock = itertools.count(0.0, 30.0)
    monkeypatch.setattr("simkit._budget.clock", lambda: next(clock))
    found = fit(rastrigin(), starts=8, recombine=9, within="5 min", key=jax.random.key(1))
    assert found.cut
    assert 8 <= len(found.objective) < 80
