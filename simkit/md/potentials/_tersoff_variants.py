"""Variants of the potential of Tersoff: another angular function, and a repulsion of nuclei."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Scalar
from ...core import quantity
from ...stores import READERS, Reader
from ..files._three_body_files import (
    TERSOFF,
    TERSOFF_MOD,
    TERSOFF_ZBL,
    ThreeBodyTable,
    read_tersoff_mod,
    read_tersoff_zbl,
)
from ._many_body import AtomView
from ._tersoff import BondRule, Tersoff, bond_energies, bond_order, bounded_exp
from ._triples import Table, TriplePotential, Triples, by_pair, concrete_cutoff, numbers_of_table

SCREENING = ((0.1818, 3.2), (0.5099, 0.9423), (0.2802, 0.4029), (0.02817, 0.2016))
"""Weights and inverse lengths of the universal screening function."""


class ModifiedTersoff(TriplePotential):
    r"""Kumagai's form of Tersoff's potential, fitted to the melting point of silicon, too,

    $$U = \tfrac12 \sum_i \sum_{j \ne i} f_C(r_{ij}) \big[A e^{-\lambda_1 r_{ij}} - b_{ij} B e^{-\lambda_2 r_{ij}} + c_0\big],\quad
    b_{ij} = (1 + \zeta_{ij}^\eta)^{-1/2n}$$

    $$\zeta_{ij} = \sum_{k \ne i, j} f_C(r_{ik})\, g(h - \cos\theta_{jik})\, e^{\alpha^\beta (r_{ij} - r_{ik})^\beta},\quad
    g(x) = c_1 + \frac{c_2 x^2}{c_3 + x^2} \big(1 + c_4 e^{-c_5 x^2}\big)$$

    with $f_C = \tfrac12 - \tfrac{9}{16} \sin \tfrac{\pi p}{2} - \tfrac{1}{16} \sin \tfrac{3 \pi p}{2}$ of $p = (r - R)/D$ between
    -1 and 1.

    **Arguments:** numbers, or one for each triple of species, the atom in the middle first, shape (species, species, species), as
    for `Tersoff`; `beta` is 1 or 3 and alpha is raised to it, as in LAMMPS. `shift` is added to every distance, but not to their
    differences. `cutoff` is static.

    Files are read by `ModifiedTersoff.from_table(read_tersoff_mod(path, elements))`.

    **Good values:** the defaults are silicon's in eV and Angstrom.

    **Reference:** Kumagai, Izumi, Hara & Sakai (2007), Computational Materials Science 39:457,
    doi:10.1016/j.commatsci.2006.07.013; with $c_0$ Schall, Gao & Harrison (2008), Physical Review B 77:115209,
    doi:10.1103/PhysRevB.77.115209.
    """

    beta: Triples = quantity(doc="power of the difference of distances, 1 or 3")
    alpha: Triples = quantity(doc="strength of the difference of distances")
    h: Triples = quantity(doc="cosine of the best angle")
    eta: Triples = quantity(doc="power of the coordination")
    lambda2: Triples = quantity(doc="decay of the attraction")
    B: Triples = quantity(unit="energy", doc="attraction")
    R: Triples = quantity(unit="length", doc="middle of the cutoff")
    D: Triples = quantity(unit="length", doc="half the width of the cutoff")
    lambda1: Triples = quantity(doc="decay of the repulsion")
    A: Triples = quantity(unit="energy", doc="repulsion")
    n: Triples = quantity(doc="inverse power of the bond order")
    c1: Triples = quantity(doc="angular function of the best angle")
    c2: Triples = quantity(doc="rise of the angular function")
    c3: Triples = quantity(doc="width of the rise")
    c4: Triples = quantity(doc="weight of the Gaussian")
    c5: Triples = quantity(doc="narrowness of the Gaussian")
    c0: Triples = quantity(unit="energy", doc="energy of a bond")
    shift: Scalar = quantity(0.0, unit="length", doc="added to every distance")
    cutoff: float | None = eqx.field(static=True)

    def __init__(
        self,
        beta: Table = 1.0,
        alpha: Table = 2.3890327,
        h: Table = -0.365,
        eta: Table = 1.0,
        lambda2: Table = 1.345797,
        B: Table = 121.00047,
        R: Table = 3.0,
        D: Table = 0.3,
        lambda1: Table = 3.2300135,
        A: Table = 3281.5905,
        n: Table = 0.93810551,
        c1: Table = 0.20173476,
        c2: Table = 730418.72,
        c3: Table = 1000000.0,
        c4: Table = 1.0,
        c5: Table = 26.0,
        c0: Table = 0.0,
        *,
        shift: ArrayLike = 0.0,
        cutoff: float | None = None,
    ):
        self.beta, self.alpha, self.h, self.eta, self.lambda2, self.B = beta, alpha, h, eta, lambda2, B
        self.R, self.D, self.lambda1, self.A, self.n = R, D, lambda1, A, n
        self.c1, self.c2, self.c3, self.c4, self.c5, self.c0 = c1, c2, c3, c4, c5, c0
        self.shift = shift
        self.cutoff = concrete_cutoff(cutoff, lambda: np.max(np.asarray(R) + np.asarray(D)) - np.asarray(shift))

    @classmethod
    def from_table(cls, table: Any, *, shift: ArrayLike = 0.0, cutoff: float | None = None) -> "ModifiedTersoff":
        """The potential of a `ThreeBodyTable` that a file held; species are its elements in their order."""
        return cls(*numbers_of_table(table, TERSOFF_MOD, "read_tersoff_mod"), shift=shift, cutoff=cutoff)

    def _numbers(self) -> tuple[Array, ...]:
        return (*self._of_pairs(), *self._of_triples())

    def _of_pairs(self) -> tuple[Array, ...]:
        return self.R, self.D, self.A, self.lambda1, self.B, self.lambda2, self.eta, self.n

    def _of_triples(self) -> tuple[Array, ...]:
        numbers = self.beta, self.alpha, self.h, self.c1, self.c2, self.c3, self.c4, self.c5
        return self.R, self.D, *numbers

    def atom_energies(self, view: AtomView) -> Array:
        rule = BondRule(_ending, bond_order, _environment)
        bonds = bond_energies(view, self._of_pairs(), self._of_triples(), self.shift, rule)
        middle, half, constant = by_pair((self.R, self.D, self.c0), view)
        r = view.distance + self.shift
        own = jnp.where(view.mask & (r < middle + half), _ending(r, middle, half) * constant, 0)
        return 0.5 * jnp.sum(bonds + own, 1)


def _ending(r: Array, middle: Array, half: Array) -> Array:
    """1 below `middle - half`, 0 above `middle + half`, with two continuous derivatives."""
    p = 0.5 * jnp.pi * jnp.clip((r - middle) / jnp.where(half > 0, half, 1), -1, 1)
    smooth = 0.5 - 0.5625 * jnp.sin(p) - 0.0625 * jnp.sin(3 * p)
    return jnp.where(half > 0, smooth, jnp.where(r < middle, 1.0, 0.0))


def _environment(
    cosine: Array,
    apart: Array,
    beta: Array,
    alpha: Array,
    h: Array,
    c1: Array,
    c2: Array,
    c3: Array,
    c4: Array,
    c5: Array,
) -> Array:
    square = (h - cosine) ** 2
    angular = c1 + c2 * square / (c3 + square) * (1 + c4 * jnp.exp(-c5 * square))
    return angular * bounded_exp(jnp.where(beta == 3, (alpha * apart) ** 3, alpha * apart))


class TersoffZBL(TriplePotential):
    r"""Tersoff's potential with the repulsion of screened nuclei where atoms come close, for collisions,

    $$V_{ij} = (1 - f_F) \frac{k Z_i Z_j}{r} \phi(r/a) + f_F V_{ij}^{Tersoff},\quad
    f_F = \frac{1}{1 + e^{-A_F (r - r_C)}},\quad a = \frac{0.8854\, a_0}{Z_i^{0.23} + Z_j^{0.23}}$$

    $$\phi(x) = 0.1818 e^{-3.2 x} + 0.5099 e^{-0.9423 x} + 0.2802 e^{-0.4029 x} + 0.02817 e^{-0.2016 x}$$

    **Arguments:** `bonds`: the `Tersoff` potential; its shift counts here, too. The others are numbers or tables by triples of
    species, of which pairs take the entries (i, j, j).

    - `charge1`, `charge2`: numbers of protons of the two.
    - `middle`, `steepness`: $r_C$ and $A_F$.
    - `constant`, `bohr`: Coulomb's constant of elementary charges and Bohr's radius; by default in eV and Angstrom.

    Files are read by `TersoffZBL.from_table(read_tersoff_zbl(path, elements))`.

    **Good values:** $r_C$ 0.95 Angstrom and $A_F$ 14 per Angstrom for silicon and carbon.

    **Reference:** Devanathan, Diaz de la Rubia & Weber (1998), Journal of Nuclear Materials 253:47,
    doi:10.1016/S0022-3115(97)00304-8; Ziegler, Biersack & Littmark (1985), The Stopping and Range of Ions in Matter, Pergamon.
    """

    bonds: Tersoff
    charge1: Triples = quantity(doc="protons of the first atom")
    charge2: Triples = quantity(doc="protons of the second atom")
    middle: Triples = quantity(unit="length", doc="where both count one half")
    steepness: Triples = quantity(unit="1/length", doc="of the change from one to the other")
    constant: Scalar = quantity(14.399645, unit="energy length", doc="Coulomb's constant of elementary charges")
    bohr: Scalar = quantity(0.529, unit="length", doc="Bohr's radius")

    @classmethod
    def from_table(
        cls, table: Any, *, shift: ArrayLike = 0.0, cutoff: float | None = None, constant: ArrayLike = 14.399645
    ) -> "TersoffZBL":
        """The potential of a `ThreeBodyTable` that a file held; species are its elements in their order."""
        own: Any = numbers_of_table(table, TERSOFF_ZBL, "read_tersoff_zbl")[len(TERSOFF) :]
        first = ThreeBodyTable(table.elements, {name: table[name] for name in TERSOFF}, table.units)
        return cls(Tersoff.from_table(first, shift=shift, cutoff=cutoff), *own, constant=constant)  # pyright: ignore

    @property
    def cutoff(self) -> float | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.bonds.cutoff

    def _numbers(self) -> tuple[Array, ...]:
        return self.charge1, self.charge2, self.middle, self.steepness, self.bonds.R, self.bonds.D

    def atom_energies(self, view: AtomView) -> Array:
        r = view.distance + self.bonds.shift
        z1, z2, middle, steepness, reach, width = by_pair(self._numbers(), view)
        length = 0.8854 * self.bohr / (z1**0.23 + z2**0.23)
        screened = sum(weight * jnp.exp(-inverse * r / length) for weight, inverse in SCREENING)
        near = view.mask & (r < reach + width)
        nuclei = jnp.where(near, self.constant * z1 * z2 / jnp.where(near, r, 1) * screened, 0)
        share = 1 / (1 + jnp.exp(-steepness * (r - middle)))
        return 0.5 * jnp.sum((1 - share) * nuclei + share * self.bonds.bonds(view), 1)


READERS.add("tersoff_mod", Reader("potential", read_tersoff_mod, ModifiedTersoff.from_table))
READERS.add("tersoff_zbl", Reader("potential", read_tersoff_zbl, TersoffZBL.from_table))
