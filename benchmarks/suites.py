"""Claim: of the public test suites that simkit enters no case is wrong: each is right, refused by name, or ends with a status.

`benchmarks/suites.json` has a row a suite: its counts, or the file in which the benchmark of that suite records them. This prints
the table, writes it as a page (`python benchmarks/suites.py docs/suites.md`), and runs the samples that stand in the tests
(`python benchmarks/run.py suites`).
"""

import dataclasses
import json
import pathlib
import subprocess
import sys
from typing import Any

import _harness

HERE = pathlib.Path(__file__).parent
COUNTS = ("right", "refused", "failed", "wrong", "not run")
WORDS = {"skewed": "right", "near": "right", "unfinished": "failed"}
"""What single benchmarks call an end, in the words of the table."""

INTRODUCTION = """# Public test suites

What suites that others wrote say of this version. Right: within the tolerance of the suite itself. Refused: an error that names
what simkit does not have. Failed: no result, and a status that says so, or no end in time. A wrong case is a defect. Made by
`python benchmarks/suites.py docs/suites.md` from the records of the benchmarks in the last column; samples run with the tests.
[Validation](validation.md) has what single solutions and programs say.

"""


@dataclasses.dataclass(frozen=True)
class Suite:
    """A suite, and how its cases ended."""

    name: str
    origin: str
    counts: dict[str, int]
    run: str
    sample: str | None
    remark: str
    peers: str

    @property
    def cases(self) -> int:
        return sum(self.counts.values())


def suites() -> list[Suite]:
    """All suites, as they stand on record."""
    return [_suite(row) for row in json.loads((HERE / "suites.json").read_text())]


def _suite(row: dict[str, Any]) -> Suite:
    found: dict[str, Any] = row
    if "file" in row:
        found = json.loads((HERE / row["file"]).read_text())
        found = found.get(row.get("part"), found)
    counts = dict.fromkeys(COUNTS, 0)
    for word, cases in found.items():
        end = WORDS.get(word, word)
        if end in counts:
            counts[end] += len(cases.split()) if isinstance(cases, str) else cases
    if "cases" in row and sum(counts.values()) != row["cases"]:
        raise ValueError(
            f"{row['suite']}: the counts add up to {sum(counts.values())}, but the suite has {row['cases']} cases."
        )
    texts = {key: row.get(key, "") for key in ("remark", "peers")}
    return Suite(row["suite"], row["origin"], counts, row["run"], row.get("sample"), **texts)


def page() -> str:
    """The page of the documentation."""
    lines = [
        "| suite | cases | " + " | ".join(COUNTS) + " | others | remarks | run by |",
        "|---|" + "---|" * (len(COUNTS) + 4),
    ]
    for one in suites():
        counts = [f"{one.counts[word]:,}" if one.counts[word] else "" for word in COUNTS]
        cells = [f"{one.name} ({one.origin})", f"{one.cases:,}", *counts, one.peers, one.remark, f"`{one.run}`"]
        lines.append("| " + " | ".join(cells) + " |")
    entered = [one for one in suites() if one.cases]
    total = {word: sum(one.counts[word] for one in entered) for word in COUNTS}
    cells = ["all", f"{sum(one.cases for one in entered):,}", *(f"{total[word]:,}" for word in COUNTS), "", "", ""]
    lines.append("| " + " | ".join(cells) + " |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def main() -> dict[str, float]:
    rows, figures = [], {}
    for one in suites():
        sample = ""
        if one.sample is not None:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", one.sample]
            done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
            sample = "passed" if done.returncode == 0 else "FAILED"
        rows.append([one.name, str(one.cases), *(str(one.counts[word]) for word in COUNTS), sample])
        figures[f"{one.name}, wrong"] = one.counts["wrong"] + (sample == "FAILED")
    _harness.print_table("Public test suites", ["suite", "cases", *COUNTS, "sample"], rows)
    return {
        "suites_wrong": sum(figures.values()),
        "suites_right": sum(one.counts["right"] for one in suites()),
    } | figures


if __name__ == "__main__":
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(page())
    else:
        print(page())
