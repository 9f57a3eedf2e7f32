"""Likelihood of states whose density a sampled system knows up to its normalisation."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..core import SampledDensity, Setup, Status
from ._dataset import Dataset
from ._forward import ForwardModel
from ._likelihood import AbstractLikelihood, LogProb

OUTPUT = "log_density"


class DensityOfStates(AbstractLikelihood):
    r"""The likelihood of states $x_i$ with weights $w_i$ in a `SampledDensity`: $\sum_i w_i \ln p_\theta(x_i)$.

    With the reduced energy $u_\theta$ its gradient is $\sum_i w_i (\langle \partial_\theta u \rangle_\theta - \partial_\theta
    u(x_i))$, and its Fisher information $\sum_i w_i\, \mathrm{cov}_\theta(\partial_\theta u)$, both with averages over weighted
    draws.
    """

    def check(self, model: ForwardModel, data: Dataset) -> None:
        if {*data.values} != {OUTPUT}:
            raise ArgumentError(
                f"The data of `{type(model.base.system).__name__}` must be weights of states, named `{OUTPUT}`, but they are "
                f"{sorted(data.values)}."
            )
        weights = np.asarray(data.values[OUTPUT])
        if weights.ndim != 2 or (weights < 0).any():
            raise ArgumentError(
                f"The data of `{OUTPUT}` must be weights, one number a state and none negative, but they are not. A state that "
                "counts for one has a weight of 1."
            )

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> LogProb:
        total = jnp.zeros((), data.times.dtype)
        for setup, times, weights in _experiments(theta, model, data):
            system: Any = setup.system
            found = system.log_densities(setup.y0, times)
            total = total + jnp.sum(jnp.where(weights > 0, weights * found, 0.0))  # behind the last datum weights are 0
        return total, jnp.full(len(data.labels), int(Status.OK))

    def information(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, "parameters parameters"]:
        total = jnp.zeros((theta.size, theta.size), theta.dtype)
        for i, (setup, _, weights) in enumerate(_experiments(theta, model, data)):
            system: Any = setup.system
            shares = system.weights(setup.y0).astype(theta.dtype)
            slopes = _slopes(theta, model, i)
            centred = slopes - (shares @ slopes)[None]
            total = total + jnp.sum(weights) * (centred * shares[:, None]).T @ centred
        return total

    def errors_of_draws(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset, covariance: Array
    ) -> Float[np.ndarray, " parameters"]:
        r"""Standard errors of an estimate that come from the finite number of draws.

        A mean slope $\langle \partial_\theta u \rangle$ that is off by $\delta$ moves the estimate by $C\, \delta \sum_i w_i$.
        """
        total = np.zeros(theta.size)
        for i, (setup, _, weights) in enumerate(_experiments(theta, model, data)):
            system: Any = setup.system
            columns = jnp.sum(weights) * _slopes(theta, model, i) @ covariance.T.astype(theta.dtype)
            total += np.asarray(system.error_of_mean(setup.y0, columns), float) ** 2
        return np.sqrt(total)


def _slopes(theta: Array, model: ForwardModel, experiment: int) -> Float[Array, "draws parameters"]:
    """The derivatives of the reduced energies of all draws of one experiment by the free parameters."""

    def energies(theta: Array) -> Array:
        setup = model.setup(theta, experiment)
        system: Any = setup.system
        return system.energies_of_draws(setup.y0)

    return jax.jacfwd(energies)(theta).astype(theta.dtype)


def _experiments(theta: Array, model: ForwardModel, data: Dataset) -> Iterator[tuple[Setup, Array, Array]]:
    """Setup, numbers of states and weights by experiment; a missing weight is 0."""
    for i in range(len(data.labels)):
        setup = model.setup(theta, i)
        assert isinstance(setup.system, SampledDensity)
        weights = data.values[OUTPUT][i]
        yield setup, data.times[i], jnp.where(jnp.isfinite(weights), weights, 0.0)
