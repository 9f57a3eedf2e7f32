"""The text of a study file as tables, within limits."""

import re
import tomllib
from typing import Any

from ..._errors import StudyError

DEEPEST = 32
"""The greatest depth of tables and arrays of a study; the models of simkit need 6."""
LARGEST = 2**63
"""Beyond the whole numbers of TOML."""

# The time of the parser grows with the square of the number of dots in a key: 10,000 take seconds, 50,000 a minute.
_DOTTED = re.compile(
    r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){%d}""" % (2 * DEEPEST)  # noqa: UP031
)


def tables_of(text: str, name: str) -> dict[str, Any]:
    """The tables of a study.

    **Raises:** a `StudyError` where the text is no TOML, is nested too deep, or holds a number that is too large.
    """
    if _DOTTED.search(text):
        raise _too_deep(name)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"`{name}` must be TOML, but: {error}.") from error
    except RecursionError as error:
        raise _too_deep(name) from error
    except ValueError as error:  # a whole number of thousands of digits
        raise _too_large(name) from error
    _check(tables, name)
    return tables


def _check(tables: dict[str, Any], name: str) -> None:
    """Refuse deep nesting and large whole numbers, without recursion."""
    level: list[Any] = [tables]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for node in level:
            for value in node.values() if isinstance(node, dict) else node:
                if isinstance(value, dict | list):
                    inner.append(value)
                elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
                    raise _too_large(name)
        level = inner
        if not level:
            return
    raise _too_deep(name)


def _too_deep(name: str) -> StudyError:
    return StudyError(
        f"The tables and arrays of `{name}` must be nested at most {DEEPEST} deep, but they are deeper. Flatten them."
    )


def _too_large(name: str) -> StudyError:
    return StudyError(
        f"The whole numbers of `{name}` must lie below 2^63, but one does not. Write it as a decimal, such as 1e30."
    )
