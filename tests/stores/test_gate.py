"""The gate of input files: regular, of bounded size, below the folder that names them."""

import os

import pytest

from simkit import DataError, StudyError
from simkit.stores import Gate, _gate, input_bytes


def test_files_below_the_folder_are_read(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_bytes(b"x")
    (tmp_path / "link.csv").symlink_to("data/a.csv")
    gate = Gate(tmp_path)
    for name in ("data/a.csv", "link.csv", "data/../data/a.csv", str(tmp_path / "data" / "a.csv")):
        assert gate.read(name, "data file", lambda path: input_bytes(path, "data file").decode()) == "x"


def test_files_outside_are_refused_unless_allowed(tmp_path):
    secret, home = tmp_path / "secret.txt", tmp_path / "study"
    secret.write_text("secret")
    home.mkdir()
    (home / "link").symlink_to(secret)
    (home / "folder").symlink_to(tmp_path)
    (home / "ring").symlink_to("ring")
    names = ("../secret.txt", str(secret), "link", "folder/secret.txt", "/etc/passwd", "x/../../secret.txt")
    for name in names:
        with pytest.raises(DataError, match=r"must lie below the folder of the study.*--allow-outside"):
            Gate(home).place(name, "data file")
        assert Gate(home, outside=True).place(name, "data file") == home / name
    read = lambda name: Gate(home).read(name, "data file", lambda path: input_bytes(path, "data file").decode())
    with pytest.raises(DataError, match="must have the name of a file"):
        read("a\0b")
    with pytest.raises(
        (DataError, OSError), match=r"must have the name of a file|symbolic links"
    ):  # OSError: Python 3.13
        read("ring")


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        with pytest.raises(StudyError, match=r"must be a regular file, but it is a device, a pipe or a socket"):
            input_bytes(path, "study file", error=StudyError)
    with pytest.raises(IsADirectoryError):
        input_bytes(tmp_path, "study file")


def test_sizes_and_numbers_are_bounded(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"1" * 3 * 2**20)
    with pytest.raises(DataError, match=r"at most 2 MiB, but it is larger"):
        input_bytes(tmp_path / "a", "data file", 2 * 2**20)
    monkeypatch.setattr(_gate, "MOST_TOTAL", 2**20)
    monkeypatch.setattr(_gate, "MOST_FILES", 3)
    gate = Gate(tmp_path)
    with pytest.raises(DataError, match=r"at most 1 MiB in all"):
        gate.read("a", "data file", lambda path: input_bytes(path, "data file").decode())
    gate = Gate(tmp_path)
    for _ in range(3):
        gate.read("a", "data file", lambda path: "")
    with pytest.raises(DataError, match=r"at most 3 files"):
        gate.read("a", "data file", lambda path: "")


def test_files_whose_size_the_kernel_does_not_tell():
    assert b"python" in input_bytes("/proc/self/cmdline", "data file").lower()
