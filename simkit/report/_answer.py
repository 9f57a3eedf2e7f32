"""Answers of a verdict and their grades."""

import html
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ._tables import as_table, listed

Grade = Literal["yes", "care", "no", "untested"]

ORDER: tuple[Grade, ...] = ("no", "care", "untested", "yes")
IN_WORDS: dict[Grade, str] = {"yes": "yes", "care": "with care", "no": "no", "untested": "not tested"}


class Answer(NamedTuple):
    """One question about the results, its grade, what was found in a sentence, and what to do, a sentence each."""

    question: str
    grade: Grade
    found: str
    advice: tuple[str, ...] = ()


HELD = 1e-3
"""Largest change of what should be constant, over its size, that counts as none: what is drawn does not show it."""


def graded(change: float) -> Grade:
    """The grade of a relative change of what should be constant."""
    return "yes" if change <= HELD else "care" if change <= 10 * HELD else "no"


def verdict(found: Sequence[Answer]) -> tuple[Grade, str]:
    """The worst grade of all answers, and one sentence."""
    given = [answer.grade for answer in found]
    worst: Grade = ORDER[min(map(ORDER.index, given))]
    asked = ", ".join(f'"{answer.question}"' for answer in found if answer.grade == worst)
    sentences: dict[Grade, str] = {
        "yes": "Yes, as far as was tested: nothing speaks against these results.",
        "untested": f"Nothing found speaks against these results, but a part was not tested: {asked}",
        "care": f"With care. Read first what was found under {asked}",
        "no": f"Not yet. Mend first what was found under {asked}",
    }
    return worst, sentences[worst]


def judged(found: Sequence[Answer]) -> str:
    """The verdict on answers, the table of its reasons, and what to do, as HTML; nothing where there are none."""
    if not found:
        return ""
    grade, sentence = verdict(found)
    lines = [(answer.question, IN_WORDS[answer.grade], answer.found.replace("`", "")) for answer in found]
    advice = [text for answer in found for text in answer.advice]
    table = as_table(("question", "answer", "found"), lines, "words")
    todo = f"<h3>Warnings</h3>\n{listed(advice)}" if advice else ""
    return f'<p class="verdict {grade}">{html.escape(sentence)}</p>\n{table}\n{todo}'
