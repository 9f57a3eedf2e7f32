"""Propensities as products: which laws of a network are a coefficient times amounts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core import Products
from ._expression import TIME, Formulas, Node


@dataclasses.dataclass(frozen=True)
class Coefficient:
    """A number times and over formulas that depend on parameters alone."""

    number: float
    above: tuple[int, ...]
    below: tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Factors:
    """The products of a network.

    - `products`: by reaction; `coefficients`: what their coefficients are.
    - `others`: the nodes of the laws that are no products.
    """

    formulas: Formulas
    products: Products
    coefficients: tuple[Coefficient, ...]
    others: tuple[int, ...]

    @staticmethod
    def of(
        formulas: Formulas, laws: Sequence[int], places: Mapping[str, int], sizes: Mapping[str, int] | None = None
    ) -> "Factors":
        """Take laws apart.

        **Arguments:**

        - `laws`: their nodes.
        - `places`: name -> place of a number in the flat state.
        - `sizes`: name -> node of what the number is divided by where the name stands in a law.
        """
        walk = _Walk(formulas, laws, places, sizes or {})
        known: dict[Coefficient, int] = {}
        coefficients, factors, others = [], [], []
        for law in laws:
            found = walk.taken_apart(law)
            if found is None:
                coefficients.append(-1)
                factors.append(())
                others.append(law)
            else:
                coefficients.append(known.setdefault(found[0], len(known)))
                factors.append(found[1])
        return Factors(formulas, Products(tuple(coefficients), tuple(factors)), tuple(known), tuple(others))

    def values(self, parameters: Mapping[str, Any]) -> Float[Array, " coefficients"]:
        """The coefficients for values of the parameters."""
        needed = sorted({x for c in self.coefficients for x in (*c.above, *c.below)})
        value = dict(zip(needed, self.formulas.evaluate(needed, lambda name: parameters[name]), strict=True))
        found = []
        for c in self.coefficients:
            x: Any = c.number
            for node in c.above:
                x = x * value[node]
            for node in c.below:
                x = x / value[node]
            found.append(jnp.asarray(x, float))
        return jnp.stack(found)


class _Walk:
    """Laws as products."""

    def __init__(self, formulas: Formulas, laws: Sequence[int], places: Mapping[str, int], sizes: Mapping[str, int]):
        self.nodes, self.places, self.sizes = formulas.nodes, places, sizes
        self.moving: set[int] = set()  # nodes that depend on the state or on time
        for i in formulas.reached(laws):
            operation, *operands = self.nodes[i]
            if operation == "symbol":
                if operands[0] in places or operands[0] == TIME:
                    self.moving.add(i)
            elif operation != "number" and not self.moving.isdisjoint(operands):
                self.moving.add(i)

    def taken_apart(self, law: int) -> tuple[Coefficient, tuple[tuple[int, int], ...]] | None:
        """A law as a coefficient and factors; None where it is no product."""
        number, above, below = 1.0, [], []
        factors: list[tuple[int, int]] = []
        stack = [(law, True)]
        while stack:
            node, up = stack.pop()
            operation, *operands = self.nodes[node]
            if operation == "number" and (up or operands[0] != 0):
                number = number * operands[0] if up else number / operands[0]
            elif node not in self.moving:
                (above if up else below).append(node)
            elif operation == "multiply":
                stack += [(x, up) for x in operands]
            elif operation == "divide":
                stack += [(operands[0], up), (operands[1], not up)]
            elif operation == "negative":
                number = -number
                stack.append((operands[0], up))
            else:
                factor = self._factor(self.nodes[node])
                if factor is None or not up:
                    return None
                name, less = factor
                factors.append((self.places[name], less))
                below += [self.sizes[name]] if name in self.sizes else []
        # A factor y - m alone would be negative below m: with all factors above it the product is 0 there.
        if any((place, m) not in factors for place, less in factors for m in range(less)):
            return None
        return Coefficient(number, tuple(sorted(above)), tuple(sorted(below))), tuple(sorted(factors))

    def _factor(self, node: Node) -> tuple[str, int] | None:
        """The name of a number of the state, and the whole number that is taken off it."""
        operation, *operands = node
        if operation == "symbol":
            return (operands[0], 0) if operands[0] in self.places else None
        if operation not in ("add", "subtract"):
            return None
        kinds = [self.nodes[x] for x in operands]
        if operation == "add" and kinds[0][0] == "number":
            kinds = kinds[::-1]
        (first, name), (second, less) = (kind[:2] for kind in kinds)
        if first != "symbol" or name not in self.places or second != "number" or name in self.sizes:
            return None
        less = less if operation == "subtract" else -less
        return (name, int(less)) if less == int(less) and 1 <= less <= MOST_TAKEN else None


MOST_TAKEN = 8
"""Numbers of one thing that a reaction may take, in a product."""
