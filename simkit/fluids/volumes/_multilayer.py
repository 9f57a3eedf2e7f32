"""Layers of shallow water of different densities over a bed, by finite volumes."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._doors import shown
from ..._errors import ArgumentError
from ..._types import Inputs, Outputs
from ...core import (
    POSITIVE,
    SYSTEMS,
    Example,
    Explained,
    Input,
    Noted,
    Reviewed,
    TransportSystem,
    as_float_array,
    check_numbers,
    quantity,
    traced,
)
from ..grids._apart import apart
from ..grids._at_time import with_boundaries_at
from ..grids._boundary import Boundaries, Boundary, FreeSlip, Periodic, as_boundaries, conditions_of
from ..grids._checks import check_lowest, check_shapes, lowest
from ..grids._ghost import cells, padded
from ..grids._grid import Grid
from ..grids._parts import laid_out, on_its_parts, shardings_of
from ..grids._reconstruction import MUSCL, RECONSTRUCTIONS, WENO5Z, FirstOrder, Reconstruction, named
from ..grids._values import inputs_of_values
from ._layered import ConservedLayers, LayeredWater, added, characteristics, heads, layered_flux, surfaces
from ._open import Open
from ._water import Water, velocity_of


@SYSTEMS.named("multilayer_shallow_water")
class MultilayerShallowWater(TransportSystem, Reviewed, Noted, Explained):
    r"""Layers of shallow water, each of one density, that do not mix, in one or two dimensions, over a bed b.

    $$\partial_t h_k + \nabla\cdot(h_k u_k) = 0, \qquad
    \partial_t (h_k u_k) + \nabla\cdot(h_k u_k u_k) = -g h_k \nabla \Big(b + \sum_{j \ge k} h_j
    + \sum_{j < k} \frac{\rho_j}{\rho_k} h_j\Big) - f\, e_z \times h_k u_k$$

    for layers k = 1 to N from the surface down, with the Coriolis parameter $f = f_0 + \beta (y - y_0)$, $y_0$ the middle of the
    grid. The surface is free.

    Finite volumes of order 2. Layers at rest stay at rest to rounding over any bed, also where the bed comes through some of them.
    Each layer keeps its volume. The surface wave has the fluxes of `ShallowWater`, which is the case of one layer, and internal
    waves have a dissipation by their own speed.

    Where layers slide over each other faster than about $\sqrt{g (1 - \rho_1/\rho_2) (h_1 + h_2)}$ the equations are not
    hyperbolic: the shear (Kelvin-Helmholtz) instability, which would mix the layers, grows the faster the finer the grid. A start
    with such cells warns, a run that ends with some has a note, and one that fails names the place.

    The state holds height and velocity of the layers; solvers step heights and discharges.

    - `grid`: cells of one width along each axis.
    - `density`: $\rho_k$, shape (layers,), the uppermost and lightest first. Only ratios count.
    - `bed`: b, shape of the grid or a number; `gravity`: g.
    - `coriolis`, `beta`: $f_0$ and $\beta$, in two dimensions.
    - `boundaries`: of `Periodic`, `FreeSlip` (a wall) and `Open`.
    - `reconstruction`: "muscl", "weno5z" or "first_order".
    - `dry`: the height below which a layer does not move.
    - `source`: None, or a callable `(t, x, water) -> MultilayerShallowWater.Conserved`, what is added to heights and discharges in
        a unit of time, such as wind, friction or exchange between layers; `x` is the tuple of the grid's coordinates.

    **Good values:** Courant numbers of 0.5, a quarter where layers run dry. A step is bound by the surface wave; where only
    internal waves count, a gravity ten times smaller with ten times the contrasts of density has nearly the same ones.

    **Raises:** an `ArgumentError` for densities that do not grow downward, and for other boundaries.

    Bouchut and Zeitlin (2010), Discrete Contin. Dyn. Syst. B 13:739, for the balance; Vallis (2017), Atmospheric and Oceanic Fluid
    Dynamics, section 3.3, for the equations.
    """

    State = LayeredWater
    Conserved = ConservedLayers

    grid: Grid = eqx.field(static=True)
    reconstruction: Reconstruction = eqx.field(static=True)
    turning: bool = eqx.field(static=True)
    boundaries: Boundaries
    source: Any
    density: Float[Array, " n"] = quantity(
        unit="kg/m^3", support=POSITIVE, doc="density of each layer, from the surface down"
    )
    bed: Any = quantity(unit="m", doc="height of the bed")
    gravity: Any = quantity(unit="m/s^2", support=POSITIVE, doc="acceleration by gravity")
    coriolis: Any = quantity(unit="1/s", doc="Coriolis parameter in the middle of the grid")
    beta: Any = quantity(unit="1/(m s)", doc="its gradient along the second axis")
    dry: Any = quantity(unit="m", support=POSITIVE, doc="height below which a layer does not move")

    def __init__(
        self,
        grid: Grid,
        density: ArrayLike | Sequence[float],
        *,
        bed: ArrayLike = 0.0,
        gravity: ArrayLike = 9.81,
        coriolis: ArrayLike | None = None,
        beta: ArrayLike | None = None,
        boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
        reconstruction: str | Reconstruction = MUSCL(),
        dry: ArrayLike = 1e-6,
        source: Callable[..., ConservedLayers] | None = None,
    ):
        grid.check_uniform("shallow water")
        grid.check_dimensions((1, 2), "shallow water")
        if jnp.ndim(bed):
            grid.check_field(bed, "bed")
        self.grid, self.bed, self.gravity, self.dry = grid, bed, gravity, dry
        try:
            self.density = as_float_array(density)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"Argument `density` must hold a number for each layer, but it is {shown(density)}. Write `[1000.0, 1025.0]`."
            ) from error
        _check_density(self.density)
        self.turning = coriolis is not None or beta is not None
        if self.turning:
            grid.check_dimensions((2,), "a Coriolis parameter")
        zero = lambda value: 0.0 if value is None else value
        self.coriolis, self.beta = zero(coriolis), zero(beta)
        self.boundaries, self.source = as_boundaries(grid, boundaries, kind="water"), source
        for end in conditions_of(self.boundaries):
            if not isinstance(end, Periodic | FreeSlip | Open):
                raise ArgumentError(
                    "Argument `boundaries` of layers must be of `Periodic`, `FreeSlip` and `Open`, but one is "
                    f"{type(end).__name__}. Put what comes in into `source`."
                )
        self.reconstruction = named(reconstruction, RECONSTRUCTIONS, "reconstruction", (WENO5Z, MUSCL, FirstOrder))

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.density.shape[0]

    def vector_field(self, t: ArrayLike, y: ConservedLayers, inputs: Inputs) -> ConservedLayers:
        now = with_boundaries_at(self, t, inputs, y.height.dtype)
        slope = on_its_parts(now, MultilayerShallowWater._slope, y)
        if self.turning:
            p, q = y.discharge
            middle = self.grid.origin[1] + 0.5 * self.grid.lengths[1]
            f = self.coriolis + self.beta * jnp.asarray(self.grid.mesh()[1] - middle, y.height.dtype)
            slope = ConservedLayers(slope.height, slope.discharge + jnp.stack([f[None] * q, -f[None] * p]))
        if self.source is None:
            return slope
        x = tuple(jnp.asarray(c, y.height.dtype) for c in self.grid.mesh())
        return jax.tree.map(jnp.add, slope, self.source(t, x, self.decode(y)))

    def _slope(self, y: ConservedLayers) -> ConservedLayers:
        height = list(y.height)
        velocity = [[velocity_of(h, q, self.dry) for h, q in zip(height, along, strict=True)] for along in y.discharge]
        bed = jnp.broadcast_to(self.bed, height[0].shape)
        rows = lax.optimization_barrier([height, surfaces(height, bed), *velocity])
        total: list[list[Any]] = [[0.0] * self.layers for _ in rows[1:]]
        for axis in range(len(velocity)):
            for found, part in zip(total, self._divergence(rows, axis), strict=True):
                found[:] = [a - b for a, b in zip(found, part, strict=True)]
        return ConservedLayers(jnp.stack(total[0]), jnp.stack([jnp.stack(part) for part in total[1:]]))

    def _divergence(self, rows: list[list[Array]], axis: int) -> list[list[Array]]:
        """Return the outflow of each cell through its two faces across an axis, with the force of the pressure."""
        recon, n, spacing, g = self.reconstruction, self.grid.shape[axis], self.grid.spacing(axis), self.gravity
        flat = [x for row in rows for x in row]
        wide = padded(flat, axis, recon.ghosts + 1, self.boundaries[axis], self._beyond(axis))

        def edges(wide: list[Array]) -> tuple[list[Array], list[Array]]:
            stencils = [[cells(x, axis, i, i + n + 2) for i in range(2 * recon.ghosts + 1)] for x in wide]
            found = [recon.edges(*stencil) for stencil in stencils]
            return [e[0] for e in found], [e[1] for e in found]

        lower, upper = (self._by_rows(side) for side in apart(edges, wide))
        part = lambda side, i, j: [[cells(x, axis, i, j) for x in row] for row in side]
        left, right = part(upper, 0, n + 1), part(lower, 1, n + 2)
        a, b, jumps, whole = apart(functools.partial(self._at_faces, axis), left, right)
        contrast = 1 - self.density[0] / self.density[-1]
        mass, across, *others = apart(layered_flux, a, b, whole, g, contrast)
        push = [0.25 * g * (x + y) * jump for x, y, jump in zip(a[0], b[0], jumps, strict=True)]
        out = [f + p for f, p in zip(across, push, strict=True)]  # as the cells below see it
        into = [f - p for f, p in zip(across, push, strict=True)]
        change = lambda high, low: [
            (cells(x, axis, 1, n + 1) - cells(y, axis, 0, n)) / spacing for x, y in zip(high, low, strict=True)
        ]
        (h0, e0), (h1, e1) = part(lower, 1, n + 1)[:2], part(upper, 1, n + 1)[:2]
        low, high = apart(lambda *both: [heads(e, self.density) for e in both], e0, e1)
        rises = zip(h0, h1, low, high, strict=True)
        slope = [0.5 * g * (a + b) * (high - low) / spacing for a, b, low, high in rises]
        along = [change(x, x) for x in others]
        along.insert(axis, [a + b for a, b in zip(change(out, into), slope, strict=True)])
        return [change(mass, mass), *along]

    def _at_faces(self, axis: int, left: list[Any], right: list[Any]) -> tuple[list[Any], list[Any], list[Array], Any]:
        """Heights and velocities on both sides of the faces above one floor, the jumps of the heads, and heights of both columns.

        The floor of a layer at a face is the higher one of both sides, for each layer and for the whole column.
        """
        floors = [[e - h for h, e in zip(*side[:2], strict=True)] for side in (left, right)]
        step = [jnp.maximum(a, b) for a, b in zip(*floors, strict=True)]
        bottom = functools.reduce(jnp.maximum, [side[1][0] - added(side[0]) for side in (left, right)])
        whole = jnp.maximum(left[1][0] - bottom, 0), jnp.maximum(right[1][0] - bottom, 0)
        above = lambda side: [jnp.maximum(e - floor, 0) for e, floor in zip(side[1], step, strict=True)]
        a, b = ([above(side), side[2 + axis], *_but(side[2:], axis)] for side in (left, right))
        level = lambda side: heads([floor + h for floor, h in zip(step, side[0], strict=True)], self.density)
        return a, b, [high - low for low, high in zip(level(a), level(b), strict=True)], whole

    def _by_rows(self, flat: list[Array]) -> list[list[Array]]:
        """Heights, surfaces and velocities, each by layers, from a list of all."""
        return [flat[i : i + self.layers] for i in range(0, len(flat), self.layers)]

    def _beyond(self, axis: int) -> Callable[[list[Array], Boundary, int], list[Array]]:
        """Ghost cells of heights, surfaces and velocities at an end of an axis."""

        def ghosts(rows: list[Array], boundary: Boundary, side: int) -> list[Array]:
            if isinstance(boundary, Open):
                last = 0 if side else rows[0].shape[axis] - 1
                return [jnp.broadcast_to(cells(x, axis, last, last + 1), x.shape) for x in rows]
            return [-x if i // self.layers == 2 + axis else x for i, x in enumerate(rows)]

        return ghosts

    def longest_step(self, t: ArrayLike, state: ConservedLayers, inputs: Inputs) -> Array:
        height = state.height
        speed = jnp.sqrt(self.gravity * jnp.maximum(jnp.sum(height, axis=0), self.dry))
        rate = jnp.zeros_like(speed)
        for i, q in enumerate(state.discharge):
            fastest = jnp.max(jnp.abs(velocity_of(height, q, self.dry)), axis=0)
            rate = rate + (fastest + speed) / self.grid.spacing(i)
        # A height that is not one says so: no step is short enough.
        return jnp.where(jnp.min(height) >= -self.dry, 1 / jnp.max(rate), jnp.nan)

    def outputs(self, t: ArrayLike, y: LayeredWater, inputs: Inputs) -> Outputs:
        cell, bed = self.grid.volume / self.grid.size, jnp.broadcast_to(self.bed, y.height.shape[1:])
        weight = self.density / self.density[-1]
        surface = jnp.stack(surfaces(list(y.height), bed))
        along = tuple(range(1, y.height.ndim))
        kinetic = 0.5 * jnp.sum(y.height * jnp.sum(y.velocity**2, axis=0), axis=along)
        potential = self.gravity * jnp.sum(y.height * (surface - 0.5 * y.height), axis=along)
        return {
            "height": y.height,
            "surface": surface,
            "velocity": y.velocity,
            "volume": jnp.sum(y.height, axis=along) * cell,
            "energy": jnp.sum(weight * (kinetic + potential)) * cell,
        }

    def invariants(self, t: ArrayLike, y: LayeredWater) -> dict[str, Array]:
        """The volume of each layer in a periodic box or between walls; what a source adds is not known."""
        if self.source is not None or any(isinstance(end, Open) for end in conditions_of(self.boundaries)):
            return {}
        return {"volume": jnp.sum(y.height, axis=tuple(range(1, y.height.ndim))) * (self.grid.volume / self.grid.size)}

    def reads(self) -> dict[str, Input]:
        return inputs_of_values(conditions_of(self.boundaries))

    def review(self, y0: LayeredWater, step: float | None, solver: object) -> None:
        check_numbers(self)
        _check_density(self.density)
        check_shapes(self, y0, {"height": (self.layers,), "velocity": (self.grid.dimensions, self.layers)})
        check_lowest(self, Water(jnp.min(y0.height, axis=0), y0.velocity), ("height",), zero=True)
        if text := self._sheared(y0):
            warnings.warn(f"Argument `y0` of {type(self).__name__}: {text}", stacklevel=2)

    def note(self, t: ArrayLike, y: LayeredWater) -> str:
        return self._sheared(y)

    def explain(self, t: ArrayLike, y: LayeredWater) -> str:
        return " ".join(filter(None, (lowest(self.grid, t, {"height": jnp.min(y.height, axis=0)}), self._sheared(y))))

    def _sheared(self, y: LayeredWater) -> str:
        """A sentence on cells in which the equations are not hyperbolic; "" where there are none."""
        if self.layers == 1 or traced((self.density, self.gravity, self.dry, y)):
            return ""
        columns = np.moveaxis(np.asarray(y.height, float).reshape(self.layers, -1), 0, -1)
        density, wet = np.asarray(self.density, float), np.maximum(columns, float(self.dry))
        found, worst = 0, (0.0, 0)
        for u in np.asarray(y.velocity, float):
            along = np.moveaxis(u.reshape(self.layers, -1), 0, -1)
            slip = np.abs(np.diff(along, axis=-1)).max(axis=-1)
            # Where the shear is far from what any two layers bear there is no need to look.
            near = np.flatnonzero(slip > 0.1 * np.sqrt(_least(columns, density, float(self.gravity))))[:MOST]
            speeds = characteristics(wet[near], along[near], density, float(self.gravity))
            growth = np.abs(np.imag(speeds)).max(axis=-1, initial=0)
            bad = near[growth > SURE * slip[near]]
            found += len(bad)
            if len(bad):
                place = int(bad[np.argmax(slip[bad])])
                worst = max(worst, (float(slip[place]), place))
        if not found:
            return ""
        cell = np.unravel_index(worst[1], self.grid.shape)
        place = ", ".join(f"{float(x[cell]):.4g}" for x in self.grid.mesh())
        return (
            f"layers slide over each other too fast in {found} places, most at ({place}) by {worst[0]:.3g}. There the equations "
            "are not hyperbolic (shear instability): waves grow the faster the finer the grid, on which the answer depends. Layers "
            "closer in speed, larger contrasts of density, or friction between the layers in `source` avoid it."
        )

    def encode(self, y: LayeredWater) -> ConservedLayers:
        return laid_out(self.grid, ConservedLayers(y.height, y.height[None] * y.velocity))

    def decode(self, state: ConservedLayers) -> LayeredWater:
        velocity = jnp.stack([velocity_of(state.height, q, self.dry) for q in state.discharge])
        return LayeredWater(state.height, velocity)

    def shardings(self, state: ConservedLayers) -> Any:
        return shardings_of(self.grid, state)

    @classmethod
    def example(cls) -> "Example[MultilayerShallowWater]":
        """An internal wave under a surface that hardly moves."""
        grid = Grid(64, 1000.0)
        wave = 2.0 * jnp.cos(2 * jnp.pi * jnp.asarray(grid.centres(0)) / 1000.0)
        height = jnp.stack([20.0 - wave, 30.0 + wave])
        return Example(
            cls(grid, [1000.0, 1025.0]), LayeredWater(height, jnp.zeros((1, 2, 64))), jnp.linspace(0.0, 100.0, 11)
        )


SURE = 0.05
"""Growth of a wave, in units of the shear, from which on it is no rounding."""
MOST = 4096
"""Cells that are looked at for shear instability along an axis."""


def _least(columns: np.ndarray, density: np.ndarray, gravity: float) -> np.ndarray:
    """The least square of a shear that two layers next to each other bear, g (1 - rho_1 / rho_2) (h_1 + h_2)."""
    return gravity * np.min((1 - density[:-1] / density[1:]) * (columns[:, :-1] + columns[:, 1:]), axis=-1)


def _check_density(density: Array) -> None:
    """Refuse densities that are not positive or do not grow downward.

    **Raises:** an `ArgumentError`.
    """
    if jnp.ndim(density) != 1 or not jnp.size(density):
        raise ArgumentError(
            f"Argument `density` must have the shape (layers,), a density for each layer from the surface down, but it has "
            f"{jnp.shape(density)}. Write `[1000.0, 1025.0]`, or `[1.0]` for one layer."
        )
    if traced(density):
        return
    known = np.asarray(density)
    if not (np.isfinite(known).all() and known[0] > 0 and (np.diff(known) > 0).all()):
        raise ArgumentError(
            f"Argument `density` must be positive and grow from each layer to the one below it, but it is {known.tolist()}. "
            "Give the uppermost and lightest layer first, and join layers of one density."
        )


def _but(rows: list[Any], axis: int) -> list[Any]:
    return [x for i, x in enumerate(rows) if i != axis]
