"""Exclusions: pairs of atoms that the potentials of all pairs leave out, as those are bound to each other otherwise."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ..._errors import ArgumentError


def partner_table(exclusions: object, atoms: int) -> Int[Array, "atoms most"]:
    """Return the excluded partners of every atom; rows are padded with the atom itself."""
    pairs = np.asarray(exclusions)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ArgumentError(
            f"Argument `exclusions` must be whole numbers of shape (pairs, 2), but is {pairs.dtype} of shape {pairs.shape}. "
            "`excluded_pairs(bonds)` makes them from bonds."
        )
    if len(pairs) and not ((pairs >= 0) & (pairs < atoms)).all():
        row = int(np.flatnonzero(((pairs < 0) | (pairs >= atoms)).any(axis=1))[0])
        raise ArgumentError(
            f"Argument `exclusions` must name atoms from 0 to {atoms - 1}, but row {row} is {pairs[row].tolist()}. Count from 0."
        )
    partners: list[set[int]] = [set() for _ in range(atoms)]
    for a, b in pairs.tolist():
        partners[a].add(b)
        partners[b].add(a)
    most = max((len(found) for found in partners), default=0)
    rows = [[*sorted(found), *[i] * (most - len(found))] for i, found in enumerate(partners)]
    return jnp.asarray(np.asarray(rows, np.int32).reshape(atoms, most))


def kept_pairs(partners: Int[Array, "units left most"], others: Int[Array, "units right"]) -> Array:
    """Return a mask of the `others` that the atoms with these partners do not exclude, (units, left, right)."""
    units, left, most = partners.shape
    kept = jnp.ones((units, left, others.shape[1]), bool)
    for e in range(most):
        kept &= partners[:, :, e, None] != others[:, None]
    return kept


def excluded_pairs(bonds: object, *, apart: int = 3) -> Int[Array, "pairs 2"]:
    """All pairs of atoms at most `apart` bonds from each other, sorted.

    **Arguments:**

    - `bonds`: pairs of bonded atoms, shape (bonds, 2).
    - `apart`: 1 for the bonded pairs alone, 2 with the ends of angles, 3 with those of dihedrals (AMBER, OPLS, CHARMM; those with
        `ListedPairs` at their scaled strength).

    ```python
    import simkit

    print(simkit.md.excluded_pairs([[0, 1], [1, 2]], apart=2).tolist())  # prints [[0, 1], [0, 2], [1, 2]]
    ```
    """
    near: dict[int, set[int]] = {}
    for a, b in np.asarray(bonds).reshape(-1, 2).tolist():
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    found = set()
    for start in near:
        seen, edge = {start}, {start}
        for _ in range(apart):
            edge = {b for a in edge for b in near[a]} - seen
            seen |= edge
        found |= {(start, other) for other in seen if other > start}
    return jnp.asarray(np.asarray(sorted(found), np.int32).reshape(-1, 2))


def check_room(plane_distances: np.ndarray, cutoff: float) -> None:
    """Refuse cells in which an atom sees a bonded one also as another image."""
    if plane_distances.min() < 2 * cutoff:
        raise ArgumentError(
            f"Argument `space` must be wider than two cutoffs, {2 * cutoff:g}, where pairs are excluded, but is "
            f"{plane_distances.min():g} wide. Take a larger cell or a shorter cutoff."
        )
