"""Functions of one member as programs, and the ledger of the arrays that they read."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
from jaxtyping import Array, PyTree


class Program:
    """A function of arrays as a jaxpr. What it reads of its surroundings, such as a tracer in a closure, becomes an operand."""

    def __init__(self, function: Callable[..., Any], example: PyTree, ledger: "Ledger"):
        self.own = ledger.own
        ops, fixed = ledger.ops[: self.own[0]], ledger.fixed[: self.own[1]]
        self.jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(ops, fixed, *example)
        self.out = jax.tree.structure(shapes)
        self.shapes = jax.tree.leaves(shapes)
        self.places = [ledger.place(c) if isinstance(c, jax.core.Tracer) else None for c in self.jaxpr.consts]

    def __call__(self, ops: Sequence[Array], fixed: Sequence[Array], *arguments: PyTree) -> Any:
        held = {"ops": ops, "fixed": fixed}
        consts = [
            c if place is None else held[place[0]][place[1]]
            for c, place in zip(self.jaxpr.consts, self.places, strict=True)
        ]
        leaves = jax.tree.leaves((ops[: self.own[0]], fixed[: self.own[1]], arguments))
        return jax.tree.unflatten(self.out, jax.core.eval_jaxpr(self.jaxpr.jaxpr, consts, *leaves))


class Ledger:
    """The operands of a member, as its programs find them."""

    def __init__(self, ops: Sequence[Any], fixed: Sequence[Any]):
        self.ops, self.fixed = list(ops), list(fixed)
        self.own = len(self.ops), len(self.fixed)  # without what is captured
        self._places: dict[int, tuple[str, int]] = {}

    def place(self, value: Any) -> tuple[str, int]:
        """Return the index of a captured value among the operands; a new one is appended."""
        if id(value) not in self._places:
            kind, kept = ("ops", self.ops) if inexact(value) else ("fixed", self.fixed)
            kept.append(value)
            self._places[id(value)] = kind, len(kept) - 1
        return self._places[id(value)]


def inexact(value: Any) -> bool:
    """Tell whether an array holds real or complex numbers."""
    return jnp.issubdtype(value.dtype, jnp.inexact)
