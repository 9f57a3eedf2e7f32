"""Family of systems whose outputs are averages over states that were drawn."""

import abc
from collections.abc import Mapping, Sequence

from jaxtyping import Array, Float, PRNGKeyArray

from .._types import State
from ._system import StaticSystem


class SampledSystem(StaticSystem):
    r"""No time, but chance: the outputs are averages over random states, weighted for the parameters of the system.

    The initial state `y0` holds draws that were made at reference parameters, and `outputs` weights them for its own. A verb that
    needs other parameters than these draws cover draws anew. A subclass writes `outputs` (of the draws `y`) and `example`, as
    for a `StaticSystem`, and the methods below.
    """

    @abc.abstractmethod
    def blank(self) -> State:
        """The state before anything was drawn, in the shape of one reference, with which outputs are NaN."""

    @abc.abstractmethod
    def drawn(
        self, y: State, references: Sequence["SampledSystem"], key: PRNGKeyArray
    ) -> "tuple[SampledSystem, State]":
        """Draw at the parameters of each reference, beginning at the last of the draws `y`.

        **Returns:** this system, where it must change to hold the draws (capacities of lists), and the state with those of all
        references. Not to be traced.
        """

    @abc.abstractmethod
    def effective_share(self, y: State) -> Float[Array, ""]:
        """Number of draws that count at the parameters of this system, over the draws of one reference; NaN for a blank state."""

    @abc.abstractmethod
    def errors(self, y: State, combinations: Mapping[str, Array]) -> Float[Array, " combinations"]:
        """Standard errors of linear combinations of outputs, which come from the finite number of draws.

        **Arguments:** `combinations`: output name -> its weights, shape (combinations, *that of the output).
        """

    @abc.abstractmethod
    def without_limit(self) -> "SampledSystem":
        """The same system, whose outputs are no NaN where too few draws count."""


class SampledDensity(SampledSystem):
    r"""A sampled system whose data are states themselves, with the density $p_\theta(x) = e^{-u_\theta(x)} / Z_\theta$.

    The normalisation comes from the draws. A `Problem` takes the likelihood of these states; the datum of a state is its weight.
    """

    @abc.abstractmethod
    def log_densities(self, y: State, t: Float[Array, " data"]) -> Float[Array, " data"]:
        """The log densities of the states with these numbers, up to a constant that is the same for all parameters."""

    @abc.abstractmethod
    def energies_of_draws(self, y: State) -> Float[Array, " draws"]:
        r"""The reduced energies $u_\theta$ of the draws."""

    @abc.abstractmethod
    def weights(self, y: State) -> Float[Array, " draws"]:
        """The weights of the draws under the parameters of this system, which add up to one."""

    @abc.abstractmethod
    def error_of_mean(self, y: State, values: Float[Array, "draws columns"]) -> Float[Array, " columns"]:
        """Standard errors of the weighted means of values of the draws."""
