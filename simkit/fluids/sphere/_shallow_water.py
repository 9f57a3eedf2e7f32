"""Shallow water on a rotating sphere, by its vorticity and divergence."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array

from ..._doors import check_count
from ..._types import Inputs, Outputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Explained, Reviewed, SplitSystem, quantity, scaled
from ..grids._checks import check_source, check_value
from ..volumes._water import Water
from ._barotropic import damping_rates
from ._harmonics import Harmonics, times_i
from ._review import (
    added,
    check_sphere,
    check_sphere_step,
    check_start,
    lowest_on_sphere,
)
from ._sphere import Sphere
from ._splitting import check_splitting
from ._starts import zonal_flow


@SYSTEMS.named("shallow_water_sphere")
class ShallowWaterSphere(SplitSystem, Reviewed, Explained):
    r"""Water of height h over a bed b on a rotating sphere, with vorticity $\zeta$ and divergence $\delta$ of its velocity u:

    $$\zeta_t = -\nabla \cdot \big((\zeta + f) u\big), \qquad
    \delta_t = \nabla \times \big((\zeta + f) u\big) - \nabla^2 \big(\tfrac12 |u|^2 + g (h + b)\big), \qquad
    h_t = -\nabla \cdot (h u)$$

    with $f = 2 \Omega \sin\phi$. Solvers step spherical harmonics. The gravity waves of water of the height H =
    `depth` are the linear
    part: for each degree l, with $K = l (l + 1)/a^2$, divergence and height are coupled by a matrix of two rows, which the modes

    $$z_\pm = \delta \pm i s h, \qquad s = \sqrt{g K / H}, \qquad \dot z_\pm = \mp i \omega z_\pm + \dots, \qquad
    \omega = \sqrt{g H K}$$

    make diagonal. What h differs from H stands in the rest. So the step follows from the wind and not from gravity waves, which
    `ETDRK4` steps exactly and `KenCarp4` implicitly. (`CNRK3` is stable with short steps only.)

    The state is that of `ShallowWater`: height, and velocity to the east and to the north. Any consistent units; metres and seconds
    with the default numbers, those of the Earth.

    - `sphere`: truncation, grid and radius.
    - `depth`: H, near the mean height; results depend on it within the error of steps. A depth so far from the mean height that
        steps would make gravity waves grow is refused.
    - `gravity`: g; `rotation`: $\Omega$; `bed`: b, the shape of the sphere's grid or a number.
    - `damping`, `damping_order`: hyperdiffusion of all fields. The rate at which modes of the highest degree T are
        damped, and p; other
        degrees at $(l (l + 1)/T (T + 1))^p$ of it.
    - `tilt`: the angle in radians by which the axis of rotation is turned against the poles, towards longitude 180
        degrees. Nothing may
        depend on it but errors: a test of the poles.
    - `source`: None, or a callable `(t, y, inputs)` that returns a state, what it adds to the time derivatives of
        height and velocity.

    **Good values:** `depth` the mean of the start. With `ETDRK4` steps of 2 h at T31, 90 min at T42 and 40 min at T85 for winds of
    40 m/s, which change a flow over a mountain in 5 days by 4e-4, 2e-4 and 1e-4 of its height. Damping of 1/(4 h)
    with order 4 where
    a jet breaks up.

    **Source:** Bourke (1972), Mon. Weather Rev. 100:683; Hack and Jakob (1992), NCAR/TN-343+STR.

    ```python
    from simkit import fluids, simulate

    sphere = fluids.Sphere(10)
    water = fluids.ShallowWaterSphere(sphere, depth=3000.0)
    start = fluids.zonal_flow(sphere, angle=0.5)
    run = simulate(water, start, [0.0, 3600.0], step=1800.0)
    ```
    """

    State = Water

    sphere: Sphere = eqx.field(static=True)
    damping_order: int = eqx.field(static=True)
    tilt: float = eqx.field(static=True)
    source: Any
    depth: Scalar = quantity(unit="m", support=POSITIVE, doc="height of water whose gravity waves are the linear part")
    gravity: Scalar = quantity(unit="m/s^2", support=POSITIVE, doc="acceleration by gravity")
    rotation: Scalar = quantity(unit="1/s", doc="angular velocity of the sphere")
    bed: Any = quantity(unit="m", doc="height of the bed")
    damping: Scalar = quantity(unit="1/s", support=POSITIVE, doc="rate at which the highest degree is damped")

    def __init__(
        self,
        sphere: Sphere,
        *,
        depth: ArrayLike,
        gravity: ArrayLike = 9.80616,
        rotation: ArrayLike = 7.292e-5,
        bed: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        damping_order: int = 4,
        tilt: float = 0.0,
        source: Any = None,
    ):
        check_sphere(sphere)
        check_value("depth", depth, positive=True)
        check_value("gravity", gravity, positive=True)
        for name, value in {"rotation": rotation, "damping": damping, "tilt": tilt}.items():
            check_value(name, value)
        check_count("damping_order", damping_order, 0)
        check_source(source)
        if jnp.ndim(bed):
            sphere.check_field(bed, "bed")
        self.sphere, self.depth, self.gravity, self.rotation, self.bed = sphere, depth, gravity, rotation, bed
        self.damping, self.damping_order, self.source = damping, damping_order, source
        self.tilt = float(tilt)

    @property
    def harmonics(self) -> Harmonics:
        """The spherical harmonics of the fields."""
        return Harmonics(self.sphere)

    def _weight(self) -> Array:
        """The factors s of the heights in the modes; that of the mean, which no wave has, is that of degree 1."""
        square = jnp.asarray(np.maximum(self.harmonics.eigenvalues(), 2.0) / self.sphere.radius**2, self.gravity.dtype)
        return jnp.sqrt(self.gravity * square / self.depth)

    def encode(self, y: Water) -> Array:
        found = self.harmonics
        divergence, vorticity = found.divergence_and_curl(y.velocity)
        return self._joined(vorticity, divergence, found.modes(y.height[None]))

    def decode(self, state: Array) -> Water:
        vorticity, divergence, height = self._apart(state)
        return Water(self.harmonics.field(height)[0], self.harmonics.velocity(vorticity, divergence))

    def _joined(self, vorticity: Array, divergence: Array, height: Array) -> Array:
        wave = times_i(scaled(self._weight(), height))
        return jnp.concatenate([vorticity, divergence + wave, divergence - wave], 2)

    def _apart(self, state: Array) -> tuple[Array, Array, Array]:
        """The modes of vorticity, divergence and height."""
        vorticity, ahead, behind = state[:, :, :1], state[:, :, 1:2], state[:, :, 2:]
        height = scaled(-0.5 / self._weight(), times_i(ahead - behind))
        return vorticity, 0.5 * (ahead + behind), height

    def linear(self) -> Array:
        found, dtype = self.harmonics, self.gravity.dtype
        eigenvalues = found.eigenvalues()
        frequency = jnp.sqrt(self.gravity * self.depth) * jnp.asarray(np.sqrt(eigenvalues) / self.sphere.radius, dtype)
        waves = jnp.concatenate([jnp.zeros_like(frequency), -frequency, frequency], 2)
        damping = damping_rates(found, self.damping, self.damping_order)
        return lax.complex(jnp.broadcast_to(damping, waves.shape), waves)

    def nonlinear(self, t: ArrayLike, state: Array, inputs: Inputs) -> Array:
        found = self.harmonics
        vorticity, divergence, height = self._apart(state)
        east, north = found.wind(vorticity, divergence)
        columns = found.around(found.summed(jnp.concatenate([vorticity, height, east, north], 2)))
        # Without the barrier XLA computes the products twice, in the sums and in the differences of half circles.
        modes = found.projected(found.fourier(lax.optimization_barrier(self._products(columns))))
        energy, *fluxes = (modes[:, :, i : i + 1] for i in range(5))
        slope = self._joined(
            -found.flux(fluxes[0], fluxes[1]),
            found.flux(fluxes[1], -fluxes[0]) - found.laplacian(energy),
            -found.flux(fluxes[2], fluxes[3]),
        )
        return slope if self.source is None else slope + self.encode(added(self, t, self.decode(state), inputs))

    def _products(self, columns: Array) -> Array:
        """The products on the grid, with the weights of the latitudes that their projections need."""
        sphere, dtype = self.sphere, columns.dtype
        values = lambda x: self.harmonics.latitude_values(x, dtype)
        weight = values(sphere.weights())
        shared = values(sphere.weights() / sphere.cosines() ** 2)
        vorticity, height, east, north = (columns[:, :, i : i + 1] for i in range(4))
        absolute = (vorticity + self._coriolis(dtype)) * shared
        above = (height - self.depth) * shared
        energy = 0.5 * shared * (east * east + north * north)
        if jnp.ndim(self.bed):
            energy = energy + weight * self.harmonics.columns(self.gravity * self.bed[None])
        return jnp.concatenate([energy, absolute * east, absolute * north, above * east, above * north], 2)

    def _coriolis(self, dtype: DTypeLike) -> Array:
        """The Coriolis parameter in columns."""
        sphere, values = self.sphere, self.harmonics.latitude_values
        found = math.cos(self.tilt) * values(sphere.sines(), dtype)
        if self.tilt:
            longitude = 2 * np.pi * np.arange(sphere.longitudes) / sphere.longitudes
            across = jnp.asarray(np.sin(self.tilt) * np.cos(longitude)[:, None, None, None], dtype)
            found = found - across * values(sphere.cosines(), dtype)
        return 2 * self.rotation * found

    def outputs(self, t: ArrayLike, y: Water, inputs: Inputs) -> Outputs:
        found, sphere = self.harmonics, self.sphere
        divergence, vorticity = found.divergence_and_curl(y.velocity)
        both = found.field(jnp.concatenate([vorticity, divergence], 2))
        absolute = both[0] + found.fields(jnp.broadcast_to(self._coriolis(both.dtype), found.grid))[0]
        kinetic = 0.5 * y.height * jnp.sum(y.velocity**2, axis=0)
        potential = self.gravity * y.height * (0.5 * y.height + self.bed)
        return {
            "height": y.height,
            "surface": y.height + self.bed,
            "velocity": y.velocity,
            "vorticity": both[0],
            "divergence": both[1],
            "volume": sphere.mean(y.height) * sphere.area,
            "energy": sphere.mean(kinetic + potential) * sphere.area,
            "enstrophy": sphere.mean(0.5 * absolute**2 / y.height) * sphere.area,
        }

    def invariants(self, t: ArrayLike, y: Water) -> dict[str, Array]:
        """The volume of water; what a source adds is not known."""
        return {} if self.source is not None else {"volume": self.sphere.mean(y.height) * self.sphere.area}

    def review(self, y0: Water, step: float | None, solver: object) -> None:
        check_start(self, y0, {"height": (), "velocity": (2,)})
        check_sphere_step(self, y0.velocity, step, solver, 2 * abs(float(self.rotation)))
        check_splitting(self, y0.height, step, solver)

    def explain(self, t: ArrayLike, y: Water) -> str:
        return lowest_on_sphere(self.sphere, t, y.height)

    @classmethod
    def example(cls) -> "Example[ShallowWaterSphere]":
        """A zonal flow that is tilted against the axis of rotation."""
        sphere = Sphere(5)
        y0 = zonal_flow(sphere, angle=0.5)
        return Example(cls(sphere, depth=2600.0, damping=1e-5), y0, jnp.linspace(0.0, 7200.0, 3))
