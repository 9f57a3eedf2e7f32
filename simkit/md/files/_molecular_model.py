"""Molecules as a file describes them."""

import equinox as eqx

from .._particles import Particles
from ..potentials._potential import Potential, parts
from ..space._atoms import Atoms


class MolecularModel(eqx.Module):
    """Molecules as a file describes them: the system, its start, and the names of what is in it.

    - `system`: `Particles` with all terms of the force field; its potential is a sum whose terms have the `names`.
    - `start`: `Atoms` of the file.
    - `names`: one a term, such as `"bonds"` or `"coulomb_14"`; the parameters of term k have paths `potential.terms.k.…`.
    - `order`: the row of the file of every row here: virtual sites come last here.
    - `atom_names`, `residues`: one an atom of the file, in its order; empty where the file has none.
    """

    system: Particles
    start: Atoms
    names: tuple[str, ...] = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True)
    atom_names: tuple[str, ...] = eqx.field(static=True, default=())
    residues: tuple[str, ...] = eqx.field(static=True, default=())

    def term(self, name: str) -> Potential:
        """The first term of this name."""
        return parts(self.system.potential)[self.names.index(name)]

    def __repr__(self) -> str:
        atoms, terms = len(self.start.position), parts(self.system.potential)
        sites = "" if self.system.sites is None else f", {self.system.sites.count} virtual sites"
        lines = [f"MolecularModel: {atoms} atoms{sites}, {len(terms)} terms, in {self.system.units.name} units"]
        lines += [
            f"  {k}: {name} ({type(term).__name__})"
            for k, (name, term) in enumerate(zip(self.names, terms, strict=True))
        ]
        return "\n".join(lines)
