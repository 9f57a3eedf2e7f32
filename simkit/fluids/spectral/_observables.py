"""Observables of flows and other periodic fields."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._errors import ArgumentError, check_known
from ..._types import Inputs, State
from ...core import System, Trajectory, as_float_array, at_time, named_leaves
from ..grids._compiled import compiled
from ..grids._grid import Grid
from ._flow2d import SpectralFlow2D
from ._flow3d import SpectralFlow3D
from ._initial import curl
from ._sampling import probe
from ._waves import Waves


@compiled
def energy_spectrum(grid: Grid, field: ArrayLike) -> tuple[Float[Array, " shells"], Float[Array, " shells"]]:
    r"""The spectrum of the energy $\tfrac12 \langle |u|^2 \rangle$ of a periodic field over shells of wavenumbers.

    **Arguments:**

    - `grid`: with equal cells.
    - `field`: a scalar, `grid.shape`, or components in front, such as a velocity `(dimensions, *grid.shape)`, which are
    added up.

    **Returns:** the wavenumbers of the shells, $0, \Delta, 2\Delta, \dots$ with $\Delta = 2\pi$ by the longest edge, and
    the energy in each: that of the
    waves with $|k|$ within half a $\Delta$ of it. Together they are the energy of the field.
    """
    field, waves = as_float_array(field), Waves(grid, 1)
    modes = waves.modes(field)
    components = tuple(range(field.ndim - grid.dimensions))
    energy = 0.5 * waves.weights(field.dtype) * jnp.sum(modes.real**2 + modes.imag**2, axis=components)
    unit = 2 * np.pi / max(grid.lengths)
    k = [2 * np.pi / length * waves.indices(axis) for axis, length in enumerate(grid.lengths)]
    size = np.sqrt(sum(x**2 for x in np.meshgrid(*k, indexing="ij")))
    shell = np.rint(size / unit).astype(int)
    found = jnp.zeros(int(shell.max()) + 1, field.dtype).at[shell.reshape(-1)].add(energy.reshape(-1))
    return jnp.asarray(unit * np.arange(found.size), field.dtype), found


@compiled
def divergence(grid: Grid, velocity: ArrayLike) -> Float[Array, "..."]:
    """The divergence of a velocity `(dimensions, *grid.shape)` on a periodic grid."""
    grid.check_field(velocity, "velocity", (grid.dimensions,))
    waves = Waves(grid, 1)
    modes = waves.modes(as_float_array(velocity))
    total = waves.derivative(modes[0], 0)
    for axis in range(1, grid.dimensions):
        total = total + waves.derivative(modes[axis], axis)
    return waves.field(total)


@compiled
def energy_budget(
    system: SpectralFlow2D | SpectralFlow3D, y: State, t: ArrayLike = 0.0, inputs: Inputs = None
) -> dict[str, Array]:
    r"""Return the sources and sinks of the kinetic energy $\tfrac12 \langle |u|^2 \rangle$ of a `SpectralFlow2D` or
    `SpectralFlow3D`.

    **Returns:** `energy`; `injection` by the force, $\langle u \cdot f \rangle$; `viscous`, $\nu \langle |\omega|^2
    \rangle$, `drag` and
    `hyperviscous` losses, all positive; and `change`, the time derivative of the energy, of the flow as it is stepped.
    Without a
    source `change` is the injection less the losses: transport and pressure keep the energy.
    """
    waves = system.waves
    modes = system.encode(y)
    velocity = system.velocity_modes(modes)
    inner = lambda a, b: jnp.sum(waves.inner(a, b))
    square = waves.square(modes.real.dtype)
    power = jnp.sum(velocity.real**2 + velocity.imag**2, axis=0) * waves.weights(square.dtype)
    slope = system.vector_field(jnp.asarray(t), modes, at_time(inputs, t))
    force = None if system.force is None else system.force.modes(t, waves, at_time(inputs, t), modes.real.dtype)
    return {
        "energy": 0.5 * jnp.sum(power),
        "change": inner(velocity, system.velocity_modes(slope)),
        "injection": jnp.zeros_like(system.viscosity) if force is None else inner(velocity, force),
        "viscous": system.viscosity * jnp.sum(square * power),
        "drag": system.drag * jnp.sum(power),
        "hyperviscous": system.hyperviscosity * jnp.sum(square**system.hyper_order * power),
    }


@compiled
def dissipation(grid: Grid, velocity: ArrayLike, viscosity: ArrayLike) -> Float[Array, ""]:
    r"""The rate $\nu \langle |\nabla u|^2 \rangle$ at which viscosity takes energy from a periodic velocity; for one
    without divergence also
    $\nu \langle |\omega|^2 \rangle$."""
    waves = Waves(grid, 1)
    modes = waves.modes(as_float_array(velocity))
    turning = curl(waves, modes)
    stretched = waves.derivative(modes[0], 0)
    for axis in range(1, grid.dimensions):
        stretched = stretched + waves.derivative(modes[axis], axis)
    return as_float_array(viscosity) * (jnp.sum(waves.inner(turning, turning)) + waves.inner(stretched, stretched))


@dataclasses.dataclass(frozen=True)
class Probes:
    """Values of a field at points, over a trajectory: an observable for a `Problem`, such as sensors in a flow.

    **Arguments:**

    - `points`: `(points, dimensions)`, anywhere.
    - `name`: of the field: a component of the state ("vorticity", "flow.vorticity"), or "velocity" of a flow.

    Called with a system and a trajectory it gives `(times, points)`, of a vector `(times, components, points)`.

    ```python
    import jax
    from simkit import fluids, simulate

    grid = fluids.Grid((16, 16))
    y0 = fluids.SpectralFlow2D.State(fluids.vorticity(grid, fluids.taylor_green(grid)))
    system = fluids.SpectralFlow2D(grid, viscosity=0.1)
    run = simulate(system, y0, [0.0, 1.0], step=0.1)
    assert fluids.Probes([[0.3, 0.4], [2.0, 1.0]], "velocity")(system, run).shape == (2, 2, 2)
    ```
    """

    points: Any
    name: str

    def __post_init__(self) -> None:
        points = np.asarray(self.points, float)
        if points.ndim != 2:
            raise ArgumentError(
                f"Argument `points` must have the shape (points, dimensions), but it has {points.shape}."
            )
        object.__setattr__(self, "points", tuple(map(tuple, points.tolist())))  # hashable, as problems want

    def __call__(self, system: System, trajectory: Trajectory) -> Array:
        grid = getattr(system, "grid", None)
        if not isinstance(grid, Grid):
            raise ArgumentError(f"Probes need a system on a grid, but {type(system).__name__} has none.")

        points = np.array(self.points)

        def at(y: State) -> Array:
            if self.name == "velocity" and hasattr(system, "velocity_modes"):
                return probe(grid, system.velocity(y), points)  # pyright: ignore[reportAttributeAccessIssue]
            leaves = named_leaves(y)
            check_known(self.name, leaves, "field of the state")
            return probe(grid, leaves[self.name], points)

        return jax.vmap(at)(trajectory.ys)
