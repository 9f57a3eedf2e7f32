"""The memory bound of reverse mode through fixed steps, and the segments that keep it."""

import dataclasses
import math
import re
from typing import NamedTuple

from ..._errors import ArgumentError

_UNITS = (
    {"B": 1}
    | {f"{p}B": 1000**i for i, p in enumerate("kMGT", 1)}
    | {f"{p}iB": 1024**i for i, p in enumerate("KMGT", 1)}
)
_UNITS["KB"] = 1000

DEFAULT_MEMORY = 2**30  # bytes a member
CACHED = 2**14  # bytes a member that a core's first cache holds, so that keeping them costs nothing
WORKING_STATES = 40  # what the derivative of a single step holds, in states: some 30 of Tsit5 on a field


@dataclasses.dataclass(frozen=True)
class Checkpointed:
    """Reverse mode within a memory bound: `gradient=Checkpointed(memory="2 GiB")`.

    Reverse mode walks the steps backwards and needs the state before each. What fits into `memory` is kept; the rest is
    computed again from the ends of segments, once (some square root of the number of steps are kept) or twice (cube root).
    The scheme with the least to compute again that fits is taken.

    **Arguments:**

    - `memory`: bytes as a number, or as text with a unit: B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers
      of 1024). It bounds what reverse mode holds for all members together; results, and what the loss itself makes of them,
      come on top. Good values: half of the machine's memory.

    **Raises:** `ArgumentError` where `memory` is not a positive amount, and on use where not even the cube root fits.

    **Source:** A. Griewank, A. Walther, Algorithm 799: revolve, ACM Transactions on Mathematical Software 26 (2000) 19,
    doi:10.1145/347837.347846 (here with segments of equal lengths, known before the solve).

    ```python
    from simkit import Checkpointed

    assert Checkpointed(memory="2 GiB").memory == 2 * 1024**3
    ```
    """

    memory: int | str

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", parse_memory(self.memory))

    def __repr__(self) -> str:
        return f"Checkpointed(memory={format_bytes(int(self.memory))!r})"


def parse_memory(
    memory: object,
    remedy: str = 'such as `Checkpointed(memory="2 GiB")` or `Checkpointed(memory=500_000_000)`.',
    what: str = "Argument `memory`",
) -> int:
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)\s*", memory)
        if match is None or match[2] not in _UNITS:
            units = ", ".join(_UNITS)
            raise ArgumentError(
                f"{what} must be a number with one of the units {units}, but is {memory!r}; write it {remedy}"
            )
        found = int(float(match[1]) * _UNITS[match[2]])
    elif isinstance(memory, int) and not isinstance(memory, bool):
        found = memory
    else:
        raise ArgumentError(
            f"{what} must be a whole number of bytes or text with a unit, but is {memory!r}; write it {remedy}"
        )
    if found < 1:
        raise ArgumentError(f"{what} must be positive, but is {memory!r}; write it {remedy}")
    return found


def format_bytes(size: int) -> str:
    """A number of bytes for people: 1536 is "1.5 KiB"."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.3g} {unit}"
    return f"{size} B"


class Record(NamedTuple):
    """Record of reverse mode through fixed steps: the number of stored segment starts in a window, whether each step's stages are
    stored, and whether all that derivatives need is."""

    segments: tuple[int, ...]
    stages: bool = False
    whole: bool = False


def whole_fits(windows: int, substeps: int, state: int, memory: int | None) -> bool:
    """Tell whether all that the derivatives of all steps need stays within `memory` bytes for one member."""
    stacks = windows + (windows > 1)
    return stacks * substeps * WORKING_STATES * state <= (DEFAULT_MEMORY if memory is None else memory)


def segment_schemes(windows: int, substeps: int, each: int = 1) -> dict[tuple[int, ...], int]:
    """Segments in a window, and how many carries reverse mode then holds at once: least to compute again first.

    `windows` windows of `substeps` steps make n = windows x substeps steps, of each of which `each` carries are kept. All of
    them are kept with (); sqrt(n) segments of sqrt(n) steps with (a,), for a segments in a window; n^(1/3) segments in segments
    with (a, b). A window is one segment at least, for what comes out at its end is held anyway.
    """
    stacks = windows + (windows > 1)  # a window fills a stack of its own before it is copied to those of the others
    schemes: dict[tuple[int, ...], int] = {(): stacks * substeps * each}
    if substeps >= 4:
        a = max(1, round(math.sqrt(each * substeps / stacks)))
        schemes[(a,)] = stacks * a + each * math.ceil(substeps / a)
        a = max(1, round((each * substeps / stacks**2) ** (1 / 3)))
        size = math.ceil(substeps / a)
        b = max(1, round(math.sqrt(each * size)))
        schemes[a, b] = stacks * a + b + each * math.ceil(size / b)
    return schemes


def choose_record(windows: int, substeps: int, carry: int, state: int, memory: int | None, stages: int = 0) -> Record:
    """The scheme of `segment_schemes` with the least to compute again that stays within `memory` bytes for one member.

    A carry, `carry` bytes, is what a step hands to the next: the state, of `state` bytes, and what the solver keeps. `stages`
    bytes are what the stages of a step take where they may be kept beside it, which spares half of what a step computes again.
    Without `memory` the bound is `DEFAULT_MEMORY`, and where nothing fits the scheme that needs least is taken; all steps are then
    kept only where they fit into `CACHED` bytes or segments would not take less than half. Segments cost a field 10 % more time,
    and two numbers up to 50 %, but some hundredth of the record of 10,000 steps.

    **Raises:** `ArgumentError` where `memory` is given and nothing fits.
    """
    index = 4  # a step's number, kept beside its carry
    schemes = {False: segment_schemes(windows, substeps)}
    if stages:
        schemes[True] = segment_schemes(windows, substeps, 1 + round(stages / carry))
    ordered = sorted(
        (len(counts), not kept, Record(counts, kept)) for kept, found in schemes.items() for counts in found
    )
    size = lambda record: schemes[record.stages][record.segments] * (carry + index) + WORKING_STATES * state
    needed = {record: size(record) for *_, record in ordered}
    bound = DEFAULT_MEMORY if memory is None else memory
    if memory is None:
        least = min(needed.values())
        large = [r for r, size in needed.items() if not r.segments and size > CACHED and 2 * least < size]
        needed = {r: size for r, size in needed.items() if r not in large}
    for record, size in needed.items():
        if size <= bound:
            return record
    record = min(needed, key=lambda record: needed[record])
    if memory is None:
        return record
    raise ArgumentError(
        f"Argument `memory` must be at least {format_bytes(needed[record])} a member for the gradient of {windows * substeps} "
        f"fixed steps that are saved {windows} times, but is {format_bytes(memory)} a member; allow more, take fewer steps or "
        "save times, or take forward mode, which keeps no record."
    )


def choose_segments(windows: int, substeps: int, carry: int, state: int, memory: int | None) -> tuple[int, ...]:
    """The segments of `choose_record` where no stages are kept."""
    return choose_record(windows, substeps, carry, state, memory).segments
