"""Numbers with an uncertainty as text: as many digits as the uncertainty leaves them."""

import math
from typing import SupportsFloat

MOST_DIGITS = 10
"""A number with an error of nearly nothing is printed with so many digits."""


def uncertain_text(value: SupportsFloat, error: SupportsFloat, least: int = 1) -> str:
    """A number to the second significant digit of its error: 3.14159 with the error 0.0123 is "3.142".

    **Arguments:**

    - `value`, `error`: both of one unit; the error itself is printed by `uncertain_text(error, error)`.
    - `least`: significant digits that stay however large the error is; 2 for an end of an interval.

    Six digits where the error is not finite or zero.
    """
    number, width = float(value), abs(float(error))
    if not math.isfinite(number) or not math.isfinite(width) or width == 0:
        return f"{number:.6g}"
    last = _exponent(width, 1) - 1
    first = _exponent(number, 1) if number else last
    digits = min(max(first - last + 1, least), MOST_DIGITS)
    last = first - digits + 1
    if -5 < first < 6:
        return f"{round(number, -last):.{max(-last, 0)}f}"
    return f"{number:.{digits - 1}e}"


def _exponent(number: float, decimals: int) -> int:
    """The power of ten of the first digit, once the number is rounded."""
    return int(f"{number:.{decimals}e}".partition("e")[2])
