"""Study files that find states: the same assimilation as in Python, results, reports, budgets of time, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import StudyError
from simkit.assimilation import ETKF, FourDVar, Observations, members_around
from simkit.cli import main
from simkit.report import report
from simkit.report._assimilated import assimilation_answers
from simkit.study import study_from_text
from simkit.study.runs import Found, assimilate_study, run_assimilation
from simkit.study.runs._reproduce import comparisons
from simkit.viz import plot_assimilation

STUDY = """
[study]
title = "A box that turns"
[system]
model = "lorenz63"
[y0]
x = 1.0
y = 1.0
z = 20.0
[solve]
solver = "rk4"
step = 0.01
[noise]
x = { model = "normal", scale = 1.0 }
z = { model = "normal", scale = 0.5 }
[experiments.box]
file = "seen.csv"
start = 0.0
[assimilate]
method = "etkf"
deviation = 2.0
members = 8
inflation = 1.05
rotation = true
lag = 3
"""
TIMES = 0.1 * np.arange(1, 61)
SYSTEM = simkit.odes.Lorenz63()
Y0 = SYSTEM.State(*(jnp.asarray(x) for x in (1.0, 1.0, 20.0)))


@pytest.fixture(scope="module")
def table():
    path = simkit.simulate(SYSTEM, Y0, np.r_[0.0, TIMES], step=0.01, solver="rk4").ys
    noise = np.random.default_rng(0).normal(size=(2, 60))
    x, z = np.asarray(path.x)[1:] + noise[0], np.asarray(path.z)[1:] + 0.5 * noise[1]
    x[4] = np.nan
    rows = [f"{t:.1f},{'' if np.isnan(a) else f'{a:.9f}'},{b:.9f}" for t, a, b in zip(TIMES, x, z, strict=True)]
    return "time,x,z\n" + "\n".join(rows), np.round(x, 9), np.round(z, 9)


def read(table, text=STUDY):
    return study_from_text(text, read={"seen.csv": table[0]})


def test_a_study_is_the_assimilation_in_python(table, tmp_path):
    """In one piece: a store cuts the work, and rounding with it."""
    found = assimilate_study(read(table))
    seen = Observations(TIMES, {"x": table[1], "z": table[2]}, errors={"x": 1.0, "z": 0.5}, start=0.0)
    first, own = jax.random.split(jax.random.key(0))
    members = members_around(Y0, 8, key=first, deviation=2.0)
    method = ETKF(1.05, rotation=True)
    expected = simkit.assimilate(SYSTEM, members, seen, method=method, step=0.01, solver="rk4", key=own, lag=3)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    assert int(found.observed[4]) == 1
    simkit.save(tmp_path / "a.h5", found)
    again = simkit.load(tmp_path / "a.h5").assimilation
    assert repr(again) == repr(found)
    np.testing.assert_array_equal(again.last["x"], found.last.x)
    np.testing.assert_array_equal(again.smoothed["z"], found.smoothed.z)
    page = plot_assimilation(again, seen, names=["z"])
    assert [axes.get_ylabel().split(",")[0] for axes in page.axes] == ["z", "chi-square\nan observation"]
    with pytest.raises(simkit.ArgumentError, match="no number `w`"):
        plot_assimilation(again, names=["w"])


def test_windows_and_kept_members_come_back(table, tmp_path):
    text = STUDY[: STUDY.index("[assimilate]")] + (
        '[assimilate]\nmethod = "four_d_var"\nwindow = 2\niterations = 1\n'
        "deviation = { x = 1.0, y = 2.0, z = 3.0 }\nmodel_error = 0.1\n"
    )
    study = read(table, text)
    found = assimilate_study(study)
    covariance = np.diag([1.0, 4.0, 9.0])
    method = FourDVar(covariance, window=2, iterations=1, model_error=0.01 * np.eye(3))
    seen = study.assimilate["observations"]
    expected = simkit.assimilate(SYSTEM, Y0, seen, method=method, step=0.01, solver="rk4")
    np.testing.assert_allclose(found.mean.y, expected.mean.y, rtol=1e-8)
    simkit.save(tmp_path / "a.h5", found)
    np.testing.assert_array_equal(simkit.load(tmp_path / "a.h5").assimilation.last["x"], found.last.x)
    members = members_around(Y0, 4, key=jax.random.key(0), deviation=1.0)
    kept = simkit.assimilate(SYSTEM, members, seen, method=ETKF(), step=0.01, solver="rk4", keep_members=True)
    simkit.save(tmp_path / "b.h5", kept)
    again = simkit.load(tmp_path / "b.h5").assimilation
    np.testing.assert_array_equal(again.members["y"], kept.members.y)
    assert again.smoothed is None


@pytest.mark.slow
def test_a_run_is_cut_and_goes_on_and_has_a_report(table, tmp_path, capsys):
    (tmp_path / "seen.csv").write_text(table[0])
    (tmp_path / "box.toml").write_text(STUDY)
    path, out = str(tmp_path / "box.toml"), tmp_path / "out"
    assert main(["check", path]) == 0
    assert "119 numbers at 60 times" in capsys.readouterr().out
    assert main(["run", path, "--out", str(out), "--within", "0.001s"]) == 124
    assert "after 32 of 60 times" in capsys.readouterr().err
    assert main(["run", path, "--out", str(out)]) == 0
    assert "smoothed by the next 3 times" in capsys.readouterr().out
    page = (out / "report.html").read_text()
    for text in ("Do the spread of states and the errors of data fit", "States were forecast", "A box that turns"):
        assert text in page
    assert main(["reproduce", str(out / "result.h5")]) == 0
    assert "bitwise equal" in capsys.readouterr().out
    assert main(["fit", path]) != 0
    assert "call `simkit run" in capsys.readouterr().err
    results = simkit.load(out / "result.h5")
    whole = Found()
    whole.assimilation = assimilate_study(read(table), seed=1)
    (row,) = comparisons(results, whole)
    assert (row.part, row.verdict) == ("assimilation", "different")


@pytest.mark.slow
def test_cells_of_a_ring_are_localised(tmp_path):
    """Every second place of Lorenz-96, ten members, and distances in cells around the ring: the error is below the data's."""
    system, y0, _, _ = simkit.odes.Lorenz96.example()
    times = 0.05 * np.arange(1, 201)
    path = simkit.simulate(system, y0, np.r_[0.0, times], step=0.05, solver="rk4").ys
    truth = np.asarray(path.x)[1:]
    noise = np.random.default_rng(1).normal(size=truth.shape)
    rows = [f"{t:.2f},{i},{truth[k, i] + noise[k, i]:.6f}" for k, t in enumerate(times) for i in range(0, 40, 2)]
    start = ", ".join(f"{x:.17g}" for x in np.asarray(y0.x))
    text = f"""
    [system]
    model = "lorenz96"
    [y0]
    x = [{start}]
    [solve]
    solver = "rk4"
    step = 0.05
    [noise]
    x = {{ model = "normal", scale = 1.0 }}
    [experiments.ring]
    file = "seen.csv"
    cells = ["i"]
    start = 0.0
    [assimilate]
    method = "letkf"
    deviation = 0.5
    members = 10
    inflation = 1.05
    rotation = true
    radius = 4.0
    periodic = true
    """
    read = {"seen.csv": "time,i,x\n" + "\n".join(rows)}
    found = run_assimilation(study_from_text(text, read=read), tmp_path / "out")
    error = np.sqrt(np.mean((np.asarray(found.assimilation.mean.x) - truth) ** 2, axis=1))
    assert error[100:].mean() < 0.6
    assert [answer.grade for answer in assimilation_answers(found.assimilation)] == ["yes"]
    assert "LETKF with 10 members" in report(simkit.load(found.files[0]))


def test_errors_of_single_data_multiply_the_noise(table):
    rows = table[0].splitlines()
    wide = "\n".join([rows[0] + ",sx", *[f"{row},{0.5 + 0.01 * k}" for k, row in enumerate(rows[1:])]])
    text = STUDY.replace('file = "seen.csv"', 'file = "seen.csv"\nerrors = { x = "sx" }')
    seen = study_from_text(text, read={"seen.csv": wide}).assimilate["observations"]
    expected = 0.5 + 0.01 * np.arange(60)
    known = np.isfinite(table[1])
    np.testing.assert_allclose(np.asarray(seen.errors["x"])[known], expected[known])
    np.testing.assert_allclose(seen.errors["z"], 0.5)
    with pytest.raises(StudyError, match=r"errors of `x` .* belong to no data"):
        study_from_text(text.replace('x = { model = "normal", scale = 1.0 }\n', ""), read={"seen.csv": wide})


def test_an_overconfident_ensemble_is_told(table):
    text = STUDY.replace("scale = 1.0", "scale = 0.1").replace("scale = 0.5", "scale = 0.05")
    (answer,) = assimilation_answers(assimilate_study(read(table, text)))
    assert answer.grade == "care"
    assert "the states may be lost" in answer.advice[0]
    wide = STUDY.replace("scale = 1.0", "scale = 10.0").replace("scale = 0.5", "scale = 5.0")
    (answer,) = assimilation_answers(assimilate_study(read(table, wide)))
    assert "too large" in answer.advice[0]


REFUSED = {
    "another table": ("[assimilate]", "[free]\nsigma = {}\n[assimilate]", r"\[free\] of .* does not go with"),
    "events": (
        "[assimilate]",
        '[[events]]\nname = "c"\ncondition = "x > 0.3"\nchange = { x = 0.0 }\n[assimilate]',
        r"\[events\] of .* does not go with",
    ),
    "a key of windows": (
        "lag = 3",
        "window = 3",
        '`window` .*goes with `method` "four_d_var", but the method is "etkf"',
    ),
    "no method": ('method = "etkf"\n', "", "method"),
    "no deviation": ("deviation = 2.0\n", "", "deviation"),
    "a negative deviation": ("deviation = 2.0", "deviation = -2.0", "must be positive"),
    "a state without": ("deviation = 2.0", "deviation = { x = 1.0 }", "`y` has none"),
    "a state that is none": (
        "deviation = 2.0",
        "deviation = { x = 1.0, y = 1.0, z = 1.0, w = 1.0 }",
        "no state for .* `w`",
    ),
    "places of scalars": (
        'method = "etkf"\n',
        'method = "letkf"\nradius = 2.0\n',
        'must be "etkf" or "enkf" where states and data are no arrays',
    ),
    "other noise": (
        'model = "normal", scale = 0.5',
        'model = "laplace", scale = 0.5',
        "must have normal errors of known size",
    ),
    "no start": ("[y0]\nx = 1.0\ny = 1.0\nz = 20.0\n", "", "must give `x`"),
    "two data sets": (
        "[assimilate]",
        "[experiments.other]\ntimes = [1.0]\ndata = { x = [1.0] }\n[assimilate]",
        "must hold one experiment",
    ),
    "conditions": ("start = 0.0", "start = 0.0\nset = { sigma = 9.0 }", r"`set` in \[experiments.box\]"),
    "inflation": ("inflation = 1.05", "inflation = -1.0", "must be one positive number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(table, name):
    old, new, text = REFUSED[name]
    assert old in STUDY
    with pytest.raises((StudyError, simkit.UnknownNameError), match=text):
        read(table, STUDY.replace(old, new))
