"""Signatures of compiled programs: shapes, types and static values by path; and the differences of two signatures."""

import dataclasses
import functools
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

LONGEST = 60
"""Most characters that are shown of a static value."""

MOST_LISTED = 256
"""Entries of a static tuple up to which each is looked at; a longer one, such as the reactions of a network, is told by a hash."""

IMPLIED = ("system", "parameters")
"""Words that users leave out at the head of a path."""

SETTINGS = (
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_default_matmul_precision",
    "jax_debug_nans",
    "jax_disable_jit",
)
"""Settings of JAX that are part of what it compiles for."""


class Shaped(NamedTuple):
    """An array argument: its numbers may change, this may not."""

    shape: tuple[int, ...]
    dtype: str
    weak: bool

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class Kind(NamedTuple):
    """The class of a module or container."""

    name: str

    def __str__(self) -> str:
        return self.name


class Word(NamedTuple):
    """A static value, by its text; a function by its identity as well, since JAX compares it so."""

    text: str
    function: Any = None

    def __str__(self) -> str:
        return self.text if len(self.text) <= LONGEST else self.text[: LONGEST - 3] + "..."


Signature = dict[str, Shaped | Kind | Word]


def signature(arguments: Mapping[str, Any]) -> Signature:
    """The signature of a call: no array and no tracer is kept, only what they look like."""
    found: Signature = {}
    for name, value in arguments.items():
        _walk(value, name, False, found)
    for name in SETTINGS:
        value = getattr(jax.config, name, None)
        found[f"jax.config.{name}"] = Word(repr(getattr(value, "value", value)))  # some are enumerations
    return found


def differences(old: Signature, new: Signature) -> list[str]:
    """List the differences, one phrase a path, in the user's words; paths below one that differs are left out."""
    phrases, closed = [], []
    for path in dict.fromkeys([*new, *old]):
        if any(path.startswith(f"{above}.") for above in closed):
            continue
        before, after = old.get(path), new.get(path)
        if same(before, after):
            continue
        phrases.append(_phrase(public(path), before, after))
        if not (isinstance(before, Shaped) and isinstance(after, Shaped)):
            closed.append(path)
    return phrases


def public(path: str) -> str:
    """The path as users write it."""
    words = path.split(".")
    while len(words) > 1 and words[0] in IMPLIED:
        words.pop(0)
    return ".".join(words)


def same(one: Any, other: Any) -> bool:
    """Tell whether two entries select the same program."""
    if isinstance(one, Word) and isinstance(other, Word) and one.function is not None and other.function is not None:
        return one.function() is not None and one.function() is other.function()
    return one == other


def _phrase(path: str, before: Any, after: Any) -> str:
    if before is None:
        return f"`{path}`: new, {after}"
    if after is None:
        return f"`{path}`: gone, was {before}"
    if isinstance(before, Shaped) and isinstance(after, Shaped):
        changes = []
        if before.shape != after.shape:
            changes.append(f"shape {before.shape} -> {after.shape}")
        if before.dtype != after.dtype:
            changes.append(f"{before.dtype} -> {after.dtype}")
        if before.weak != after.weak:
            changes.append(
                "strong -> weak type (a plain number)" if after.weak else "weak type (a plain number) -> strong"
            )
        return f"`{path}`: {', '.join(changes)}"
    if isinstance(before, Word) and isinstance(after, Word) and before.text == after.text:
        return f"static field `{path}`: new function object {after} (make it once and pass the same one)"
    return f"static field `{path}`: {before} -> {after}"


def _walk(node: Any, path: str, static: bool, found: Signature) -> None:
    if isinstance(node, Tracer | jax.Array | np.ndarray | np.generic) and not static:
        found[path] = Shaped(tuple(node.shape), str(node.dtype), bool(getattr(node, "weak_type", False)))
        return
    if static and isinstance(node, tuple) and len(node) > MOST_LISTED:
        found[path] = Word(f"{len(node)} entries with hash {hash(node) & 0xFFFFFFFF:08x}")
        return
    children = list(_children(node, static))
    if children or isinstance(node, Mapping | tuple | list):
        found[path] = Kind(type(node).__qualname__)
        for name, child, fixed in children:
            _walk(child, f"{path}.{name}" if path else name, static or fixed, found)
    elif isinstance(node, types.FunctionType | types.BuiltinFunctionType | types.MethodType | functools.partial):
        found[path] = _function(node)
    elif isinstance(node, type):
        found[path] = Word(node.__qualname__)
    elif dataclasses.is_dataclass(node):  # a module without fields
        found[path] = Kind(type(node).__qualname__)
    else:
        found[path] = Word(repr(node))


def _function(node: Any) -> Word:
    inner = node.func if isinstance(node, functools.partial) else node
    name = f"`{getattr(inner, '__qualname__', type(inner).__qualname__)}`"
    if isinstance(node, types.MethodType):
        return Word(f"{name} of {type(node.__self__).__qualname__}", weakref.WeakMethod(node))
    # A reference that keeps nothing alive: a closure may hold arrays.
    return Word(name, _constant(node) if isinstance(node, types.BuiltinFunctionType) else weakref.ref(node))


def _constant(value: Any) -> Any:
    return lambda: value


def _children(node: Any, static: bool) -> Iterator[tuple[str, Any, bool]]:
    """Name, value and whether it is static, of what a node holds."""
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            if field.name in vars(node):
                yield field.name, vars(node)[field.name], bool(field.metadata.get("static", False))
    elif isinstance(node, Mapping):
        for key in sorted(node, key=str):
            yield str(key), node[key], False
    elif isinstance(node, tuple) and isinstance(fields := getattr(node, "_fields", None), tuple):
        for name, value in zip(fields, node, strict=True):
            yield name, value, False
    elif isinstance(node, tuple | list):
        for i, value in enumerate(node):
            # Pairs such as observables are called by the name that they begin with.
            named = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
            yield (value[0], value[1], False) if named else (str(i), value, False)
    elif not static and not isinstance(node, type) and not jax.tree_util.all_leaves([node]) and node is not None:
        for path, value in jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)[0]:
            yield jax.tree_util.keystr(path, simple=True, separator="."), value, False
