"""The potential of Stillinger and Weber."""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ...core import POSITIVE, quantity
from ...stores import READERS, Reader
from ..files._three_body_files import STILLINGER_WEBER, read_stillinger_weber
from ._many_body import AtomView
from ._triples import Table, TriplePotential, Triples, by_pair, concrete_cutoff, numbers_of_table


class StillingerWeber(TriplePotential):
    r"""Stillinger and Weber's potential of tetrahedral semiconductors,

    $$U = \sum_{i<j} A\,\epsilon \Big[B \big(\tfrac{\sigma}{r}\big)^p - \big(\tfrac{\sigma}{r}\big)^q\Big] e^{\sigma/(r - a\sigma)}
    + \sum_i \sum_{j<k} \lambda\,\epsilon\, (\cos\theta_{jik} - \cos\theta_0)^2\,
      e^{\gamma\sigma/(r_{ij} - a\sigma)}\, e^{\gamma\sigma/(r_{ik} - a\sigma)}$$

    below $r = a \sigma$. The square of a cosine is a product of second moments of the directions, so that the sum over triples is
    one over pairs: its cost grows with the number of neighbours, not with its square.

    **Arguments:** numbers, or one for each triple of species, the atom in the middle first, shape (species, species, species).
    Pairs take the entries (i, j, j); of the others only `epsilon`, `strength` and `cos_theta0` matter, and those of (i, j, k) and
    (i, k, j) count as their mean.

    - `epsilon`, `sigma`: energy and length.
    - `a`: cutoff over sigma.
    - `strength`: lambda, of the angles.
    - `gamma`, `cos_theta0`: the range over sigma of the angular term, and the cosine of the angle without energy.
    - `A`, `B`, `p`, `q`: of the pairs.
    - `tolerance`: static; where not 0, pairs end a little earlier, as in LAMMPS.
    - `cutoff`: static; by default the largest a sigma. Where these are fitted, give the largest that they may reach.

    Files are read by `StillingerWeber.from_table(read_stillinger_weber(path, elements))`.

    **Good values:** the defaults are silicon's in eV and Angstrom, with a lattice constant of 5.431 Angstrom.

    **Reference:** Stillinger & Weber (1985), Physical Review B 31:5262, doi:10.1103/PhysRevB.31.5262.
    """

    epsilon: Triples = quantity(unit="energy", doc="energy")
    sigma: Triples = quantity(unit="length", support=POSITIVE, doc="length")
    a: Triples = quantity(doc="cutoff over sigma")
    strength: Triples = quantity(doc="lambda, of the angles")
    gamma: Triples = quantity(doc="range of the angular term over sigma")
    cos_theta0: Triples = quantity(doc="cosine of the angle without energy")
    A: Triples = quantity(doc="depth of the pair energy")
    B: Triples = quantity(doc="repulsion of the pair energy")
    p: Triples = quantity(doc="power of the repulsion")
    q: Triples = quantity(doc="power of the attraction")
    tolerance: Any = eqx.field(static=True, kw_only=True)
    cutoff: float | None = eqx.field(static=True, kw_only=True)

    def __init__(
        self,
        epsilon: Table = 2.1683,
        sigma: Table = 2.0951,
        a: Table = 1.8,
        strength: Table = 21.0,
        gamma: Table = 1.2,
        cos_theta0: Table = -1 / 3,
        A: Table = 7.049556277,
        B: Table = 0.6022245584,
        p: Table = 4.0,
        q: Table = 0.0,
        tolerance: Table = 0.0,
        *,
        cutoff: float | None = None,
    ):
        self.epsilon, self.sigma, self.a, self.strength = epsilon, sigma, a, strength
        self.gamma, self.cos_theta0, self.A, self.B = gamma, cos_theta0, A, B
        self.p, self.q, self.tolerance = p, q, _fixed(tolerance)
        self.cutoff = concrete_cutoff(cutoff, lambda: np.max(np.asarray(a) * np.asarray(sigma)))

    @classmethod
    def from_table(cls, table: Any, *, cutoff: float | None = None) -> "StillingerWeber":
        """The potential of a `ThreeBodyTable` that a file held; species are its elements in their order."""
        return cls(*numbers_of_table(table, STILLINGER_WEBER, "read_stillinger_weber"), cutoff=cutoff)

    def _numbers(self) -> tuple[Array, ...]:
        one = self.epsilon, self.sigma, self.a, self.strength, self.gamma, self.cos_theta0
        return (*one, self.A, self.B, self.p, self.q, jnp.asarray(self.tolerance, self.epsilon.dtype))

    def atom_energies(self, view: AtomView) -> Array:
        epsilon, sigma, a, _, gamma, _, big_a, big_b, p, q, tolerance = by_pair(self._numbers(), view)
        r = view.distance
        logarithm = jnp.log(jnp.where(tolerance > 0, jnp.minimum(tolerance, 0.01), jnp.exp(-1.0)))
        shorter = jnp.where(tolerance > 0, jnp.minimum(gamma, 1) * sigma / logarithm, 0)
        inside = view.mask & (r < a * sigma + shorter)
        away = sigma / jnp.where(inside, r - a * sigma, -sigma)
        ratio = jnp.log(sigma / r)  # powers through it: those of XLA take several times longer
        pairs = big_a * epsilon * (big_b * jnp.exp(p * ratio) - jnp.exp(q * ratio)) * jnp.exp(away)
        weight = jnp.where(inside, jnp.exp(gamma * away), 0)
        return 0.5 * jnp.sum(jnp.where(inside, pairs, 0), 1) + self._angles(view, weight)

    def _angles(self, view: AtomView, weight: Array) -> Array:
        r"""Half the sum over j and k without j = k, of $h_j h_k (c - c_0)^2 = h_j h_k (c^2 - 2 c_0 c + c_0^2)$."""
        direction = [a / view.distance for a in view.components]
        count = self.species_count

        def moments(h: Array) -> list[Array]:
            """Zeroth, first and second, in a row; those that stand twice in the second are doubled by their weights."""
            first = [h * u for u in direction]
            second = [a * u for i, a in enumerate(first) for u in direction[: i + 1]]
            return [jnp.sum(a, 1) for a in (h, *first, *second)]

        def product(one: list[Array], other: list[Array], c: Array) -> Array:
            d = len(direction)
            twice = [1.0 if i == j else 2.0 for i in range(d) for j in range(i + 1)]
            weights = [c**2, *[-2 * c] * d, *twice]
            found = [w * a * b for w, a, b in zip(weights, one, other, strict=True)]
            return functools.reduce(jnp.add, found)

        energy, wanted = self.epsilon * self.strength, self.cos_theta0
        if count is None or view.species is None:
            found = moments(weight)
            alone = (1 - wanted) ** 2 * jnp.sum(weight**2, 1)
            return 0.5 * energy * (product(found, found, wanted) - alone)
        theirs = view.gather(view.species)
        shape = (count,) * 3
        energy, wanted = (jnp.broadcast_to(x, shape)[view.own(view.species)] for x in (energy, wanted))
        parted = [jnp.where(theirs == s, weight, 0) for s in range(count)]
        found = [moments(h) for h in parted]
        total = jnp.zeros(len(weight), weight.dtype)
        for s in range(count):
            own = (1 - wanted[:, s, s]) ** 2 * jnp.sum(parted[s] ** 2, 1)
            total = total - energy[:, s, s] * own
            for t in range(count):
                total = total + energy[:, s, t] * product(found[s], found[t], wanted[:, s, t])
        return 0.5 * total


def _fixed(table: PyTree) -> Any:
    """A number or nested tuples of numbers, which can be static."""
    return tuple(_fixed(row) for row in table) if np.ndim(table) else float(table)


READERS.add("stillinger_weber", Reader("potential", read_stillinger_weber, StillingerWeber.from_table))
