"""Monte Carlo moves between pieces of a run: what dynamics do too rarely, and what they do only in the limit of short steps."""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..._doors import check_count, check_key, check_kind
from ..._errors import ArgumentError
from ...core import POSITIVE, quantity, traced
from ...engine import Fixed, simulate
from .._particles import Particles, Tally
from ..dynamics._centres import arms, atoms_beside
from ..neighbours._neighbours import widest
from ..space._atoms import Atoms
from ..space._space import determinant
from ._canonical import PRESSED, thermal_energy
from ._lanes import check_status


class Moved(NamedTuple):
    """The state that attempts of Monte Carlo moves leave.

    - `atoms`: the state after them; NaN where the lists of a prepared system have no room for a neighbour, or where the state
        before them had no energy.
    - `acceptance`: the share of the attempts that were accepted.
    """

    atoms: Atoms
    acceptance: Float[Array, ""]


class MonteCarloMove(eqx.Module):
    """Attempts to change a state at once, accepted so that the distribution of the system's dynamics is kept.

    A call takes prepared particles, a state and a key, and returns a `Moved`. It goes under `jit` and `vmap`; derivatives take as
    given which moves were accepted, so that they are none of averages: `sample_ensemble` weighs frames instead.
    """

    attempts: eqx.AbstractVar[int]

    @abc.abstractmethod
    def check(self, system: Particles) -> None:
        """Refuse a system that has no such moves.

        **Raises:** an `ArgumentError`.
        """

    @abc.abstractmethod
    def proposed(self, system: Particles, atoms: Atoms, key: PRNGKeyArray) -> tuple[Atoms, Array]:
        """Return another state, and the logarithm by which its weight exceeds that of the energies."""

    def __call__(self, system: Particles, atoms: Atoms, key: PRNGKeyArray) -> Moved:
        check_kind("system", system, Particles, "particles", "Make them: `md.Particles(potential, space, ...)`.")
        check_kind("atoms", atoms, Atoms, "the state of atoms", "Make it: `md.Atoms(position, momentum)`.")
        check_key(key, needed=True)
        self.check(system)
        return self.tried(system, system.encode(atoms), key)[0]

    def tried(self, system: Particles, atoms: Atoms, key: PRNGKeyArray) -> tuple[Moved, Tally]:
        """Return what attempts made of a state, and the room that lists of neighbours needed."""
        thermal = thermal_energy(system).astype(atoms.position.dtype)

        def energy(atoms: Atoms) -> tuple[Array, Tally]:
            lists = system.listed(atoms)
            return system.energy_on(atoms, lists) / thermal, system.tally(lists)

        def attempt(carry: tuple[Atoms, Array, Array, Tally], key: Array) -> tuple[Any, None]:
            atoms, before, accepted, tally = carry
            of_move, of_toss = jax.random.split(key)
            other, gain = self.proposed(system, atoms, of_move)
            after, need = energy(other)
            # Of an energy that is not known, NaN, nothing is smaller: the move is refused.
            taken = jnp.log(jax.random.uniform(of_toss, (), after.dtype)) < gain + before - after
            atoms = jax.tree.map(lambda new, old: jnp.where(taken, new, old), other, atoms)
            return (
                atoms,
                jnp.where(taken, after, before),
                accepted + taken.astype(jnp.int32),
                _both(tally, need),
            ), None

        begun = atoms.position
        first, tally = energy(atoms)
        start = atoms, first, jnp.zeros((), jnp.int32), tally
        (atoms, _, accepted, tally), _ = lax.scan(attempt, start, jax.random.split(key, self.attempts))
        position = jnp.where(
            system.fits(tally) & ~jnp.isnan(first) & jnp.isfinite(begun).all(), atoms.position, jnp.nan
        )
        share = accepted.astype(position.dtype) / self.attempts
        return Moved(eqx.tree_at(lambda a: a.position, atoms, position), share), tally


def checked_moves(system: Particles, moves: Sequence[MonteCarloMove]) -> tuple[MonteCarloMove, ...]:
    """The moves as a tuple.

    **Raises:** an `ArgumentError` for what is no Monte Carlo move, or none of this system.
    """
    given = moves if isinstance(moves, Sequence) else (moves,)
    for move in given:
        check_kind("moves", move, MonteCarloMove, "Monte Carlo moves", "Such as `[md.SwapMoves(0, 1)]`.")
        move.check(system)
    return tuple(given)


def moved_states(
    system: Particles,
    y0: Atoms,
    times: ArrayLike | Sequence[float],
    step: Fixed,
    key: PRNGKeyArray | None,
    moves: tuple[MonteCarloMove, ...],
) -> tuple[Atoms, Float[Array, " moves"]]:
    """The states of a run with moves after each of them, with a leading axis, and the share of each kind that was accepted.

    **Raises:** an `ArgumentError` for times that are not equally far apart, `SimulationError` for a run that fails.
    """
    check_key(key, needed=True)
    assert key is not None
    if traced(times):
        raise ArgumentError("Argument `times` must be known where there are moves, but is traced. Close over it.")
    gaps = np.diff(np.asarray(times, float))
    if len(gaps) < 1:
        raise ArgumentError("Argument `times` must hold at least two times where there are moves.")
    if not np.allclose(gaps, gaps[0], rtol=1e-3, atol=0):
        raise ArgumentError(
            f"Argument `times` must be equally far apart where there are moves, but the gaps are {gaps}."
        )
    start = system.encode(y0)
    while True:
        states, shares, tally, status = _with_moves(system, start, float(gaps[0]), len(gaps), step, key, moves)
        if traced(status):
            break
        if bool(system.fits(tally)):
            check_status(jnp.max(status)[None], "piece")
            break
        system = system.enlarged(tally)
    whole = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)
    return whole, jnp.mean(shares, axis=0)


@eqx.filter_jit
def _with_moves(
    system: Particles, start: Atoms, gap: float, count: int, step: Fixed, key: Array, moves: tuple[MonteCarloMove, ...]
) -> Any:
    def one(carry: tuple[Atoms, Tally], key: Array) -> tuple[Any, Any]:
        atoms, tally = carry
        of_run, *of_moves = jax.random.split(key, 1 + len(moves))
        run = simulate(system, atoms, (0.0, gap), step=step, key=of_run, on_failure="mark")
        atoms, shares = run.final(), []
        for move, own in zip(moves, of_moves, strict=True):
            (atoms, share), need = move.tried(system, atoms, own)
            tally = _both(tally, need)
            shares.append(share)
        return (atoms, tally), (atoms, jnp.stack(shares), jnp.asarray(run.status))

    begun = start, system.tally(system.listed(start))
    (_, tally), (states, shares, status) = lax.scan(one, begun, jax.random.split(key, count))
    return states, shares, tally, status


def _both(one: Tally, other: Tally) -> Tally:
    return Tally(widest(one.need, other.need), one.built + other.built)


class SwapMoves(MonteCarloMove):
    r"""Attempts to swap the places of two atoms of different species, accepted with $\min(1, e^{-\Delta U / k_B T})$.

    The state keeps how many atoms of each species it has, and momenta stay with their atoms. Mixtures of dense liquids, glasses
    and alloys come to equilibrium this way where diffusion takes longer than any run.

    **Arguments:** `first`, `second`: the species, whole numbers; `attempts`, each of which costs an energy of the whole system.

    **Good values:** as many attempts between two pieces of a run as the pieces have steps cost as much again as these do.

    **Raises:** where it is called, an `ArgumentError` for a system without these species, or with constraints or virtual sites.

    **Source:** Gazzillo and Pastore (1989), Chemical Physics Letters 159:388, doi:10.1016/0009-2614(89)87505-0; Berthier and
    others (2016), doi:10.1103/PhysRevLett.116.238002.

    ```python
    import jax
    from simkit import md
    start = md.crystal("fcc", 1.68, 2)
    mixture = md.LennardJones([1.0, 0.9], [1.0, 0.6], cutoff=1.6)
    species = jax.numpy.arange(32) % 2
    system = md.Particles(mixture, start.space, dynamics=md.Langevin(1.2, 1.0), species=species)
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(32), 1.2))
    atoms, acceptance = md.SwapMoves(0, 1, attempts=20)(system.prepared(atoms), atoms, jax.random.key(1))
    print(acceptance)
    ```
    """

    first: int = eqx.field(static=True, default=0)
    second: int = eqx.field(static=True, default=1)
    attempts: int = eqx.field(static=True, default=100)

    def __check_init__(self):
        check_count("first", self.first, 0)
        check_count("second", self.second, 0)
        check_count("attempts", self.attempts)
        if self.first == self.second:
            raise ArgumentError(f"Arguments `first` and `second` must be two species, but both are {self.first}.")

    def check(self, system: Particles) -> None:
        if system.species is None:
            raise ArgumentError(
                "Argument `species` of the particles must be given for their places to be swapped, but is None."
            )
        if system.constraints is not None or system.sites is not None:
            raise ArgumentError(
                "The places of atoms that constraints or virtual sites hold cannot be swapped. Take others."
            )
        if not traced(system.species):
            known = np.unique(np.asarray(system.species)).tolist()
            for name, species in {"first": self.first, "second": self.second}.items():
                if species not in known:
                    raise ArgumentError(
                        f"Argument `{name}` must be a species of the particles, one of {known}, but is {species}."
                    )

    def proposed(self, system: Particles, atoms: Atoms, key: PRNGKeyArray) -> tuple[Atoms, Array]:
        assert system.species is not None
        dtype, species = atoms.position.dtype, jnp.asarray(system.species)
        swapped = []
        for kind, own in zip((self.first, self.second), jax.random.split(key), strict=True):
            chosen: Bool[Array, " atoms"] = species == kind
            if atoms.real is not None:
                chosen = chosen & atoms.real
            swapped.append(jax.random.categorical(own, jnp.where(chosen, 0.0, -jnp.inf).astype(dtype)))
        places = jnp.stack(swapped)
        position = atoms.position.at[places].set(atoms.position[places[::-1]])
        return eqx.tree_at(lambda a: a.position, atoms, position), jnp.zeros((), dtype)


class VolumeMoves(MonteCarloMove):
    r"""Attempts to change the volume, accepted with $\min(1, e^{-(\Delta U + P \Delta V) / k_B T + (N + 1) \Delta \ln V})$.

    Changes of $\ln V$ are uniform between $\pm$ `size`. Positions move with the cell, of molecules whose distances are held their
    centres, which are counted in $N$ then; momenta stay. Temperature and pressure are those of the system's dynamics,
    `StochasticCellRescaling` or `MTK`, whose own changes of the cell are right in the limit of short steps, while these are
    exact; `cell_relaxation` or `cell_period` of a whole run leaves the cell to the moves.

    **Arguments:** `size`, positive and less than 1; `attempts`, each of which costs an energy of the whole system.

    **Good values:** a size at which half of the attempts are accepted: 0.02 for a few hundred atoms of a liquid, less as the
    root of their number.

    **Raises:** where it is called, an `ArgumentError` for dynamics without a pressure.

    **Source:** Frenkel and Smit, Understanding Molecular Simulation, 2nd edition, section 5.4.2, which samples $\ln V$; Chow and
    Ferguson (1995), Computer Physics Communications 91:283, doi:10.1016/0010-4655(95)00059-O, for molecules.

    ```python
    import jax
    from simkit import md
    start = md.crystal("fcc", 1.68, 2)
    bath = md.StochasticCellRescaling(1.2, 1.0, relaxation=0.5, cell_relaxation=2.0, compressibility=0.1)
    system = md.Particles(md.LennardJones(cutoff=1.5), start.space, dynamics=bath)
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(32), 1.2))
    atoms, acceptance = md.VolumeMoves(0.03, attempts=20)(system.prepared(atoms), system.encode(atoms), jax.random.key(1))
    print(acceptance)
    ```
    """

    size: Array = quantity(default=0.02, support=POSITIVE)
    attempts: int = eqx.field(static=True, default=10)

    def __check_init__(self):
        check_count("attempts", self.attempts)
        if not traced(self.size) and not 0 < float(self.size) < 1:
            raise ArgumentError(f"Argument `size` must lie between 0 and 1, but it is {float(self.size):.3g}.")

    def check(self, system: Particles) -> None:
        if not isinstance(system.dynamics, PRESSED):
            raise ArgumentError(
                f"The dynamics must have a pressure for moves of the volume, but are `{type(system.dynamics).__name__}`. Take "
                "`md.StochasticCellRescaling` or `md.MTK`."
            )

    def proposed(self, system: Particles, atoms: Atoms, key: PRNGKeyArray) -> tuple[Atoms, Array]:
        assert isinstance(system.dynamics, PRESSED)
        dtype, (count, d) = atoms.position.dtype, atoms.position.shape
        change = self.size.astype(dtype) * jax.random.uniform(key, (), dtype, -1.0, 1.0)
        scale = jnp.exp(change / d)
        body = system.body(atoms)
        position = atoms.position * scale
        if body.constraints:
            position = position + (1 - scale) * arms(body, atoms.position)
        atoms_in_all = count if body.real is None else jnp.sum(body.real)
        centres = jnp.asarray(atoms_in_all - atoms_beside(body), dtype)
        volume = jnp.abs(determinant(atoms.cell))
        work = system.dynamics.pressure.astype(dtype) * volume * jnp.expm1(change)
        gain = (centres + 1) * change - work / thermal_energy(system).astype(dtype)
        return eqx.tree_at(lambda a: (a.position, a.cell), atoms, (position, atoms.cell * scale)), gain
