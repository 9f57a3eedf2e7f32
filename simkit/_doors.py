"""Checks of the kinds of arguments, which every verb makes before anything else: a class for an instance, a list for a mapping."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np

from ._errors import ArgumentError

LONGEST = 60
"""Most characters of a value in a message."""


def class_name(kind: type) -> str:
    """The name of a class as a user writes it: of a state that is nested in its system, `LotkaVolterra.State`."""
    return kind.__qualname__.rpartition("<locals>.")[2]


def shown(value: object) -> str:
    """A value as a message tells it: short ones as they are written, others by their type."""
    if isinstance(value, type):
        return f"the class `{class_name(value)}`"
    if value is None or isinstance(value, str | int | float | complex | bytes):
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if isinstance(value, list | tuple | dict | set):
        text = repr(value)
        return f"the {type(value).__name__} {text}" if len(text) <= LONGEST else f"a {type(value).__name__}"
    kind = type(value)
    room = kind.__module__.split(".")[0]
    return (
        f"a `{class_name(kind)}`"
        if room in ("builtins", "simkit", "__main__")
        else f"a `{class_name(kind)}` of `{room}`"
    )


def check_kind(name: str, value: object, kind: Any, what: str, remedy: str) -> None:
    """Refuse a value of another kind.

    **Arguments:**

    - `name`: of the argument, as the user writes it.
    - `kind`: a class, or a tuple of classes.
    - `what`: a noun with its article, such as "a system"; `remedy`: a sentence.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(value, kind):
        return
    if isinstance(value, type) and issubclass(value, kind):
        remedy = f"Make one: `{class_name(value)}(...)`, with its arguments."
    raise ArgumentError(f"Argument `{name}` must be {what}, but it is {shown(value)}. {remedy}")


def check_method(name: str, value: object, kind: Any, what: str, remedy: str, known: Iterable[type]) -> None:
    """Refuse a method of another kind; a name, such as "NUTS", is answered with the class of `known` that it may mean.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(value, str):
        plain = lambda text: text.lower().replace("_", "").replace("-", "").replace(" ", "")
        meant = next((one for one in known if plain(one.__name__) == plain(value)), None)
        remedy = remedy if meant is None else f"Methods are objects: write `{name}={class_name(meant)}()`."
    check_kind(name, value, kind, what, remedy)


def check_mapping(name: str, value: Any, what: str, example: str) -> None:
    """Refuse what is no dictionary with names for keys.

    **Raises:** an `ArgumentError`.
    """
    remedy = f"Write a dictionary such as `{example}`."
    check_kind(name, value, Mapping, f"a dictionary of {what}", remedy)
    for key in value:
        if not isinstance(key, str):
            raise ArgumentError(f"The keys of argument `{name}` must be texts, but one is {shown(key)}. {remedy}")


def check_entries(name: str, value: Mapping[str, Any], kind: Any, what: str, remedy: str) -> None:
    """Refuse an entry of a dictionary that is of another kind.

    **Raises:** an `ArgumentError` that names the entry.
    """
    for key, entry in value.items():
        if not isinstance(entry, kind):
            made = (
                f"Make one: `{class_name(entry)}(...)`."
                if isinstance(entry, type) and issubclass(entry, kind)
                else remedy
            )
            raise ArgumentError(f"Entry `{key}` of argument `{name}` must be {what}, but it is {shown(entry)}. {made}")


def check_function(name: str, value: Any, arguments: tuple[str, ...]) -> None:
    """Refuse what is no function of these positional arguments.

    **Raises:** an `ArgumentError`.
    """
    what = f"a function of ({', '.join(arguments)})"
    check_kind(name, value, Callable, what, f"Write `lambda {', '.join(arguments)}: ...`.")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # of a function that is not written in Python
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ArgumentError(f"Argument `{name}` must be {what}, but it takes {signature}.") from error


def check_key(key: object, *, needed: bool = False) -> None:
    """Refuse what is no random key.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(key, jax.Array | np.ndarray) or (key is None and not needed):
        return
    seed = key if isinstance(key, int) and not isinstance(key, bool) else 0
    raise ArgumentError(f"Argument `key` must be a random key, but it is {shown(key)}. Write `jax.random.key({seed})`.")


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is no whole number of at least `least`.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(f"Argument `{name}` must be a whole number of at least {least}, but it is {shown(value)}.")


def check_progress(progress: object) -> None:
    """Refuse what is neither a truth value nor a function of a line.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(progress, type):
        raise ArgumentError(
            f"Argument `progress` must be True, False or a function of a line, but it is {shown(progress)}. Make one: "
            f"`{class_name(progress)}()`."
        )
    if not isinstance(progress, bool) and progress is not None and not callable(progress):
        raise ArgumentError(
            f"Argument `progress` must be True, False or a function of a line, but it is {shown(progress)}."
        )
