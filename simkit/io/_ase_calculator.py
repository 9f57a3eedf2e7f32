"""A potential of ours as a calculator of ASE."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError, missing_package
from ..md import METAL, NeighbourPlan, Potential, Space, gradients, plan_neighbours
from ._ase import from_ase

if TYPE_CHECKING:
    import ase

VOIGT = ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))


def ase_calculator(potential: Potential, *, symbols: Sequence[str] = (), skin: float = 0.5) -> Any:
    r"""An ASE calculator of energy, forces and stress, $\partial U / \partial \epsilon / V$, in ASE's units.

    **Arguments:**

    - `potential`: its numbers in `METAL` units: Angstrom and eV.
    - `symbols`: the chemical symbols of species 0, 1, ...; needed where parameters are by species.
    - `skin`: as for `md.Particles`; neighbours are found anew at every calculation.

    Charges are ASE's initial charges. The cell must be periodic along all axes or none.

    **Raises:** a `MissingPackageError` where ASE is not installed, an `ArgumentError` where atoms have a symbol that is not in
    `symbols`.

    ```python
    import simkit
    try:
        from ase.build import bulk
        atoms = bulk("Ar", "fcc", a=5.3, cubic=True)
        argon = simkit.md.LennardJones(sigma=3.405, epsilon=0.0103, cutoff=8.5)
        atoms.calc = simkit.io.ase_calculator(argon)
        print(atoms.get_potential_energy())
    except ImportError:
        print("ASE is an extra: simkit[md]")
    ```
    """
    try:
        from ase.calculators.calculator import Calculator, all_changes
    except ImportError as error:
        raise missing_package("`ase_calculator`", "ase", "md") from error
    evaluate = _Evaluation(potential, tuple(symbols), skin)

    class SimkitCalculator(Calculator):
        implemented_properties = ["energy", "free_energy", "forces", "stress"]

        def calculate(
            self,
            atoms: Any = None,
            properties: Sequence[str] = ("energy",),
            system_changes: Sequence[str] = all_changes,
        ):
            Calculator.calculate(self, atoms, properties, system_changes)
            self.results = evaluate(self.atoms)

    return SimkitCalculator()


class _Evaluation:
    """Energies of one structure after another, with the plan for neighbours of the last."""

    def __init__(self, potential: Potential, symbols: tuple[str, ...], skin: float):
        self.potential, self.symbols, self.skin = potential, symbols, skin
        self.plan: NeighbourPlan | None = None
        self.atoms = 0

    def __call__(self, atoms: Any) -> dict[str, Any]:
        frame = from_ase(atoms, METAL)
        position, space, species = jnp.asarray(frame.position), frame.space, self._species(atoms)
        charge = None if frame.charge is None else jnp.asarray(frame.charge)
        if self.plan is None or self.atoms != len(position):
            plan = plan_neighbours(self.potential, space, position, skin=self.skin)
            self.plan, self.atoms = plan.limited(), len(position)
        while True:
            found, need = _evaluated(self.potential, space, position, self.plan, species, charge)
            if self.plan.fits(need):
                break
            self.plan = self.plan.grown(need)
        energy = float(found.energy)
        results = {"energy": energy, "free_energy": energy, "forces": np.asarray(found.forces)}
        if space.periodic:
            stress = np.asarray(found.virial) / float(space.volume())
            results["stress"] = np.array([stress[i] for i in VOIGT])
        return results

    def _species(self, atoms: "ase.Atoms") -> jax.Array | None:
        if not self.symbols:
            return None
        found = atoms.get_chemical_symbols()
        unknown = sorted(set(found) - set(self.symbols))
        if unknown:
            raise ArgumentError(
                f"Argument `symbols` must name every element, but {unknown} are not among {list(self.symbols)}. Add them, and "
                "parameters for them."
            )
        return jnp.asarray([self.symbols.index(symbol) for symbol in found], jnp.int32)


@eqx.filter_jit
def _evaluated(
    potential: Potential,
    space: Space,
    position: Array,
    plan: NeighbourPlan,
    species: Array | None,
    charge: Array | None,
) -> Any:
    neighbours = plan.build(space, position)
    return gradients(potential, space, position, neighbours, plan, species=species, charge=charge), neighbours.need
