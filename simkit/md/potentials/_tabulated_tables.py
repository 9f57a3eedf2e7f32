"""Pairs and bonded terms from tables of energies and slopes, each joined by itself, as LAMMPS does."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..._errors import ArgumentError
from ...core import as_float_array, quantity
from ..space._space import Space
from ._bonded import (
    BondedPotential,
    angle_between,
    as_indices,
    check_terms,
    dihedral_angle,
    length,
    some_angle,
)
from ._potential import BySpecies, PairPotential, with_slope
from ._table_lookup import Column, Grid, column, looked_up
from ._truncation import Truncated, Truncation

Numbers = tuple[float, ...]


def _floats(values: Any) -> Numbers:
    return tuple(float(value) for value in np.atleast_1d(np.asarray(values, float)))


class TabulatedPairs(PairPotential):
    r"""Pairs whose energies and slopes stand in tables, one for each pair of species or one for several.

    Knots are even in $x = r^2$. Energies and slopes are joined each by themselves, as the pair style `table` of LAMMPS does: the
    force is that of the slopes, and differs from the derivative of the joined energies by what is lost between knots. `Tabulated`
    is the potential whose force is the derivative of its energy.

    **Arguments:**

    - `energies`, `slopes`: u and du/dx at the knots, shape (tables, knots).
    - `starts`, `ends`: r at the first and the last knot, one a table. Below the first the energy goes on in a straight line in x,
        and pairs end at the last.
    - `table`: which table a pair of species takes, shape (species, species), -1 for none; None where there is one table for all.
    - `end_slopes`: d^2u/dx^2 at the first and the last knot, shape (tables, 2), for cubic splines; None for straight lines.

    **Raises:** an `ArgumentError` for shapes that do not fit, and for a table that ends before it begins.

    **Made by:** `read_lammps` from `pair_style table`.

    ```python
    import jax.numpy as jnp
    import simkit

    x = jnp.linspace(0.8**2, 2.5**2, 400)
    potential = simkit.md.TabulatedPairs(x[None] ** -6, -6 * x[None] ** -7, 0.8, 2.5)
    ```

    **Reference:** https://docs.lammps.org/pair_table.html.
    """

    starts: Numbers = eqx.field(static=True)
    ends: Numbers = eqx.field(static=True)
    table: tuple[tuple[int, ...], ...] | None = eqx.field(static=True)
    end_slopes: Float[Array, "tables 2"] | None
    cutoff: float = eqx.field(static=True)
    truncation: Truncation
    energies: Float[Array, "tables knots"] = quantity(unit="energy", doc="at the knots")
    slopes: Float[Array, "tables knots"] = quantity(unit="energy/length^2", doc="du/d(r^2) at the knots")

    def __init__(
        self,
        energies: Any,
        slopes: Any,
        starts: float | Sequence[float],
        ends: float | Sequence[float],
        *,
        table: Any = None,
        end_slopes: Any = None,
    ):
        self.energies, self.slopes = as_float_array(energies), as_float_array(slopes)
        self.starts, self.ends = _floats(starts), _floats(ends)
        self.end_slopes = None if end_slopes is None else as_float_array(end_slopes)
        self.table = None if table is None else tuple(tuple(int(k) for k in row) for row in np.asarray(table))
        self.cutoff, self.truncation = max(self.ends), Truncated()
        _check_columns(self.energies, self.slopes, self.end_slopes)
        count = len(self.energies)
        if len(self.starts) != count or len(self.ends) != count or not (np.array(self.starts) >= 0).all():
            raise ArgumentError(
                f"Arguments `starts` and `ends` must give a distance to each of {count} tables, but give {self.starts} and "
                f"{self.ends}."
            )
        if not (np.array(self.starts) < np.array(self.ends)).all():
            raise ArgumentError(
                f"Argument `ends` must lie behind `starts`, but they are {self.ends} and {self.starts}."
            )
        rows = np.zeros((1, 1), int) if self.table is None else np.array(self.table)
        if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or (rows != rows.T).any() or rows.max() >= count:
            raise ArgumentError(
                f"Argument `table` must be a symmetric table (species, species) of numbers below {count}, but is {rows.tolist()}."
            )

    def coefficients(self) -> Any:
        grid, spline = _squared(self.starts, self.ends, self.energies.shape[1]), self.end_slopes is not None
        ends = self.slopes[:, jnp.array([0, -1], jnp.int32)]
        row = None if self.table is None else BySpecies(jnp.asarray(self.table, self.energies.dtype))
        return column(self.energies, ends, grid, spline), column(self.slopes, self.end_slopes, grid, spline), row

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        energies, slopes, place = coefficients
        grid = _squared(self.starts, self.ends, energies[0].shape[1])
        place = jnp.zeros_like(r2) if place is None else place
        place = jnp.broadcast_to(
            place, jnp.broadcast_shapes(r2.shape, place.shape)
        )  # a tail asks for all pairs of species
        row = jnp.maximum(place, 0).astype(jnp.int32)
        reach = jnp.asarray(self.ends, r2.dtype)[row]

        def energy(r2: Array) -> Array:
            here = jnp.broadcast_to(r2, row.shape)
            near = (here < reach * reach) & (place >= 0)
            found = looked_up(grid, jnp.where(near, here, reach * reach), row, energies, slopes)
            return jnp.where(near, found, 0)

        return with_slope(energy, r2)


def _squared(starts: Numbers, ends: Numbers, knots: int) -> Grid:
    """Grids that are even in the squared distance."""
    both = zip(starts, ends, strict=True)
    return Grid(tuple(a * a for a in starts), tuple((b * b - a * a) / (knots - 1) for a, b in both))


def _check_columns(energies: Array, slopes: Array | None, ends: Array | None) -> None:
    shape = energies.shape
    if len(shape) != 2 or shape[1] < 2 or (slopes is not None and slopes.shape != shape):
        raise ArgumentError(
            f"Arguments `energies` and `slopes` must have the shape (tables, knots), with two knots or more, but have {shape} and "
            f"{None if slopes is None else slopes.shape}."
        )
    if ends is not None and ends.shape != (shape[0], 2):
        raise ArgumentError(f"Argument `end_slopes` must have the shape ({shape[0]}, 2), but has {ends.shape}.")


class TabulatedTerms(BondedPotential):
    r"""Bonds, angles or dihedrals whose energies and slopes stand in tables.

    Energies and slopes are joined each by themselves, as in `TabulatedPairs`, so that the force is that of the slopes.

    **Arguments:**

    - `atoms`: shape (terms, 2) for distances, (terms, 3) for angles from 0 to pi, (terms, 4) for dihedral angles from 0, which is
        cis, to 2 pi.
    - `energies`, `slopes`: u and du/dx at even knots, shape (kinds, knots); x is the distance or the angle in radians. Slopes of
        None are those of the joined energies.
    - `starts`, `ends`: of bonds, the first and the last knot, one a kind: beyond them the energy goes on in a straight line. Angles
        have knots from 0 to pi, both included; n of dihedrals are at $2 \pi i / n$.
    - `kind`: shape (terms,), which table a term takes.
    - `spline`: join by cubic splines, else by straight lines; with `end_slopes`: d^2u/dx^2 at both ends, shape (kinds, 2), of bonds
        and angles.
    - `fading`: of dihedrals, angles in radians between successive bonds at which the energy begins to fall, and at which it is 0,
        shape (kinds, 2): it is multiplied by $1 - (\theta - \theta_1)^2 / (\theta_2 - \theta_1)^2$ for both angles above
        $\theta_1$.

    **Raises:** an `ArgumentError` for shapes that do not fit.

    **Made by:** `read_lammps` from `bond_style table`, `angle_style table`, `dihedral_style table` and `table/cut`.

    ```python
    import jax.numpy as jnp
    import simkit

    r = jnp.linspace(0.5, 1.5, 101)[None]
    bonds = simkit.md.TabulatedTerms([[0, 1]], 50 * (r - 1) ** 2, 100 * (r - 1), [0], starts=0.5, ends=1.5)
    ```

    **Reference:** https://docs.lammps.org/bond_table.html, https://docs.lammps.org/dihedral_table_cut.html.
    """

    slopes: Float[Array, "kinds knots"] | None
    kind: Int[Array, " terms"] | None
    starts: Numbers = eqx.field(static=True)
    ends: Numbers = eqx.field(static=True)
    spline: bool = eqx.field(static=True)
    end_slopes: Float[Array, "kinds 2"] | None
    fading: Float[Array, "kinds 2"] | None
    atoms: Int[Array, "terms size"] = eqx.field(converter=as_indices)
    energies: Float[Array, "kinds knots"] = quantity(unit="energy", doc="at the knots")

    def __init__(
        self,
        atoms: Any,
        energies: Any,
        slopes: Any,
        kind: Any = None,
        *,
        starts: float | Sequence[float] | None = None,
        ends: float | Sequence[float] | None = None,
        spline: bool = False,
        end_slopes: Any = None,
        fading: Any = None,
    ):
        optional = lambda value: None if value is None else as_float_array(value)
        self.atoms, self.energies, self.slopes = as_indices(atoms), as_float_array(energies), optional(slopes)
        self.kind = jnp.zeros(len(self.atoms), jnp.int32) if kind is None else as_indices(kind)
        self.end_slopes, self.fading, self.spline = optional(end_slopes), optional(fading), bool(spline)
        check_terms(self, self.atoms, self.size)
        _check_columns(self.energies, self.slopes, self.end_slopes)
        count, bonds = len(self.energies), self.size == 2
        whole = 2 * np.pi if self.size == 4 else np.pi
        self.starts = _floats(starts) if bonds else (0.0,) * count
        self.ends = _floats(ends) if bonds else (float(whole),) * count
        if len(self.starts) != count or len(self.ends) != count or not (np.array(self.starts) < self.ends).all():
            raise ArgumentError(
                f"Arguments `starts` and `ends` must give a distance to each of {count} tables of bonds, the end behind the start, "
                f"but are {starts} and {ends}."
            )
        if self.size not in (2, 3, 4) or (
            self.fading is not None and (self.size != 4 or self.fading.shape != (count, 2))
        ):
            raise ArgumentError(
                f"Argument `atoms` must have two to four atoms a term, and `fading` the shape ({count}, 2) of dihedrals, but they "
                f"have {self.size} and {None if self.fading is None else self.fading.shape}."
            )
        if self.spline and self.size < 4 and (self.end_slopes is None or self.slopes is None):
            raise ArgumentError(
                "Arguments `slopes` and `end_slopes` must be given for splines of bonds and angles, but are not."
            )

    @property
    def size(self) -> int:
        return self.atoms.shape[-1]

    def _grid(self) -> Grid:
        knots = self.energies.shape[1]
        apart = knots if self.size == 4 else knots - 1
        steps = tuple((end - start) / apart for start, end in zip(self.starts, self.ends, strict=True))
        return Grid(self.starts, steps, knots if self.size == 4 else 0)

    def term(self, space: Space, position: Array) -> Array:
        assert self.kind is not None, "set by the constructor"
        grid, both = self._grid(), jnp.array([0, -1], jnp.int32)
        ends = None if self.slopes is None else self.slopes[:, both]
        energies = column(self.energies, ends, grid, self.spline)
        slopes: Column | None = None if self.slopes is None else column(self.slopes, self.end_slopes, grid, self.spline)
        found = looked_up(grid, self._variable(space, position), self.kind, energies, slopes)
        if self.fading is None:
            return found
        first, last = self.fading[self.kind].T
        for at in (1, 2):
            bent = angle_between(*(space.displacement(position[:, k], position[:, at]) for k in (at - 1, at + 1)))
            beyond = jnp.maximum(bent - first, 0) / (last - first)
            found = found * (1 - beyond * beyond)
        return found

    def _variable(self, space: Space, position: Array) -> Array:
        if self.size == 2:
            return length(space.displacement(position[:, 0], position[:, 1]))
        if self.size == 3:
            return angle_between(*(space.displacement(position[:, k], position[:, 1]) for k in (0, 2)))
        some, sine, cosine = some_angle(*dihedral_angle(space, position))
        angle = jnp.where(some, jnp.arctan2(sine, cosine), 0)
        return jnp.where(angle < 0, angle + 2 * jnp.pi, angle)
