"""The state of many atoms."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

from ...core import quantity


class Atoms(eqx.Module):
    """Positions and momenta of atoms, and what their dynamics keep.

    - `position`: shape (atoms, d). Positions are not wrapped into the cell, so that displacements can be read from them.
    - `momentum`: shape (atoms, d), mass times velocity.
    - `thermostat`: what a thermostat keeps, such as the heat it took or the chain of Nose and Hoover; None before a run.
    - `cell`: the lattice vectors as rows, shape (d, d), where the cell moves; None where it is that of the space.
    - `count`: how many of the rows are atoms, the first ones, where the rest is padding, put there by `stack_atoms`; None where
        all are. A float, as all of a state.
    """

    position: Array = quantity()
    momentum: Array = quantity()
    thermostat: Any = None
    cell: Any = None
    count: Any = None

    @property
    def real(self) -> Bool[Array, " atoms"] | None:
        """Mask of the rows that are atoms; None where all are."""
        if self.count is None:
            return None
        return jnp.arange(self.position.shape[-2], dtype=jnp.int32) < lax.stop_gradient(self.count).astype(jnp.int32)
