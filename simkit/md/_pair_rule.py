"""One derivative rule for every sum over pairs: energy to gradient to Hessian product, which is its own transpose.

A sweep over the pairs gives energy and gradient, and its forward-mode tangent gives the Hessian times a direction. The Hessian over
parameters, cell, positions and charges is symmetric, so that the backward pass of the gradient is its forward-mode tangent: a few
forces instead of 20, with no residuals but the point itself, and finite where padding would give automatic differentiation 0 * inf.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine import paired
from ._pair_sums import Point
from ._sweep import PairPlan, sweep


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def pair_energy(plan: PairPlan, pairs: Any, species: Any, point: Point) -> Array:
    """Energy of all pairs."""
    return sweep(plan, "energy", pairs, species, point)[0]


@pair_energy.defjvp
def _energy_tangent(plan: PairPlan, primals: Any, tangents: Any) -> tuple[Array, Array]:
    pairs, species, point = primals
    energy, gradient = energy_and_gradient(plan, pairs, species, point)
    return energy, _dot(gradient, tangents[2])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def energy_and_gradient(plan: PairPlan, pairs: Any, species: Any, point: Point) -> tuple[Array, Point]:
    """Energy of all pairs and its gradient by everything, from one sweep."""
    return sweep(plan, "gradient", pairs, species, point)


@energy_and_gradient.defjvp
def _gradient_tangent(plan: PairPlan, primals: Any, tangents: Any) -> tuple[Any, Any]:
    pairs, species, point = primals
    energy, gradient = energy_and_gradient(plan, pairs, species, point)
    return (energy, gradient), (_dot(gradient, tangents[2]), hessian_product(plan, pairs, species, point, tangents[2]))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def position_gradient(plan: PairPlan, pairs: Any, species: Any, point: Point) -> Array:
    """The gradient by the positions alone: what a step of molecular dynamics needs, without the sums for parameters and cell."""
    return sweep(plan, "force", pairs, species, point)[1].position


@position_gradient.defjvp
def _position_gradient_tangent(plan: PairPlan, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The way back knows that only positions move: its sweep has no tangents of parameters and cell."""

    def forward(known: Any, direction: Point) -> Array:
        pairs, species, point = known
        return sweep(plan, "force", pairs, species, point, direction)[1].position

    def backward(known: Any, cotangent: Array) -> Point:
        pairs, species, point = known
        return sweep(plan, "gradient", pairs, species, point, Point(None, None, cotangent, None))[1]

    return position_gradient(plan, *primals), paired(forward, backward, primals, tangents[2])


def hessian_product(plan: PairPlan, pairs: Any, species: Any, point: Point, direction: Point) -> Point:
    """The Hessian over (parameters, cell, positions, charges) times `direction`: linear in it, and its own transpose."""

    def product(known: Any, direction: Point) -> Point:
        pairs, species, point = known
        return sweep(plan, "gradient", pairs, species, point, direction)[1]

    return paired(product, product, (pairs, species, point), direction)


def _dot(a: Any, b: Any) -> Array:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    products = [jnp.vdot(p, q) for p, q in pairs]
    return sum(products[1:], products[0])
