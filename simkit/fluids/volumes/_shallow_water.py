"""Shallow water over a bed, wet and dry, by finite volumes."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Outputs
from ...core import (
    POSITIVE,
    SYSTEMS,
    Example,
    Explained,
    Input,
    Reviewed,
    StiffTransportSystem,
    check_numbers,
    quantity,
)
from ..grids._apart import apart
from ..grids._at_time import with_boundaries_at
from ..grids._boundary import Boundaries, Boundary, Piecewise, as_boundaries, conditions_of
from ..grids._checks import check_lowest, check_shapes, lowest
from ..grids._ghost import along_end, cells, chosen, padded
from ..grids._grid import Grid
from ..grids._parts import laid_out, on_its_parts, shardings_of
from ..grids._reconstruction import MUSCL, RECONSTRUCTIONS, FirstOrder, Reconstruction, named
from ..grids._values import inputs_of_values
from ._open import Level, Open
from ._water import ConservedWater, Water, velocity_of, water_flux


@SYSTEMS.named("shallow_water")
class ShallowWater(StiffTransportSystem, Reviewed, Explained):
    r"""Water whose waves are long against its height h, in one or two dimensions, over a bed b.

    $$\partial_t h + \nabla\cdot(h u) = 0, \qquad
    \partial_t (h u) + \nabla\cdot\big(h u u + \tfrac{1}{2} g h^2\big) = -g h \nabla b - f\, e_z \times h u
    - \frac{g n^2 |u|}{h^{1/3}} u$$

    with the Coriolis parameter $f = f_0 + \beta (y - y_0)$, $y_0$ the middle of the grid, and Manning's roughness n. Friction,
    which is stiff in thin water, is stepped implicitly by `WRK3`: flow that is uniform down a slope keeps Manning's velocity
    $h^{2/3} \sqrt{S} / n$ in films of any height, however long the steps.

    Finite volumes with hydrostatic reconstruction: a lake at rest stays at rest to rounding over any bed, with shores; heights stay
    positive up to a Courant number of a quarter, and at others the step is made again, shorter.

    The state holds height and velocity; solvers step height and discharge. Any consistent units; metres and seconds with the
    default gravity.

    - `grid`: cells of one width along each axis.
    - `bed`: b, shape of the grid or a number; `gravity`: g; `roughness`: n, 0.01 (glass) to 0.1 (forest), in s/m^(1/3).
    - `coriolis`, `beta`: $f_0$ and $\beta$, in two dimensions.
    - `boundaries`: of `Periodic`, `FreeSlip` (a wall), `Open`, `Level` (a given surface outside, such as a tide) and `Piecewise`.
    - `reconstruction`: "muscl" or "first_order".
    - `dry`: the height below which water does not move.
    - `source`: None, or a callable `(t, x, water) -> ShallowWater.Conserved`, what is added to height and discharge in
        a unit of time, such as rain, wind or a learned closure; `x` is the tuple of the grid's coordinates.

    Good Courant numbers are 0.25 with shores, 0.5 else.

    Audusse, Bouchut, Bristeau, Klein and Perthame (2004), SIAM J. Sci. Comput. 25:2050.
    """

    State = Water
    Conserved = ConservedWater

    grid: Grid = eqx.field(static=True)
    reconstruction: Reconstruction = eqx.field(static=True)
    turning: bool = eqx.field(static=True)
    stiff: bool = eqx.field(static=True)
    boundaries: Boundaries
    source: Any
    bed: Any = quantity(unit="m", doc="height of the bed")
    gravity: Any = quantity(unit="m/s^2", support=POSITIVE, doc="acceleration by gravity")
    roughness: Any = quantity(unit="s/m^(1/3)", support=POSITIVE, doc="Manning's roughness")
    coriolis: Any = quantity(unit="1/s", doc="Coriolis parameter in the middle of the grid")
    beta: Any = quantity(unit="1/(m s)", doc="its gradient along the second axis")
    dry: Any = quantity(unit="m", support=POSITIVE, doc="height below which water does not move")

    def __init__(
        self,
        grid: Grid,
        *,
        bed: ArrayLike = 0.0,
        gravity: ArrayLike = 9.81,
        roughness: ArrayLike | None = None,
        coriolis: ArrayLike | None = None,
        beta: ArrayLike | None = None,
        boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
        reconstruction: str | Reconstruction = MUSCL(),
        dry: ArrayLike = 1e-6,
        source: Callable[..., ConservedWater] | None = None,
    ):
        grid.check_uniform("shallow water")
        grid.check_dimensions((1, 2), "shallow water")
        if jnp.ndim(bed):
            grid.check_field(bed, "bed")
        self.grid, self.bed, self.gravity, self.dry = grid, bed, gravity, dry
        self.turning, self.stiff = coriolis is not None or beta is not None, roughness is not None
        if self.turning:
            grid.check_dimensions((2,), "a Coriolis parameter")
        zero = lambda value: 0.0 if value is None else value
        self.roughness, self.coriolis, self.beta = zero(roughness), zero(coriolis), zero(beta)
        self.boundaries, self.source = as_boundaries(grid, boundaries, kind="water"), source
        self.reconstruction = named(reconstruction, RECONSTRUCTIONS, "reconstruction", (MUSCL, FirstOrder))

    def vector_field(self, t: ArrayLike, y: ConservedWater, inputs: Inputs) -> ConservedWater:
        now = with_boundaries_at(self, t, inputs, y.height.dtype)
        slope = on_its_parts(now, ShallowWater._slope, y)
        force = jnp.stack(self._forces(y.height, [velocity_of(y.height, q, self.dry) for q in y.discharge]))
        slope = ConservedWater(slope.height, slope.discharge + force)
        if self.source is None:
            return slope
        x = tuple(jnp.asarray(c, y.height.dtype) for c in self.grid.mesh())
        return jax.tree.map(jnp.add, slope, self.source(t, x, self.decode(y)))

    def _slope(self, y: ConservedWater) -> ConservedWater:
        height = y.height
        velocity = [velocity_of(height, q, self.dry) for q in y.discharge]
        bed = jnp.broadcast_to(self.bed, height.shape)
        rows = lax.optimization_barrier([height, height + bed, *velocity])
        total = [jnp.zeros_like(height)] * (1 + len(velocity))
        for axis in range(len(velocity)):
            total = [a - b for a, b in zip(total, self._divergence(rows, axis), strict=True)]
        return ConservedWater(total[0], jnp.stack(total[1:]))

    def _divergence(self, rows: list[Array], axis: int) -> list[Array]:
        """Return the outflow of each cell through its two faces across an axis, with the slope of the bed."""
        recon, n, spacing = self.reconstruction, self.grid.shape[axis], self.grid.spacing(axis)
        wide = padded(rows, axis, recon.ghosts + 1, self.boundaries[axis], self._beyond(axis))

        def edges(wide: list[Array]) -> tuple[list[Array], list[Array]]:
            stencils = [[cells(x, axis, i, i + n + 2) for i in range(2 * recon.ghosts + 1)] for x in wide]
            found = [recon.edges(*stencil) for stencil in stencils]
            return [e[0] for e in found], [e[1] for e in found]

        lower, upper = apart(edges, wide)
        left, right = [cells(x, axis, 0, n + 1) for x in upper], [cells(x, axis, 1, n + 2) for x in lower]
        step = jnp.maximum(left[1] - left[0], right[1] - right[0])  # the bed of the face: the higher one
        ordered = lambda side: [jnp.maximum(side[1] - step, 0), side[2 + axis], *_but(side[2:], axis)]
        a, b = ordered(left), ordered(right)
        mass, across, *others = water_flux(a, b, self.gravity)
        half = 0.5 * self.gravity
        out = across + half * (left[0] ** 2 - a[0] ** 2)  # as the cell below sees it
        into = across + half * (right[0] ** 2 - b[0] ** 2)
        mass, out, into, *others = lax.optimization_barrier([mass, out, into, *others])
        difference = lambda high, low: (cells(high, axis, 1, n + 1) - cells(low, axis, 0, n)) / spacing
        inner = lambda x: cells(x, axis, 1, n + 1)
        heights, surfaces = ([inner(side[k]) for side in (lower, upper)] for k in (0, 1))
        rise = (surfaces[1] - heights[1]) - (surfaces[0] - heights[0])
        slope = half * (heights[0] + heights[1]) * rise / spacing
        along = [difference(x, x) for x in others]
        along.insert(axis, difference(out, into) + slope)
        return [difference(mass, mass), *along]

    def _beyond(self, axis: int) -> Callable[[list[Array], Boundary, int], list[Array]]:
        """Ghost cells of height, surface and velocities at an end of an axis."""

        def ghosts(rows: list[Array], boundary: Boundary, side: int) -> list[Array]:
            if isinstance(boundary, Piecewise):
                return chosen(self.boundaries, boundary, axis, ghosts, rows, side)
            if isinstance(boundary, Open | Level):
                last = 0 if side else rows[0].shape[axis] - 1
                rows = [jnp.broadcast_to(cells(x, axis, last, last + 1), x.shape) for x in rows]
                if isinstance(boundary, Open):
                    return rows
                bed = rows[1] - rows[0]
                height = jnp.maximum(along_end(self.boundaries, boundary.surface, axis, bed) - bed, 0)
                return [height, height + bed, *rows[2:]]
            return [-x if i == 2 + axis else x for i, x in enumerate(rows)]

        return ghosts

    def _forces(self, height: Array, velocity: list[Array]) -> list[Array]:
        """Coriolis' force and friction on each component of the discharge."""
        force = [jnp.zeros_like(height) for _ in velocity]
        if self.turning:
            y = jnp.asarray(self.grid.mesh()[1] - self.grid.origin[1] - 0.5 * self.grid.lengths[1], height.dtype)
            f = self.coriolis + self.beta * y
            force = [f * height * velocity[1], -f * height * velocity[0]]
        if self.stiff:
            rate = self._friction(height, _speed(velocity))
            force = [a - rate * height * u for a, u in zip(force, velocity, strict=True)]
        return force

    def _friction(self, height: Array, speed: Array) -> Array:
        """The rate at which Manning's friction slows water of a speed down."""
        return self.gravity * self.roughness**2 * speed / jnp.maximum(height, self.dry) ** (4 / 3)

    def smoothed(self, state: ConservedWater, change: ConservedWater, time: ArrayLike) -> ConservedWater:
        """A change with what friction leaves of its discharge after a time.

        The rate is that at the speed of the water, or at Manning's for the slope of its surface where it is slower, so that water
        which starts to move in a step is held as well. A cell beside much deeper water may be flooded within the step: there the
        speed is that of the front of a dam that breaks, else friction at the later stages would exceed what it is divided by
        and turn the flow around. The derivative of friction by the discharge is twice the rate.
        """
        height = state.height
        velocity = [velocity_of(height, q, self.dry) for q in state.discharge]
        surface, squares = height + self.bed, []
        speed = _speed(velocity)
        front = 2 * jnp.sqrt(self.gravity * jnp.maximum(height, self.dry)) + speed
        deepest, fastest = height, front
        for axis in range(len(velocity)):
            lower, upper = _beside(surface, axis)
            squares.append(((upper - lower) / (2 * self.grid.spacing(axis))) ** 2)
            deepest = jnp.maximum(deepest, jnp.maximum(*_beside(height, axis)))
            fastest = jnp.maximum(fastest, jnp.maximum(*_beside(front, axis)))
        steep = jnp.maximum(sum(squares[1:], squares[0]), jnp.finfo(height.dtype).tiny) ** 0.25
        still = self.gravity * self.roughness * steep / jnp.maximum(height, self.dry) ** (2 / 3)
        ahead = jnp.where(height < SHALLOW * deepest, fastest, 0)
        rate = jnp.maximum(self._friction(height, jnp.maximum(speed, ahead)), still)
        return ConservedWater(change.height, change.discharge / (1 + 2 * time * rate)[None])

    def longest_step(self, t: ArrayLike, state: ConservedWater, inputs: Inputs) -> Array:
        height = state.height
        speed = jnp.sqrt(self.gravity * jnp.maximum(height, self.dry))
        rate = jnp.zeros_like(height)
        for i, q in enumerate(state.discharge):
            rate = rate + (jnp.abs(velocity_of(height, q, self.dry)) + speed) / self.grid.spacing(i)
        # A height that is not one says so: no step is short enough.
        return jnp.where(jnp.min(height) >= -self.dry, 1 / jnp.max(rate), jnp.nan)

    def outputs(self, t: ArrayLike, y: Water, inputs: Inputs) -> Outputs:
        cell = self.grid.volume / self.grid.size
        kinetic = 0.5 * jnp.sum(y.height * jnp.sum(y.velocity**2, axis=0)) * cell
        bed = jnp.broadcast_to(self.bed, y.height.shape)
        potential = self.gravity * jnp.sum(y.height * (0.5 * y.height + bed)) * cell
        return {
            "height": y.height,
            "surface": y.height + bed,
            "velocity": y.velocity,
            "volume": jnp.sum(y.height) * cell,
            "energy": kinetic + potential,
        }

    def invariants(self, t: ArrayLike, y: Water) -> dict[str, Array]:
        """The volume of water in a periodic box or between walls; what a source adds is not known."""
        ends = conditions_of(self.boundaries)
        if self.source is not None or any(isinstance(end, Open | Level) for end in ends):
            return {}
        return {"volume": jnp.sum(y.height) * (self.grid.volume / self.grid.size)}

    def reads(self) -> dict[str, Input]:
        return inputs_of_values(conditions_of(self.boundaries))

    def review(self, y0: Water, step: float | None, solver: object) -> None:
        check_numbers(self)
        check_shapes(self, y0, {"height": (), "velocity": (self.grid.dimensions,)})
        check_lowest(self, y0, ("height",), zero=True)

    def explain(self, t: ArrayLike, y: Water) -> str:
        return lowest(self.grid, t, {"height": y.height})

    def encode(self, y: Water) -> ConservedWater:
        return laid_out(self.grid, ConservedWater(y.height, y.height[None] * y.velocity))

    def decode(self, state: ConservedWater) -> Water:
        velocity = jnp.stack([velocity_of(state.height, q, self.dry) for q in state.discharge])
        return Water(state.height, velocity)

    def shardings(self, state: ConservedWater) -> Any:
        return shardings_of(self.grid, state)

    @classmethod
    def example(cls) -> "Example[ShallowWater]":
        """A dam that breaks."""
        grid = Grid(128, 10.0, origin=-5.0)
        height = jnp.where(jnp.asarray(grid.centres(0)) < 0, 1.0, 0.1)
        return Example(
            cls(grid, gravity=9.81, boundaries=Open()), Water(height, jnp.zeros((1, 128))), jnp.linspace(0.0, 1.0, 11)
        )


SHALLOW = 0.5
"""Share of the depth beside it below which a cell counts as one that a front may flood within a step."""


def _beside(x: Array, axis: int) -> tuple[Array, Array]:
    """The values of the cells before and after each cell across an axis; at an end its own."""
    wide, n = jnp.pad(x, [(int(i == axis),) * 2 for i in range(x.ndim)], mode="edge"), x.shape[axis]
    return cells(wide, axis, 0, n), cells(wide, axis, 2, n + 2)


def _speed(velocity: list[Array]) -> Array:
    square = sum((u * u for u in velocity[1:]), velocity[0] ** 2)
    return jnp.sqrt(jnp.maximum(square, jnp.finfo(square.dtype).tiny))


def _but(rows: list[Array], axis: int) -> list[Array]:
    return [x for i, x in enumerate(rows) if i != axis]
