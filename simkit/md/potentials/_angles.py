"""Angles of three atoms, of four about a bond, and out of a plane."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ...core import POSITIVE, quantity
from ..space._space import Space
from ._bonded import BondedPotential, angle_between, as_indices, dihedral_angle, optional_indices, some_angle
from ._potential import POTENTIALS, Parameter


@POTENTIALS.named("harmonic_angle")
class HarmonicAngle(BondedPotential):
    r"""$u(\theta) = \tfrac12 k (\theta - \theta_0)^2$ of the angle at the second of three atoms.

    **Arguments:**

    - `atoms`: the three atoms of every angle, the middle one second, shape (terms, 3).
    - `stiffness`, `angle`: k and $\theta_0$ in radians: one number, one an angle, or one a kind.
    - `kind`: shape (terms,), which row of the parameters an angle takes.

    **Good values:** 100-150 kcal/(mol rad^2). LAMMPS, AMBER, CHARMM and OPLS print k / 2.
    """

    atoms: Int[Array, "terms 3"] = eqx.field(converter=as_indices)
    stiffness: Parameter = quantity(unit="energy", support=POSITIVE, doc="force constant")
    angle: Parameter = quantity(unit="rad", support=(0.0, jnp.pi), doc="angle at rest")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    @property
    def size(self) -> int:
        return 3

    def term(self, space: Space, position: Array) -> Array:
        a, b = (space.displacement(position[:, i], position[:, 1]) for i in (0, 2))
        return 0.5 * self.each(self.stiffness) * (angle_between(a, b) - self.each(self.angle)) ** 2


class DihedralPotential(BondedPotential):
    """A function of the angle of four atoms about the bond between the second and the third.

    Where three successive atoms are in a line there is no angle: the energy is then that of LAMMPS, cosines of multiples of the
    angle being 0, and there is no force.
    """

    @property
    def size(self) -> int:
        return 4

    def term(self, space: Space, position: Array) -> Array:
        return self.of_angle(*dihedral_angle(space, position))

    @abc.abstractmethod
    def of_angle(self, sine: Float[Array, " terms"], cosine: Float[Array, " terms"]) -> Float[Array, " terms"]:
        """The energy of each angle, 0 being cis; sine and cosine are both 0 where atoms in a line have no angle."""


@POTENTIALS.named("periodic_dihedral")
class PeriodicDihedral(DihedralPotential):
    r"""$u(\phi) = k [1 + \cos(n \phi - \delta)]$ about the bond of the middle atoms, $\phi = \pi$ being trans.

    **Arguments:**

    - `atoms`: four atoms in a chain for every term, shape (terms, 4); for an improper in AMBER's sense the central one third.
    - `stiffness`, `phase`: k and $\delta$ in radians: one number, one a term, or one a kind.
    - `multiplicity`: n, a whole number of 0 or more, static: one for all terms, or a tuple of one a term or a kind.
    - `kind`: shape (terms,), which row of the parameters a term takes.

    Several n of one bond are several terms. LAMMPS' `harmonic` has the phase 0 for d = 1 and $\pi$ for d = -1.
    """

    atoms: Int[Array, "terms 4"] = eqx.field(converter=as_indices)
    stiffness: Parameter = quantity(unit="energy", doc="half the barrier")
    multiplicity: int | tuple[int, ...] = eqx.field(static=True, default=1)
    phase: Parameter = quantity(0.0, unit="rad", doc="angle of the highest energy times n")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_angle(self, sine: Array, cosine: Array) -> Array:
        # Powers of a turn in place of an angle: neither an arc tangent nor a cosine of each term.
        n, phase = self.each(jnp.asarray(self.multiplicity, jnp.int32)), self.each(self.phase)
        turned = (jnp.ones_like(cosine), jnp.zeros_like(sine))
        found = turned
        for k in range(1, max((self.multiplicity,) if isinstance(self.multiplicity, int) else self.multiplicity) + 1):
            turned = turned[0] * cosine - turned[1] * sine, turned[0] * sine + turned[1] * cosine
            found = jnp.where(n == k, turned[0], found[0]), jnp.where(n == k, turned[1], found[1])
        return self.each(self.stiffness) * (1 + found[0] * jnp.cos(phase) + found[1] * jnp.sin(phase))


@POTENTIALS.named("opls_dihedral")
class OPLSDihedral(DihedralPotential):
    r"""$u(\phi) = \tfrac12 [K_1 (1 + \cos \phi) + K_2 (1 - \cos 2\phi) + K_3 (1 + \cos 3\phi) + K_4 (1 - \cos 4\phi)]$,
    $\phi = \pi$ being trans.

    **Arguments:**

    - `atoms`, `kind`: as for `PeriodicDihedral`.
    - `coefficients`: K_1 to K_4: shape (4,), or (terms, 4), or (kinds, 4).

    **Reference:** Jorgensen, Maxwell & Tirado-Rives (1996), Journal of the American Chemical Society 118:11225,
    doi:10.1021/ja9621760.
    """

    atoms: Int[Array, "terms 4"] = eqx.field(converter=as_indices)
    coefficients: Float[Array, "*kinds 4"] = quantity(unit="energy", doc="Fourier coefficients")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_angle(self, sine: Array, cosine: Array) -> Array:
        c = cosine
        double = 2 * c * c - 1
        triple, fourfold = c * (2 * double - 1), 2 * double * double - 1
        waves = jnp.stack([1 + c, 1 - double, 1 + triple, 1 - fourfold], axis=-1)
        return 0.5 * jnp.sum(self.each(self.coefficients, (4,)) * waves, axis=-1)


@POTENTIALS.named("ryckaert_bellemans")
class RyckaertBellemans(DihedralPotential):
    r"""$u(\phi) = \sum_{n=0}^5 C_n \cos^n(\phi - \pi)$, $\phi = \pi$ being trans.

    **Arguments:**

    - `atoms`, `kind`: as for `PeriodicDihedral`.
    - `coefficients`: C_0 to C_5: shape (6,), or (terms, 6), or (kinds, 6).

    **Reference:** Ryckaert & Bellemans (1978), Faraday Discussions 66:95, doi:10.1039/DC9786600095.
    """

    atoms: Int[Array, "terms 4"] = eqx.field(converter=as_indices)
    coefficients: Float[Array, "*kinds 6"] = quantity(unit="energy", doc="coefficients of powers of the cosine")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_angle(self, sine: Array, cosine: Array) -> Array:
        coefficients, found = self.each(self.coefficients, (6,)), jnp.zeros_like(cosine)
        for n in reversed(range(6)):
            found = coefficients[..., n] - cosine * found
        return found


@POTENTIALS.named("harmonic_improper")
class HarmonicImproper(DihedralPotential):
    r"""$u(\chi) = \tfrac12 k (\chi - \chi_0)^2$ of the dihedral angle $\chi$ of four atoms, the difference the shorter way round.

    **Arguments:**

    - `atoms`: four atoms, shape (terms, 4); $\chi$ is the angle between the planes of the first three and of the last three.
    - `stiffness`, `angle`: k and $\chi_0$ in radians: one number, one a term, or one a kind.
    - `kind`: shape (terms,), which row of the parameters a term takes.

    GROMACS' improper of type 2, and as there $\chi$ is 0 where three successive atoms are in a line. With $\chi_0 = 0$ it keeps
    four atoms in a plane; LAMMPS prints k / 2.
    """

    atoms: Int[Array, "terms 4"] = eqx.field(converter=as_indices)
    stiffness: Parameter = quantity(unit="energy", support=POSITIVE, doc="force constant")
    angle: Parameter = quantity(0.0, unit="rad", doc="angle at rest")
    kind: Int[Array, " terms"] | None = eqx.field(converter=optional_indices, default=None)

    def of_angle(self, sine: Array, cosine: Array) -> Array:
        _, sine, cosine = some_angle(sine, cosine)
        rest = self.each(self.angle)
        s, c = jnp.sin(rest), jnp.cos(rest)
        return 0.5 * self.each(self.stiffness) * jnp.arctan2(sine * c - cosine * s, cosine * c + sine * s) ** 2
