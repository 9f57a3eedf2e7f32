"""Truncations of pair potentials at their cutoff."""

import abc
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..._errors import ArgumentError, check_known
from ..._registry import Registry

Energy = Callable[[Array], tuple[Array, Array]]
"""Energy and derivative by the squared distance, without truncation."""


class Truncation(eqx.Module):
    """Modification of the energy of a pair so that it ends at the cutoff."""

    @abc.abstractmethod
    def constants(self, energy: Energy, cutoff: float) -> Any:
        """Return the constants of the coefficients: a pytree of arrays shaped like the result of `energy` at the cutoff."""

    @abc.abstractmethod
    def apply(self, r2: Array, u: Array, slope: Array, constants: PyTree, cutoff: float) -> tuple[Array, Array]:
        """The truncated energy and its derivative by r^2, for distances below the cutoff."""

    @abc.abstractmethod
    def tail(self, energy: Energy, cutoff: float, dimensions: int) -> tuple[Array, Array] | None:
        """The integrals of u and of r u'(r) / dimensions over the space beyond the cutoff: what a uniform fluid there adds to
        energy and virial. None where the energy is meant to end at the cutoff."""


TRUNCATIONS: Registry[type[Truncation]] = Registry("truncation", Truncation)
"""Truncations by the names that study files give them."""


@TRUNCATIONS.named("truncated")
class Truncated(Truncation):
    r"""Cut off: u(r) below the cutoff, 0 beyond, with a step of u(cutoff) in the energy.

    **Arguments:**

    - `tail`: add the energy of the pairs beyond the cutoff as if the fluid were uniform there,
        $\frac{2 \pi}{V} \sum_{st} N_s N_t \int_{r_c}^\infty u_{st} r^2 dr$.
    """

    with_tail: bool = eqx.field(static=True)

    def __init__(self, tail: bool = False):
        self.with_tail = tail

    def constants(self, energy: Energy, cutoff: float) -> None:
        return None

    def apply(self, r2: Array, u: Array, slope: Array, constants: None, cutoff: float) -> tuple[Array, Array]:
        return u, slope

    def tail(self, energy: Energy, cutoff: float, dimensions: int) -> tuple[Array, Array] | None:
        return _tail(energy, cutoff, dimensions) if self.with_tail else None


@TRUNCATIONS.named("shifted")
class Shifted(Truncation):
    """Shifted to 0 at the cutoff: u(r) - u(cutoff). The force has a step."""

    def constants(self, energy: Energy, cutoff: float) -> Array:
        return energy(jnp.asarray(cutoff**2))[0]

    def apply(self, r2: Array, u: Array, slope: Array, constants: Array, cutoff: float) -> tuple[Array, Array]:
        return u - constants, slope

    def tail(self, energy: Energy, cutoff: float, dimensions: int) -> None:
        return None


@TRUNCATIONS.named("force_shifted")
class ForceShifted(Truncation):
    """Energy and force 0 at the cutoff: u(r) - u(cutoff) - (r - cutoff) u'(cutoff)."""

    def constants(self, energy: Energy, cutoff: float) -> tuple[Array, Array]:
        u, slope = energy(jnp.asarray(cutoff**2))
        return u, 2 * cutoff * slope

    def apply(
        self, r2: Array, u: Array, slope: Array, constants: tuple[Array, Array], cutoff: float
    ) -> tuple[Array, Array]:
        r, (at_cutoff, steepness) = jnp.sqrt(r2), constants
        return u - at_cutoff - (r - cutoff) * steepness, slope - steepness / (2 * r)

    def tail(self, energy: Energy, cutoff: float, dimensions: int) -> None:
        return None


@TRUNCATIONS.named("switched")
class Switched(Truncation):
    r"""Multiplied by a quintic that falls from 1 at `inner` to 0 at the cutoff, with two continuous derivatives at both ends:
    $S = 1 - 10 t^3 + 15 t^4 - 6 t^5$ with $t = (r^2 - r_i^2) / (r_c^2 - r_i^2)$.

    **Arguments:**

    - `inner`: from where the energy is changed.
    - `by`: "square" as above, or "distance" with $t = (r - r_i) / (r_c - r_i)$, the switch of OpenMM.
    - `tail`: add the energy that the switch and the cutoff take from pairs, as if the fluid were uniform from `inner` on.

    **Good values:** `inner` at 0.8-0.9 of the cutoff. The smoothest ending: energy drifts least with it.
    """

    inner: float = eqx.field(static=True, converter=float)
    by: Literal["square", "distance"] = eqx.field(static=True, default="square")
    with_tail: bool = eqx.field(static=True, default=False)

    def __init__(self, inner: float, by: Literal["square", "distance"] = "square", tail: bool = False):
        check_known(by, ("square", "distance"), "variable of a switch")
        self.inner, self.by, self.with_tail = inner, by, tail

    def constants(self, energy: Energy, cutoff: float) -> None:
        if not 0 <= self.inner < cutoff:
            raise ArgumentError(f"Argument `inner` must lie between 0 and the cutoff {cutoff}, but is {self.inner}.")

    def apply(self, r2: Array, u: Array, slope: Array, constants: None, cutoff: float) -> tuple[Array, Array]:
        switch, rate = self._switch(r2, cutoff)
        return switch * u, switch * slope + rate * u

    def tail(self, energy: Energy, cutoff: float, dimensions: int) -> tuple[Array, Array] | None:
        if not self.with_tail:
            return None

        def lost(r2: Array) -> tuple[Array, Array]:
            u, slope = energy(r2)
            switch, rate = (a.astype(u.dtype) for a in self._switch(r2, cutoff))
            return (1 - switch) * u, (1 - switch) * slope - rate * u

        beyond, within = _tail(energy, cutoff, dimensions), _shell(lost, self.inner, cutoff, dimensions)
        return beyond[0] + within[0], beyond[1] + within[1]

    def _switch(self, r2: Array, cutoff: float) -> tuple[Array, Array]:
        """The factor of the energy, and its derivative by the squared distance."""
        if self.by == "square":
            scale = 1 / (cutoff**2 - self.inner**2)
            t = jnp.clip((r2 - self.inner**2) * scale, 0, 1)
            rise = scale
        else:
            r, scale = jnp.sqrt(r2), 1 / (cutoff - self.inner)
            t = jnp.clip((r - self.inner) * scale, 0, 1)
            rise = scale / (2 * r)
        return 1 - t * t * t * (10 - t * (15 - 6 * t)), -30 * rise * t * t * (1 - t) * (1 - t)


def _tail(energy: Energy, cutoff: float, dimensions: int) -> tuple[Array, Array]:
    """Gauss-Legendre in t = cutoff / r, exact for inverse powers."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    t, weights = (nodes + 1) / 2, weights / 2
    return _uniform(energy, cutoff / t, weights * cutoff / t**2, dimensions)


def _shell(energy: Energy, inner: float, cutoff: float, dimensions: int) -> tuple[Array, Array]:
    """Gauss-Legendre between two distances."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    half = (cutoff - inner) / 2
    return _uniform(energy, inner + half * (nodes + 1), half * weights, dimensions)


def _uniform(energy: Energy, r: np.ndarray, weights: np.ndarray, dimensions: int) -> tuple[Array, Array]:
    """The integrals over space of an energy, and of r times its derivative by r over the dimensions."""
    sphere = (2 * np.pi, 4 * np.pi)[dimensions - 2]
    r2 = jnp.asarray(r**2)
    u, slope = jax.vmap(energy)(r2)
    measure = jnp.asarray(sphere * weights * r ** (dimensions - 1), u.dtype)
    lever = measure * (2 / dimensions) * r2.astype(u.dtype)
    return jnp.tensordot(measure, u, axes=1), jnp.tensordot(lever, slope, axes=1)
