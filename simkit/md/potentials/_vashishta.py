"""The potential of Vashishta and others."""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._types import Scalar
from ...core import quantity
from ...stores import READERS, Reader
from ..files._three_body_files import VASHISHTA, read_vashishta
from ._many_body import AtomView
from ._triples import Table, TriplePotential, Triples, by_pair, by_triple, concrete_cutoff, numbers_of_table


class Vashishta(TriplePotential):
    r"""Vashishta's potential of oxides, carbides and III-V semiconductors: steric repulsion, screened charges and charge-dipole
    attraction, dispersion, and angles,

    $$U = \sum_{i<j} \big[u(r) - u(r_c) - (r - r_c) u'(r_c)\big] + \sum_i \sum_{j<k} \frac{B (\cos\theta_{jik} -
    \cos\theta_0)^2}{1 + C (\cos\theta_{jik} - \cos\theta_0)^2} e^{\gamma / (r_{ij} - r_0)} e^{\gamma / (r_{ik} - r_0)}$$

    $$u(r) = \frac{H}{r^\eta} + \frac{k Z_i Z_j}{r} e^{-r/\lambda_1} - \frac{D}{r^4} e^{-r/\lambda_4} - \frac{W}{r^6}$$

    **Arguments:** numbers, or one for each triple of species, the atom in the middle first, shape (species, species, species), in
    the order of LAMMPS' files. Pairs take the entries (i, j, j), with `gamma` and `r0`; `B`, `C` and `cos_theta0` are those of the
    triple, and those of (i, j, k) and (i, k, j) count as their mean.

    - `H`, `eta`: strength and power of the repulsion.
    - `Zi`, `Zj`, `lambda1`: charges in elementary ones and their screening length.
    - `D`, `lambda4`: attraction of charge and dipole, and its screening length.
    - `W`: dispersion.
    - `rc`: where pairs end.
    - `B`, `gamma`, `r0`, `C`, `cos_theta0`: of the angles.
    - `constant`: Coulomb's constant of elementary charges; by default in eV and Angstrom.
    - `cutoff`: static; by default the largest `rc` and `r0`. Where these are fitted, give the largest that they may reach.

    Files are read by `Vashishta.from_table(read_vashishta(path, elements))`.

    **Reference:** Vashishta, Kalia, Rino & Ebbsjo (1990), Physical Review B 41:12197, doi:10.1103/PhysRevB.41.12197; Branicio,
    Rino, Gan & Tsuzuki (2009), Journal of Physics: Condensed Matter 21:095002, doi:10.1088/0953-8984/21/9/095002.
    """

    H: Triples = quantity(unit="energy length^eta", doc="repulsion")
    eta: Triples = quantity(doc="power of the repulsion")
    Zi: Triples = quantity(doc="charge of the first atom")
    Zj: Triples = quantity(doc="charge of the second atom")
    lambda1: Triples = quantity(unit="length", doc="screening length of charges")
    D: Triples = quantity(unit="energy length^4", doc="attraction of charge and dipole")
    lambda4: Triples = quantity(unit="length", doc="screening length of that attraction")
    W: Triples = quantity(unit="energy length^6", doc="dispersion")
    rc: Triples = quantity(unit="length", doc="end of the pairs")
    B: Triples = quantity(unit="energy", doc="strength of the angles")
    gamma: Triples = quantity(unit="length", doc="range of the angles")
    r0: Triples = quantity(unit="length", doc="end of the angles")
    C: Triples = quantity(doc="saturation of the angles")
    cos_theta0: Triples = quantity(doc="cosine of the angle without energy")
    constant: Scalar = quantity(14.399645, unit="energy length", doc="Coulomb's constant of elementary charges")
    cutoff: float | None = eqx.field(static=True, kw_only=True)

    def __init__(
        self,
        H: Table,
        eta: Table,
        Zi: Table,
        Zj: Table,
        lambda1: Table,
        D: Table,
        lambda4: Table,
        W: Table,
        rc: Table,
        B: Table,
        gamma: Table,
        r0: Table,
        C: Table,
        cos_theta0: Table,
        *,
        constant: Any = 14.399645,
        cutoff: float | None = None,
    ):
        self.H, self.eta, self.Zi, self.Zj, self.lambda1 = H, eta, Zi, Zj, lambda1
        self.D, self.lambda4, self.W, self.rc = D, lambda4, W, rc
        self.B, self.gamma, self.r0, self.C, self.cos_theta0 = B, gamma, r0, C, cos_theta0
        self.constant = constant
        self.cutoff = concrete_cutoff(
            cutoff, lambda: np.max(np.maximum(np.max(np.asarray(rc)), np.max(np.asarray(r0))))
        )

    @classmethod
    def from_table(cls, table: Any, *, constant: Any = 14.399645, cutoff: float | None = None) -> "Vashishta":
        """The potential of a `ThreeBodyTable` that a file held; species are its elements in their order."""
        return cls(*numbers_of_table(table, VASHISHTA, "read_vashishta"), constant=constant, cutoff=cutoff)

    def _numbers(self) -> tuple[Array, ...]:
        return (*self._of_pairs(), *self._of_triples())

    def _of_pairs(self) -> tuple[Array, ...]:
        first = self.H, self.eta, self.Zi, self.Zj, self.lambda1, self.D, self.lambda4, self.W
        return (*first, self.rc, self.gamma, self.r0)

    def _of_triples(self) -> tuple[Array, ...]:
        return self.B, self.C, self.cos_theta0

    def atom_energies(self, view: AtomView) -> Array:
        h, eta, zi, zj, lambda1, d, lambda4, w, end, gamma, r0 = by_pair(self._of_pairs(), view)
        r = view.distance
        charges = self.constant * zi * zj

        def energy(r: Array) -> tuple[Array, Array]:
            """Energy and derivative."""
            steric, dipole = h * r**-eta, d / r**4 * jnp.exp(-r / lambda4)
            screened, spread = charges / r * jnp.exp(-r / lambda1), w / r**6
            slope = (
                -eta * steric / r - screened * (1 / r + 1 / lambda1) + dipole * (4 / r + 1 / lambda4) + 6 * spread / r
            )
            return steric + screened - dipole - spread, slope

        u, _ = energy(r)
        last, slope = energy(jnp.broadcast_to(end, r.shape))
        pairs = jnp.where(view.mask & (r < end), u - last - (r - end) * slope, 0)
        inside = view.mask & (r < r0)
        weight = jnp.where(inside, jnp.exp(gamma / jnp.where(inside, r - r0, -1)), 0)
        return 0.5 * jnp.sum(pairs, 1) + self._angles(view, weight)

    def _angles(self, view: AtomView, weight: Array) -> Array:
        strength, saturation, wanted = by_triple(self._of_triples(), view)
        direction = [a / view.distance for a in view.components]
        cosine = functools.reduce(jnp.add, [u[:, :, None] * u[:, None, :] for u in direction])
        square = (cosine - wanted) ** 2
        other = ~jnp.eye(cosine.shape[1], dtype=bool)[None]
        both = jnp.where(other, weight[:, :, None] * weight[:, None, :], 0)
        return 0.5 * jnp.sum(both * strength * square / (1 + saturation * square), axis=(1, 2))


READERS.add("vashishta", Reader("potential", read_vashishta, Vashishta.from_table))
