"""Windows and macOS, as far as another system can tell: encodings, names of files, locks and signals."""

import ast
import builtins
import contextlib
import os
import pathlib
import re

import numpy as np
import pytest

import simkit
from simkit.cli import _signals
from simkit.io import _h5md_write
from simkit.stores import _atomic, _process

ROOM = pathlib.Path(simkit.__file__).parent
FILES = sorted(ROOM.rglob("*.py"))
POSIX_ONLY = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"}
"""Modules that Windows does not have."""


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_of(call):
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def owner_of(call):
    return getattr(getattr(call.func, "value", None), "id", "")


def is_text(call):
    """Tell whether a call opens a file as text: by its mode, which Python takes for text where it is left out."""
    name, place = name_of(call), 0 if isinstance(call.func, ast.Attribute) else 1
    if name == "fdopen" or owner_of(call) in ("gzip", "io"):
        place = 1
    modes = [k.value for k in call.keywords if k.arg == "mode"] + call.args[place : place + 1]
    return all("b" not in str(getattr(mode, "value", "")) for mode in modes)


def without_encoding(source):
    """Lines of calls that read or write text in the encoding of the machine."""
    own = re.search(r"^def open\(|import open\b", source, re.MULTILINE) is not None
    found = []
    for call in calls(ast.parse(source)):
        name = name_of(call)
        named = any(k.arg == "encoding" for k in call.keywords)
        opens = name in ("read_text", "open", "fdopen") or (
            name == "write_text" and isinstance(call.func, ast.Attribute)
        )
        if (
            not opens
            or named
            or (owner_of(call) in ("os", "webbrowser", "recordings", "sweeps", "stores") and name == "open")
        ):
            continue
        if name == "read_text" and (not isinstance(call.func, ast.Attribute) or call.args):
            continue
        if name == "open" and not isinstance(call.func, ast.Attribute) and own:
            continue
        if name in ("open", "fdopen") and not is_text(call):
            continue
        found.append(call.lineno)
    return found


def test_text_has_an_encoding():
    """Python's default is that of the machine, cp1252 on Windows, where names of units and people are lost."""
    assert without_encoding('path.open("w")\npath.read_text()\nopen("a")\npath.write_text(x)') == [1, 2, 3, 4]
    assert (
        without_encoding('path.open("rb")\nopen("a", "wb")\npath.read_text(encoding="utf-8")\nwrite_text(path, x)')
        == []
    )
    found = {
        f"{file.relative_to(ROOM)}:{line}"
        for file in FILES
        for line in without_encoding(file.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_modules_of_unix_are_imported_where_they_are_used_and_may_be_missing():
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:  # at the head of a file
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
            )
            assert not POSIX_ONLY & set(names), f"{file}:{node.lineno}"
        for call in calls(tree):
            assert (owner_of(call), name_of(call)) not in {("os", "fork"), ("os", "symlink"), ("os", "getuid")}, file


def test_names_of_files_are_allowed_on_windows():
    """No colon, star or question mark in what is written beside results: chunks, figures, members."""
    for file in FILES:
        for call in calls(ast.parse(file.read_text(encoding="utf-8"))):
            if name_of(call) == "with_name" and call.args:
                text = ast.unparse(call.args[0])
                assert not re.search(r"[:*?<>|]", re.sub(r"\{[^}]*\}", "", text)), f"{file}: {text}"


def test_a_trajectory_is_written_without_locks_of_files(tmp_path, monkeypatch):
    """As on Windows, which has no fcntl."""
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "fcntl":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    path = tmp_path / "held"
    path.write_bytes(b"frames")
    with contextlib.closing(_h5md_write._locked(path)) as handle:
        assert handle.read() == b"frames"


def test_folders_need_no_handle_and_processes_no_signals(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECTORY", raising=False)
    _atomic.write_text(tmp_path / "a.txt", "Ångström")
    assert (tmp_path / "a.txt").read_bytes() == "Ångström".encode()
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal would end the process"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        assert _process.is_alive(1)
        with _signals.obeyed_signals():
            pass


def test_studies_name_files_of_both_kinds_of_paths(tmp_path):
    """A data file in a folder is named with a slash, on Windows too; pathlib reads both there."""
    name = "data/lynx.csv"
    assert pathlib.PureWindowsPath(name).parts == pathlib.PurePosixPath(name).parts
    simkit.save(tmp_path / "run.h5", trajectory=trajectory())
    assert simkit.load(tmp_path / "run.h5").trajectory is not None


def trajectory():
    system, y0, _, _ = simkit.odes.ExponentialDecay.example()
    return simkit.simulate(system, y0, np.linspace(0.0, 1.0, 3))
