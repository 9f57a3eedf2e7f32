"""How many lanes, attempts and rows: the sizes of the loops, from those of the problem."""

from typing import NamedTuple

import jax

from ._lanes import Numerics

# Lanes of small systems: the states and stages of all lanes stay in the first two levels of a core's cache.
MOST_LANES = 64
NUMBERS_IN_LANES = 4096
ACCELERATOR_LANES = 65536
BLOCK = 8
RECORD_BYTES = 2**26


class Sizes(NamedTuple):
    """What the user or the method fixes; the rest follows from the numbers of members and of states."""

    max_steps: int
    lanes: int | None = None
    record_bytes: int = RECORD_BYTES

    def numerics(self, members: int, numbers: int, times: int, bytes_each: int) -> Numerics:
        """The sizes for so many members with so many numbers in a state."""
        if self.lanes is not None:
            lanes = self.lanes
        elif jax.default_backend() == "cpu":
            most = MOST_LANES if times == 2 else 2 * MOST_LANES  # saving costs the less the more share it
            lanes = max(1, min(most, NUMBERS_IN_LANES // max(numbers, 1)))
        else:
            lanes = ACCELERATOR_LANES
        lanes = min(lanes, members)
        block = BLOCK if members > lanes else 4
        row = lanes * (numbers + 2) * bytes_each
        fitting = max(block, min(1024, self.max_steps, self.record_bytes // max(row, 1)))
        rows = -(-fitting // block) * block
        saves = 1 if times <= 20 else 2 if times <= 200 else 4
        return Numerics(lanes, block, saves, rows, self.max_steps)
