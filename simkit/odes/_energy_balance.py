"""The climate of a planet by latitude: sunlight, heat lost to space, and winds that share it out."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import Inputs, Scalar, Vector
from ..core import POSITIVE, SYSTEMS, UNIT_INTERVAL, Example, Input, PlainSystem, quantity
from ._inputs import optional_input


@SYSTEMS.named("energy_balance")
class EnergyBalance(PlainSystem):
    r"""A diffusive energy balance in which ice reflects sunlight, so that the planet has several climates.

    $$C \frac{\partial T}{\partial t} = \frac{S}{4} s(x) (1 - \alpha(T)) - (A + B T) + G
    + \frac{\partial}{\partial x} \left( D (1 - x^2) \frac{\partial T}{\partial x} \right)$$

    with the sine of latitude x, $s = 1 - 0.482\, P_2(x)$ the yearly sunlight, $P_2 = (3 x^2 - 1)/2$, the albedo
    $\alpha$ that goes from `warm_albedo` to `ice_albedo` within `width` around `freezing`, $C$ `heat_capacity`, $S$ `sunlight`,
    $A$ `outgoing`, $B$ `feedback`, $D$ `mixing`, and the optional input `forcing` G (W/m^2), 3.7 for twice the carbon dioxide.
    Bands of equal area, so cells of equal width in x, with fluxes at their edges: second order. With one albedo the equilibrium
    is $((1 - \alpha) S / 4 - A) / B - 0.482\, P_2(x) (1 - \alpha) (S / 4) / (B + 6 D)$.

    **Good values:** the defaults, today's climate; from cold (-40) the same sunlight leaves the planet frozen. Some 40 bands. The
    unit of time is a year with a heat capacity of 10 W yr/(m^2 K), 75 m of sea.

    **Reference:** North, Cahalan & Coakley (1981), Reviews of Geophysics 19:91, doi:10.1029/RG019i001p00091.
    """

    class State(eqx.Module):
        """Temperatures of bands of latitude that have equal areas, from pole to pole."""

        temperature: Vector = quantity(unit="degC", doc="of the bands, shape (n,), from south to north")

    class Outputs(eqx.Module):
        """Outputs of a climate."""

        temperature: Vector = quantity(unit="degC", doc="of the bands, shape (n,)")
        mean: Scalar = quantity(unit="degC", doc="over the globe")
        ice: Scalar = quantity(support=UNIT_INTERVAL, doc="share of the globe that is frozen")

    heat_capacity: Scalar = quantity(10.0, unit="W yr/m^2/K", support=POSITIVE, doc="of the layer that warms")
    sunlight: Scalar = quantity(1360.0, unit="W/m^2", support=POSITIVE, doc="that a disk facing the sun receives")
    outgoing: Scalar = quantity(203.3, unit="W/m^2", doc="radiated to space at 0 degC")
    feedback: Scalar = quantity(2.09, unit="W/m^2/K", support=POSITIVE, doc="more radiated for each degree")
    mixing: Scalar = quantity(0.649, unit="W/m^2/K", support=POSITIVE, doc="of heat between latitudes")
    warm_albedo: Scalar = quantity(0.31, support=UNIT_INTERVAL, doc="sunlight reflected without ice")
    ice_albedo: Scalar = quantity(0.62, support=UNIT_INTERVAL, doc="sunlight reflected by ice")
    freezing: Scalar = quantity(-10.0, unit="degC", doc="temperature at which a band is half frozen")
    width: Scalar = quantity(2.0, unit="K", support=POSITIVE, doc="of the change from one albedo to the other")

    def reads(self) -> dict[str, Input]:
        return {"forcing": Input(unit="W/m^2", default=0.0, doc="radiative forcing")}

    def vector_field(self, t: Float[Array, ""], y: State, inputs: Inputs) -> State:
        temperature = y.temperature
        width = 2 / temperature.size
        edge = width * jnp.arange(1, temperature.size, dtype=temperature.dtype) - 1
        flux = self.mixing * (1 - edge**2) * jnp.diff(temperature) / width
        shared = jnp.diff(jnp.pad(flux, 1)) / width
        absorbed = self.sunlight / 4 * self._light(temperature) * (1 - self._albedo(temperature))
        lost = self.outgoing + self.feedback * temperature - optional_input(inputs, "forcing")
        return self.State(temperature=(absorbed - lost + shared) / self.heat_capacity)

    def outputs(self, t: Float[Array, ""], y: State, inputs: Inputs) -> Outputs:
        frozen = self._frozen(y.temperature)
        return self.Outputs(temperature=y.temperature, mean=jnp.mean(y.temperature), ice=jnp.mean(frozen))

    def _light(self, temperature: Array) -> Array:
        """The share of the mean sunlight that each band receives, exact over the band."""
        n = temperature.size
        edge = 2 / n * jnp.arange(n + 1, dtype=temperature.dtype) - 1
        return 1 - 0.482 * jnp.diff((edge**3 - edge) / 2) * n / 2

    def _frozen(self, temperature: Array) -> Array:
        return 0.5 * (1 - jnp.tanh((temperature - self.freezing) / self.width))

    def _albedo(self, temperature: Array) -> Array:
        return self.warm_albedo + (self.ice_albedo - self.warm_albedo) * self._frozen(temperature)

    @classmethod
    def example(cls) -> "Example[EnergyBalance]":
        x = 2 / 40 * (jnp.arange(40.0) + 0.5) - 1
        return Example(cls(), cls.State(temperature=25.0 - 40.0 * x**2), jnp.linspace(0.0, 50.0, 101))
