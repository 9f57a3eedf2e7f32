"""Incompressible flow in a periodic plane, by its vorticity."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.fft
from jax import lax
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Input, quantity, scaled
from ..grids._checks import check_flow, check_value
from ..grids._grid import Grid
from ._force import Force, KolmogorovForce, inputs_of
from ._initial import curl, random_velocity, velocity_of_vorticity, vorticity
from ._spectral import SpectralSystem, fastest, left_out, without_mean
from ._transforms import parts
from ._waves import Waves


class Flow2D(eqx.Module):
    """The vorticity of a plane flow."""

    vorticity: Array = quantity(unit="1/time", doc="vorticity")


@SYSTEMS.named("spectral_flow_2d")
class SpectralFlow2D(SpectralSystem):
    r"""Incompressible Navier-Stokes in a periodic plane:

    $$\omega_t + (u + U) \cdot \nabla \omega = \nu \nabla^2 \omega - \mu \omega - \nu_h (-\nabla^2)^p \omega + (\nabla
    \times f)_z - \beta v$$

    with the vorticity $\omega$, the velocity u that it induces, and `viscosity` $\nu$, `drag` $\mu$, `hyperviscosity` $\nu_h$
    of power p = `hyper_order`, `mean_flow` U, and on a turning plane `beta`, the gradient of the Coriolis parameter along y; v is
    the velocity along y. Linear Rossby waves are exact in time. The transport is computed as $(\partial_{xx} - \partial_{yy})(uv) +
    \partial_{xy}(v^2 -
    u^2)$, by four transforms of truncated series (Basdevant) where the plain form takes five.

    - `force`: a `Force`, such as `KolmogorovForce(amplitude=1.0, waves=4)`, or None.
    - `source`: a callable of the fields that adds to $\omega_t$, such as a learned closure; see `SpectralSystem`.

    **Good values:** viscosity 1e-3 at unit speed in a box of $2\pi$ wants some 256 cells an axis; with `ETDRK4` a step of half
    the smallest cell by the largest speed. The mean vorticity is zero, as it must be in a periodic plane: what a start
    has is left out.

    **Source:** Basdevant (1983), J. Comput. Phys. 50:209, doi:10.1016/0021-9991(83)90064-5.

    ```python
    from simkit import fluids, simulate

    grid = fluids.Grid((32, 32))
    start = fluids.SpectralFlow2D.State(fluids.vorticity(grid, fluids.taylor_green(grid)))
    run = simulate(fluids.SpectralFlow2D(grid, viscosity=0.1), start, [0.0, 0.5, 1.0], step=0.05)
    ```
    """

    State = Flow2D

    grid: Grid = eqx.field(static=True)
    viscosity: Scalar = quantity(1e-3, unit="length2/time", support=POSITIVE, doc="kinematic viscosity")
    drag: Scalar = quantity(0.0, unit="1/time", support=POSITIVE, doc="friction with the bottom")
    hyperviscosity: Scalar = quantity(0.0, support=POSITIVE, doc="damping of the shortest waves")
    mean_flow: Any = quantity(None, unit="length/time", doc="velocity of the whole, shape (2,)", optional=True)
    force: Force | None = None
    source: Any = None
    hyper_order: int = eqx.field(static=True, default=4)
    beta: Any = quantity(None, unit="1/(length time)", doc="gradient of the Coriolis parameter along y", optional=True)
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_flow(self, 2)
        if self.beta is not None:
            check_value("beta", self.beta)

    def reads(self) -> dict[str, Input] | None:
        return inputs_of(self.force)

    def encode(self, y: Flow2D) -> Array:
        return without_mean(self.waves.modes(y.vorticity)[None], self.grid)

    def decode(self, state: Array) -> Flow2D:
        return Flow2D(self.waves.field(state[0]))

    def linear(self) -> Array:
        damping = flow_rates(self)[None]
        turning = jnp.zeros_like(damping)
        if self.beta is not None:
            turning = turning + rossby_frequencies(self.waves, self.beta)[None]
        if self.mean_flow is not None:
            turning = turning - transport(self.waves, self.mean_flow)[None]
        return damping if self.beta is None and self.mean_flow is None else lax.complex(damping, turning)

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        fields = self.waves.field(self.velocity_modes(modes))
        slope = self.of_products(self.waves.modes(self.products(fields)))
        return slope if self.force is None else slope + self.forced(t, inputs, modes.real.dtype)

    def velocity_modes(self, modes: Array) -> Array:
        """The modes of the velocity, without the mean flow, of the modes of the vorticity."""
        return velocity_of_vorticity(self.waves, modes[0])

    def products(self, velocity: Array) -> Array:
        """The products of velocities whose transforms make the transport."""
        u, v = parts(velocity)
        return jnp.stack([u * v, v * v - u * u])

    def of_products(self, products: Array) -> Array:
        """The modes of the transport from those of `products`."""
        kx, ky = (self.waves.wavenumber(axis, products.real.dtype) for axis in (0, 1))
        both, difference = parts(products)
        return (scaled(kx * kx - ky * ky, both) + scaled(kx * ky, difference))[None]

    def forced(self, t: ArrayLike, inputs: Inputs, dtype: DTypeLike) -> Array:
        """The modes of the curl of the force."""
        assert self.force is not None
        return curl(self.waves, self.force.modes(t, self.waves, inputs, dtype))[None]

    def velocity(self, y: Flow2D) -> Array:
        """The velocity `(2, *grid.shape)` at the centres, mean flow included."""
        found = self.waves.field(self.velocity_modes(self.encode(y)))
        return found if self.mean_flow is None else found + self.mean_flow.reshape(2, 1, 1)

    def speeds(self, y: Flow2D) -> Any:
        shape = self.grid.shape
        kx, ky = self.grid.wavenumbers(0)[:, None], np.abs(self.grid.wavenumbers(1)[None, : shape[1] // 2 + 1])
        square = kx**2 + ky**2
        square[0, 0] = np.inf
        stream = np.asarray(scipy.fft.rfft2(np.asarray(y.vorticity))) / square
        return fastest(np.asarray(scipy.fft.irfft2(np.stack([1j * ky * stream, -1j * kx * stream]), shape)))

    def unheard(self, y: Flow2D) -> tuple[str, float]:
        return left_out("a mean vorticity", np.mean(y.vorticity), y.vorticity)

    def outputs(self, t: ArrayLike, y: Flow2D, inputs: Inputs) -> dict[str, Array]:
        modes = self.encode(y)
        velocity = self.velocity_modes(modes)
        energy = 0.5 * jnp.sum(self.waves.inner(velocity, velocity))
        return {"vorticity": y.vorticity, "energy": energy, "enstrophy": 0.5 * self.waves.inner(modes[0], modes[0])}

    @classmethod
    def example(cls) -> "Example[SpectralFlow2D]":
        grid = Grid((48, 48))
        y0 = Flow2D(vorticity(grid, random_velocity(grid, jax.random.key(0))))
        force = KolmogorovForce(amplitude=0.5, waves=2)
        return Example(cls(grid, viscosity=2e-2, drag=0.1, force=force), y0, jnp.linspace(0.0, 2.0, 5))


def flow_rates(flow: Any) -> Array:
    """The rates at which viscosity, drag and hyperviscosity damp the modes of a flow, negative, `waves.shape`."""
    dtype = flow.viscosity.dtype
    square = flow.waves.square(dtype)
    return -(flow.viscosity * square + flow.drag + flow.hyperviscosity * square**flow.hyper_order)


def rossby_frequencies(waves: Waves, beta: Array) -> Array:
    """The rates $\\beta k_x / k^2$ at which Rossby waves turn, `waves.shape`."""
    square = waves.square(beta.dtype)
    return beta * waves.wavenumber(0, beta.dtype) / jnp.where(square > 0, square, 1)


def transport(waves: Waves, velocity: Array) -> Array:
    """The frequencies k . U of waves that a uniform velocity carries, `waves.shape`."""
    total = sum(waves.wavenumber(axis, velocity.dtype) * velocity[axis] for axis in range(waves.grid.dimensions))
    return jnp.broadcast_to(total, waves.shape)
