"""Boundary conditions: small modules, a pair for each axis of a grid."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._doors import check_count, check_function, shown
from ..._errors import ArgumentError
from ...core import POSITIVE, quantity, tracing
from ._checks import check_value
from ._grid import Grid
from ._values import InputValue, check_steady, given, varies

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class Boundary(eqx.Module):
    """Boundary condition at one end of an axis. Its numbers are quantities, so that they have paths and gradients.

    `serves` names the kinds of fields that it can bound: "velocity", "scalar", "gas", "water" or "lattice".
    """

    serves: AbstractClassVar[tuple[str, ...]]


class Periodic(Boundary):
    """The other end of the axis follows; both ends of an axis are periodic or neither is."""

    serves: ClassVar[tuple[str, ...]] = ("velocity", "scalar", "gas", "water", "lattice")


class NoSlip(Boundary):
    """A wall that the fluid sticks to, at rest or moving along itself.

    `velocity` is that of the wall: a number for all components, shape `(dimensions,)`, or a profile `(dimensions, ...)` by the
    cells along it. Its normal component must be 0. For `IncompressibleFlow` and `CompressibleFlow` it may change with time: a
    function `(t, x)`, or an `InputValue`.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity", "gas", "lattice")
    velocity: Any = given(0.0, doc="velocity of the wall")


class WallModel(Boundary):
    r"""A wall of an `IncompressibleFlow` with the stress of the law of the wall, for cells too wide for the layer beside it.

    $$\tau = \rho u_\tau^2, \qquad y^+ = u^+ + e^{-\kappa B} \Big(e^x - 1 - x - \tfrac12 x^2 - \tfrac16 x^3\Big), \quad
    x = \kappa u^+ \qquad \text{or, rough,} \quad u_\tau = \frac{\kappa u}{\ln(y / z_0)}$$

    with the velocity u along the wall, less that of the wall, in the middle of a cell, its distance y from the wall,
    $u^+ = u / u_\tau$ and $y^+ = y u_\tau / \nu$. The stress points along u. A smooth wall has one formula from the viscous
    sublayer, where it is `NoSlip`, to the logarithm. No flow goes through it.

    - `velocity`: that of the wall, as `NoSlip` has it.
    - `roughness`: $z_0$, the height at which the logarithm is 0, in the grid's unit of length; a number, or a profile by the cells
        along the wall; None for a smooth wall. A rough wall has no viscous stress.
    - `cell`: whose velocity is taken, counted from 1 at the wall.
    - `kappa`, `intercept`: $\kappa$ and B.

    **Good values:** cells of 30 or more wall units along the layer, a tenth or less of its thickness, with a closure for large
    eddies; cell 1, or 2 and 3, whose velocities the grid resolves better. The law is that of a layer in equilibrium: it is
    wrong where flow separates or is transitional.

    **Raises:** an `ArgumentError` for a cell that is none and a constant that is not positive; from the flow for a roughness
    above the cell's middle, and for a smooth wall of a fluid without viscosity.

    Spalding (1961), J. Appl. Mech. 28:455; Larsson, Kawai, Bodart and Bermejo-Moreno (2016), Mech. Eng. Rev. 3:15-00418.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity",)
    velocity: Any = given(0.0, doc="velocity of the wall")
    roughness: Any = quantity(None, unit="length", support=POSITIVE, doc="roughness length", optional=True)
    kappa: Any = quantity(0.41, support=POSITIVE, doc="von Karman's constant")
    intercept: Any = quantity(5.2, doc="intercept of the logarithmic law")
    cell: int = eqx.field(static=True, default=1)

    def __check_init__(self):
        check_count("cell", self.cell)
        check_value("kappa", self.kappa, positive=True)
        check_value("intercept", self.intercept)


class FreeSlip(Boundary):
    """A wall along which the fluid slips: no flow through it, no shear stress on it."""

    serves: ClassVar[tuple[str, ...]] = ("velocity", "gas", "water")


class Inflow(Boundary):
    """A given velocity: a number into the box, shape `(dimensions,)`, or a profile `(dimensions, ...)` by the cells of the end.

    For `IncompressibleFlow` it may be a function `(t, x)` that is continuous in time; its derivative is taken.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity", "lattice")
    velocity: Any = given(doc="velocity of the incoming fluid")


class Outflow(Boundary):
    """An end through which the fluid leaves: what arrives is carried out, $u_t + c\\,u_n = 0$.

    `speed` is c; by default, None, the mean speed through the face.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity",)
    speed: Any = eqx.field(default=None)


class FixedPressure(Boundary):
    r"""An end at a given pressure, through which the fluid of an `IncompressibleFlow` or `LatticeBoltzmann` comes and goes.

    `pressure` is for each unit of density, as is the output of that name; a number, or a profile by the cells of the end. For
    `IncompressibleFlow` it may change with time: a function `(t, x)`, or an `InputValue`.

    The velocity of an incompressible flow has no normal derivative there: $-p + \nu\,\partial_n u_n = -p_0$ and
    $\partial_n u_t = 0$ (Heywood, Rannacher and Turek 1996, Int. J. Numer. Methods Fluids 22:325). With `total` fluid that
    enters comes from a reservoir at rest: where it does, the pressure is $p_0 - |u|^2 / 2$, and no more energy comes in than $p_0$
    for each volume. Through a `LatticeBoltzmann` end fluid goes straight, and `total` is refused.
    """

    serves: ClassVar[tuple[str, ...]] = ("lattice", "velocity")
    pressure: Any = given(0.0, doc="pressure at the end, for each unit of density")
    total: bool = eqx.field(static=True, default=False)


class Dirichlet(Boundary):
    """A scalar with a given value: a number, a profile by the cells, or with time a function `(t, x)` or `InputValue`."""

    serves: ClassVar[tuple[str, ...]] = ("scalar",)
    value: Any = given(0.0, doc="value at the boundary")


class Neumann(Boundary):
    """A scalar with a given outward derivative, of the same forms as the value of a `Dirichlet`; 0 lets nothing through."""

    serves: ClassVar[tuple[str, ...]] = ("scalar",)
    gradient: Any = given(0.0, doc="outward derivative at the boundary")


def _truths(value: Any) -> Any:
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"Argument `where` of Piecewise must be truth values by the cells along an end, or a function `(t, x)`, but it is "
            f"{shown(value)}."
        ) from error


class Piecewise(Boundary):
    """Two conditions at one end: `first` in the cells where `where` is true, and `second` in the others.

    - `where`: an array of truth values by the cells along the end, or a function `(t, x)` that gives one.
    - `first`, `second`: conditions of walls, `Inflow` (where the pieces do not move), `Open`, `Stream`, `Level`, `Dirichlet`,
        `Neumann`, or again a `Piecewise`.

    For an `IncompressibleFlow` with explicit diffusion, `CompressibleFlow` and `ShallowWater`.
    """

    serves: ClassVar[tuple[str, ...]] = ("velocity", "scalar", "gas", "water")
    where: Any = eqx.field(converter=lambda value: value if callable(value) else _truths(value))
    first: Any
    second: Any

    def __check_init__(self):
        for name in ("first", "second"):
            part = getattr(self, name)
            if not isinstance(part, Boundary):
                raise ArgumentError(
                    f"Argument `{name}` of Piecewise must be a boundary, such as `FreeSlip()`, but it is {shown(part)}."
                )


def pieces_of(end: Boundary) -> list[Boundary]:
    """The conditions that an end has: one, or those of its pieces."""
    return [*pieces_of(end.first), *pieces_of(end.second)] if isinstance(end, Piecewise) else [end]


Boundaries = tuple[tuple[Boundary, Boundary], ...]
"""A pair, lower and upper end, for each axis."""


def conditions_of(boundaries: Iterable[Iterable[Boundary]]) -> list[Boundary]:
    """The conditions at all ends of all axes, those of pieces one by one."""
    return [piece for pair in boundaries for end in pair for piece in pieces_of(end)]


def as_boundaries(grid: Grid, given: object, *, kind: str = "velocity") -> Boundaries:
    """Boundaries, a pair for each axis, from what a user wrote.

    **Arguments:**

    - `grid`: whose axes they belong to.
    - `given`: None (all periodic), one boundary for all ends, or one entry an axis: a boundary for both ends, or a pair.
    - `kind`: of which kind of field, "velocity", "scalar", "gas", "water" or "lattice".

    **Raises:** an `ArgumentError` that names the axis where a condition does not suit the field, only one end is
    periodic, an axis
    with stretched cells is periodic, a velocity or a profile has another shape, a wall moves out of its place, or fluid
    flows in that cannot leave.
    """
    if given is None or isinstance(given, Boundary):
        given = [Periodic() if given is None else given] * grid.dimensions
    if not isinstance(given, Sequence) or len(given) != grid.dimensions:
        raise ArgumentError(
            f"Argument `boundaries` must have one entry for each of {grid.dimensions} axes, a boundary or a pair, but it is "
            f"{given!r}."
        )
    pairs = []
    for axis, entry in enumerate(given):
        if isinstance(entry, type) or not isinstance(entry, Boundary | Sequence):
            raise ArgumentError(
                f"Argument `boundaries` must give a condition or a pair at axis {axis}, but it gives {entry!r}. Make one: "
                "`Periodic()`."
            )
        pair = (entry, entry) if isinstance(entry, Boundary) else tuple(entry)
        if len(pair) != 2 or not all(isinstance(end, Boundary) and _serves(end, kind) for end in pair):
            raise ArgumentError(
                f"Argument `boundaries` must give a {kind} at axis {axis} a pair of conditions for it, but it gives {entry!r}."
            )
        periodic = [isinstance(end, Periodic) for end in pair]
        if any(periodic) and not all(periodic):
            raise ArgumentError(
                f"Argument `boundaries` must make both ends of axis {axis} periodic or neither, but one is."
            )
        if all(periodic) and grid.stretched[axis] is not None:
            raise ArgumentError(f"Axis {axis} must have equal cells to be periodic, but it is stretched.")
        for end in pair:
            for piece in pieces_of(end):
                if kind == "lattice":
                    check_steady(piece, f"at axis {axis}")
                if isinstance(piece, Inflow) and isinstance(piece.velocity, InputValue):
                    raise ArgumentError(
                        f"The velocity of Inflow at axis {axis} must be a number, an array or a function `(t, x)`, whose "
                        "derivative by time is known, but it is an InputValue. Write a function, or take a `FixedPressure`."
                    )
                _check_values(grid, piece, axis)
            _check_pieces(grid, end, axis)
        pairs.append(pair)
    ends = conditions_of(pairs)
    out = (FixedPressure,) if kind == "lattice" else (Outflow, FixedPressure)
    if any(isinstance(end, Inflow) for end in ends) and not any(isinstance(end, out) for end in ends):
        raise ArgumentError(
            "Fluid flows in that cannot leave: `boundaries` with an `Inflow` need an "
            f"{' or a '.join(f'`{kind.__name__}`' for kind in out)} somewhere."
        )
    if kind == "lattice" and any(isinstance(end, FixedPressure) and end.total for end in ends):
        raise ArgumentError(
            "Argument `total` of FixedPressure must be False for a lattice, where the pressure is that of the density, but it is "
            "True. Leave it out."
        )
    return tuple(pairs)


def _serves(end: Boundary, kind: str) -> bool:
    pieces = pieces_of(end)
    whole = (Periodic, Outflow, FixedPressure) if len(pieces) > 1 else ()
    return kind in end.serves and all(kind in piece.serves and not isinstance(piece, whole) for piece in pieces)


def _check_pieces(grid: Grid, end: Boundary, axis: int) -> None:
    """Refuse pieces without a truth value for each cell, and inflows whose place may move."""
    if not isinstance(end, Piecewise):
        return
    face = tuple(n for i, n in enumerate(grid.shape) if i != axis)
    moves = callable(end.where)
    if not moves and (end.where.dtype != bool or end.where.shape != face):
        raise ArgumentError(
            f"Argument `where` of Piecewise at axis {axis} must be truth values of the shape {face} of the cells along it, or a "
            f"function `(t, x)`, but it has the type {end.where.dtype} and the shape {end.where.shape}."
        )
    if moves:
        check_function(f"where of Piecewise at axis {axis}", end.where, ("t", "x"))
        if any(isinstance(piece, Inflow) for piece in pieces_of(end)):
            raise ArgumentError(
                f"Argument `where` of Piecewise at axis {axis} must be an array where one of its conditions is an `Inflow`, since "
                "pieces of a function may move, but it is a function. Give truth values by cells."
            )
    for part in (end.first, end.second):
        _check_pieces(grid, part, axis)


def _check_values(grid: Grid, end: Boundary, axis: int) -> None:
    """Refuse numbers of a condition that do not fit the grid."""
    d, face = grid.dimensions, tuple(n for i, n in enumerate(grid.shape) if i != axis)
    velocity = getattr(end, "velocity", None)
    velocity = None if varies(velocity) else velocity
    if velocity is not None and jnp.shape(velocity) not in ((), (d,), (d, *face)):
        raise ArgumentError(
            f"The velocity of {type(end).__name__} at axis {axis} must be one number, or have the shape ({d},), or {(d, *face)} "
            f"where it varies, but it has {jnp.shape(velocity)}."
        )
    across = velocity[axis] if isinstance(end, NoSlip | WallModel) and velocity is not None and velocity.ndim else 0.0
    if not tracing(across) and np.any(np.asarray(across) != 0):
        raise ArgumentError(
            f"A wall moves along itself only, but that at axis {axis} has the velocity {across} across it. "
            "Give each axis walls of its own, or take `Inflow` and `Outflow` where fluid goes through."
        )
    for name in ("value", "gradient", "pressure", "density", "surface", "roughness"):
        value = getattr(end, name, 0.0)
        shape = () if value is None or varies(value) else jnp.shape(value)
        if shape not in ((), face):
            raise ArgumentError(
                f"The {name} of {type(end).__name__} at axis {axis} must be one number or have the shape {face} of the cells along "
                f"it, but it has {shape}."
            )
