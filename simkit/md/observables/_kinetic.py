"""Kinetic energy and temperature."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._errors import ArgumentError


def kinetic_energy(momentum: Float[Array, "*frames atoms d"], mass: Float[Array, " n"]) -> Float[Array, "*frames"]:
    r"""Kinetic energy $K = \sum_i |p_i|^2 / (2 m_i)$ of a frame, or of each frame of a trajectory.

    **Arguments:** `momentum`, shape (atoms, d) or (frames, atoms, d); `mass`, shape (atoms,), as the simulation counts it.

    **Returns:** the energy, shape () or (frames,).
    """
    _check_atoms(momentum, mass)
    return jnp.einsum("...ad,...ad,a->...", momentum, momentum, 0.5 / mass)


def degrees_of_freedom(
    atoms: int, dimensions: int = 3, *, constraints: int = 0, conserved_momentum: bool = True
) -> int:
    r"""Return the number of degrees of freedom with kinetic energy: $d N - n_c$, less d where total momentum is conserved.

    **Arguments:** the number of `atoms` and `dimensions`; `constraints`, such as fixed bond lengths; `conserved_momentum`: True for
    thermostats and ensembles that keep the total momentum at zero, False under Langevin dynamics or with walls.

    **Raises:** an `ArgumentError` where none remains.
    """
    freedom = dimensions * atoms - constraints - (dimensions if conserved_momentum else 0)
    if freedom < 1:
        raise ArgumentError(
            f"Argument `atoms` must leave at least one degree of freedom, but {atoms} atoms in {dimensions} dimensions with "
            f"{constraints} constraints leave {freedom}."
        )
    return freedom


def temperature(
    momentum: Float[Array, "*frames atoms d"],
    mass: Float[Array, " n"],
    *,
    freedom: Float[Array, ""] | int | float | None = None,
    boltzmann: float = 1.0,
) -> Float[Array, "*frames"]:
    r"""Temperature $T = 2 K / (f\, k_B)$ of a frame, or of each frame of a trajectory.

    **Arguments:**

    - `momentum`, `mass`: as for `kinetic_energy`.
    - `freedom`: the number f of degrees of freedom; by default `degrees_of_freedom(atoms, d)`, which is that of conserved total
        momentum. With the wrong number a small system is at a wrong temperature: by 1/N here.
    - `boltzmann`: the Boltzmann constant, `units.boltzmann`.

    **Returns:** the temperature, shape () or (frames,).
    """
    if freedom is None:
        freedom = degrees_of_freedom(momentum.shape[-2], momentum.shape[-1])
    return 2.0 * kinetic_energy(momentum, mass) / (freedom * boltzmann)


def _check_atoms(momentum: Array, mass: Array) -> None:
    if momentum.ndim < 2 or mass.shape != momentum.shape[-2:-1]:
        raise ArgumentError(
            f"Argument `mass` must have one entry for each atom of `momentum`, (atoms, d) or (frames, atoms, d), but its shape is "
            f"{mass.shape} and that of `momentum` {momentum.shape}."
        )
