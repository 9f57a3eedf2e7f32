"""Constraints of distances between pairs of atoms: SHAKE and RATTLE, solved a molecule at a time."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from ..._errors import ArgumentError
from ...core import POSITIVE, as_float_array, quantity
from ..space._space import Space
from ._constraint import Bonds, DistanceConstraint, bond_vectors, molecules, shaken, spread


class Constraints(DistanceConstraint):
    r"""Distances held constant, $|x_i - x_j| = L$, by forces along the bonds, such as bonds with hydrogen:

    $$x_i' = \tilde x_i + \frac{1}{m_i} \sum_k \lambda_k s_{ki} d_k, \qquad |d_k'| = L_k, \qquad d_k \cdot \dot d_k = 0$$

    Positions by SHAKE, momenta by RATTLE. Atoms that constraints join form a molecule, and the equations of each are solved
    together by Newton's method: rounding in a few steps, at a cost that grows as the third power of a molecule's constraints.
    Derivatives go through by the implicit function theorem.

    **Arguments:**

    - `pairs`: whole numbers, shape (constraints, 2), concrete. Rigid triangles are three pairs; more than $3 n - 6$ in a molecule
        of n atoms, or atoms in a line held by more than their bonds, have no solution.
    - `lengths`: a number, or one a pair, positive; differentiable.

    **Good values:** steps of 2 fs with bonds to hydrogen held.

    **Source:** Ryckaert, Ciccotti and Berendsen (1977), doi:10.1016/0021-9991(77)90098-5; Andersen (1983),
    doi:10.1016/0021-9991(83)90014-1.

    ```python
    from simkit import md

    dimers = md.Constraints([[0, 1], [2, 3]], 1.1)
    ```
    """

    atom: Int[Array, "molecules atoms"]
    sign: Int[Array, "molecules most atoms"]
    entry: Int[Array, "molecules most"]
    lengths: Float[Array, " constraints"] = quantity(unit="length", support=POSITIVE, doc="constrained distances")

    def __init__(self, pairs: ArrayLike | Sequence[Sequence[int]], lengths: ArrayLike | Sequence[float]):
        pairs = _checked_pairs(pairs)
        self.lengths = jnp.broadcast_to(as_float_array(lengths), pairs.shape[:1])
        self.atom, self.sign, self.entry = (jnp.asarray(x, jnp.int32) for x in _grouped(pairs))

    @property
    def count(self) -> int:
        return self.lengths.shape[-1]

    def bonds(self) -> Bonds:
        known = jnp.concatenate([self.lengths, jnp.zeros_like(self.lengths[:1])])
        return Bonds(self.atom, self.sign, known[self.entry])

    def placed(self, space: Space, mass: Array, before: Array, after: Array) -> Array:
        known = molecules(self, space, mass, before)
        multiplier = shaken(known, bond_vectors(known.bonds, space, after))
        return after + spread(known, multiplier, len(after)) / mass


def _checked_pairs(pairs: ArrayLike | Sequence[Sequence[int]]) -> np.ndarray:
    found = np.asarray(pairs)
    if found.ndim != 2 or found.shape[1] != 2 or not len(found) or not np.issubdtype(found.dtype, np.integer):
        raise ArgumentError(
            f"Argument `pairs` must be whole numbers of shape (constraints, 2), but has shape {found.shape} and type {found.dtype}."
        )
    ends, counts = np.unique(np.sort(found, axis=1), axis=0, return_counts=True)
    bad = (ends[:, 0] == ends[:, 1]) | (ends[:, 0] < 0) | (counts > 1)
    if bad.any():
        raise ArgumentError(
            f"Argument `pairs` must name two atoms each and no pair twice, but there is {ends[bad][0].tolist()}."
        )
    return found


def _grouped(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms, signs of the ends and places of the constraints of every molecule, padded."""
    root = {int(a): int(a) for a in np.unique(pairs)}

    def top(a: int) -> int:
        while root[a] != a:
            root[a] = a = root[root[a]]
        return a

    for a, b in pairs.tolist():
        root[top(a)] = top(b)
    held: dict[int, list[int]] = {}
    for k, (a, _) in enumerate(pairs.tolist()):
        held.setdefault(top(a), []).append(k)
    groups = [(np.unique(pairs[own]), own) for own in held.values()]
    most, widest = max(len(own) for _, own in groups), max(len(atoms) for atoms, _ in groups)
    atom = np.zeros((len(groups), widest), int)
    sign = np.zeros((len(groups), most, widest), int)
    entry = np.full((len(groups), most), len(pairs))
    for m, (atoms, own) in enumerate(groups):
        atom[m] = atoms[0]
        atom[m, : len(atoms)] = atoms
        entry[m, : len(own)] = own
        for row, k in enumerate(own):
            sign[m, row, np.searchsorted(atoms, pairs[k])] = (1, -1)
    return atom, sign, entry
