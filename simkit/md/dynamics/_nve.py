"""Newton's equations by velocity Verlet."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..space._atoms import Atoms
from ._dynamics import DYNAMICS, Body, HalfKicked, drift, kick


@DYNAMICS.named("nve")
class NVE(HalfKicked):
    r"""Newton's equations by velocity Verlet, at constant energy:

    $$p_{1/2} = p_0 + \tfrac{h}{2} F(x_0), \quad x_1 = x_0 + h\, p_{1/2} / m, \quad p_1 = p_{1/2} + \tfrac{h}{2} F(x_1)$$

    Symplectic and reversible: the error of the energy is bounded, of order $h^2$ where forces are smooth up to the cutoff.

    **Good values:** steps of 0.005 in reduced units, 1-2 fs for atoms without light bonds.

    **Source:** Swope et al. (1982), doi:10.1063/1.442716.
    """

    @property
    def name(self) -> str:
        return "velocity Verlet"

    @property
    def conserves_momentum(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return False

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return None

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return drift(body, atoms, h)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return kick(atoms, force, h)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return jnp.zeros((), atoms.momentum.dtype)
