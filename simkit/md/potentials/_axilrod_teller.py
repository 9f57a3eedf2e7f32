"""The potential of Axilrod, Teller and Muto."""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ..._doors import shown
from ..._errors import ArgumentError
from ...core import quantity
from ._many_body import AtomView
from ._potential import POTENTIALS
from ._triples import Table, TriplePotential, Triples, by_triple


@POTENTIALS.named("axilrod_teller")
class AxilrodTeller(TriplePotential):
    r"""Axilrod, Teller and Muto's triple-dipole energy, the three-body part of dispersion,

    $$U = \sum_{i<j<k} \nu\, \frac{1 + 3 \cos\gamma_i \cos\gamma_j \cos\gamma_k}{(r_{ij}\, r_{jk}\, r_{ki})^3}$$

    with the angles of the triangle: repulsive where these are acute, attractive for atoms in a row. It is added to a pair
    potential. Of a triple, all three sides are below the cutoff, and their product is below the cube of a second, shorter one.

    **Arguments:**

    - `strength`: $\nu$, an energy times the ninth power of a length; a number, or one for each triple of species, shape
        (species, species, species). Entries whose species are the same in another order count as their mean.
    - `cutoff`: static; of each side.
    - `triple_cutoff`: static; of the cubic root of the product of the three sides. By default the cutoff, which leaves no triple
        out. The energy jumps where triples come and go, as it does in LAMMPS (pair style `atm`).

    **Good values:** for argon and in units of its Lennard-Jones potential, 0.072 with a cutoff of 4.5 and a triple cutoff of 2.5,
    as in LAMMPS' manual. The cost of a step grows with the sixth power of the cutoff.

    **Raises:** an `ArgumentError` for cutoffs that are not positive, and tables of another shape.

    **Reference:** Axilrod and Teller (1943), Journal of Chemical Physics 11:299, doi:10.1063/1.1723844.

    ```python
    import jax.numpy as jnp
    from simkit import md
    triangle = md.Atoms(jnp.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]]), jnp.zeros((3, 2)))
    three = md.Particles(md.AxilrodTeller(1.0, cutoff=2.0), md.OpenSpace(2)).prepared(triangle)
    print(three.energy(triangle))  # 11/8: an equilateral triangle has 1 + 3 / 8
    ```
    """

    strength: Triples = quantity(unit="energy length^9", doc="of the triple-dipole energy")
    cutoff: Any = eqx.field(static=True, kw_only=True)  # a float
    triple_cutoff: float = eqx.field(static=True, kw_only=True)

    def __init__(self, strength: Table | ArrayLike, *, cutoff: float, triple_cutoff: float | None = None):
        self.strength = strength
        for name, value in (("cutoff", cutoff), ("triple_cutoff", cutoff if triple_cutoff is None else triple_cutoff)):
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise ArgumentError(f"Argument `{name}` must be a positive length, but it is {shown(value)}.")
        self.cutoff = float(cutoff)
        self.triple_cutoff = self.cutoff if triple_cutoff is None else float(triple_cutoff)
        if not (self.cutoff > 0 and self.triple_cutoff > 0):
            raise ArgumentError(
                "Arguments `cutoff` and `triple_cutoff` must be positive lengths, but they are "
                f"{self.cutoff} and {self.triple_cutoff}."
            )

    def _numbers(self) -> tuple[Array, ...]:
        return (self.strength,)

    def atom_energies(self, view: AtomView) -> Array:
        r"""A third of all triples of each atom, from the squares a, b and c of the sides ij, ik and jk. With the product
        $d = r_{ij} \cdot r_{ik}$ that of the cosines is $d (a - d) (b - d) / a b c$, so that no angle is needed."""
        (strength,) = by_triple(self._numbers(), view)
        # Lengths in units of the cutoff, whose powers would leave single precision.
        apart = [x / self.cutoff for x in view.components]
        square = functools.reduce(jnp.add, [x**2 for x in apart])
        a, b = square[:, :, None], square[:, None, :]
        d = functools.reduce(jnp.add, [x[:, :, None] * x[:, None, :] for x in apart])
        c = functools.reduce(jnp.add, [(x[:, :, None] - x[:, None, :]) ** 2 for x in apart])
        other = ~jnp.eye(c.shape[1], dtype=bool)[None] & (c > 0)
        both = view.mask[:, :, None] & view.mask[:, None, :] & other & (c < 1)
        c = jnp.where(both, c, 1)
        product = a * b * c
        both = both & (product < (self.triple_cutoff / self.cutoff) ** 6)
        energy = (1 + 3 * d * (a - d) * (b - d) / product) / (product * jnp.sqrt(product))
        total = jnp.sum(jnp.where(both, strength * energy, 0), axis=(1, 2))
        return total / 6 / self.cutoff**9  # j and k in both orders, and each triple at each of its atoms
