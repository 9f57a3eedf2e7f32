"""Incompressible flow in a periodic box, by its velocity."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.fft
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._types import Inputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Input, quantity
from ..grids._checks import check_flow
from ..grids._grid import Grid
from ._flow2d import flow_rates
from ._force import Force, inputs_of
from ._initial import curl, solenoidal, taylor_green
from ._spectral import SpectralSystem, fastest
from ._transforms import parts


class Flow3D(eqx.Module):
    """The velocity of a flow in space, `(3, *grid.shape)`."""

    velocity: Array = quantity(unit="length/time", doc="velocity")


@SYSTEMS.named("spectral_flow_3d")
class SpectralFlow3D(SpectralSystem):
    r"""Incompressible Navier-Stokes in a periodic box:

    $$u_t + u \cdot \nabla u = -\nabla p + \nu \nabla^2 u - \mu u - \nu_h (-\nabla^2)^p u + f, \qquad \nabla \cdot u = 0$$

    with `viscosity` $\nu$, `drag` $\mu$ and `hyperviscosity` $\nu_h$ of power `hyper_order`. The pressure is projected
    out. Of the
    six products in $\nabla \cdot (u u)$ one is taken off the diagonal, which the pressure does not notice: eight transforms
    (three back, five forth) in place of nine or more (Basdevant).

    - `force`: a `Force`, or None; `source`: a callable of the fields that adds to $u_t$, whose divergence is taken out.

    The part of a start that has divergence is taken out. A mean velocity is kept.

    **Good values:** the vortices of Taylor and Green at unit speed in a box of $2\pi$: viscosity 1/1600 wants 256 cells an axis
    and steps of 0.005; 1/100 is resolved by 32.

    **Source:** Basdevant (1983), J. Comput. Phys. 50:209, doi:10.1016/0021-9991(83)90064-5.
    """

    State = Flow3D

    grid: Grid = eqx.field(static=True)
    viscosity: Scalar = quantity(1e-2, unit="length2/time", support=POSITIVE, doc="kinematic viscosity")
    drag: Scalar = quantity(0.0, unit="1/time", support=POSITIVE, doc="linear friction")
    hyperviscosity: Scalar = quantity(0.0, support=POSITIVE, doc="damping of the shortest waves")
    force: Force | None = None
    source: Any = None
    hyper_order: int = eqx.field(static=True, default=4)
    degree: ClassVar[int] = 2
    real: ClassVar[bool] = True

    def __check_init__(self):
        check_flow(self, 3)

    def reads(self) -> dict[str, Input] | None:
        return inputs_of(self.force)

    def encode(self, y: Flow3D) -> Array:
        return solenoidal(self.waves, self.waves.modes(y.velocity))

    def decode(self, state: Array) -> Flow3D:
        return Flow3D(self.waves.field(state))

    def linear(self) -> Array:
        return flow_rates(self)[None]

    def rest(self, t: ArrayLike, modes: Array, inputs: Inputs) -> Array:
        slope = self.of_products(self.waves.modes(self.products(self.waves.field(modes))))
        return slope if self.force is None else slope + self.forced(t, inputs, modes.real.dtype)

    def velocity_modes(self, modes: Array) -> Array:
        """The modes of the velocity, which are the state's own."""
        return modes[:3]

    def products(self, velocity: Array) -> Array:
        """The products of velocities whose transforms make the transport."""
        u, v, w = parts(velocity)
        return jnp.stack([u * u - w * w, v * v - w * w, u * v, u * w, v * w])

    def of_products(self, products: Array) -> Array:
        """The modes of the transport and the pressure's force from those of `products`."""
        slope = self.waves.derivative
        a, b, c, d, e = parts(products)
        divergence = jnp.stack(
            [
                slope(a, 0) + slope(c, 1) + slope(d, 2),
                slope(c, 0) + slope(b, 1) + slope(e, 2),
                slope(d, 0) + slope(e, 1),
            ]
        )
        return -solenoidal(self.waves, divergence)

    def forced(self, t: ArrayLike, inputs: Inputs, dtype: DTypeLike) -> Array:
        """The modes of the force, freed of what is a gradient."""
        assert self.force is not None
        return solenoidal(self.waves, self.force.modes(t, self.waves, inputs, dtype))

    def velocity(self, y: Flow3D) -> Array:
        """The velocity `(3, *grid.shape)` at the centres."""
        return y.velocity

    def speeds(self, y: Flow3D) -> Any:
        return fastest(y.velocity)

    def unheard(self, y: Flow3D) -> tuple[str, float]:
        values = np.asarray(y.velocity)
        shape = self.grid.shape
        k = [self.grid.wavenumbers(axis).astype(values.dtype) for axis in range(3)]
        k[2] = np.abs(k[2][: shape[2] // 2 + 1])
        x, y_, z = k[0][:, None, None], k[1][None, :, None], k[2]
        modes: Any = scipy.fft.rfftn(values, axes=(1, 2, 3), norm="forward")
        along = x * modes[0] + y_ * modes[1] + z * modes[2]
        square = x * x + y_ * y_ + z * z
        square[0, 0, 0] = 1
        power = (along.real**2 + along.imag**2) / square
        power[..., 1 : (shape[2] + 1) // 2] *= 2  # for the half that is not there
        whole = float((values**2).mean()) * 3
        return "divergence", float(power.sum()) / whole if whole else 0.0

    def outputs(self, t: ArrayLike, y: Flow3D, inputs: Inputs) -> dict[str, Array]:
        modes = self.encode(y)
        turning = curl(self.waves, modes)
        inner = self.waves.inner
        return {
            "velocity": y.velocity,
            "energy": 0.5 * jnp.sum(inner(modes, modes)),
            "enstrophy": 0.5 * jnp.sum(inner(turning, turning)),
        }

    @classmethod
    def example(cls) -> "Example[SpectralFlow3D]":
        grid = Grid((16, 16, 16))
        return Example(cls(grid, viscosity=5e-2), Flow3D(taylor_green(grid)), jnp.linspace(0.0, 1.0, 3))
