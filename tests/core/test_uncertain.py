"""Numbers with as many digits as their errors leave them."""

import math

import pytest

from simkit.core import uncertain_text


# The published forms are CODATA 2018: G = 6.67430(15)e-11.
@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (6.674300e-11, 0.00015e-11, "6.67430e-11"),
        (137.035999084, 2.1e-2, "137.036"),
        (3.14159, 0.0123, "3.142"),
        (0.5, 0.25, "0.50"),
        (1234.4, 120.0, "1230"),
        (1.2345e9, 2e6, "1.2345e+09"),
        (0.0, 0.1, "0.00"),
        (0.0012, 5.0, "0.001"),
        (-2.5, 0.0996, "-2.50"),
        (1.0, 0.0, "1"),
        (2.0 / 3, math.inf, "0.666667"),
        (math.nan, 0.1, "nan"),
        (1.5, 1e-30, "1.500000000"),
    ],
)
def test_digits_end_where_the_error_does(value, error, text):
    assert uncertain_text(value, error) == text


def test_an_end_of_an_interval_keeps_two_digits():
    assert uncertain_text(0.0123, 10.0, least=2) == "0.012"
    assert uncertain_text(0.0996, 0.0996) == "0.10"
