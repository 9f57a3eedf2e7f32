"""Points: grids, random points, Latin hypercubes and Sobol sequences."""

import functools

import jax
import numpy as np
import pytest

from simkit import ArgumentError, core, sweeps

RANGES = {"a": (0.0, 2.0), "b": (1e-3, 10.0, "log"), "c": (-1.0, 1.0, "linear")}
METHODS = ["random", "latin", "sobol"]


def test_grid_is_all_combinations_the_last_path_fastest():
    points = sweeps.grid({"a": [1.0, 2.0], "b": [3, 4, 5]})
    assert points["a"].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert points["b"].tolist() == [3.0, 4.0, 5.0, 3.0, 4.0, 5.0]
    with pytest.raises(ArgumentError, match="The values of `b` must be a list of numbers"):
        sweeps.grid({"a": [1.0], "b": 2.0})
    with pytest.raises(ArgumentError, match="at least one path"):
        sweeps.grid({})


@pytest.mark.parametrize("method", METHODS)
def test_points_fill_their_ranges(method):
    draw = functools.partial(sweeps.points, RANGES, 256, method=method)
    points = draw(key=jax.random.key(2))
    assert list(points) == list(RANGES)
    for path, (low, high, *_) in RANGES.items():
        values = points[path]
        assert values.shape == (256,)
        assert low <= values.min()
        assert values.max() <= high
        # Half of them lie in the lower half of the range, five standard errors of a fair coin give or take.
        middle = np.sqrt(low * high) if path == "b" else (low + high) / 2
        assert abs((values < middle).sum() - 128) <= 40
    again, other = draw(key=jax.random.key(2)), draw(key=jax.random.key(3))
    assert all(np.array_equal(points[path], again[path]) for path in RANGES)
    assert not any(np.array_equal(points[path], other[path]) for path in RANGES)


def test_hypercubes_and_sequences_are_even():
    for method in ("latin", "sobol"):
        values = sweeps.points({"a": (0.0, 1.0), "b": (0.0, 1.0)}, 64, key=jax.random.key(1), method=method)
        # One point in each of 64 equal parts of each range: a random sample leaves more than a third of them empty.
        assert np.array_equal(np.sort((values["a"] * 64).astype(int)), np.arange(64))
    cells = (values["a"] * 8).astype(int) * 8 + (values["b"] * 8).astype(int)
    assert len(set(cells.tolist())) == 64  # and of the sequence one in each cell of 8 times 8


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ({}, "must be a dictionary of path"),
        ({"a": (1.0, 1.0)}, "low below high"),
        ({"a": (0.0, np.inf)}, "both finite"),
        ({"a": (0.0, 1.0, "log")}, "must be positive, but it begins at 0"),
        ({"a": (0.0, 1.0, "cubic")}, "The range of `a` must be"),
        ({"a": (0.0, "one")}, "The range of `a` must be"),
        ({"a": 1.0}, "The range of `a` must be"),
    ],
)
def test_bad_ranges_are_named(ranges, words):
    with pytest.raises(ArgumentError, match=words):
        sweeps.points(ranges, 4, key=jax.random.key(0))


def test_bad_counts():
    with pytest.raises(ArgumentError, match="`count` must be a power of two, such as 128, but it is 100"):
        sweeps.points(RANGES, 100, key=jax.random.key(0), method="sobol")
    for method in METHODS:
        with pytest.raises(ArgumentError, match="`count` must be a whole number of at least 1"):
            sweeps.points(RANGES, 0, key=jax.random.key(0), method=method)


def test_points_of_a_key_are_those_of_its_number():
    for number in (0, 3, 2**40 + 7):
        assert core.whole_number(jax.random.key(number)) == number
    with pytest.raises(ArgumentError, match="`key` must be a random key, but it is 3"):
        core.whole_number(3)
