"""Words of LAMMPS' commands as types and numbers."""

from collections.abc import Sequence

from ..._errors import ArgumentError


def types_in(word: str, types: int) -> range:
    """The types, from 0, that a word such as "2", "*", "2*" or "1*3" names."""
    first, star, last = word.partition("*")
    if not all(part.isdigit() or (star and not part) for part in (first, last if star else first)):
        raise ArgumentError(f"Types must be numbers or ranges of them, such as 2 or 1*3, but one is `{word}`.")
    if not star:
        return range(int(first) - 1, int(first))
    return range(int(first or 1) - 1, int(last or types))


def numbers_in(command: str, words: Sequence[str]) -> list[float]:
    """The words of a command as numbers."""
    try:
        return [float(word) for word in words]
    except ValueError:
        raise ArgumentError(f"A line of `{command}` must hold numbers, but holds `{' '.join(words)}`.") from None
