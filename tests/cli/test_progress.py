"""progress: how far stores are, read while others write."""

import json
import math
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import one_sample
import pytest
import sweep_models

import simkit
from simkit.cli._main import main
from simkit.cli._progress import page_of, text_of
from simkit.study.runs import progress_of

SPAWNED = [sys.executable, pathlib.Path(sweep_models.__file__)]


def only(folder):
    (found,) = progress_of(folder)
    return found


@pytest.mark.slow
def test_a_sweep_is_watched_while_it_runs(tmp_path):
    store = tmp_path / "s"
    child = subprocess.Popen([*SPAWNED, store, "1.0"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        for _ in range(3):
            child.stdout.readline()
        found = only(store)
        assert f"process {child.pid} on " in found.writer
        assert 8 <= found.done < found.total == sweep_models.COUNT
        assert found.rate > 0
        # Members that are left, at the rate of files a second apart.
        assert math.isclose(found.left, (found.total - found.done) / found.rate)
        assert 'http-equiv="refresh" content="5"' in page_of([found], store, 5.0)
        rest, _ = child.communicate(timeout=120)
        assert rest.splitlines()[-1] == str(sweep_models.COUNT)  # whose work nobody disturbed
    finally:
        child.kill()
        child.wait()
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    found = only(store)
    assert (found.done, found.writer) == (sweep_models.COUNT, "")
    assert before == {path.name: path.read_bytes() for path in store.iterdir()}
    assert "finished" in text_of([found])
    assert "refresh" not in page_of([found], store, 5.0)


def test_failures_and_chunks_set_aside_are_told(tmp_path, capsys):
    rates = {"rate": np.append(sweep_models.RATES, [np.nan, 1.0])}
    simkit.sweep(**sweep_models.setup(store=tmp_path / "s", over=rates, retries=0, measure=sweep_models.raising))
    assert main(["progress", str(tmp_path), "--html", str(tmp_path / "page.html")]) == 0
    told = capsys.readouterr().out
    # The chunk with the last rates raises; the member without a rate is in it.
    assert "20 of 24 members, 1 set aside" in told
    assert "chunk 5, members 20 to 23: " in told
    assert "chunk 5, members 20 to 23: " in (tmp_path / "page.html").read_text()
    rates = {"rate": np.append(sweep_models.RATES, [np.nan, 0.5])}
    simkit.sweep(**sweep_models.setup(store=tmp_path / "t", over=rates))
    assert only(tmp_path / "t").failed == "1 failed"


@pytest.mark.slow
def test_stores_of_other_verbs_are_counted(tmp_path, capsys):
    problem = one_sample.example()
    simkit.fit(problem, starts=6, store=tmp_path / "fit")
    simkit.fit(problem, starts=20, store=tmp_path / "cut", within=1e-3)
    asked = {"chains": 2, "draws": 60, "warmup": 40, "every": 20, "key": jax.random.key(0)}
    simkit.sample(problem, store=tmp_path / "draws", **asked)
    system, y0, _, _ = simkit.odes.LotkaVolterra.example()
    simkit.record(system, y0, np.linspace(0.0, 2.0, 12), store=tmp_path / "run", every=5, step=0.1)
    found = {str(pathlib.Path(one.path).relative_to(tmp_path)): one for one in progress_of(tmp_path)}
    told = {name: (one.kind, one.done, one.total, one.noun) for name, one in found.items()}
    assert told["fit"] == ("fit", 6, 6, "starts")
    assert told["cut"] == ("fit", 4, 20, "starts")
    assert told["run"] == ("recording", 11, 11, "times")
    assert told[os.path.join("draws", "fit")] == ("fit", 16, 16, "starts")
    kind, done, total, noun = told["draws"]
    assert (kind, noun) == ("sampling run", "blocks of draws")
    assert done == total
    # More draws are planned later, and the same store tells so.
    simkit.sample(problem, store=tmp_path / "draws", **{**asked, "draws": 100})
    assert only(tmp_path / "run").total == 11
    assert next(one for one in progress_of(tmp_path / "draws") if one.kind == "sampling run").total == total + 2
    assert main(["progress", str(tmp_path / "cut"), "--json"]) == 0
    (read,) = json.loads(capsys.readouterr().out)
    assert (read["done"], read["left"], read["writer"]) == (4, None, "")


def test_what_is_no_store(tmp_path, capsys):
    assert main(["progress", str(tmp_path / "none")]) == 2
    assert "must be the folder of a store" in capsys.readouterr().err
    (tmp_path / "manifest.json").write_text('{"format": "simkit sweep", "format_version": 1}')
    assert "is damaged" in only(tmp_path).errors[0]
    (tmp_path / "manifest.json").write_text('{"format": "simkit sw')
    assert f"The file `{tmp_path / 'manifest.json'}` is damaged" in only(tmp_path).errors[0]
