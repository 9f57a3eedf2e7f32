"""The draft of the paper and the workflow of releases: what they cite, quote and attest is there."""

import pathlib
import re

import pytest

yaml = pytest.importorskip("yaml")
ROOT = pathlib.Path(__file__).parents[1]
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
SECTIONS = "Summary", "Statement of need", "State of the field", "Software design", "Validation", "References"


def test_what_is_cited_is_in_the_bibliography():
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(entries)) == len(entries)
    assert set(re.findall(r"\[@(\w+)\]", PAPER)) == set(entries)


def test_the_form_is_that_of_journals():
    _, head, text = PAPER.split("---\n", 2)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(yaml.safe_load(head))
    headings = re.findall(r"^# (.*)$", text, re.MULTILINE)
    assert [name for name in headings if name in SECTIONS] == list(SECTIONS)
    assert 750 <= len(text.split()) <= 1750  # what the Journal of Open Source Software asks for


def test_figures_of_the_comparison_are_measured():
    """Each time of the table stands in docs/performance.md, and each ratio follows from two of them."""
    measured = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+) \| ([\d.]+)(?: ms)? \| (.+): ([\d,.]+)(?: to ([\d,.]+))?(?: ms)? \| (.+) \|$", PAPER, re.MULTILINE
    )
    assert len(rows) == 13
    for work, ours, peer, low, high, ratio in rows:
        for number in filter(None, (ours, low, high)):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", measured), (work, number)
        told = [float(word) for word in ratio.split(" to ")]
        found = [float(number.replace(",", "")) / float(ours) for number in filter(None, (low, high))]
        if "draws" in work:  # more is better
            found = [1 / x for x in found]
        assert told == pytest.approx(found, rel=0.04), (work, peer)  # two digits


def test_counts_of_suites_are_those_of_the_page():
    rows = [
        [cell.strip().replace(",", "") for cell in line.split("|")]
        for line in (ROOT / "docs/suites.md").read_text(encoding="utf-8").splitlines()
    ]
    semantic = [[int(cell or 0) for cell in row[2:7]] for row in rows if row[1:] and row[1].startswith("SBML semantic")]
    cases, right, refused, failed, wrong = map(sum, zip(*semantic, strict=True))
    words = f"{right:,} of {cases:,} cases are right, {refused} are refused by name, {failed} fail with a status, and none is wrong"
    assert words in PAPER
    assert wrong == 0


def test_releases_are_attested_before_they_are_published():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    check, build = workflow["jobs"]["check"], workflow["jobs"]["build"]
    assert check["permissions"] == {"contents": "read"}
    assert any(step.get("run") == ".ci/run" for step in check["steps"])
    assert build["needs"] == "check"
    assert {"id-token", "attestations"} < set(build["permissions"])
    names = [step.get("name") for step in build["steps"]]
    assert names[-2:] == ["Attest", "Release"]
    assert build["steps"][-2]["with"]["subject-path"] in build["steps"][-1]["run"]
