"""Heating and friction in place of the physics of an atmosphere, by Held and Suarez."""

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..._errors import ArgumentError
from ..._types import Inputs, Scalar
from ...core import POSITIVE, quantity
from ..grids._checks import check_value
from ._atmosphere import Atmosphere
from ._levels import KAPPA, SigmaLevels, as_levels
from ._review import check_sphere
from ._sphere import Sphere

DAY = 86400.0


class HeldSuarez(eqx.Module):
    r"""Relaxation of the temperature to that of a climate and friction near the ground, the forcing of a test of dynamical cores:

    $$T_t = \dots - k_T (T - T_e), \qquad u_t = \dots - k_f s\, u, \qquad s = \max\Big(0, \frac{\sigma - 0.7}{0.3}\Big), \qquad
    k_T = k_a + (k_s - k_a)\, s \cos^4\!\phi$$

    $$T_e = \max\Big(200, \big(315 - \Delta_y \sin^2\!\phi - \Delta_z \ln\tfrac{p}{p_0} \cos^2\!\phi\big)
    \big(\tfrac{p}{p_0}\big)^\kappa\Big), \qquad p_0 = 10^5\ \mathrm{Pa}$$

    A `source` of `PrimitiveEquationsSphere`. After some 200 days the winds of a run are those of its climate: jets of some 30 m/s
    in mid-latitudes in the means over longitude and time.

    - `sphere`, `levels`: those of the system.
    - `contrast` $\Delta_y$, from the equator to the poles; `stability` $\Delta_z$.
    - `cooling` $k_a$, `ground_cooling` $k_s$, `friction` $k_f$: rates, by default 1/(40 d), 1/(4 d) and 1/d.

    **Source:** Held and Suarez (1994), Bull. Am. Meteorol. Soc. 75:1825.

    ```python
    from simkit import fluids, simulate

    sphere = fluids.Sphere(5)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=4, source=fluids.HeldSuarez(sphere, 4))
    run = simulate(air, fluids.resting_atmosphere(sphere, 4), [0.0, 7200.0], step=3600.0)
    ```
    """

    sphere: Sphere = eqx.field(static=True)
    levels: SigmaLevels = eqx.field(static=True)
    contrast: Scalar = quantity(unit="K", doc="difference between equator and poles")
    stability: Scalar = quantity(unit="K", doc="increase of the potential temperature with height at the equator")
    cooling: Scalar = quantity(unit="1/s", support=POSITIVE, doc="rate of the relaxation of temperature aloft")
    ground_cooling: Scalar = quantity(
        unit="1/s", support=POSITIVE, doc="rate of the relaxation of temperature at the equator's ground"
    )
    friction: Scalar = quantity(unit="1/s", support=POSITIVE, doc="rate of friction at the ground")

    def __init__(
        self,
        sphere: Sphere,
        levels: SigmaLevels | int = 20,
        *,
        contrast: ArrayLike = 60.0,
        stability: ArrayLike = 10.0,
        cooling: ArrayLike = 1 / (40 * DAY),
        ground_cooling: ArrayLike = 1 / (4 * DAY),
        friction: ArrayLike = 1 / DAY,
    ):
        check_sphere(sphere)
        numbers = {"contrast": contrast, "stability": stability, "cooling": cooling}
        for name, value in (numbers | {"ground_cooling": ground_cooling, "friction": friction}).items():
            check_value(name, value)
        self.sphere, self.levels, self.contrast, self.stability = sphere, as_levels(levels), contrast, stability
        self.cooling, self.ground_cooling, self.friction = cooling, ground_cooling, friction

    def equilibrium(self, surface_pressure: ArrayLike) -> jnp.ndarray:
        """The temperature $T_e$ of the layers, `(layers, *sphere.shape)`, for a pressure at the ground."""
        pressure = jnp.asarray(surface_pressure)
        dtype = pressure.dtype
        sine = jnp.asarray(self.sphere.sines()[None, :, None], dtype)
        share = jnp.asarray(self.levels.sigma()[:, None, None], dtype) * pressure[None] / 1e5
        warm = 315.0 - self.contrast * sine**2 - self.stability * jnp.log(share) * (1 - sine**2)
        return jnp.maximum(200.0, warm * share**KAPPA)

    def check_of(self, sphere: Sphere, levels: SigmaLevels) -> None:
        """Refuse an atmosphere of another sphere or other levels.

        **Raises:** an `ArgumentError`.
        """
        for name, own, other in (("sphere", self.sphere, sphere), ("levels", self.levels, levels)):
            if own != other:
                raise ArgumentError(
                    f"Argument `{name}` of `HeldSuarez` must be that of the atmosphere, {other!r}, but it is {own!r}."
                )

    def __call__(self, t: ArrayLike, y: Atmosphere, inputs: Inputs) -> Atmosphere:
        """Return what is added to the time derivatives."""
        dtype = y.temperature.dtype
        near = jnp.maximum(0.0, (jnp.asarray(self.levels.sigma()[:, None, None], dtype) - 0.7) / 0.3)
        cosine = jnp.asarray(self.sphere.cosines()[None, :, None], dtype)
        rate = self.cooling + (self.ground_cooling - self.cooling) * near * cosine**4
        warming = rate * (self.equilibrium(y.surface_pressure) - y.temperature)
        return Atmosphere(warming, -(self.friction * near)[None] * y.velocity, jnp.zeros_like(y.surface_pressure))
