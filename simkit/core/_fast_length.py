"""Lengths for which Fourier transforms are fast."""

import itertools


def fast_length(least: int, multiple: int = 1) -> int:
    """The first multiple of a number from `least` on without prime factors above 5."""
    for count in itertools.count(-(-least // multiple)):
        rest = count * multiple
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return count * multiple
    raise AssertionError("there is always a larger one")
