"""Table of the tests that take long, and the command that writes it.

`durations.txt` holds seconds and names of the tests that take more than `LONG` seconds on two cores. `conftest.py` marks them
as slow: continuous integration runs them while its time lasts. After a run of the suite whose output went to a file,

    python -m pytest -n 2 -vv --durations=0 -m "not long and not matrix" > seconds.log
    python tests/durations.py seconds.log

replaces the rows of the tests that ran and keeps the others. The first test of a file pays for programs that the next ones share:
where it becomes slow, another takes its place, so that two or three rounds are needed.
"""

import collections
import functools
import pathlib
import re
import sys

TABLE = pathlib.Path(__file__).with_name("durations.txt")
LONG = 1.5
"""Seconds above which a test is slow."""

ROW = re.compile(r"^([0-9.]+)s (?:call|setup|teardown) +(tests/.*)$")


@functools.cache
def known() -> dict[str, float]:
    """Seconds of the tests in the table by name."""
    rows = (line.split(maxsplit=1) for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in rows}


def measured(lines: list[str]) -> dict[str, float]:
    """Seconds by name in the lines that pytest prints at the end of a run, all phases of a test together."""
    found: dict[str, float] = collections.Counter()
    for line in lines:
        if match := ROW.match(line.rstrip()):
            found[match[2]] += float(match[1])
    return found


def renewed(rows: dict[str, float], found: dict[str, float]) -> dict[str, float]:
    """The rows of tests that did not run as they are, and of those that ran the long ones."""
    return {name: seconds for name, seconds in (rows | found).items() if name not in found or seconds > LONG}


def write(rows: dict[str, float]) -> None:
    """Write rows in tenths of seconds, sorted by name."""
    text = "".join(f"{seconds:.1f} {name}\n" for name, seconds in sorted(rows.items()))
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(renewed(known(), measured(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())))
