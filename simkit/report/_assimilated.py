"""Assimilations in reports: what was found, and whether spread and errors fit what was seen."""

import numpy as np

from ..assimilation import Assimilation
from ._answer import Answer
from ._tables import as_table

SURE, LARGE = 4.0, 1.5
"""Standard errors from 1, and the factor, beyond which chi-square an observation says that spread and errors are wrong."""


def assimilation_rows(found: Assimilation) -> str:
    """The table of what is printed, but for the statistics that have answers of their own."""
    return as_table(("what", "value"), found.facts())


def assimilation_method(found: Assimilation) -> str:
    """A sentence on the method."""
    smoothed = "" if found.smoothed is None else ", and corrected once more by what was seen later"
    return (
        f"States were forecast from each time of observations to the next and corrected by what was seen there{smoothed}: "
        f"{found.method}."
    )


def assimilation_answers(found: Assimilation) -> list[Answer]:
    """One question: do spread and errors fit what was seen?"""
    ratio, count = found.late_chi_square()
    question = "Do the spread of states and the errors of data fit what was seen?"
    if count == 0:
        return [Answer(question, "untested", "Nothing was seen in the last three quarters of the times.")]
    text = f"Chi-square is {ratio:.3g} an observation, of {count} in the last three quarters of the times; 1 is right."
    # The variance of chi-square with so many degrees of freedom.
    sure = abs(ratio - 1) > SURE * np.sqrt(2 / count)
    if sure and ratio > LARGE:
        advice = (
            "What was seen lies farther from the forecast than spread and errors allow: the states may be lost. Raise `inflation` "
            "or `members`, or the errors of the data; of 4D-Var `deviation`.",
        )
        return [Answer(question, "care", text, advice)]
    if sure and ratio < 1 / LARGE:
        advice = ("Spread or errors of the data are too large: the states are known better than is said.",)
        return [Answer(question, "care", text, advice)]
    return [Answer(question, "yes", text)]
