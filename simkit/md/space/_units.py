"""Unit systems: what the numbers of a simulation mean, and conversions at its edges."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
from jax.typing import ArrayLike

from ..._errors import ArgumentError, check_known
from ._unit_text import BOLTZMANN, COULOMB, si_value

# Powers of length, energy, time, temperature and charge.
DIMENSIONS: Mapping[str, tuple[int, int, int, int, int]] = MappingProxyType(
    {
        "length": (1, 0, 0, 0, 0),
        "area": (2, 0, 0, 0, 0),
        "volume": (3, 0, 0, 0, 0),
        "number density": (-3, 0, 0, 0, 0),
        "wave number": (-1, 0, 0, 0, 0),
        "energy": (0, 1, 0, 0, 0),
        "time": (0, 0, 1, 0, 0),
        "rate": (0, 0, -1, 0, 0),
        "temperature": (0, 0, 0, 1, 0),
        "charge": (0, 0, 0, 0, 1),
        "mass": (-2, 1, 2, 0, 0),
        "density": (-5, 1, 2, 0, 0),
        "velocity": (1, 0, -1, 0, 0),
        "momentum": (-1, 1, 1, 0, 0),
        "force": (-1, 1, 0, 0, 0),
        "stiffness": (-2, 1, 0, 0, 0),
        "pressure": (-3, 1, 0, 0, 0),
        "surface tension": (-2, 1, 0, 0, 0),
        "viscosity": (-3, 1, 1, 0, 0),
        "diffusion": (2, 0, -1, 0, 0),
        "heat capacity": (0, 1, 0, -1, 0),
        "thermal conductivity": (-1, 1, -1, -1, 0),
        "dipole": (1, 0, 0, 0, 1),
        "current": (1, 0, -1, 0, 1),
        "voltage": (0, 1, 0, 0, -1),
        "electric field": (-1, 1, 0, 0, -1),
        "electric conductivity": (-1, -1, -1, 0, 2),
    }
)


class Units(eqx.Module):
    r"""A unit system: what the numbers of a simulation mean.

    Inside a simulation numbers are coherent: all follow from the units of length, energy, time, temperature and charge, so that
    equations of motion carry no factors. Outside, at the edges, some have units of their own, as LAMMPS documents them: in
    `METAL` a mass is given in g/mol and inside counted in eV ps^2 / Angstrom^2, a pressure in bar and in eV / Angstrom^3. `inside`
    and `outside` go between the two; `convert` goes from one system to another.

    **Values:** `REDUCED`, `METAL`, `REAL`, `GROMACS`, `SI`; reduced units that stand for a substance by `reduced`.

    `GROMACS` units, those of GROMACS and OpenMM, are coherent: nm, ps, g/mol and kJ/mol belong together.

    **Source:** constants of CODATA 2022, https://physics.nist.gov/cuu/Constants; units of LAMMPS,
    https://docs.lammps.org/units.html; of GROMACS, https://manual.gromacs.org/current/reference-manual/definitions.html.

    ```python
    from simkit.md import METAL, REAL, convert
    print(METAL)
    print(METAL.boltzmann * 300.0, "eV")  # prints 0.025852 eV
    print(convert(1.0, "energy", METAL, REAL), "kcal/mol")  # prints 23.0605 kcal/mol
    ```
    """

    name: str = eqx.field(static=True)
    boltzmann: float = eqx.field(static=True)  # energy / temperature
    coulomb: float = eqx.field(
        static=True
    )  # energy length / charge^2: the energy of two unit charges a unit length apart
    base: tuple[float, float, float, float, float] | None = eqx.field(static=True, default=None)
    edges: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())

    def unit(self, dimension: str) -> str:
        """The unit in which numbers of this dimension stand at the edges, as text; empty where there is no name for it."""
        check_known(dimension, DIMENSIONS, "dimension")
        return dict(self.edges).get(dimension, "")

    def inside(self, value: ArrayLike, dimension: str) -> Any:
        """A number given in the unit of the edge as the simulation counts it."""
        return value * self._edge(dimension)

    def outside(self, value: ArrayLike, dimension: str) -> Any:
        """A number of the simulation in the unit of the edge."""
        return value / self._edge(dimension)

    def to_unit(self, value: ArrayLike, dimension: str, unit: str) -> Any:
        """A number of the simulation in any unit, given as text, such as `"GPa"`.

        **Raises:** an `ArgumentError` where the unit is not known, or the system has no scales.
        """
        return value * (self.si(dimension) / si_value(unit))

    def from_unit(self, value: ArrayLike, dimension: str, unit: str) -> Any:
        """A number in any unit, given as text, as the simulation counts it; raises as `to_unit`."""
        return value * (si_value(unit) / self.si(dimension))

    def si(self, dimension: str) -> float:
        """Return the value in SI units of one simulation unit of this dimension.

        **Raises:** an `UnknownNameError` where the dimension is none; an `ArgumentError` in reduced units without scales.
        """
        check_known(dimension, DIMENSIONS, "dimension")
        if self.base is None:
            raise ArgumentError(
                f"The unit system must have scales to say what a {dimension} is, but `{self.name}` units stand for no "
                "substance. Name one by `simkit.md.reduced(length, energy, mass)`."
            )
        return math.prod(unit**power for unit, power in zip(self.base, DIMENSIONS[dimension], strict=True))

    def _edge(self, dimension: str) -> float:
        unit = self.unit(dimension)
        return si_value(unit) / self.si(dimension) if unit else 1.0

    def __repr__(self) -> str:
        units = ", ".join(f"{dimension} {unit}" for dimension, unit in self.edges) or "all numbers are ratios"
        return f"Units {self.name}: {units}; k_B = {self.boltzmann:.10g}"


def _units(name: str, edges: Mapping[str, str]) -> Units:
    names = ("length", "energy", "time", "temperature", "charge")
    length, energy, time, temperature, charge = (si_value(edges[dimension]) for dimension in names)
    return Units(
        name,
        boltzmann=BOLTZMANN * temperature / energy,
        coulomb=COULOMB * charge**2 / (energy * length),
        base=(length, energy, time, temperature, charge),
        edges=tuple(edges.items()),
    )


REDUCED = Units("reduced", boltzmann=1.0, coulomb=1.0)
METAL = _units(
    "metal",
    {
        "length": "Angstrom",
        "energy": "eV",
        "time": "ps",
        "temperature": "K",
        "charge": "e",
        "mass": "g mol-1",
        "velocity": "Angstrom ps-1",
        "force": "eV Angstrom-1",
        "pressure": "bar",
        "viscosity": "poise",
        "density": "g cm-3",
        "dipole": "e Angstrom",
        "electric field": "V Angstrom-1",
    },
)
REAL = _units(
    "real",
    {
        "length": "Angstrom",
        "energy": "kcal mol-1",
        "time": "fs",
        "temperature": "K",
        "charge": "e",
        "mass": "g mol-1",
        "velocity": "Angstrom fs-1",
        "force": "kcal mol-1 Angstrom-1",
        "pressure": "atm",
        "viscosity": "poise",
        "density": "g cm-3",
        "dipole": "e Angstrom",
        "electric field": "V Angstrom-1",
    },
)
GROMACS = _units(
    "gromacs",
    {
        "length": "nm",
        "energy": "kJ mol-1",
        "time": "ps",
        "temperature": "K",
        "charge": "e",
        "mass": "g mol-1",
        "velocity": "nm ps-1",
        "force": "kJ mol-1 nm-1",
        "pressure": "bar",
        "viscosity": "poise",
        "density": "g cm-3",
        "dipole": "e nm",
        "electric field": "V nm-1",
    },
)
SI = _units(
    "si",
    {
        "length": "m",
        "energy": "J",
        "time": "s",
        "temperature": "K",
        "charge": "C",
        "mass": "kg",
        "velocity": "m s-1",
        "force": "N",
        "pressure": "Pa",
        "viscosity": "Pa s",
        "density": "kg m-3",
        "dipole": "C m",
        "electric field": "V m-1",
    },
)
UNIT_SYSTEMS: Mapping[str, Units] = MappingProxyType(
    {units.name: units for units in (REDUCED, METAL, REAL, GROMACS, SI)}
)
"""The unit systems by name."""


def reduced(length: float, energy: float, mass: float, units: Units = METAL) -> Units:
    r"""Reduced units of one substance, so that numbers can be converted.

    The unit of time is $\sigma \sqrt{m / \epsilon}$, of temperature $\epsilon / k_B$, of charge
    $\sqrt{4 \pi \epsilon_0 \sigma \epsilon}$.

    **Arguments:** `length` sigma, `energy` epsilon and `mass` m, positive, in the units of the edge of `units`, by default
    Angstrom, eV and g/mol.

    **Returns:** a `Units` whose numbers are those of `REDUCED`.

    **Raises:** an `ArgumentError` where a scale is not positive.

    **Good values:** argon with length 3.405, energy 0.0103236 (119.8 K) and mass 39.948, whose unit of time is 2.156 ps.

    ```python
    from simkit.md import SI, convert, reduced
    argon = reduced(length=3.405, energy=0.0103236, mass=39.948)
    print(1e15 * convert(0.005, "time", argon, SI), "fs")  # prints 10.7817 fs
    ```
    """
    scales = {"length": length, "energy": energy, "mass": mass}
    for name, value in scales.items():
        if not (value > 0 and math.isfinite(value)):
            raise ArgumentError(f"Argument `{name}` must be positive, but it is {value}.")
    sigma, epsilon, m = (units.inside(value, name) * units.si(name) for name, value in scales.items())
    base = (
        sigma,
        epsilon,
        sigma * math.sqrt(m / epsilon),
        epsilon / BOLTZMANN,
        math.sqrt(sigma * epsilon / COULOMB),
    )
    return Units("reduced", boltzmann=1.0, coulomb=1.0, base=base)


def convert(value: ArrayLike, dimension: str, source: Units, target: Units) -> Any:
    """A number of one unit system in another, from the unit of the edge to the unit of the edge.

    **Arguments:**

    - `value`: a number or an array.
    - `dimension`: what it is: `"length"`, `"time"`, `"mass"`, `"energy"`, `"force"`, `"pressure"`, ...
    - `source`, `target`: the systems.

    **Returns:** the number in the unit of `target`.

    **Raises:** an `UnknownNameError` where the dimension is none; an `ArgumentError` where one of the two is `REDUCED`, without
    scales, and the other is not.

    ```python
    from simkit.md import METAL, SI, convert
    print(convert(1.0, "pressure", METAL, SI), "Pa")  # prints 100000.0 Pa
    ```
    """
    check_known(dimension, DIMENSIONS, "dimension")
    if source == target:
        return value
    return target.outside(source.inside(value, dimension) * (source.si(dimension) / target.si(dimension)), dimension)
