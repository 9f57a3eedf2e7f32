"""Quantities: float array fields with a unit, a support and a description."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._doors import shown
from .._errors import ArgumentError


class Support(NamedTuple):
    """The closed or open interval in which a quantity makes sense."""

    lower: float = -math.inf
    upper: float = math.inf

    def __str__(self) -> str:
        return f"({self.lower:g}, {self.upper:g})"

    @property
    def positive(self) -> bool:
        """Tell whether the support is the positive half-line, in which a fit moves by the logarithm."""
        return self.lower == 0 and math.isinf(self.upper)


REAL = Support()
POSITIVE = Support(0.0, math.inf)
UNIT_INTERVAL = Support(0.0, 1.0)


class Metadata(NamedTuple):
    """Metadata of a quantity: all but its value."""

    unit: str = "1"
    support: Support = REAL
    doc: str = ""


def as_float_array(value: Any) -> Array:
    """A strongly typed float array.

    An array keeps its own float type, so that float32 stays float32 under x64; everything else takes JAX's default
    float type. Strong types matter: a weak type would trace a function again for `0.5` after `jnp.asarray(0.5)`.
    """
    dtype = getattr(value, "dtype", None)
    if isinstance(value, jax.Array) and not value.weak_type and dtype in ("float32", "float64"):
        return value  # already as it should be; `asarray` would find that out ten times slower
    floating = dtype is not None and jnp.issubdtype(dtype, jnp.floating)
    if dtype is not None and jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError("a complex array, whose imaginary part would be lost")
    if isinstance(value, str | bytes):
        raise TypeError("a text, not a number")
    return jnp.asarray(value, dtype=jax.dtypes.canonicalize_dtype(dtype if floating else float))


def quantity(
    default: Any = dataclasses.MISSING,
    *,
    unit: str = "1",
    support: Support | tuple[float, float] = REAL,
    doc: str = "",
    optional: bool = False,
) -> Any:
    """A field of a System, a state, a signal or a noise model: a float array leaf with static metadata.

    **Arguments:**

    - `default`: a number or an array; without it the field must be given. Python numbers become arrays of JAX's default
        float type, arrays keep their own.
    - `unit`: a unit as text, such as `"1/day"`; `"1"` for a dimensionless quantity.
    - `support`: where the quantity makes sense: `REAL`, `POSITIVE`, `UNIT_INTERVAL` or a pair of numbers. Fits move a
        positive quantity by its logarithm, normal priors are cut off at the support.
    - `doc`: one line for tables and help texts.
    - `optional`: whether None is allowed, where there is no such quantity.

    ```python
    import simkit

    class Decay(simkit.PlainSystem):
        rate: simkit.Scalar = simkit.quantity(0.5, unit="1/day", support=simkit.POSITIVE, doc="decay rate")
        ...
    ```
    """
    options = {} if default is dataclasses.MISSING else {"default": default}
    metadata = {"simkit": Metadata(unit, Support(*support), doc)}
    return eqx.field(converter=_or_none if optional else _number, metadata=metadata, **options)


def quantity_or(
    kept: Callable[[Any], bool],
    default: Any = dataclasses.MISSING,
    *,
    unit: str = "1",
    support: Support | tuple[float, float] = REAL,
    doc: str = "",
) -> Any:
    """A quantity whose field may hold something else instead, as it is: what `kept` says yes to, such as a function of time."""
    options = {} if default is dataclasses.MISSING else {"default": default}
    metadata = {"simkit": Metadata(unit, Support(*support), doc)}
    return eqx.field(converter=lambda value: value if kept(value) else _number(value), metadata=metadata, **options)


def _or_none(value: Any) -> Array | None:
    return None if value is None else _number(value)


def _holds_complex(value: Any) -> bool:
    return jnp.issubdtype(getattr(value, "dtype", float), jnp.complexfloating)


def _number(value: Any) -> Array:
    try:
        if isinstance(value, complex) or _holds_complex(value):
            raise TypeError("complex numbers")  # NumPy would drop their imaginary part
        return as_float_array(value)
    except (TypeError, ValueError) as error:
        if not (
            isinstance(value, complex | np.generic | np.ndarray | Array)
            or value is None
            or callable(value)
            or isinstance(value, str | bytes | list | tuple | dict)
        ):
            raise
        kind = " of complex numbers" if _holds_complex(value) else ""
        remedy = " What changes with time is an input, where a system has one." if callable(value) else ""
        raise ArgumentError(
            f"A quantity must be a real number or an array of real numbers, but one is given {shown(value)}{kind}.{remedy}"
        ) from error


def field_metadata(owner: Any, name: str) -> Metadata:
    """The metadata of field `name` of a module; the defaults where it is no quantity.

    A module whose parameters are a dictionary gives theirs in a field `parameter_metadata`, as pairs of name and metadata.
    """
    if dataclasses.is_dataclass(owner):
        for field in dataclasses.fields(owner):
            if field.name == name:
                return field.metadata.get("simkit", Metadata())
    return dict(getattr(owner, "parameter_metadata", ())).get(name, Metadata())


def unit_of(tree: Any, name: str) -> str:
    """The unit of a component of a state, by dotted name."""
    owner, _, last = name.rpartition(".")
    for word in filter(None, owner.split(".")):
        tree = getattr(tree, word, None)
    return field_metadata(tree, last).unit
