"""One table of a study file, read key by key with messages that say where."""

import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard, TypeVar

from ..._errors import SimkitError, StudyError, UnknownNameError, close_matches

T = TypeVar("T")

MOST = 1_000_000_000
"""The largest number of anything that a study may ask for, where there is no narrower limit."""

KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "a table": (dict,),
    "an array": (list,),
    "true or false": (bool,),
}


class Section:
    """A table of the study file at a place such as `[experiments.hudson_bay]`.

    Every key that is read is crossed off, so that `finish` can complain about what nothing reads.
    """

    def __init__(self, table: Mapping[str, Any], place: str, file: str):
        self.table, self.place, self.file = dict(table), place, file
        self.read: set[str] = set()
        self.looked_for: set[str] = set()

    def where(self, key: str = "") -> str:
        """The place of a key, as messages call it."""
        return f"`{key}` in [{self.place}] of `{self.file}`" if key else f"[{self.place}] of `{self.file}`"

    def error(self, key: str, sentence: str) -> StudyError:
        """A `StudyError` about one key."""
        return StudyError(f"{self.where(key)} {sentence}")

    def __contains__(self, key: str) -> bool:
        self.looked_for.add(key)
        return key in self.table

    def get(self, key: str, kind: str, default: object = None) -> Any:
        """The value of a key, checked to be "text", "a table", "an array" or "true or false"."""
        self.read.add(key)
        if key not in self.table:
            return default
        value = self.table[key]
        if not isinstance(value, KINDS[kind]):
            raise self.error(key, f"must be {kind}, but it is {_shown(value)}.")
        return value

    def number(self, key: str, default: float | None = None) -> float | None:
        """A finite number."""
        self.read.add(key)
        if key not in self.table:
            return default
        value = self.table[key]
        self.check_finite(key, value)
        return float(value)

    def check_finite(self, key: str, value: object) -> None:
        """Refuse what is no finite number."""
        if not is_number(value) or not math.isfinite(value):
            raise self.error(key, f"must be a finite number, but it is {_shown(value)}.")

    def count(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int | None:
        """A whole number of at least `least` and at most `most`."""
        self.read.add(key)
        if key not in self.table:
            return default
        value = self.table[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(key, f"must be a whole number of at least {least}, but it is {_shown(value)}.")
        if value > most:
            raise self.error(key, f"must be at most {most:,}, but it is {value:,}: that fits into no memory.")
        return value

    def numbers(self, key: str, missing: bool = False) -> list[Any]:
        """An array of finite numbers, or of arrays of them; where some may be missing, `nan` passes."""
        value = self.get(key, "an array")
        check_numbers(self, key, value, missing=missing)
        return value

    def section(self, key: str) -> "Section":
        """A table inside this one; an empty one where it is left out."""
        return Section(self.get(key, "a table", {}), f"{self.place}.{key}", self.file)

    def name(self, key: str, known: Collection[str], what: str, default: str | None = None) -> str | None:
        """Text that must be one of the known names."""
        value = self.get(key, "text", default)
        if value is not None and value not in known:
            raise UnknownNameError(f"{self.where(key)}: there is no {what} `{value}`. {close_matches(value, known)}")
        return value

    def need(self, *keys: str) -> None:
        """Refuse a table without these keys, and name one that is spelt nearly so."""
        for key in keys:
            if key not in self.table:
                near = difflib.get_close_matches(key, self.table, 1)
                told = (
                    f" It has `{near[0]}`, which is not read." if near and near[0] not in self.read | set(keys) else ""
                )
                raise StudyError(f"{self.where()} must give `{key}`, but it does not.{told}")

    def finish(self, *also: str) -> None:
        """Refuse keys that nothing has read."""
        known = self.read | set(also)
        for key in self.table:
            if key not in known:
                raise UnknownNameError(
                    f"{self.where()} has no key `{key}`. {close_matches(key, known | self.looked_for - {key})}"
                )


@contextmanager
def at_place(place: str) -> Iterator[None]:
    """Put the place in the study file in front of what a lower layer complains about."""
    try:
        yield
    except UnknownNameError as error:
        raise UnknownNameError(f"{place}: {error}") from error
    except StudyError:
        raise
    except SimkitError as error:
        raise StudyError(f"{place}: {error}") from error


def entries(section: Section, is_entry: Callable[[Any], bool]) -> dict[str, Any]:
    """The entries of a table by dotted path: `y0.hare = {...}` and `"y0.hare" = {...}` are the same."""
    found: dict[str, Any] = {}

    def walk(prefix: str, table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            path = f"{prefix}.{key}" if prefix else key
            if isinstance(value, dict) and not is_entry(value):
                walk(path, value)
            elif path in found:
                raise section.error(path, "is given twice, once as a quoted path.")
            else:
                found[path] = value

    walk("", section.table)
    return found


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a TOML value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_given(section: Section, key: str, value: object) -> None:
    """Refuse a number, or an array, in which something is no finite number."""
    if isinstance(value, list):
        check_numbers(section, key, value)
    else:
        section.check_finite(key, value)


def check_numbers(section: Section, key: str, value: Sequence[Any], path: str = "", missing: bool = False) -> None:
    """Refuse an array in which something is no number, or is infinite, or is `nan` where none may be missing."""
    for i, item in enumerate(value):
        place = f"{path}{i}" if not path else f"{path}, {i}"
        if isinstance(item, list):
            check_numbers(section, key, item, place, missing)
        elif not is_number(item):
            raise section.error(key, f"must hold numbers, but entry {place} (from 0) is {_shown(item)}.")
        elif math.isinf(item):
            wanted = "finite numbers or nan" if missing else "finite numbers"
            raise section.error(key, f"must hold {wanted}, but entry {place} (from 0) is infinite.")
        elif math.isnan(item) and not missing:
            raise section.error(key, f"must hold finite numbers, but entry {place} (from 0) is nan.")


def _shown(value: object) -> str:
    text = repr(value)
    return f"`{text if len(text) < 60 else text[:57] + '...'}`"
