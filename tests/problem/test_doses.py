"""Doses as objects: checks, and the rows that repeated doses become."""

import numpy as np
import pytest

import simkit
from simkit.problem import Dose, Doses


def test_repeated_doses_become_rows_in_the_order_of_time():
    loading = Dose(200.0, 0.0, "gut")
    daily = Dose(100.0, 24.0, "gut", every=24.0, additional=2)
    infusion = Dose(60.0, 30.0, "blood", rate=20.0)
    doses = Doses([daily, infusion, loading], compartments=("gut", "blood"))
    np.testing.assert_array_equal(doses.times, [0.0, 24.0, 30.0, 48.0, 72.0])
    np.testing.assert_array_equal(doses.amounts, [200.0, 100.0, 60.0, 100.0, 100.0])
    assert doses.targets == ("gut", "gut", "blood", "gut", "gut")
    np.testing.assert_array_equal(doses.durations, [0.0, 0.0, 3.0, 0.0, 0.0])
    np.testing.assert_array_equal(doses.rates, [0.0, 0.0, 20.0, 0.0, 0.0])
    assert repr(doses) == "Doses(5 from 0 to 72, 560 in all, 1 infused)"
    assert len(doses) == 5


def test_steady_state_is_that_before_the_first_dose_alone():
    doses = Doses(Dose(100.0, 0.0, every=12.0, additional=2, steady=True))
    np.testing.assert_array_equal(doses.steady, [True, False, False])
    np.testing.assert_array_equal(doses.intervals, [12.0, 0.0, 0.0])


def test_resets_come_before_doses_of_their_time():
    doses = Doses([Dose(1.0, 0.0), Dose(2.0, 5.0, resets=True), Dose(3.0, 9.0)], resets=[9.0])
    np.testing.assert_array_equal(doses.times, [0.0, 5.0, 9.0, 9.0])
    np.testing.assert_array_equal(doses.resets, [False, True, True, False])
    assert doses.targets == (1, 1, None, 1)


def test_doses_cannot_be_changed():
    doses = Doses(Dose(1.0))
    with pytest.raises(ValueError, match="read-only"):
        doses.times[0] = 2.0
    with pytest.raises(AttributeError, match="cannot be changed"):
        doses.times = np.zeros(1)
    assert doses == Doses([Dose(1.0)])
    assert doses != Doses([Dose(2.0)])
    assert repr(Doses()) == "Doses(none, 0 resets)"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Dose(-1.0), "must be positive, but it is -1"),
        (lambda: Dose(np.nan), "must be a finite number"),
        (lambda: Dose(1.0, rate=1.0, duration=2.0), "both are given"),
        (lambda: Dose(1.0, rate=-1.0), "`rate` of a dose must be positive"),
        (lambda: Dose(1.0, additional=2), "must have an interval `every`"),
        (lambda: Dose(1.0, steady=True), "must have an interval `every`"),
        (lambda: Dose(1.0, every=1.0, duration=2.0, steady=True), "must end within its interval"),
        (lambda: Dose(1.0, into=0), "numbered from 1 on"),
        (lambda: Doses(Dose(1.0, into=3), compartments=("gut", "blood")), "1 `gut`, 2 `blood`"),
        (lambda: Doses(Dose(1.0, every=2.0, additional=3), resets=[4.0]), "must not fall between"),
        (
            lambda: Doses([Dose(1.0, every=2.0, additional=3), Dose(1.0, 4.0, every=2.0, steady=True)]),
            "must not fall between",
        ),
        (lambda: Dose(1.0, every=2.0, steady="twice"), "must be True, False or"),
        (lambda: Doses(Dose(1.0, 1.0)).check_start(2.0), "before the start, 2"),
    ],
)
def test_what_is_wrong_is_a_sentence(make, text):
    with pytest.raises(simkit.DataError, match=text):
        make()


def test_a_wrong_name_lists_close_ones():
    with pytest.raises(simkit.UnknownNameError, match="`blood`"):
        Doses(Dose(1.0, into="blod"), compartments=("gut", "blood"))
