"""Thermodynamic reweighting: frames of one system tell averages of its neighbours in the space of parameters."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from ..._errors import ArgumentError
from ...core import full_products, traced
from ...engine import Fixed, resolve, simulate
from .._particles import Particles
from ..space._atoms import Atoms
from ._average import EnsembleAverage, Trust, as_observable, averaged
from ._average_method import AverageMethod
from ._canonical import carried, has_room, over_frames, reduced_energy, thermal_energy
from ._moves import MonteCarloMove, checked_moves, moved_states

NAME = "thermodynamic reweighting"
INDEPENDENT = 16
"""Smallest effective number of independent frames."""


class Overlap(Trust):
    """Number of frames with weight, and how many of them correspond to one independent frame."""

    effective_size: Float[Array, ""]
    frames: Array
    inefficiency: Float[Array, ""]
    converged: Bool[Array, ""]
    share: float = eqx.field(static=True)

    @property
    def good(self) -> Bool[Array, ""]:
        enough = self.effective_size >= INDEPENDENT * self.inefficiency
        return self.converged & enough & (self.effective_size >= self.share * self.frames)

    @property
    def sentence(self) -> str:
        size, frames, inefficiency = float(self.effective_size), int(self.frames), float(self.inefficiency)
        said = f"{size:.4g} of {frames} frames count, each worth {1 / inefficiency:.2g} independent ones"
        if not size >= self.share * frames:
            return f"{said}; below {self.share:.0%} sample anew at these parameters (`refreshed`)."
        if not size >= INDEPENDENT * inefficiency:
            return f"{said}; that is fewer than {INDEPENDENT} independent ones: sample longer."
        if not bool(self.converged):
            return f"{said}, but they are too few or too alike for an error: sample longer."
        return f"{said}."


class ReweightedEnsemble(eqx.Module):
    r"""Frames of a canonical run, whose averages at other parameters are weighted ones:

    $$\langle O \rangle_\theta = \sum_i w_i\, O_\theta(S_i), \qquad
    w_i \propto \exp\Big[\frac{H_{\mathrm{ref}}(S_i)}{k_B T_{\mathrm{ref}}} - \frac{H_\theta(S_i)}{k_B T_\theta}\Big], \qquad
    N_{\mathrm{eff}} = \exp\Big(-\sum_i w_i \ln w_i\Big)$$

    so that derivatives are those of equilibrium averages, without any of the dynamics:
    $\partial_\theta \langle O \rangle = \langle \partial_\theta O \rangle - \beta\, \mathrm{cov}(O, \partial_\theta U)$. H is
    kinetic and potential energy, so that derivatives by mass and temperature are right, too; in a run at constant pressure it is
    the enthalpy with $P V$, and frames have their own cells. Where the cell of the system changes, atoms are carried along.

    Made by `sample_ensemble`; its arrays are a pytree, so that it may be an argument of a jitted function.

    - `system`: the system that was sampled, prepared.
    - `frames`: its states, with a leading axis.
    - `reduced`: their energies over $k_B T$.
    - `acceptance`: of each kind of Monte Carlo moves the share that was accepted.

    **Source:** Thaler and Zavadlav (2021), doi:10.1038/s41467-021-27241-4; Zwanzig (1954), doi:10.1063/1.1740409.
    """

    system: Particles
    frames: Atoms
    reduced: Float[Array, " frames"]
    times: Array
    step: Fixed = eqx.field(static=True)
    discard: int = eqx.field(static=True)
    moves: tuple[MonteCarloMove, ...] = ()
    acceptance: Float[Array, " moves"] | None = None

    def average(self, observable: object, system: Particles, *, share: float = 0.5) -> EnsembleAverage:
        """The average of an observable under a system of other numbers.

        **Arguments:**

        - `observable`: a function of (system, atoms), or the name of an output such as "pressure".
        - `system`: like the one sampled, with other numbers; differentiable by them.
        - `share`: the effective share of the frames below which the average is not trusted.
        """
        series, size = self._series(as_observable(observable), system)
        frames = jnp.asarray(self.reduced.shape[0])
        return averaged(series, lambda worth, enough: Overlap(size, frames, worth, enough, share), NAME)

    @eqx.filter_jit
    def effective_size(self, system: Particles) -> Float[Array, ""]:
        """Return the effective number of frames under this system, from 1 to all of them."""
        return effective_size(jax.nn.softmax(self.reduced - self._reduced(system)))

    @eqx.filter_jit
    def free_energy(self, system: Particles) -> Float[Array, ""]:
        r"""$\beta F_\theta - \beta F_{\mathrm{ref}} = -\ln \langle e^{-\Delta H / k_B T} \rangle$, differentiable by the system.

        Momenta count: by mass and temperature it has the derivatives of the ideal gas, too. The volume of the ideal gas is left
        out.
        """
        difference = self.reduced - self._reduced(system)
        return jnp.log(jnp.asarray(float(self.reduced.shape[0]), difference.dtype)) - jax.nn.logsumexp(difference)

    def refreshed(
        self, system: Particles, *, key: PRNGKeyArray | None = None, share: float = 0.5
    ) -> "ReweightedEnsemble":
        """Itself where at least a `share` of the frames counts under this system; otherwise frames of a new run of that system.

        For loops outside of transformations: the new run begins at the last frame, has the times of the first one and leaves out as
        many frames. Shapes remain, so that nothing is compiled again.

        **Arguments:** `key`: for the new run, another one each time.
        """
        if traced(self, system):
            raise ArgumentError(
                "Argument `system` must be known where an ensemble is refreshed, but is traced. Refresh outside of `jit` and "
                "`grad`."
            )
        if float(self.effective_size(system)) >= share * self.reduced.shape[0]:
            return self
        last = jax.tree.map(lambda x: x[-1], self.frames)
        system = self._with_room(system)
        last = carried(last, self.system.space, system.space)
        return sample_ensemble(
            system, last, self.times, step=self.step, key=key, discard=self.discard, moves=self.moves
        )

    def __repr__(self) -> str:
        return f"ReweightedEnsemble of {self.reduced.shape[0]} frames of {self.frames.position.shape[1]} atoms"

    @eqx.filter_jit
    def _series(self, observable: Callable[[Particles, Any], Any], system: Particles) -> tuple[Any, Array]:
        """Return the contribution of each frame to the average, and the effective number of frames."""
        system = self._with_room(system)

        def one(atoms: Atoms) -> tuple[Array, Any]:
            atoms = carried(atoms, self.system.space, system.space)
            return reduced_energy(system, atoms), observable(system, atoms)

        reduced, values = over_frames(one, self.frames)
        weights = jax.nn.softmax(self.reduced - reduced)
        return jax.tree.map(lambda x: contributions(weights, jnp.asarray(x)), values), effective_size(weights)

    def _reduced(self, system: Particles) -> Float[Array, " frames"]:
        system = self._with_room(system)
        return over_frames(
            lambda atoms: reduced_energy(system, carried(atoms, self.system.space, system.space)), self.frames
        )

    def _with_room(self, system: Particles) -> Particles:
        """The plan of the sampled system has room for all the frames."""
        return dataclasses.replace(system, plan=self.system.plan)


@full_products
def sample_ensemble(
    system: Particles,
    y0: Atoms,
    times: ArrayLike | Sequence[float],
    *,
    step: float | Fixed,
    key: PRNGKeyArray | None = None,
    discard: int = 1,
    moves: Sequence[MonteCarloMove] = (),
) -> ReweightedEnsemble:
    """Frames of the canonical ensemble, at constant volume or pressure, to take averages at other parameters from.

    **Arguments:**

    - `system`: with dynamics that draw from the canonical ensemble.
    - `y0`, `times`, `step`, `key`: as of `simulate`.
    - `discard`: how many of the first states are left out, for the start to be forgotten.
    - `moves`: Monte Carlo moves after each frame, such as `[md.SwapMoves(0, 1)]`; times must be equally far apart then.

    **Good values:** frames a tenth of a unit of time apart, at least a hundred of them; the first fifth left out.

    **Returns:** a `ReweightedEnsemble`. It has no derivatives by `system`, which the weights bring back.

    **Raises:** an `ArgumentError` for dynamics of another ensemble, or where `discard` leaves nothing.

    ```python
    import jax, simkit
    from simkit import md
    start = md.crystal("fcc", 1.8, 2)
    potential = md.LennardJones(cutoff=1.7, truncation=md.ForceShifted())
    fluid = md.Particles(potential, start.space, dynamics=md.Langevin(1.5, 1.0))
    atoms = md.Atoms(start.position, md.maxwell_boltzmann(jax.random.key(0), jax.numpy.ones(32), 1.5))
    frames = md.sample_ensemble(fluid, atoms, jax.numpy.linspace(0.0, 3.2, 65), step=0.005, key=jax.random.key(1))
    print(frames.average("pressure", fluid))
    ```
    """
    thermal_energy(system)
    system, y0 = lax.stop_gradient((system.prepared(y0), y0))
    fixed = resolve(system, y0, times, step=step).step
    assert isinstance(fixed, Fixed)
    if tried := checked_moves(system, moves):
        states, acceptance = moved_states(system, y0, times, fixed, key, tried)
    else:
        states, acceptance = simulate(system, y0, times, step=fixed, key=key).ys, None
    frames = lax.stop_gradient(kept(states, discard))
    if not traced(system, frames):
        system = roomy(system, frames)
    return ReweightedEnsemble(
        system, frames, _energies(system, frames), jnp.asarray(times), fixed, discard, tried, acceptance
    )


class Reweighting(AverageMethod):
    r"""Derivatives of an equilibrium average by the weights that frames would have at other parameters (`ReweightedEnsemble`).

    The value is the plain mean over the run; the derivative is
    $\langle \partial O \rangle - \beta\, \mathrm{cov}(O, \partial U)$. It knows nothing of chaos and of the start,
    and its error falls with the length of the run. For dynamics that draw from the canonical ensemble, at constant volume or
    pressure.

    **Arguments:** `share`: the effective share of the frames below which the average is not trusted.
    """

    share: float = eqx.field(static=True, default=0.5)

    def average(
        self,
        observable: Callable[[Particles, Any], Any],
        system: Particles,
        y0: Atoms,
        times: ArrayLike | Sequence[float],
        step: Fixed,
        key: PRNGKeyArray | None,
        discard: int,
    ) -> EnsembleAverage:
        frames = sample_ensemble(system, y0, times, step=step, key=key, discard=discard)
        return frames.average(observable, system, share=self.share)


def effective_size(weights: Float[Array, " frames"]) -> Float[Array, ""]:
    """The exponential of the entropy of weights that add up to one."""
    counted = jnp.where(weights == 0, 1.0, weights)  # NaN stays
    return jnp.exp(-jnp.sum(counted * jnp.log(counted)))


def kept(states: PyTree, discard: int) -> Any:
    """The states that are averaged over."""
    count = jax.tree.leaves(states)[0].shape[0]
    if not 0 <= discard < count:
        raise ArgumentError(
            f"Argument `discard` must leave at least one of the {count} states, but it is {discard}. Give more times "
            "or discard fewer."
        )
    return jax.tree.map(lambda x: x[discard:], states)


def contributions(weights: Array, values: Array) -> Array:
    """Return the contribution of each frame to the mean, taken about the mean, so that correlated errors of the weights cancel."""
    share = (weights * weights.shape[0]).reshape(-1, *[1] * (values.ndim - 1)).astype(values.dtype)
    centre = lax.stop_gradient(jnp.mean(share * values, axis=0))[None]
    return share * (values - centre) + centre


@eqx.filter_jit
def _energies(system: Particles, frames: Atoms) -> Float[Array, " frames"]:
    return over_frames(lambda atoms: reduced_energy(system, atoms), frames)


@eqx.filter_jit
def _needs(system: Particles, frames: Atoms) -> tuple[Any, Bool[Array, ""]]:
    tallies = lax.map(lambda atoms: system.tally(system.listed(atoms)), frames)
    return tallies, jnp.all(lax.map(lambda atoms: has_room(system, atoms), frames))


def roomy(system: Particles, frames: Atoms) -> Particles:
    """The system with room for the neighbours of every frame."""
    while True:
        tallies, fits = _needs(system.limited(), frames)
        if bool(fits):
            return system
        system = system.enlarged(tallies)
