"""Known numbers of a system that make no sense."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._errors import ArgumentError
from ._quantity import REAL, Support, field_metadata
from ._traced import tracing


def check_numbers(system: Any) -> None:
    """Refuse known numbers of a system that lie outside their support, such as a negative viscosity.

    **Raises:** an `ArgumentError`.
    """
    for path, value, support in _supported(system, ""):
        low, high = float(np.min(value)), float(np.max(value))
        if support.lower == 0 and low < 0:
            wanted, found = "must not be negative", low
        elif support.lower != 0 and low <= support.lower:
            wanted, found = f"must be above {support.lower:g}", low
        elif high > support.upper:
            wanted, found = f"must not be above {support.upper:g}", high
        else:
            continue
        raise ArgumentError(f"`{path}` of {type(system).__name__} {wanted}, but it is {found:g}.")


def _supported(node: Any, path: str) -> Iterator[tuple[str, np.ndarray, Support]]:
    if isinstance(node, list | tuple):
        for i, part in enumerate(node):
            yield from _supported(part, f"{path}{i}.")
    if not isinstance(node, eqx.Module):
        return
    for field in dataclasses.fields(node):  # pyright: ignore[reportArgumentType]
        value, support = getattr(node, field.name, None), field_metadata(node, field.name).support
        if isinstance(value, jax.Array) and value.size and support != REAL and not tracing(value):
            yield path + field.name, np.asarray(value), support
        else:
            yield from _supported(value, f"{path}{field.name}.")
