"""Umbrella sampling: windows along a collective variable that run side by side."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_function, check_key, check_kind
from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, resolve, simulate
from .._particles import Particles
from ..averages._canonical import thermal_energy
from ..averages._lanes import check_atoms, check_status, in_lanes
from ..averages._reweighting import kept
from ..space._atoms import Atoms
from ._bias import UmbrellaBias, biased, in_cell
from ._estimate import as_floats
from ._mbar import FreeEnergies, mbar
from ._profile import Profile, free_energy_profile


class UmbrellaWindows(eqx.Module):
    r"""Samples of a collective variable under springs at several centres.

    - `values`: the variable, shape (windows, frames, ...).
    - `biases`: the springs, with a leading axis of windows.
    - `temperature`: $k_B T$.
    - `final`: the last states, with a leading axis of windows, to go on from.
    """

    values: Float[Array, "windows frames *cv"]
    biases: UmbrellaBias
    temperature: Float[Array, ""]
    final: Atoms

    @property
    def samples(self) -> Float[Array, "samples *cv"]:  # noqa: F821
        """The variable at all samples, window after window."""
        return self.values.reshape(-1, *self.values.shape[2:])

    @full_products
    def reduced_energies(self) -> Float[Array, "windows samples"]:
        """The energies of all springs at all samples, over $k_B T$."""
        of_all = lambda bias: jax.vmap(bias.of_value)(self.samples)
        return eqx.filter_vmap(of_all)(self.biases) / self.temperature

    def free_energies(self, *, inefficiency: ArrayLike | None = None) -> FreeEnergies:
        """Free energies of the windows by `mbar`, to whose averages an energy of 0 is the system without springs."""
        windows, frames = self.values.shape[:2]
        return mbar(self.reduced_energies(), [frames] * windows, inefficiency=inefficiency)

    def profile(self, edges: ArrayLike | Sequence[float], *, inefficiency: ArrayLike | None = None) -> Profile:
        """The free-energy profile along a variable that is one number, without the springs (`free_energy_profile`)."""
        return free_energy_profile(self.free_energies(inefficiency=inefficiency), self.samples, edges)

    def __repr__(self) -> str:
        windows, frames = self.values.shape[:2]
        return f"UmbrellaWindows: {windows} windows of {frames} frames"


@full_products
def umbrella_sampling(
    system: Particles,
    y0: Atoms,
    times: ArrayLike | Sequence[float],
    *,
    cv: Callable[[Atoms], Any],
    centres: ArrayLike | Sequence[float],
    stiffness: ArrayLike | Sequence[float],
    step: float | Fixed,
    key: PRNGKeyArray,
    discard: int = 1,
    period: float | None = None,
) -> UmbrellaWindows:
    r"""Simulate a system under springs on a collective variable, all windows side by side.

    **Arguments:**

    - `system`: without the springs, with dynamics of the canonical ensemble.
    - `y0`: one start for all windows, whose springs pull it to them, or one a window, with a leading axis.
    - `times`, `step`: as of `simulate`; `key`: split for the windows.
    - `cv`, `period`: as of `UmbrellaBias`.
    - `centres`: one a window, shape (windows, ...); `stiffness`: a number, or one a window.
    - `discard`: how many of the first frames are left out, for the start to be forgotten.

    **Good values:** centres $2 \sqrt{k_B T / k}$ apart, so that neighbours share about a third; steps a fiftieth of the period of
    the springs; frames a relaxation time apart.

    **Returns:** `UmbrellaWindows`, which make a profile: `windows.profile(edges)`.

    **Raises:** an `ArgumentError` for dynamics of another ensemble, and for shapes that do not fit.

    ```python
    import jax
    import jax.numpy as jnp
    import numpy as np
    from simkit import md
    well = md.ExternalFunction(lambda position, species, charge: 4.0 * (position[:, 0] ** 2 - 1.0) ** 2 + position[:, 1] ** 2)
    particle = md.Particles(well, md.OpenSpace(2), dynamics=md.Langevin(1.0, 2.0))
    start = md.Atoms(jnp.zeros((1, 2)), jnp.zeros((1, 2)))
    windows = md.umbrella_sampling(
        particle, start, np.arange(101) * 0.2, cv=lambda atoms: atoms.position[0, 0], centres=np.linspace(-1.5, 1.5, 7),
        stiffness=20.0, step=0.02, key=jax.random.key(0), discard=10,
    )
    print(windows.free_energies())
    ```
    """
    check_kind("system", system, Particles, "particles", "Make them: `md.Particles(potential, space, dynamics=...)`.")
    check_function("cv", cv, ("atoms",))
    check_key(key, needed=True)
    thermal = thermal_energy(system)
    centres = as_floats("centres", centres)
    count = centres.shape[0] if centres.ndim else 0
    stiffness = as_floats("stiffness", stiffness)
    if count < 1 or stiffness.shape not in ((), (count,)):
        raise ArgumentError(
            "Argument `centres` must have one row a window, and `stiffness` must be a number or one a window, but their shapes are "
            f"{centres.shape} and {stiffness.shape}."
        )
    check_atoms(y0)
    dtype = y0.position.dtype
    alone = y0 if y0.position.ndim == 2 else jax.tree.map(lambda x: x[0], y0)
    shape = jax.eval_shape(lambda: jnp.asarray(cv(in_cell(alone, system.space)))).shape
    if shape != centres.shape[1:]:
        raise ArgumentError(
            f"Argument `cv` must return an array of the shape of a centre, {centres.shape[1:]}, but its result has the shape "
            f"{shape}."
        )
    springs = jnp.broadcast_to(stiffness, (count,)).astype(dtype)
    biases = eqx.filter_vmap(lambda c, k: UmbrellaBias(cv, c, k, period))(centres.astype(dtype), springs)
    starts = in_lanes(y0, count, "windows")
    first = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, (biases, starts))
    ready = biased(system, first[0]).prepared(first[1])
    fixed = resolve(ready, first[1], times, step=step).step
    keys = jax.random.split(key, count)
    values, final, status = _run(ready, system.potential, biases, starts, keys, times, fixed, discard)
    if not traced(status):
        check_status(status, "window")
    return UmbrellaWindows(values, biases, jnp.asarray(thermal).astype(dtype), final)


@eqx.filter_jit
def _run(
    ready: Particles,
    potential: Any,
    biases: UmbrellaBias,
    starts: Atoms,
    keys: Array,
    times: Any,
    step: Any,
    discard: int,
) -> tuple[Array, Atoms, Array]:
    def one(bias: UmbrellaBias, y0: Atoms, key: Array) -> tuple[Array, Atoms, Array]:
        system = dataclasses.replace(ready, potential=potential + bias)
        run = lax.stop_gradient(simulate(system, y0, times, step=step, key=key, on_failure="mark"))
        measure = lambda atoms: jnp.asarray(bias.cv(in_cell(atoms, system.space)))
        return lax.map(measure, kept(run.ys, discard)), run.final(), jnp.asarray(run.status)

    return eqx.filter_vmap(one)(biases, starts, keys)
