"""The flat array in which a solve by an error estimate steps an encoded state, and the way back."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from ..._types import State
from ...core import System


class ByLeaf(eqx.Module):
    """Numbers as a tree of the form of a state over devices, of which none holds all in one array."""

    tree: Any


class Flattening:
    """The way between the encoded state of a system and one flat array.

    Numbers stand leaf after leaf, as `ravel_pytree` has them. Where devices hold parts of leaves (`System.shardings`), numbers
    stand device after device, and leaf after leaf within each: a device then holds one piece of the flat array, and nothing
    travels on either way. Leaves that all devices hold, which are small beside the others, are dealt out, their last number
    repeated until all get as many, and gathered on the way back.
    """

    def __init__(self, system: System, state: State) -> None:
        self.leaves, self.structure = jax.tree.flatten(jax.eval_shape(lambda y: y, state))
        self.unravel = ravel_pytree(state)[1]
        self.places = _places(system.shardings(state), self.leaves)

    @property
    def divided(self) -> bool:
        """Tell whether devices hold parts of the state."""
        return bool(self.places)

    def flat(self, state: PyTree) -> Any:
        """The flat array of a state, or of a tree of its form."""
        if not self.places:
            return ravel_pytree(state)[0]
        pairs = zip(jax.tree.leaves(state), self.places, strict=True)
        return self.joined([place.apart(lax.with_sharding_constraint(x, place.sharding)) for x, place in pairs])

    def state(self, flat: Array) -> Any:
        """The state of a flat array."""
        if not self.places:
            return self.unravel(flat)
        pairs = zip(self.pieces(flat), self.places, strict=True)
        leaves = [lax.with_sharding_constraint(place.together(x), place.sharding) for x, place in pairs]
        return self.structure.unflatten(leaves)

    def pieces(self, flat: Array) -> list[Array]:
        """The numbers of each leaf, in an order and a shape that `joined` knows."""
        if not self.places:
            counts = [x.size for x in self.leaves]
            return jnp.split(flat, np.cumsum(counts)[:-1]) if counts else []
        count = self.places[0].count
        rows = lax.with_sharding_constraint(flat, self._sharding(flat)).reshape(count, -1)
        return jnp.split(rows, np.cumsum([place.width for place in self.places])[:-1], axis=1)

    def joined(self, pieces: Sequence[Array]) -> Any:
        """The flat array of the numbers of each leaf."""
        if not self.places:
            return jnp.concatenate(pieces)
        flat = jnp.concatenate(pieces, axis=1).reshape(-1)
        return lax.with_sharding_constraint(flat, self._sharding(flat))

    def ordered(self, values: Array | np.ndarray) -> Any:
        """The flat array of numbers that stand as `ravel_pytree` has them."""
        if not self.places:
            return jnp.asarray(values)
        ends = np.cumsum([x.size for x in self.leaves])[:-1]
        parts = zip((np if isinstance(values, np.ndarray) else jnp).split(values, ends), self.leaves, strict=True)
        return self.flat(self.structure.unflatten([jnp.asarray(x.reshape(leaf.shape)) for x, leaf in parts]))

    def tolerance(self, atol: Any) -> Any:
        """An absolute tolerance for each number of the flat array: from one number, from an array as `ravel_pytree` has them, or
        from those of each leaf."""
        if isinstance(atol, ByLeaf):
            found = self.flat(atol.tree)
        else:
            found = self.ordered(jnp.broadcast_to(atol, (sum(x.size for x in self.leaves),)))
        if self.share == 1:
            return found
        repeated = self.joined([place.repeated() for place in self.places])
        return jnp.where(repeated, jnp.inf, found * self.share)

    @property
    def share(self) -> float:
        """The factor of tolerances by which a mean square over the flat array is that over the state, repeated numbers left out."""
        size = sum(x.size for x in self.leaves)
        return math.sqrt(size / sum(place.width * place.count for place in self.places)) if self.places else 1.0

    def _sharding(self, flat: Array) -> NamedSharding:
        mesh = self.places[0].sharding.mesh
        return NamedSharding(mesh, PartitionSpec(mesh.axis_names))


class _Place:
    """The layout of one leaf over the devices of a mesh, each of which holds as much of it."""

    def __init__(self, leaf: jax.ShapeDtypeStruct, sharding: NamedSharding) -> None:
        self.sharding, self.shape, names = sharding, leaf.shape, sharding.mesh.axis_names
        self.count = math.prod(sharding.mesh.shape.values())
        spec = [*sharding.spec, *[None] * (len(leaf.shape) - len(sharding.spec))]
        self.split: list[int] = []  # each divided axis as those of the devices and that of the rest
        found: dict[Any, int] = {}
        kept = []
        for size, along in zip(leaf.shape, spec, strict=True):
            rest = size
            for name in () if along is None else along if isinstance(along, tuple) else (along,):
                found[name] = len(self.split)
                self.split.append(sharding.mesh.shape[name])
                rest //= sharding.mesh.shape[name]
            kept.append(len(self.split))
            self.split.append(rest)
        self.dealt = not found  # all devices hold all of it
        size = math.prod(leaf.shape)
        self.whole = size > 0 and (self.dealt or (len(found) == len(names) and math.prod(self.split) == size))
        self.order = [*(found[name] for name in names), *kept] if self.whole and found else []
        self.width = -(-size // self.count)

    def apart(self, x: Array) -> Array:
        """The numbers of each device as a row."""
        if self.dealt:
            return jnp.pad(x.reshape(-1), (0, self.width * self.count - x.size), mode="edge").reshape(self.count, -1)
        return x.reshape(self.split).transpose(self.order).reshape(self.count, -1)

    def repeated(self) -> Array:
        """The numbers of such rows that are repeated."""
        places = np.arange(self.width * self.count).reshape(self.count, -1)
        return jnp.asarray(places >= math.prod(self.shape))

    def together(self, rows: Array) -> Array:
        """The leaf of such rows."""
        if self.dealt:
            return rows.reshape(-1)[: math.prod(self.shape)].reshape(self.shape)
        shape = [self.split[i] for i in self.order]
        return rows.reshape(shape).transpose([int(i) for i in np.argsort(self.order)]).reshape(self.shape)


def _places(shardings: PyTree, leaves: Sequence[jax.ShapeDtypeStruct]) -> list[_Place]:
    """The layouts of all leaves; none where a device does not hold as much of each leaf as the others, or types differ."""
    found = jax.tree.leaves(shardings)
    if len(found) != len(leaves) or not leaves or len({x.dtype for x in leaves}) > 1:
        return []
    places = [_Place(leaf, sharding) for leaf, sharding in zip(leaves, found, strict=True)]
    divided = all(place.whole for place in places) and not all(place.dealt for place in places)
    return places if divided else []
