"""Blocks of a network file of BioNetGen: lines between `begin NAME` and `end NAME`."""

import re
from typing import NamedTuple

from .._errors import DataError, close_matches

NEEDED = ("species", "reactions")
READ = ("parameters", "functions", *NEEDED, "groups")
PASSED_OVER = (
    *("molecule types", "observables", "reaction rules", "energy patterns", "compartments"),
    *("population maps", "population types"),
)
"""Blocks that say how the network was generated, and nothing that the network itself does not say."""
SETTINGS = ("substanceUnits", "setOption", "setModelName", "version")
"""Lines outside of blocks that do not change the network."""


class Line(NamedTuple):
    """A line of a file without its comment, and lines that continue it."""

    file: str
    number: int
    text: str

    def error(self, why: str) -> DataError:
        """A complaint that names the place."""
        return DataError(f"{self.where} {why}")

    @property
    def where(self) -> str:
        """The place in words."""
        return f"`{self.file}`, line {self.number},"

    def words(self) -> tuple[int | None, list[str]]:
        """The index in front, None where there is none, and the words after it."""
        words = self.text.split()
        index = int(words.pop(0)) if words[0].isdecimal() else None
        if not words:
            raise self.error("must hold more than an index. Was the file cut short?")
        return index, words


def blocks_of(text: str, file: str) -> dict[str, list[Line]]:
    """The lines of the blocks that make a network, by the name of the block.

    **Raises:** a `DataError` that names the line: a block that is unknown, there twice or not closed, a line outside of
    blocks that may change the network, or a network without species or reactions.
    """
    found: dict[str, list[Line]] = {}
    name, opened = "", Line(file, 0, "")
    for line in _joined(text, file):
        words = line.text.split()
        if words[0] == "begin":
            if name:
                raise line.error(f"begins a block within the block `{name}`, which line {opened.number} begins.")
            name, opened = " ".join(words[1:]), line
            if name in found:
                raise line.error(f"begins the block `{name}` once more. A network has one of each.")
            if name not in READ and name not in PASSED_OVER:
                known = close_matches(name, (*READ, *PASSED_OVER))
                raise line.error(f"must begin a block of a network, but `{name[:80]}` is none. {known}")
            found[name] = []
        elif words[0] == "end":
            if not name or " ".join(words[1:]) != name:
                ended = f"the block `{name}`" if name else "no block"
                raise line.error(f"must end what was begun, but that is {ended}.")
            name = ""
        elif name:
            found[name].append(line)
        elif re.match(r"\w*", line.text)[0] not in SETTINGS:  # pyright: ignore[reportOptionalSubscript]
            raise line.error(
                f"stands outside of all blocks and is no setting ({', '.join(SETTINGS)}): `{line.text[:80]}`. simkit reads "
                "networks and runs no actions. Remove it, and give times and changes to `simulate`."
            )
    if name:
        raise opened.error(f"begins the block `{name}`, which has no end. Was the file cut short?")
    for name in NEEDED:
        if name not in found:
            raise DataError(f"The network file `{file}` must have a block `{name}`, but has none.")
    return {name: lines for name, lines in found.items() if name in READ}


def _joined(text: str, file: str) -> list[Line]:
    """Lines that hold something, those that a backslash continues in one."""
    found: list[Line] = []
    held, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        part = raw.split("#", 1)[0].rstrip()
        first = first or number
        if part.endswith("\\"):
            held += part[:-1] + " "
            continue
        whole = (held + part).strip()
        if whole:
            found.append(Line(file, first, whole))
        held, first = "", 0
    if held.strip():
        raise Line(file, first, held).error("is continued by a backslash, but nothing follows. Was the file cut short?")
    return found
