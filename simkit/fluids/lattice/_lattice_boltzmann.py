"""Weakly compressible flow by the lattice Boltzmann method."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Inputs, Outputs, Scalar
from ...core import POSITIVE, SYSTEMS, DiscreteSystem, Example, Input, Noted, Reviewed, as_float_array, quantity
from ..grids._apart import apart
from ..grids._boundary import Boundaries, Boundary, FixedPressure, Inflow, NoSlip, as_boundaries
from ..grids._checks import check_vector
from ..grids._grid import Grid
from ..staggered._obstacle import Obstacle
from ._collision import Moments, Populations, Rates, collide, equilibrium, moments
from ._cut import check_surface, cut, signed_distance, stream_cut
from ._lattice import Lattice, lattice_of
from ._openings import opened
from ._review import (
    LARGEST_MACH,
    check_density,
    check_given,
    check_lattice,
    check_mach,
    check_relaxation,
    check_sides,
    check_viscosity,
    fastest,
    given_speeds,
    review_lattice,
    solid_cells,
)
from ._streaming import dragged, links, load, stream, walls


class LatticeFlow(eqx.Module):
    """The state of `LatticeBoltzmann`: populations less the weights of a fluid at rest, shape `(velocities, *shape)`."""

    populations: Array = quantity(doc="populations less the weights of a fluid at rest")


@SYSTEMS.named("lattice_boltzmann")
class LatticeBoltzmann(DiscreteSystem, Reviewed, Noted):
    r"""Weakly compressible flow in two or three dimensions by populations $f_i$ that collide in cells and stream to neighbours:

    $$f_i(x + c_i \Delta t,\, t + \Delta t) = f_i - \omega^+ (f_i^+ - f_i^{\mathrm{eq}+}) - \omega^- (f_i^- - f_i^{\mathrm{eq}-})
    + S_i, \qquad \frac{1}{\omega^+} = \frac12 + \frac{3 \nu \Delta t}{\Delta x^2}$$

    with nine velocities in two (D2Q9) and nineteen in three dimensions (D3Q19). Its density and velocity solve the equations of
    incompressible flow up to errors of order 2 in the width of cells, with $\Delta t \propto \Delta x^2$. No pressure is solved
    for: a step is local, and steps are short.

    All quantities are in the units of the grid and of time; `step=1` and cells of width 1 are lattice units. The reference density
    is 1: pressures and forces are for each unit of density.

    - `grid`: square or cubic cells. `step`: $\Delta t$, a static number. Speeds must lie below 0.3 of that of sound,
        $\Delta x / (\sqrt 3 \Delta t)$; errors of compressibility are as the square of this Mach number.
    - `viscosity`: $\nu$, kinematic.
    - `boundaries`: of `Periodic`, `NoSlip` (also moving along itself; bounce-back half a cell beyond the last centres, at the end
        of the grid), `Inflow` and, at the same axis, `FixedPressure` (both hold at the first centres; Zou and He 1997).
    - `force`: a constant acceleration, shape (dimensions,) (Guo et al. 2002); None without.
    - `obstacle`: a body at rest: booleans of the grid's shape, true inside, or a signed distance such as `Disk`, negative inside.
        It is made of whole cells. A `Disk` or `Box` goes on beyond periodic ends, in at the other; a function of your own is taken
        at the centres as it is.
    - `surface`: "cells", or "cut" for a signed distance whose surface cuts links between cells where it is: interpolated
        bounce-back (Bouzidi, Firdaouss and Lallemand 2001), of order 2 at curved walls. The body may then be traced and its force
        has derivatives by its place and shape, as long as no centre changes sides. A little mass passes the surface.
    - `collision`: "trt", two relaxation times, or "bgk", one.
    - `magic`: $\Lambda = (1/\omega^+ - 1/2)(1/\omega^- - 1/2)$ of "trt". With 3/16, the default, walls lie exactly where they are
        said to be in a straight channel, at any viscosity; 1/4 is the most stable.

    Outputs are `density`, `velocity`, `pressure` and, with a body, `drag`, the force on it, and `lift`, its second component, by
    exchange of momentum: the mean of the steps before and after. The state is a `LatticeFlow`, which `start` makes. Runs are of
    whole steps: `simulate` takes no `step`, and saved times are the same number of steps apart. Derivatives by viscosity, force,
    and speeds of walls and inflows exist; a body's shape has some with a "cut" surface alone.

    **Good values:** a step of 0.1 widths over the largest speed (Mach 0.17), ten or more cells across a body or channel, 1/omega
    from 0.51 to 1.

    **Source:** Qian, d'Humieres and Lallemand (1992), Europhys. Lett. 17:479, doi:10.1209/0295-5075/17/6/001; Ginzburg, Verhaeghe
    and d'Humieres (2008), Commun. Comput. Phys. 3:427; Bouzidi, Firdaouss and Lallemand (2001), Phys. Fluids 13:3452,
    doi:10.1063/1.1399290.

    ```python
    import jax.numpy as jnp
    from simkit import fluids, simulate

    grid = fluids.Grid((4, 16), lengths=(0.25, 1.0))
    channel = fluids.LatticeBoltzmann(
        grid, step=0.01, viscosity=0.1, force=[0.8, 0.0], boundaries=[fluids.Periodic(), fluids.NoSlip()]
    )
    run = simulate(channel, channel.start(), [0.0, 10.0, 20.0])
    print(channel.outputs(20.0, run.final(), None)["velocity"][0].max())  # near 1
    ```
    """

    State = LatticeFlow

    grid: Grid = eqx.field(static=True)
    step: float = eqx.field(static=True)
    collision: str = eqx.field(static=True)
    width: float = eqx.field(static=True)
    boundaries: Boundaries
    solid: Any
    links: Any
    cuts: Any
    viscosity: Scalar = quantity(support=POSITIVE, doc="kinematic viscosity")
    force: Any = quantity(None, doc="acceleration of the fluid", optional=True)
    magic: Scalar = quantity(3 / 16, support=POSITIVE, doc="product that fixes the relaxation of odd parts")

    def __init__(
        self,
        grid: Grid,
        *,
        step: float,
        viscosity: ArrayLike,
        boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
        force: ArrayLike | Sequence[float] | None = None,
        obstacle: ArrayLike | Callable[[tuple[Array, ...]], Array] | Obstacle | None = None,
        surface: str = "cells",
        collision: str = "trt",
        magic: ArrayLike = 3 / 16,
    ):
        self.width = check_lattice(grid, step, collision)
        self.grid, self.step, self.collision = grid, float(step), collision
        self.boundaries = as_boundaries(grid, boundaries, kind="lattice")
        check_sides(self.boundaries)
        if force is not None:
            check_vector(force, grid.dimensions, "force")
            force = as_float_array(force)
        check_viscosity(viscosity)
        self.viscosity, self.force, self.magic = viscosity, force, magic
        check_given(self.boundaries, self.force, self.step, self.width)
        check_relaxation(self.viscosity, self.step, self.width)
        if speeds := given_speeds(self.boundaries, grid.dimensions):
            check_mach(speeds, self.step, self.width)
        check_surface(surface, obstacle)
        if surface == "cut" and obstacle is not None:
            self.solid, self.links, self.cuts = cut(
                self.lattice, self.boundaries, signed_distance(grid, self.boundaries, obstacle)
            )
            return
        self.cuts = None
        solid = solid_cells(grid, self.boundaries, obstacle)
        found = links(self.lattice, self.boundaries, grid.shape, solid)
        with jax.ensure_compile_time_eval():
            self.solid = None if solid is None else jnp.asarray(solid)
            self.links = None if found is None else jnp.asarray(found)

    @property
    def lattice(self) -> Lattice:
        """The discrete velocities."""
        return lattice_of(self.grid.dimensions)

    @property
    def speed(self) -> float:
        """The speed of one cell a step."""
        return self.width / self.step

    def start(
        self,
        velocity: ArrayLike | Callable[..., Sequence[ArrayLike]] | None = None,
        pressure: ArrayLike | Callable[..., ArrayLike] | None = None,
    ) -> LatticeFlow:
        """A state in equilibrium, by default at rest.

        - `velocity`: values at the centres, `(dimensions, *shape)`, or a callable `x -> components` of their coordinates.
        - `pressure`: for each unit of density, the grid's shape, or a callable `x -> pressure`.

        The flow of a fit has its own slopes after some 1/omega steps.
        """
        d, dtype = self.grid.dimensions, jnp.asarray(self.viscosity).dtype
        mesh = tuple(jnp.asarray(x, dtype) for x in self.grid.mesh())
        if callable(velocity):
            velocity = jnp.stack([jnp.broadcast_to(jnp.asarray(u, dtype), self.grid.shape) for u in velocity(mesh)])
        if callable(pressure):
            pressure = jnp.broadcast_to(jnp.asarray(pressure(mesh), dtype), self.grid.shape)
        if velocity is None:
            velocity = jnp.zeros((d, *self.grid.shape), dtype)
        if pressure is None:
            pressure = jnp.zeros(self.grid.shape, dtype)
        self.grid.check_field(velocity, "velocity", (d,))
        self.grid.check_field(pressure, "pressure")
        flow, excess = as_float_array(velocity) / self.speed, 3 * as_float_array(pressure) / self.speed**2
        flow, excess = self._outside(flow), self._outside(excess)
        check_density(excess, "the start")
        found = Moments(excess, list(flow))
        push = self._push()
        if push is not None:  # half of what a step adds is not yet in the populations
            found = Moments(excess, [u - 0.5 * a for u, a in zip(flow, push, strict=True)])
        parts = [equilibrium(self.lattice, i, found) for i in range(self.lattice.size)]
        return LatticeFlow(jnp.stack([e if o is None else e + o for e, o in parts]))

    def reads(self) -> dict[str, Input]:
        return {}

    def review(self, y0: LatticeFlow, step: float | None, solver: object) -> None:
        review_lattice(self, y0)

    def note(self, t: ArrayLike, y: LatticeFlow) -> str:
        mach = fastest(self, y) / self.speed * 3**0.5
        if mach <= LARGEST_MACH:
            return ""
        return (
            f"The fastest flow at the end has the Mach number {mach:.2g}, above {LARGEST_MACH:g}: it is compressible. Take steps "
            f"of {self.step * LARGEST_MACH / mach:.2g} or less."
        )

    def encode(self, y: LatticeFlow) -> tuple[Array, ...]:
        """One array a velocity, which step twice as fast as one of them all."""
        return tuple(y.populations)

    def decode(self, state: Populations) -> LatticeFlow:
        return LatticeFlow(jnp.stack(list(state)))

    def advance(self, t: ArrayLike, y: Populations, inputs: Inputs) -> tuple[Array, ...]:
        after = self._collided(tuple(y))
        return tuple(self._streamed(after))

    def _collided(self, y: tuple[Array, ...]) -> tuple[Array, ...]:
        lattice, single = self.lattice, self.collision == "bgk"
        push, rates = self._push(), self._rates()
        found = apart(lambda y, push: moments(lattice, y, push), y, push)
        relax = lambda y, found, rates, push: tuple(collide(lattice, y, found, rates, push, single))
        return apart(relax, y, found, rates, push)

    def _streamed(self, after: tuple[Array, ...]) -> list[Array]:
        if self.cuts is None:
            found = stream(self.lattice, after, self.links)
        else:
            found = stream_cut(self.lattice, after, self.links, self.cuts.astype(after[0].dtype))
        found = dragged(self.lattice, self.boundaries, found, self.solid, self.speed)
        return opened(self.lattice, self.boundaries, found, self._push(), self.speed)

    def _rates(self) -> Rates:
        lag = 3 * self.viscosity * (self.step / self.width**2)
        lag = jnp.where(0.5 + lag > 0.5, lag, jnp.nan)  # a member or a traced value, which no check sees
        even = 1 / (0.5 + lag)
        return Rates(even, even if self.collision == "bgk" else 1 / (0.5 + self.magic / lag))

    def _push(self) -> list[Array] | None:
        """The velocity that the force adds in a step, in cells a step."""
        if self.force is None:
            return None
        return [self.force[k] * (self.step / self.speed) for k in range(self.grid.dimensions)]

    def velocity(self, y: LatticeFlow) -> Array:
        """The velocity at the centres, `(dimensions, *shape)`; 0 inside a body."""
        return self._outside(jnp.stack(self._moments(y).velocity) * self.speed)

    def _moments(self, y: LatticeFlow) -> Moments:
        return moments(self.lattice, tuple(y.populations), self._push())

    def _outside(self, field: Array) -> Array:
        return field if self.solid is None else jnp.where(self.solid, jnp.zeros_like(field), field)

    def outputs(self, t: ArrayLike, y: LatticeFlow, inputs: Inputs) -> Outputs:
        populations = tuple(y.populations)
        excess = self._outside(self._moments(y).excess)
        outputs = {"density": 1 + excess, "velocity": self.velocity(y), "pressure": excess * (self.speed**2 / 3)}
        if self.solid is not None:
            taken = load(self.lattice, populations, self._collided(populations), self.solid)
            outputs["drag"] = jnp.stack(taken) * (self.speed**2 * self.width ** (self.grid.dimensions - 1))
            outputs["lift"] = outputs["drag"][1]
        return outputs

    def invariants(self, t: ArrayLike, y: LatticeFlow) -> dict[str, Array]:
        """The mass of the box, where nothing flows in or out."""
        if any(isinstance(end, Inflow | FixedPressure) for _, _, end in walls(self.boundaries)):
            return {}
        return {"mass": self.grid.volume + jnp.sum(y.populations) * self.width**self.grid.dimensions}

    @classmethod
    def example(cls) -> "Example[LatticeBoltzmann]":
        """A cavity whose lid moves."""
        grid = Grid((10, 10), 1.0)
        lid = NoSlip(jnp.array([1.0, 0.0]))
        system = cls(grid, step=0.01, viscosity=0.05, boundaries=[NoSlip(), (NoSlip(), lid)])
        return Example(system, system.start(), np.linspace(0.0, 0.5, 6))
