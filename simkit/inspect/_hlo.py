"""What a compiled program says of itself: memory, kernels, and the lines they come from."""

import collections
import re
from typing import Any, NamedTuple

from ..core import MARK

HEAD = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (?:\([^=]*?\)|\S+) ([\w\-]+)\(")
NAME = re.compile(r'op_name="([^"]*)"')
FRAME = re.compile(r"stack_frame_id=(\d+)")
SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
TRIPS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
KERNELS = (
    "fusion",
    "dot",
    "fft",
    "convolution",
    "custom-call",
    "sort",
    "scatter",
    "reduce",
    "while",
    "all-to-all",
    "all-reduce",
)


class Memory(NamedTuple):
    """Bytes that a program holds: what it is given, what it returns, and between the two."""

    arguments: int
    results: int
    temporary: int

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporary


class Kernel(NamedTuple):
    """Pieces of compiled code of one kind from one line: "fusion", "dot", "fft" and so on, and how many there are."""

    kind: str
    place: str
    pieces: int


def memory_of(compiled: Any) -> Memory | None:
    """None where the platform does not say."""
    found = compiled.memory_analysis()
    if found is None:
        return None
    return Memory(int(found.argument_size_in_bytes), int(found.output_size_in_bytes), int(found.temp_size_in_bytes))


def kernels_of(text: str) -> list[Kernel]:
    """The kernels of a compiled program by kind and line, the most frequent first."""
    files, lines = _tables(text)
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for line in text.splitlines():
        head = HEAD.match(line)
        if head and head[2] in KERNELS:
            found[head[2], _place(line, files, lines)] += 1
    return [Kernel(kind, place, count) for (kind, place), count in found.most_common()]


def _place(line: str, files: dict[int, str], lines: dict[int, tuple[int, int]]) -> str:
    name = NAME.search(line)
    if name and (marks := MARK.findall(name[1])):
        function, number, file = marks[-1]
        return f"{function} ({file}:{number})"
    source = SOURCE.search(line)
    if source:
        return f"{source[1].rsplit('/', 1)[-1]}:{source[2]}"
    frame = FRAME.search(line)
    if frame and int(frame[1]) in lines:
        file, number = lines[int(frame[1])]
        return f"{files.get(file, '?').rsplit('/', 1)[-1]}:{number}"
    return "-"


def _tables(text: str) -> tuple[dict[int, str], dict[int, tuple[int, int]]]:
    """Names of files and, by the number of a stack frame, its file and line, where a program lists them at its head."""
    files, places, frames, section = {}, {}, {}, ""
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            section = line
        elif section and (entry := re.match(r"(\d+) (.*)", line)):
            number, rest = int(entry[1]), entry[2]
            if section == "FileNames":
                files[number] = rest.strip('"')
            elif section == "FileLocations" and (place := re.search(r"file_name_id=(\d+).*?line=(\d+)", rest)):
                places[number] = int(place[1]), int(place[2])
            elif section == "StackFrames" and (place := re.search(r"file_location_id=(\d+)", rest)):
                frames[number] = int(place[1])
        elif line.startswith(("%", "ENTRY")):
            break
    return files, {frame: places[place] for frame, place in frames.items() if place in places}
