"""[sweep] of a study file, and the command `simkit sweep`."""

import os
import pathlib
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError
from simkit.cli import main
from simkit.study import study_from_text
from simkit.study.runs import _sweep, sensitivity

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "lynx_hare_sweep.toml"
STUDY = """
[study]
title = "Decay"
seed = 4
[system]
model = "exponential_decay"
[y0]
amount = 10.0
[solve]
step = 0.25
[sweep]
method = "grid"
chunk = 4
times = [0.0, 1.0, 2.0]
[sweep.over]
rate = { from = 0.01, to = 1.0, count = 3, scale = "log" }
y0.amount = [1.0, 2.0, 3.0]
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "decay.toml"
    path.write_text(STUDY)
    return path


def command(*words):
    return main(["sweep", *map(str, words), "--no-cache"])


def test_sweep_and_go_on(study, tmp_path, capsys):
    store = tmp_path / "s"
    assert command(study, "--store", store) == 0
    output = capsys.readouterr()
    for words in ("Decay", "9 in 3 chunks of 4", "finished  all", "amount"):
        assert words in output.out
    assert "9 of 9 members" in output.err
    found = simkit.sweeps.open(store)
    rates, amounts = np.repeat([0.01, 0.1, 1.0], 3), np.tile([1.0, 2.0, 3.0], 3)
    np.testing.assert_allclose(found.values["rate"], rates, rtol=1e-14)
    # Tsit5 with steps of 0.25: its error lies below 1e-6 here.
    np.testing.assert_allclose(found["amount"][:, 2], amounts * np.exp(-2 * rates), rtol=1e-6)
    assert (store / "study.toml").read_text() == STUDY
    sorted(store.glob("chunk-*"))[1].unlink()
    assert command(study, "--store", store) == 0
    assert simkit.sweeps.open(store).finished == 9
    study.write_text(STUDY.replace("0.25", "0.125"))
    assert command(study, "--store", store) == 2
    assert "`step.substeps` is 4 there and 8 here" in capsys.readouterr().err
    assert (store / "study.toml").read_text() == STUDY


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    path = tmp_path / "lynx.toml"
    text = EXAMPLE.read_text()
    assert "count = 2048" in text
    path.write_text(text.replace("count = 2048", "count = 32").replace("chunk = 256", "chunk = 16"))
    monkeypatch.chdir(tmp_path)
    assert command(path) == 0
    found = simkit.sweeps.open(tmp_path / "results" / "lynx-sweep")
    assert found["hare"].shape == (32, 101)
    assert found.times[-1] == 20.0
    assert (found.status == 0).all()
    first = found.values["predation"]
    assert command(path, "--seed", "2", "--store", tmp_path / "other") == 0
    assert not np.array_equal(simkit.sweeps.open(tmp_path / "other").values["predation"], first)


@pytest.mark.parametrize("method", ["random", "latin", "sobol", "zip"])
def test_methods(method):
    ranges = "rate = { from = 0.01, to = 1.0, scale = 'log' }\ny0.amount = { from = 1, to = 3 }"
    if method == "zip":
        ranges = "rate = [0.1, 0.2]\n'y0.amount' = [1.0, 2.0]"
    head, _, _ = STUDY.partition("rate =")
    text = head.replace('"grid"', f'"{method}"' + ("" if method == "zip" else "\ncount = 8\nseed = 3")) + ranges
    read = study_from_text(text)
    points = _sweep.study_points(read, read.seed)
    if method == "zip":
        assert points["y0.amount"].tolist() == [1.0, 2.0]
    else:
        expected = simkit.sweeps.points(
            {"rate": (0.01, 1.0, "log"), "y0.amount": (1.0, 3.0)}, 8, key=jax.random.key(3), method=method
        )
        assert all(np.array_equal(points[path], expected[path]) for path in points)


@pytest.mark.parametrize("method", ["grid", "latin", "sobol", "saltelli"])
def test_members_by_rule(method):
    sampled = "" if method == "grid" else "\ncount = 8\nseed = 3"
    counted = ", count = 3" if method == "grid" else ""
    head, _, _ = STUDY.partition("rate =")
    ranges = f"rate = {{ from = 0.01, to = 1.0, scale = 'log'{counted} }}"
    text = head.replace('"grid"', f'"{method}"{sampled}\nby_rule = true') + ranges
    read = study_from_text(text)
    rule = _sweep.study_points(read, read.seed)
    assert isinstance(rule, simkit.sweeps.Rule)
    assert rule.count == {"grid": 3, "saltelli": 24}.get(method, 8)
    held = _sweep.study_points(study_from_text(text.replace("\nby_rule = true", "")), 3)
    if method in ("grid", "sobol"):
        np.testing.assert_array_equal(rule.at(np.arange(rule.count))["rate"], held["rate"])
    with pytest.raises(StudyError, match=r"`by_rule` .* goes with the methods grid, latin, sobol, saltelli"):
        study_from_text(text.replace(f'"{method}"', '"random"').replace(counted or "@", ""))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"grid"', '"gird"', "there is no sweep method `gird`. Close matches: `grid`"),
        ('"grid"', '"latin"', r"\[sweep.over.rate\] .* has no key `count`"),
        ("chunk = 4", "chunk = 0", "`chunk` .* must be a whole number of at least 1"),
        ("chunk = 4", "chunks = 4", "has no key `chunks`. Close matches: `chunk`"),
        ("chunk = 4", "count = 4", "`count` .* goes with the methods random, latin, sobol"),
        ("[0.0, 1.0, 2.0]", "[0.0, 1.0, 1.0]", "`times` .* must be increasing numbers"),
        ("[1.0, 2.0, 3.0]", "1.0", r"`y0.amount` .* must be an array of numbers"),
        ("[1.0, 2.0, 3.0]", "[1.0, 'two']", r"must hold numbers, but entry 1"),
        ("from = 0.01", "from = 2.0", "`to` .* must lie after `from`, 2"),
        ("from = 0.01", "from = -1", "`from` .* must be positive where the scale is logarithmic"),
        (", count = 3", "", "must give `count`, but it does not"),
        ('"log"', '"cubic"', "there is no scale `cubic`"),
        ("[sweep.over]", "[sweep.ove]", "must give `over`"),
    ],
)
def test_bad_sections_are_named(old, new, words):
    assert old in STUDY
    with pytest.raises((StudyError, UnknownNameError), match=words):
        study_from_text(STUDY.replace(old, new, 1))


def test_bad_sweeps_give_one_sentence(study, tmp_path, capsys):
    for old, new, words in (
        ("rate = {", "rat = {", "[sweep.over] of `decay.toml`: There is no quantity `rat`. Close matches: `rate`"),
        (STUDY[STUDY.index("[sweep]") :], "", "must say what to sweep over in [sweep]"),
        ("[y0]\namount = 10.0\n", "", "must give the initial state in [y0]"),
    ):
        assert old in STUDY
        study.write_text(STUDY.replace(old, new, 1))
        assert command(study, "--store", tmp_path / "s") == 2
        assert words in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
    with pytest.raises(SystemExit):
        command(study, "--workers", "0")


def interrupted(study, store, count, *, dask=True):
    """The exit code and the output of a command that gets Ctrl-C, as all processes of a terminal do, after two chunks."""
    source = "import sys\nfrom simkit.cli import main\nif __name__ == '__main__':\n    sys.exit(main(sys.argv[1:]))\n"
    script = store.parent / "main.py"
    script.write_text(source if dask else f"import sys\nsys.modules['dask'] = None\n{source}")
    words = ["sweep", str(study), "--store", str(store), "--workers", str(count), "--no-cache"]
    process = subprocess.Popen(
        [sys.executable, str(script), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and len(list(store.glob("chunk-*"))) < 2:
        pass
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output + errors


@pytest.fixture
def long(study):
    """A study of so many chunks that it does not end before the interrupt."""
    study.write_text(STUDY.replace("count = 3", "count = 10000").replace("chunk = 4", "chunk = 2"))
    return study


def check_interrupted(code, text, store):
    assert code == 130, text
    finished = simkit.sweeps.open(store).finished
    assert 4 <= finished < 30000
    assert f"Interrupted. Finished and kept in {store}: {finished} of 30000 members." in text
    assert "Traceback" not in text


def test_an_interrupt_keeps_what_is_finished(long, tmp_path):
    check_interrupted(*interrupted(long, tmp_path / "s", 1), tmp_path / "s")


@pytest.mark.slow
@pytest.mark.parametrize("dask", [True, False])
def test_workers_are_interrupted_as_well(dask, long, tmp_path):
    check_interrupted(*interrupted(long, tmp_path / "s", 2, dask=dask), tmp_path / "s")


@pytest.mark.slow
@pytest.mark.parametrize("dask", [True, False])
def test_workers_give_the_same_numbers(dask, study, tmp_path, monkeypatch):
    if not dask:
        monkeypatch.setitem(sys.modules, "dask.distributed", None)
    assert command(study, "--store", tmp_path / "one") == 0
    assert command(study, "--store", tmp_path / "two", "--workers", "2") == 0
    one, two = (simkit.sweeps.open(tmp_path / name)["amount"][:] for name in ("one", "two"))
    # Here are two devices, in the workers one: rounding alone may differ.
    np.testing.assert_allclose(one, two, rtol=1e-14)


@pytest.mark.parametrize(("method", "count", "members"), [("saltelli", 8, 40), ("morris", 5, 20)])
def test_sensitivity_by_a_study_stands_in_its_report(tmp_path, capsys, method, count, members):
    """y = a + 3 b + 0 c at its last time: a tenth and nine tenths of the variance, effects 1, 3 and 0 of a step over a range."""
    over = "".join(f"{name} = {{ from = 0.0, to = 1.0 }}\n" for name in "abc")
    text = (
        '[system.equations]\n"d x" = "a + 3 * b + 0 * c"\n[system.parameters]\na = 0.5\nb = 0.5\nc = 0.5\n[y0]\nx = 0.0\n'
        f'[sweep]\nmethod = "{method}"\ncount = {count}\ntimes = [0.0, 1.0]\n[sweep.over]\n{over}'
    )
    (tmp_path / "s.toml").write_text(text)
    assert main(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out")]) == 0
    assert f"members   {members} in" in capsys.readouterr().out
    found = simkit.sweeps.open(tmp_path / "out")
    study = simkit.load_study(tmp_path / "s.toml")
    indices = sensitivity(study, found, found["x"][:, -1])
    if method == "morris":
        np.testing.assert_allclose(indices.mean_absolute, [1.0, 3.0, 0.0], atol=1e-4)
    else:
        assert list(np.argsort(indices.total)) == [2, 0, 1]
        np.testing.assert_allclose(indices.total, [0.1, 0.9, 0.0], atol=0.2)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "On which parameters x at the end depends" in page
    assert (tmp_path / "out" / "figures" / "sensitivity_x_at_the_end.png").exists()
