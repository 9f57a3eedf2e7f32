"""Checks of the arguments of particles, before anything is planned or compiled."""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import State
from ..core import check_numbers, named_leaves, tracing
from .potentials._potential import Potential, parts
from .space._space import Space
from .space._virtual_sites import VirtualSites

PRECISIONS = None, "float32", "float64"


@runtime_checkable
class Described(Protocol):
    """Particles as checks see them: what a user gave."""

    @property
    def potential(self) -> Potential: ...

    @property
    def space(self) -> Space: ...

    @property
    def mass(self) -> Array: ...

    @property
    def species(self) -> ArrayLike | None: ...

    @property
    def charge(self) -> ArrayLike | None: ...

    @property
    def precision(self) -> str | None: ...

    @property
    def sites(self) -> VirtualSites | None: ...

    @property
    def exclusions(self) -> ArrayLike | None: ...


def check_given(system: Described, y0: State) -> None:
    """Refuse positions and momenta that do not fit the space or each other, and what is not one number an atom."""
    position, momentum = getattr(y0, "position", None), getattr(y0, "momentum", None)
    if position is None or momentum is None:
        raise ArgumentError(
            f"Argument `y0` of Particles must be `Atoms(position, momentum)`, but it is {type(y0).__name__}."
        )
    d = system.space.dimensions
    if position.ndim != 2 or position.shape[1] != d:
        raise ArgumentError(
            f"Argument `position` must have the shape (atoms, {d}) in {type(system.space).__name__} of {d} dimensions, but it has "
            f"{position.shape}. Give a row an atom, or a space of as many dimensions."
        )
    if momentum.shape != position.shape:
        raise ArgumentError(
            f"Argument `momentum` must have the shape {position.shape} of the positions, but it has {momentum.shape}."
        )
    _check_kinds(system, position.shape[0])
    _check_sites(system, y0, position.shape[0])
    _check_float_types(system, position, momentum)


def check_sense(system: Described) -> None:
    """Refuse known numbers outside their support, masses of nothing, and a precision that there is not."""
    check_numbers(system)
    if system.precision is not None and _float_name(system.precision) not in PRECISIONS:
        raise ArgumentError(
            f'Argument `precision` must be "float32", "float64" or None, but it is {system.precision!r}. "float32" with positions '
            "in double precision is what other programs call mixed."
        )
    for part in parts(system.potential):
        reach = getattr(part, "cutoff", None)
        if isinstance(reach, float) and not reach > 0:
            raise ArgumentError(f"Argument `cutoff` of {type(part).__name__} must be positive, but it is {reach:g}.")
    if not tracing(system.mass) and not np.all(np.asarray(system.mass) > 0):
        atom = int(np.argmin(np.asarray(system.mass) > 0))
        raise ArgumentError(
            f"Argument `mass` must be positive, but that of atom {atom} (from 0) is {np.ravel(system.mass)[atom]:g}."
        )


def _float_name(precision: Any) -> str:
    try:
        return str(np.dtype(precision))
    except TypeError:  # no name of a type
        return ""


def _check_kinds(system: Described, atoms: int) -> None:
    for name in ("mass", "species", "charge"):
        value = getattr(system, name)
        if value is None:
            continue
        rows = atoms if name == "mass" or system.sites is None else atoms + system.sites.count
        shapes = ((atoms,), ()) if name == "mass" else ((rows,),)
        if jnp.shape(value) not in shapes:
            kept = "atoms" if rows == atoms else "atoms and sites"
            raise ArgumentError(
                f"Argument `{name}` must have one entry for each of {rows} {kept}, shape ({rows},), but it has the shape "
                f"{jnp.shape(value)}."
            )
    if system.species is not None and not jnp.issubdtype(jnp.result_type(system.species), jnp.integer):
        raise ArgumentError(
            f"Argument `species` must be whole numbers, 0 for the first species, but it has the type "
            f"{jnp.result_type(system.species)}."
        )


def _check_sites(system: Described, y0: State, atoms: int) -> None:
    if system.sites is None:
        return
    parents = np.asarray(system.sites.parents)
    if getattr(y0, "real", None) is not None or getattr(y0, "count", None) is not None:
        raise ArgumentError(
            "Argument `sites` must be None for stacked atoms, but is given. Run systems with sites one by one."
        )
    if parents.size and (parents.min() < 0 or parents.max() >= atoms):
        raise ArgumentError(
            f"Argument `parents` of VirtualSites must be atoms from 0 to {atoms - 1}, but goes from {parents.min()} to "
            f"{parents.max()}."
        )


def _check_float_types(system: Described, position: jax.Array, momentum: jax.Array) -> None:
    if momentum.dtype != position.dtype:
        raise ArgumentError(
            f"Positions and momenta must have one float type, but they are {position.dtype} and {momentum.dtype}. "
            "`simkit.cast(atoms, dtype)` makes them alike."
        )
    if position.dtype != jnp.float32:
        return
    for path, leaf in named_leaves(system).items():
        if jnp.result_type(leaf) == jnp.float64 and not path.startswith("plan"):
            raise ArgumentError(
                f"Atoms in single precision need a system in it, but `{path}` is in double. Take "
                '`simkit.cast(system, "float32")`, or double positions with `precision="float32"`.'
            )
