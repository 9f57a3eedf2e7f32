"""A many-body potential from a plain function or a network."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array

from ._many_body import AtomView, ManyBodyPotential


class ManyBodyFunction(ManyBodyPotential):
    r"""Any function from an `AtomView` to an energy, or any Equinox module that is one: descriptors with a network on them, or
    messages between neighbours, in as many rounds as one likes.

    **Arguments:**

    - `function`: from an `AtomView` to a scalar. An Equinox module keeps its arrays as the potential's parameters; numbers that a
        plain function captures are constants. Smooth energies end smoothly at the cutoff, which is up to the function: multiply
        what comes from a neighbour by something that falls to 0 there.
    - `cutoff`: the distance from which atoms do not see each other; None for functions that need no neighbours. An atom that hears
        of others by messages passed on depends on more distant ones.
    - `species_count`: how many species it has parameters for, None where they do not matter.
    - `charged`: whether it reads charges.

    ```python
    import jax.numpy as jnp
    import simkit

    def crowd(view):
        near = jnp.where(view.mask, (1 - (view.distance / 2.0) ** 2) ** 3, 0.0)
        return -jnp.sum(jnp.sqrt(1e-3 + near.sum(1)))

    potential = simkit.md.ManyBodyFunction(crowd, cutoff=2.0)
    ```
    """

    function: Callable[[AtomView], Any]
    cutoff: float | None = eqx.field(static=True)
    kinds: int | None = eqx.field(static=True)
    reads_charges: bool = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[AtomView], Any],
        cutoff: float | None,
        *,
        species_count: int | None = None,
        charged: bool = False,
    ):
        self.function = function
        self.cutoff = None if cutoff is None else float(cutoff)
        self.kinds = species_count
        self.reads_charges = charged

    @property
    def charged(self) -> bool:
        return self.reads_charges

    @property
    def species_count(self) -> int | None:
        return self.kinds

    def energy(self, view: AtomView) -> Array:
        return self.function(view).reshape(())
