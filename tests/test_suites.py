"""The table of public test suites: it says what the records say, and no case is wrong."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def suites():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        spec = importlib.util.spec_from_file_location("suites", ROOT / "benchmarks/suites.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["suites"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        sys.modules.pop("suites", None)


def test_the_page_is_that_of_the_records(suites):
    assert (ROOT / "docs/suites.md").read_text() == suites.page(), "run `python benchmarks/suites.py docs/suites.md`"


def test_no_case_is_wrong(suites):
    assert [one.name for one in suites.suites() if one.counts["wrong"]] == []


def test_benchmarks_and_samples_exist(suites):
    for one in suites.suites():
        assert not one.cases or (ROOT / one.run).exists(), one.run
        assert one.sample is None or (ROOT / one.sample).exists(), one.sample


def test_counts_that_do_not_add_up_are_refused(suites):
    row = {"suite": "a", "origin": "b", "cases": 3, "right": 2, "run": "c"}
    with pytest.raises(ValueError, match="add up to 2, but the suite has 3"):
        suites._suite(row)
