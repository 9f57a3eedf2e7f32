"""The composition matrix: a part by default, the rest with `pytest -m matrix`."""

import pytest
from engine.composition import DEFAULT, PAGE, TRANSFORMATIONS, UPSTREAM, page, rows
from engine.composition_cases import CASES, subject

CELLS = [(case, name) for case in CASES for name in rows(case.family)]


def _check(case, name):
    if (case.label, name) in UPSTREAM:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever JAX says; the day it works the list has to follow
            TRANSFORMATIONS[name](subject(case))
    else:
        TRANSFORMATIONS[name](subject(case))


def _chosen(case, name):
    return pytest.param(case, name, marks=[pytest.mark.slow] if case.label == "particles-clusters-fixed" else [])


@pytest.mark.parametrize(
    ("case", "name"),
    [_chosen(*cell) for cell in CELLS if cell[1] in DEFAULT.get(cell[0].label, ())],
    ids=lambda x: x if isinstance(x, str) else x.label,
)
def test_cell(case, name):
    _check(case, name)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("case", "name"),
    [cell for cell in CELLS if cell[1] not in DEFAULT.get(cell[0].label, ())],
    ids=lambda x: x if isinstance(x, str) else x.label,
)
def test_other_cell(case, name):
    _check(case, name)


def test_the_lists_name_cells_that_exist():
    labels = {case.label for case in CASES}
    named = [(label, name) for label, names in DEFAULT.items() for name in names] + list(UPSTREAM)
    assert all(label in labels and name in TRANSFORMATIONS for label, name in named)


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/engine/composition.py"
