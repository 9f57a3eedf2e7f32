"""Samples of many states of one system, and what they are in all others."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..._doors import check_function, check_key
from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, resolve, simulate
from .._particles import Particles
from ..averages._canonical import PRESSED, thermal_energy
from ..averages._lanes import check_status, in_lanes
from ..averages._reweighting import kept
from ..space._atoms import Atoms
from ..space._space import determinant
from ._integration import Integral, thermodynamic_integration
from ._mbar import FreeEnergies, mbar


class StateSamples(eqx.Module):
    r"""Samples of many states.

    - `parameters`: what the states differ by, with a leading axis of states.
    - `reduced_energies`: $(U + P V) / k_B T$ of every sample in every state, shape (states, samples), samples of state 0 first.
    - `slopes`: its derivative by the parameter in the state of the sample itself, shape (states, frames); None where a state has
        more than one parameter.
    - `final`: the last states, with a leading axis, to go on from.
    """

    parameters: Any
    reduced_energies: Float[Array, "states samples"]
    slopes: Float[Array, "states frames"] | None
    final: Atoms

    @property
    def counts(self) -> list[int]:
        """Samples of each state."""
        states, samples = self.reduced_energies.shape
        return [samples // states] * states

    def free_energies(self, *, inefficiency: ArrayLike | None = None) -> FreeEnergies:
        """Free energies of the states by `mbar`."""
        return mbar(self.reduced_energies, self.counts, inefficiency=inefficiency)

    def integral(self) -> Integral:
        """The free energy of the last state less that of the first by `thermodynamic_integration`."""
        if self.slopes is None:
            raise ArgumentError(
                "The states must differ by one number for an integral over it, but they differ by several. Use `free_energies()`."
            )
        return thermodynamic_integration(self.parameters, self.slopes)

    def __repr__(self) -> str:
        states, samples = self.reduced_energies.shape
        return f"StateSamples: {states} states of {samples // states} frames"


def reduced_potential(system: Particles, atoms: Atoms) -> Float[Array, ""]:
    r"""$U / k_B T$, and $(U + P V) / k_B T$ at constant pressure; NaN where there is no room for all neighbours."""
    lists = lax.stop_gradient(system.listed(atoms))
    whole = system.energy_on(atoms, lists)
    if isinstance(system.dynamics, PRESSED):
        whole = whole + system.dynamics.pressure.astype(whole.dtype) * jnp.abs(determinant(atoms.cell))
    return jnp.where(system.fits(lists), whole / jnp.asarray(thermal_energy(system)).astype(whole.dtype), jnp.nan)


@full_products
def sample_states(
    family: Callable[[Any], Particles],
    parameters: PyTree,
    y0: Atoms,
    times: ArrayLike | Sequence[float],
    *,
    step: float | Fixed,
    key: PRNGKeyArray,
    discard: int = 1,
) -> StateSamples:
    r"""Simulate a system in many states, side by side, and evaluate every sample in every state.

    **Arguments:**

    - `family`: from one parameter to the particles in that state, such as from a coupling, a spring constant or a temperature;
        with dynamics of the canonical ensemble, at constant volume or pressure.
    - `parameters`: an array, or a pytree of arrays, with a leading axis of states.
    - `y0`: one start for all states, or one a state, with a leading axis.
    - `times`, `step`: as of `simulate`; `key`: split for the states.
    - `discard`: how many of the first frames are left out.

    **Returns:** `StateSamples`: `free_energies()` by MBAR, `integral()` by thermodynamic integration. They are configurational:
    momenta are left out, whose part is that of an ideal gas. Derivatives by what `family` reads are those of free energies, not
    of the runs.

    **Raises:** an `ArgumentError` for dynamics of another ensemble, or runs that fail.

    ```python
    import jax
    import jax.numpy as jnp
    import numpy as np
    from simkit import md
    def trapped(stiffness):
        return md.Particles(md.HarmonicTrap(stiffness, jnp.zeros(3)), md.OpenSpace(), dynamics=md.Langevin(1.0, 2.0))
    atoms = md.Atoms(jax.random.normal(jax.random.key(1), (4, 3)), jnp.zeros((4, 3)))
    found = md.sample_states(
        trapped, jnp.array([1.0, 2.0, 4.0]), atoms, np.arange(101) * 0.5, step=0.05, key=jax.random.key(0), discard=10
    )
    print(found.free_energies(), found.integral())
    ```
    """
    check_function("family", family, ("parameter",))
    check_key(key, needed=True)
    parameters, count = rows_of_states(parameters, 1)
    starts = in_lanes(y0, count, "states")
    ready, step = prepared(family, parameters, starts, times, step)
    keys = jax.random.split(key, count)
    energies, slopes, final, status = _run(family, parameters, starts, keys, ready.plan, times, step, discard)
    if not traced(status):
        check_status(status, "state")
    return StateSamples(parameters, energies, slopes, final)


def rows_of_states(parameters: PyTree, least: int) -> tuple[Any, int]:
    """The parameters as arrays, and the number of states, their common length."""
    parameters = jax.tree.map(jnp.asarray, parameters)
    counts = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(parameters)}
    if len(counts) != 1 or min(counts) < least:
        more = "" if least == 1 else ", and two at least"
        raise ArgumentError(
            f"Argument `parameters` must have one row a state{more}, but the lengths of its arrays are {sorted(counts)}."
        )
    return parameters, counts.pop()


def prepared(
    family: Callable[[Any], Particles], parameters: PyTree, starts: Atoms, times: Any, step: float | Fixed
) -> tuple[Particles, Any]:
    """The first state's particles, prepared for neighbours that all states share, and the step."""
    first = jax.tree.map(lambda x: x[0], (parameters, starts))
    system = family(first[0])
    if not isinstance(system, Particles):
        raise ArgumentError(f"Argument `family` must return particles, but it returns a `{type(system).__name__}`.")
    thermal_energy(system)
    system = system.prepared(first[1])
    return system, resolve(system, first[1], times, step=step).step


def with_plan(system: Particles, plan: Any) -> Particles:
    """The system with the neighbours planned for another state."""
    return eqx.tree_at(lambda s: s.plan, system, plan, is_leaf=lambda x: x is None)


@eqx.filter_jit
def _run(
    family: Callable[[Any], Particles],
    parameters: PyTree,
    starts: Atoms,
    keys: Array,
    plan: Any,
    times: Any,
    step: Any,
    discard: int,
) -> tuple[Array, Array | None, Atoms, Array]:
    at = lambda parameter: with_plan(family(parameter), plan)
    energy = lambda parameter, atoms: reduced_potential(at(parameter), atoms)
    scalar = eqx.is_inexact_array(parameters) and parameters.ndim == 1

    def one(parameter: Any, y0: Atoms, key: Array) -> tuple[Any, Any, Atoms, Array]:
        run = lax.stop_gradient(simulate(at(parameter), y0, times, step=step, key=key, on_failure="mark"))
        frames = kept(run.ys, discard)
        slope = lax.map(lambda atoms: jax.grad(energy)(parameter, atoms), frames) if scalar else None
        return frames, slope, run.final(), jnp.asarray(run.status)

    frames, slopes, final, status = jax.vmap(one)(parameters, starts, keys)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), frames)
    in_all = lambda atoms: jax.vmap(lambda parameter: energy(parameter, atoms))(parameters)
    return lax.map(in_all, flat).T, slopes, final, status
