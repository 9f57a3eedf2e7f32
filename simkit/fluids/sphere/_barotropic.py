"""Flow without divergence on a rotating sphere, by its vorticity."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._doors import check_count
from ..._types import Inputs, Outputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Reviewed, SplitSystem, quantity
from ..grids._checks import check_source, check_value
from ..spectral._flow2d import Flow2D
from ._harmonics import Harmonics
from ._review import added, check_sphere, check_sphere_step, check_start
from ._sphere import Sphere
from ._starts import rossby_haurwitz


@SYSTEMS.named("barotropic_sphere")
class BarotropicSphere(SplitSystem, Reviewed):
    r"""The barotropic vorticity equation, incompressible flow in a thin layer on a rotating sphere of radius a:

    $$\zeta_t + \nabla \cdot \big((\zeta + f) u\big) = -\mu \zeta - \eta \Big(\frac{l (l + 1)}{T (T + 1)}\Big)^p \zeta, \qquad
    f = 2 \Omega \sin\phi$$

    with the vorticity $\zeta$ and the velocity u that it induces. Solvers step spherical harmonics; the linear part has damping and
    what the rotation does to waves, $2 i \Omega m / l (l + 1)$, so that a single Rossby wave is exact for any step. Without damping
    energy and enstrophy are kept but for errors of steps.

    - `sphere`: truncation T, grid and radius.
    - `rotation`: $\Omega$, by default the Earth's in 1/s; `drag`: $\mu$.
    - `damping`, `damping_order`: hyperdiffusion, the rate $\eta$ at which the highest degree is damped, and p.
    - `source`: None, or a callable `(t, y, inputs)` that returns a state, what it adds to $\zeta_t$.

    The state is that of `SpectralFlow2D`, a vorticity of the shape of the sphere's grid; its mean, which no flow has, is left out.

    **Good values:** with `ETDRK4` steps of 2 h at T31 and 1.5 h at T42 for winds of 40 m/s.

    **Source:** Haurwitz (1940), J. Mar. Res. 3:254; Bourke (1972), Mon. Weather Rev. 100:683.

    ```python
    from simkit import fluids, simulate

    sphere = fluids.Sphere(10)
    start = fluids.BarotropicSphere.State(fluids.rossby_haurwitz(sphere)[0])
    run = simulate(fluids.BarotropicSphere(sphere), start, [0.0, 86400.0], step=3600.0)
    ```
    """

    State = Flow2D

    sphere: Sphere = eqx.field(static=True)
    rotation: Scalar = quantity(7.292e-5, unit="1/s", doc="angular velocity of the sphere")
    drag: Scalar = quantity(0.0, unit="1/s", support=POSITIVE, doc="friction with the ground")
    damping: Scalar = quantity(0.0, unit="1/s", support=POSITIVE, doc="rate at which the highest degree is damped")
    source: Any = None
    damping_order: int = eqx.field(static=True, default=4)

    def __check_init__(self):
        check_sphere(self.sphere)
        for name in ("rotation", "drag", "damping"):
            check_value(name, getattr(self, name))
        check_count("damping_order", self.damping_order, 0)
        check_source(self.source)

    @property
    def harmonics(self) -> Harmonics:
        """The spherical harmonics of the field."""
        return Harmonics(self.sphere)

    def encode(self, y: Flow2D) -> Array:
        found = self.harmonics
        modes = found.modes(y.vorticity[None])
        return jnp.where(found.eigenvalues() > 0, modes, 0)

    def decode(self, state: Array) -> Flow2D:
        return Flow2D(self.harmonics.field(state)[0])

    def linear(self) -> Array:
        found = self.harmonics
        turn = 2 * self.rotation * jnp.asarray(found.orders() * found.inverse(), self.rotation.dtype)
        return lax.complex(damping_rates(found, self.damping, self.damping_order) - self.drag, turn)

    def nonlinear(self, t: ArrayLike, state: Array, inputs: Inputs) -> Array:
        found, sphere = self.harmonics, self.sphere
        columns = found.around(found.summed(jnp.concatenate([state, *found.wind(state, None)], 2)))
        weight = found.latitude_values(sphere.weights() / sphere.cosines() ** 2, columns.dtype)
        products = lax.optimization_barrier(columns[:, :, 1:] * (columns[:, :, :1] * weight))
        modes = found.projected(found.fourier(products))
        slope = -found.flux(modes[:, :, :1], modes[:, :, 1:])
        return slope if self.source is None else slope + self.encode(added(self, t, self.decode(state), inputs))

    def velocity(self, y: Flow2D) -> Array:
        """The velocity to the east and to the north, `(2, *sphere.shape)`."""
        return self.harmonics.velocity(self.encode(y))

    def outputs(self, t: ArrayLike, y: Flow2D, inputs: Inputs) -> Outputs:
        velocity, mean = self.velocity(y), self.sphere.mean
        energy, enstrophy = 0.5 * mean(jnp.sum(velocity**2, axis=0)), 0.5 * mean(y.vorticity**2)
        return {"vorticity": y.vorticity, "velocity": velocity, "energy": energy, "enstrophy": enstrophy}

    def review(self, y0: Flow2D, step: float | None, solver: object) -> None:
        check_start(self, y0, {"vorticity": ()})
        check_sphere_step(self, self.velocity(y0), step, solver)

    @classmethod
    def example(cls) -> "Example[BarotropicSphere]":
        """A Rossby-Haurwitz wave with friction."""
        sphere = Sphere(5)
        y0 = Flow2D(rossby_haurwitz(sphere, wave=2)[0])
        return Example(cls(sphere, drag=1e-6, damping=1e-5), y0, jnp.linspace(0.0, 86400.0, 3))


def damping_rates(harmonics: Harmonics, rate: Array, order: int) -> Array:
    """The rates at which hyperdiffusion damps modes, negative, `harmonics.shape`."""
    top = harmonics.sphere.truncation
    return -rate * jnp.asarray((harmonics.eigenvalues() / (top * (top + 1))) ** order, rate.dtype)
