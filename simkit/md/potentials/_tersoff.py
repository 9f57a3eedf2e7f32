"""The potential of Tersoff."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._types import Scalar
from ...core import quantity
from ...stores import READERS, Reader
from ..files._three_body_files import TERSOFF, read_tersoff
from ._many_body import AtomView
from ._triples import (
    Table,
    TriplePotential,
    Triples,
    by_pair,
    by_triple,
    concrete_cutoff,
    numbers_of_table,
)


class Tersoff(TriplePotential):
    r"""Tersoff's potential of bonds whose strength depends on what surrounds them,

    $$U = \tfrac12 \sum_i \sum_{j \ne i} f_C(r_{ij}) \big[A e^{-\lambda_1 r_{ij}} - b_{ij} B e^{-\lambda_2 r_{ij}}\big],\quad
    b_{ij} = (1 + \beta^n \zeta_{ij}^n)^{-1/2n}$$

    $$\zeta_{ij} = \sum_{k \ne i, j} f_C(r_{ik})\, \gamma\Big[1 + \frac{c^2}{d^2} - \frac{c^2}{d^2 + (\cos\theta_{jik} -
    \cos\theta_0)^2}\Big] e^{\lambda_3^m (r_{ij} - r_{ik})^m}$$

    with $f_C$ falling from 1 at R - D to 0 at R + D along half a sine.

    **Arguments:** numbers, or one for each triple of species, the atom in the middle first, shape (species, species, species).
    Pairs take the entries (i, j, j); `m`, `gamma`, `lambda3`, `c`, `d`, `cos_theta0`, and R and D of the distance of k, those of
    the triple. They stand in the order of LAMMPS' files; `m` is 1 or 3. `cutoff` is static, by default the largest R + D; where
    these are fitted, give the largest that they may reach.

    `shift` is added to every distance, but not to their differences: bonds are longer by minus the shift.

    Files are read by `Tersoff.from_table(read_tersoff(path, elements))`.

    **Good values:** the defaults are silicon's of 1988 in eV and Angstrom (Si(C)), with a lattice constant of 5.432 Angstrom.

    **Reference:** Tersoff (1988), Physical Review B 37:6991, doi:10.1103/PhysRevB.37.6991, and 38:9902,
    doi:10.1103/PhysRevB.38.9902.
    """

    m: Triples = quantity(doc="power of the difference of distances, 1 or 3")
    gamma: Triples = quantity(doc="factor of the angular function")
    lambda3: Triples = quantity(doc="decay of the difference of distances")
    c: Triples = quantity(doc="strength of the angular function")
    d: Triples = quantity(doc="width of the angular function")
    cos_theta0: Triples = quantity(doc="cosine of the best angle")
    n: Triples = quantity(doc="power of the coordination")
    beta: Triples = quantity(doc="weight of the coordination")
    lambda2: Triples = quantity(doc="decay of the attraction")
    B: Triples = quantity(unit="energy", doc="attraction")
    R: Triples = quantity(unit="length", doc="middle of the cutoff")
    D: Triples = quantity(unit="length", doc="half the width of the cutoff")
    lambda1: Triples = quantity(doc="decay of the repulsion")
    A: Triples = quantity(unit="energy", doc="repulsion")
    shift: Scalar = quantity(0.0, unit="length", doc="added to every distance")
    cutoff: float | None = eqx.field(static=True)

    def __init__(
        self,
        m: Table = 3.0,
        gamma: Table = 1.0,
        lambda3: Table = 1.3258,
        c: Table = 4.8381,
        d: Table = 2.0417,
        cos_theta0: Table = 0.0,
        n: Table = 22.956,
        beta: Table = 0.33675,
        lambda2: Table = 1.3258,
        B: Table = 95.373,
        R: Table = 3.0,
        D: Table = 0.2,
        lambda1: Table = 3.2394,
        A: Table = 3264.7,
        *,
        shift: ArrayLike = 0.0,
        cutoff: float | None = None,
    ):
        self.m, self.gamma, self.lambda3, self.c, self.d, self.cos_theta0 = m, gamma, lambda3, c, d, cos_theta0
        self.n, self.beta, self.lambda2, self.B = n, beta, lambda2, B
        self.R, self.D, self.lambda1, self.A = R, D, lambda1, A
        self.shift = shift
        self.cutoff = concrete_cutoff(cutoff, lambda: np.max(np.asarray(R) + np.asarray(D)) - np.asarray(shift))

    @classmethod
    def from_table(cls, table: Any, *, shift: ArrayLike = 0.0, cutoff: float | None = None) -> "Tersoff":
        """The potential of a `ThreeBodyTable` that a file held; species are its elements in their order."""
        return cls(*numbers_of_table(table, TERSOFF, "read_tersoff"), shift=shift, cutoff=cutoff)

    def _numbers(self) -> tuple[Array, ...]:
        return (*self._of_pairs(), *self._of_triples())

    def _of_pairs(self) -> tuple[Array, ...]:
        return self.R, self.D, self.A, self.lambda1, self.B, self.lambda2, self.beta, self.n

    def _of_triples(self) -> tuple[Array, ...]:
        return self.R, self.D, self.m, self.lambda3, self.gamma, self.c, self.d, self.cos_theta0

    def atom_energies(self, view: AtomView) -> Array:
        return 0.5 * jnp.sum(self.bonds(view), 1)

    def bonds(self, view: AtomView) -> Array:
        """The energies of the bonds of each atom, of which it has one half, shape (atoms, row)."""
        order = lambda zeta, beta, n: bond_order(beta * zeta, n, n)
        rule = BondRule(ending, order, _environment)
        return bond_energies(view, self._of_pairs(), self._of_triples(), self.shift, rule)


class BondRule(NamedTuple):
    """Difference between potentials of bond orders.

    - `ending`: from distance, middle and half the width of the end to a number from 1 to 0.
    - `order`: from zeta and further numbers of the pair to the weight of the attraction.
    - `environment`: from the cosine of an angle, the difference of two distances and numbers of the triple to what an atom adds to
        zeta, but for its ending.
    """

    ending: Callable[..., Array]
    order: Callable[..., Array]
    environment: Callable[..., Array]


def bond_energies(
    view: AtomView, pairs: tuple[Array, ...], triples: tuple[Array, ...], shift: Array, rule: BondRule
) -> Array:
    """Energies of bonds, (atoms, row); `pairs` are R, D, A, lambda1, B, lambda2 and more, `triples` R, D and more."""
    r = view.distance + shift
    middle, half, a, lambda1, b, lambda2, *more = by_pair(pairs, view)
    near = view.mask & (r < middle + half)
    # Beyond the reach of a pair its order does not matter, and might not be finite.
    zeta = jnp.where(near, _coordination(view, triples, shift, rule), 1)
    bond = a * jnp.exp(-lambda1 * r) - rule.order(zeta, *more) * b * jnp.exp(-lambda2 * r)
    return jnp.where(near, rule.ending(r, middle, half) * bond, 0)


def _coordination(view: AtomView, triples: tuple[Array, ...], shift: Array, rule: BondRule) -> Array:
    """Zeta, shape (atoms, row)."""
    middle, half, *more = by_triple(triples, view)
    r, direction = view.distance, [a / view.distance for a in view.components]
    cosine = functools.reduce(jnp.add, [u[:, :, None] * u[:, None, :] for u in direction])
    theirs = jnp.broadcast_to(r[:, None, :] + shift, cosine.shape)
    other = ~jnp.eye(r.shape[1], dtype=bool)[None]
    both = view.mask[:, :, None] & view.mask[:, None, :] & other & (theirs < middle + half)
    apart = jnp.where(both, r[:, :, None] - r[:, None, :], 0)
    found = rule.environment(cosine, apart, *more)
    return jnp.sum(jnp.where(both, rule.ending(theirs, middle, half) * found, 0), axis=2)


def _environment(
    cosine: Array, apart: Array, m: Array, lambda3: Array, gamma: Array, c: Array, d: Array, wanted: Array
) -> Array:
    angular = gamma * (1 + (c / d) ** 2 - c**2 / (d**2 + (wanted - cosine) ** 2))
    return angular * bounded_exp(jnp.where(m == 3, (apart * lambda3) ** 3, apart * lambda3))


def bounded_exp(x: Array) -> Array:
    """The exponential with the bounds of LAMMPS, beyond which it is as good as 0 or 1e30."""
    return jnp.exp(jnp.clip(x, -69.0776, 69.0776))


def ending(r: Array, middle: Array, half: Array) -> Array:
    """1 below `middle - half`, 0 above `middle + half`."""
    width = jnp.where(half > 0, half, 1)
    p = jnp.clip((r - middle) / width, -1, 1)
    return jnp.where(half > 0, 0.5 * (1 - jnp.sin(0.5 * jnp.pi * p)), jnp.where(r < middle, 1.0, 0.0))


def bond_order(x: Array, power: Array, n: Array) -> Array:
    """(1 + x^power)^(-1/2n), whose derivative is finite where x is 0: below 1e-16^(1/power) it is 1 to all digits."""
    least = lax.stop_gradient(jnp.broadcast_to((2e-16 * n) ** (1 / power), x.shape))
    raised = jnp.where(x > least, x, least)
    # Beyond e^60 the 1 does not matter, and the power might overflow in single precision.
    last = lax.stop_gradient(jnp.broadcast_to(jnp.exp(60 / power), x.shape))
    inside = (1 + jnp.minimum(raised, last) ** power) ** (-1 / (2 * n))
    found = jnp.where(raised > last, raised ** (-power / (2 * n)), inside)
    return jnp.where(x > least, found, 1)


READERS.add("tersoff", Reader("potential", read_tersoff, Tersoff.from_table))
