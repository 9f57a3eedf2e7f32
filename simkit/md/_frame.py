"""Atoms at one time, as files hold them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from .._errors import ArgumentError, check_known
from ..core import SeparableSystem
from .space._space import OpenSpace, Orthorhombic, Space, Triclinic
from .space._units import REDUCED, Units

VECTORS = {"momentum": "momentum", "force": "force"}
"""Fields of shape (atoms, d) that may be missing, and their dimensions."""

SCALARS = {"mass": "mass", "charge": "charge"}
"""Fields of shape (atoms,) that may be missing, and their dimensions."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """Atoms at one time: what readers give and writers take. All numbers are those of the simulation, see `Units`.

    **Arguments:**

    - `space`, `position`: shape (atoms, d), unwrapped.
    - `units`: the unit system of the numbers.
    - `symbols`: a name for each atom.
    - `mass`, `charge`: shape (atoms,).
    - `momentum`, `force`: shape (atoms, d).
    - `energy`, `time`, `step`: of the frame.

    What is not known is None. Arrays become NumPy arrays of float64, `symbols` a tuple.

    **Raises:** an `ArgumentError` that names the field whose shape does not fit, or that is not finite.

    ```python
    import simkit
    solid = simkit.md.crystal("fcc", 3.615, 2)
    frame = simkit.md.Frame(solid.space, solid.position, units=simkit.md.METAL, symbols=("Cu",) * 32)
    print(frame)  # prints Frame of 32 atoms of Cu at step 0, time 0 (metal units)
    ```
    """

    space: Space
    position: Any
    units: Units = REDUCED
    symbols: Any = None
    mass: Any = None
    charge: Any = None
    momentum: Any = None
    force: Any = None
    energy: Any = None
    time: Any = 0.0
    step: Any = 0

    def __post_init__(self):
        set_field = lambda name, value: object.__setattr__(self, name, value)
        position = np.asarray(self.position, float)
        if position.ndim != 2 or position.shape[1] != self.space.dimensions or not len(position):
            raise ArgumentError(
                f"Argument `position` must have the shape (atoms, {self.space.dimensions}), that of its space, but it has "
                f"{position.shape}."
            )
        set_field("position", position)
        for name in (*VECTORS, *SCALARS):
            value = getattr(self, name)
            if value is not None:
                expected = position.shape if name in VECTORS else position.shape[:1]
                set_field(name, _shaped(name, value, expected))
        set_field("energy", None if self.energy is None else float(self.energy))
        set_field("time", float(self.time))
        set_field("step", int(self.step))
        if not np.isfinite(position).all():
            atom = int(np.flatnonzero(~np.isfinite(position).all(axis=1))[0])
            raise ArgumentError(f"Argument `position` must be finite, but atom {atom} (from 0) is at {position[atom]}.")
        if self.symbols is not None:
            set_field("symbols", tuple(str(symbol) for symbol in self.symbols))
            if len(self.symbols) != len(position):
                raise ArgumentError(
                    f"Argument `symbols` must name each of the {len(position)} atoms, but it has {len(self.symbols)} names."
                )

    def __len__(self) -> int:
        return len(self.position)

    def state(self) -> SeparableSystem.State:
        """Positions and momenta to begin a simulation with; atoms without momenta rest."""
        momentum = np.zeros_like(self.position) if self.momentum is None else self.momentum
        return SeparableSystem.State(position=jnp.asarray(self.position), momentum=jnp.asarray(momentum))

    def species(self, elements: Sequence[str]) -> Int[Array, " atoms"]:
        """The place of each atom's name among `elements`; an `UnknownNameError` for a name that is not there."""
        if self.symbols is None:
            raise ArgumentError("The frame must have names of atoms to tell species, but it has none. Give `symbols`.")
        for symbol in dict.fromkeys(self.symbols):
            check_known(symbol, elements, "element")
        places = {element: place for place, element in enumerate(elements)}
        return jnp.asarray([places[symbol] for symbol in self.symbols], jnp.int32)

    def converted(self, units: Units) -> "Frame":
        """The same frame in another unit system.

        **Raises:** an `ArgumentError` where one of the two systems is reduced, without scales, and the other is not.
        """
        if units == self.units:
            return self
        factor = lambda dimension: self.units.si(dimension) / units.si(dimension)
        changed: dict[str, Any] = {"units": units, "time": self.time * factor("time")}
        for name, dimension in {"position": "length", "energy": "energy", **VECTORS, **SCALARS}.items():
            value = getattr(self, name)
            changed[name] = None if value is None else value * factor(dimension)
        changed["space"] = jax.tree.map(lambda x: x * factor("length"), self.space)
        return dataclasses.replace(self, **changed)

    def __repr__(self) -> str:
        names = "" if self.symbols is None else " of " + ", ".join(dict.fromkeys(self.symbols))
        held = [name for name in ("momentum", "force", "energy") if getattr(self, name) is not None]
        return (
            f"Frame of {len(self)} atoms{names} at step {self.step}, time {self.time:g} ({self.units.name} units)"
            + (f", with {', '.join(held)}" if held else "")
        )


def space_from_vectors(vectors: ArrayLike | Sequence[Sequence[float]]) -> Space:
    """The space of a cell given by rows: with right angles along the axes an `Orthorhombic` one, otherwise a `Triclinic` one."""
    vectors = np.asarray(vectors, float)
    lengths = np.diagonal(vectors)
    if np.array_equal(np.diag(lengths), vectors) and (lengths > 0).all():
        return Orthorhombic(jnp.asarray(lengths))
    return Triclinic(jnp.asarray(vectors))


def three_dimensional(frame: Frame) -> Frame:
    """A frame of two dimensions in the plane z = 0 of three; its cell is one unit of length thick."""
    if frame.space.dimensions == 3:
        return frame
    flat = lambda x: None if x is None else np.pad(x, ((0, 0), (0, 1)))
    if frame.space.periodic:
        vectors = np.eye(3)
        vectors[:2, :2] = np.asarray(frame.space.vectors())
        space: Space = space_from_vectors(vectors)
    else:
        space = OpenSpace()
    changed = {name: flat(getattr(frame, name)) for name in ("position", *VECTORS)}
    return dataclasses.replace(frame, space=space, **changed)


def two_dimensional(frame: Frame) -> Frame:
    """The plane z = 0 of a frame, what `three_dimensional` was made of."""
    if frame.space.periodic:
        space: Space = space_from_vectors(np.asarray(frame.space.vectors())[:2, :2])
    else:
        space = OpenSpace(dimensions=2)
    changed = {name: x if (x := getattr(frame, name)) is None else x[:, :2] for name in ("position", *VECTORS)}
    return dataclasses.replace(frame, space=space, **changed)


def _shaped(
    name: str, value: ArrayLike | Sequence[float] | Sequence[Sequence[float]], shape: tuple[int, ...]
) -> np.ndarray:
    value = np.asarray(value, float)
    if value.shape != shape:
        raise ArgumentError(
            f"Argument `{name}` must have the shape {shape} to fit `position`, but it has {value.shape}."
        )
    return value
