"""Multiple time steps: fast forces at every step, slow ones at every n-th."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._errors import ArgumentError
from ..space._atoms import Atoms
from ._dynamics import DYNAMICS, Body, CellDynamics, Dynamics
from ._nve import NVE


class Counted(eqx.Module):
    """The steps taken so far, and what the inner dynamics keep."""

    count: Array
    inner: Any


@DYNAMICS.named("respa")
class RESPA(Dynamics):
    r"""Reversible multiple time steps: some terms of a sum of potentials act at every n-th step only, there n times as strongly:

    $$p \to p + \tfrac{n h}{2} F_{\text{slow}}, \quad n \times \left( p \to p + \tfrac{h}{2} F_{\text{fast}}, \;
    x \to x + h\, p / m, \; p \to p + \tfrac{h}{2} F_{\text{fast}} \right), \quad p \to p + \tfrac{n h}{2} F_{\text{slow}}$$

    The step of `simulate` is the outer one, n h. Of second order in it.

    **Arguments:**

    - `slow`: which terms of the potential, a `Sum`, are slow: their places, from 0.
    - `steps`: how many steps n of the fast forces make one of the slow ones.
    - `inner`: the dynamics of the inner steps; by default `NVE()`.

    **Good values:** two to four inner steps. Outer steps near half the period of the fastest motion resonate with it, however the
    inner ones are: 4 fs with free bonds of hydrogen.

    **Source:** Tuckerman, Berne and Martyna (1992), doi:10.1063/1.463137.

    ```python
    from simkit import md

    core = md.WeeksChandlerAndersen()
    potential = core + md.CoulombDSF(damping=0.2, cutoff=3.0)
    dynamics = md.RESPA(slow=(1,), steps=4)
    ```
    """

    inner: Dynamics
    slow: tuple[int, ...] = eqx.field(static=True)
    steps: int = eqx.field(static=True)

    def __init__(self, slow: Sequence[int] | np.ndarray, steps: int, inner: Dynamics | None = None):
        self.inner = NVE() if inner is None else inner
        self.slow = tuple(int(k) for k in slow)
        self.steps = steps

    def __check_init__(self):
        if not isinstance(self.steps, int) or self.steps < 1 or not self.slow:
            raise ArgumentError(
                f"Arguments `steps` and `slow` must be a whole number of at least 1 and places of terms, but they are "
                f"{self.steps!r} and {self.slow!r}."
            )
        if isinstance(self.inner, CellDynamics | RESPA):
            raise ArgumentError(
                f"Argument `inner` must be dynamics in a fixed cell and of one step, but it is {self.inner.name}."
            )

    @property
    def name(self) -> str:
        return f"{self.inner.name}, slow forces every {self.steps} steps"

    @property
    def conserves_momentum(self) -> bool:
        return self.inner.conserves_momentum

    @property
    def noisy(self) -> bool:
        return self.inner.noisy

    @property
    def keeps_constraints(self) -> bool:
        return self.inner.keeps_constraints

    def begun(self, body: Body, atoms: Atoms) -> Any:
        return Counted(jnp.zeros((), atoms.momentum.dtype), self.inner.begun(body, atoms))

    def opened(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return self._after(atoms, self.inner.opened(body, h, self._within(atoms), force), 0)

    def moved(self, body: Body, h: Array, atoms: Atoms, key: Array) -> Atoms:
        return self._after(atoms, self.inner.moved(body, h, self._within(atoms), key), 1)

    def kicked(self, body: Body, h: Array, atoms: Atoms, force: Array, key: Array) -> Atoms:
        return self._after(atoms, self.inner.kicked(body, h, self._within(atoms), force, key), 0)

    def closed(self, body: Body, h: Array, atoms: Atoms, force: Array) -> Atoms:
        return self._after(atoms, self.inner.closed(body, h, self._within(atoms), force), 0)

    def stored(self, body: Body, atoms: Atoms) -> Array:
        return self.inner.stored(body, self._within(atoms))

    def doubled_kinetic(self, body: Body, atoms: Atoms) -> Array:
        return self.inner.doubled_kinetic(body, self._within(atoms))

    def _within(self, atoms: Atoms) -> Atoms:
        return Atoms(atoms.position, atoms.momentum, atoms.thermostat.inner, atoms.cell, atoms.count)

    def _after(self, before: Atoms, after: Atoms, steps: int) -> Atoms:
        """Counted from 0 to n - 1 and again."""
        count = before.thermostat.count + steps
        count = jnp.where(count >= self.steps, 0, count).astype(count.dtype)
        return Atoms(after.position, after.momentum, Counted(count, after.thermostat), after.cell, after.count)
