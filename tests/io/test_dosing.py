"""Dosing tables as they are published for NONMEM, nlmixr2 and mrgsolve."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit

THEOPHYLLINE = pathlib.Path(__file__).parents[2] / "data" / "theophylline" / "theophylline.csv"

# The layout of `theo_sd` in nlmixr2data: the dose of Boeckmann, Sheiner & Beal (1994) as a row with the code 101 of RxODE,
# into the first compartment; its first subject in milligrams (4.02 mg/kg times 79.6 kg).
THEO_SD = """ID,TIME,DV,AMT,EVID,CMT,WT
1,0.00,0.00,319.992,101,1,79.6
1,0.00,0.74,0.000,0,2,79.6
1,0.25,2.84,0.000,0,2,79.6
1,0.57,6.57,0.000,0,2,79.6
2,0.00,0.00,318.560,101,1,72.4
2,0.00,0.00,0.000,0,2,72.4
2,0.27,1.72,0.000,0,2,72.4
"""


def _read(text, **options):
    return simkit.io.read_doses("table.csv", text=text, **options)


def test_theophylline_of_nlmixr2():
    one, two = _read(THEO_SD, compartments=("depot", "central"), outputs="drug")
    assert (one.name, two.name) == ("1", "2")
    assert one.doses == simkit.problem.Doses(
        [simkit.problem.Dose(319.992, 0.0, "depot")], compartments=("depot", "central")
    )
    np.testing.assert_array_equal(one.times, [0.0, 0.25, 0.57])
    np.testing.assert_array_equal(one.data["drug"], [0.74, 2.84, 6.57])
    assert one.covariates == {"wt": 79.6}
    assert dict(one.varying) == {}
    assert one.start == 0.0


def test_all_of_theophylline_as_nonmem_has_it():
    """The same data in the layout of NONMEM's example, without EVID, with `.` for what is missing."""
    table = simkit.io.read_table(THEOPHYLLINE, ["subject", "weight", "dose", "time", "concentration"], time=None)
    lines = ["ID,AMT,TIME,DV,WT"]
    for i in range(1, 13):
        own = {name: values[table["subject"] == i] for name, values in table.items()}
        lines.append(f"{i},{own['dose'][0]},0,.,{own['weight'][0]}")
        lines += [
            f"{i},.,{t},{y},{w}" for t, y, w in zip(own["time"], own["concentration"], own["weight"], strict=True)
        ]
    found = _read("\n".join(lines))
    assert len(found) == 12
    assert sum(len(s.times) for s in found) == 132
    for i, subject in enumerate(found, 1):
        own = table["subject"] == i
        np.testing.assert_array_equal(subject.data["y"], table["concentration"][own])
        assert subject.doses.amounts[0] == table["dose"][own][0]
        assert subject.covariates == {"wt": table["weight"][own][0]}


def test_additional_doses_of_mrgsolve():
    """`ev(amt = 100, ii = 24, addl = 3)` of the user guide of mrgsolve: doses at 0, 24, 48 and 72; columns in small letters."""
    (one,) = _read("ID,time,cmt,evid,amt,ii,addl\n1,0,1,1,100,24,3\n")
    np.testing.assert_array_equal(one.doses.times, [0.0, 24.0, 48.0, 72.0])
    np.testing.assert_array_equal(one.doses.amounts, 100.0)
    assert len(one.times) == 0


def test_infusions_steady_states_and_resets():
    text = """ID,TIME,EVID,AMT,CMT,RATE,DUR,II,SS,DV,MDV
a,0,1,100,2,50,0,12,1,.,1
a,5,0,.,2,0,0,0,0,7.5,0
a,6,0,.,2,0,0,0,0,9.9,1
a,24,4,30,1,0,1.5,0,0,.,1
a,30,3,.,.,0,0,0,0,.,1
a,31,2,.,.,0,0,0,0,.,1
a,48,1,10,1,0,0,12,2,.,1
"""
    (one,) = _read(text)
    doses = one.doses
    np.testing.assert_array_equal(doses.times, [0.0, 24.0, 30.0, 48.0])
    np.testing.assert_array_equal(doses.durations, [2.0, 1.5, 0.0, 0.0])
    np.testing.assert_array_equal(doses.rates, [50.0, 20.0, 0.0, 0.0])
    np.testing.assert_array_equal(doses.by_rate, [True, False, False, False])
    np.testing.assert_array_equal(doses.steady, [True, False, False, True])
    np.testing.assert_array_equal(doses.added, [False, False, False, True])
    np.testing.assert_array_equal(doses.intervals, [12.0, 0.0, 0.0, 12.0])
    np.testing.assert_array_equal(doses.resets, [False, True, True, False])
    assert doses.targets == (2, 1, None, 1)
    np.testing.assert_array_equal(one.times, [5.0])


def test_two_outputs_and_censored_data():
    """CENS and LIMIT as the documentation of data for nlmixr2 has them: 1 is left-censored at DV, with LIMIT in (LIMIT, DV)."""
    text = """ID,TIME,EVID,AMT,CMT,DV,DVID,CENS,LIMIT
1,0,1,100,1,.,0,0,.
1,1,0,0,2,4.0,1,0,.
1,1,0,0,2,80,2,0,.
1,2,0,0,2,0.5,1,1,0
1,2,0,0,2,90,2,0,.
1,2,0,0,2,95,2,0,.
"""
    (one,) = _read(text, outputs={1: "drug", 2: "effect"})
    np.testing.assert_array_equal(one.times, [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(one.data["effect"], [80.0, 90.0, 95.0])
    drug = one.data["drug"]
    assert isinstance(drug, simkit.Censored)
    np.testing.assert_array_equal(drug.mask, [False, True, False])
    np.testing.assert_array_equal(drug.values, [4.0, 0.5, np.nan])
    np.testing.assert_array_equal(drug.limits["floor"][1], 0.0)
    experiment = simkit.Experiment("1", one.times, one.data, replicates=True)
    assert repr(experiment) == "Experiment('1': 3 times, data drug 2 (1 censored), effect 3)"


def test_covariates_that_change_and_compartments_by_name():
    text = "ID,TIME,AMT,CMT,DV,AGE,OCC\n1,0,10,gut,.,30,1\n1,1,.,blood,2,30,1\n1,2,.,blood,1,30,2\n"
    (one,) = _read(text, compartments=("gut", "blood"), outputs={"blood": "drug"})
    assert one.doses.targets == ("gut",)
    assert one.covariates == {"age": 30.0}
    np.testing.assert_array_equal(one.varying["occ"], [1.0, 2.0])


HEAD = "ID,TIME,EVID,AMT,CMT,RATE,DUR,ADDL,II,SS,DV\n"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            "1,0,9,1,1,0,0,0,0,0,.",
            "Line 2 of the dosing table `table.csv` must have one of the EVIDs 0 \\(observation\\).*has 9",
        ),
        ("1,0,5,1,1,0,0,0,0,0,.", "replaces an amount"),
        ("1,1,1,1,1,0,0,0,0,0,.\n1,0,0,0,1,0,0,0,0,0,2", "Line 3 .* must not go back in time, but 0 follows 1"),
        ("1,0,1,1,1,0,0,0,0,0,.\n2,0,1,1,1,0,0,0,0,0,.\n1,0,0,0,1,0,0,0,0,0,.", "Line 4 .* begins subject `1` again"),
        ("1,0,1,-5,1,0,0,0,0,0,.", "AMT must be positive, but it is -5"),
        ("1,0,1,0,1,0,0,0,0,0,.", "AMT must be positive, but it is 0"),
        ("1,0,1,0,1,5,0,0,0,1,.", "an infusion for ever"),
        ("1,0,0,5,1,0,0,0,0,0,.", "is no dose \\(EVID 0\\), but its AMT is 5"),
        ("1,0,1,5,1,2,3,0,0,0,.", "RATE or a DUR, but it has both"),
        ("1,0,1,5,1,0,0,3,0,0,.", "has ADDL 3, so it must have an interval II"),
        ("1,0,1,5,1,0,0,1.5,1,0,.", "whole number of additional doses"),
        ("1,0,1,5,1,0,0,1000000000,12,0,.", "must be at most 100,000, but they are 1,000,000,000"),
        ("1,0,1,5,1,0,0,3,1e308,0,.", "must end at a finite time"),
        ("1,0,1,5,1,1e-310,0,0,0,0,.", "must end at a finite time"),
        ("1,0,1,5,1,0,0,0,0,1,.", "must have an interval `every`"),
        ("1,0,1,5,1,0,0,0,12,3,.", "has SS 3, but it must be 0, 1 or 2"),
        ("1,0,1,5,1,-2,0,0,0,0,.", "the duration is a parameter"),
        ("1,0,1,5,1,-1,0,0,0,0,.", "the rate is a parameter"),
        ("1,0,1,5,3,0,0,0,0,0,.", "There is no compartment 3. The compartments are 1 `gut`, 2 `blood`"),
        ("1,0,1,5,-1,0,0,0,0,0,.", "must not be switched off"),
        ("1,0,1,5,liver,0,0,0,0,0,.", "liver"),
        ("1,.,1,5,1,0,0,0,0,0,.", "must have a TIME"),
        ("1,0,1,5,1,0,0,4,12,0,.\n1,20,3,0,1,0,0,0,0,0,.", "must not fall between"),
        ("1,2,1,5,1,0,0,0,0,0,.\n1,2,3,0,1,0,0,0,0,0,.", "the time of a dose before it"),
        ("1,0,1,five,1,0,0,0,0,0,.", "Line 2, column `AMT`"),
    ],
)
def test_what_is_wrong_is_a_sentence_with_its_line(rows, words):
    with pytest.raises(simkit.SimkitError, match=words):
        _read(HEAD + rows + "\n", compartments=("gut", "blood"))


def test_doses_before_the_start_and_missing_columns():
    with pytest.raises(simkit.DataError, match=r"Line 2 .* gives a dose at 0, before the start, 1"):
        _read("ID,TIME,AMT\n1,0,5\n", start=1.0)
    with pytest.raises(simkit.DataError, match="must have a column TIME"):
        _read("ID,AMT\n1,5\n")
    with pytest.raises(simkit.DataError, match="more than one column AMT"):
        _read("ID,TIME,AMT,amt\n1,0,5,5\n")
    with pytest.raises(simkit.DataError, match="observes CMT 3, but `outputs` has 2 `drug`"):
        _read("ID,TIME,AMT,CMT,DV\n1,0,.,3,5\n", outputs={2: "drug"})


ROWS = "ID,TIME,EVID,AMT,CMT,DV\n"
TROUGH = "1,0,0,.,1,0\n1,0,1,100,1,.\n1,0,0,.,1,100\n1,24,0,.,1,9\n1,24,1,100,1,.\n1,24,0,.,1,109\n1,30,0,.,1,4\n1,30,3,.,.,.\n"
RATE = 0.1


def _predicted(text):
    """Data predicted by a decay, at the time at which a float type has them."""
    (one,) = _read(ROWS + text, compartments=("blood",), outputs="blood")
    body = simkit.odes.from_function(lambda t, y, p: {"blood": -p["rate"] * y["blood"]}, {"rate": RATE})
    e = simkit.Experiment(one.name, one.times, one.data, start=one.start, doses=one.doses)
    free, noise = {"rate": simkit.Free(bounds=(0.01, 1.0))}, {"blood": simkit.noise.Normal(1.0)}
    problem = simkit.Problem(body, e, free=free, noise=noise, y0={"blood": 0.0})
    return np.asarray(problem.predict(jnp.array([RATE]))["blood"][0])


@pytest.mark.parametrize("double", [True, False])
def test_an_observation_in_front_of_a_dose_of_the_same_time_is_predicted_before_it(double):
    """NONMEM, mrgsolve and nlmixr2 go through the rows in their order; exact amounts by superposition."""
    low = 100 * np.exp(-RATE * 24)
    with jax.enable_x64(double):
        found = _predicted(TROUGH)
    np.testing.assert_allclose(found, [0, 100, low, low + 100, (low + 100) * np.exp(-RATE * 6)], rtol=2e-4)


def test_observations_between_doses_of_one_time_and_far_from_zero():
    rows = "1,1000,0,.,1,3\n1,1000,1,100,1,.\n1,1000,0,.,1,3\n1,1000,1,50,1,.\n1,1000,0,.,1,3\n"
    with jax.enable_x64(False):
        np.testing.assert_allclose(_predicted(rows + "1,1010,0,.,1,3\n"), [0, 100, 150, 150 / np.e], rtol=2e-4)
    np.testing.assert_allclose(_predicted(rows.replace("1000", "0")), [0, 100, 150], rtol=1e-6)


def test_where_rows_in_front_of_a_dose_stand_in_time():
    one, two = _read(ROWS + TROUGH + "2,0,0,.,1,.\n2,0,1,100,1,.\n2,24,0,.,1,9\n", start=0.0)
    np.testing.assert_allclose(one.times, [0, 0, 24, 24, 30], rtol=1e-15, atol=1e-14)
    assert one.start == one.times[0] < 0 == one.times[1]
    assert one.times[2] < 24 == one.times[3]
    np.testing.assert_array_equal(one.doses.times, [0.0, 24.0, 30.0])
    assert two.start == 0.0  # a row without a datum is none to predict


def test_a_byte_order_mark_is_no_part_of_the_first_column():
    assert _read("\ufeffID,TIME,AMT\n1,0,5\n")[0].name == "1"


def test_doses_without_a_column_of_amounts_are_told():
    text = "ID,TIME,EVID,DOSE,DV\n1,0,1,100,.\n1,1,0,.,2.0\n"
    with pytest.raises(simkit.DataError, match="no column AMT"):
        simkit.io.read_doses("doses.csv", text=text, compartments=("gut",), outputs="blood")
