"""A disk or ball that moves in a lattice Boltzmann fluid: freely, by what fluid and weight do to it, or as it is told."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs, Outputs, Scalar, Time
from ...core import POSITIVE, DiscreteSystem, Example, as_float_array, quantity
from ..grids._boundary import NoSlip, Periodic
from ..grids._checks import check_vector
from ..grids._grid import Grid
from ._collision import Moments, collide, moments
from ._lattice_boltzmann import LatticeBoltzmann, LatticeFlow

LEAST_CELLS = 5.0
"""Fewest cells across a body: below that its surface, one cell thick, is a fifth of it."""


class BodyInFlow(eqx.Module):
    """The state of `MovingBody`: the fluid, and of the body centre and velocity, `(dimensions,)`, angle and spin (one number in two
    dimensions, three in three)."""

    flow: LatticeFlow
    centre: Array = quantity(doc="centre of the body")
    velocity: Array = quantity(doc="velocity of the body")
    angle: Array = quantity(doc="angle by which the body has turned")
    spin: Array = quantity(doc="angular velocity of the body")


class MovingBody(DiscreteSystem):
    r"""A disk (in three dimensions a ball) that moves in a `LatticeBoltzmann` fluid, and the fluid that it moves.

    In each step the fluid inside of the body is given the body's velocity, and the body loses what momentum the fluid gains.
    With the share $\varphi(x)$ of a cell inside, which falls from 1 to 0 over the width of a cell, and the fluid's velocity
    $u^*$ without the body, the acceleration of a cell is

    $$a = \frac{2 \varphi}{\Delta t} (U + \Omega \times r - u^*), \qquad
    (m - m_f) \frac{U' - U}{\Delta t} = (m - m_f)\, g - \int \rho\, a \, dV, \qquad
    (I - I_f) \frac{\Omega' - \Omega}{\Delta t} = - \int \rho\, r \times a \, dV$$

    in which the fluid inside, of mass $m_f$, carries its own inertia. Both equations are solved for the new velocity $U'$, so
    that light and neutral bodies are as stable as heavy ones, and momentum is exchanged to rounding. The body moves with the
    new velocity.

    - `fluid`: the `LatticeBoltzmann` system around it, without an obstacle; its `step` is that of the whole. A uniform
        `force` acts on the fluid, also inside.
    - `radius`; `density`: that of the body over that of the fluid, for a free body.
    - `gravity`: an acceleration, shape (dimensions,), that acts on the difference of the densities: the pressure that carries a
        fluid at rest is not part of the state. None without.
    - `motion`: a callable `t -> centre`, shape (dimensions,), of a body that is moved; its velocity is the derivative. The
        density then matters for nothing.

    Outputs are those of the fluid, `centre`, `velocity_of_body`, `angle`, `spin`, and `drag`, the force of the fluid on the
    body without its buoyancy at rest, for each unit of density: the momentum that the fluid loses in the step that follows, and
    that which the fluid inside gains.

    Along periodic axes the body crosses ends; a centre that passes a wall makes the run fail. There are no forces of contact:
    walls are approached through the film of fluid alone, down to about a cell. Derivatives exist by all numbers, the radius,
    the density and the motion included.

    **Good values:** twelve or more cells across (at least five), speeds below a twentieth of a cell a step, densities from 0 to
    100. The surface is a cell thick, which forces feel by some per cent.

    **Raises:** an `ArgumentError` where the fluid has an obstacle or open ends, or the body is too small for the grid, larger
    than the box, or starts outside.

    **Source:** Feng and Michaelides (2005), J. Comput. Phys. 202:20, and Jafari, Yamamoto and Rahnama (2011), Phys. Rev. E
    83:026702, for forces on smoothed bodies; Kang and Hassan (2011), Int. J. Numer. Meth. Fluids 66:1132, for the factor 2.

    ```python
    import simkit
    from simkit import fluids

    box = fluids.LatticeBoltzmann(
        fluids.Grid((24, 48), (1.0, 2.0)), step=0.01, viscosity=0.05, boundaries=[fluids.NoSlip(), fluids.Periodic()]
    )
    system = fluids.MovingBody(box, radius=0.15, density=2.0, gravity=[0.0, -1.0])
    run = simkit.simulate(system, system.start(centre=[0.5, 1.5]), [0.0, 1.0])
    print(run.final().velocity)  # it sinks
    ```
    """

    State = BodyInFlow

    fluid: LatticeBoltzmann
    motion: Any
    step: float = eqx.field(static=True)
    radius: Scalar = quantity(support=POSITIVE, doc="radius of the body")
    density: Scalar = quantity(1.0, support=POSITIVE, doc="density of the body over that of the fluid")
    gravity: Any = quantity(None, doc="acceleration by gravity", optional=True)

    def __init__(
        self,
        fluid: LatticeBoltzmann,
        *,
        radius: ArrayLike,
        density: ArrayLike = 1.0,
        gravity: ArrayLike | Sequence[float] | None = None,
        motion: Any = None,
    ):
        if not isinstance(fluid, LatticeBoltzmann) or fluid.solid is not None:
            raise ArgumentError("Argument `fluid` must be a `LatticeBoltzmann` system without an obstacle.")
        if any(not isinstance(end, NoSlip | Periodic) for pair in fluid.boundaries for end in pair):
            raise ArgumentError(
                "Argument `fluid` must have ends that are `Periodic` or `NoSlip`, but some are open. Drive it by `force` or by "
                "moving walls."
            )
        self.fluid, self.step, self.motion = fluid, fluid.step, motion
        self.radius, self.density = radius, density
        if gravity is not None:
            check_vector(gravity, fluid.grid.dimensions, "gravity")
            gravity = as_float_array(gravity)
        self.gravity = gravity
        if motion is not None and not callable(motion):
            raise ArgumentError(f"Argument `motion` must be a function of time, but it is {motion!r}.")
        if not isinstance(self.radius, jax.core.Tracer):
            across = 2 * float(self.radius) / fluid.width
            least = min(fluid.grid.lengths)
            if across < LEAST_CELLS or 2 * float(self.radius) >= least:
                raise ArgumentError(
                    f"Argument `radius` must be from {0.5 * LEAST_CELLS * fluid.width:.3g}, {LEAST_CELLS:g} cells across, to below "
                    f"half of the box, {0.5 * least:.3g}, but it is {float(self.radius):.3g}. Take a finer grid or a larger box."
                )

    def start(
        self,
        centre: ArrayLike | Sequence[Any] | None = None,
        velocity: ArrayLike | Sequence[Any] | None = None,
        flow: LatticeFlow | None = None,
    ) -> BodyInFlow:
        """A body at a place, by default at rest in a fluid at rest.

        Place and velocity of a body that is moved are those of its motion at the time 0.
        """
        grid, dtype = self.fluid.grid, jnp.asarray(self.radius).dtype
        d = grid.dimensions
        if self.motion is not None:
            if centre is not None or velocity is not None:
                raise ArgumentError("Arguments `centre` and `velocity` must be left out where `motion` says them.")
            centre, velocity = self._moved(jnp.zeros((), dtype))
        elif centre is None:
            raise ArgumentError("Argument `centre` must be given for a free body.")
        velocity = jnp.zeros(d, dtype) if velocity is None else velocity
        for name, value in (("centre", centre), ("velocity", velocity)):
            check_vector(value, d, name)
        centre = jnp.asarray(centre, dtype)
        if not isinstance(centre, jax.core.Tracer):
            low, high = np.asarray(grid.origin), np.asarray(grid.origin) + np.asarray(grid.lengths)
            if np.any(np.asarray(centre) < low) or np.any(np.asarray(centre) > high):
                raise ArgumentError(
                    f"Argument `centre` must lie in the box, from {low} to {high}, but it is {np.asarray(centre)}."
                )
        turn = jnp.zeros(() if d == 2 else 3, dtype)
        return BodyInFlow(
            self.fluid.start() if flow is None else flow, centre, jnp.asarray(velocity, dtype), turn, turn
        )

    def encode(self, y: BodyInFlow) -> Any:
        return self.fluid.encode(y.flow), y.centre, y.velocity, y.angle, y.spin

    def decode(self, state: Any) -> BodyInFlow:
        populations, *rest = state
        return BodyInFlow(self.fluid.decode(populations), *rest)

    def advance(self, t: ArrayLike, y: Any, inputs: Inputs) -> Any:
        return self._stepped(t, y)[0]

    def _stepped(self, t: ArrayLike, y: Any) -> tuple[Any, Array]:
        """The state after a step, and the force of the fluid on the body."""
        fluid, dt = self.fluid, self.step
        populations, centre, velocity, angle, spin = y
        lattice, push = fluid.lattice, fluid._push()
        found = moments(lattice, tuple(populations), push)
        free = [u * fluid.speed for u in found.velocity]
        share, arms = self._inside(centre)
        weight = 2 * share * (1 + found.excess)
        volume = fluid.width**fluid.grid.dimensions
        total = lambda field: jnp.sum(field) * volume
        if self.motion is None:
            after, turn = self._free(velocity, spin, arms, [weight * u for u in free], weight, total)
            place = centre + dt * after
        else:
            place, after = self._moved(jnp.asarray(t, centre.dtype) + dt)
            turn = jnp.zeros_like(spin)
        change = [2 * share * (w - u) for w, u in zip(_rigid(after, turn, arms), free, strict=True)]
        own = [a / fluid.speed for a in change]
        whole = own if push is None else [a + b for a, b in zip(own, push, strict=True)]
        here = Moments(found.excess, [u + 0.5 * a for u, a in zip(found.velocity, own, strict=True)])
        collided = collide(lattice, tuple(populations), here, fluid._rates(), whole, fluid.collision == "bgk")
        streamed = tuple(fluid._streamed(tuple(collided)))
        lost = -jnp.stack([total((1 + found.excess) * a) for a in change]) / dt
        force = lost + self._volume() * (after - velocity) / dt
        place = jnp.where(self._contains(place), place, jnp.nan)
        return (streamed, place, after, angle + dt * turn, turn), force

    def _moved(self, t: Time) -> tuple[Array, Array]:
        assert self.motion is not None
        at = lambda t: jnp.asarray(self.motion(t), t.dtype)
        return jax.jvp(at, (t,), (jnp.ones_like(t),))

    def _inside(self, centre: Array) -> tuple[Array, list[Array]]:
        """The share of each cell inside of the body, and the arm from its centre, the nearest along periodic axes."""
        grid, dtype = self.fluid.grid, centre.dtype
        arms = []
        for axis, x in enumerate(grid.mesh()):
            arm = jnp.asarray(x, dtype) - centre[axis]
            if isinstance(self.fluid.boundaries[axis][0], Periodic):
                arm = arm - grid.lengths[axis] * jnp.round(arm / grid.lengths[axis])
            arms.append(arm)
        square = sum(a**2 for a in arms)
        depth = (self.radius - jnp.sqrt(jnp.maximum(square, 1e-2 * self.fluid.width**2))) / self.fluid.width
        return 0.5 * (1 + jnp.sin(jnp.pi * jnp.clip(depth, -0.5, 0.5))), arms

    def _contains(self, place: Array) -> Array:
        grid = self.fluid.grid
        good = jnp.array(True)
        for axis, pair in enumerate(self.fluid.boundaries):
            if not isinstance(pair[0], Periodic):
                low = grid.origin[axis]
                good &= (place[axis] >= low) & (place[axis] <= low + grid.lengths[axis])
        return good

    def _volume(self) -> Array:
        return jnp.pi * self.radius**2 if self.fluid.grid.dimensions == 2 else 4 / 3 * jnp.pi * self.radius**3

    def _inertia(self) -> Array:
        share = 0.5 if self.fluid.grid.dimensions == 2 else 0.4
        return share * self._volume() * self.radius**2

    def _free(
        self, velocity: Array, spin: Array, arms: list[Array], momentum: list[Array], weight: Array, total: Any
    ) -> tuple[Array, Array]:
        """The new velocity and spin of a free body, from the momentum that the fluid is asked for where it stands still.

        A disk has three ways to move and a ball six; what the fluid gains by each is linear in all of them.
        """
        d = len(arms)
        extra = (self.density - 1) * jnp.concatenate(
            [jnp.full(d, self._volume()), jnp.full(spin.size, self._inertia())]
        )
        unit = jnp.eye(d + spin.size, dtype=velocity.dtype)
        modes = [_rigid(row[:d], row[d:].reshape(spin.shape), arms) for row in unit]
        over = lambda a, b: total(sum(x * y for x, y in zip(a, b, strict=True)))
        matrix = [[over([weight * x for x in a], b) for b in modes] for a in modes]
        old = jnp.concatenate([velocity, spin.reshape(-1)])
        if self.gravity is not None:
            old = old.at[:d].add(self.step * self.gravity)
        right = extra * old + jnp.stack([over(momentum, mode) for mode in modes])
        found = jnp.linalg.solve(jnp.stack([jnp.stack(row) for row in matrix]) + jnp.diag(extra), right)
        return found[:d], found[d:].reshape(spin.shape)

    def outputs(self, t: ArrayLike, y: BodyInFlow, inputs: Inputs) -> Outputs:
        force = self._stepped(t, self.encode(y))[1]
        body = {"centre": y.centre, "velocity_of_body": y.velocity, "angle": y.angle, "spin": y.spin, "drag": force}
        return self.fluid.outputs(t, y.flow, inputs) | body

    @classmethod
    def example(cls) -> "Example[MovingBody]":
        """A disk that sinks between two walls."""
        box = LatticeBoltzmann(Grid((16, 24), (1.0, 1.5)), step=0.01, viscosity=0.05, boundaries=[NoSlip(), Periodic()])
        system = cls(box, radius=0.2, density=2.0, gravity=[0.0, -1.0])
        return Example(system, system.start(centre=[0.45, 1.0]), np.linspace(0.0, 0.5, 6))


def _rigid(velocity: Array, spin: Array, arms: list[Array]) -> list[Array]:
    """The velocity of each cell as a part of a body that moves and turns."""
    if len(arms) == 2:
        return [velocity[0] - spin * arms[1], velocity[1] + spin * arms[0]]
    turned = lambda k: spin[(k + 1) % 3] * arms[(k + 2) % 3] - spin[(k + 2) % 3] * arms[(k + 1) % 3]
    return [velocity[k] + turned(k) for k in range(3)]
