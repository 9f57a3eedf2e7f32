"""Censored data in study files, inline and from tables."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from simkit import StudyError, UnknownNameError
from simkit.study import study_from_text

HEAD = """
[system]
model = "exponential_decay"
[y0]
amount = 4.0
[noise]
amount = { model = "normal", scale = 0.3 }
[free]
rate = { bounds = [0.01, 5.0] }
[experiments.one]
"""
# The columns of Monolix and nlmixr2.
TABLE = """TIME,DV,CENS,LIMIT,LLOQ
0.5,3.1,0,.,0.5
1.0,2.2,0,.,0.5
2.0,0.5,1,0.0,0.5
4.0,0.5,1,0.0,0.5
"""
TIMES, VALUES = np.array([0.5, 1.0, 2.0, 4.0]), np.array([3.1, 2.2, 0.5, 0.5])


def _density(study, floor):
    problem = study.problem()
    found = float(problem.log_likelihood(jnp.array([0.9]))[0])
    location = np.asarray(problem.predict(jnp.array([0.9]))["amount"])[0]
    low = stats.norm.cdf(0.5, location, 0.3) - (stats.norm.cdf(0.0, location, 0.3) if floor else 0)
    known = stats.norm.logpdf(VALUES, location, 0.3)[:2].sum() + np.log(low)[2:].sum()
    np.testing.assert_allclose(found, known, rtol=1e-8)
    return problem


INLINE = "times = [0.5, 1.0, 2.0, 4.0]\ndata = { amount = [3.1, 2.2, 0.5, 0.0] }\n"


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        (INLINE + "below = { amount = 0.5 }", False),
        (INLINE + "below = { amount = [0.5, 0.5, 0.5, 0.5] }", False),
        (INLINE.replace("0.0] }", "0.5] }") + "censored = { amount = [0, 0, 1, 1] }", False),
        (
            INLINE.replace("0.0] }", "0.5] }")
            + "censored = { amount = [0, 0, 1, 1] }\nlimits = { amount = [nan, nan, 0.0, 0.0] }",
            True,
        ),
        ('file = "a.csv"\ncolumns = { time = "TIME", amount = "DV" }\nbelow = { amount = "LLOQ" }', False),
        (
            'file = "a.csv"\ncolumns = { time = "TIME", amount = "DV" }\ncensored = { amount = "CENS" }\n'
            'limits = { amount = "LIMIT" }',
            True,
        ),
    ],
)
def test_a_study_states_censored_data(text, floor):
    problem = _density(study_from_text(HEAD + text, read={"a.csv": TABLE}), floor)
    assert problem.data_count == 4
    assert problem.dataset.censored_count == 2


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (INLINE + "below = { amoun = 0.5 }", UnknownNameError, "Close matches: `amount`"),
        (INLINE + "limits = { amount = [0, 0, 0, 0] }", StudyError, "needs the flags of `censored`"),
        (
            INLINE + "below = { amount = 0.5 }\ncensored = { amount = [0, 0, 1, 1] }",
            StudyError,
            "together with `below`",
        ),
        (INLINE + "censored = { amount = [0, 0, 1, 3] }", StudyError, "entry 3 is 3"),
        (INLINE + "below = { amount = true }", StudyError, "must be an array"),
        (INLINE + 'below = { amount = "LLOQ" }', StudyError, "header"),
    ],
)
def test_what_is_wrong_is_a_sentence(text, error, words):
    with pytest.raises(error, match=words):
        study_from_text(HEAD + text)
