"""Compressible flow of an ideal gas: Euler's and Navier and Stokes' equations by finite volumes."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs, Outputs
from ...core import (
    POSITIVE,
    SYSTEMS,
    Example,
    Explained,
    Input,
    Reviewed,
    Support,
    TransportSystem,
    check_numbers,
    quantity,
    tracing,
)
from ..grids._apart import apart
from ..grids._at_time import with_boundaries_at
from ..grids._boundary import Boundaries, Boundary, NoSlip, Periodic, Piecewise, as_boundaries, conditions_of
from ..grids._checks import check_lowest, check_shapes, check_vector, lowest
from ..grids._ghost import along_end, cells, chosen, padded
from ..grids._grid import Grid
from ..grids._parts import laid_out, on_its_parts, shardings_of
from ..grids._reconstruction import RECONSTRUCTIONS, WENO5Z, Reconstruction, named
from ..grids._values import inputs_of_values
from ._characteristic import TRANSVERSE, VARIABLES, flux_through
from ._gas import (
    ConservedGas,
    Gas,
    Rows,
    along,
    at_faces,
    back,
    conserved_of,
    gas_of,
    positive,
    rows_of,
    to_conserved,
    to_primitive,
)
from ._hydrostatic import balanced, continued, lightened
from ._means import REACH, at_centres, source_means
from ._open import Open, Stream
from ._riemann import RIEMANN_SOLVERS, RiemannSolver, hllc
from ._viscous import AROUND, SECOND, STIFFNESS, Fluid, mean_viscous_flux, viscous_flux


@SYSTEMS.named("compressible_flow")
class CompressibleFlow(TransportSystem, Reviewed, Explained):
    r"""Compressible flow of an ideal gas in one, two or three dimensions.

    $$\partial_t \begin{pmatrix}\rho\\ \rho u\\ E\end{pmatrix} + \nabla\cdot
    \begin{pmatrix}\rho u\\ \rho u u + p - \tau\\ (E + p) u - \tau u + q\end{pmatrix} =
    \begin{pmatrix}0\\ \rho g\\ \rho g\cdot u\end{pmatrix}, \qquad E = \frac{p}{\gamma - 1} + \frac{\rho |u|^2}{2}$$

    with $\tau = \mu (\nabla u + \nabla u^T - \tfrac{2}{3} \nabla\cdot u)$ and
    $q = -\frac{\gamma}{\gamma - 1} \frac{\mu}{\mathrm{Pr}} \nabla (p / \rho)$. Without viscosity these are Euler's equations.

    Finite volumes: density, velocity and pressure are reconstructed on both sides of each face, one Riemann problem a face gives
    the flux. A cell whose reconstructed states, or what they leave of its mean, had no positive density and pressure takes its
    mean at all faces (after Zhang and Shu 2010, J. Comput. Phys. 229:8918), so that densities and pressures stay positive at
    small Courant numbers; at others the step is made again, shorter.

    With a `gravity` the pressure is reconstructed as what departs from hydrostatic balance around a cell (Käppeli and Mishra
    2016, Astron. Astrophys. 587:A94): a gas as `at_rest` makes it stays so to rounding, between walls and open ends, with the
    fluxes "hllc" and "roe".

    The state holds density, velocity and pressure; solvers step mass, momentum and energy. Any consistent units.

    - `grid`: cells of one width along each axis.
    - `gamma`: ratio of the specific heats, above 1; 1.4 for air.
    - `viscosity`: $\mu$, dynamic; `prandtl`: Pr, 0.72 for air.
    - `gravity`: g, shape (dimensions,), or one number for all; None: no gravity.
    - `boundaries`: as `as_boundaries` takes them, of `Periodic`, `FreeSlip` (a reflecting wall), `NoSlip`, `Open` (what
        arrives leaves), `Stream` (a given state outside) and `Piecewise`. What they give may change along the end and with time.
    - `reconstruction`: "weno5z", "muscl" or "first_order"; `riemann`: "hllc", "roe" or "rusanov".
    - `variables`: what is reconstructed. "primitive": density, velocity and pressure, each for itself; of order 2 where waves
        are not small, since means of products are no products of means. "characteristic": the waves of the equations at each
        face, without rings behind slow shocks; means become values at the middles of faces and back, so that with "weno5z"
        smooth flows are of order 5 in any number of dimensions, with viscosity and sources, which are of order 6 within the
        grid and at reflecting walls. It takes some four times as long, and no gravity.
    - `source`: None, or a callable `(t, x, gas) -> CompressibleFlow.Conserved`, what is added to each conserved density
        in a unit of time; `x` is the tuple of the grid's coordinates. With characteristic variables the gas is that at the centres
        of cells, of which means are made. A network makes it a learned closure.

    Good Courant numbers are 0.3 to 0.5 with shocks, 0.9 for smooth flow.
    """

    State = Gas
    Conserved = ConservedGas

    grid: Grid = eqx.field(static=True)
    viscous: bool = eqx.field(static=True)
    heavy: bool = eqx.field(static=True)
    reconstruction: Reconstruction = eqx.field(static=True)
    riemann: RiemannSolver = eqx.field(static=True)
    variables: str = eqx.field(static=True)
    boundaries: Boundaries
    source: Any
    gamma: Any = quantity(support=Support(1.0), doc="ratio of specific heats")
    viscosity: Any = quantity(support=POSITIVE, doc="dynamic viscosity")
    prandtl: Any = quantity(support=POSITIVE, doc="Prandtl number")
    gravity: Any = quantity(doc="acceleration")

    def __init__(
        self,
        grid: Grid,
        *,
        gamma: ArrayLike = 1.4,
        viscosity: ArrayLike | None = None,
        prandtl: ArrayLike = 0.72,
        gravity: ArrayLike | Sequence[float] | None = None,
        boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
        reconstruction: str | Reconstruction = WENO5Z(),
        riemann: str | RiemannSolver = hllc,
        variables: str = "primitive",
        source: Callable[..., ConservedGas] | None = None,
    ):
        grid.check_uniform("compressible flow")
        self.grid = grid
        self.gamma, self.prandtl = gamma, prandtl
        self.heavy = gravity is not None
        check_vector(0.0 if gravity is None else gravity, grid.dimensions, "gravity", number=True)
        self.gravity = 0.0 if gravity is None else gravity
        self.viscous = viscosity is not None
        self.viscosity = 0.0 if viscosity is None else viscosity
        self.boundaries = as_boundaries(grid, boundaries, kind="gas")
        self.reconstruction = named(reconstruction, RECONSTRUCTIONS, "reconstruction")
        self.riemann = named(riemann, RIEMANN_SOLVERS, "riemann")
        self.variables = named(variables, VARIABLES, "variables")
        self.source = source
        if self.variables == "characteristic":
            _check_characteristic(
                grid, self.heavy, AROUND if self.viscous and self.fine else TRANSVERSE + (source is not None)
            )

    def vector_field(self, t: ArrayLike, y: ConservedGas, inputs: Inputs) -> ConservedGas:
        now = with_boundaries_at(self, t, inputs, y.density.dtype)
        slope = on_its_parts(now, CompressibleFlow._slope, y)
        if self.source is None:
            return slope
        return jax.tree.map(jnp.add, slope, self._mean_source(t, to_primitive(rows_of(y), self.gamma)))

    @property
    def fine(self) -> bool:
        """Tell whether viscosity and sources are those of values at centres, and not of means."""
        return self.variables == "characteristic" and self.reconstruction.order > 2

    def _slope(self, y: ConservedGas) -> ConservedGas:
        rows = to_primitive(rows_of(y), self.gamma)
        rows = lax.optimization_barrier(rows)
        total = [jnp.zeros_like(y.density)] * len(rows)
        fields, smooth = self._fields(rows) if self.viscous else (None, None)
        for axis in range(self.grid.dimensions):
            flux = (
                self._characteristic_flux(rows, axis) if self.variables == "characteristic" else self._flux(rows, axis)
            )
            if fields is not None:
                flux = [a - b for a, b in zip(flux, self._viscous_flux(fields, smooth, axis), strict=True)]
                flux = lax.optimization_barrier(flux)
            total = [a - b for a, b in zip(total, self._outflow(flux, axis), strict=True)]
        total = [a + b for a, b in zip(total, self._gravity(rows), strict=True)]
        return conserved_of(total)

    def _outflow(self, flux: Rows, axis: int) -> Rows:
        """Return the outflow of each cell through its two faces across an axis, for each volume."""
        n, scale = self.grid.shape[axis], 1 / self.grid.spacing(axis)
        return [(cells(f, axis, 1, n + 1) - cells(f, axis, 0, n)) * scale for f in flux]

    def _characteristic_flux(self, rows: Rows, axis: int) -> Rows:
        """The flux through the faces across an axis by characteristic variables."""
        pad = lambda rows, other, ghosts: padded(rows, other, ghosts, self.boundaries[other], self._beyond(other))
        return flux_through(rows, axis, pad, self.reconstruction, self.riemann, self.gamma)

    def _flux(self, rows: Rows, axis: int) -> Rows:
        """The flux through the faces across an axis by density, velocity and pressure."""
        ends, recon = self.boundaries[axis], self.reconstruction
        n, reach = self.grid.shape[axis], recon.ghosts + 1
        if self.heavy:
            weight = rows[0] * (_components(self.gravity, self.grid.dimensions)[axis] * self.grid.spacing(axis))
            wide = padded([*rows, weight], axis, reach, ends, self._beyond_heavy(axis))
        else:
            wide = padded(rows, axis, reach, ends, self._beyond(axis))
        mean = [cells(x, axis, recon.ghosts, recon.ghosts + n + 2) for x in wide[: len(rows)]]

        def edges(wide: Rows) -> tuple[Rows, Rows]:
            stencils = [[cells(x, axis, i, i + n + 2) for i in range(2 * recon.ghosts + 1)] for x in wide]
            *gas, last = stencils
            if self.heavy:
                gas[-1] = lightened(gas[-1], last)
                found = [recon.edges(*stencil) for stencil in gas]
                half = 0.5 * last[recon.ghosts]
                found[-1] = found[-1][0] - half, found[-1][1] + half
            else:
                found = [recon.edges(*stencil) for stencil in stencils]
            return [e[0] for e in found], [e[1] for e in found]

        def through(good: Array, mean: Rows, lower: Rows, upper: Rows) -> Rows:
            """The flux between states of which those that are not good give way to the mean."""
            left, right = at_faces(good, mean, lower, upper, axis)
            return back(self.riemann(along(left, axis), along(right, axis), self.gamma), axis)

        lower, upper = apart(edges, wide)
        good = apart(lambda mean, lower, upper: positive(mean, lower, upper, self.gamma), mean, lower, upper)
        return apart(lambda mean, *sides: through(good, mean, *sides), mean, lower, upper)

    def _fields(self, rows: Rows) -> tuple[Rows, Array | None]:
        """Velocities and p / rho for the viscous flux, with ghost cells, and how smooth the gas is, of order 6."""
        wide = rows
        for axis in range(self.grid.dimensions):
            ghosts = AROUND if self.fine else 1
            wide = padded(wide, axis, ghosts, self.boundaries[axis], self._beyond(axis, sticking=True))
        fields = lambda rows: [*rows[1:-1], rows[-1] / rows[0]]
        if not self.fine:
            return fields(wide), None

        def centres(wide: Rows) -> tuple[Rows, Array]:
            found, smooth = at_centres(wide, self.gamma)
            return fields(found), smooth

        return apart(centres, wide)

    def _viscous_flux(self, fields: Rows, smooth: Array | None, axis: int) -> Rows:
        """Stress and heat through the faces across an axis."""
        conduction = self.viscosity * self.gamma / ((self.gamma - 1) * self.prandtl)
        fluid = Fluid(self.viscosity, conduction, [self.grid.spacing(i) for i in range(self.grid.dimensions)])
        if smooth is None:
            return viscous_flux(fields, axis, fluid, SECOND)
        return mean_viscous_flux(fields, smooth, axis, fluid)

    def _mean_source(self, t: ArrayLike, rows: Rows) -> ConservedGas:
        """Means of the source over cells, from its values at their centres."""
        source, d = self.source, self.grid.dimensions
        x = tuple(jnp.asarray(c, rows[0].dtype) for c in self.grid.mesh())
        if not self.fine:
            return source(t, x, gas_of(rows))
        for axis in range(d):
            rows = padded(rows, axis, REACH, self.boundaries[axis], self._beyond(axis))
        centres, smooth = at_centres(rows, self.gamma)
        found = source(t, x, gas_of(centres))
        periodic = [isinstance(ends[0], Periodic) for ends in self.boundaries]
        return jax.tree.map(lambda values: source_means(values, smooth, periodic), found)

    def _beyond(self, axis: int, sticking: bool = False) -> Callable[[Rows, Boundary, int], Rows]:
        """Ghost cells of density, velocities and pressure at an end of an axis."""

        def ghosts(rows: Rows, boundary: Boundary, side: int) -> Rows:
            density, *velocity, pressure = rows
            if isinstance(boundary, Piecewise):
                return chosen(self.boundaries, boundary, axis, ghosts, rows, side)
            if isinstance(boundary, Stream):
                given = [boundary.density, *_components(boundary.velocity, len(velocity)), boundary.pressure]
                return [along_end(self.boundaries, x, axis, like) for x, like in zip(given, rows, strict=True)]
            if isinstance(boundary, Open):
                last = 0 if side else rows[0].shape[axis] - 1
                nearest = [cells(x, axis, last, last + 1) for x in rows]
                return [jnp.broadcast_to(x, like.shape) for x, like in zip(nearest, rows, strict=True)]
            velocity[axis] = -velocity[axis]
            if sticking and isinstance(boundary, NoSlip):
                wall = [
                    along_end(self.boundaries, w, axis, u)
                    for w, u in zip(_components(boundary.velocity, len(velocity)), velocity, strict=True)
                ]
                velocity = [u if i == axis else 2 * w - u for i, (u, w) in enumerate(zip(velocity, wall, strict=True))]
            return [density, *velocity, pressure]

        return ghosts

    def _beyond_heavy(self, axis: int) -> Callable[[Rows, Boundary, int], Rows]:
        """The same with the weight of cells behind the pressure: beyond a wall it points the other way."""
        beyond = self._beyond(axis)
        pull = _components(self.gravity, self.grid.dimensions)[axis] * self.grid.spacing(axis)

        def ghosts(rows: Rows, boundary: Boundary, side: int) -> Rows:
            if isinstance(boundary, Piecewise):
                return chosen(self.boundaries, boundary, axis, ghosts, rows, side)
            *gas, weight = rows
            gas = beyond(gas, boundary, side)
            if isinstance(boundary, Open):
                gas, weight = continued(gas, gas[0] * pull, axis, side)
                return [*gas, weight]
            return [*gas, gas[0] * pull if isinstance(boundary, Stream) else -weight]

        return ghosts

    def at_rest(self, temperature: ArrayLike, pressure: ArrayLike = 1.0) -> Gas:
        """A gas in the hydrostatic balance that the scheme keeps, p[i+1] - p[i] = g dx (rho[i] + rho[i+1]) / 2.

        - `temperature`: p / rho, a number, or as many as the grid has cells where it varies along gravity, such as `(1, n)`.
        - `pressure`: of the first cell along all axes.

        Raises `ArgumentError` where a cell is as heavy as twice the pressure in it: no such column exists.

        ```python
        import jax.numpy as jnp
        from simkit import fluids
        column = fluids.CompressibleFlow(fluids.Grid(50, 1.0), gravity=-1.0, boundaries=fluids.FreeSlip())
        air = column.at_rest(temperature=0.5)
        assert float(jnp.abs(air.pressure[0] / air.pressure[-1] - jnp.exp(0.98 / 0.5))) < 1e-2
        ```
        """
        dtype = self.gravity.dtype
        warm = jnp.broadcast_to(jnp.asarray(temperature, dtype), self.grid.shape)
        gravity = _components(self.gravity, self.grid.dimensions)
        pull = [g * self.grid.spacing(axis) for axis, g in enumerate(gravity)]
        if not tracing((warm, pull)) and max(float(jnp.max(jnp.abs(g) / warm)) for g in pull) >= 2:
            raise ArgumentError(
                "Argument `temperature` must exceed half of gravity times the width of a cell everywhere, or no column is in "
                "balance; take more cells."
            )
        found = balanced(warm, pull, pressure)
        return Gas(found / warm, jnp.zeros((self.grid.dimensions, *self.grid.shape), dtype), found)

    def _gravity(self, rows: Rows) -> list[Any]:
        density, *velocity, _ = rows
        g = _components(self.gravity, len(velocity))
        force = [density * a for a in g]
        work = [f * u for f, u in zip(force, velocity, strict=True)]
        return [jnp.zeros_like(density), *force, sum(work[1:], work[0])]

    def longest_step(self, t: ArrayLike, state: ConservedGas, inputs: Inputs) -> Array:
        density, *velocity, pressure = to_primitive(rows_of(state), self.gamma)
        sound = jnp.sqrt(self.gamma * pressure / density)
        rate = sum((jnp.abs(u) + sound) / self.grid.spacing(i) for i, u in enumerate(velocity))
        if self.viscous:
            diffusivity = self.viscosity * jnp.maximum(4 / 3, self.gamma / self.prandtl) / density
            stiffness = STIFFNESS if self.fine else 1.0
            rate = rate + 2 * stiffness * diffusivity * sum(self.grid.spacing(i) ** -2 for i in range(len(velocity)))
        return 1 / jnp.max(rate)

    def outputs(self, t: ArrayLike, y: Gas, inputs: Inputs) -> Outputs:
        sound = jnp.sqrt(self.gamma * y.pressure / y.density)
        speed = jnp.sqrt(jnp.sum(y.velocity**2, axis=0))
        return {
            "density": y.density,
            "velocity": y.velocity,
            "pressure": y.pressure,
            "mach": speed / sound,
            **self._totals(y),
        }

    def invariants(self, t: ArrayLike, y: Gas) -> dict[str, Array]:
        """Mass in a periodic box or between walls; what a source adds is not known."""
        ends = conditions_of(self.boundaries)
        if self.source is not None or any(isinstance(end, Open | Stream) for end in ends):
            return {}
        return {"mass": self._totals(y)["mass"]}

    def reads(self) -> dict[str, Input]:
        return inputs_of_values(conditions_of(self.boundaries))

    def review(self, y0: Gas, step: float | None, solver: object) -> None:
        check_numbers(self)
        check_shapes(self, y0, {"density": (), "velocity": (self.grid.dimensions,), "pressure": ()})
        check_lowest(self, y0, ("density", "pressure"))

    def explain(self, t: ArrayLike, y: Gas) -> str:
        return lowest(self.grid, t, {"density": y.density, "pressure": y.pressure})

    def _totals(self, y: Gas) -> dict[str, Array]:
        cell = float(np.prod([self.grid.spacing(i) for i in range(self.grid.dimensions)]))
        density, *momentum, energy = to_conserved(rows_of(y), self.gamma)
        return {
            "mass": jnp.sum(density) * cell,
            "momentum": jnp.stack([jnp.sum(m) for m in momentum]) * cell,
            "energy": jnp.sum(energy) * cell,
        }

    def encode(self, y: Gas) -> ConservedGas:
        return laid_out(self.grid, conserved_of(to_conserved(rows_of(y), self.gamma)))

    def decode(self, state: ConservedGas) -> Gas:
        return gas_of(to_primitive(rows_of(state), self.gamma))

    def shardings(self, state: ConservedGas) -> Any:
        return shardings_of(self.grid, state)

    @classmethod
    def example(cls) -> "Example[CompressibleFlow]":
        """Sod's shock tube (1978), J. Comput. Phys. 27:1."""
        grid = Grid(128, 1.0)
        left = jnp.asarray(grid.centres(0)) < 0.5
        gas = Gas(jnp.where(left, 1.0, 0.125), jnp.zeros((1, 128)), jnp.where(left, 1.0, 0.1))
        return Example(cls(grid, boundaries=Open()), gas, jnp.linspace(0.0, 0.2, 11))


def _components(value: ArrayLike, dimensions: int) -> list[Any]:
    """The components of a vector given as one number for all or one each."""
    value = jnp.asarray(value)
    return [value] * dimensions if value.ndim == 0 else [value[i] for i in range(dimensions)]


def _check_characteristic(grid: Grid, heavy: bool, least: int) -> None:
    if heavy:
        raise ArgumentError(
            'Argument `variables` must be "primitive" with gravity, whose balance is that of pressures, but it is '
            '"characteristic".'
        )
    if (grid.dimensions > 1 or least > TRANSVERSE) and min(grid.shape) < least:
        raise ArgumentError(
            f'Argument `grid` must have {least} cells or more along each axis with variables="characteristic"'
            f"{', viscosity or a source' if least > TRANSVERSE else ''}, but has {grid.shape}."
        )
