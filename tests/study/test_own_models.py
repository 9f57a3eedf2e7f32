"""Models of the user's own Python files: `--models`, `load_models`."""

import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError
from simkit.cli import main
from simkit.study import study_from_provenance

POND = '''"""Algae."""

import jax.numpy as jnp
import simkit


def room(size, capacity):
    return 1 - size / capacity


class AlgaePond(simkit.PlainSystem):
    """Algae up to a capacity."""

    growth: simkit.Scalar = simkit.quantity(0.8, unit="1/day", support=simkit.POSITIVE, doc="growth rate")
    capacity: simkit.Scalar = simkit.quantity(9.0, support=simkit.POSITIVE)

    def vector_field(self, t, y, inputs):
        return {"algae": self.growth * y["algae"] * room(y["algae"], self.capacity)}

    @classmethod
    def example(cls):
        return simkit.Example(cls(), {"algae": jnp.asarray(1.0)}, jnp.linspace(0.0, 15.0, 31))
'''
STUDY = """
[system]
model = "algae_pond"
[y0]
algae = 1.0
[solve]
step = 0.25
[noise]
algae = { model = "log_normal", scale = 0.1 }
[free]
growth = { prior = { log_normal = [0.0, 1.0] } }
[experiments.first]
times = [0, 1, 2, 3]
data = { algae = [1.03, 1.88, 3.6, 5.2] }
[fit]
starts = 1
horizons = [1.0]
[predict]
times = [0.0, 1.0, 2.0]
[sweep]
method = "grid"
chunk = 4
times = [0.0, 1.0, 2.0]
[sweep.over]
growth = [0.5, 0.8]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "pond.py").write_text(POND)
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_study_names_a_class_of_a_file(folder):
    study = simkit.load_study("study.toml", models=simkit.study.load_models("pond.py"))
    found = simkit.simulate(study.system, study.y0, [0.0, 3.0], step=0.01)
    exact = 9.0 / (1 + 8.0 * np.exp(-0.8 * 3.0))
    np.testing.assert_allclose(found.ys["algae"][-1], exact, rtol=1e-6)
    assert study.sources == {"pond.py": POND}


def test_models_of_simkit_stay_at_hand(folder):
    models = simkit.study.load_models("pond.py")
    assert models["logistic_growth"] is simkit.odes.LogisticGrowth
    assert repr(models) == "`algae_pond` (AlgaePond) of `pond.py`"


def test_without_the_flag_the_message_names_it(folder):
    with pytest.raises(UnknownNameError, match=r"no model `algae_pond`.*--models FILE\.py"):
        simkit.load_study("study.toml")


def test_provenance_keeps_the_source_and_never_runs_it(folder):
    study = simkit.load_study("study.toml", models=simkit.study.load_models("pond.py"))
    made = simkit.io.provenance(study)
    assert made.models == {"pond.py": POND}
    assert len(made.models_sha256["pond.py"]) == 64
    assert study_from_provenance(made).model == "algae_pond"  # the same text was imported here
    other = POND.replace("0.8", "0.7")
    stranger = made.__class__(**{**vars(made), "models": {"pond.py": other + "\nraise SystemExit('it was run')\n"}})
    with pytest.raises(UnknownNameError, match="no model `algae_pond`"):
        study_from_provenance(stranger)


def test_other_code_is_another_class_and_comments_are_not(folder):
    first = simkit.study.load_models("pond.py")["algae_pond"]
    pathlib.Path("pond.py").write_text(POND + "# a comment\n")
    assert simkit.study.load_models("pond.py")["algae_pond"] is first
    pathlib.Path("pond.py").write_text(POND.replace("1 - size", "2 - size"))  # a function beside the class
    again = simkit.study.load_models("pond.py")["algae_pond"]
    assert again is not first
    assert again.__module__ != first.__module__


MISTAKES = {
    "x = 1\n": "must define a system",
    "import simkit\nx = undefined\n": r"in line 2 it raises NameError: name 'undefined' is not defined",
    "def f(:\n": "must be Python code, but line 1",
    "import no_such_helper\n": "must stand for itself",
    "raise SystemExit(3)\n": "in line 1 it raises SystemExit: 3",
    POND + POND: "must define each class once",
    POND.replace("AlgaePond", "LotkaVolterra"): "must not be called `lotka_volterra`",
    POND.replace("def example", "def worked"): "must define `example`",
    POND + "\n\nclass Algae_Pond(AlgaePond):\n    pass\n": "both are `algae_pond`",
}


@pytest.mark.parametrize("text", MISTAKES, ids=[f"mistake{i}" for i in range(len(MISTAKES))])
def test_mistakes_are_refused(folder, text):
    pathlib.Path("wrong.py").write_text(text)
    with pytest.raises(StudyError, match=MISTAKES[text]):
        simkit.study.load_models("wrong.py")


def test_missing_files_and_twice_one_name(folder):
    with pytest.raises(StudyError, match=r"no file of models `pnd.py`. Close matches: `pond.py`"):
        simkit.study.load_models("pnd.py")
    with pytest.raises(StudyError, match="must be a Python file"):
        simkit.study.load_models("study.toml")
    shutil.copy("pond.py", "lake.py")
    with pytest.raises(StudyError, match=r"`algae_pond` is in `pond.py` and in `lake.py`"):
        simkit.study.load_models("pond.py", "lake.py")
    pathlib.Path("b").mkdir()
    shutil.copy("pond.py", "b/pond.py")
    with pytest.raises(StudyError, match="two are called"):
        simkit.study.load_models("pond.py", "b/pond.py")


def test_fit_reproduce_and_report(folder, capsys):
    assert main(["fit", "study.toml", "--models", "pond.py", "--no-cache"]) == 0
    assert "`algae_pond` (AlgaePond) of `pond.py`" in capsys.readouterr().out
    kept = folder / "results" / "study-fit"
    assert (kept / "pond.py").read_text() == POND
    assert "Algae up to a capacity" in (kept / "report.html").read_text()
    result = str(kept / "result.h5")
    assert main(["reproduce", result, "--no-cache"]) == 2
    assert "--kept-models" in capsys.readouterr().err
    (folder / "pond.py").write_text(POND + "# later\n")
    assert main(["reproduce", result, "--kept-models", "--no-cache"]) == 0
    output = capsys.readouterr().out
    assert "differs from the kept code" in output
    assert "fit         bitwise equal" in output
    assert main(["reproduce", result, "--models", "pond.py", "--no-cache"]) == 0
    assert "is not that of the result" in capsys.readouterr().out
    assert main(["report", result, "--models", "pond.py", "--out", str(folder / "again.html")]) == 0
    assert "Algae up to a capacity" in (folder / "again.html").read_text()


def test_models_shows_and_lists_them(folder, capsys):
    assert main(["models", "algae_pond", "--models", "pond.py"]) == 0
    assert "1/day" in capsys.readouterr().out
    assert main(["models", "--models", "pond.py"]) == 0
    output = capsys.readouterr().out
    assert "algae_pond" in output
    assert "lotka_volterra" in output


def test_a_sweep_goes_on_beside_its_kept_models_and_report(folder, capsys):
    asked = ["sweep", str(folder / "study.toml"), "--models", str(folder / "pond.py"), "--out", str(folder / "s")]
    assert main(asked) == 0
    assert (folder / "s" / "pond.py").exists()
    assert (folder / "s" / "report.html").exists()
    assert main(asked) == 0
    capsys.readouterr()
    (folder / "s" / "manifest.json").unlink()
    assert main(asked) == 2
    assert "must be a new or an empty folder" in capsys.readouterr().err


def test_jobs_of_sweeps_bring_the_file_to_their_workers(folder):
    """A process that has imported nothing opens a job and computes with the class in it."""
    study = simkit.load_study("study.toml", models=simkit.study.load_models("pond.py"))
    simkit.study.runs.sweep_study(study, folder / "here")
    from simkit.sweeps import _job

    setup = simkit.core.Setup(study.system, study.y0)
    job = _job.Job(folder, "x", 2, setup, np.array([0.0, 1.0]), None, 0.25, None, None, None, None, True)
    (folder / "job").write_bytes(_job.pack(job))
    part = _job.Part(0, 0, {"growth": np.array([0.5, 0.8])})
    (folder / "part").write_bytes(pickle.dumps(part))
    code = (
        "import pickle, jax\njax.config.update('jax_enable_x64', True)\nfrom simkit.sweeps import _job\n"
        "job = _job._on_device(_job._unpacked(open('job', 'rb').read()))\n"
        "found, _ = _job.run_members(job, pickle.loads(open('part', 'rb').read()))\nprint(found['algae'][:, -1].tolist())\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    exact = 9.0 / (1 + 8.0 * np.exp(-np.array([0.5, 0.8])))
    np.testing.assert_allclose([float(x) for x in shown.strip("[]\n").split(",")], exact, rtol=1e-3)


def test_files_beside_are_refused_where_python_finds_them(tmp_path, monkeypatch):
    """`python -m simkit` and scripts have their folder on the path; what is imported from there would not be kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "besides.py").write_text("K = 2.0\n")
    later = "def late():\n    import besides\n"
    for i, line in enumerate(
        ("from besides import K\n", "import importlib\nimportlib.import_module('besides')\n", later)
    ):
        (tmp_path / f"pond{i}.py").write_text(line)
        for _ in range(2):
            with pytest.raises(StudyError, match=r"imports `besides` from beside it, which results would not keep"):
                simkit.study.load_models(f"pond{i}.py")
    assert "besides" not in sys.modules
