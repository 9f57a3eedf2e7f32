"""Reconstruction of values at the two faces of a cell along an axis from averages, without oscillations at jumps."""

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._errors import ArgumentError

if TYPE_CHECKING:
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class Reconstruction(eqx.Module):
    """Values at the lower and the upper face of a cell, from averages of the cell and of `ghosts` neighbours on either side.

    `order` is that of the error where the solution is smooth.
    """

    ghosts: AbstractClassVar[int]
    order: AbstractClassVar[int]

    @abc.abstractmethod
    def edges(self, *stencil: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Lower and upper value, from the averages of `2 ghosts + 1` cells in a row."""


def limited(a: Array, b: Array) -> Array:
    """Van Albada's mean of two differences, 0 where they differ in sign."""
    tiny = jnp.finfo(a.dtype).tiny ** 0.5
    return jnp.where(a * b > 0, a * b * (a + b) / (a * a + b * b + tiny), 0)


class FirstOrder(Reconstruction):
    """The average of the cell itself (Godunov's method): robust and smeared out."""

    ghosts: ClassVar[int] = 0
    order: ClassVar[int] = 1

    def edges(self, *stencil: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        return stencil[0], stencil[0]


class MUSCL(Reconstruction):
    r"""A straight line in each cell, of order 2 where the solution is smooth, its slope limited by van Albada's mean

    $$\sigma = \frac{a b (a + b)}{a^2 + b^2}$$

    of the differences a and b to both neighbours, 0 where they differ in sign.

    van Leer (1979), J. Comput. Phys. 32:101; van Albada, van Leer and Roberts (1982), Astron. Astrophys. 108:76.
    """

    ghosts: ClassVar[int] = 1
    order: ClassVar[int] = 2

    def edges(self, *stencil: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        below, here, above = stencil
        half = 0.5 * limited(here - below, above - here)
        return here - half, here + half


class WENO5Z(Reconstruction):
    r"""Three parabolas weighted by how smooth they are, of order 5 where the solution is smooth:

    $$\omega_k \propto d_k \Big(1 + \Big(\frac{|\beta_0 - \beta_2|}{\beta_k + \epsilon}\Big)^2\Big)$$

    Differences below a millionth of the values count as smooth, which is what $\epsilon$ does.

    Jiang and Shu (1996), J. Comput. Phys. 126:202; Borges, Carmona, Costa and Don (2008), J. Comput. Phys. 227:3191.
    """

    ghosts: ClassVar[int] = 2
    order: ClassVar[int] = 5

    def edges(self, *stencil: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        a, b, c, d, e = stencil
        beta = (
            13 / 12 * (a - 2 * b + c) ** 2 + 1 / 4 * (a - 4 * b + 3 * c) ** 2,
            13 / 12 * (b - 2 * c + d) ** 2 + 1 / 4 * (b - d) ** 2,
            13 / 12 * (c - 2 * d + e) ** 2 + 1 / 4 * (3 * c - 4 * d + e) ** 2,
        )
        small = 1e-12 * (a * a + b * b + c * c + d * d + e * e) + jnp.finfo(c.dtype).tiny ** 0.5
        tau = jnp.abs(beta[0] - beta[2])
        rough = [1 + (tau / (x + small)) ** 2 for x in beta]
        upper = _blend(rough, (0.1, 0.6, 0.3), (2 * a - 7 * b + 11 * c, -b + 5 * c + 2 * d, 2 * c + 5 * d - e))
        lower = _blend(rough, (0.3, 0.6, 0.1), (-a + 5 * b + 2 * c, 2 * b + 5 * c - d, 11 * c - 7 * d + 2 * e))
        return lower, upper


def _blend(rough: list[Array], ideal: tuple[float, ...], six_times: tuple[Array, ...]) -> Array:
    weights = [d * r for d, r in zip(ideal, rough, strict=True)]
    total = sum(w * v for w, v in zip(weights, six_times, strict=True))
    return total / (6 * (weights[0] + weights[1] + weights[2]))


RECONSTRUCTIONS: dict[str, Reconstruction] = {"first_order": FirstOrder(), "muscl": MUSCL(), "weno5z": WENO5Z()}
"""Reconstructions by their names in study files."""


def named(given: object, known: dict[str, Any], name: str, kinds: tuple[type, ...] = (object,)) -> Any:
    """Return the scheme that a user gave, by itself or by its name."""
    found = known.get(given) if isinstance(given, str) else given
    if found is None or not isinstance(found, kinds):
        fitting = [key for key, value in known.items() if isinstance(value, kinds)]
        raise ArgumentError(f"Argument `{name}` must be one of {', '.join(fitting)}, but it is {given!r}.")
    return found
