"""Doses in study files: in place, and from a dosing table, beside the same problem in Python."""

import jax.numpy as jnp
import numpy as np
import pytest

import simkit
from simkit import StudyError, UnknownNameError
from simkit.problem import Dose, Doses, dose_event
from simkit.study import study_from_text

HEAD = """
[system]
model = "two_compartment"
[y0]
central = 0.0
peripheral = 0.0
[noise]
concentration = { model = "normal", scale = 0.3 }
[free]
exchange = { bounds = [1.0, 50.0] }
"""
TABLE = """ID,TIME,EVID,AMT,CMT,RATE,DV
anna,0,1,300,central,150,.
anna,1,0,.,.,.,5.0
anna,6,0,.,.,.,4.0
ben,0,1,200,central,.,.
ben,2,0,.,.,.,4.0
"""
DOSING = """
[dosing]
file = "doses.csv"
compartments = ["central", "peripheral"]
outputs = "concentration"
bioavailability = { central = 0.5 }
"""
INLINE = """
[experiments.anna]
start = 0.0
times = [1.0, 6.0]
data = { concentration = [5.0, 4.0] }
doses = [{ amount = 300.0, into = "central", rate = 150.0 }]
[experiments.ben]
start = 0.0
times = [2.0]
data = { concentration = [4.0] }
doses = [{ amount = 200.0, into = "central" }]
[dosing]
bioavailability = { central = 0.5 }
"""


@pytest.mark.parametrize("text", [DOSING, INLINE])
def test_a_study_with_doses_is_the_problem_in_python(text):
    study = study_from_text(HEAD + text, read={"doses.csv": TABLE})
    assert [e.name for e in study.experiments] == ["anna", "ben"]
    system, y0 = study.system, study.y0
    made = []
    schedules = {"anna": Dose(300.0, 0.0, "central", rate=150.0), "ben": Dose(200.0, 0.0, "central")}
    for e in study.experiments:
        event = dose_event(Doses(schedules[e.name]), y0, bioavailability={"central": 0.5})
        made.append(simkit.Experiment(e.name, e.times, e.data, start=0.0, events={"dose": event}))
    noise = {"concentration": simkit.noise.Normal(0.3)}
    free = {"exchange": simkit.Free(bounds=(1.0, 50.0))}
    known = simkit.Problem(system, made, free=free, noise=noise, y0=y0)
    theta = jnp.array([8.0])
    found = study.problem()
    np.testing.assert_allclose(found.log_likelihood(theta)[0], known.log_likelihood(theta)[0], rtol=1e-7)
    assert 1.0 < found.predict(theta)["concentration"][0, 0] < 6.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (INLINE.replace("rate = 150.0", "speed = 1.0"), "has no key `speed`"),
        (INLINE.replace("amount = 300.0, ", ""), "must give `amount`"),
        (INLINE.replace("amount = 300.0", "amount = -3.0"), "doses.0.*`amount` of a dose must be positive"),
        (INLINE.replace('into = "central", rate', 'into = "gut", rate'), "gut.*central"),
        (INLINE.replace('into = "central", rate', "into = 1.5, rate"), "`into` in .* must be the name or the number"),
        (INLINE.replace("rate = 150.0", 'every = 12, steady = "yes"'), "`steady` in .* must be true, false"),
        (INLINE.replace("rate = 150.0", "every = [12.0]"), "`every` in .* must be a finite number"),
        (INLINE.replace("rate = 150.0", "every = 0"), "`every` of a dose must be positive"),
        (INLINE.replace("doses = [{ amount = 200.0", "doses = [{ time = -1.0, amount = 200.0"), "before the start, 0"),
        (INLINE.replace('doses = [{ amount = 200.0, into = "central" }]', "doses = [3.0]"), "must hold tables"),
        (INLINE.replace("rate = 150.0", "every = 1.0, additional = 1000000000"), "must be at most 100,000"),
        (INLINE + "lagg = 1.0", "has no key `lagg`"),
        (DOSING.replace('"concentration"', "[1]"), "must be a table"),
        (DOSING.replace("0.5", "nan"), "must be a finite number"),
        (DOSING.replace('file = "doses.csv"', 'file = "other.csv"'), "not at hand"),
        (DOSING.replace('["central", "peripheral"]', '["gut", "peripheral"]'), "central"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_its_place(text, words):
    with pytest.raises((StudyError, UnknownNameError, simkit.DataError), match=words):
        study_from_text(HEAD + text, read={"doses.csv": TABLE})
