"""Averages of the canonical ensemble as a regression model, whose frames are weighted for other parameters."""

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from ..._doors import check_kind
from ..._errors import ArgumentError
from ..._types import Inputs, State, Time
from ...core import Example, SampledSystem
from ...engine import Fixed
from .._particles import Particles
from ..averages._average import as_observable, blocked
from ..averages._canonical import carried, reduced_energy
from ..averages._moves import MonteCarloMove, checked_moves
from ..averages._reweighting import contributions, effective_size
from ..dynamics._langevin import Langevin
from ..potentials._external import HarmonicTrap
from ..space._atoms import Atoms
from ..space._space import OpenSpace
from ._draws import Draws, Run, blank_draws, drawn_frames, energies_of, mapped, prepared_run


class EquilibriumAverages(SampledSystem):
    r"""Averages over the canonical ensemble, as a regression model for `Problem`: pressures, densities, g(r), energies.

    The outputs are $\langle O \rangle_\theta = \sum_i w_i O_\theta(S_i)$ over frames $S_i$ that were drawn at reference
    parameters, with weights $w_i \propto e^{u_{\mathrm{ref}}(S_i) - u_\theta(S_i)}$ of the reduced energies $u$, so that
    derivatives are those of equilibrium averages. `fit` draws frames, minimises as far as they count, and draws anew, until the
    frames are those of the optimum. `sample` draws frames at several places of the posterior and weights them as
    one mixture (MBAR). `refresh` draws them for other verbs.

    **Arguments:**

    - `particles`: with dynamics that draw from the canonical ensemble, at constant volume or pressure. Their numbers have paths
        such as `particles.potential.sigma` and `particles.dynamics.temperature`, which experiments may `set`.
    - `start`: the state from which the first run begins. Where an experiment sets another cell, it is carried along.
    - `observables`: name -> the name of an output of particles such as "pressure", or a function of (particles, atoms) that gives
        an array. A function need not be differentiable by positions.
    - `times`, `step`: as of `simulate`, of each run.
    - `discard`: how many of the first states of a run are left out.
    - `share`: the effective share of the frames of a run, below which outputs are NaN, so that a fit does not go there.
    - `moves`: Monte Carlo moves after each frame of a run, as of `sample_ensemble`.

    **Good values:** 100 to 1000 frames that are about independent. What the finite number of frames adds to a result is said
    beside it; it should be less than the errors of the data.

    An experiment has one state of the ensemble, with any single number in the place of its time, and each output has one datum:
    `Experiment("hot", [0.0], {"pressure": [1.2]}, set={"particles.dynamics.temperature": 1.5})`. The datum of an output of
    several numbers, such as g(r), has their shape after the axis of times.

    **Raises:** an `ArgumentError` for dynamics that draw from no canonical ensemble, or an output that is not known.

    **Source:** Thaler and Zavadlav (2021), doi:10.1038/s41467-021-27241-4; Shirts and Chodera (2008), doi:10.1063/1.2978177.

    ```python
    import jax, simkit
    from simkit import md
    trap = md.Particles(md.HarmonicTrap(1.0, [0.0, 0.0, 0.0]), md.OpenSpace(3), dynamics=md.Langevin(1.0, 2.0))
    atoms = md.Atoms(jax.numpy.zeros((8, 3)), jax.numpy.zeros((8, 3)))
    size = lambda system, atoms: jax.numpy.mean(atoms.position**2)
    averages = md.EquilibriumAverages(
        trap, atoms, {"size": size}, times=jax.numpy.linspace(0.0, 100.0, 101), step=0.1, discard=5
    )
    data = simkit.Experiment("trap", [0.0], {"size": [0.5]})  # k_B T / k, so that k is 2
    free = {"particles.potential.stiffness": simkit.Free(bounds=(0.2, 10.0), start=1.0)}
    problem = simkit.Problem(averages, data, free=free, noise={"size": simkit.noise.Normal(0.02)})
    print(simkit.fit(problem, key=jax.random.key(0)))
    ```
    """

    particles: Particles
    start: Atoms
    observables: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = eqx.field(static=True)
    times: tuple[float, ...] = eqx.field(static=True)
    step: Fixed = eqx.field(static=True)
    discard: int = eqx.field(static=True, default=1)
    share: float = eqx.field(static=True, default=0.5)
    moves: tuple[MonteCarloMove, ...] = ()

    def __init__(
        self,
        particles: Particles,
        start: Atoms,
        observables: Mapping[str, Any],
        *,
        times: ArrayLike | Sequence[float],
        step: float | Fixed,
        discard: int = 1,
        share: float = 0.5,
        moves: Sequence[MonteCarloMove] = (),
    ):
        check_kind("particles", particles, Particles, "particles", "Make them: `md.Particles(potential, space, ...)`.")
        check_kind("start", start, Atoms, "the state of atoms", "Make it: `md.Atoms(position, momentum)`.")
        check_kind("observables", observables, Mapping, "a mapping of names", 'Such as {"pressure": "pressure"}.')
        if not observables:
            raise ArgumentError("Argument `observables` must hold at least one observable, but it is empty.")
        self.particles, self.start, run = prepared_run(particles, start, times, step, discard, share)
        self.moves = checked_moves(self.particles, moves)
        self.observables = tuple((name, as_observable(what)) for name, what in observables.items())
        self.times, self.step, self.discard, self.share = run.times, run.step, run.discard, float(share)
        first = self.start
        jax.eval_shape(lambda: {name: what(self.particles, first) for name, what in self.observables})  # unknown names

    def outputs(self, t: Time, y: State, inputs: Inputs) -> dict[str, Array]:
        values, weights = self._weighted(y)
        enough = effective_size(weights) >= self.share * self.run.frames
        mean = lambda x: jnp.where(enough, jnp.mean(contributions(weights, jnp.asarray(x)), axis=0), jnp.nan)
        return {name: mean(value) for name, value in values.items()}

    def blank(self) -> Draws:
        return blank_draws(self.run, self.particles, self.start)

    def drawn(self, y: State, references: Sequence[Any], key: PRNGKeyArray) -> tuple["EquilibriumAverages", Draws]:
        found, plan = drawn_frames(self.run, y, [reference.particles for reference in references], key, reduced_energy)
        grown = dataclasses.replace(self.particles, plan=plan)
        return eqx.tree_at(lambda s: s.particles, self, grown), found

    @eqx.filter_jit
    def effective_share(self, y: State) -> Float[Array, ""]:
        return (
            effective_size(jax.nn.softmax(y.reduced - energies_of(self.particles, y, reduced_energy))) / self.run.frames
        )

    @eqx.filter_jit
    def errors(self, y: State, combinations: Mapping[str, Array]) -> Float[Array, " combinations"]:
        values, weights = self._weighted(y)
        total = jnp.zeros((), weights.dtype)
        for name, factors in combinations.items():
            series = contributions(weights, jnp.asarray(values[name]))
            rows = series.reshape(len(series), -1) @ factors.reshape(len(factors), -1).T.astype(series.dtype)
            total = total + rows
        return blocked(total)[0]

    def without_limit(self) -> "EquilibriumAverages":
        other = copy.copy(self)
        object.__setattr__(other, "share", 0.0)  # `dataclasses.replace` would go through `__init__`
        return other

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.observables)
        return f"EquilibriumAverages({names}; {self.run.frames} frames a run, {self.particles!r})"

    @classmethod
    def example(cls) -> "Example[EquilibriumAverages]":
        start = Atoms(jnp.zeros((4, 3)), jnp.zeros((4, 3)))
        trap = Particles(
            HarmonicTrap(jnp.asarray(1.0), jnp.zeros(3)),
            OpenSpace(3),
            dynamics=Langevin(jnp.asarray(1.0), jnp.asarray(2.0)),
        )
        system = cls(trap, start, {"energy": "potential_energy"}, times=np.linspace(0.0, 8.0, 17), step=0.25)
        system, y0 = system.drawn(system.blank(), [system], jax.random.key(0))
        return Example(system, y0, np.zeros(1))

    @property
    def run(self) -> Run:
        """Settings by which frames are drawn."""
        return Run(self.times, self.step, self.discard, self.moves)

    @eqx.filter_jit  # the loop over frames alone, as it is compiled outside of `jit`, can fail in XLA's compiler
    def _weighted(self, y: Draws) -> tuple[dict[str, Any], Array]:
        """Return the observables of each frame, and the weights of the frames."""

        def one(atoms: Atoms) -> tuple[Array, dict[str, Any]]:
            atoms = carried(atoms, y.vectors, self.particles.space)
            seen = {name: observable(self.particles, atoms) for name, observable in self.observables}
            return reduced_energy(self.particles, atoms), seen

        reduced, values = mapped(one, y.frames)
        return values, jax.nn.softmax(y.reduced - reduced)
