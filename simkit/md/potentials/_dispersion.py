r"""Dispersion of periodic cells after Ewald: attraction as $r^{-6}$ without a cutoff.

$$-\frac12 \sum_{ij} \sum_n \frac{C_{ij}}{|r_{ij} + n|^6}
= -\sum_{pairs} \frac{C_{ij}}{r^6} e^{-x^2} \Big(1 + x^2 + \frac{x^4}{2}\Big)
- \frac{\pi^{3/2} \beta^3}{6 V} \sum_m f\Big(\frac{m}{2 \beta}\Big) \sum_{ij} C_{ij} e^{i m \cdot (x_i - x_j)}
+ \frac{\beta^6}{12} \sum_i C_{ii}$$

with $x = \beta r$ and $f(b) = (1 - 2 b^2) e^{-b^2} + 2 \sqrt\pi b^3 \mathrm{erfc}(b)$; the wave m = 0 counts, too.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PyTree
from scipy.optimize import brentq
from scipy.special import erfc

from ..._errors import ArgumentError
from ..._types import Scalar
from ...core import POSITIVE, quantity
from ..space._space import Space
from ._bonded import optional_indices, picked
from ._bonds import distance
from ._ewald import check_cell, wave_sums
from ._many_body import AtomView, ManyBodyPotential
from ._mixing import mixed
from ._potential import POTENTIALS, PairPotential, Parameter, Sum, tabled
from ._truncation import Truncated, Truncation

STRENGTH = "coefficient of the attraction"
DAMPING = "inverse length that divides the two parts"


@POTENTIALS.named("dispersion_screened")
class DispersionScreened(PairPotential):
    r"""The part of dispersion in space, $u(r) = -C e^{-x^2} (1 + x^2 + x^4/2) / r^6$ with $x = \beta r$, below the cutoff.

    **Arguments:**

    - `dispersion`: C, a number, one a species, which mix geometrically, or a symmetric table (species, species).
    - `damping`: $\beta$, that of the part over waves.
    - `cutoff`, `truncation`: where it ends; at $\beta r_c = 3$ 0.6 % of the bare attraction is left there.
    """

    dispersion: Parameter = quantity(1.0, unit="energy length^6", doc=STRENGTH)
    damping: Scalar = quantity(0.3, unit="1/length", support=POSITIVE, doc=DAMPING)
    cutoff: float = eqx.field(static=True, converter=float, default=10.0)
    truncation: Truncation = Truncated()

    def coefficients(self) -> Any:
        return tabled(mixed("dispersion", self.dispersion, "geometric")), self.damping

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        strength, damping = coefficients
        y, inverse = damping**2 * r2, 1 / r2
        scale = -strength * inverse * inverse * inverse * jnp.exp(-y)
        return scale * (1 + y + y * y / 2), -scale * inverse * (3 + y * (3 + y * (1.5 + y / 2)))


@POTENTIALS.named("dispersion_waves")
class DispersionWaves(ManyBodyPotential):
    """The smooth part of dispersion over all waves of the cell, with what each atom and each pair of `excluded` adds to it.

    **Arguments:**

    - `dispersion`, `damping`: those of `DispersionScreened`.
    - `waves_along`: how many waves along each lattice vector, static.
    - `excluded`: pairs of atoms that do not interact, (pairs, 2); the same as the `exclusions` of `Particles`.

    Made by `dispersion_sum`. The cost grows with atoms times waves times species.

    **Reference:** Essmann, Perera, Berkowitz, Darden, Lee & Pedersen (1995), Journal of Chemical Physics 103:8577,
    doi:10.1063/1.470117; in 't Veld, Ismail & Grest (2007), Journal of Chemical Physics 127:144711, doi:10.1063/1.2770730.
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    dispersion: Parameter = quantity(1.0, unit="energy length^6", doc=STRENGTH)
    damping: Scalar = quantity(0.3, unit="1/length", support=POSITIVE, doc=DAMPING)
    waves_along: tuple[int, int, int] = eqx.field(static=True, default=(8, 8, 8))
    excluded: Int[Array, "pairs 2"] | None = eqx.field(converter=optional_indices, default=None)

    @property
    def species_count(self) -> int | None:
        return len(self.dispersion) if self.dispersion.ndim else None

    def energy(self, view: AtomView) -> Array:
        check_cell(view.space, " for a sum over waves", " Cut the attraction off elsewhere.")
        dtype, species = view.position.dtype, view.species
        table = jnp.atleast_2d(mixed("dispersion", self.dispersion, "geometric")).astype(dtype)
        real = jnp.ones(len(view.position), dtype) if view.real is None else view.real.astype(dtype)
        if species is None or len(table) == 1:
            table, species = table[:1, :1], jnp.zeros(len(view.position), jnp.int32)
        weights = [jnp.where(species == s, real, 0) for s in range(len(table))]
        sums, square, twice = wave_sums(view.space, view.position, weights, self.waves_along)
        parts = [jnp.stack(part) for part in zip(*sums, strict=True)]
        power = sum(jnp.sum(part * (table @ part), axis=0) for part in parts)
        volume = view.space.volume().astype(dtype)
        total = (
            -(math.pi**1.5) * self.damping**3 / (6 * volume) * jnp.vdot(twice * _spectrum(square, self.damping), power)
        )
        total = total + self.damping**6 / 12 * jnp.vdot(real, jnp.diagonal(table)[species])
        if self.excluded is None:
            return total
        kinds = species[self.excluded]
        r = distance(view.space, picked(view.position, self.excluded))
        return total + jnp.sum(table[kinds[:, 0], kinds[:, 1]] * self.damping**6 * _smooth((self.damping * r) ** 2))


def _spectrum(square: Array, damping: Array) -> Array:
    """f of the squares of waves; 1 for the wave of 0."""
    b2 = square / (4 * damping**2)
    b = jnp.sqrt(jnp.where(b2 > 0, b2, 1))
    found = (1 - 2 * b2) * jnp.exp(-b2) + 2 * math.sqrt(math.pi) * b2 * b * lax.erfc(b)
    return jnp.where(b2 > 0, found, 1)


def _smooth(y: Array) -> Array:
    r"""$(1 - e^{-y} (1 + y + y^2/2)) / y^3$, smooth at 0, where it is the series $\sum_k (-y)^k / (2 k! (k + 3))$."""
    near = y < 0.5
    inside, outside = jnp.where(near, y, 0), jnp.where(near, 1, y)
    series = sum((-1) ** k / (2 * math.factorial(k) * (k + 3)) * inside**k for k in range(14))
    return jnp.where(near, series, (1 - jnp.exp(-outside) * (1 + outside + outside**2 / 2)) / outside**3)


def dispersion_sum(
    space: Space,
    cutoff: float,
    dispersion: ArrayLike | Sequence[float] | Sequence[Sequence[float]] = 1.0,
    *,
    tolerance: float = 1e-4,
    excluded: ArrayLike | Sequence[Sequence[int]] | None = None,
    damping: float | None = None,
) -> Sum:
    """`DispersionScreened` and `DispersionWaves` with a damping and waves that leave out a `tolerance` of the attraction.

    **Arguments:**

    - `space`: a concrete cell, at whose shape the number of waves is chosen.
    - `cutoff`: of the part in space, in the length unit.
    - `dispersion`: a number, one a species, or a symmetric table (species, species).
    - `tolerance`: between 0 and 0.1.
    - `excluded`: pairs that do not interact, (pairs, 2); give `Particles` the same `exclusions`.
    - `damping`: by default such that the part in space leaves out the `tolerance` at the cutoff, too.

    **Raises:** an `ArgumentError` for another tolerance, or a space that is no periodic cell in three dimensions.

    ```python
    import simkit

    cell = simkit.md.Orthorhombic([12.0, 12.0, 12.0])
    repulsion = simkit.md.FormulaPair("4/r^12", cutoff=4.0)
    fluid = repulsion + simkit.md.dispersion_sum(cell, 4.0, 4.0)
    ```
    """
    if not 0 < tolerance < 0.1:
        raise ArgumentError(
            f"Argument `tolerance` must lie between 0 and 0.1, but is {tolerance}. 1e-4 is a good value."
        )
    check_cell(space)
    if damping is None:
        damping = _crossing(lambda x: math.exp(-x * x) * (1 + x * x + x**4 / 2), tolerance) / cutoff
    spectrum = lambda b: (1 - 2 * b * b) * math.exp(-b * b) + 2 * math.sqrt(math.pi) * b**3 * float(erfc(b))
    last = _crossing(spectrum, tolerance)
    a, b, c = (math.ceil(damping * last * x / math.pi) for x in np.asarray(space.plane_distances(), float))
    numbers: Any = {"dispersion": dispersion, "damping": damping}
    inside = DispersionScreened(**numbers, cutoff=cutoff)
    return inside + DispersionWaves(**numbers, waves_along=(a, b, c), excluded=optional_indices(excluded))


def _crossing(falling: Callable[[float], float], level: float) -> float:
    return float(brentq(lambda x: falling(x) - level, 0.0, 12.0))  # pyright: ignore[reportArgumentType]
