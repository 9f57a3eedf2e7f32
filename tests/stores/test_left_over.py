"""Temporary files and locks of processes that were killed or told to end."""

import os
import signal

import pytest

from simkit.stores import Lock, _atomic, drop_locks, drop_open_files, is_writing, write_text, write_whole


def in_child(work):
    """Run `work` in a fork, which computes nothing; the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_the_next_write_clears_what_a_kill_has_left(tmp_path, monkeypatch, step):
    path = tmp_path / "result.h5"
    write_text(path, "old")
    (tmp_path / "thesis.part").touch()
    kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)

    def work():
        if step != "write":
            setattr(os, step, kill)

        def write(temporary):
            temporary.write_text("new")
            if step == "write":
                kill()

        write_whole(path, write)

    assert in_child(work) == signal.SIGKILL
    left = [p for p in tmp_path.iterdir() if p.name.startswith(".result.h5.")]
    assert len(left) == 1
    assert path.read_text() == "old"
    monkeypatch.setattr(_atomic, "_cleared", set())  # as in a new process
    write_text(tmp_path / "other", "text")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "result.h5", "thesis.part"]


def test_files_that_others_are_writing_stay(tmp_path, monkeypatch):
    mine = _atomic.machine_tag()
    alive, elsewhere = f".a.{mine}-{os.getppid()}-0.part", ".a.00000000-1-0.part"
    for name in (alive, elsewhere, ".a.12.part"):
        (tmp_path / name).touch()
    os.utime(tmp_path / ".a.12.part", (0, 0))
    monkeypatch.setattr(_atomic, "_cleared", set())
    write_text(tmp_path / "a", "text")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["a", alive, elsewhere])


def test_a_process_that_must_end_at_once_leaves_nothing(tmp_path):
    def write(temporary):
        temporary.write_text("half")
        assert is_writing()
        drop_open_files()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        write_whole(tmp_path / "a", write)
    assert not is_writing()
    with Lock(tmp_path).hold():
        assert (tmp_path / "lock.json").exists()
        drop_locks()
        assert not list(tmp_path.iterdir())
