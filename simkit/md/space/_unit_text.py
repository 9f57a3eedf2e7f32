"""Units as text, such as "kcal mol-1 Angstrom-1", and what they are in SI."""

import math
import re
from types import MappingProxyType

from ..._errors import ArgumentError, close_matches

BOLTZMANN = 1.380649e-23
AVOGADRO = 6.02214076e23
ELEMENTARY_CHARGE = 1.602176634e-19
# CODATA 2022, https://physics.nist.gov/cuu/Constants: the three above define the SI, these two are measured.
VACUUM_PERMITTIVITY = 8.8541878188e-12
ATOMIC_MASS = 1.66053906892e-27

SYMBOLS = MappingProxyType(
    {
        "1": 1.0,
        "m": 1.0,
        "cm": 1e-2,
        "um": 1e-6,
        "nm": 1e-9,
        "Angstrom": 1e-10,
        "pm": 1e-12,
        "fm": 1e-15,
        "s": 1.0,
        "us": 1e-6,
        "ns": 1e-9,
        "ps": 1e-12,
        "fs": 1e-15,
        "kg": 1.0,
        "g": 1e-3,
        "u": ATOMIC_MASS,
        "J": 1.0,
        "kJ": 1e3,
        "cal": 4.184,  # the thermochemical calorie, which is exact
        "kcal": 4184.0,
        "eV": ELEMENTARY_CHARGE,
        "mol": AVOGADRO,
        "N": 1.0,
        "K": 1.0,
        "Pa": 1.0,
        "kPa": 1e3,
        "MPa": 1e6,
        "GPa": 1e9,
        "bar": 1e5,
        "atm": 101325.0,
        "poise": 0.1,
        "C": 1.0,
        "e": ELEMENTARY_CHARGE,
        "V": 1.0,
        "S": 1.0,
    }
)

_FACTOR = re.compile(r"([A-Za-z]+|1)([+-]?\d+)?$")


def si_value(unit: str) -> float:
    """Return the value of a unit in SI units.

    The unit is written as H5MD writes it: symbols, each with a whole exponent behind it, separated by blanks. A mole is the
    number of its particles, so that `"kcal mol-1"` is an energy of one particle.

    **Raises:** an `ArgumentError` that names the symbol that is not known.

    ```python
    from simkit.md.space._unit_text import si_value
    print(1e12 * si_value("kcal mol-1 Angstrom-1"), "pN")  # prints 69.477 pN
    ```
    """
    found = 1.0
    for word in unit.split():
        match = _FACTOR.match(word)
        if match is None or match[1] not in SYMBOLS:
            raise ArgumentError(
                f"Argument `unit` must be made of known symbols with exponents, such as `kJ mol-1 nm-1`, but `{word}` in "
                f"`{unit}` is none. {close_matches(word.rstrip('+-0123456789'), SYMBOLS)}"
            )
        found *= SYMBOLS[match[1]] ** int(match[2] or 1)
    if not unit.split():
        raise ArgumentError("Argument `unit` must name a unit, but it is empty. Write `1` for a number without one.")
    return found


COULOMB = 1.0 / (4.0 * math.pi * VACUUM_PERMITTIVITY)
"""1 / (4 pi epsilon_0) in J m / C^2."""
