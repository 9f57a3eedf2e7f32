"""Members whose worker dies each time, found by halving their chunk."""

from collections.abc import Callable

import numpy as np

MOST = 4
"""A chunk in which more members than so many let their worker die is set aside whole: memory is short for any of them."""


def guilty_members(size: int, dies: Callable[[np.ndarray], bool | None]) -> np.ndarray | None:
    """Find the members of a chunk that let its worker die, by halving it.

    **Arguments:**

    - `size`: the number of members; a worker died with all of them.
    - `dies`: a mask of members, shape `(size,)` -> whether the worker dies with these alone; None to give up.

    **Returns:** a mask of the members that let it die alone, or None where it was given up, where none does, or more than `MOST`.
    One member among n costs at most 2 log2(n) calls, about half of which end a worker.
    """
    found = np.zeros(size, bool)
    spans = [
        (0, size, True, False)
    ]  # whether it is known that a worker dies with them, and whether their sibling comes next
    while spans:
        first, last, known, is_lower = spans.pop()
        single = last - first == 1
        if single or not known:
            mask = np.zeros(size, bool)
            mask[first:last] = True
            died = dies(mask)
            if died is None:
                return None
            if not died:
                if is_lower:  # a worker died with both halves, so it is the other one
                    spans[-1] = (*spans[-1][:2], True, False)
                continue
        if single:
            found[first] = True
            if found.sum() > MOST:
                return None
            continue
        middle = (first + last) // 2
        spans += [(middle, last, False, False), (first, middle, False, True)]
    return found if found.any() and not found.all() else None
