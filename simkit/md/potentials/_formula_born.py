"""Energies of all pairs through values that each atom takes from all others, as formulas: models of implicit solvent."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ._every_pair import over_rows
from ._formula import Formula, Function
from ._formula_terms import Indices, Numbers, as_formula, as_numbers
from ._many_body import AtomView, ManyBodyPotential

KINDS = "atom", "pair", "pair without exclusions"


class FormulaThroughAtoms(ManyBodyPotential):
    r"""An energy through computed values of atoms: $v_i = \sum_{j \ne i} f(r_{ij}, a_i, a_j)$ or $v_i = g(a_i)$, one after the
    other, then a sum of energies of single atoms and of pairs that depend on them.

    **Arguments:**

    - `values`: tuples (name, formula, kind), in the order in which they are computed. A kind is "atom", "pair" (leaving out
        `excluded`) or "pair without exclusions". A formula of a pair has the distance `r`, and every name with 1 for the atom whose
        value it is and 2 for the other.
    - `energies`: tuples (formula, kind) that are summed over atoms, or once over each pair.
    - `parameters`: one number an atom by name; `constants`: single numbers by name.
    - `excluded`: pairs that "pair" leaves out, shape (pairs, 2).
    - `within`: distance from which pairs do not count; None for all, which is for open space.
    - `functions`: further functions by name, such as tables.

    **Raises:** an `ArgumentError` for a kind that is not known and for formulas that cannot be read.

    ```python
    import simkit

    embedded = simkit.md.FormulaThroughAtoms(
        values=[("density", "exp(-2*r)", "pair")], energies=[("-sqrt(density)", "atom"), ("exp(-4*r)", "pair")]
    )
    ```
    """

    cutoff: float | None = eqx.field(static=True, default=None, init=False)
    values: tuple[tuple[str, Formula, str], ...] = eqx.field(static=True)
    energies: tuple[tuple[Formula, str], ...] = eqx.field(static=True)
    parameters: dict[str, Array]
    constants: dict[str, Array]
    excluded: Array | None
    within: float | None = eqx.field(static=True)
    functions: tuple[tuple[str, Function], ...] = eqx.field(static=True)

    def __init__(
        self,
        values: Sequence[tuple[str, str, str]],
        energies: Sequence[tuple[str, str]],
        parameters: Numbers | None = None,
        constants: Numbers | None = None,
        excluded: Indices | None = None,
        within: float | None = None,
        functions: Mapping[str, Function] | None = None,
    ):
        self.values = tuple((name, as_formula(text), kind) for name, text, kind in values)
        self.energies = tuple((as_formula(text), kind) for text, kind in energies)
        self.parameters, self.constants = as_numbers(parameters), as_numbers(constants)
        pairs = np.zeros((0, 2), np.int32) if excluded is None else np.asarray(excluded).reshape(-1, 2)
        self.excluded = jnp.asarray(pairs, jnp.int32) if len(pairs) else None
        self.within, self.functions = within, tuple((functions or {}).items())
        for kind in [*(kind for _, _, kind in self.values), *(kind for _, kind in self.energies)]:
            if kind not in KINDS:
                raise ArgumentError(f"A kind of formula must be one of {', '.join(KINDS)}, but is {kind!r}.")

    def energy(self, view: AtomView) -> Array:
        atoms, dtype = len(view.position), view.position.dtype
        known = {name: jnp.broadcast_to(value, (atoms,)).astype(dtype) for name, value in self.parameters.items()}
        known |= dict(zip("xyz", view.position.T, strict=False))
        for name, formula, kind in self.values:
            known[name] = self._of_atoms(formula, kind, known, view)
        total = jnp.zeros((), dtype)
        for formula, kind in self.energies:
            share = 1.0 if kind == "atom" else 0.5
            total = total + share * jnp.sum(self._of_atoms(formula, kind, known, view))
        return total

    def _of_atoms(self, formula: Formula, kind: str, known: Mapping[str, Array], view: AtomView) -> Array:
        functions, atoms = dict(self.functions), len(view.position)
        if kind == "atom":
            return jnp.broadcast_to(formula({**self.constants, **known}, functions), (atoms,))
        left_out = jnp.zeros((atoms, atoms), bool)
        if kind == "pair" and self.excluded is not None:
            a, b = self.excluded[:, 0], self.excluded[:, 1]
            left_out = left_out.at[a, b].set(True).at[b, a].set(True)

        def row(index: Array, r: Array, others: Array) -> Array:
            names: dict[str, Any] = {**self.constants, "r": r}
            names |= {name + "1": value[index][:, None] for name, value in known.items()}
            names |= {name + "2": value[None] for name, value in known.items()}
            counted = others & ~left_out[index]
            counted = counted if self.within is None else counted & (r < self.within)
            found = jnp.broadcast_to(formula(names, functions), r.shape)
            return jnp.sum(jnp.where(counted, found, 0), axis=1)

        return over_rows(row, view.space, view.position)
