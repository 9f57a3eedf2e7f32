"""Studies that are written from the columns of a table."""

import tomllib

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import DataError, UnknownNameError
from simkit.cli import main
from simkit.study import study_of_table
from simkit.study.language._study import study_from_text

POND = """Datum;Becken;Algen [g/L];D\u00fcnger;Bemerkung
05.03.2024;A;1,93;3,0;
01.03.2024;A;1,05;3,0;ok
11.03.2024;A;;3,0;
29.02.2024;B;1;5,0;
05.03.2024;B;2,43;5,0;"x
y"
"""


def test_one_tidy_table_with_dates_subjects_and_decimal_commas():
    text = study_of_table(POND, "pond.csv", "pond.toml", subject="Becken")
    study = study_from_text(text)
    first, second = study.experiments
    assert (first.name, second.name) == ("A", "B")
    np.testing.assert_array_equal(first.times, [1.0, 5.0, 11.0])  # days after 29 February of a leap year, sorted
    np.testing.assert_array_equal(second.times, [0.0, 5.0])
    np.testing.assert_array_equal(first.data["algen"], [1.05, 1.93, np.nan])
    assert (first.covariates, second.covariates) == ({"dunger": 3.0}, {"dunger": 5.0})
    assert study.time == "day"
    assert 'unit = "g/L"' in text
    for line in ("Datum: the time, dates", "Algen [g/L]: data, with decimal commas, 1 missing", "Bemerkung: not used"):
        assert f"#   {line}" in text
    assert np.isfinite(float(study.problem().log_posterior(study.problem().bounds.mean(axis=1))))


def test_a_plain_table_is_named_and_the_study_fits_it(tmp_path, capsys):
    times = np.linspace(0.0, 4.0, 9)
    sizes = 5.0 - 4.0 * np.exp(-0.9 * times)  # what the placeholder says, exactly
    rows = "".join(f"{t},{s:.10f}\n" for t, s in zip(times, sizes, strict=True))
    (tmp_path / "plain.csv").write_text("hours,size (mm)\n" + rows)
    path = tmp_path / "plain.toml"
    assert main(["new", str(path), "--data", str(tmp_path / "plain.csv")]) == 0
    assert tomllib.loads(path.read_text())["experiments"]["data"]["columns"] == {"time": "hours", "size": "size (mm)"}
    study = simkit.load_study(path)
    assert study.time == "hour"
    fit = simkit.fit(study.problem(), starts=2)
    np.testing.assert_allclose([fit["rate_size"], fit["level_size"], fit["y0.size"]], [0.9, 5.0, 1.0], rtol=1e-3)
    assert main(["new", str(path), "--data", str(tmp_path / "plain.csv")]) == 2
    assert "--overwrite" in capsys.readouterr().err
    other = tmp_path / "deep" / "other.toml"
    other.parent.mkdir()
    assert main(["new", str(other), "--data", str(tmp_path / "plain.csv")]) == 0  # the file is not below the study
    assert simkit.load_study(other).experiments[0].times.size == 9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("t,x\n0,1\n03/04/2024,2\n", r"Line 3, column `t` .* depend on the country"),
        ('t,x\n0,"1,234"\n1,2\n', r"Line 2, column `x` .* decimal or for thousands"),
        ("t;x\n0;1,5\n1;2.5\n", r"decimal comma in line 2 and a point in line 3"),
        ("t,x\n0,1\n1,2\n2,two\n", r"Line 4, column `x`"),
        ("date,x\n2024-01-01,1\n2024-02-30,2\n", r"Line 3, column `date` .* must be a date"),
        ("t,x\n0,1\n0,2\n", r"is there twice \(lines 2 and 3\)"),
        ("id,t,x\na,0,1\na,0,2\n", r"is there twice for `a` \(lines 2 and 3\)"),
        ("t,x\n0,1\n,2\n", r"Line 3, column `t` .* must be a time"),
        ("id,t,x\n,0,1\n", r"Line 2 .* must name its subject"),
        ("t,note\n0,a\n1,b\n", r"must have a column of numbers beside `t`"),
        ("a,b\nx,1\ny,0\nz,2\n", r"must have a column of times or dates"),
        ("id,time,amt,dv\n1,0,5,\n", r"\[dosing\]"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_with_its_line(text, words):
    with pytest.raises(DataError, match=words):
        study_of_table(text, "my.csv", "my.toml")


def test_a_wrong_header_is_told():
    with pytest.raises(UnknownNameError, match="Close matches: `Becken`"):
        study_of_table(POND, "pond.csv", "pond.toml", subject="Beken")


def test_headers_and_labels_stay_data():
    text = 'time,"x""\n[fit]",id\n0,1,"a""] b"\n1,2,"a""] b"\n'
    study = study_from_text(study_of_table(text, "my.csv", "my.toml"))
    assert [experiment.name for experiment in study.experiments] == ['a"] b']
    assert list(study.experiments[0].data) == ["x"]  # `[fit]` reads as a unit


@pytest.mark.parametrize(
    "header", ["time,lambda,class,t,exp,e,pi", "time,noise,y0,inputs,outputs", "time,rate_x,x,level_x"]
)
def test_columns_of_any_name_make_a_study_that_is_right(tmp_path, header):
    """Words of formulas, of files and of Python, and names that the written model uses, are renamed."""
    count = header.count(",")
    rows = "\n".join(",".join(str(k + j) for j in range(count + 1)) for k in range(4))
    (tmp_path / "data.csv").write_text(f"{header}\n{rows}\n")
    assert main(["new", str(tmp_path / "study.toml"), "--data", str(tmp_path / "data.csv")]) == 0
    assert main(["check", str(tmp_path / "study.toml")]) == 0


def test_headers_with_line_breaks_are_read_in_one_line(tmp_path, monkeypatch, capsys):
    """As spreadsheets write them: the study names the columns with blanks, and finds them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pond.csv").write_text('"time\n[day]","size\r\n[mm]"\n0,1.0\n1,2.0\n2,2.5\n3,2.7\n')
    assert main(["new", "--data", "pond.csv", "pond.toml"]) == 0
    assert "#   size [mm]: data" in (tmp_path / "pond.toml").read_text()
    assert main(["check", "pond.toml"]) == 0
    found = simkit.io.read_table("pond.csv", {"time": "time\n[day]", "size": "size [mm]"})
    np.testing.assert_array_equal(found["size"], [1.0, 2.0, 2.5, 2.7])


def test_columns_become_signals_that_act_on_the_model(tmp_path, capsys):
    """The placeholder with a ramp as its input has a closed form: y = gain (t - 1/rate) + exp(-rate t) (y0 + gain / rate)."""
    times, rate, gain = np.linspace(0.0, 4.0, 9), 1.3, 2.0
    sizes = gain * (times - 1 / rate) + np.exp(-rate * times) * (1.0 + gain / rate)
    rows = "".join(f"{t},{s:.10f},{t}\n" for t, s in zip(times, sizes, strict=True))
    (tmp_path / "lit.csv").write_text("hours,size,light [lx]\n" + rows)
    path = tmp_path / "lit.toml"
    assert main(["new", str(path), "--data", str(tmp_path / "lit.csv"), "--input", "light [lx]"]) == 0
    assert "#   light [lx]: an input, with straight lines between its values" in path.read_text()
    study = simkit.load_study(path)
    assert list(study.experiments[0].data) == ["size"]
    assert study.system.reads()["light"].unit == "lx"
    problem = study.problem()
    exact = {"rate_size": rate, "level_size": 0.0, "gain_size_light": gain, "y0.size": 1.0, "noise.size.scale": 0.1}
    found = problem.predict(jnp.array([exact[name] for name in problem.names]))
    np.testing.assert_allclose(np.ravel(found["size"])[: len(times)], sizes, atol=1e-5)
    assert main(["new", str(path), "--data", str(tmp_path / "lit.csv"), "--input", "lihgt", "--overwrite"]) == 2
    assert "`light [lx]`" in capsys.readouterr().err


def test_inputs_of_subjects():
    text = study_of_table("id,t,y,u\na,0,1,5\na,1,2,\nb,0,1,6\nb,1,3,7\nb,2,3,8\n", "x.csv", "x.toml", inputs=["u"])
    assert "inputs.u = 5.0" in text
    assert "inputs.u = { times = [0, 1, 2], values = [6, 7, 8] }" in text
    study_from_text(text)
    with pytest.raises(DataError, match="must have a value for each subject, but has none for `a`"):
        study_of_table("id,t,y,u\na,0,1,\nb,0,1,6\nb,1,3,7\n", "x.csv", "x.toml", inputs=["u"])
    with pytest.raises(DataError, match="must hold numbers"):
        study_of_table("t,y,u\n0,1,a\n1,2,b\n", "x.csv", "x.toml", inputs=["u"])
