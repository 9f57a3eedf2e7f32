"""A scalar that a given wind carries over a sphere."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from ..._doors import check_count
from ..._types import Inputs, Outputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Reviewed, SplitSystem, quantity
from ..grids._checks import check_source, check_value
from ._barotropic import damping_rates
from ._harmonics import Harmonics
from ._review import added, check_sphere, check_sphere_step, check_start
from ._sphere import Sphere
from ._starts import zonal_flow


class SphereScalar(eqx.Module):
    """A scalar on a sphere, such as a concentration."""

    scalar: Float[Array, "latitudes longitudes"] = quantity(doc="what the wind carries")


@SYSTEMS.named("advection_sphere")
class AdvectionSphere(SplitSystem, Reviewed):
    r"""A scalar c, such as a concentration, that a given wind u carries over a sphere:

    $$c_t = -\nabla \cdot (u c) + D \nabla^2 c - \eta \Big(\frac{l (l + 1)}{T (T + 1)}\Big)^p c$$

    Solvers step spherical harmonics; diffusion is the linear part. The mean of c is kept to rounding. Series ring around edges.

    - `sphere`: truncation, grid and radius.
    - `velocity`: the wind, `(2, *sphere.shape)`, to the east and to the north; it does not change in time.
    - `diffusivity`: D; `damping`, `damping_order`: hyperdiffusion, the rate $\eta$ at which the highest degree is damped, and p.
    - `source`: None, or a callable `(t, y, inputs)` that returns a state, what it adds to $c_t$.

    **Good values:** with `ETDRK4` steps of 2 h at T42 for winds of 40 m/s.

    **Source:** Williamson et al. (1992), J. Comput. Phys. 102:211, section 3.1.

    ```python
    import numpy as np
    from simkit import fluids, simulate

    sphere = fluids.Sphere(10)
    carried = fluids.AdvectionSphere(sphere, velocity=fluids.zonal_flow(sphere).velocity)
    start = carried.State(np.cos(sphere.mesh()[1]) ** 2 * np.cos(sphere.mesh()[0]))
    run = simulate(carried, start, [0.0, 86400.0], step=3600.0)
    ```
    """

    State = SphereScalar

    sphere: Sphere = eqx.field(static=True)
    damping_order: int = eqx.field(static=True)
    source: Any
    velocity: Any = quantity(unit="m/s", doc="the wind")
    diffusivity: Scalar = quantity(unit="m^2/s", support=POSITIVE, doc="diffusivity of the scalar")
    damping: Scalar = quantity(unit="1/s", support=POSITIVE, doc="rate at which the highest degree is damped")

    def __init__(
        self,
        sphere: Sphere,
        *,
        velocity: ArrayLike,
        diffusivity: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        damping_order: int = 4,
        source: Any = None,
    ):
        check_sphere(sphere)
        sphere.check_field(velocity, "velocity", (2,))
        for name, value in {"diffusivity": diffusivity, "damping": damping}.items():
            check_value(name, value)
        check_count("damping_order", damping_order, 0)
        check_source(source)
        self.sphere, self.velocity, self.diffusivity, self.damping = sphere, velocity, diffusivity, damping
        self.damping_order, self.source = damping_order, source

    @property
    def harmonics(self) -> Harmonics:
        """The spherical harmonics of the field."""
        return Harmonics(self.sphere)

    def encode(self, y: SphereScalar) -> Array:
        return self.harmonics.modes(y.scalar[None])

    def decode(self, state: Array) -> SphereScalar:
        return SphereScalar(self.harmonics.field(state)[0])

    def linear(self) -> Array:
        found = self.harmonics
        square = jnp.asarray(found.eigenvalues() / self.sphere.radius**2, self.diffusivity.dtype)
        return damping_rates(found, self.damping, self.damping_order) - self.diffusivity * square

    def nonlinear(self, t: ArrayLike, state: Array, inputs: Inputs) -> Array:
        found, sphere = self.harmonics, self.sphere
        weight = found.latitude_values(sphere.weights() / sphere.cosines(), state.real.dtype)
        carried = found.around(found.summed(state)) * weight
        modes = found.projected(found.fourier(lax.optimization_barrier(carried * found.columns(self.velocity))))
        slope = -found.flux(modes[:, :, :1], modes[:, :, 1:])
        return slope if self.source is None else slope + self.encode(added(self, t, self.decode(state), inputs))

    def outputs(self, t: ArrayLike, y: SphereScalar, inputs: Inputs) -> Outputs:
        return {"scalar": y.scalar, "mean": self.sphere.mean(y.scalar), "mean_square": self.sphere.mean(y.scalar**2)}

    def invariants(self, t: ArrayLike, y: SphereScalar) -> dict[str, Array]:
        """The amount of the scalar; what a source adds is not known."""
        return {} if self.source is not None else {"amount": self.sphere.mean(y.scalar) * self.sphere.area}

    def review(self, y0: SphereScalar, step: float | None, solver: object) -> None:
        check_start(self, y0, {"scalar": ()})
        check_sphere_step(self, self.velocity, step, solver)

    @classmethod
    def example(cls) -> "Example[AdvectionSphere]":
        """A smooth field in a flow over the poles."""
        sphere = Sphere(5)
        longitude, latitude = sphere.mesh()
        field = jnp.asarray(0.1 + jnp.cos(latitude) ** 2 * jnp.cos(2 * longitude))
        system = cls(sphere, velocity=zonal_flow(sphere, angle=1.0).velocity, diffusivity=1e5, damping=3e-5)
        return Example(system, SphereScalar(field), jnp.linspace(0.0, 86400.0, 3))
