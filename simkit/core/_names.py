"""Names: every number of a study has one dotted path."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from .._errors import ArgumentError, check_known
from ._quantity import Metadata, field_metadata

ROOTS = ("y0", "inputs", "noise", "events")


def _word(entry: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if (value := getattr(entry, attribute, None)) is not None:
            return str(value)
    return str(entry)


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """The array leaves of a pytree, or their shapes, by dotted path, in the tree's own order."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    is_leaf = lambda leaf: eqx.is_array_like(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
    return {".".join(map(_word, path)): leaf for path, leaf in paths if is_leaf(leaf)}


def check_roots(system: Any) -> None:
    """Refuse a system with a field whose name the study needs for itself."""
    if (root := _taken_root(type(system))) is not None:
        raise ArgumentError(
            f"A system must not have a field named `{root}`, but {type(system).__name__} has one: paths that start with "
            f"`{root}` belong to the study. Rename the field."
        )


@functools.cache
def _taken_root(kind: type) -> str | None:
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return next((root for root in ROOTS if root in fields), None)


class Setup(eqx.Module):
    """Everything one simulation needs, and the root of all names.

    `system.` is implied, so a system's rate is `rate`, the initial state `y0.hare`, an input `inputs.torque.values`, a noise scale
    `noise.hare.scale`, times of an event `events.dose.at`. A number appended to the path of an array names one element: `y0.x.3`.
    """

    system: Any
    y0: Any = None
    inputs: Any = None
    noise: Any = None
    events: Any = None  # `NamedEvents`

    def __check_init__(self):
        check_roots(self.system)

    def leaves(self) -> dict[str, Array]:
        """Every float array of the setup by its path."""
        return {
            _public(path): leaf
            for path, leaf in named_leaves(self).items()
            if jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        }

    def names(self) -> tuple[str, ...]:
        """The paths of all float arrays, in the tree's own order."""
        return tuple(self.leaves())

    def locate(self, path: str, what: str = "quantity") -> tuple[str, tuple[int, ...]]:
        """Split a path into the path of an array and the index of an element in it, `()` for the whole array."""
        leaves = self.leaves()
        if path in leaves:
            return path, ()
        head, *tail = _split_index(path)
        if head in leaves:
            index, shape = tuple(tail), np.shape(leaves[head])
            if len(index) != len(shape) or any(i >= n for i, n in zip(index, shape, strict=True)):
                raise ArgumentError(f"`{path}` must name an element of `{head}`, but that has the shape {shape}.")
            return head, index
        check_known(path, leaves, what)
        raise AssertionError(path)

    def get(self, path: str) -> Array:
        """The array, or the element of an array, that a path names."""
        name, index = self.locate(path)
        return self.leaves()[name][index]

    def put(self, values: Mapping[str, Any]) -> "Setup":
        """The setup with the named arrays or elements replaced, each in the float type of what it replaces."""
        where = {path: self.locate(path) for path in values}
        flat, treedef = jax.tree_util.tree_flatten_with_path(self)
        by_name: dict[str, list[tuple[tuple[int, ...], Any]]] = {}
        for path, (name, index) in where.items():
            by_name.setdefault(name, []).append((index, values[path]))
        leaves = []
        for entries, leaf in flat:
            given = by_name.get(_public(".".join(map(_word, entries))), ())
            for index, value in given:
                if not index:
                    leaf = jnp.asarray(value, jnp.result_type(leaf))
            places = [index for index, _ in given if index]
            if places:  # all at once: a field may have hundreds of them
                numbers = jnp.stack([jnp.asarray(value, jnp.result_type(leaf)) for index, value in given if index])
                leaf = jnp.asarray(leaf).at[tuple(np.array(places).T)].set(numbers)
            leaves.append(leaf)
        return jax.tree_util.tree_unflatten(treedef, leaves)

    def metadata(self, path: str) -> Metadata:
        """Unit, support and description of what a path names."""
        name, _ = self.locate(path)
        first, *rest = name.split(".")
        words = [first, *rest] if first in ROOTS else ["system", first, *rest]
        node, found = self, Metadata()
        if words[0] == "system" and isinstance(inner := getattr(self.system, "unswitched", None), eqx.Module):
            words, node = words[1:], inner
        for word in words:
            # Elements of several numbers have what the field says of them.
            of_several = isinstance(node, Mapping) or (isinstance(node, list | tuple) and word.isdigit())
            found = found if of_several and found != Metadata() else field_metadata(node, word)
            if isinstance(node, Mapping):
                node = node.get(word)
            elif isinstance(node, list | tuple) and word.isdigit():
                node = node[int(word)]
            else:
                parent = node
                node = getattr(parent, word, None)
                for held in (getattr(parent, "parameters", None), getattr(parent, "parts", None)):
                    if node is None and isinstance(held, Mapping):
                        node = held.get(word)
        return found


def system_paths(system: Any) -> list[str]:
    """The paths of all leaves of a system, in the tree's own order."""
    paths, _ = jax.tree_util.tree_flatten_with_path(system)
    return [_public(".".join(map(_word, path))) for path, _ in paths]


def _public(path: str) -> str:
    """The path as users write it: the root `system` and fields named `unswitched`, `parameters` or `parts` are implied."""
    return _of_part(path.removeprefix("system.").removeprefix("unswitched."))


def _of_part(path: str) -> str:
    path = path.removeprefix("parameters.")
    if path.startswith("patch."):  # a field of `PatchedSystem`
        return f"patch.{_of_part(path.removeprefix('patch.'))}"
    if not path.startswith("parts."):
        return path
    part, _, rest = path.removeprefix("parts.").partition(".")
    return f"{part}.{_of_part(rest)}"


def _split_index(path: str) -> tuple[Any, ...]:
    words = path.split(".")
    index: list[int] = []
    while len(words) > 1 and words[-1].isdigit():
        index.insert(0, int(words.pop()))
    return ".".join(words), *index


def name_width(names: Iterable[str]) -> int:
    """The width of a column of names in print, of which most tables have the same."""
    return max(20, *(len(name) for name in names), 0)
