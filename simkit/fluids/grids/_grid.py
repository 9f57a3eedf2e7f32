"""Grids: boxes of cells in one, two and three dimensions."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from ..._doors import check_kind, shown
from ..._errors import ArgumentError

Location = int | Literal["centre"]
"""Location of values: at the centres of cells, or on the faces across an axis."""


@dataclasses.dataclass(frozen=True, init=False)
class Grid:
    """A box of cells in one, two or three dimensions: known while tracing, and hashable.

    **Arguments:**

    - `shape`: the number of cells along each axis; a number is that of the only axis.
    - `lengths`: the edges of the box, one number for all axes or one each; by default $2\\pi$. Any unit of length.
    - `origin`: its lower corner, one number or one an axis.
    - `faces`: for a stretched axis the coordinates of its `shape[axis] + 1` faces, which decide length and origin there; None
        for an axis of equal cells. Stretched axes are for walls; spectral systems need equal cells.

    - `devices`: over which one simulation is spread, such as `jax.devices()`; by default it stays on one. Devices in a row divide
        the first axis (slabs), an array of p x q of them, `np.array(jax.devices()).reshape(p, q)`, the first two (pencils). These
        axes must have equal cells, as many on each device.

    **Attributes:** `shape`, `lengths`, `origin` (a tuple each), `stretched`, the faces as given, `devices` (a tuple, row by row),
    and `parts`, the numbers of parts of the first axes.

    Arrays of values have the grid's shape as their last axes; a velocity is `(dimensions, *shape)`. Cell i of an axis lies
    between its faces i and i + 1, and values on the faces of a periodic axis are those on the lower face of each cell.

    **Raises:** an `ArgumentError` where shapes and lengths do not fit together or faces do not rise.

    ```python
    import simkit

    grid = simkit.fluids.Grid((64, 32), lengths=(2.0, 1.0))
    x, y = grid.mesh()
    ```
    """

    shape: tuple[int, ...]
    lengths: tuple[float, ...]
    origin: tuple[float, ...]
    stretched: tuple[tuple[float, ...] | None, ...]
    devices: tuple[Any, ...]
    parts: tuple[int, ...]

    def __init__(
        self,
        shape: int | Sequence[int],
        lengths: float | Sequence[float] = 2 * math.pi,
        origin: float | Sequence[float] = 0.0,
        *,
        faces: Sequence[Any] | None = None,
        devices: Sequence[Any] | np.ndarray | None = None,
    ):
        check_kind(
            "shape",
            shape,
            int | np.integer | np.ndarray | Sequence,
            "one to three numbers of cells",
            "Write `Grid((64, 32))`.",
        )
        given_sizes = np.atleast_1d(np.asarray(shape))
        if given_sizes.dtype.kind not in "iu" or given_sizes.ndim > 1:
            raise ArgumentError(
                f"Argument `shape` must be one to three whole numbers of cells, but it is {shown(shape)}. Write `Grid((64, 32))`; "
                "`round(x)` makes a whole number of a computed one."
            )
        sizes = tuple(int(n) for n in given_sizes)
        if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
            raise ArgumentError(f"Argument `shape` must be one to three numbers of cells, but it is {shape!r}.")
        found, corner = _per_axis(lengths, "lengths", len(sizes)), _per_axis(origin, "origin", len(sizes))
        given: list[Any] = [None] * len(sizes) if faces is None else list(faces)
        if len(given) != len(sizes):
            raise ArgumentError(
                f"Argument `faces` must have one entry for each of {len(sizes)} axes, None for equal cells."
            )
        for axis, values in enumerate(given):
            if values is None:
                continue
            values = tuple(float(x) for x in np.asarray(values, float))
            if len(values) != sizes[axis] + 1 or not np.all(np.diff(values) > 0):
                raise ArgumentError(
                    f"Argument `faces` must hold {sizes[axis] + 1} rising coordinates for axis {axis}, but it holds {len(values)}"
                    f"{'' if np.all(np.diff(values) > 0) else ' that do not rise'}."
                )
            given[axis], found[axis], corner[axis] = values, values[-1] - values[0], values[0]
        if not (np.isfinite(found).all() and min(found) > 0):
            raise ArgumentError(f"Argument `lengths` must be positive, but it is {lengths!r}.")
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "lengths", tuple(found))
        object.__setattr__(self, "origin", tuple(corner))
        object.__setattr__(self, "stretched", tuple(given))
        placed = _checked_devices(self, devices)
        object.__setattr__(self, "devices", tuple(placed.flat))
        object.__setattr__(self, "parts", placed.shape if placed.size else ())

    @property
    def dimensions(self) -> int:
        """One, two or three."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def volume(self) -> float:
        """The volume of the box; its area or length in fewer dimensions."""
        return math.prod(self.lengths)

    @property
    def uniform(self) -> bool:
        """Tell whether all axes have equal cells."""
        return all(faces is None for faces in self.stretched)

    def faces(self, axis: int) -> Float[np.ndarray, " faces"]:
        """The coordinates of the faces across an axis."""
        given, n = self.stretched[axis], self.shape[axis]
        if given is not None:
            return np.array(given)
        return self.origin[axis] + self.lengths[axis] * (np.arange(n + 1) / n)

    def centres(self, axis: int) -> Float[np.ndarray, " n"]:
        """The coordinates of the centres of cells along an axis."""
        faces = self.faces(axis)
        return 0.5 * (faces[1:] + faces[:-1])

    def widths(self, axis: int) -> Float[np.ndarray, " n"]:
        """The widths of the cells along an axis."""
        if self.stretched[axis] is None:
            return np.full(self.shape[axis], self.lengths[axis] / self.shape[axis])
        return np.diff(self.faces(axis))

    def spacing(self, axis: int) -> float:
        """The width of an axis' cells where they are equal, else of the narrowest."""
        return float(self.widths(axis).min())

    def volumes(self) -> Float[np.ndarray, "..."]:
        """The volumes of the cells, shape `shape`."""
        total = np.ones(self.shape)
        for axis in range(self.dimensions):
            total = total * _along(self.widths(axis), axis, self.dimensions)
        return total

    def mesh(self, location: Location = "centre") -> tuple[Float[np.ndarray, "..."], ...]:
        """Coordinates where values stand, an array of shape `shape` for each axis.

        `location` is "centre", or an axis for its lower faces: there the component of a velocity along it stands.
        """
        found = []
        for axis in range(self.dimensions):
            at = self.faces(axis)[:-1] if axis == location else self.centres(axis)
            found.append(np.array(np.broadcast_to(_along(at, axis, self.dimensions), self.shape)))
        return tuple(found)

    def wavenumbers(self, axis: int) -> Float[np.ndarray, " n"]:
        """The angular wavenumbers of an axis of equal cells, in the order of the fast Fourier transform."""
        self.check_uniform("wavenumbers")
        n = self.shape[axis]
        return 2 * np.pi / self.lengths[axis] * np.fft.fftfreq(n, 1 / n)

    def check_uniform(self, what: str) -> None:
        """Refuse a stretched grid where equal cells are needed."""
        if not self.uniform:
            raise ArgumentError(f"Argument `grid` must have equal cells for {what}, but some axes are stretched.")

    def check_dimensions(self, allowed: tuple[int, ...], what: str) -> None:
        """Refuse a grid with other numbers of axes."""
        if self.dimensions not in allowed:
            wanted = " or ".join(map(str, allowed))
            raise ArgumentError(
                f"Argument `grid` must have {wanted} dimensions for {what}, but it has {self.dimensions}."
            )

    def check_field(self, field: ArrayLike, name: str, leading: tuple[int, ...] = ()) -> None:
        """Refuse an array that has not the grid's shape, with the sizes of the axes in front of it."""
        shape = (*leading, *self.shape)
        if jnp.shape(field) != shape:
            raise ArgumentError(
                f"Argument `{name}` must have the shape {shape} of its grid, but it has {jnp.shape(field)}."
            )

    def __repr__(self) -> str:
        spread = f", over {' x '.join(map(str, self.parts))} devices" if self.devices else ""
        return (
            f"Grid({' x '.join(map(str, self.shape))}, lengths {' x '.join(f'{x:.6g}' for x in self.lengths)}{spread})"
        )


def stretched_faces(cells: int, length: float = 1.0, *, origin: float = 0.0, clustering: float = 2.0) -> np.ndarray:
    r"""Faces that stand close to both ends of an axis, for walls:

    $$x_i = \text{origin} + \frac{\text{length}}{2} \left(1 + \frac{\tanh(c\,(2 i/n - 1))}{\tanh c}\right)$$

    **Arguments:**

    - `cells`: how many, n.
    - `length`, `origin`: where the axis lies.
    - `clustering`: c; good values are 1 (gentle) to 3. The cells at the walls are some $2c/\sinh 2c$ as wide as equal ones.

    **Returns:** `cells + 1` coordinates, for `Grid(..., faces=(None, faces))`.
    """
    if not clustering > 0:
        raise ArgumentError(f"Argument `clustering` must be positive, but it is {clustering!r}.")
    s = np.linspace(-1.0, 1.0, cells + 1)
    return origin + 0.5 * length * (1 + np.tanh(clustering * s) / np.tanh(clustering))


def _checked_devices(grid: Grid, devices: Any) -> np.ndarray:
    """The devices of a grid, an array with an axis for each direction that they divide; an empty one where there are none."""
    if devices is None:
        return np.empty(0, object)
    try:
        found = np.array(devices, object)
    except ValueError:  # rows of different lengths
        found = np.empty(0, object)
    every = list(found.flat)
    if (
        not every
        or not found.ndim
        or len(set(map(id, every))) < len(every)
        or not all(isinstance(device, jax.Device) for device in every)
    ):
        raise ArgumentError(
            "Argument `devices` must be a list of different devices, such as `jax.devices()`, or an array of p x q of them, but it "
            f"is {devices!r}."
        )
    if found.ndim > min(2, grid.dimensions):
        raise ArgumentError(
            f"Argument `devices` must divide one or two axes of the grid, but it has the shape {found.shape} and the grid "
            f"{grid.dimensions} axes. Write `np.array(jax.devices())`, or `.reshape(p, q)` of it for a grid of two or three axes."
        )
    for axis, count in enumerate(found.shape):
        name = f"{('first', 'second')[axis]} axis of a grid over {count} devices along it"
        if grid.stretched[axis] is not None:
            raise ArgumentError(
                f"The {name} must have equal cells, but has stretched ones. Let a stretched axis be the last."
            )
        if grid.shape[axis] % count:
            more = -(-grid.shape[axis] // count) * count
            raise ArgumentError(
                f"The {name} must have as many on each device, but it has {grid.shape[axis]} cells. Take {more} cells, or as many "
                "devices as divide them."
            )
    return found


def _per_axis(value: float | Sequence[float], name: str, dimensions: int) -> list[float]:
    values = np.asarray(value, float)
    if values.ndim > 1 or values.size not in (1, dimensions):
        raise ArgumentError(
            f"Argument `{name}` must be one number or one for each of {dimensions} axes, but it is {value!r}."
        )
    return [float(x) for x in np.broadcast_to(values.reshape(-1), dimensions)]


def _along(values: np.ndarray, axis: int, dimensions: int) -> np.ndarray:
    return values.reshape([-1 if i == axis else 1 for i in range(dimensions)])
