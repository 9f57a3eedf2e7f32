"""Incompressible flow by finite volumes on a staggered grid, with walls, inflow, outflow and obstacles."""

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._errors import ArgumentError, SimulationError
from ..._types import Inputs, Outputs
from ...core import (
    POSITIVE,
    SYSTEMS,
    Example,
    Explained,
    Input,
    Noted,
    Reviewed,
    StiffTransportSystem,
    as_float_array,
    check_numbers,
    quantity,
    tracing,
)
from ..grids._at_time import rates_at, with_boundaries_at
from ..grids._boundary import Boundaries, Boundary, NoSlip, Piecewise, as_boundaries, conditions_of
from ..grids._grid import Grid
from ..grids._parts import laid_out, on_its_parts, shardings_of
from ..grids._values import inputs_of_values
from ..spectral._force import InputForce
from ._around import admitted, around, medium_of, moved, near, outputs_of_bodies, rate_of_bodies, through
from ._bodies import (
    as_obstacles,
    bodies_at_start,
    check_bodies,
    check_places,
    check_states,
    packed,
    states_of,
)
from ._closure import DynamicSmagorinsky, check_closure, constant, turbulent_viscosity
from ._contact import Contact
from ._cut import Cut
from ._diffusion import smoothed
from ._ends import balanced, given_ends, slopes_at_ends
from ._force_review import check_flux, check_parts, check_pushes, note_staggered, review_staggered
from ._free_body import BodyState
from ._input_force import forces_on, inputs_of_force
from ._loads import force_on
from ._momentum import advection, diffusion, scalar_slope, surrounded
from ._obstacle import Obstacle, any_moves, bodies_of
from ._projection import Medium, pressure_outside, project, unconverged
from ._scalars import FlowScalar, as_scalars, check_reaction, check_start, check_state, slopes, uniform
from ._staggered import Components, Staggered, check_alike, ends_of, open_ends_of
from ._state import StaggeredFlow, started
from ._wall_law import check_smooth_walls, check_wall_models, has_wall_models, held_by_walls, mean_wall_stress

LONGER = 100
"""Largest implicit step, in explicit limits of diffusion."""


@SYSTEMS.named("incompressible_flow")
class IncompressibleFlow(StiffTransportSystem, Reviewed, Noted, Explained):
    r"""Incompressible flow in two or three dimensions.

    $$\partial_t u + \nabla\cdot(u u) = -\nabla p + \nu \nabla^2 u + f + b\,\theta, \qquad \nabla\cdot u = 0, \qquad
    \partial_t \theta + \nabla\cdot(u \theta) = \kappa \nabla^2 \theta$$

    Finite volumes of order 2 on a staggered grid. With central fluxes the discrete equations conserve kinetic energy to rounding
    where there is neither viscosity nor force (Harlow and Welch 1965; on stretched grids Verstappen and Veldman 2003,
    J. Comput. Phys. 187:343). The pressure is found by fast transforms at every stage, so that the divergence stays at rounding.

    The state is a `StaggeredFlow`, which `start` makes. What of an initial velocity has a divergence, or does not fit the
    boundaries, is taken away.

    - `grid`; `viscosity`: $\nu$, kinematic.
    - `boundaries`: of `Periodic`, `NoSlip` (also moving), `WallModel`, `FreeSlip`, `Inflow`, `Outflow`, `FixedPressure` (through
        which fluid comes and goes) and `Piecewise`. What they give may change along the end and with time.
    - `force`: f, shape (dimensions,), a callable `(t, x) -> components` of the coordinates of each component's faces, or
        `InputForce()`: what the input `force` gives at the centres, or as a tuple of components at their faces.
    - `flux`: "central" (conserves energy), "central4" (what is carried is interpolated to order 4, on equal cells: vortices
        in a mean flow have a quarter of the error, energy is conserved up to it) or "upwind" (order 2 with van Albada's limiter,
        for what the grid does not resolve).
    - `obstacle`: an `Obstacle`, or None; `obstacles`: in its place any number by name, `{"left": Obstacle(...)}`, each at rest,
        moved or free. `contact`: a `Contact`, which holds free ones off others and off walls; None without.
    - `diffusivity`: $\kappa$ of the scalar; None where there is none. `scalar_boundaries`: of `Periodic`, `Dirichlet`, `Neumann`.
    - `buoyancy`: b, shape (dimensions,).
    - `scalars`: in place of the one scalar of `diffusivity`, any number by name, `{"salt": FlowScalar(...)}`, with a `reaction`:
        None or a callable `(t, x, scalars) -> rates`, by name, of the coordinates of the centres.
    - `smagorinsky`: the constant of Smagorinsky's closure, 0.1 to 0.2, or a `DynamicSmagorinsky`; None without.
    - `source`: None or a callable `(t, velocity) -> components`, a learned closure, added to the slope of the velocity.
    - `diffusion`: "explicit", or "implicit", whose steps may be a hundred times as long as cells allow that are narrow for the
        viscosity; a Smagorinsky closure stays explicit.
    - `tolerance`, `iterations`: of the pressure where there is an obstacle.

    Good Courant numbers are 0.5 to 1; central fluxes want cells smaller than some $2 \nu / |u|$ at boundary layers.
    """

    State = StaggeredFlow

    grid: Grid = eqx.field(static=True)
    flux: str = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    stiff: bool = eqx.field(static=True)
    boundaries: Boundaries
    scalar_boundaries: Any
    scalars: dict[str, FlowScalar]
    reaction: Any
    force: Any
    source: Any
    obstacle: Obstacle | None
    obstacles: dict[str, Obstacle]
    contact: Contact | None
    closure: DynamicSmagorinsky | None
    viscosity: Any = quantity(support=POSITIVE, doc="kinematic viscosity")
    diffusivity: Any = quantity(support=POSITIVE, doc="diffusivity of the scalar", optional=True)
    buoyancy: Any = quantity(doc="acceleration for each unit of the scalar", optional=True)
    smagorinsky: Any = quantity(support=POSITIVE, doc="Smagorinsky's constant", optional=True)

    def __init__(
        self,
        grid: Grid,
        *,
        viscosity: ArrayLike = 0.0,
        boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
        force: ArrayLike | Sequence[float] | Callable[..., Sequence[ArrayLike]] | InputForce | None = None,
        flux: str = "central",
        diffusion: str = "explicit",
        obstacle: Obstacle | None = None,
        diffusivity: ArrayLike | None = None,
        scalar_boundaries: Boundary | Sequence[Boundary | Sequence[Boundary]] | None = None,
        buoyancy: ArrayLike | Sequence[float] | None = None,
        smagorinsky: ArrayLike | DynamicSmagorinsky | None = None,
        scalars: Mapping[str, FlowScalar] | None = None,
        reaction: Callable[..., Mapping[str, Array]] | None = None,
        source: Callable[..., Sequence[Array]] | None = None,
        obstacles: Mapping[str, Obstacle] | None = None,
        contact: Contact | None = None,
        tolerance: float = 1e-8,
        iterations: int = 100,
    ):
        grid.check_dimensions((2, 3), "incompressible flow")
        check_flux(grid, flux)
        if diffusion not in ("explicit", "implicit"):
            raise ArgumentError(f'Argument `diffusion` must be "explicit" or "implicit", but it is {diffusion!r}.')
        if diffusion == "implicit" and grid.devices:
            raise ArgumentError('Argument `diffusion` must be "explicit" on a grid over several devices.')
        self.stiff = diffusion == "implicit"
        if buoyancy is not None and diffusivity is None:
            raise ArgumentError(
                "Argument `diffusivity` must be given with `buoyancy`: there is no scalar without it, and a FlowScalar has its own."
            )
        self.grid, self.flux, self.tolerance, self.iterations = grid, flux, tolerance, iterations
        self.boundaries = as_boundaries(grid, boundaries)
        check_parts(grid, ends_of(self.boundaries))
        self.scalar_boundaries = None
        if diffusivity is not None:
            if scalars is not None:
                raise ArgumentError(
                    "Argument `scalars` must hold all scalars, but `diffusivity` is given. Leave it out."
                )
            self.scalar_boundaries = as_boundaries(grid, scalar_boundaries, kind="scalar")
            check_alike(self.boundaries, self.scalar_boundaries)
        self.scalars, self.reaction = as_scalars(grid, self.boundaries, scalars), check_reaction(reaction, scalars)
        if self.stiff and any(isinstance(end, Piecewise) for pair in self._pairs() for end in pair):
            raise ArgumentError(
                'Argument `diffusion` must be "explicit" where an end is Piecewise, whose conditions no transform has, but it is '
                '"implicit". Leave it out, or give both parts of the end the same condition, such as `Dirichlet` with a profile.'
            )
        own = callable(force) or force is None or isinstance(force, InputForce)
        self.force = force if own else as_float_array(force)
        check_pushes(grid, self.force, buoyancy)
        self.obstacles = as_obstacles(grid, self.boundaries, obstacle, obstacles, self.scalars)
        self.obstacle, self.contact = obstacle, contact
        check_bodies(self)
        if self.stiff and any_moves(self):
            raise ArgumentError(
                'Argument `diffusion` must be "explicit" where an obstacle moves, but it is "implicit".'
            )
        self.source = source
        self.viscosity, self.diffusivity, self.buoyancy = viscosity, diffusivity, buoyancy
        self.closure = smagorinsky if isinstance(smagorinsky, DynamicSmagorinsky) else None
        self.smagorinsky = None if self.closure is not None else smagorinsky
        check_closure(grid, self.closure)
        check_wall_models(grid, self.boundaries)
        check_smooth_walls(self.boundaries, viscosity)

    @property
    def at(self) -> Staggered:
        """Return the coordinates of values."""
        return Staggered(self.grid, ends_of(self.boundaries), open_ends_of(self.boundaries))

    def start(
        self,
        velocity: Array | np.ndarray | Callable[..., Sequence[ArrayLike]] | None = None,
        scalar: ArrayLike | Callable[..., ArrayLike] | None = None,
        *,
        scalars: Mapping[str, ArrayLike | Callable[..., ArrayLike]] | None = None,
        body: ArrayLike | Sequence[Any] | BodyState | None = None,
        bodies: Mapping[str, ArrayLike | Sequence[Any] | BodyState] | None = None,
        time: ArrayLike = 0.0,
    ) -> StaggeredFlow:
        """A state from values at the centres, `(dimensions, *shape)`, or from functions of the coordinates; by default at rest.

        `velocity` may be a callable `x -> components`, which is taken at the faces, and `scalar` one that gives an array. `scalars`
        has the same by name, 0 where left out. `body` is the centre of a free `obstacle`, or its state, and `bodies` has those of
        free `obstacles` by name. `time` is when the state holds, where an inflow changes with time or a body is moved.
        """
        if velocity is not None and not callable(velocity):
            self.grid.check_field(velocity, "velocity", (self.grid.dimensions,))
        if scalar is not None and self.diffusivity is None:
            raise ArgumentError(
                "Argument `scalar` needs a system with a `diffusivity`; `scalars` starts those with names."
            )
        if scalar is not None and not callable(scalar):
            self.grid.check_field(scalar, "scalar")
        named = check_start(self, scalars)
        freed = bodies_at_start(self, body, bodies, jnp.asarray(self.viscosity).dtype)
        check_places(self, time, freed)
        state, lost, given = started(self._known_at(time), velocity, scalar, named)
        if any_moves(self):
            velocity_around = admitted(self, time, state.velocity, freed)
            state = StaggeredFlow(velocity_around, state.scalar, state.scalars, **packed(freed))
        known = not tracing((self, velocity, lost))
        if known and bodies_of(self) and not np.isfinite(state.velocity[0]).all():
            moved, mobility = self._admitted(given)
            if text := unconverged(self.at, self.tolerance, self.iterations, Medium(mobility), moved):
                raise SimulationError(f"The flow cannot start. {text}")
        if known and float(lost) > 0.01:
            warnings.warn(
                f"{float(lost):.0%} of the energy of `velocity` has a divergence or does not fit the boundaries, and is taken out.",
                stacklevel=2,
            )
        return state

    def reads(self) -> dict[str, Input]:
        return inputs_of_force(self.force) | inputs_of_values(conditions_of(self._pairs()))

    def _known_at(self, time: ArrayLike) -> "IncompressibleFlow":
        """The system with the inflows of a time, so that a start has them."""
        return with_boundaries_at(self, time, dict.fromkeys(self.reads(), 0.0), jnp.asarray(self.viscosity).dtype)

    def _pairs(self) -> Boundaries:
        """The ends of all axes, of velocity and scalars."""
        own = [end for scalar in self.scalars.values() for end in scalar.boundaries]
        return (*self.boundaries, *(self.scalar_boundaries or ()), *own)

    def review(self, y0: object, step: float | None, solver: object) -> None:
        check_numbers(self)
        check_smooth_walls(self.boundaries, self.viscosity)
        review_staggered(self, y0)
        check_state(self, getattr(y0, "scalars", {}))
        check_states(self, y0)

    def note(self, t: ArrayLike, y: StaggeredFlow) -> str:
        return note_staggered(self, t, y)

    def explain(self, t: ArrayLike, y: StaggeredFlow) -> str:
        if not bodies_of(self):
            return ""
        unforced: Any = dict.fromkeys(self.reads(), 0.0) | {"force": tuple(map(jnp.zeros_like, y.velocity))}
        here = near(self, t, y.velocity[0].dtype, states_of(y))
        field, _ = moved(self, here, self._pushed(t, y, unforced), y.velocity)
        return unconverged(self.at, self.tolerance, self.iterations, medium_of(self, here, states_of(y)), field)

    def vector_field(self, t: ArrayLike, y: StaggeredFlow, inputs: Inputs) -> StaggeredFlow:
        now = self._now(t, y, inputs)
        slope = None
        if self.diffusivity is not None:
            slope = uniform(self, on_its_parts(now, IncompressibleFlow.scalar_slope, y, y.scalar), y.velocity, y.scalar)
        pushed, bodies = self._pushed(t, y, inputs), {}
        if bodies_of(self):
            beside = around(self, t, y, pushed, inputs)
            found, bodies = beside.found, beside.slopes
        else:
            found = project(self.at, pushed)
        return StaggeredFlow(found.velocity, slope, slopes(self, t, y, inputs), **packed(bodies))

    def _now(self, t: ArrayLike, y: StaggeredFlow, inputs: Inputs) -> "IncompressibleFlow":
        """The system with what its boundaries give at a time."""
        return with_boundaries_at(self, t, inputs, y.velocity[0].dtype)

    def scalar_slope(self, y: StaggeredFlow) -> Array:
        """Advection and diffusion of the scalar of a state."""
        ends = self.boundaries, self.scalar_boundaries
        return scalar_slope(self.at, *ends, y.velocity, y.scalar, self.diffusivity, self.flux)

    def cut_at(self, t: ArrayLike, dtype: DTypeLike, free: Mapping[str, BodyState] | None = None) -> Cut:
        """The bodies as the faces see them at a time; free ones by their states."""
        return near(self, t, dtype, free or {}).cut

    def _pushed(self, t: ArrayLike, y: StaggeredFlow, inputs: Inputs = None) -> Components:
        """The slope of the velocity without pressure and obstacle."""
        now = self._now(t, y, inputs)
        total = on_its_parts(now, IncompressibleFlow._carried, y.velocity)
        for added in (forces_on(self, t, y, inputs), None if self.source is None else self.source(t, y.velocity)):
            if added is not None:
                total = [a + b for a, b in zip(total, added, strict=True)]
        rates = rates_at(self.grid, self.boundaries, t, y.velocity[0].dtype)
        return slopes_at_ends(self.at, now.boundaries, rates, y.velocity, tuple(total))

    def _carried(self, velocity: Components) -> Components:
        """Return advection and diffusion of the velocity, without the values at the ends."""
        at = self.at
        flow = surrounded(at, self.boundaries, velocity)
        turbulent = turbulent_viscosity(at, flow, self.closure, self.smagorinsky)
        slope = lambda i: diffusion(at, self.boundaries, flow, i, self.viscosity, turbulent)
        total = tuple(slope(i) - advection(at, self.boundaries, flow, i, self.flux) for i in range(at.dimensions))
        return held_by_walls(at, self.boundaries, flow, total, self.viscosity)

    def drag(self, t: ArrayLike, y: StaggeredFlow, inputs: Inputs = None) -> Array:
        """The force of the fluid on all bodies together for each unit of density, shape (dimensions,)."""
        return force_on(around(self, t, y, self._pushed(t, y, inputs), inputs).lost)

    def longest_step(self, t: ArrayLike, state: StaggeredFlow, inputs: Inputs) -> Array:
        at, rate = self.at, jnp.zeros((), state.velocity[0].dtype)
        diffusing = self.viscosity
        for other in (self.diffusivity, *(scalar.diffusivity for scalar in self.scalars.values())):
            diffusing = diffusing if other is None else jnp.maximum(diffusing, other)
        if self.stiff:
            diffusing = diffusing / LONGER
        for axis, u in enumerate(state.velocity):
            rate = rate + jnp.max(jnp.abs(u) / at.between(axis, u)) + 2 * diffusing / self.grid.spacing(axis) ** 2
        if any_moves(self):
            rate = rate + rate_of_bodies(self, near(self, t, rate.dtype, states_of(state)))
        return 1 / jnp.maximum(rate, jnp.finfo(rate.dtype).tiny)

    def smoothed(self, state: StaggeredFlow, change: StaggeredFlow, time: ArrayLike) -> StaggeredFlow:
        """A change of velocity and scalar after diffusion for a time, without divergence.

        Smoothing and projection one after the other stand in for both at once. Near walls the true part is up to two or three times
        as fast, for long steps. Faces beside a body are smoothed by their mobility, and for the rest, with the friction, alone.
        """
        at, found = self.at, []
        for i, u in enumerate(change.velocity):
            found.append(smoothed(at, self.boundaries, i, u, time * self.viscosity))
        scalar = change.scalar
        if not bodies_of(self):
            velocity = project(at, tuple(found)).velocity
        else:
            mobility, friction, _ = self.cut_at(0.0, found[0].dtype)
            near = 2 * time * self.viscosity * sum(1 / self.grid.spacing(axis) ** 2 for axis in range(at.dimensions))
            parts = zip(mobility, friction, found, change.velocity, strict=True)
            held = tuple(
                (m * v + (1 - m) * u / (1 + m * near)) / (1 + time * self.viscosity * c) for m, c, v, u in parts
            )
            velocity = through(self, held, mobility).velocity
        if scalar is not None:
            scalar = smoothed(at, self.scalar_boundaries, None, scalar, time * self.diffusivity)
        scalars = {
            name: smoothed(at, self.scalars[name].boundaries, None, theta, time * self.scalars[name].diffusivity)
            for name, theta in change.scalars.items()
        }
        return StaggeredFlow(velocity, scalar, scalars)

    def outputs(self, t: ArrayLike, y: StaggeredFlow, inputs: Inputs) -> Outputs:
        pushed = self._pushed(t, y, inputs)
        beside = around(self, t, y, pushed, inputs) if bodies_of(self) else None
        found = project(self.at, pushed) if beside is None else beside.found
        velocity, volumes = self.at.centred(y.velocity), jnp.asarray(self.grid.volumes(), y.velocity[0].dtype)
        outputs = {
            "velocity": velocity,
            "pressure": found.pressure,
            "divergence": jnp.max(jnp.abs(self.at.divergence(y.velocity))),
            "energy": self.energy(y),
            "flow": jnp.stack([jnp.sum(u * volumes) for u in velocity]) / self.grid.volume,
        }
        if y.scalar is not None:
            outputs["scalar"] = y.scalar
        outputs |= y.scalars
        modelled = has_wall_models(self.boundaries)
        if self.closure is not None or modelled:
            ends = self._now(t, y, inputs).boundaries
            flow = surrounded(self.at, ends, y.velocity)
            if self.closure is not None:
                outputs["smagorinsky"] = constant(self.at, flow, self.closure)
            if modelled:
                outputs["wall_stress"] = mean_wall_stress(self.at, ends, flow, self.viscosity)
        if beside is not None:
            outputs["pressure"] = pressure_outside(self.at, beside.near.cut.mobility, found.pressure)
            outputs |= outputs_of_bodies(self, y, beside, outputs["pressure"])
        return outputs

    def energy(self, y: StaggeredFlow) -> Array:
        """The kinetic energy of the box, which central fluxes conserve, for each unit of density."""
        parts = [0.5 * jnp.sum(u * u * self.at.volumes(i, u)) for i, u in enumerate(y.velocity)]
        return functools.reduce(jnp.add, parts)

    def encode(self, y: StaggeredFlow) -> StaggeredFlow:
        found = balanced(
            self.at, self.boundaries, laid_out(self.grid, given_ends(self.at, self.boundaries, y.velocity))
        )
        if not bodies_of(self) or any_moves(self):
            found = project(self.at, found)  # a body that moves is known with the time: `start` has it
        else:
            found = through(self, *self._admitted(found))
        return StaggeredFlow(
            found.velocity, laid_out(self.grid, y.scalar), laid_out(self.grid, y.scalars), y.body, y.bodies
        )

    def shardings(self, state: StaggeredFlow) -> Any:
        return shardings_of(self.grid, state)

    def _admitted(self, velocity: Components) -> tuple[Components, Components]:
        """Return the part of a velocity outside the obstacle, and the mobilities of the faces."""
        mobility = self.cut_at(0.0, velocity[0].dtype).mobility
        return tuple(m * u for m, u in zip(mobility, velocity, strict=True)), mobility

    @classmethod
    def example(cls) -> "Example[IncompressibleFlow]":
        """A cavity whose lid moves."""
        system = cls(
            Grid((32, 32), 1.0), viscosity=0.01, boundaries=[NoSlip(), (NoSlip(), NoSlip(jnp.array([1.0, 0.0])))]
        )
        return Example(system, system.start(), jnp.linspace(0.0, 1.0, 6))
