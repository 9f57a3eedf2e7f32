"""Jump processes: states that change by whole jumps at random times."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import Inputs, State, Time
from ._names import named_leaves
from ._system import StochasticSystem, System


class JumpSystem(System):
    r"""A Markov jump process: reaction j happens at the rate $a_j(t, y)$, its propensity, and changes the state by $S_j$,

    $$y(t) = y(0) + \sum_j S_j\, N_j\Big(\int_0^t a_j(s, y(s))\, ds\Big)$$

    with independent Poisson processes $N_j$ of rate 1. States are numbers of things, kept as whole floating-point numbers.

    A subclass writes `propensities`, `jumps` and `example`, and where it needs them `bound`, `adjusted` and `stops`. Without
    `bound` the propensities must not change by themselves between two jumps: of time they depend through inputs that are constant
    piece by piece alone.

    ```python
    import jax
    import jax.numpy as jnp
    import simkit


    class Immigration(simkit.JumpSystem):
        arrival: simkit.Scalar = simkit.quantity(10.0, unit="1/s", support=simkit.POSITIVE)
        death: simkit.Scalar = simkit.quantity(0.1, unit="1/s", support=simkit.POSITIVE)

        def propensities(self, t, y, inputs):
            return {"arrival": self.arrival, "death": self.death * y["animals"]}

        def jumps(self):
            return {"arrival": {"animals": 1}, "death": {"animals": -1}}

        @classmethod
        def example(cls):
            return simkit.Example(cls(), {"animals": 0.0}, jnp.linspace(0.0, 50.0, 11))


    print(simkit.simulate(*Immigration.example()[:3], key=jax.random.key(0)).ys["animals"])
    ```

    Gillespie (1977), J. Phys. Chem. 81:2340, doi:10.1021/j100540a008.
    """

    @abc.abstractmethod
    def propensities(self, t: Time, y: State, inputs: Inputs) -> dict[str, Any]:
        """Return the rate of each reaction by its name, in 1 over the unit of time; an array is one of many reactions.

        They must not be negative, and must be 0 where a reaction would take what is not there.
        """

    @abc.abstractmethod
    def jumps(self) -> Mapping[str, Any]:
        """Return by the names of the reactions what each adds to the state, by the names of its numbers: whole numbers.

        Names that are left out stay. For an array of reactions it is a matrix over the flat state, shape `(reactions, numbers)`.
        """

    def bound(self, t: Time, until: Time, y: State, inputs: Inputs) -> Array | None:
        """Return an upper bound of the sum of all propensities from `t` to `until` while the state stays `y`; None without one.

        With it propensities may change with time, by themselves or through inputs of any form. Candidates come at the rate of the
        bound, and one at the time s is a jump with the probability $\\sum_j a_j(s, y) / \\mathrm{bound}$ (thinning, Lewis and
        Shedler 1979, doi:10.1002/nav.3800260304): the path is exact, and costs as many candidates as the bound has. `until` is
        the next save time or stop, so that a bound of an interval may be near. `inputs` are those at `t`.
        """
        return None

    def adjusted(self, before: tuple[Time, State], t: Time, y: State, inputs: Inputs) -> State:
        """Return the state after a jump or a stop, which led from `before` to `t` and `y`; by default `y` as it is.

        This is the place for what happens at once where a condition becomes true, such as a division at a given size.
        """
        return y

    def stops(self) -> Array | None:
        """Return times at which `adjusted` is asked though nothing jumps, shape `(n,)`; by default none."""
        return None

    def vector_field(self, t: Time, y: State, inputs: Inputs) -> State:
        """Return the mean rate of change, $\\sum_j a_j S_j$: the equation of large numbers."""
        flat, unravel = ravel_pytree(y)
        rates = flat_propensities(self, t, y, inputs).astype(flat.dtype)
        return unravel(rates @ jnp.asarray(jump_matrix(self, y), flat.dtype))


@dataclasses.dataclass(frozen=True)
class Products:
    """Propensities that are products: a coefficient times numbers of the state, of each of which some may be taken off before.

    - `coefficients`: by reaction the place of its coefficient; -1 where the propensity is no such product.
    - `factors`: by reaction pairs (i, m) for the factor y_i - m, with i a place in the flat state. Beside m stand all whole numbers
        below it, so that no product of whole numbers is negative.
    """

    coefficients: tuple[int, ...]
    factors: tuple[tuple[tuple[int, int], ...], ...]


class KnownProducts(JumpSystem):
    """A jump process that knows its propensities as products, so that after a jump those alone are computed that it changes."""

    @abc.abstractmethod
    def products(self) -> Products:
        """Return which propensities are products, and of what."""

    @abc.abstractmethod
    def coefficients(self) -> Float[Array, " coefficients"]:
        """Return the coefficients of all products."""

    @abc.abstractmethod
    def others(self, t: Time, y: State, inputs: Inputs) -> Float[Array, " others"]:
        """Return the propensities that are no products, in the order of the reactions."""


def thinned(system: JumpSystem) -> bool:
    """Tell whether a jump process has a bound of its propensities, so that they may change with time."""
    return type(system).bound is not JumpSystem.bound


RandomSystem = StochasticSystem | JumpSystem
"""Families whose runs draw random numbers; for `isinstance`."""


def flat_propensities(system: JumpSystem, t: Time, y: State, inputs: Inputs) -> Float[Array, " reactions"]:
    """The propensities as one vector, in the order of `jump_matrix`."""
    found = system.propensities(t, y, inputs)
    return jnp.concatenate([jnp.ravel(jnp.asarray(found[name])) for name in system.jumps()])


def reaction_names(system: JumpSystem) -> list[str]:
    """The names of all reactions, those of an array with their place behind."""
    names = []
    for name, change in system.jumps().items():
        names += [name] if isinstance(change, Mapping) else [f"{name}.{i}" for i in range(len(change))]
    return names


def jump_matrix(system: JumpSystem, y: State) -> np.ndarray:
    """The change of the flat state by each reaction, shape `(reactions, numbers)`.

    **Raises:** an `ArgumentError` for no reactions and for what is no whole number, an `UnknownNameError` for names that the state
    does not have.
    """
    leaves, jumps, kind = named_leaves(y), system.jumps(), type(system).__name__
    if not jumps:
        raise ArgumentError(
            f"`jumps` of `{kind}` must name at least one reaction, but it is empty, so that nothing would ever happen. Add one."
        )
    ends = np.cumsum([0, *(int(np.prod(np.shape(x))) for x in leaves.values())])
    places = {name: slice(a, b) for name, a, b in zip(leaves, ends[:-1], ends[1:], strict=True)}
    rows = []
    for name, change in jumps.items():
        if not isinstance(change, Mapping):
            rows.append(np.asarray(change, float).reshape(-1, ends[-1]))
            continue
        row = np.zeros((1, ends[-1]))
        for part, amount in change.items():
            check_known(part, leaves, f"number of the state, which the reaction `{name}` of `{kind}` changes,")
            row[0, places[part]] = np.ravel(np.asarray(amount, float))
        rows.append(row)
    found = np.concatenate(rows)
    whole = np.isfinite(found) & (found == np.round(found))
    if not whole.all():
        bad = int(np.flatnonzero(~whole.all(axis=1))[0])
        raise ArgumentError(
            f"`jumps` of `{kind}` must change the state by whole numbers, but those of the reaction "
            f"`{reaction_names(system)[bad]}` are {shown(found[bad])}."
        )
    return found


class ChemicalLangevin(StochasticSystem):
    r"""The diffusion approximation of a jump process, for states in which many things are,

    $$dy = \sum_j S_j\, a_j(t, y)\, dt + \sum_j S_j \sqrt{a_j(t, y)}\, dW_j$$

    in the sense of Ito. With `KalmanFilter` it is the linear noise approximation, started anew at every datum. Paths of parameters
    begin with `process`, as in `process.birth`. Propensities below 0 count as 0 in the noise.

    Gillespie (2000), J. Chem. Phys. 113:297, doi:10.1063/1.481811.
    """

    interpretation: ClassVar = "ito"
    noise_kind: ClassVar = "general"
    process: JumpSystem

    def drift(self, t: Time, y: State, inputs: Inputs) -> State:
        return self.process.vector_field(t, y, inputs)

    def diffusion(self, t: Time, y: State, inputs: Inputs) -> State:
        flat, unravel = ravel_pytree(y)
        rates = flat_propensities(self.process, t, y, inputs).astype(flat.dtype)
        # The root of 0 has no derivative: what does not happen adds no noise.
        there = rates > 0
        factors = jnp.where(there, jnp.sqrt(jnp.where(there, rates, 1)), 0)[:, None]
        each = factors * jnp.asarray(jump_matrix(self.process, y), flat.dtype)
        return jax.vmap(unravel, out_axes=-1)(each)

    def outputs(self, t: Time, y: State, inputs: Inputs) -> Any:
        return self.process.outputs(t, y, inputs)

    def reads(self) -> Any:
        return self.process.reads()

    @classmethod
    def example(cls) -> Any:
        raise ArgumentError(
            "A diffusion approximation has the example of its process: `ChemicalLangevin(system)` of that one."
        )
