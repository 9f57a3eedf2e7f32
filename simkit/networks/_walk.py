"""Walks through formulas of any depth: functions that would call themselves are generators that hand out the calls."""

from collections.abc import Generator
from typing import Any

Walk = Generator[Any, Any, Any]
"""Yields walks of parts, is sent their results, and returns its own."""


def walked(walk: Walk) -> Any:
    """The result of a walk. Python's own stack ends at a depth of some hundred, which sums of some hundred terms reach."""
    stack, value = [walk], None
    try:
        while stack:
            try:
                stack.append(stack[-1].send(value))
                value = None
            except StopIteration as end:
                stack.pop()
                value = end.value
    finally:
        while stack:
            stack.pop().close()
    return value
