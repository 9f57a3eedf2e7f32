"""Journals that several processes write together: each its pieces of the arrays that lie on devices of all of them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from .._errors import StoreError
from .._processes import from_first, spread
from ._journal import Followed, Journal, followed
from ._lock import Unlocked
from ._packed import names_of, packed

COUNT, SHAPE = "pieces", "shape of "
"""Names in a record: how many files hold pieces of its arrays, and, before the name of an array, its shape."""


class Together(NamedTuple):
    """A journal in a folder that all processes see.

    Each process writes the pieces that its devices hold into a file of its own. Then the first one writes the record, which
    holds all else and joins them: a record that is there is whole.

    - `first`: the journal of the first process, which holds the lock; `own`: the same folder, for pieces and to read.
    """

    first: Followed
    own: Journal

    @property
    def folder(self) -> Any:
        return self.own.folder

    @property
    def settings(self) -> dict[str, int]:
        return self.first.settings

    def read(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays of a record, which `joined` puts together."""
        return self.own._replace(lock=None).read(name)

    def plan(self, name: str, noun: str, total: int, each: int = 1) -> None:
        self.first.plan(name, noun, total, each)

    def write_tree(self, name: str, tree: PyTree) -> None:
        """Write the arrays of a pytree; all processes call this."""
        common, pieces = _apart(tree)
        own = piece_name(name, jax.process_index())
        told = ""
        try:
            self.own.drop(own)  # one of an earlier call, which did not come to its end
            self.own.write(own, pieces)
        except StoreError as error:
            told = str(error)
        _all_wrote(told)

        def join() -> None:
            self.first.drop(name)
            self.first.write(name, {**common, COUNT: np.array(jax.process_count())})

        from_first(join)


@contextlib.contextmanager
def together(folder: Any, kind: str, definition: Mapping[str, str], settings: Mapping[str, int]) -> Iterator[Together]:
    """`journal` of several processes of which each writes its pieces; arguments as there."""
    with followed(folder, kind, definition, settings) as first:
        held = first.held
        place, identity = from_first(lambda: None if held is None else (held.folder, held.identity))
        yield Together(first, Journal(place, identity, dict(first.settings), Unlocked()))


def piece_name(name: str, process: int) -> str:
    """The name of the record with the pieces of one process."""
    return f"piece-of-{name}-{process:05d}"


def joined(read: Callable[[str], dict[str, np.ndarray] | None], name: str) -> dict[str, np.ndarray] | None:
    """The arrays of a record, with those of which it has pieces put together; None where a part of it is not whole."""
    found = read(name)
    if found is None or COUNT not in found:
        return found
    whole = {key: x for key, x in found.items() if key != COUNT and not key.startswith(SHAPE)}
    shapes = {key.removeprefix(SHAPE): tuple(x) for key, x in found.items() if key.startswith(SHAPE)}
    for process in range(int(found[COUNT])):
        pieces = read(piece_name(name, process))
        if pieces is None:
            return None
        for label, piece in pieces.items():
            key, _, place = label.rpartition(" at ")
            if key not in whole:
                whole[key] = np.zeros(shapes[key], piece.dtype)
            begins = [int(n) for n in place.split("x")]
            whole[key][tuple(slice(a, a + n) for a, n in zip(begins, piece.shape, strict=True))] = piece
    return whole


def _apart(tree: PyTree) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The arrays of a pytree that every process knows, by name, and pieces of the rest, each held once by all."""
    leaves, names = jax.tree.leaves(tree), names_of(tree)
    common, pieces = {}, {}
    for name, leaf in zip(names, leaves, strict=True):
        if not spread(leaf):
            common |= packed({name: leaf})
            continue
        common[f"{SHAPE}{name}"] = np.array(leaf.shape)
        for shard in leaf.addressable_shards:
            if shard.replica_id == 0:
                begins = "x".join(str(along.start or 0) for along in shard.index)
                pieces[f"{name} at {begins}"] = np.asarray(shard.data)
    return common, pieces


def _all_wrote(told: str) -> None:
    """Wait until all processes have written.

    **Raises:** a `StoreError` in all of them where one could not.
    """
    from jax.experimental import multihost_utils  # of use to few, and slow to import

    failed = np.asarray(multihost_utils.process_allgather(np.array(bool(told))))
    if failed.any():
        raise StoreError(told or f"Process {int(np.argmax(failed))} could not write its pieces: it says why.")
