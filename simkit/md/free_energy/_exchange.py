"""Replica exchange: runs in several states that swap their atoms."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from ..._doors import check_count, check_function, check_key
from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, simulate
from .._particles import Particles
from ..averages._canonical import thermal_energy
from ..averages._lanes import check_status, in_lanes
from ..space._atoms import Atoms
from ._mbar import FreeEnergies, mbar
from ._states import prepared, reduced_potential, rows_of_states, with_plan


class ReplicaExchange(eqx.Module):
    r"""Samples of states that exchanged their atoms.

    - `parameters`: of the states, with a leading axis.
    - `values`: what was measured, with leading axes (states, rounds); None if nothing was.
    - `energies`: reduced energies, shape (rounds, states, states): in the second of the states the atoms of the first.
    - `acceptance`: the share of swaps between each state and the next that were accepted, shape (states - 1,).
    - `walkers`: which of the starts was in each state, shape (rounds, states).
    - `final`: the last states, with a leading axis.
    """

    parameters: Any
    values: Any
    energies: Float[Array, "rounds states states"]
    acceptance: Float[Array, " pairs"]
    walkers: Int[Array, "rounds states"]
    final: Atoms

    @property
    def reduced_energies(self) -> Float[Array, "states samples"]:
        """The energies as `mbar` takes them, samples of state 0 first."""
        rounds, states, _ = self.energies.shape
        return self.energies.transpose(2, 1, 0).reshape(states, states * rounds)

    def free_energies(self, *, inefficiency: ArrayLike | None = None) -> FreeEnergies:
        """Free energies of the states by `mbar`; `values` reshaped to (samples, ...) are in its order."""
        rounds, states, _ = self.energies.shape
        return mbar(self.reduced_energies, [rounds] * states, inefficiency=inefficiency)

    def __repr__(self) -> str:
        if traced(self):
            return "ReplicaExchange(traced)"
        rounds, states, _ = self.energies.shape
        rates = ", ".join(f"{float(rate):.2f}" for rate in self.acceptance)
        return f"ReplicaExchange: {states} states, {rounds} rounds; of swaps with the next state were accepted: {rates}"


@full_products
def replica_exchange(
    family: Callable[[Any], Particles],
    parameters: PyTree,
    y0: Atoms,
    *,
    rounds: int,
    duration: float,
    step: float | Fixed,
    key: PRNGKeyArray,
    measure: Callable[[Particles, Atoms], Any] | None = None,
    discard: int = 0,
) -> ReplicaExchange:
    r"""Simulate a system in several states side by side, which swap their atoms: replica exchange, or parallel tempering.

    After each round of `duration`, pairs of neighbours, even and odd ones in turn, swap their atoms with the probability

    $$\min\big(1, e^{u_i(x_i) + u_j(x_j) - u_i(x_j) - u_j(x_i)}\big)$$

    with $u = (U + P V) / k_B T$, so that each state keeps its distribution. Momenta are scaled by the root of the temperatures'
    ratio; what a thermostat keeps stays with the state.

    **Arguments:**

    - `family`: from one parameter to the particles in that state: from a temperature, a coupling, a centre of an umbrella.
    - `parameters`: an array, or a pytree of arrays, with a leading axis of states, neighbours next to each other.
    - `y0`: one start for all states, or one a state, with a leading axis.
    - `rounds`, `duration`: how often swaps are tried, and the time between; `step`: as of `simulate`.
    - `measure`: an observable, a function of (system, atoms), that is kept of every state at the end of every round.
    - `discard`: how many of the first rounds are left out.

    **Good values:** states such that 20 to 40 % of swaps are accepted; rounds about as long as energies are correlated.

    **Returns:** a `ReplicaExchange`.

    **Raises:** an `ArgumentError` for dynamics of another ensemble, and `SimulationError` for runs that fail.

    **Source:** Swendsen and Wang (1986), doi:10.1103/PhysRevLett.57.2607; Sugita and Okamoto (1999), Chemical Physics Letters
    314:141, doi:10.1016/S0009-2614(99)01123-9.

    ```python
    import jax
    import jax.numpy as jnp
    from simkit import md
    well = md.ExternalFunction(lambda position, species, charge: 6.0 * (position[:, 0] ** 2 - 1.0) ** 2 + position[:, 1] ** 2)
    particle = lambda temperature: md.Particles(well, md.OpenSpace(2), dynamics=md.Langevin(temperature, 2.0))
    start = md.Atoms(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))
    print(
        md.replica_exchange(
            particle, jnp.array([1.0, 2.0, 4.0]), start, rounds=100, duration=0.5, step=0.05, key=jax.random.key(0),
            measure=lambda system, atoms: atoms.position[0, 0],
        )
    )
    ```
    """
    check_function("family", family, ("parameter",))
    check_key(key, needed=True)
    check_count("rounds", rounds)
    parameters, count = rows_of_states(parameters, 2)
    if not 0 <= discard < rounds:
        raise ArgumentError(f"Argument `discard` must leave at least one of the {rounds} rounds, but it is {discard}.")
    starts = in_lanes(y0, count, "states")
    times = (0.0, float(duration))
    ready, step = prepared(family, parameters, starts, times, step)
    found = _exchanged(family, parameters, starts, key, ready, times, step, rounds, measure)
    final, (values, energies, walkers, tried, accepted, status) = found
    if not traced(status):
        check_status(jnp.max(status, axis=0), "state")
    values, energies, walkers, tried, accepted = jax.tree.map(
        lambda x: x[discard:], (values, energies, walkers, tried, accepted)
    )
    rate = jnp.sum(accepted, axis=0) / jnp.maximum(jnp.sum(tried, axis=0), 1)
    values = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), values)
    return ReplicaExchange(parameters, values, energies, rate, walkers, final)


@eqx.filter_jit
def _exchanged(
    family: Callable[[Any], Particles],
    parameters: PyTree,
    starts: Atoms,
    key: Array,
    ready: Particles,
    times: tuple[float, float],
    step: Any,
    rounds: int,
    measure: Callable[[Particles, Atoms], Any] | None,
) -> Any:
    states = starts.position.shape[0]
    places = jnp.arange(states, dtype=jnp.int32)
    at = lambda parameter: with_plan(family(parameter), ready.plan)
    dtype = starts.position.dtype
    heat = jax.vmap(lambda p: jnp.asarray(thermal_energy(family(p))).astype(dtype))(parameters)

    def moved(parameter: Any, atoms: Atoms, key: Array) -> tuple[Atoms, Array]:
        run = simulate(at(parameter), atoms, times, step=step, key=key, on_failure="mark")
        return run.final(), jnp.asarray(run.status)

    def in_all(atoms: Atoms) -> Array:
        return jax.vmap(lambda parameter: reduced_potential(at(parameter), atoms))(parameters)

    def seen(measure: Callable[[Particles, Atoms], Any], parameter: Any, atoms: Atoms) -> Any:
        return measure(at(parameter), atoms)

    def one_round(carry: tuple[Atoms, Array], given: tuple[Array, Array]) -> tuple[Any, Any]:
        atoms, walkers = carry
        key, count = given
        toss, *keys = jax.random.split(key, states + 1)
        atoms, status = jax.vmap(moved)(parameters, atoms, jnp.stack(keys))
        energies = lax.map(in_all, atoms)
        values = None if measure is None else jax.vmap(functools.partial(seen, measure))(parameters, atoms)
        own = jnp.diagonal(energies)
        gain = own[:-1] + own[1:] - jnp.diagonal(energies, 1) - jnp.diagonal(energies, -1)
        tried = (places[:-1] + count) % 2 == 0
        accepted = tried & (jnp.log(jax.random.uniform(toss, (states - 1,), dtype)) < gain)
        up = jnp.concatenate([accepted, jnp.zeros(1, bool)])
        down = jnp.concatenate([jnp.zeros(1, bool), accepted])
        source = places + up.astype(jnp.int32) - down.astype(jnp.int32)
        swapped = jax.tree.map(lambda x: x[source], (atoms.position, atoms.momentum, atoms.cell))
        scale = jnp.sqrt(heat / heat[source])[:, None, None]
        after = Atoms(swapped[0], scale * swapped[1], atoms.thermostat, swapped[2], atoms.count)
        counted = tried.astype(dtype), accepted.astype(dtype)
        return (after, walkers[source]), (values, energies, walkers, *counted, status)

    begun = jax.vmap(lambda p, y: at(p).encode(y))(parameters, starts)
    given = jax.random.split(key, rounds), jnp.arange(rounds, dtype=jnp.int32)
    (final, _), series = lax.scan(one_round, (begun, places), given)
    return final, lax.stop_gradient(series)
