"""Systems of different numbers of atoms, padded to one shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .._errors import ArgumentError
from ..core import Setup
from ._particles import Particles
from .space._atoms import Atoms


class AtomsStack(eqx.Module):
    """States of different numbers of atoms in one array, made by `stack_atoms`.

    - `atoms`: `Atoms` with a leading member axis: the argument of a function under `vmap`.
    - `counts`: how many atoms each member has.
    """

    atoms: Atoms
    counts: tuple[int, ...] = eqx.field(static=True)

    @property
    def largest(self) -> Atoms:
        """The member of most atoms: the `y0` of an ensemble, and what a system is prepared for."""
        return jax.tree.map(lambda x: x[int(np.argmax(self.counts))], self.atoms)

    @property
    def over(self) -> dict[str, Array]:
        """The states by path, as `ensemble(over=...)` takes them."""
        member = jax.tree.map(lambda x: x[0], self.atoms)
        names = Setup(None, member).names()
        return dict(zip(names, jax.tree.leaves(self.atoms), strict=True))

    @property
    def waste(self) -> float:
        """The part of all rows that is padding."""
        return 1 - sum(self.counts) / (len(self.counts) * max(self.counts))

    def prepared(self, system: Particles, over: Mapping[str, Any] | None = None) -> Particles:
        """The system with room for the neighbours of every member; outside of transformations.

        **Arguments:** `over`: what else differs between members, as for `ensemble`: their cells, above all.
        """
        values, system = self.over | dict(over or {}), system.prepared(self.largest)
        rows = [{path: jnp.asarray(value)[k] for path, value in values.items()} for k in range(len(self.counts))]
        while True:
            found = [_tally(system, self.largest, row) for row in rows]
            if all(bool(fits) for _, fits in found):
                return system
            system = system.enlarged(jax.tree.map(lambda *x: jnp.stack(x), *(tally for tally, _ in found)))

    def padded(self, values: Sequence[Any], fill: float = 0.0) -> Array:
        """Stack per-atom values of all members, such as masses or charges, into one padded array (members, atoms, ...).

        **Arguments:** `fill`: what padding has; a mass of padding must be positive.
        """
        rows = [np.asarray(value) for value in values]
        sizes = tuple(len(row) for row in rows)
        if sizes != self.counts:
            raise ArgumentError(
                f"Argument `values` must have one entry for each of {self.counts} atoms, but has {sizes}."
            )
        most = max(sizes)
        tail = [np.full((most - len(row), *row.shape[1:]), fill, row.dtype) for row in rows]
        return jnp.asarray(np.stack([np.concatenate(pair) for pair in zip(rows, tail, strict=True)]))

    def parted(self, states: Atoms) -> list[Atoms]:
        """The states of each member without padding, of states with a leading member axis and any axes after it."""

        def part(member: int, count: int) -> Atoms:
            own = jax.tree.map(lambda x: x[member], states)
            # Noise that a thermostat keeps is that of rows, too.
            rows = lambda x: x[..., :count, :] if x.shape[-2:] == own.position.shape[-2:] else x
            return Atoms(rows(own.position), rows(own.momentum), jax.tree.map(rows, own.thermostat), own.cell)

        return [part(member, count) for member, count in enumerate(self.counts)]


def stack_atoms(members: Sequence[Atoms]) -> AtomsStack:
    """States of different numbers of atoms, padded to the most, so that one ensemble or one `vmap` runs them together.

    Rows beyond a member's `count` are no atoms: they feel nothing, do not move, and count in no temperature, pressure or degree of
    freedom; derivatives by them are 0. They stand where the largest member has its atoms.

    **Arguments:**

    - `members`: at least one `Atoms`; either all have a `cell` or none has, and so for what thermostats keep.

    **Good values:** members of like size. All are stepped as one of the most atoms would be where all pairs are computed; with
    lists, the work is that of the pairs there are.

    **Returns:** an `AtomsStack`, whose `over` and `largest` are arguments of `ensemble`.

    ```python
    import jax.numpy as jnp
    import simkit
    from simkit import md

    starts = [md.crystal("fcc", 1.7, repeats) for repeats in ((2, 2, 2), (2, 2, 3))]
    stack = md.stack_atoms([md.Atoms(s.position, 0.1 * jnp.sin(s.position)) for s in starts])
    cells = {"space.lengths": jnp.stack([s.space.lengths for s in starts])}
    system = stack.prepared(md.Particles(md.LennardJones(cutoff=1.6), starts[1].space), cells)
    run = simkit.ensemble(system, stack.largest, [0.0, 0.1], over=stack.over | cells, step=0.005)
    print([atoms.position.shape for atoms in stack.parted(run.final())])
    ```
    """
    members = list(members)
    kinds = {jax.tree.structure(_beside_rows(member)) for member in members}
    shapes = {member.position.shape[1:] for member in members}
    if not members or len(kinds) > 1 or len(shapes) > 1 or any(member.count is not None for member in members):
        raise ArgumentError(
            "Argument `members` must be states of atoms in as many dimensions, all with a cell or a thermostat or none, and "
            f"without padding, but there are {len(members)} of {len(kinds)} kinds in {sorted(shapes)} dimensions."
        )
    counts = tuple(len(member.position) for member in members)
    fullest = members[int(np.argmax(counts))]

    def filled(member: Atoms) -> Atoms:
        count, dtype = len(member.position), member.position.dtype
        rest = fullest.position[count:].astype(dtype)
        still = lambda x: jnp.concatenate([x, jnp.zeros_like(rest)]) if x.shape == member.position.shape else x
        position, bath = jnp.concatenate([member.position, rest]), jax.tree.map(still, member.thermostat)
        return Atoms(position, still(member.momentum), bath, member.cell, jnp.asarray(count, dtype))

    stacked = jax.tree.map(lambda *rows: jnp.stack(rows), *map(filled, members))
    return AtomsStack(stacked, counts)


@eqx.filter_jit
def _tally(system: Particles, largest: Atoms, values: dict[str, Array]) -> tuple[Any, Bool[Array, ""]]:
    """The room that a member needs, and whether its lists have it without all pairs to stand in."""
    put = Setup(system, largest).put(values)
    lists = put.system.listed(put.y0)
    return system.tally(lists), system.limited().fits(lists)


def _beside_rows(member: Atoms) -> Any:
    return member.thermostat, member.cell
