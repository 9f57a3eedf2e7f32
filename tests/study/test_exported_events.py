"""Events of a study in exported files: each file gives the trajectory of the study."""

import libsbml
import numpy as np
import pytest
from petab_models import write_problem

import simkit
from simkit import StudyError, petab
from simkit.cli import main
from simkit.study import load_study, study_from_text, written_events

STUDY = """
[study]
title = "A tank"
time = "hour"
[system]
name = "Tank"
[system.equations]
"d level" = "inflow*open - outflow*level"
"d open" = "0*open"
"d drug" = "-0.3*drug"
[system.parameters]
inflow = 2.0
outflow = 0.5
[system.outputs]
seen = "level + drug"
[y0]
level = 0.5
open = 1.0
drug = 0.0
[solve]
step = { rtol = 1e-11, atol = 1e-13 }
[simulate]
times = [0.0, 0.7, 1.9, 2.0, 3.1, 4.4, 5.0, 7.3, 8.0]
[[events]]
name = "full"
condition = "level > 3"
change = { open = "0.1*open" }
[[events]]
name = "passing one"
condition = "level - 1"
change = { drug = "drug + 0.25" }
[[events]]
name = "low"
condition = "level < inflow/2.5"
change = { open = "1.0", level = "level + 0.1*open" }
[[events]]
name = "doses"
at = [0.0, 2.0, 5.0]
values = [1.0, 2.0, 0.5]
change = { drug = "drug + value" }
[[events]]
name = "doubled"
at = 5.0
change = { drug = "2*drug" }
"""


@pytest.fixture
def exported(tmp_path, monkeypatch, capsys):
    """The study, its trajectory, and the files that the command writes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tank.toml").write_text(STUDY, encoding="utf-8")
    for name in ("tank.py", "tank.xml"):
        assert main(["export", "tank.toml", name]) == 0, capsys.readouterr().err
    study = load_study("tank.toml")
    step = simkit.Adaptive(1e-11, 1e-13)
    run = simkit.simulate(study.system, study.y0, study.simulation_times, events=study.events, step=step)
    return study, run, step


def test_python_with_events_gives_the_same_trajectory(exported, tmp_path):
    study, run, step = exported
    space = {}
    exec(compile((tmp_path / "tank.py").read_text(encoding="utf-8"), "tank.py", "exec"), space)
    system, y0, _, _ = space["Tank"].example()
    assert list(space["EVENTS"]) == list(study.events)
    again = simkit.simulate(system, y0, study.simulation_times, events=space["EVENTS"], step=step)
    for name in ("level", "open", "drug"):
        np.testing.assert_allclose(getattr(again.ys, name), getattr(run.ys, name), rtol=1e-12, atol=1e-12)
    assert float(run.ys.drug[-1]) > 1.0  # doses arrived


def test_sbml_with_events_gives_the_same_trajectory(exported, tmp_path):
    """The reader of SBML of PEtab problems, which was checked against the public test suites, sees what the study does."""
    study, run, step = exported
    text = (tmp_path / "tank.xml").read_text(encoding="utf-8")
    document = libsbml.readSBMLFromString(text)
    document.setConsistencyChecks(libsbml.LIBSBML_CAT_UNITS_CONSISTENCY, False)
    document.checkConsistency()
    errors = [document.getError(i) for i in range(document.getNumErrors())]
    assert not [error.getMessage() for error in errors if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR]
    times = np.asarray(study.simulation_times)
    for name in ("level", "drug"):
        rows = "\n".join(f"o | c0 | {time!r} | 1.0" for time in times.tolist())
        path = write_problem(
            tmp_path,
            text,
            "parameterId | parameterScale | lowerBound | upperBound | nominalValue | estimate\noutflow | lin | 0.1 | 1 | 0.5 | 1",
            f"observableId | observableFormula | noiseFormula\no | {name} | 1",
            f"observableId | simulationConditionId | time | measurement\n{rows}",
        )
        read = petab.load(path, step=step)
        found = read.problem.heads(read.nominal)[0]["o"][0][0]
        # The dose at the start is in the first row of SBML; in simkit that row is the state before it.
        np.testing.assert_allclose(found[1:], np.asarray(getattr(run.ys, name))[1:], rtol=0, atol=1e-8)


def test_what_a_file_cannot_hold_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ending = STUDY.replace('change = { drug = "2*drug" }', "ends = true")
    (tmp_path / "tank.toml").write_text(ending, encoding="utf-8")
    assert main(["export", "tank.toml", "tank.xml"]) == 2
    assert "The events `doubled` end the simulation, which SBML has not." in capsys.readouterr().err
    assert not (tmp_path / "tank.xml").exists()
    assert main(["export", "tank.toml", "tank.py"]) == 0
    assert "ends=True" in (tmp_path / "tank.py").read_text(encoding="utf-8")
    study = study_from_text(STUDY)
    with pytest.raises(StudyError, match="`own` are code"):
        written_events({**study.events, "own": simkit.Event(lambda system, t, y, inputs: y.level)})
    many = study_from_text(STUDY.replace("at = 5.0", "at = 5.0\nevery = 0.001\nadditional = 1500"))
    with pytest.raises(simkit.ArgumentError, match="at most 1000 known times to be written as SBML, but have 1504"):
        petab.equations_sbml(many.system, many.y0, events=written_events(many.events))
