"""A disk or ball that moves in a lattice Boltzmann fluid: freely, by what fluid and weight do to it, or as it is told."""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs, Outputs, Scalar, Time
from ...core import POSITIVE, DiscreteSystem, Example, Explained, Noted, Reviewed, check_numbers, quantity
from ..grids._boundary import NoSlip, Periodic
from ..grids._grid import Grid
from ..grids._images import nearest_image, periods_of
from ._body_review import (
    cause,
    check_body,
    check_populations,
    check_shape,
    check_state,
    inside,
    lattice_speed,
    moved_place,
    vector,
    wrapped,
)
from ._collision import Moments, collide, moments
from ._cut_body import crossed, streamed_around
from ._lattice_boltzmann import LatticeBoltzmann, LatticeFlow
from ._review import LARGEST_MACH, review_lattice


class BodyInFlow(eqx.Module):
    """The state of `MovingBody`: the fluid, and of the body centre and velocity, `(dimensions,)`, angle and spin (one number in two
    dimensions, three in three)."""

    flow: LatticeFlow
    centre: Array = quantity(doc="centre of the body")
    velocity: Array = quantity(doc="velocity of the body")
    angle: Array = quantity(doc="angle by which the body has turned")
    spin: Array = quantity(doc="angular velocity of the body")


class MovingBody(DiscreteSystem, Reviewed, Noted, Explained):
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
    - `motion`: a callable `t -> centre`, shape (dimensions,), of a body that is moved, or in two dimensions `t -> (centre, angle)`
        for one that also turns; its velocities are the derivatives. The density then matters for nothing. Runs that begin at
        another time than 0 take `start(time=...)`.
    - `shape`: of a body that is moved in two dimensions: a callable `x -> signed distance`, negative inside, of coordinates from
        the centre in the axes of the body (a list of two arrays). It turns with the body; `radius` must then bound it. None for a
        disk or a ball.
    - `surface`: "smooth" as above; or, for a body that is moved, "cut": interpolated bounce-back from the surface where it cuts
        links between cells (Bouzidi, Firdaouss and Lallemand 2001), of order 2. Cells that the body leaves begin in equilibrium
        with it, and a little mass passes the surface. Its force jumps a little each time that a centre changes sides, so that
        derivatives by a motion are those between such jumps: optimise with "smooth".

    Outputs are those of the fluid, `centre`, `velocity_of_body`, `angle`, `spin`, and `drag`, the force of the fluid on the
    body without its buoyancy at rest, for each unit of density: the momentum that the fluid loses in the step that follows, and
    that which the fluid inside gains; `torque` likewise, about the centre.

    Along periodic axes the body crosses ends, and its centre counts on beyond them. There are no forces of contact: walls are
    approached through the film of fluid alone, down to about a cell, and a body that overlaps one by more than a cell makes the
    run fail, as does one whose surface is faster than 0.3 of the lattice's speed of sound. Derivatives exist by all numbers, the
    radius, the density and the motion included.

    **Good values:** twelve or more cells across (at least five), speeds below a twentieth of a cell a step, densities from 0 to
    100. The surface is a cell thick, which forces feel by some per cent.

    **Raises:** an `ArgumentError` where the fluid has an obstacle or open ends, or the body is too small for the grid, larger
    than the box, starts outside or in a wall, or is too fast for the lattice.

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
    certain: ClassVar[bool] = True

    fluid: LatticeBoltzmann
    motion: Any
    shape: Any
    surface: str = eqx.field(static=True)
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
        gravity: ArrayLike | Sequence[Any] | None = None,
        motion: Any = None,
        shape: Any = None,
        surface: str = "smooth",
    ):
        if not isinstance(fluid, LatticeBoltzmann) or (
            fluid.solid is not None and (surface != "cut" or fluid.cuts is None)
        ):
            raise ArgumentError(
                "Argument `fluid` must be a `LatticeBoltzmann` system without an obstacle, or both with cut surfaces."
            )
        if motion is None and any(not isinstance(end, NoSlip | Periodic) for pair in fluid.boundaries for end in pair):
            raise ArgumentError(
                "Argument `fluid` must have ends that are `Periodic` or `NoSlip` for a free body, but some are open. Drive it by "
                "`force` or by moving walls, or give the body a `motion`."
            )
        check_shape(shape, surface, motion, fluid.grid.dimensions)
        check_body(radius, density, motion, fluid.grid.lengths, fluid.width)
        self.fluid, self.step, self.motion = fluid, fluid.step, motion
        self.radius, self.density, self.shape, self.surface = radius, density, shape, surface
        self.gravity = None if gravity is None else vector("gravity", gravity, fluid.grid.dimensions)

    def start(
        self,
        centre: ArrayLike | Sequence[Any] | None = None,
        velocity: ArrayLike | Sequence[Any] | None = None,
        flow: LatticeFlow | None = None,
        *,
        time: ArrayLike = 0.0,
    ) -> BodyInFlow:
        """A body at a place, by default at rest in a fluid at rest.

        Place and velocity of a body that is moved are those of its motion at `time`, which must be the first of the times of the
        run. Places along periodic axes may lie outside of the box, as that of a body that went through an end.
        """
        d, dtype = self.fluid.grid.dimensions, jnp.asarray(self.radius).dtype
        angle = spin = jnp.zeros(() if d == 2 else 3, dtype)
        if self.motion is not None:
            if centre is not None or velocity is not None:
                raise ArgumentError("Arguments `centre` and `velocity` must be left out where `motion` says them.")
            place, pace, angle, spin = self._moved(jnp.asarray(time, dtype))
        elif centre is None:
            raise ArgumentError("Argument `centre` must be given for a free body.")
        else:
            place = wrapped(self.fluid.grid, self.fluid.boundaries, vector("centre", centre, d, dtype))
            pace = jnp.zeros(d, dtype) if velocity is None else vector("velocity", velocity, d, dtype)
        if flow is None:
            flow = self.fluid.start()
        check_populations(flow, LatticeFlow, self.fluid)
        found = BodyInFlow(flow, place, pace, angle, spin)
        check_state(
            self, found, "Argument `centre`" if self.motion is None else "What argument `motion` returns at the start"
        )
        return found

    def review(self, y0: BodyInFlow, step: float | None, solver: object) -> None:
        check_numbers(self)
        review_lattice(self.fluid, y0.flow)
        check_state(self, y0, "Argument `y0.centre`")

    def note(self, t: ArrayLike, y: BodyInFlow) -> str:
        return self.fluid.note(t, y.flow)

    def explain(self, t: ArrayLike, y: BodyInFlow) -> str:
        """A sentence on a body that soon leaves the box or becomes too fast."""
        state = self.encode(jax.tree.map(jnp.asarray, y))
        steps, (_, place, velocity, _, spin) = _last_step(self, jnp.asarray(t, state[1].dtype), state)
        return cause(self, float(np.asarray(t)) + int(steps) * self.step, place, velocity, spin)

    def encode(self, y: BodyInFlow) -> Any:
        return self.fluid.encode(y.flow), y.centre, y.velocity, y.angle, y.spin

    def decode(self, state: Any) -> BodyInFlow:
        populations, *rest = state
        return BodyInFlow(self.fluid.decode(populations), *rest)

    def advance(self, t: ArrayLike, y: Any, inputs: Inputs) -> Any:
        populations, place, *rest = self._stepped(t, y)[0]
        return populations, jnp.where(self._sound(place, rest[0], rest[2]), place, jnp.nan), *rest

    def _sound(self, place: Array, velocity: Array, spin: Array) -> Array:
        """Tell whether a body is in the box, and slow beside the lattice's speed of sound."""
        fluid = self.fluid
        slow = lattice_speed(velocity, spin, self.radius, fluid.speed, self.step) <= LARGEST_MACH / 3**0.5
        return slow & inside(fluid.grid, fluid.boundaries, place, self.radius, fluid.width)

    def _stepped(self, t: ArrayLike, y: Any) -> tuple[Any, tuple[Array, Array]]:
        """The state after a step, wherever it leads, and the force and the torque of the fluid on the body.

        All but places, velocities and spins of the state is in cells and steps, so that no unit leaves the range of floats.
        """
        fluid, dt, speed = self.fluid, self.step, self.fluid.speed
        populations, centre, velocity, angle, spin = y
        lattice, push = fluid.lattice, fluid._push()
        found = moments(lattice, tuple(populations), push)
        if self.surface == "cut":
            return self._stepped_cut(t, y)
        share, arms = self._inside(centre, angle)
        weight = 2 * share * (1 + found.excess)
        before = velocity / speed
        if self.motion is None:
            momentum = [weight * u for u in found.velocity]
            after, turn = self._free(before, spin * dt, arms, momentum, weight)
            place, tilt = centre + dt * (speed * after), angle + turn
        else:
            place, told, tilt, rate = self._moved(jnp.asarray(t, centre.dtype) + dt)
            after, turn = told / speed, rate * dt
        own = [2 * share * (w - u) for w, u in zip(_rigid(after, turn, arms), found.velocity, strict=True)]
        whole = own if push is None else [a + b for a, b in zip(own, push, strict=True)]
        here = Moments(found.excess, [u + 0.5 * a for u, a in zip(found.velocity, own, strict=True)])
        collided = collide(lattice, tuple(populations), here, fluid._rates(), whole, fluid.collision == "bgk")
        streamed = tuple(fluid._streamed(tuple(collided)))
        gone = [-(1 + found.excess) * a for a in own]
        force = jnp.stack([jnp.sum(x) for x in gone])
        if self.shape is None:
            force, gain = force + self._volume() * (after - before), self._inertia() * (turn - spin * dt)
        else:
            faster = [
                share * (a - b) for a, b in zip(_rigid(after, turn, arms), _rigid(before, spin * dt, arms), strict=True)
            ]
            force, gain = force + jnp.stack([jnp.sum(x) for x in faster]), jnp.sum(crossed(arms, faster))
        torque = jnp.sum(crossed(arms, gone), axis=tuple(range(-fluid.grid.dimensions, 0))) + gain
        return (streamed, place, speed * after, tilt, turn * (1 / dt)), self._in_units(force, torque)

    def _in_units(self, force: Array, torque: Array) -> tuple[Array, Array]:
        """A force and a torque in cells and steps, in the units of the grid."""
        fluid = self.fluid
        force, torque = force * (fluid.speed / self.step), torque * (fluid.speed / self.step) * fluid.width
        # One by one: the product leaves the range of float32 before the force does.
        for _ in range(fluid.grid.dimensions):
            force, torque = force * fluid.width, torque * fluid.width
        return force, torque

    def _stepped_cut(self, t: ArrayLike, y: Any) -> tuple[Any, tuple[Array, Array]]:
        """Take a step of a body whose surface cuts links, with the results of `_stepped`."""
        fluid, dt, speed = self.fluid, self.step, self.fluid.speed
        populations, centre, velocity, angle, spin = y
        arms = self._arms(centre)
        place, told, tilt, rate = self._moved(jnp.asarray(t, centre.dtype) + dt)
        collided = fluid._collided(tuple(populations))
        rigid = lambda velocity, spin, arms: _rigid(velocity / speed, spin * dt, arms)
        now = lambda arms: rigid(velocity, spin, arms)
        then = lambda arms: rigid(told, rate, arms)
        streamed, force, torque = streamed_around(fluid, collided, self._depth(arms, angle), arms, now, then)
        return (tuple(streamed), place, told, tilt, rate), self._in_units(force, torque)

    def _moved(self, t: Time) -> tuple[Array, Array, Array, Array]:
        """Centre, velocity, angle and spin at a time."""
        assert self.motion is not None
        at = lambda t: moved_place(self.motion(t), self.fluid.grid.dimensions, t.dtype)
        (place, angle), (velocity, spin) = jax.jvp(at, (t,), (jnp.ones_like(t),))
        return place, velocity, angle, spin

    def _inside(self, centre: Array, angle: Array) -> tuple[Array, list[Array]]:
        """The share of each cell inside of the body, and the arm from its centre in cells."""
        arms = self._arms(centre)
        return 0.5 * (1 + jnp.sin(jnp.pi * jnp.clip(self._depth(arms, angle), -0.5, 0.5))), arms

    def _depth(self, arms: list[Array], angle: Array) -> Array:
        """The distance of each centre from the surface in cells, positive inside."""
        if self.shape is None:
            square = sum(a**2 for a in arms)
            return self._cells() - jnp.sqrt(jnp.maximum(square, 1e-2))
        c, s, width = jnp.cos(angle), jnp.sin(angle), self.fluid.width
        along, across = c * arms[0] + s * arms[1], c * arms[1] - s * arms[0]
        return -jnp.asarray(self.shape([along * width, across * width])) * (1 / width)

    def _arms(self, centre: Array) -> list[Array]:
        """The arm of each cell from the centre in cells, the nearest along periodic axes."""
        grid, dtype = self.fluid.grid, centre.dtype
        parts = zip(grid.mesh(), centre, periods_of(grid, self.fluid.boundaries), strict=True)
        return [
            (nearest_image(jnp.asarray(x, dtype), c, period) - c) * (1 / self.fluid.width) for x, c, period in parts
        ]

    def _cells(self) -> Array:
        """The radius in cells; a compiler that gathers factors of its powers would leave the range of float32."""
        return jax.lax.optimization_barrier(self.radius * (1 / self.fluid.width))

    def _volume(self) -> Array:
        r = self._cells()
        return jnp.pi * r**2 if self.fluid.grid.dimensions == 2 else 4 / 3 * jnp.pi * r**3

    def _inertia(self) -> Array:
        share = 0.5 if self.fluid.grid.dimensions == 2 else 0.4
        return share * self._volume() * self._cells() ** 2

    def _free(
        self, velocity: Array, spin: Array, arms: list[Array], momentum: list[Array], weight: Array
    ) -> tuple[Array, Array]:
        """The new velocity and spin of a free body, from the momentum that the fluid is asked for where it stands still.

        A disk has three ways to move and a ball six; what the fluid gains by each is linear in all of them. All is in cells and
        steps.
        """
        d = len(arms)
        extra = (self.density - 1) * jnp.concatenate(
            [jnp.full(d, self._volume()), jnp.full(spin.size, self._inertia())]
        )
        unit = jnp.eye(d + spin.size, dtype=velocity.dtype)
        modes = [_rigid(row[:d], row[d:].reshape(spin.shape), arms) for row in unit]
        over = lambda a, b: jnp.sum(sum(x * y for x, y in zip(a, b, strict=True)))
        n = len(modes)
        half = {(i, j): over([weight * x for x in modes[i]], modes[j]) for i in range(n) for j in range(i, n)}
        matrix = [[half[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]
        old = jnp.concatenate([velocity, spin.reshape(-1)])
        if self.gravity is not None:
            old = old.at[:d].add(self.gravity * (self.step / self.fluid.speed))
        right = extra * old + jnp.stack([over(momentum, mode) for mode in modes])
        found = jnp.linalg.solve(jnp.stack([jnp.stack(row) for row in matrix]) + jnp.diag(extra), right)
        return found[:d], found[d:].reshape(spin.shape)

    def outputs(self, t: ArrayLike, y: BodyInFlow, inputs: Inputs) -> Outputs:
        force, torque = self._stepped(t, self.encode(y))[1]
        body = {"centre": y.centre, "velocity_of_body": y.velocity, "angle": y.angle, "spin": y.spin}
        body |= {"drag": force, "torque": torque}
        return self.fluid.outputs(t, y.flow, inputs) | body

    @classmethod
    def example(cls) -> "Example[MovingBody]":
        """A disk that sinks between two walls."""
        box = LatticeBoltzmann(Grid((7, 7), (1.0, 1.0)), step=0.01, viscosity=0.05, boundaries=[NoSlip(), Periodic()])
        system = cls(box, radius=0.37, density=2.0, gravity=[0.0, -1.0])
        return Example(system, system.start(centre=[0.47, 0.6]), np.linspace(0.0, 0.25, 6))


SOON = 100_000
"""Most steps that an explanation of a failed run takes from a state before it: those between two saved times, at the most."""


@eqx.filter_jit
def _last_step(system: MovingBody, t: Array, y: Any) -> tuple[Array, Any]:
    """The number of the first step after which a body is not sound, and the state after it."""
    on = lambda known: (known[0] < SOON) & system._sound(known[1][1], known[1][2], known[1][4])
    step = lambda known: (known[0] + 1, system._stepped(t + system.step * known[0].astype(t.dtype), known[1])[0])
    return jax.lax.while_loop(on, step, (jnp.zeros((), jnp.int32), y))


def _rigid(velocity: Array, spin: Array, arms: list[Array]) -> list[Array]:
    """The velocity of each cell as a part of a body that moves and turns."""
    if len(arms) == 2:
        return [velocity[0] - spin * arms[1], velocity[1] + spin * arms[0]]
    turned = lambda k: spin[(k + 1) % 3] * arms[(k + 2) % 3] - spin[(k + 2) % 3] * arms[(k + 1) % 3]
    return [velocity[k] + turned(k) for k in range(3)]
