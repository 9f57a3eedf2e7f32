"""Likelihoods: the density of all data, given the free parameters of a problem."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ..engine import paired
from ._dataset import Dataset
from ._dense import check_dense
from ._forward import ForwardModel, Heads
from ._information import weighted

LogProb = Float[Array, "*experiments"] | tuple[Float[Array, ""], Int[Array, " experiments"]]
"""A log density, or one by experiment; or a log density and a status by experiment."""


class AbstractLikelihood(eqx.Module):
    r"""The density $p(\mathrm{data} \mid \theta)$ of a problem's data.

    A subclass has `log_prob`; that is enough for `fit` with `LBFGS()`, the default then, for `profile`, `sample`, `compare` by
    evidence and `numpyro_model`. The other methods are found where they are given: `residuals` or `information` for
    `GaussNewton`, `information` for standard errors, which come from second derivatives of the density where there is none,
    `sample` for `predict` and `calibrate`, and `sequential` with `conditional` for `check` and an `Individual`. Arguments of all
    methods:

    - `theta`: the free parameters in natural units, in the order of the problem's `names`.
    - `model`: `model.setups(theta)` has the system, the initial states, inputs and noise models of all experiments with the free
        parameters put in, with a leading axis of experiments; `model.heads(theta, data)` simulates a deterministic system.
    - `data`: `data.times`, shape `(experiments, rows)`, the start and then the times of the data; `data.values` by output name,
        shape `(experiments, rows - 1, ...)`. What is missing is NaN, and times behind an experiment's last repeat it.

    They are pure functions of `theta`. Random numbers of a likelihood, such as those of a particle filter, come from a key that it
    holds as a field: the same at every call. One that estimates the density with them has `with_key`.
    """

    @property
    def independent(self) -> bool:
        """Tell whether data are independent given a simulation, each with a noise model; by default not.

        What needs that, such as closed forms, residuals of single data and `plan`, refuses others.
        """
        return False

    @property
    def takes_censored(self) -> bool:
        """Tell whether `log_prob` knows of data with limits though they depend on each other; by default not."""
        return False

    @property
    def sequential(self) -> bool:
        """Tell whether `conditional` states the distribution of each datum given those before it; by default not.

        Populations and `check` need that. The data of an experiment may depend on each other, those of two may not.
        """
        return False

    def conditional(self, heads: Heads, data: Dataset) -> Heads:
        r"""The location and the noise model of each datum given the data before it, $p(y) = \prod_k p(y_k \mid y_1 \dots y_{k-1})$.

        By default those of the simulation, as for data that are independent of each other.

        **Arguments:** `heads`: by output the location and the noise model of each datum whatever the others.
        """
        return heads

    def left_out(
        self, rows: Mapping[str, Array], heads: Heads, data: Dataset
    ) -> Mapping[str, Float[Array, "experiments times ..."]]:
        r"""The information of each datum given all others, from that given those before it.

        With whitened residuals $L^{-1} (y - f)$ and $u_i$ the i-th column of $L^{-1}$ at length 1, leaving datum i out takes
        $u_i$ out of the whitened problem (the mean-shift model of an outlier), so that of rows A it is $u_i^T A$ that is lost.

        **Arguments:** `rows`: by output the sensitivities or pulls of the locations in standard deviations, shape
        `(experiments, times, ..., numbers)`. By default they are returned.
        """
        return rows

    def with_key(self, key: PRNGKeyArray) -> "AbstractLikelihood | None":
        """The same likelihood with other random numbers, by which the density is estimated; by default None, for one without."""
        return None

    def check(self, model: ForwardModel, data: Dataset) -> None:
        """Refuse a problem that this likelihood cannot serve; called once, when the problem is made. By default none."""
        return None

    @abc.abstractmethod
    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> LogProb:
        """The log density of all data: one number, or one by experiment, which are added. One that is not finite is a failure.

        With a status by experiment, in a pair, a failure is told apart.
        """

    def residuals(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, " residuals"] | None:
        r"""Numbers r with $-\log p = \tfrac12 r \cdot r$ and what moves less; by default None, for a density without."""
        return None

    def information(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, "parameters parameters"] | None:
        """The Fisher information of all data on the free parameters; by default None, for one that is not known."""
        return None

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array] | None:
        """Random data at the times of `data`, in the shape of `data.values`; by default None, for a density without draws."""
        return None


class IndependentData(AbstractLikelihood):
    """The likelihood of a deterministic simulation: each datum scatters for itself around what was simulated."""

    @property
    def independent(self) -> bool:
        return True

    @property
    def sequential(self) -> bool:
        return True

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> LogProb:
        heads, status = model.heads(theta, data)
        return -misfit(heads, data), status

    def residuals(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, " residuals"] | None:
        """Standardised residuals of all data, in the order of `data.values`; 0 where a datum is missing."""
        heads, _ = model.heads(theta, data)
        return jnp.concatenate([pulls[0].ravel() for _, pulls in scaled(heads, heads, data)])

    def information(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, "parameters parameters"] | None:
        data_count = sum(x.size for x in data.values.values())
        copies = 1 + 2 * data_count / max(theta.size, 1)  # with the Jacobian, plain and weighted
        check_dense(theta.size, theta.dtype, "The Fisher information", copies)
        jacobian, heads = sensitivities(theta, model, data)
        total = jnp.zeros((theta.size, theta.size), theta.dtype)
        for rows, _ in scaled(jacobian, heads, data):
            for row in rows:
                flat = row.reshape(-1, theta.size)
                total = total + flat.T @ flat
        return total

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array] | None:
        heads, _ = model.heads(theta, data)
        keys = jax.random.split(key, len(heads))
        return {
            name: noise.sample(k, location) for k, (name, (location, noise)) in zip(keys, heads.items(), strict=True)
        }


def misfit(heads: Heads, data: Dataset) -> Float[Array, ""]:
    """The negative log likelihood of all data that are not missing."""
    total = jnp.zeros((), data.times.dtype)
    for name, (location, noise) in heads.items():
        total = total - jnp.sum(data.log_density(name, location, noise))
    return total


def sensitivities(theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> tuple[Heads, Heads]:
    """The derivatives of all locations and noise models by theta, with an axis of parameters behind, and these themselves."""
    both = lambda theta: (model.heads(theta, data)[0],) * 2
    return jax.jacfwd(both, has_aux=True)(theta)


def scaled(blocks: Mapping[str, PyTree], heads: Heads, data: Dataset) -> list[tuple[list[Array], list[Array]]]:
    """Return by output the sensitivities and scores of data in their standard deviations, as `weighted` does."""
    slopes, found = jax.grad(lambda heads: misfit(heads, data))(heads), []
    for name, (location, noise) in heads.items():
        seen = jnp.isfinite(data.values[name])
        information = data.information(name, location, noise)
        leaves = [x if x.ndim > location.ndim else x[..., None] for x in jax.tree.leaves(blocks[name])]
        rows, pulls, _ = weighted(information, seen, jax.tree.leaves(slopes[name]), leaves)
        found.append((rows, pulls))
    return found


def information_of_single_data(data: Dataset, name: str, location: Array, noise: Any, slopes: Any) -> Array:
    """The Fisher information of data that scatter each for itself, on all parameters that `slopes` are by."""
    heads: Heads = {name: (location, noise)}
    rows = [row for rows, _ in scaled({name: slopes}, heads, data) for row in rows]
    flat = [row.reshape(-1, row.shape[-1]) for row in rows]
    return sum((x.T @ x for x in flat), start=jnp.zeros((flat[0].shape[-1],) * 2, location.dtype))


@jax.custom_jvp
def or_failed(value: Float[Array, ""], theta: Float[Array, " parameters"], fine: Bool[Array, ""]) -> Float[Array, ""]:
    """A log density, minus infinity where it is not fine; the gradient by `theta` is NaN there, so that none looks like an optimum.

    A cotangent of zero stays zero: who replaces the infinity by another value asked for no derivative of it.
    """
    return jnp.where(fine, value, -jnp.inf)


@or_failed.defjvp
def _or_failed_jvp(primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    return or_failed(*primals), paired(_marked, _marked_back, primals[2], (tangents[0], jnp.sum(tangents[1])))


def _marked(fine: Array, directions: tuple[Array, Array]) -> Array:
    return jnp.where(fine, directions[0], jnp.nan * directions[1])


def _marked_back(fine: Array, cotangent: Array) -> tuple[Array, Array]:
    nothing = jnp.zeros_like(cotangent)
    return jnp.where(fine, cotangent, nothing), jnp.where(fine | (cotangent == 0), nothing, jnp.nan)
