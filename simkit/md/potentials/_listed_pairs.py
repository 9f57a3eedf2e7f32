"""A pair potential between named pairs of atoms only."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from ...core import quantity
from ._bonded import as_indices, check_terms, picked
from ._bonds import distance
from ._many_body import AtomView, ManyBodyPotential
from ._pair_terms import pair_species_count, pair_terms
from ._potential import POTENTIALS, BySpecies, PairPotential, Parameter, is_table


@POTENTIALS.named("listed_pairs")
class ListedPairs(ManyBodyPotential):
    r"""$U = \sum_b s_b u(r_b)$ over named pairs, such as those of atoms three bonds apart, whose interactions are scaled.

    **Arguments:**

    - `potential`: a pair potential, with its cutoff and truncation.
    - `atoms`: the two atoms of every pair, shape (terms, 2).
    - `scale`: one number, or one a pair.

    The same pairs are left out of the potential of all pairs by `Particles(..., exclusions=...)`.

    ```python
    import simkit

    near = simkit.md.ListedPairs(simkit.md.LennardJones(cutoff=9.0), [[0, 3]], scale=0.5)
    ```

    **Good values:** 0.5 for Lennard-Jones and Coulomb in OPLS; 1/2 and 1/1.2 in AMBER.
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    potential: PairPotential
    atoms: Int[Array, "terms 2"] = eqx.field(converter=as_indices)
    scale: Parameter = quantity(1.0, doc="factor of the energy")

    @property
    def charged(self) -> bool:
        return self.potential.charged

    @property
    def species_count(self) -> int | None:
        return pair_species_count((self.potential,))

    def energy(self, view: AtomView) -> Array:
        (term,) = pair_terms((self.potential,))
        term = jax.tree.map(lambda a: a.astype(view.position.dtype), term)

        def of_pairs(leaf: PyTree) -> Any:
            if not isinstance(leaf, BySpecies):
                return leaf
            assert view.species is not None, "refused before"
            return leaf.table[view.species[self.atoms[:, 0]], view.species[self.atoms[:, 1]]]

        values = jax.tree.map(of_pairs, (term.coefficients, term.constants), is_leaf=is_table)
        r = distance(view.space, picked(view.position, self.atoms))
        near = ~(r >= self.potential.cutoff)
        # Beyond the cutoff any allowed distance serves, as its result is not used.
        u, _ = term.pair(jnp.where(near, r, self.potential.cutoff) ** 2, values)
        if self.potential.charged:
            assert view.charge is not None, "refused before"
            q = view.charge[self.atoms]
            u = u * q[:, 0] * q[:, 1]
        return jnp.sum(view.present(jnp.where(near, self.scale * u, 0), self.atoms))

    def __check_init__(self):
        check_terms(self, self.atoms, 2)
