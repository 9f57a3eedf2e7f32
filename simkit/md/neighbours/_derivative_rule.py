"""One derivative rule for every energy: energy to gradient to Hessian product, which is its own transpose.

A sweep over the atoms gives energy and gradient, and its forward-mode tangent gives the Hessian times a direction. The Hessian over
parameters, cell, positions and charges is symmetric, so that the backward pass of the gradient is its forward-mode tangent: a few
forces instead of 20, with no residuals but the point itself, and finite where padding would give automatic differentiation 0 * inf.
"""

import abc
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ...core import batched_together
from ...engine import paired
from ._pair_sums import Point, Wanted


class Sweep(eqx.Module):
    """A way over the atoms, all static. It uses only what it is given: `fixed` has no derivatives, `point` has them all."""

    @abc.abstractmethod
    def __call__(
        self, wanted: Wanted, fixed: PyTree, point: Point, direction: Point | None = None
    ) -> tuple[Array, Point]:
        """Energy and its gradient, shaped like `point`; with a `direction`, 0 and the Hessian times it.

        For "energy" the gradient is not asked for, for "force" only that by the positions. Where `direction.terms` is None, only
        positions move.
        """


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def swept_energy(sweep: Sweep, fixed: PyTree, point: Point) -> Array:
    """The energy."""
    return batched_together(sweep("energy", fixed, point)[0], (fixed, point))


@swept_energy.defjvp
def _energy_tangent(sweep: Sweep, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    fixed, point = primals
    energy, gradient = energy_and_gradient(sweep, fixed, point)
    return energy, _dot(gradient, tangents[1])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def energy_and_gradient(sweep: Sweep, fixed: PyTree, point: Point) -> tuple[Array, Point]:
    """The energy and its gradient by everything, from one sweep."""
    return batched_together(sweep("gradient", fixed, point), (fixed, point))


@energy_and_gradient.defjvp
def _gradient_tangent(sweep: Sweep, primals: PyTree, tangents: PyTree) -> tuple[Any, Any]:
    fixed, point = primals
    energy, gradient = energy_and_gradient(sweep, fixed, point)
    return (energy, gradient), (_dot(gradient, tangents[1]), hessian_product(sweep, fixed, point, tangents[1]))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def position_gradient(sweep: Sweep, fixed: PyTree, point: Point) -> Array:
    """The gradient by the positions alone: what a step of molecular dynamics needs, without the sums for parameters and cell."""
    return batched_together(sweep("force", fixed, point)[1].position, (fixed, point))


@position_gradient.defjvp
def _position_gradient_tangent(sweep: Sweep, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    """The way back knows that only positions move: its sweep has no tangents of parameters and cell."""

    def forward(known: PyTree, direction: Point) -> Array:
        fixed, point = known
        return sweep("force", fixed, point, direction)[1].position

    def backward(known: PyTree, cotangent: Array) -> Point:
        fixed, point = known
        return sweep("gradient", fixed, point, Point(None, None, cotangent, None))[1]

    return position_gradient(sweep, *primals), paired(forward, backward, primals, tangents[1])


def hessian_product(sweep: Sweep, fixed: PyTree, point: Point, direction: Point) -> Point:
    """The Hessian over (parameters, cell, positions, charges) times `direction`: linear in it, and its own transpose."""

    def product(known: PyTree, direction: Point) -> Point:
        fixed, point = known
        return sweep("gradient", fixed, point, direction)[1]

    return paired(product, product, (fixed, point), direction)


def _dot(a: PyTree, b: PyTree) -> Array:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    products = [jnp.vdot(p, q) for p, q in pairs]
    return sum(products[1:], products[0])
