"""Stores that take more members: the files of a sweep of all of them from scratch, and nothing computed twice."""

import jax
import numpy as np
import pytest
from sweep_models import CHUNK, COUNT, RATES, setup

import simkit
from simkit import StoreError
from simkit.sweeps import _sweep

LONGER = np.concatenate([RATES, np.linspace(2.0, 3.0, 9)])
MORE = {"rate": LONGER}


def files(found):
    return {path.name: path.read_bytes() for path in found.store.glob("chunk-*")}


def computed(monkeypatch):
    """The numbers of the chunks that are computed from now on."""
    numbers, plain = [], _sweep.compute

    def compute(job, part):
        numbers.append(part.number)
        return plain(job, part)

    monkeypatch.setattr(_sweep, "compute", compute)
    return numbers


@pytest.mark.parametrize("key", [None, jax.random.key(3)])
def test_more_members_are_those_of_a_sweep_from_scratch(tmp_path, monkeypatch, key):
    simkit.sweep(**setup(store=tmp_path / "s", key=key))
    numbers = computed(monkeypatch)
    found = simkit.sweep(**setup(store=tmp_path / "s", key=key, over=MORE))
    assert numbers == [5, 6, 7]  # the last chunk of before held two of its four members
    scratch = simkit.sweep(**setup(store=tmp_path / "t", key=key, over=MORE))
    assert files(found) == files(scratch)
    np.testing.assert_array_equal(found.values["rate"], LONGER)
    assert found.finished == len(LONGER)
    assert simkit.sweeps.open(tmp_path / "s").definition == scratch.definition
    # Called again it is the sweep that it has become.
    del numbers[:]
    assert simkit.sweep(**setup(store=tmp_path / "s", key=key, over=MORE)).finished == len(LONGER)
    assert numbers == []


def test_a_store_of_one_chunk_that_is_not_full_takes_more(tmp_path):
    simkit.sweep(**setup(store=tmp_path / "s", chunk=64))
    found = simkit.sweep(**setup(store=tmp_path / "s", chunk=64, over=MORE))
    assert files(found) == files(simkit.sweep(**setup(store=tmp_path / "t", chunk=64, over=MORE)))


def test_an_unfinished_store_takes_more(tmp_path, monkeypatch):
    found = simkit.sweep(**setup(store=tmp_path / "s"))
    for number in (1, 3):
        next(found.store.glob(f"chunk-{number:06d}-*")).unlink()
    numbers = computed(monkeypatch)
    assert simkit.sweep(**setup(store=tmp_path / "s", over=MORE)).finished == len(LONGER)
    assert numbers == [1, 3, 5, 6, 7]


def test_a_kill_while_chunks_are_written_again_loses_nothing(tmp_path, monkeypatch):
    """The disk ends after the second chunk under its new name: both sweeps go on from there."""
    before = files(simkit.sweep(**setup(store=tmp_path / "s")))
    prepare, written = simkit.sweeps._prepare, []

    def write(path, content):
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        written.append(path)
        return plain(path, content)

    plain = prepare.write_text
    with monkeypatch.context() as patch:
        patch.setattr(prepare, "write_text", write)
        with pytest.raises(StoreError, match="no space left"):
            simkit.sweep(**setup(store=tmp_path / "s", over=MORE))
    assert len(files(simkit.sweeps.open(tmp_path / "s"))) == len(before) + 2
    numbers = computed(monkeypatch)
    again = simkit.sweep(**setup(store=tmp_path / "s"))
    assert (numbers, files(again)) == ([], before)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"over": {"rate": LONGER[::-1]}}, "`over rate` is "),
        ({"over": {"rate": RATES[:-1]}}, "`over rate` is "),
        ({"over": MORE, "step": simkit.Fixed(8)}, "`step.substeps` is 4 there and 8 here"),
        ({"over": MORE, "chunk": 2 * CHUNK}, "`chunk` is 4 there and 8 here"),
    ],
)
def test_other_sweeps_are_refused(tmp_path, changes, words):
    before = files(simkit.sweep(**setup(store=tmp_path / "s")))
    with pytest.raises(StoreError, match="belongs to another sweep: .*" + words):
        simkit.sweep(**setup(store=tmp_path / "s", **changes))
    assert files(simkit.sweeps.open(tmp_path / "s")) == before


def test_states_keep_their_names(tmp_path):
    """Names whose order in the state is not that of the alphabet."""
    system, y0, times, _ = simkit.odes.SIR.example()
    over = {"transmission": np.linspace(1.5, 1.8, COUNT)}
    found = simkit.sweep(system, y0, times, over=over, store=tmp_path / "s")
    plain = simkit.ensemble(system, y0, times, over=over)
    assert found.names == ("susceptible", "infected", "recovered")
    for name in found.names:
        np.testing.assert_array_equal(getattr(found.trajectory(slice(None)).ys, name), getattr(plain.ys, name))
