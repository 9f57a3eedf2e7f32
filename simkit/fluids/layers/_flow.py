"""Incompressible flow between two plane walls, with buoyancy and rotation."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from ..._doors import check_kind
from ..._types import Inputs, Outputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Noted, Reviewed, SplitSystem, quantity
from ..grids._boundary import Boundary, Dirichlet, FreeSlip, NoSlip
from ..grids._checks import check_source, check_value
from ._fourier import series, values
from ._layer import PlaneLayer
from ._modes import Carried, Modes, Velocity, means_of
from ._profiles import Profile, along_x, flow_profile, scalar_profile
from ._review import added, check_flow, note_layer, review_layer
from ._scalar import LayerScalar, as_walls, check_scalars
from ._starts import started


class LayerState(eqx.Module):
    """The velocity in a layer, `(dimensions, *layer.shape)`, and by name the scalars, each of `layer.shape`."""

    velocity: Array = quantity(unit="length/time", doc="velocity, its last component across the layer")
    scalars: dict[str, Array] = eqx.field(default_factory=dict)


@SYSTEMS.named("plane_layer_flow")
class PlaneLayerFlow(SplitSystem, Reviewed, Noted):
    r"""Incompressible flow in a layer between two plane walls, in the approximation of Boussinesq:

    $$u_t + u \cdot \nabla u + f\, e_z \times u = -\nabla p + \nu \nabla^2 u + F + \sum_i B_i \theta_i\, e_z, \qquad
    \nabla \cdot u = 0, \qquad \theta_{i,t} + u \cdot \nabla \theta_i = \kappa_i \nabla^2 \theta_i$$

    Periodic along the walls; z is the last axis. Solvers step Stokes modes: solenoidal fields that meet the conditions at the walls
    and decay by viscosity alone, each at its own rate. So viscosity and diffusion are diagonal and do not bound the step,
    pressure drops out, and what is stepped has no divergence but for rounding.

    - `layer`: a `PlaneLayer`, points and lengths.
    - `viscosity`: $\nu$.
    - `walls`: the lower and the upper one, or one for both: `NoSlip()`, `NoSlip(velocity)` for a wall that moves along itself, or
        `FreeSlip()`, without stress.
    - `scalars`: by name, `{"temperature": LayerScalar(...)}`; none by default.
    - `coriolis`: f, twice the angular velocity about z; needs three dimensions, `(nx, 1, nz)` where nothing changes along y.
    - `force`: F, a uniform acceleration along the walls such as $-\nabla p/\rho$ of a mean pressure: a number along
        x, or a vector.
    - `bulk_velocity`: in place of `force` the mean velocity, which the pressure keeps as it is; a number along x, or a vector.
    - `source`: None, or a callable `(t, y, inputs)` that returns a state, what it adds to the time derivatives.

    The state holds `velocity` and `scalars`. Of a start, what has divergence or does not meet the walls is taken out. `outputs`
    are these fields, `kinetic_energy` and `dissipation` (means over the layer), the means over both walls of
    `wall_shear` $\nu\, \partial_z u$, of the upward flux $-\kappa\, \partial_z \theta$ of each scalar (`flux_temperature`) and of
    its Nusselt number, the flux over that of conduction between the mean values at the walls (`nusselt_temperature`).

    **Good values:** convection by the diffusion time of heat and the depth: viscosity Pr, temperature with diffusivity 1, buoyancy
    Ra Pr and walls at 1 and 0; up to Ra = 1e5 33 points across, and `ETDRK4` steps in which nothing moves
    further than half a distance between points.

    **Raises:** an `ArgumentError` for walls, scalars and numbers that do not fit together.

    **Source:** the modes: Shen (1994), SIAM J. Sci. Comput. 15:1489, doi:10.1137/0915089; Canuto et al. (2007), Spectral Methods,
    chapter 3.

    ```python
    import jax
    import simkit
    from simkit import fluids

    layer = fluids.PlaneLayer((16, 17), lengths=(2.016, 1.0))
    walls = fluids.Dirichlet(1.0), fluids.Dirichlet(0.0)
    heat = fluids.LayerScalar(1.0, buoyancy=2500.0 * 0.71, walls=walls)
    flow = fluids.PlaneLayerFlow(layer, viscosity=0.71, scalars={"temperature": heat})
    run = simkit.simulate(flow, flow.start(key=jax.random.key(0)), [0.0, 0.1], step=0.01)
    ```
    """

    State = LayerState

    layer: PlaneLayer = eqx.field(static=True)
    walls: tuple[Boundary, Boundary]
    scalars: dict[str, LayerScalar]
    source: Any
    viscosity: Scalar = quantity(unit="length2/time", support=POSITIVE, doc="kinematic viscosity")
    coriolis: Any = quantity(unit="1/time", doc="Coriolis parameter", optional=True)
    force: Any = quantity(unit="length/time2", doc="uniform acceleration along the walls", optional=True)
    bulk_velocity: Any = quantity(unit="length/time", doc="mean velocity along the walls", optional=True)

    def __init__(
        self,
        layer: PlaneLayer,
        *,
        viscosity: ArrayLike,
        walls: Any = None,
        scalars: Mapping[str, LayerScalar] | None = None,
        coriolis: ArrayLike | None = None,
        force: ArrayLike | None = None,
        bulk_velocity: ArrayLike | None = None,
        source: Any = None,
    ):
        check_kind("layer", layer, PlaneLayer, "a layer", "Write `fluids.PlaneLayer((32, 17))`.")
        check_value("viscosity", viscosity, positive=True)
        check_source(source)
        self.layer, self.viscosity, self.source = layer, viscosity, source
        self.walls = as_walls(NoSlip() if walls is None else walls, (NoSlip, FreeSlip), "`NoSlip()` or `FreeSlip()`")
        self.scalars = dict(check_scalars(scalars))
        self.coriolis, self.force, self.bulk_velocity = coriolis, force, bulk_velocity

    def __check_init__(self):
        check_flow(self)

    @property
    def fixed(self) -> tuple[bool, bool]:
        """Tell of each wall whether the fluid sticks to it."""
        return isinstance(self.walls[0], NoSlip), isinstance(self.walls[1], NoSlip)

    @property
    def transforms(self) -> Velocity:
        """The transforms of the velocity."""
        return Velocity(self.layer, self.fixed, self.bulk_velocity is not None)

    def carried(self, name: str) -> Carried:
        """The transforms of a scalar."""
        return Carried(self.layer, self.scalars[name].fixed)

    def profile(self, dtype: Any) -> Profile:
        """The velocity along the walls that meets what they and the bulk velocity prescribe."""
        return flow_profile(self.layer, self.walls, self.bulk_velocity, dtype)

    def scalar_profiles(self, dtype: Any) -> dict[str, Profile]:
        """The scalars that meet what the walls prescribe."""
        return {name: scalar_profile(self.layer, scalar.walls, dtype) for name, scalar in self.scalars.items()}

    def encode(self, y: LayerState) -> Modes:
        return self._encoded(y, y.velocity.dtype, steady=True)

    def _encoded(self, y: LayerState, dtype: Any, *, steady: bool) -> Modes:
        """The modes of a state; `steady`: without the profiles."""
        fields = jnp.concatenate([y.velocity, *(y.scalars[name][None] for name in self.scalars)])
        columns = series(self.layer, self._inside(fields))
        if steady:
            profiles = [*self.profile(dtype).values(), jnp.zeros(self.layer.shape[-1], dtype)]
            profiles += [profile.values() for profile in self.scalar_profiles(dtype).values()]
            columns = columns.at[0, 0, 0].add(-jnp.stack(profiles))
        d = self.layer.dimensions
        scalars = {name: self.carried(name).projected(columns[:, :, :, d + i]) for i, name in enumerate(self.scalars)}
        return self.transforms.projected(columns[:, :, :, :d], scalars)

    def decode(self, state: Modes) -> LayerState:
        columns, d = self._columns(state, turning=False), self.layer.dimensions
        fields = self._outside(values(self.layer, columns))
        return LayerState(fields[:d], {name: fields[d + i] for i, name in enumerate(self.scalars)})

    def _inside(self, fields: Array) -> Array:
        """Fields `(f, *shape)` in the order of the transforms, `(nx, ny, f, nz)`."""
        fields = fields if self.layer.dimensions == 3 else fields[:, :, None]
        return jnp.moveaxis(fields, 0, 2)

    def _outside(self, fields: Array) -> Array:
        """Fields in the order of users."""
        found = jnp.moveaxis(fields, 2, 0)
        return found if self.layer.dimensions == 3 else found[:, :, 0]

    def _columns(self, state: Modes, *, turning: bool) -> Array:
        """The velocity, if wanted the vorticity, and the scalars in columns, with their profiles."""
        dtype, d = state.velocity.dtype, self.layer.dimensions
        velocity, vorticity = self.transforms.columns(state)
        profile, none = self.profile(dtype), jnp.zeros(self.layer.shape[-1], dtype)
        parts, steady = [velocity], [*profile.values(), none]
        if turning:
            shear = profile.values(1)
            parts.append(vorticity)
            steady += [shear[0]] if d == 2 else [-shear[1], shear[0], none]
        for name, found in self.scalar_profiles(dtype).items():
            parts.append(self.carried(name).columns(state.scalars[name])[:, :, :, None])
            steady.append(found.values())
        return jnp.concatenate(parts, 3).at[0, 0, 0].add(jnp.stack(steady))

    def linear(self) -> Modes:
        dtype = self.viscosity.dtype
        scalars = {name: -scalar.diffusivity * self.carried(name).rates(dtype) for name, scalar in self.scalars.items()}
        return Modes(-self.viscosity * self.transforms.rates(dtype), scalars)

    def nonlinear(self, t: ArrayLike, state: Modes, inputs: Inputs) -> Modes:
        d, count = self.layer.dimensions, len(self.scalars)
        fields = values(self.layer, self._columns(state, turning=True))
        columns = series(self.layer, self._products(fields))
        scalars, profiles = {}, self.scalar_profiles(columns.dtype)
        for i, name in enumerate(self.scalars):
            carried, first = self.carried(name), d + d * i
            slope = carried.outflow(columns[:, :, :, first : first + d])
            scalars[name] = slope + carried.constant(self.scalars[name].diffusivity * profiles[name].curvature())
        assert columns.shape[3] == d + d * count
        slope = self.transforms.projected(columns[:, :, :, :d], scalars)
        pushed = self.pushed(columns.dtype)
        slope = Modes(slope.velocity.at[0, 0, : d - 1, : pushed.shape[1]].add(pushed), scalars)
        if self.source is None:
            return slope
        more = self._encoded(added(self, t, self.decode(state), inputs), columns.dtype, steady=False)
        return jax.tree.map(jnp.add, slope, more)

    def _products(self, fields: Array) -> Array:
        """The acceleration but for gradients and viscosity, and the fluxes of the scalars, `(nx, ny, products, nz)`."""
        d = self.layer.dimensions
        part = lambda i: fields[:, :, i]
        if d == 2:
            (u, w), turning, first = (part(0), part(1)), part(2), 3
            velocity, pushed = [u, w], [-w * turning, u * turning]
        else:
            (u, v, w), (x, y, z), first = (part(0), part(1), part(2)), (part(3), part(4), part(5)), 6
            z = z if self.coriolis is None else z + self.coriolis
            velocity, pushed = [u, v, w], [v * z - w * y, w * x - u * z, u * y - v * x]
        fluxes = []
        for i, scalar in enumerate(self.scalars.values()):
            theta = part(first + i)
            pushed[-1] = pushed[-1] + scalar.buoyancy * theta
            fluxes += [component * theta for component in velocity]
        return jnp.stack([*pushed, *fluxes], axis=2)

    def pushed(self, dtype: Any) -> Array:
        """The slopes of the modes of the mean flow by the force and by the viscosity of the profile."""
        push = self.viscosity * self.profile(dtype).curvature()
        if self.force is not None:
            push = push + along_x(self.force, self.layer.dimensions - 1).astype(dtype)
        return push[:, None] * jnp.asarray(means_of(self.transforms.mean, self.layer), dtype)[None]

    def start(
        self,
        velocity: ArrayLike | None = None,
        scalars: Mapping[str, ArrayLike] | None = None,
        *,
        key: PRNGKeyArray | None = None,
        noise: float = 1e-3,
    ) -> LayerState:
        r"""A start: the steady state in which fluid moves along the walls alone, with noise.

        **Arguments:**

        - `velocity`, `scalars`: fields in place of those of the steady state, which are what the walls, the force and the
            viscosity make without rotation, and conduction; of `scalars` some or all.
        - `key`: of the noise; None for none.
        - `noise`: its root mean square. That of a scalar is relative to its difference across the layer, that of the velocity to
            the difference of the velocity plus $\nu / L$.

        **Raises:** an `ArgumentError` for fields of another shape or scalars of other names.
        """
        return started(self, velocity, scalars, key, noise)

    def outputs(self, t: ArrayLike, y: LayerState, inputs: Inputs) -> Outputs:
        layer, dtype, state = self.layer, y.velocity.dtype, self.encode(y)
        d = layer.dimensions
        turning = values(layer, self._columns(state, turning=True)[:, :, :, d : d + (1 if d == 2 else 3)])
        square = jnp.sum(self._outside(turning) ** 2, axis=0)
        slopes = jnp.asarray(self.transforms.mean.values[1][:, [0, -1]] / layer.depth, dtype)
        shear = (self.transforms.mean_modes(state) @ slopes + self.profile(dtype).values(1)[:, jnp.array([0, -1])]).T
        found = {
            "velocity": y.velocity,
            **y.scalars,
            "kinetic_energy": 0.5 * layer.mean(jnp.sum(y.velocity**2, axis=0)),
            "dissipation": self.viscosity * layer.mean(square),
            "wall_shear": self.viscosity * shear,
        }
        for name, scalar in self.scalars.items():
            slope, difference = self._at_walls(name, state.scalars[name][0, 0, 0])
            found[f"flux_{name}"] = -scalar.diffusivity * slope
            # A difference of rounding, as with the same flux at both walls, has no conduction to compare with.
            none = jnp.abs(difference) <= 64 * jnp.finfo(dtype).eps * jnp.max(jnp.abs(y.scalars[name]))
            known = jnp.where(none, 1.0, difference).astype(dtype)
            found[f"nusselt_{name}"] = jnp.where(none, jnp.nan, -layer.depth * slope / known)
        return found

    def _at_walls(self, name: str, mean: Array) -> tuple[Array, Array]:
        """The mean slope of a scalar at both walls, and its mean at the lower wall less that at the upper one."""
        table, profile = self.carried(name).modes, scalar_profile(self.layer, self.scalars[name].walls, mean.dtype)
        ends = jnp.asarray(table.values[:, :, [0, -1]], mean.dtype)
        value = mean @ ends[0] + profile.values()[jnp.array([0, -1])]
        slope = mean @ ends[1] / self.layer.depth + profile.values(1)[jnp.array([0, -1])]
        return slope, value[0] - value[1]

    def review(self, y0: LayerState, step: float | None, solver: object) -> None:
        review_layer(self, y0, step, solver)

    def note(self, t: ArrayLike, y: LayerState) -> str:
        return note_layer(self, t, y)

    @classmethod
    def example(cls) -> "Example[PlaneLayerFlow]":
        """Convection that sets in."""
        layer = PlaneLayer((8, 9), (2.0, 1.0))
        heat = LayerScalar(1.0, buoyancy=2000.0, walls=(Dirichlet(jnp.asarray(1.0)), Dirichlet()))
        system = cls(layer, viscosity=1.0, walls=(NoSlip(), FreeSlip()), scalars={"temperature": heat}, force=10.0)
        return Example(system, system.start(key=jax.random.key(0), noise=0.1), jnp.linspace(0.0, 0.1, 3))
