"""Scalars that a flow carries, and scalars that drive it."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._errors import ArgumentError
from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, quantity, scaled
from ..grids._grid import Grid
from ._flow2d import Flow2D, SpectralFlow2D, transport
from ._flow3d import SpectralFlow3D
from ._initial import curl, random_velocity, solenoidal, vorticity
from ._spectral import SpectralSystem


@SYSTEMS.named("passive_scalar")
class PassiveScalar(SpectralSystem):
    r"""A scalar that a flow stirs and that does nothing to it:

    $$\theta_t + u \cdot \nabla (\theta + G \cdot x) = \kappa \nabla^2 \theta$$

    with `diffusivity` $\kappa$ and, if given, a mean `gradient` G; the flow u is a `SpectralFlow2D` or `SpectralFlow3D`
    in `flow`, with its force and mean flow. The state is a `PassiveScalar.State`.

    Where the flow has a mean U, the gradient moves along: $\theta$ is the deviation from $G \cdot (x - U t)$, so that its mean
    stays.
    """

    class State(eqx.Module):
        """A flow (its state) and the scalar that it carries, shape `grid.shape`."""

        flow: Any
        scalar: Array = quantity(doc="scalar")

    flow: Any
    diffusivity: Scalar = quantity(1e-3, unit="length2/time", support=POSITIVE, doc="diffusivity of the scalar")
    gradient: Any = quantity(
        None, unit="1/length", doc="mean gradient of the scalar, shape (dimensions,)", optional=True
    )
    source: Any = None
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        _check_carried(self)

    @property
    def grid(self) -> Grid:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.flow.grid

    def encode(self, y: State) -> Array:
        return jnp.concatenate([self.flow.encode(y.flow), self.waves.modes(y.scalar)[None]])

    def decode(self, state: Array) -> State:
        return self.State(self.flow.decode(state[:-1]), self.waves.field(state[-1]))

    def linear(self) -> Array:
        return _rates(self)

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        return _stirred(self, t, modes, inputs)[1]

    def speeds(self, y: State) -> Any:
        return self.flow.speeds(y.flow)

    def unheard(self, y: State) -> Any:
        return self.flow.unheard(y.flow)

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> dict[str, Array]:
        found = self.flow.outputs(t, y.flow, inputs)
        return {**found, "scalar": y.scalar, "variance": jnp.mean((y.scalar - jnp.mean(y.scalar)) ** 2)}

    def invariants(self, t: ArrayLike, y: State) -> dict[str, Array]:
        return {"mean": jnp.mean(y.scalar)} if self.source is None else {}

    @classmethod
    def example(cls) -> "Example[PassiveScalar]":
        grid = Grid((32, 32))
        flow = Flow2D(vorticity(grid, random_velocity(grid, jax.random.key(0), peak=3.0)))
        y0 = cls.State(flow, jnp.sin(grid.mesh()[0]))
        system = cls(flow=SpectralFlow2D(grid, viscosity=3e-2), diffusivity=3e-2)  # pyright: ignore[reportCallIssue]
        return Example(system, y0, jnp.linspace(0.0, 1.0, 3))


@SYSTEMS.named("boussinesq")
class Boussinesq(SpectralSystem):
    r"""A flow that differences in density drive, in the approximation of Boussinesq, up being the last axis:

    $$u_t + u \cdot \nabla u = -\nabla p + b\, e_{up} + \nu \nabla^2 u, \qquad b_t + u \cdot \nabla b + N^2 u_{up} =
    \kappa \nabla^2 b$$

    with the buoyancy b, `diffusivity` $\kappa$ and `stratification` $N^2$ (positive is stable; negative drives
    convection); `flow` is a
    `SpectralFlow2D` or `SpectralFlow3D` with viscosity and force. The state is a `Boussinesq.State`. Without viscosity and
    diffusion the energy
    $\langle |u|^2 + b^2/N^2 \rangle / 2$ is kept.

    **Good values:** internal waves: stratification 1, viscosity and diffusivity 1e-3 at speeds of 0.1. The waves, no
    faster than
    N, are stepped explicitly.
    """

    class State(eqx.Module):
        """A flow (its state) and its buoyancy, shape `grid.shape`."""

        flow: Any
        buoyancy: Array = quantity(unit="length/time2", doc="buoyancy")

    flow: Any
    diffusivity: Scalar = quantity(1e-3, unit="length2/time", support=POSITIVE, doc="diffusivity of the buoyancy")
    stratification: Scalar = quantity(1.0, unit="1/time2", doc="mean gradient of the buoyancy")
    source: Any = None
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        _check_carried(self)

    @property
    def grid(self) -> Grid:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.flow.grid

    def encode(self, y: State) -> Array:
        return jnp.concatenate([self.flow.encode(y.flow), self.waves.modes(y.buoyancy)[None]])

    def decode(self, state: Array) -> State:
        return self.State(self.flow.decode(state[:-1]), self.waves.field(state[-1]))

    def linear(self) -> Array:
        return _rates(self)

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        velocity, slope = _stirred(self, t, modes, inputs)
        d, waves = self.grid.dimensions, self.waves
        lift = jnp.concatenate([jnp.zeros((d - 1, *waves.shape), modes.dtype), modes[-1:]])
        lift = curl(waves, lift)[None] if d == 2 else solenoidal(waves, lift)
        sinking = scaled(-self.stratification, velocity[-1])[None]
        return slope + jnp.concatenate([lift, sinking])

    def speeds(self, y: State) -> Any:
        return self.flow.speeds(y.flow)

    def unheard(self, y: State) -> Any:
        return self.flow.unheard(y.flow)

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> dict[str, Array]:
        found = self.flow.outputs(t, y.flow, inputs)
        flux = jnp.mean(self.flow.velocity(y.flow)[-1] * y.buoyancy)
        return {**found, "buoyancy": y.buoyancy, "buoyancy_variance": jnp.mean(y.buoyancy**2), "buoyancy_flux": flux}

    @classmethod
    def example(cls) -> "Example[Boussinesq]":
        grid = Grid((32, 32))
        x, z = grid.mesh()
        y0 = cls.State(Flow2D(jnp.zeros(grid.shape)), jnp.asarray(0.1 * jnp.sin(x) * jnp.cos(z)))
        system = cls(flow=SpectralFlow2D(grid, viscosity=1e-2), diffusivity=1e-2)  # pyright: ignore[reportCallIssue]
        return Example(system, y0, jnp.linspace(0.0, 2.0, 5))


def _check_carried(system: "PassiveScalar | Boussinesq") -> None:
    name = type(system).__name__
    if not isinstance(system.flow, SpectralFlow2D | SpectralFlow3D):
        raise ArgumentError(
            f"Argument `flow` of {name} must be a SpectralFlow2D or SpectralFlow3D, but it is {type(system.flow).__name__}."
        )
    if system.flow.source is not None:
        raise ArgumentError(f"Give the source to {name} itself, not to its `flow`: it sees the whole state.")


def _rates(system: "PassiveScalar | Boussinesq") -> Array:
    """The rates of the flow and, last, of what it carries."""
    waves, flow = system.waves, system.flow.linear()
    flow = jnp.broadcast_to(flow, (1 if system.grid.dimensions == 2 else 3, *waves.shape))
    diffusion = (-system.diffusivity * waves.square(system.diffusivity.dtype))[None]
    mean = getattr(system.flow, "mean_flow", None)
    if mean is not None:
        diffusion = lax.complex(diffusion, -transport(waves, mean)[None])
    elif jnp.iscomplexobj(flow):
        diffusion = lax.complex(diffusion, jnp.zeros_like(diffusion))
    return jnp.concatenate([flow, diffusion])


def _stirred(system: "PassiveScalar | Boussinesq", t: ArrayLike, modes: Array, inputs: Inputs) -> tuple[Array, Array]:
    """The modes of the velocity, and of the transport of flow and scalar, with the flow's force."""
    waves, flow = system.waves, system.flow
    velocity = flow.velocity_modes(modes[:-1])
    d = system.grid.dimensions
    fields = waves.field(jnp.concatenate([velocity, modes[-1:]]))
    carried, theta = fields[:d], fields[d]
    products = flow.products(carried)
    count = products.shape[0]
    found = waves.modes(jnp.concatenate([products, carried * theta[None]]))
    slope = flow.of_products(found[:count])
    if flow.force is not None:
        slope = slope + flow.forced(t, inputs, modes.real.dtype)
    flux = waves.derivative(found[count], 0)
    for i in range(1, d):
        flux = flux + waves.derivative(found[count + i], i)
    gradient = getattr(system, "gradient", None)
    if gradient is not None:
        for i in range(d):
            flux = flux + scaled(gradient[i], velocity[i])
    return velocity, jnp.concatenate([slope, -flux[None]])
