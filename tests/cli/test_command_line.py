"""The command line from end to end: one small study is run once, and every command is tried on it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import xarray
from helpers import resealed

import simkit
from simkit.cli import main
from simkit.cli._environment import keep_interrupts
from simkit.core import _processor
from simkit.fitting import _fit
from simkit.io import load
from simkit.study import REGISTRIES
from simkit.study.runs import _run
from simkit.study.runs._reproduce import compare

MODELS = REGISTRIES["systems"].of("simkit.odes")

STUDY = """
[study]
title = "Decay & <growth>"
question = "How fast?"
time = "day"
seed = 4
[system]
model = "exponential_decay"
[y0]
{state} = 10.0
[solve]
step = 0.5
[noise]
{state} = {{ model = "log_normal", scale = 0.1 }}
[free]
rate = {{ prior = {{ log_normal = [-1.0, 1.0] }} }}
y0.{state} = {{ prior = {{ log_normal = [2.0, 1.0] }} }}
[experiments.first]
file = "data.csv"
columns = {{ time = "day", {state} = "amount" }}
[fit]
starts = 4
horizons = [1.0]
[sample]
chains = 2
warmup = 60
draws = 60
[profile]
names = ["rate"]
points = 4
[predict]
times = {{ from = 0, to = 8, count = 9 }}
count = 20
"""
DATA = "day,amount\n0,10.2\n1,7.1\n2,5.2\n3,3.4\n4,\n5,1.9\n6,1.3\n"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "data.csv").write_text(DATA)
    state = next(iter(simkit.core.named_leaves(simkit.odes.ExponentialDecay.example().y0)))
    path = folder / "decay.toml"
    path.write_text(STUDY.format(state=state))
    return path


def simkit_main(*words):
    """The exit code of a command that computes, without the cache on disk."""
    return main([str(word) for word in words] + ["--no-cache"])


@pytest.fixture(scope="module")
def finished(study, tmp_path_factory):
    """The output folder of one whole run; tests must not change it."""
    folder = tmp_path_factory.mktemp("out") / "run"
    assert simkit_main("run", study, "--out", folder) == 0
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    return pathlib.Path(shutil.copytree(finished, tmp_path / "run"))


def test_run_writes_results_report_and_figures(finished):
    results = load(finished / "result.h5")
    assert results.fit.names[0] == "rate"
    # The data fall by a factor of 7.8 in six days, and the noise is a tenth: a rate of 0.34, give or take 0.02.
    assert abs(float(results.fit.estimate[0]) - 0.34) < 0.04
    assert results.posterior.draws.shape == (2, 60, 2)
    assert results.prediction.times.shape == (1, 9)
    assert set(results.provenance.seconds) >= {"fit", "sample", "predict"}
    assert results.provenance.command.startswith("simkit run")
    with xarray.open_dataset(finished / "result.h5", group="posterior") as data:
        assert dict(data.sizes) == {"chain": 2, "draw": 60}
    names = {file.name for file in (finished / "figures").iterdir()}
    optimum = {"waterfall.svg", "parameters.svg", "profiles.svg", "correlation.svg"}
    assert names == optimum | {"fit.svg", "check.svg", "corner.png", "trace.png", "ranks.svg"}
    # The interval by the profile is near the one by the standard error, for data that tell this much.
    lower, upper = results.profiles.interval("rate")
    expected = results.fit.estimate[0] + 1.96 * results.fit.standard_error[0] * np.array([-1.0, 1.0])
    np.testing.assert_allclose([lower, upper], expected, rtol=0.05)


def test_the_report_is_self_contained_and_escaped(finished):
    page = (finished / "report.html").read_text()
    assert "<h1>Decay &amp; &lt;growth&gt;</h1>" in page
    assert "<growth>" not in page
    assert "How fast?" in page
    assert page.count("data:image/") == 10  # nine figures and an equation
    assert '<h2 id="does-the-model-fit">Does the model fit?</h2>' in page
    assert "predictive chi-square" in page
    assert not re.search(r"""(src|href)=["'](?!data:|#)|@import|url\(""", page)
    assert "prefers-color-scheme: dark" in page
    for text in ("90 % interval", "R-hat", "SHA-256", "simkit reproduce", "float64", DATA.splitlines()[1]):
        assert text in page


def test_progress_and_table_are_printed(finished, copied, study, capsys):
    assert simkit_main("run", study, "--out", copied, "--overwrite") == 0
    text = capsys.readouterr().out
    for word in (
        "Decay & <growth>",
        "starts agree",
        "R-hat at most",
        "std error",
        "90 % interval",
        "ESS",
        "report.html",
    ):
        assert word in text
    # The same study and seed give the same bits, run after run.
    old, new = load(finished / "result.h5"), load(copied / "result.h5")
    assert compare("posterior", old.posterior, new.posterior).verdict == "bitwise equal"


def test_results_are_not_replaced_unasked(copied, study, capsys):
    before = (copied / "result.h5").read_bytes()
    for command in ("run", "fit", "sample", "simulate"):
        assert simkit_main(command, study, "--out", copied) == 2
        assert "--overwrite" in capsys.readouterr().err
    assert (copied / "result.h5").read_bytes() == before
    assert main(["report", str(copied / "result.h5")]) == 2
    assert main(["report", str(copied / "result.h5"), "--overwrite"]) == 0
    assert simkit_main("run", study, "--out", study) == 2
    assert "must be a folder" in capsys.readouterr().err


def test_results_of_an_edited_study_are_kept_aside_and_compared(copied, study, capsys):
    before = (copied / "result.h5").read_bytes()
    edited = copied.parent / "decay.toml"
    (copied.parent / "data.csv").write_text(DATA.replace("7.1", "7.3"))
    edited.write_text(study.read_text())
    assert simkit_main("fit", edited, "--out", copied) == 0
    assert f"are in {copied / 'earlier' / '1'}" in capsys.readouterr().out
    assert (copied / "earlier/1/result.h5").read_bytes() == before
    assert (copied / "earlier/1/figures/corner.png").exists()
    assert not (copied / "figures/corner.png").exists()  # of the posterior, which the new results do not have
    assert simkit_main("fit", edited, "--out", copied) == 2
    assert "neither the study nor its data have changed" in capsys.readouterr().err
    edited.write_text(study.read_text().replace("How fast?", "How fast now?"))
    assert simkit_main("fit", edited, "--out", copied, "--seed", "3") == 0
    (copied / "earlier/2/result.h5").write_bytes(b"no result")
    capsys.readouterr()
    assert main(["runs", str(copied)]) == 0
    text = capsys.readouterr().out
    first, second = load(copied / "earlier/1/result.h5").fit, load(copied / "result.h5").fit
    assert [line.split()[3] for line in text.splitlines()[1:3]] == ["earlier/1/result.h5", "result.h5"]
    (row,) = (line for line in text.splitlines() if line.split()[:1] == ["rate"])
    told = [float(word) for word in row.replace("+-", "").split()[1:5]]
    np.testing.assert_allclose(told[::2], [first["rate"], second["rate"]], rtol=2e-3)
    np.testing.assert_allclose(told[1::2], [first.standard_error[0], second.standard_error[0]], rtol=0.05)
    assert "The data differ" in text
    assert "earlier/2/result.h5 cannot be read: " in text
    assert main(["runs", str(copied), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [run["model"] for run in listed] == ["exponential_decay", "exponential_decay", ""]
    assert listed[1]["log_likelihood"] == float(second.log_likelihood)
    assert listed[1]["parameters"]["rate"]["value"] == float(second["rate"])
    assert listed[0]["data"] != listed[1]["data"]
    assert main(["runs", str(copied / "nowhere")]) == 2


def test_reproduce(copied, capsys):
    assert simkit_main("reproduce", copied / "result.h5") == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines() if "bitwise equal" in line] == [
        "fit",
        "posterior",
        "prediction",
        "profiles",
    ]
    with resealed(copied / "result.h5") as file:
        draws = file["posterior/rate"][()]
        draws[1, 7] *= 1.5
        file["posterior/rate"][...] = draws
        file["fit/estimate"][0] *= 1 + 1e-12
    assert simkit_main("reproduce", copied / "result.h5") == 1
    text = capsys.readouterr().out
    assert re.search(r"fit +equal to tolerance: first at estimate\[0\]", text)
    assert re.search(r"posterior +different: first at draws\[1, 7, 0\]", text)
    assert "standard deviations (rate)" in text


def test_parts_of_a_run(study, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert simkit_main("fit", study) == 0
    results = load(tmp_path / "results" / "decay-fit" / "result.h5")
    assert results.posterior is None
    assert results.prediction is not None
    assert simkit_main("simulate", study) == 0
    folder = tmp_path / "results" / "decay-simulate"
    trajectory = load(folder / "result.h5").trajectory
    values = next(iter(trajectory.ys.values()))
    rate = float(simkit.odes.ExponentialDecay().rate)
    # Steps of 0.5 with rate times step of some 0.15 leave an error far below 1e-6.
    np.testing.assert_allclose(values, 10 * np.exp(-rate * np.asarray(trajectory.times)), rtol=1e-6)
    assert (folder / "figures" / "trajectory.svg").exists()
    assert "Trajectory" in capsys.readouterr().out


def test_an_interrupt_keeps_what_is_finished_and_the_same_command_goes_on(
    study, finished, tmp_path, monkeypatch, capsys
):
    def interrupted(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the signal must end this function")

    def forbidden(*arguments, **options):
        raise AssertionError("starts that are kept are not descended from again")

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(_run, "sample", interrupted)
        assert simkit_main("run", study, "--out", out) == 130
    message = capsys.readouterr().err
    assert f"Finished and kept in {out / 'result.h5'}: fit." in message
    assert message.rstrip().endswith("The same command goes on from what is kept.")
    results = load(out / "result.h5")
    assert results.fit is not None
    assert results.posterior is None
    assert sorted(p.name for p in out.iterdir()) == ["result.h5", "unfinished"]
    with monkeypatch.context() as patch:
        patch.setattr(_fit, "run", forbidden)
        assert simkit_main("run", study, "--out", out) == 0
    assert "goes on with what is kept" in capsys.readouterr().out
    assert not (out / "unfinished").exists()
    whole, again = load(finished / "result.h5"), load(out / "result.h5")
    np.testing.assert_array_equal(again.posterior.draws, whole.posterior.draws)
    np.testing.assert_array_equal(again.fit.thetas, whole.fit.thetas)


def test_an_interrupt_that_python_drops_is_raised_again():
    class Dropping:
        def __del__(self):
            raise KeyboardInterrupt

    def work():
        Dropping()
        for _ in range(100):
            time.sleep(0.1)

    with keep_interrupts(), pytest.raises(KeyboardInterrupt):
        work()
    assert sys.unraisablehook.__module__ != keep_interrupts.__module__


def test_an_early_interrupt_leaves_old_results(copied, study, monkeypatch, capsys):
    before = (copied / "result.h5").read_bytes()

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(_run, "fit", interrupted)
    assert simkit_main("run", study, "--out", copied, "--overwrite") == 130
    assert "before a phase was finished" in capsys.readouterr().err
    assert (copied / "result.h5").read_bytes() == before
    assert (copied / "report.html").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("exponential_decay", "exponential_decy", ["Close matches: `exponential_decay`"]),
        ("rate = {", "rte = {", ["`rte`", "Close matches: `rate`"]),
        ('"amount"', '"amounts"', ["no column `amounts`", "Close matches: `amount`", "data.csv"]),
        ('"data.csv"', '"date.csv"', ["no data file", "Close matches: `data.csv`"]),
        ("scale = 0.1", "scale = 0", ["[noise.", "positive"]),
        ("step = 0.5", "step = 0", ["step", "positive"]),
        ("from = 0, to = 8", "from = -3, to = 8", ["[predict]", "must not begin before the start"]),
        ("draws = 60", "draws = 0", ["[sample]", "at least 1"]),
        ("[fit]", "[fit", ["must be TOML"]),
    ],
)
def test_bad_studies_give_one_sentence(study, tmp_path, capsys, old, new, words):
    text = study.read_text()
    assert old in text
    (tmp_path / "bad.toml").write_text(text.replace(old, new))
    (tmp_path / "data.csv").write_text(DATA)
    assert simkit_main("run", tmp_path / "bad.toml", "--out", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()
    message = capsys.readouterr().err
    assert message.startswith("simkit: ")
    assert message.count("\n") == 1
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("0,10\n1,ten\n", ["Line 3", "`ten`"]),
        ("0,10\n0,9\n", ["twice"]),
        ("1,10\n0,9\n", ["Sort the rows"]),
        ("0,10\n1,-2\n", ["positive data", "-2"]),
        ("nan,10\n", ["missing"]),
        ("", ["no rows"]),
    ],
)
def test_bad_data_give_one_sentence(study, tmp_path, capsys, rows, words):
    shutil.copy(study, tmp_path / "decay.toml")
    (tmp_path / "data.csv").write_text("day,amount\n" + rows)
    assert simkit_main("run", tmp_path / "decay.toml", "--out", tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert message.startswith("simkit: ")
    for word in words:
        assert word in message
    assert not (tmp_path / "out").exists()


def test_bad_result_files_give_one_sentence(copied, tmp_path, capsys):
    content = (copied / "result.h5").read_bytes()
    (copied / "result.h5").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.h5").write_text("nothing")
    for path, words in (
        (copied / "result.h5", "cut short or damaged"),
        (tmp_path / "text.h5", "no HDF5"),
        (tmp_path / "none.h5", "There is no result file"),
    ):
        assert simkit_main("reproduce", path) == 2
        assert words in capsys.readouterr().err
        assert main(["report", str(path), "--out", str(tmp_path / "r.html")]) == 2
        assert words in capsys.readouterr().err


def test_models(capsys):
    assert main(["models"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in MODELS)
    assert main(["models", "lotka_volterra"]) == 0
    text = capsys.readouterr().out
    for word in ("growth", "1/(year thousand)", "Good values", "hare", "(0, inf)", "0.028"):
        assert word in text
    assert main(["models", "lotka"]) == 2
    assert "`lotka_volterra`" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_can_be_shown(name, capsys):
    assert main(["models", name]) == 0
    assert "Parameters" in capsys.readouterr().out


def test_new_writes_a_study_that_makes_a_problem(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    assert main(["new", str(path)]) == 0
    assert f"simkit run {path}" in capsys.readouterr().out
    study = simkit.load_study(path)
    problem = study.problem()
    assert len(problem.names) == 4
    assert np.isfinite(float(problem.log_posterior(jax.numpy.array([0.8, 10.0, 1.0, 0.1]))))
    assert main(["new", str(path)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["new", str(path), "--overwrite"]) == 0


def test_help_and_usage(capsys):
    for words in (["--help"], ["run", "--help"], ["reproduce", "--help"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0
    assert "examples:" in capsys.readouterr().out
    for words in ([], ["fly"], ["run"], ["run", "a.toml", "--seed", "-1"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 2
        assert capsys.readouterr().err.startswith("usage: simkit")


def test_the_installed_command_sets_up_jax(tmp_path):
    """Double precision, as many devices as cores and a cache folder, in a process of its own; help loads nothing heavy."""
    program = """
import sys
from simkit.cli import _environment, main
try:
    main(["--help"])
except SystemExit:
    pass
assert not {"numpyro", "matplotlib", "h5py", "optax"} & set(sys.modules)
_environment.set_devices(3)
_environment.set_jax(x64=True, cache=True)
import jax
from simkit.core import cache_folder
assert jax.device_count() == 3 and jax.config.jax_enable_x64
assert jax.config.jax_compilation_cache_dir == str(cache_folder())
"""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "SIMKIT_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_wide_vectors_are_asked_for_where_the_processor_has_them(monkeypatch):
    """Ice Lake has vectors of 512 bits at no cost; Skylake slows down with them; a flag of the user's stays."""
    skylake, ice_lake = "flags\t\t: fpu avx2 avx512f avx512vl\n", "flags\t\t: fpu avx2 avx512f avx512_vbmi2\n"
    assert _processor.wide_vectors(ice_lake)
    assert not _processor.wide_vectors(skylake)
    assert not _processor.wide_vectors("Features\t: fp asimd avx512_vbmi2\n")
    monkeypatch.setattr(_processor, "wide_vectors", lambda: True)
    monkeypatch.setenv("XLA_FLAGS", "--a=1")
    _processor.set_compiler()
    assert os.environ["XLA_FLAGS"].startswith("--a=1")
    assert os.environ["XLA_FLAGS"].endswith(_processor.WIDE_VECTORS)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=256")
    _processor.set_compiler()
    assert os.environ["XLA_FLAGS"].count("xla_cpu_prefer_vector_width") == 1
