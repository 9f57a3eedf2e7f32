"""Sizes of the loops: numbers of lanes, attempts and rows, from those of the problem."""

import math
from typing import NamedTuple

import jax

from ..._errors import ArgumentError
from ..stepping._checkpointed import format_bytes

# Lanes of small systems: the states and stages of all lanes stay in the first two levels of a core's cache.
MOST_LANES = 128
NUMBERS_IN_LANES = 4096
ACCELERATOR_LANES = 65536
BLOCK = 8
DEAR_NUMBERS = 64
"""Numbers of a state from which an attempt costs more than the turn of a loop: a member alone makes none after its end then."""
RECORD_BYTES = 2**26
MOST_ROWS = 1024
CARRIED_ROWS, LEAST_CARRIED = 256, 32
"""Most and fewest attempts of a record that a solve keeps from the start. It is filled with zeros at each call, which takes a
tenth of the time of so many steps."""
EVENT_NUMBERS = 24
"""About how many numbers beside the state tell of the events of a block."""


class Numerics(NamedTuple):
    """Sizes of the loops."""

    lanes: int
    block: int  # attempts between refills
    saves: int  # save times written in one attempt
    rows: int  # attempts that the gradient's record holds
    max_steps: int
    blocks: int  # most blocks of attempts of a solve


class Sizes(NamedTuple):
    """Sizes that the user or the method fixes; the rest follows from the numbers of members and of states."""

    max_steps: int
    lanes: int | None = None
    record_bytes: int | None = None
    events: bool = False  # whether a block may end with an event

    def numerics(self, members: int, numbers: int, times: int) -> Numerics:
        """The sizes for so many members with so many numbers in a state."""
        if self.lanes is not None:
            lanes = self.lanes
        elif jax.default_backend() == "cpu":
            lanes = max(1, min(MOST_LANES, NUMBERS_IN_LANES // max(numbers, 1)))
        else:
            lanes = ACCELERATOR_LANES
        lanes = min(lanes, members)
        saves = 1 if times <= 20 else 2 if times <= 200 else 4
        block = BLOCK if members > lanes else BLOCK // 2
        if members == lanes == 1 and numbers >= DEAR_NUMBERS:
            block = 1
        blocks = -(-self.max_steps // block)
        if self.events:  # of which each takes a step and ends a block
            blocks += self.max_steps + 1
        return Numerics(lanes, block, saves, BLOCK, self.max_steps, blocks)

    def with_record(
        self, found: Numerics, numbers: int, bytes_each: int, past: int | None = None, kept: int = 0
    ) -> Numerics:
        """The sizes for the way back: as many rows of a record, and as many lanes, as stay within the bytes allowed.

        `past` and `kept` count what a method of several steps remembers; None for one of one step.

        **Raises:** an `ArgumentError` where one lane does not fit.
        """
        bound = RECORD_BYTES if self.record_bytes is None else self.record_bytes
        lanes, least = found.lanes, math.inf
        most = min(MOST_ROWS, -(-self.max_steps // found.block) * found.block)
        while lanes:
            rows = most
            while rows >= found.block:
                row, snapshot = self._numbers(numbers, past, kept, found.block)
                records = math.ceil(found.blocks * found.block / rows)
                size = lanes * bytes_each * (rows * row + records * snapshot)
                least = min(least, size)
                if size <= bound:
                    return found._replace(lanes=lanes, rows=rows)
                rows = rows // 2 // found.block * found.block
            lanes //= 2
        if self.record_bytes is None:
            return found._replace(lanes=1, rows=most)
        raise ArgumentError(
            f"Argument `memory` of `Checkpointed` must be at least {format_bytes(int(least))} for the gradient of {self.max_steps} "
            f"adaptive steps of {numbers} numbers, but it is {format_bytes(bound)}. Allow more, lower `max_steps`, or take "
            "forward mode, which keeps no record."
        )

    def carried(
        self, members: int, numbers: int, times: int, bytes_each: int, past: int | None = None, kept: int = 0
    ) -> Numerics | None:
        """The sizes where the solve itself keeps the record; None where its members are not all in lanes at once, or too large.

        Arguments as in `numerics` and `with_record`. Where a solve takes more attempts than the record holds, it is made again.
        """
        found = self.numerics(members, numbers, times)
        bound = RECORD_BYTES if self.record_bytes is None else self.record_bytes
        row, snapshot = self._numbers(numbers, past, kept, found.block)
        rows = min(CARRIED_ROWS, -(-self.max_steps // found.block) * found.block)
        while found.lanes == members and rows >= min(LEAST_CARRIED, self.max_steps):
            records = math.ceil(found.blocks * found.block / rows)
            if members * bytes_each * (rows * row + records * snapshot) <= bound:
                return found._replace(rows=rows)
            rows = rows // 2 // found.block * found.block
        return None

    def _numbers(self, numbers: int, past: int | None, kept: int, block: int) -> tuple[int, int]:
        """Numbers of a row of a record, the state and two times, and of a snapshot, a lane's memory, where a record begins."""
        row, snapshot = numbers + 2, 2 * numbers + 5
        if past is not None:  # both hold it, a row also the state at its end
            row, snapshot = row + past + numbers + 1, numbers + past + kept + 6
        if self.events:
            row, snapshot = row + (numbers + EVENT_NUMBERS) // block, snapshot + EVENT_NUMBERS
        return row, snapshot
