"""Rules: members made from their numbers, chunk by chunk, are those of the lists that they stand for."""

import dataclasses
import functools

import h5py
import jax
import numpy as np
import pytest
import scipy.stats
import xarray

import simkit
from simkit import ArgumentError, StoreError, sweeps
from simkit.sweeps import _view

SYSTEM, Y0, _, _ = simkit.odes.LotkaVolterra.example()
TIMES = np.array([0.0, 0.5, 1.0])
RANGES = {"growth": (0.3, 1.0), "y0.lynx": (1.0, 10.0, "log")}
KEY = jax.random.key(4)

run = functools.partial(simkit.sweep, SYSTEM, Y0, TIMES, step=0.25, progress=False)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("chunk-")}


def test_rules_give_the_members_of_lists():
    axes = {"a": [1.0, 2.0], "b": [3, 4, 5], "c": [0.0, 1.0]}
    grid, whole = sweeps.GridRule(axes), sweeps.grid(axes)
    numbers = np.array([11, 0, 7])
    assert grid.count == 12
    drawn, points = sweeps.PointsRule(RANGES, 4096, key=KEY), sweeps.points(RANGES, 4096, key=KEY, method="sobol")
    assert all(np.array_equal(grid.at(numbers)[path], whole[path][numbers]) for path in axes)
    # SciPy goes from point to point, a rule to each by itself.
    assert all(np.array_equal(drawn.at(np.arange(4096))[path], points[path]) for path in RANGES)
    assert drawn.at(np.array([4095]))["growth"] == points["growth"][-1]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000, 4097])
def test_a_hypercube_by_rule_has_one_point_in_every_part(count):
    ranges = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    found = sweeps.PointsRule(ranges, count, key=KEY, method="latin").at(np.arange(count))
    for values in found.values():
        np.testing.assert_array_equal(np.sort((values * count).astype(int)), np.arange(count))
    if count > 100:
        # Ranks of both quantities, and of neighbours, are independent: tests that one in a thousand keys fails.
        assert scipy.stats.spearmanr(found["a"], found["b"]).pvalue > 1e-3
        assert scipy.stats.spearmanr(found["a"][1:], found["a"][:-1]).pvalue > 1e-3
        assert scipy.stats.kstest(found["a"] * count % 1, "uniform").pvalue > 1e-3
    other = sweeps.PointsRule(ranges, count, key=jax.random.key(5), method="latin").at(np.arange(count))
    assert count < 3 or not np.array_equal(other["a"], found["a"])


def test_a_sweep_by_rule_is_that_of_its_list(tmp_path):
    rule, held = sweeps.PointsRule(RANGES, 64, key=KEY), sweeps.points(RANGES, 64, key=KEY, method="sobol")
    by_rule, by_list = (
        run(over=rule, store=tmp_path / "rule", chunk=24),
        run(over=held, store=tmp_path / "list", chunk=24),
    )
    np.testing.assert_array_equal(by_rule["hare"][:], by_list["hare"][:])
    read = sweeps.open(tmp_path / "rule")
    assert read.names == ("hare", "lynx")
    for path in RANGES:
        np.testing.assert_array_equal(read.values[path], held[path])
        np.testing.assert_array_equal(read[path][[5, 63]], held[path][[5, 63]])
    assert read.trajectory([3, 40]).over["growth"].tolist() == held["growth"][[3, 40]].tolist()
    assert "over      growth, y0.lynx" in str(read)
    with xarray.open_dataset(read.view, engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["growth"], held["growth"])
        np.testing.assert_array_equal(data["hare"], by_list["hare"][:])
    with h5py.File(tmp_path / "rule" / "points.h5") as file:
        assert "over" not in file  # the values of all members are nowhere in one piece
    lost = next((tmp_path / "rule").glob("chunk-000001-*.h5"))
    content = lost.read_bytes()
    lost.unlink()
    assert run(over=rule, store=tmp_path / "rule", chunk=24).finished == 64
    assert lost.read_bytes() == content


def above(numbers):
    """Growth rates that rise with the numbers of members."""
    return {"growth": 0.3 + 0.01 * numbers}


@pytest.mark.parametrize(
    "rule",
    [
        lambda part: sweeps.PointsRule(RANGES, 32 * part, key=KEY),
        lambda part: sweeps.GridRule(
            {"growth": np.linspace(0.3, 0.6, 4)[: 2 * part], "death": np.linspace(0.5, 1.0, 16)}
        ),
        lambda part: sweeps.FunctionRule(above, 32 * part),
        lambda part: sweeps.SobolDesignRule({"growth": (0.3, 1.0), "death": (0.5, 1.2)}, 8 * part, key=KEY),
    ],
)
def test_a_store_takes_more_members_of_the_same_rule(tmp_path, rule):
    for count in (1, 2):
        lines = []
        grown = run(over=rule(count), store=tmp_path / "grown", chunk=16, progress=lines.append)
    assert lines[0].startswith("48 of 64 members")  # two chunks are there, and the third is the first one computed
    assert grown.finished == 64
    run(over=rule(2), store=tmp_path / "whole", chunk=16)
    assert files(tmp_path / "grown") == files(tmp_path / "whole")


@dataclasses.dataclass(frozen=True)
class Own(sweeps.Rule):
    """A rule of one's own, of which a member depends on how many there are where `spread` says so."""

    count: int
    spread: bool = False

    def at(self, numbers):
        return {"growth": 0.3 + 0.5 * numbers / (self.count if self.spread else 100)}


def test_a_store_takes_more_members_of_a_rule_of_ones_own(tmp_path):
    for count in (32, 64):
        grown = run(over=Own(count), store=tmp_path / "grown", chunk=16)
    assert grown.finished == 64
    run(over=Own(64), store=tmp_path / "whole", chunk=16)
    assert files(tmp_path / "grown") == files(tmp_path / "whole")
    run(over=Own(32, spread=True), store=tmp_path / "spread", chunk=16)
    with pytest.raises(StoreError, match="belongs to another sweep"):
        run(over=Own(64, spread=True), store=tmp_path / "spread", chunk=16)


@pytest.mark.parametrize(
    "rule",
    [
        sweeps.PointsRule(RANGES, 8, key=KEY),
        sweeps.PointsRule(RANGES, 8, key=KEY, method="latin"),
        sweeps.GridRule({"growth": np.linspace(0.3, 0.6, 8)}),
        sweeps.FunctionRule(above, 8),
        sweeps.SobolDesignRule({"growth": (0.3, 1.0), "death": (0.5, 1.2)}, 2, key=KEY),
    ],
    ids=["sobol", "latin", "grid", "function", "design"],
)
def test_members_beyond_a_rule_are_refused(rule):
    assert rule.count == 8
    for numbers in ([8], [-1], [0, 9]):
        with pytest.raises(ArgumentError, match="whole numbers from 0 to 7"):
            rule.at(np.array(numbers))
    assert all(len(values) == 0 for values in rule.at(np.array([], int)).values())


def test_another_rule_is_another_sweep(tmp_path):
    latin = lambda count: sweeps.PointsRule(RANGES, count, key=KEY, method="latin")
    run(over=latin(32), store=tmp_path / "latin", chunk=16)
    with pytest.raises(StoreError, match=r"over\.count"):
        run(over=latin(64), store=tmp_path / "latin", chunk=16)
    run(over=sweeps.FunctionRule(above, 32), store=tmp_path / "function", chunk=16)
    other = sweeps.FunctionRule(lambda numbers: {"growth": 0.3 + 0.02 * numbers}, 64)
    with pytest.raises(StoreError, match="belongs to another sweep"):
        run(over=other, store=tmp_path / "function", chunk=16)


@dataclasses.dataclass(frozen=True)
class Broken(sweeps.Rule):
    """A rule whose later members have another path."""

    count: int = 64

    def at(self, numbers):
        late = numbers[0] >= 16 and len(numbers) > 5
        return {"death" if late else "growth": 0.5 + 0.0 * numbers}


def test_wrong_rules_are_named(tmp_path):
    with pytest.raises(
        ArgumentError, match="values of the same paths to all members, but it gives growth to the first and death"
    ):
        run(over=Broken(), store=tmp_path / "paths", chunk=16)
    with pytest.raises(ArgumentError, match="must not be negative, but `over` gives member 63 the value -"):
        run(over=sweeps.FunctionRule(lambda n: {"growth": 1.0 - n / 50}, 64), store=tmp_path / "sign", chunk=16)
    for function, words in (
        (lambda n: n, "must return a dictionary of path"),
        (lambda n: {"growth": np.ones(3)}, "must give as many values as members are asked for, 5, but it gives 3"),
        (lambda n: {"growth": 0.5 + 0.1j * n}, "real numbers, but those of `growth` are complex"),
        (lambda n: {"grwth": np.ones(len(n))}, "growth"),
    ):
        with pytest.raises((ArgumentError, simkit.UnknownNameError), match=words):
            run(over=sweeps.FunctionRule(function, 64), store=tmp_path / "other", chunk=16)
    with pytest.raises(ArgumentError, match="must be a power of two"):
        sweeps.PointsRule(RANGES, 100, key=KEY)
    with pytest.raises(ArgumentError, match=r"at most 2\*\*30"):
        sweeps.PointsRule(RANGES, 2**31, key=KEY)
    with pytest.raises(ArgumentError, match="list of numbers"):
        sweeps.GridRule({"growth": 1.0})
    with pytest.raises(ArgumentError, match="must be a positive integer"):
        run(over=Broken(0), store=tmp_path / "none", chunk=16)


def test_a_view_of_many_chunks_has_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(_view, "TOGETHER", 3)
    rule = lambda count: sweeps.FunctionRule(above, count)
    before = run(over=rule(60), store=tmp_path / "s", chunk=8)["hare"][:56]
    parts = sorted(path.name for path in (tmp_path / "s").glob("view-*.h5"))
    assert [name[:11] for name in parts] == ["view-000000", "view-000001", "view-000002"]
    again = run(over=rule(68), store=tmp_path / "s", chunk=8)
    with xarray.open_dataset(again.view, engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["hare"], again["hare"][:])
        np.testing.assert_array_equal(data["growth"], above(np.arange(68))["growth"])
        np.testing.assert_array_equal(data["hare"][:56], before)
    # Parts that refer to other chunks have other names, and those of before are gone.
    assert len(list((tmp_path / "s").glob("view-*.h5"))) == 3
    assert not set(parts) & {path.name for path in (tmp_path / "s").glob("view-*.h5")}
    for path in (tmp_path / "s").glob("chunk-000003-*"):
        path.unlink()
    opened = sweeps.open(tmp_path / "s")
    assert np.isnan(opened["hare"][24:32]).all()


class NoCount(simkit.sweeps.Rule):
    """A rule that forgot how many members it has."""

    def at(self, numbers):
        return {"system.growth": numbers.astype(float)}


def test_a_rule_without_a_count(tmp_path):
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    with pytest.raises(simkit.ArgumentError, match="`count` of NoCount must be a positive integer"):
        simkit.sweep(system, y0, times, over=NoCount(), store=tmp_path / "store")
