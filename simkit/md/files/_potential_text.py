"""Words of a potential file with the lines on which they stand, so that a complaint can name one."""

import math
import re
from pathlib import Path

import numpy as np

from ..._errors import DataError, close_matches
from ...stores import input_bytes, reading
from ..space._units import METAL, UNIT_SYSTEMS, Units

LAMMPS_NAMES = {"lj": "reduced"}
"""Unit systems by their name in LAMMPS, where it differs."""


class PotentialText:
    """The lines of a potential file, taken one after the other."""

    def __init__(self, path: str | Path):
        self.name = Path(path).name
        self.lines = _read(Path(path)).splitlines()
        self.line = 0  # how many have been taken; also the number of the last one

    def error(self, sentence: str, line: int | None = None) -> DataError:
        """A `DataError` about a line, by default the last one that was taken."""
        return DataError(f"Line {self.line if line is None else line} of the potential file `{self.name}` {sentence}")

    def take(self, what: str) -> str:
        """The next line."""
        if self.line >= len(self.lines):
            raise DataError(
                f"The potential file `{self.name}` is cut short: {what} must follow its line {len(self.lines)}, but nothing does. "
                "Fetch the file again."
            )
        self.line += 1
        return self.lines[self.line - 1]

    def words(self, what: str, least: int) -> list[str]:
        """The words of the next line, which must be at least so many."""
        found = self.take(what).split()
        if len(found) < least:
            raise self.error(f"must hold {what}, but it is `{shown(' '.join(found))}`.")
        return found

    def number(self, word: str, what: str) -> float:
        """A word of the last line as a finite number."""
        return self.finite(word, what, self.line)

    def finite(self, word: str, what: str, line: int) -> float:
        try:
            value = float(word.replace("D", "e").replace("d", "e") if word[:1] in "+-.0123456789" else word)
        except ValueError as error:
            raise self.error(
                f"must hold {what} as a number, but there is `{shown(word)}`. Is the file of another style?", line
            ) from error
        if not math.isfinite(value):
            raise self.error(f"must hold {what} as a finite number, but there is `{word}`.", line)
        return value

    def whole(self, word: str, what: str, least: int = 1) -> int:
        value = self.number(word, what)
        if value != int(value) or value < least:
            raise self.error(f"must hold {what} as a whole number of at least {least}, but there is `{word}`.")
        return int(value)

    def block(self, count: int, what: str) -> np.ndarray:
        """Read a number of values, over as many lines as they take."""
        first, found = self.line + 1, []
        while len(found) < count:
            words = self.take(f"the rest of {what} ({len(found)} of {count} numbers from line {first} on)").split()
            found.extend(self.number(word, what) for word in words)
        if len(found) > count:
            raise self.error(
                f"must end {what} with number {count} (from line {first} on), but it has {len(found) - count} more: the sizes in "
                "the header do not fit, or the file is of another style."
            )
        return np.array(found)

    def finish(self) -> None:
        """Refuse what follows the last number."""
        for line in range(self.line, len(self.lines)):
            if self.lines[line].strip():
                raise self.error(
                    f"must be empty, since all tables have been read, but it is `{shown(self.lines[line])}`. Is the file of "
                    "another style?",
                    line + 1,
                )

    def units(self) -> Units:
        """The unit system that the first line names by `UNITS:`; metal units where it names none."""
        found = re.search(r"UNITS:\s*(\w+)", self.lines[0]) if self.lines else None
        if found is None:
            return METAL
        name = LAMMPS_NAMES.get(found[1], found[1])
        if name not in UNIT_SYSTEMS:
            raise self.error(
                f"must name a known unit system, but it is `{name}`. {close_matches(name, UNIT_SYSTEMS)}", 1
            )
        return UNIT_SYSTEMS[name]

    def entries(self, size: int) -> list[tuple[int, list[str]]]:
        """Entries of so many words, each on one or more lines, comments apart; with the line on which each begins."""
        words = [(number, word) for number, line in enumerate(self.lines, 1) for word in line.partition("#")[0].split()]
        found = []
        for start in range(0, len(words), size):
            entry = words[start : start + size]
            if len(entry) < size:
                raise DataError(
                    f"The potential file `{self.name}` is cut short: the entry that begins on its line {entry[0][0]} must have "
                    f"{size} words, but it has {len(entry)}. Fetch the file again, or is it of another style?"
                )
            found.append((entry[0][0], [word for _, word in entry]))
        return found


def shown(text: str) -> str:
    text = text.strip()
    return text if len(text) < 50 else text[:47] + "..."


def _read(path: Path) -> str:
    with reading(path, "potential file"):
        return input_bytes(path, "potential file").decode("utf-8-sig", errors="replace")  # skips a byte order mark
