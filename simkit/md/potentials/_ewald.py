r"""Electrostatics of periodic cells after Ewald: a part in space that ends at a cutoff, and a smooth part over waves.

$$\frac{k}{2} \sum_{ij} \sum_n \frac{q_i q_j}{|r_{ij} + n|} = k \sum_{pairs} q_i q_j \frac{\mathrm{erfc}(\alpha r)}{r}
+ \frac{2 \pi k}{V} \sum_{m \ne 0} \frac{e^{-m^2/4\alpha^2}}{m^2} |S(m)|^2 - \frac{k \alpha}{\sqrt \pi} \sum_i q_i^2,
\qquad S(m) = \sum_i q_i e^{i m \cdot x_i}$$

with tin-foil boundaries.
"""

import abc
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.core
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Int, PyTree

from ..._errors import ArgumentError
from ..._types import Scalar
from ...core import POSITIVE, fast_length, quantity
from ..space._space import Space, inverse
from ._bonded import optional_indices, picked
from ._bonds import distance
from ._many_body import AtomView, ManyBodyPotential
from ._mesh import influence, mesh_energy
from ._potential import POTENTIALS, PairPotential, Potential, Sum, parts
from ._screened import screened
from ._truncation import Truncated, Truncation

DOC = {"constant": "Coulomb's constant", "damping": "inverse length that divides the two parts"}


@POTENTIALS.named("coulomb_screened")
class CoulombScreened(PairPotential):
    r"""The part of an Ewald sum in space, $u(r) = k q_i q_j \, \mathrm{erfc}(\alpha r) / r$ below the cutoff.

    **Arguments:**

    - `constant`, `damping`: k and $\alpha$, those of the part over waves.
    - `cutoff`, `truncation`: where it ends; at $\alpha r_c = 3$ 2e-5 of the bare interaction is left there.
    """

    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc=DOC["constant"])
    damping: Scalar = quantity(0.3, unit="1/length", support=POSITIVE, doc=DOC["damping"])
    cutoff: float = eqx.field(static=True, converter=float, default=10.0)
    truncation: Truncation = Truncated()

    @property
    def charged(self) -> bool:
        return True

    def coefficients(self) -> Any:
        return self.constant, self.damping

    def pair(self, r2: Array, coefficients: PyTree) -> tuple[Array, Array]:
        constant, damping = coefficients
        u, slope, _ = screened(r2, damping)
        return constant * u, constant * slope


class CoulombWaves(ManyBodyPotential):
    r"""The smooth part of an Ewald sum, over all waves of the cell, and the self-energy; with `exclusions` their share.

    A subclass sums the waves. Charges must add up to zero, as a charged cell has no energy, or stand in a `background`: a uniform
    charge that neutralises the cell and adds $-\\pi k Q^2 / (2 \\alpha^2 V)$.
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    constant: AbstractVar[Scalar]
    damping: AbstractVar[Scalar]

    @property
    @abc.abstractmethod
    def excluded(self) -> Array | None:
        """Pairs of atoms that do not interact, (pairs, 2)."""

    background: AbstractVar[bool]
    """Static: tell whether a uniform charge neutralises the cell."""

    @property
    def charged(self) -> bool:
        return True

    @abc.abstractmethod
    def waves(self, space: Space, position: Array, charge: Array) -> Array:
        """The sum over waves."""

    def energy(self, view: AtomView) -> Array:
        constant, damping, charge = self.constant, self.damping, view.charge
        assert charge is not None, "refused before"
        check_cell(view.space, " for an Ewald sum", " Take `CoulombCut` or `CoulombDSF` elsewhere.")
        total = self.waves(view.space, view.position, charge)
        total = total - constant * damping / math.sqrt(math.pi) * jnp.vdot(charge, charge)
        if self.background:
            volume = view.space.volume().astype(charge.dtype)
            total = total - math.pi * constant * jnp.sum(charge) ** 2 / (2 * damping**2 * volume)
        if self.excluded is None:
            return total
        pair = charge[self.excluded]
        r = distance(view.space, picked(view.position, self.excluded))
        return total - constant * jnp.sum(pair[:, 0] * pair[:, 1] * _erf_over(r, damping))


def check_neutral(potential: Potential, charge: ArrayLike | None) -> None:
    """Refuse cells whose charges do not add up to zero, where they are known."""
    if charge is None or isinstance(charge, jax.core.Tracer):
        return
    total, size = float(jnp.sum(charge)), float(jnp.sum(jnp.abs(charge)))
    bare = any(isinstance(part, CoulombWaves) and not part.background for part in parts(potential))
    if bare and abs(total) > 1e-5 * size:
        raise ArgumentError(
            f"Argument `charge` must add up to zero for an Ewald sum, but adds up to {total:.6g}. Add the ions that are missing, "
            "or give the sum over waves `background=True`."
        )


def _erf_over(r: Array, damping: Array) -> Array:
    """erf(a r) / r, smooth at 0."""
    near = damping * r < 1e-3
    far = jnp.where(near, 1 / damping, r)
    a, square = 2 * damping / math.sqrt(math.pi), (damping * jnp.where(near, r, 0)) ** 2
    return jnp.where(near, a * (1 - square / 3), lax.erf(damping * far) / far)


@POTENTIALS.named("ewald")
class Ewald(CoulombWaves):
    """The sum over waves one by one: exact to its reach, at a cost that grows with atoms times waves.

    **Arguments:**

    - `constant`, `damping`: those of `CoulombScreened`.
    - `waves_along`: how many waves along each lattice vector, static.
    - `excluded`: pairs of atoms that do not interact, (pairs, 2); the same as the `exclusions` of `Particles`.
    - `background`: a uniform charge neutralises the cell, static.

    Made by `ewald_sum`. Good for some hundreds of atoms; `ParticleMeshEwald` for more.

    **Reference:** Ewald (1921), Annalen der Physik 369:253, doi:10.1002/andp.19213690304.
    """

    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc=DOC["constant"])
    damping: Scalar = quantity(0.3, unit="1/length", support=POSITIVE, doc=DOC["damping"])
    waves_along: tuple[int, int, int] = eqx.field(static=True, default=(8, 8, 8))
    excluded: Int[Array, "pairs 2"] | None = eqx.field(converter=optional_indices, default=None)
    background: bool = eqx.field(static=True, default=False)

    def waves(self, space: Space, position: Array, charge: Array) -> Array:
        sums, square, twice = wave_sums(space, position, (charge,), self.waves_along)
        (real, imaginary), safe = sums[0], jnp.where(square > 0, square, 1)
        weight = jnp.where(square > 0, twice, 0) * jnp.exp(-safe / (4 * self.damping**2)) / safe
        found = jnp.vdot(weight, real**2 + imaginary**2)
        return self.constant * 2 * math.pi / space.volume().astype(position.dtype) * found


def wave_sums(
    space: Space, position: Array, weights: Sequence[Array], along: tuple[int, int, int]
) -> tuple[list[tuple[Array, Array]], Array, Array]:
    r"""Sums $\sum_i w_i e^{i m \cdot x_i}$ over atoms, real and imaginary parts, by the waves of the half-space m_x >= 0.

    **Returns:** the sums for each of the weights, the squares of m, and how often each wave counts: 2 where m_x > 0, as the
    squares of a sum of m and of -m are equal.
    """
    reciprocal = inverse(space.vectors().astype(position.dtype))
    phase = 2 * math.pi * (position @ reciprocal)
    x, y, z = (_powers(phase[:, c], count, whole=c > 0) for c, count in enumerate(along))
    numbers = [np.arange(0 if c == 0 else -n, n + 1) for c, n in enumerate(along)]
    grid = np.stack(np.meshgrid(*numbers, indexing="ij"), axis=-1).reshape(-1, 3)
    m = 2 * math.pi * (jnp.asarray(grid, position.dtype) @ reciprocal.T)
    sums = []
    for weight in weights:
        # (waves x, atoms) times (waves y, atoms), then over atoms with those of z: products of matrices.
        plane = _times((x[0] * weight[None], x[1] * weight[None]), y)
        real = plane[0] @ z[0].T - plane[1] @ z[1].T
        imaginary = plane[0] @ z[1].T + plane[1] @ z[0].T
        sums.append((real.reshape(-1), imaginary.reshape(-1)))
    return sums, jnp.sum(m * m, axis=1), jnp.asarray(np.where(grid[:, 0] > 0, 2.0, 1.0), position.dtype)


def _powers(phase: Array, count: int, whole: bool) -> tuple[Array, Array]:
    """Cosine and sine of n phase for n from 0, or from -count, to count; (waves, atoms)."""
    c, s = jnp.cos(phase), jnp.sin(phase)
    cosines, sines = [jnp.ones_like(c)], [jnp.zeros_like(s)]
    for _ in range(count):
        a, b = cosines[-1], sines[-1]
        cosines.append(a * c - b * s)
        sines.append(a * s + b * c)
    if whole:
        cosines, sines = [*cosines[:0:-1], *cosines], [*(-s for s in sines[:0:-1]), *sines]
    return jnp.stack(cosines), jnp.stack(sines)


def _times(x: tuple[Array, Array], y: tuple[Array, Array]) -> tuple[Array, Array]:
    """Products of all waves along x with all along y, (waves x * waves y, atoms)."""
    flat = lambda a: a.reshape(-1, a.shape[-1])
    pairs = [[flat(a[:, None] * b[None]) for b in y] for a in x]
    return pairs[0][0] - pairs[1][1], pairs[0][1] + pairs[1][0]


@POTENTIALS.named("particle_mesh_ewald")
class ParticleMeshEwald(CoulombWaves):
    """The sum over waves by a mesh of charges and Fourier transforms: a cost in proportion to the atoms.

    **Arguments:**

    - `constant`, `damping`: those of `CoulombScreened`.
    - `mesh`: points along each lattice vector, static; a spacing of 1 A with charges spread over 5 points errs by some 1e-4.
    - `order`: over how many points along each direction a charge is spread by B-splines, static, 3 or more.
    - `excluded`, `background`: as for `Ewald`.

    Made by `particle_mesh_ewald`.

    **Reference:** Essmann, Perera, Berkowitz, Darden, Lee & Pedersen (1995), Journal of Chemical Physics 103:8577,
    doi:10.1063/1.470117.
    """

    constant: Scalar = quantity(1.0, unit="energy length/charge^2", support=POSITIVE, doc=DOC["constant"])
    damping: Scalar = quantity(0.3, unit="1/length", support=POSITIVE, doc=DOC["damping"])
    mesh: tuple[int, int, int] = eqx.field(static=True, default=(32, 32, 32))
    order: int = eqx.field(static=True, default=5)
    excluded: Int[Array, "pairs 2"] | None = eqx.field(converter=optional_indices, default=None)
    background: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.order < 3 or min(self.mesh) < self.order:
            raise ArgumentError(
                f"Argument `order` must be 3 or more and at most the points of the mesh, but is {self.order} for {self.mesh}. 5 is "
                "a good value."
            )

    def waves(self, space: Space, position: Array, charge: Array) -> Array:
        reciprocal = inverse(space.vectors().astype(position.dtype))
        u = (position @ reciprocal) * jnp.asarray(self.mesh, position.dtype)[None]
        volume = space.volume().astype(position.dtype)
        factor = influence(self.mesh, self.order, reciprocal, volume, self.damping)
        return self.constant * mesh_energy(self.mesh, self.order, factor, u, charge)


def ewald_sum(
    space: Space,
    cutoff: float,
    *,
    tolerance: float = 1e-6,
    constant: float = 1.0,
    excluded: ArrayLike | Sequence[Sequence[int]] | None = None,
    damping: float | None = None,
) -> Sum:
    """`CoulombScreened` and `Ewald` with a damping and waves that leave out a `tolerance` of the interaction.

    **Arguments:**

    - `space`: a concrete cell, at whose shape the number of waves is chosen.
    - `cutoff`: of the part in space, in the length unit.
    - `tolerance`: between 0 and 0.1; the relative error of forces is some times as large.
    - `constant`: Coulomb's constant: 1 in reduced units, `units.coulomb` in others.
    - `excluded`: pairs that do not interact, (pairs, 2); give `Particles` the same `exclusions`.
    - `damping`: by default such that the part in space leaves out the `tolerance` at the cutoff, too.

    ```python
    import simkit

    cell = simkit.md.Orthorhombic([2.0, 2.0, 2.0])
    electrostatics = simkit.md.ewald_sum(cell, 0.9, tolerance=1e-8)
    ```
    """
    usual, sharp = _damping(space, cutoff, tolerance)
    damping = usual if damping is None else damping
    a, b, c = (math.ceil(damping * sharp * x / math.pi) for x in np.asarray(space.plane_distances(), float))
    inside = CoulombScreened(constant=constant, damping=damping, cutoff=cutoff)
    return inside + Ewald(
        constant=constant, damping=damping, waves_along=(a, b, c), excluded=optional_indices(excluded)
    )


def particle_mesh_ewald(
    space: Space,
    cutoff: float,
    *,
    tolerance: float = 1e-4,
    order: int = 5,
    constant: float = 1.0,
    excluded: ArrayLike | Sequence[Sequence[int]] | None = None,
) -> Sum:
    """`CoulombScreened` and `ParticleMeshEwald`; arguments as for `ewald_sum`.

    The mesh is that for which charges spread over 5 points err as much as the cutoff; a larger `order` on the same mesh errs less.
    """
    damping, _ = _damping(space, cutoff, tolerance)
    edges = np.linalg.norm(np.asarray(space.vectors(), float), axis=1)
    points = [max(order, math.ceil(2 * damping * x / (3 * tolerance**0.2))) for x in edges]
    a, b, c = (fast_length(n) for n in points)
    inside = CoulombScreened(constant=constant, damping=damping, cutoff=cutoff)
    left_out = optional_indices(excluded)
    return inside + ParticleMeshEwald(
        constant=constant, damping=damping, mesh=(a, b, c), order=order, excluded=left_out
    )


def check_cell(space: Space, purpose: str = "", remedy: str = "") -> None:
    """Refuse a space that is no periodic cell in three dimensions.

    **Raises:** an `ArgumentError`.
    """
    if space.dimensions != 3 or not space.periodic:
        raise ArgumentError(
            f"Argument `space` must be a periodic cell in three dimensions{purpose}, but is not.{remedy}"
        )


def _damping(space: Space, cutoff: float, tolerance: float) -> tuple[float, float]:
    if not 0 < tolerance < 0.1:
        raise ArgumentError(
            f"Argument `tolerance` must lie between 0 and 0.1, but is {tolerance}. 1e-5 is a good value."
        )
    check_cell(space, "", " Take `CoulombCut` elsewhere.")
    sharp = math.sqrt(-math.log(2 * tolerance))
    return sharp / cutoff, sharp
