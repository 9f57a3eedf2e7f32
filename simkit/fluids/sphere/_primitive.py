"""The primitive equations of a dry atmosphere on a rotating sphere, in sigma levels."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._doors import check_count
from ..._types import Inputs, Outputs, Scalar
from ...core import POSITIVE, SYSTEMS, Example, Explained, Reviewed, SplitSystem, quantity, scaled
from ..grids._checks import check_source, check_value
from ._atmosphere import Atmosphere, jablonowski_williamson
from ._barotropic import damping_rates
from ._harmonics import Harmonics, times_i
from ._held_suarez import HeldSuarez
from ._levels import KAPPA, SigmaLevels, as_levels, vertical_modes
from ._review import added, check_sphere, check_sphere_step, check_start, lowest_on_sphere
from ._sphere import Sphere
from ._splitting import check_layers


@SYSTEMS.named("primitive_equations_sphere")
class PrimitiveEquationsSphere(SplitSystem, Reviewed, Explained):
    r"""A dry atmosphere in hydrostatic balance on a rotating sphere, in layers of $\sigma = p / p_s$, with vorticity $\zeta$ and
    divergence $\delta$ of the velocity u, the temperature T and $\pi = \ln p_s$:

    $$\zeta_t = \nabla \times F, \qquad \delta_t = \nabla \cdot F - \nabla^2 \big(\Phi + \tfrac12 |u|^2\big), \qquad
    F = (\zeta + f) u^\perp - \dot\sigma \frac{\partial u}{\partial \sigma} - R T \nabla \pi$$

    $$T_t = -u \cdot \nabla T - \dot\sigma \frac{\partial T}{\partial \sigma} + \kappa T \frac{\omega}{p}, \qquad
    \pi_t = -\int_0^1 (\delta + u \cdot \nabla \pi)\, d\sigma$$

    with $u^\perp = (v, -u)$, $f = 2 \Omega \sin\phi$, and the differences of Simmons and Burridge between layers (`SigmaLevels`).
    Solvers step spherical harmonics. The gravity waves of an isothermal atmosphere at rest of the temperature $T_0$ =
    `reference_temperature` are the linear part. Its normal modes of the vertical are each as shallow water, and waves
    $z_\pm$ of each as in `ShallowWaterSphere` make it diagonal, so that steps follow from the wind. What T differs from $T_0$
    stands in the rest. Mass and energy are kept but for errors of steps and of the truncation.

    - `sphere`: truncation, grid and radius; `levels`: a `SigmaLevels`, or a number of equal layers.
    - `reference_temperature`, `reference_pressure`: $T_0$, and a pressure by which that at the ground is divided before its
        logarithm is taken; results depend on them within the error of steps and of rounding.
    - `bed`: height of the ground, the shape of the sphere's grid or a number.
    - `gravity`, `rotation` $\Omega$, `gas_constant` R, `kappa` $\kappa = R / c_p$.
    - `damping`, `damping_order`: hyperdiffusion of all fields, as in `ShallowWaterSphere`.
    - `source`: None, or a callable `(t, y, inputs)` that returns a state, what it adds to the time derivatives of temperature,
        velocity and surface pressure, such as `HeldSuarez`.

    The state is `State(temperature, velocity, surface_pressure)`, layers from the top to the ground. Metres, seconds, kelvin and
    pascal with the default numbers, those of the Earth.

    **Good values:** $T_0$ near the warmest layers. With `ETDRK4` steps of 60 min at T21 and 30 min at T42. Damping of 1/(4 h) with
    order 4 where waves break.

    **Source:** Hoskins and Simmons (1975), Q. J. R. Meteorol. Soc. 101:637; Simmons and Burridge (1981), Mon. Weather Rev. 109:758.

    ```python
    from simkit import fluids, simulate

    sphere = fluids.Sphere(10)
    start, bed = fluids.jablonowski_williamson(sphere, 5)
    air = fluids.PrimitiveEquationsSphere(sphere, levels=5, bed=bed)
    run = simulate(air, start, [0.0, 7200.0], step=3600.0)
    ```
    """

    State = Atmosphere

    sphere: Sphere = eqx.field(static=True)
    levels: SigmaLevels = eqx.field(static=True)
    reference_temperature: float = eqx.field(static=True)
    reference_pressure: float = eqx.field(static=True)
    damping_order: int = eqx.field(static=True)
    source: Any
    gravity: Scalar = quantity(unit="m/s^2", support=POSITIVE, doc="acceleration by gravity")
    rotation: Scalar = quantity(unit="1/s", doc="angular velocity of the sphere")
    gas_constant: Scalar = quantity(unit="J/kg/K", support=POSITIVE, doc="gas constant of the air")
    kappa: Scalar = quantity(support=POSITIVE, doc="gas constant over heat capacity")
    bed: Any = quantity(unit="m", doc="height of the ground")
    damping: Scalar = quantity(unit="1/s", support=POSITIVE, doc="rate at which the highest degree is damped")

    def __init__(
        self,
        sphere: Sphere,
        *,
        levels: SigmaLevels | int = 20,
        reference_temperature: float = 300.0,
        reference_pressure: float = 1e5,
        gravity: ArrayLike = 9.80616,
        rotation: ArrayLike = 7.29212e-5,
        gas_constant: ArrayLike = 287.0,
        kappa: ArrayLike = KAPPA,
        bed: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        damping_order: int = 4,
        source: Any = None,
    ):
        check_sphere(sphere)
        positive = {"gravity": gravity, "gas_constant": gas_constant, "kappa": kappa}
        positive |= {"reference_temperature": reference_temperature, "reference_pressure": reference_pressure}
        for name, value in positive.items():
            check_value(name, value, positive=True)
        for name, value in {"rotation": rotation, "damping": damping}.items():
            check_value(name, value)
        check_count("damping_order", damping_order, 0)
        check_source(source)
        if jnp.ndim(bed):
            sphere.check_field(bed, "bed")
        else:
            check_value("bed", bed)
        self.sphere, self.levels, self.damping, self.damping_order = sphere, as_levels(levels), damping, damping_order
        self.reference_temperature, self.reference_pressure = float(reference_temperature), float(reference_pressure)
        self.gravity, self.rotation, self.gas_constant, self.kappa = gravity, rotation, gas_constant, kappa
        self.bed, self.source = bed, source

    @property
    def harmonics(self) -> Harmonics:
        """The spherical harmonics of the fields."""
        return Harmonics(self.sphere)

    def encode(self, y: Atmosphere) -> Array:
        found, reference = self.harmonics, self.reference_temperature
        divergence, vorticity = found.divergence_and_curl(y.velocity)
        pressure = jnp.log(y.surface_pressure / self.reference_pressure)
        departure = y.temperature / reference - 1
        heat = found.modes(jnp.concatenate([departure, pressure[None]]))
        return self._joined(vorticity, divergence, heat)

    def decode(self, state: Array) -> Atmosphere:
        vorticity, divergence, heat = self._apart(state)
        fields = self.harmonics.field(heat)
        return Atmosphere(
            self.reference_temperature * (1 + fields[:-1]),
            self.harmonics.velocity(vorticity, divergence).reshape(2, -1, *self.sphere.shape),
            self.reference_pressure * jnp.exp(fields[-1]),
        )

    def _weight(self) -> Array:
        """The factors of the modes of temperature and pressure in the waves; that of the mean is that of degree 1."""
        square = np.maximum(self.harmonics.eigenvalues(), 2.0) * self.reference_temperature / self.sphere.radius**2
        return jnp.sqrt(self.gas_constant * jnp.asarray(square, self.gas_constant.dtype))

    def _joined(self, vorticity: Array, divergence: Array, heat: Array) -> Array:
        """The state of the modes of vorticity, divergence, and departures of the temperature followed by the pressure."""
        vertical = vertical_modes(self.levels)
        divergence, heat = across(vertical.winds, divergence), across(vertical.heats, heat)
        wave = times_i(scaled(self._weight(), heat[:, :, :-1]))
        return jnp.concatenate([vorticity, divergence + wave, divergence - wave, heat[:, :, -1:]], 2)

    def _apart(self, state: Array) -> tuple[Array, Array, Array]:
        """The modes of vorticity, divergence, and departures of the temperature followed by the pressure."""
        vertical, n = vertical_modes(self.levels), self.levels.count
        vorticity, ahead, behind, still = (state[:, :, i : i + n] for i in (0, n, 2 * n, 3 * n))
        heat = scaled(-0.5 / self._weight(), times_i(ahead - behind))
        heat = across(vertical.heats_back, jnp.concatenate([heat, still], 2))
        return vorticity, across(vertical.winds_back, 0.5 * (ahead + behind)), heat

    def linear(self) -> Array:
        found, dtype = self.harmonics, self.gas_constant.dtype
        speeds = vertical_modes(self.levels).speeds[:, None]
        waves = np.sqrt(found.eigenvalues() * self.reference_temperature) / self.sphere.radius * speeds
        frequency = jnp.sqrt(self.gas_constant) * jnp.asarray(waves, dtype)
        still = jnp.zeros_like(frequency)
        turns = jnp.concatenate([still, -frequency, frequency, still[:, :, :1]], 2)
        damping = damping_rates(found, self.damping, self.damping_order)
        return lax.complex(jnp.broadcast_to(damping, turns.shape), turns)

    def nonlinear(self, t: ArrayLike, state: Array, inputs: Inputs) -> Array:
        found, n = self.harmonics, self.levels.count
        vorticity, divergence, heat = self._apart(state)
        pressure = heat[:, :, -1:]
        wind = found.wind(vorticity, divergence)
        slopes = found.wind(jnp.zeros_like(pressure), found.laplacian(pressure))
        damped = scaled(damping_rates(found, self.damping, self.damping_order), pressure)
        fields = [vorticity, divergence, heat[:, :, :-1], *wind, *slopes, damped, pressure]
        columns = found.around(found.summed(jnp.concatenate(fields, 2)))
        products = lax.optimization_barrier(self._products(columns, t, inputs))
        modes = found.projected(found.fourier(products))
        energy, east, north, across_east, across_north, gain = (modes[:, :, i * n : (i + 1) * n] for i in range(6))
        warmed = found.kept(gain) - found.flux(across_east, across_north)
        return self._joined(
            found.flux(north, -east),
            found.flux(east, north) - found.laplacian(energy),
            jnp.concatenate([warmed, found.kept(modes[:, :, 6 * n :])], 2),
        )

    def _products(self, columns: Array, t: ArrayLike, inputs: Inputs) -> Array:
        """The products on the grid, with the weights of the latitudes that their projections need: energy, the two components of
        F and of the flux of heat, gains of heat, for each layer, and the gain of pressure."""
        sphere, levels, n, dtype = self.sphere, self.levels, self.levels.count, columns.dtype
        values = lambda x: self.harmonics.latitude_values(x, dtype)
        weight, square = values(sphere.weights()), values(1 / sphere.cosines() ** 2)
        shared = weight * square
        vorticity, divergence, heat, east, north = (columns[:, :, i * n : (i + 1) * n] for i in range(5))
        along, up = columns[:, :, 5 * n : 5 * n + 1], columns[:, :, 5 * n + 1 : 5 * n + 2]
        thick = jnp.asarray(levels.thickness()[None, None, :, None], dtype)
        absolute = vorticity + 2 * self.rotation * values(sphere.sines())
        carried = square * (east * along + north * up)
        flow = stacked(levels.fluxes(), divergence + carried)
        descent = stacked(levels.descent(), jnp.concatenate([divergence, carried], 3))
        of_divergence, of_carried = jnp.split(descent, 2, 3)
        omega = carried - of_divergence - of_carried
        push = self.gas_constant * self.reference_temperature * heat
        forces = [absolute * north - push * along, -absolute * east - push * up]
        energy = 0.5 * square * (east * east + north * north)
        if jnp.ndim(self.bed):
            energy = energy + self.harmonics.columns(self.gravity * self.bed[None])
        # The linear part has the constant kappa of the reference and no warming by `carried`.
        gain = heat * divergence + (self.kappa * (1 + heat) - KAPPA) * omega + KAPPA * (carried - of_carried)
        # Damping of the logarithm would remove mass: it makes the mean of its exponential smaller.
        mass = weight * jnp.exp(columns[:, :, -1:])
        lost = jnp.sum(mass * columns[:, :, -2:-1]) / jnp.sum(mass)
        pressure = -jnp.sum(thick * carried, 2, keepdims=True) - lost
        moved = [self._lifted(flow, x, thick) for x in (east, north, heat)]
        east_force, north_force, gain = (x - y for x, y in zip([*forces, gain], moved, strict=True))
        if self.source is not None:
            more = self._added(columns, t, inputs)
            cosine = values(sphere.cosines())
            east_force, north_force = east_force + cosine * more[0], north_force + cosine * more[1]
            gain, pressure = gain + more[2], pressure + more[3]
        fluxes = [x * shared for x in (east_force, north_force, heat * east, heat * north)]
        return jnp.concatenate([weight * energy, *fluxes, weight * gain, weight * pressure], 2)

    def _lifted(self, flow: Array, field: Array, thick: Array) -> Array:
        r"""The advection of a field by $\dot\sigma$ through the boundaries of its layers."""
        through = flow * (field[:, :, 1:] - field[:, :, :-1])
        nothing = jnp.zeros_like(field[:, :, :1])
        both = jnp.concatenate([through, nothing], 2) + jnp.concatenate([nothing, through], 2)
        return both * (0.5 / thick)

    def _added(self, columns: Array, t: ArrayLike, inputs: Inputs) -> tuple[Array, ...]:
        """Contribution of the source to the wind and to the departures of temperature and pressure, in columns."""
        found, n = self.harmonics, self.levels.count
        fields = found.fields(columns)
        cosine = jnp.asarray(self.sphere.cosines()[None, None, :, None], fields.dtype)
        velocity = fields[3 * n : 5 * n].reshape(2, n, *self.sphere.shape) / cosine
        temperature = self.reference_temperature * (1 + fields[2 * n : 3 * n])
        y = Atmosphere(temperature, velocity, self.reference_pressure * jnp.exp(fields[-1]))
        more = added(self, t, y, inputs)
        parts = (
            *more.velocity,
            more.temperature / self.reference_temperature,
            (more.surface_pressure / y.surface_pressure)[None],
        )
        return tuple(found.columns(x) for x in parts)

    def geopotential(self, y: Atmosphere) -> Array:
        """The geopotential of the layers, `(layers, *sphere.shape)`."""
        heights = jnp.asarray(self.levels.hydrostatic(), y.temperature.dtype)
        above = self.gas_constant * jnp.einsum("kj,jyx->kyx", heights, y.temperature)
        return above + self.gravity * jnp.broadcast_to(self.bed, self.sphere.shape)[None]

    def outputs(self, t: ArrayLike, y: Atmosphere, inputs: Inputs) -> Outputs:
        found, sphere, dtype = self.harmonics, self.sphere, y.temperature.dtype
        both = found.field(jnp.concatenate(found.divergence_and_curl(y.velocity), 2))
        divergence, vorticity = jnp.split(both, 2)
        thick = jnp.asarray(self.levels.thickness()[:, None, None], dtype)
        cosine = jnp.asarray(sphere.cosines()[:, None], dtype)
        heat = self.gas_constant / self.kappa * y.temperature
        column = jnp.sum(thick * (0.5 * jnp.sum(y.velocity**2, axis=0) + heat), axis=0)
        turning = cosine * jnp.sum(thick * y.velocity[0], axis=0) + self.rotation * sphere.radius * cosine**2
        total = lambda x: sphere.mean(x * y.surface_pressure) * sphere.area / self.gravity
        return {
            "temperature": y.temperature,
            "velocity": y.velocity,
            "surface_pressure": y.surface_pressure,
            "vorticity": vorticity,
            "divergence": divergence,
            "geopotential": self.geopotential(y),
            "mass": total(jnp.ones_like(y.surface_pressure)),
            "energy": total(column + self.gravity * self.bed),
            "angular_momentum": sphere.radius * total(turning),
        }

    def review(self, y0: Atmosphere, step: float | None, solver: object) -> None:
        n = self.levels.count
        if isinstance(self.source, HeldSuarez):
            self.source.check_of(self.sphere, self.levels)
        check_start(self, y0, {"temperature": (n,), "velocity": (2, n), "surface_pressure": ()})
        check_sphere_step(self, y0.velocity, step, solver, 2 * abs(float(self.rotation)))
        check_layers(self, y0.temperature, step, solver)

    def explain(self, t: ArrayLike, y: Atmosphere) -> str:
        return lowest_on_sphere(self.sphere, t, jnp.min(y.temperature, axis=0), "temperature")

    @classmethod
    def example(cls) -> "Example[PrimitiveEquationsSphere]":
        """A baroclinic wave at its beginning."""
        sphere = Sphere(5)
        y0, bed = jablonowski_williamson(sphere, 3)
        return Example(cls(sphere, levels=3, bed=bed, damping=1e-5), y0, jnp.linspace(0.0, 7200.0, 3))


def across(matrix: np.ndarray, modes: Array) -> Array:
    """A matrix times the layers of modes, `(m, 2, layers, k)`."""
    both = jnp.stack([modes.real, modes.imag], 3).reshape(*modes.shape[:3], -1)
    found = stacked(matrix, both).reshape(*modes.shape[:2], len(matrix), 2, -1)
    return lax.complex(found[:, :, :, 0], found[:, :, :, 1])


def stacked(matrix: np.ndarray, fields: Array) -> Array:
    """A matrix times the third axis of four."""
    return jnp.matmul(jnp.asarray(matrix, fields.dtype)[None, None], fields)
