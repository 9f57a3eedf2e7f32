"""Reports of a compiled program: memory, kernels, and the lines they come from."""

import collections
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jax.stages import Compiled

from ..core import MARK, place_among

HEAD = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\(")
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) (?:\(.*)?\{$")
CALLED = re.compile(r"(?:calls|to_apply|body)=%?([\w.\-]+)")
NAME = re.compile(r'op_name="([^"]*)"')
FRAME = re.compile(r"stack_frame_id=(\d+)")
SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
TURNS = re.compile(r'known_trip_count":\{"n":"(\d+)"')
SHAPE = re.compile(r"\w+\[([\d,]*)\]")
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
FREE = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "broadcast", "iota", "reshape")
DEAR = (
    "exponential",
    "log",
    "sine",
    "cosine",
    "tan",
    "tanh",
    "power",
    "atan2",
    "erf",
    "cbrt",
    "sort",
    "fft",
    "scatter",
)
DIVISIONS = ("divide", "sqrt", "rsqrt", "remainder")


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


class Instruction(NamedTuple):
    """One line of a compiled program; `weight` is roughly what it costs, `calls` are the computations in it, run `turns` times."""

    kind: str
    place: str | None
    weight: float
    calls: tuple[str, ...]
    turns: int


Computations = Mapping[str, Mapping[str, Instruction]]


def memory_of(compiled: Compiled) -> Memory | None:
    """None where the platform does not say."""
    found = compiled.memory_analysis()
    if found is None:
        return None
    return Memory(int(found.argument_size_in_bytes), int(found.output_size_in_bytes), int(found.temp_size_in_bytes))


def computations_of(text: str) -> Computations:
    """The instructions of a compiled program by name, in each of its computations."""
    frames = _frames(text)
    found: dict[str, dict[str, Instruction]] = {}
    current: dict[str, Instruction] = {}
    for line in text.splitlines():
        head = HEAD.match(line)
        if head:
            turns = TURNS.search(line)
            weight = _numbers(head[2]) * _each(head[3])
            called = tuple(CALLED.findall(line))
            current[head[1]] = Instruction(head[3], _place(line, frames), weight, called, int(turns[1]) if turns else 1)
        elif begins := COMPUTATION.match(line):
            current = found.setdefault(begins[1], {})
    return found


def kernels_of(computations: Computations) -> list[Kernel]:
    """The kernels of a compiled program by kind and line, the most frequent first."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for instructions in computations.values():
        for instruction in instructions.values():
            if instruction.kind in KERNELS:
                found[instruction.kind, instruction.place or "-"] += 1
    return [Kernel(kind, place, count) for (kind, place), count in found.most_common()]


def time_by_place(computations: Computations, spent: Mapping[str, float]) -> dict[str | None, float]:
    """Time spent in instructions, shared over the lines that each of them computes, as their cost is estimated."""
    by_name = {name: x for instructions in computations.values() for name, x in instructions.items()}
    found: dict[str | None, float] = collections.defaultdict(float)
    for name, time in spent.items():
        instruction = by_name.get(name)
        if instruction is None or instruction.kind in ("while", "conditional"):
            continue  # their time is that of what they hold
        parts: dict[str | None, float] = collections.defaultdict(float)
        for place, weight in _parts(computations, instruction, 1.0):
            parts[place] += weight
        total = sum(parts.values())
        for place, weight in parts.items():
            found[place] += time * weight / total
    return found


def _parts(computations: Computations, instruction: Instruction, times: float) -> Iterator[tuple[str | None, float]]:
    """Return the parts of an instruction, by place."""
    yield instruction.place, times * max(instruction.weight, 1e-9)
    for name in instruction.calls:
        for inner in computations.get(name, {}).values():
            yield from _parts(computations, inner, times * instruction.turns)


def _numbers(shapes: str) -> float:
    return float(sum(math.prod(int(n) for n in sizes.split(",") if n) for sizes in SHAPE.findall(shapes)))


def _each(kind: str) -> float:
    """Return the cost of one number of each sum."""
    if kind in FREE or kind in ("fusion", "call", "while", "conditional"):
        return 0.0
    return 15.0 if kind in DEAR else 4.0 if kind in DIVISIONS else 1.0


class _Frames(NamedTuple):
    """Tables at the head of a program: names of files and functions, and for every frame its line and the frame around it."""

    files: dict[int, str]
    functions: dict[int, str]
    lines: dict[int, tuple[int, int, int]]  # file, function, line
    frames: dict[int, tuple[int, int]]  # line, frame around it

    def chain(self, frame: int) -> Iterator[tuple[str, str, int]]:
        """File, function and line, from the innermost frame outwards."""
        while frame in self.frames:
            place, outer = self.frames[frame]
            file, function, line = self.lines.get(place, (0, 0, 0))
            yield self.files.get(file, "?"), self.functions.get(function, "?"), line
            frame = outer if outer < frame else 0


def _place(line: str, frames: _Frames) -> str | None:
    name = NAME.search(line)
    if name and (marks := MARK.findall(name[1])):
        function, number, file = marks[-1]
        return f"{function} ({file}:{number})"
    frame = FRAME.search(line)
    if frame:
        found = place_among(frames.chain(int(frame[1])))
        return None if found is None else found.label
    source = SOURCE.search(line)
    found = place_among([(source[1], "", int(source[2]))]) if source else None
    return None if found is None else found.label


def _frames(text: str) -> _Frames:
    found, section = _Frames({}, {}, {}, {}), ""
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            section = line
        elif section and (entry := re.match(r"(\d+) (.*)", line)):
            number, words = int(entry[1]), dict(re.findall(r"(\w+)=(\d+)", entry[2]))
            if section == "FileNames":
                found.files[number] = entry[2].strip('"')
            elif section == "FunctionNames":
                found.functions[number] = entry[2].strip('"')
            elif section == "FileLocations":
                file, function, row = (int(words.get(key, 0)) for key in ("file_name_id", "function_name_id", "line"))
                found.lines[number] = file, function, row
            else:
                found.frames[number] = int(words.get("file_location_id", 0)), int(words.get("parent_frame_id", 1)) - 1
        elif line.startswith(("%", "ENTRY")):
            break
    return found
