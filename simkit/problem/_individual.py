"""Populations: parameters that differ from individual to individual, drawn from a distribution whose numbers are unknown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from .._errors import ArgumentError, check_known
from ..core import POSITIVE, REAL, Support, as_float_array
from ._condition_table import Table
from ._experiment import Experiment
from ._free import Free, Transform, Unknown, unknown


class Individual(NamedTuple):
    r"""A parameter that every individual has for itself.

    $$g(\theta_i) = g(\mathrm{mean}) + \sum_c \mathrm{effect}_c x_{ic} + \mathrm{spread} \cdot \eta_i, \qquad \eta_i \sim N(0, 1)$$

    where g is the logarithm (the parameter is log-normally distributed around its median) or the identity. What is estimated are
    the mean, the spread, the effects of covariates and, non-centred, each $\eta_i$.

    **Arguments:**

    - `mean`: what is known of the median, or mean, of the population.
    - `spread`: what is known of the standard deviation of g; a half-normal prior of scale 1 by default.
    - `effects`: covariate -> what is known of its effect on g. Experiments bring the values: `Experiment(covariates=)`. Centre
        them, so that the mean is that of a usual individual.
    - `correlated`: whether the parameter is correlated with all others that are.
    - `transform`: g, "log" or "linear"; by default "log" where the support is positive.
    """

    mean: Free = Free()
    spread: Free | None = None
    effects: Mapping[str, Free] = {}
    correlated: bool = False
    transform: Transform | None = None


class Population(eqx.Module):
    """The individuals of a problem, and how their parameters follow from the numbers of the population.

    `theta` holds, in this order: all other free parameters with the means, spreads, effects, correlations, and the deviations
    $\\eta$, of each parameter those of all individuals.

    - `covariates`: shape `(effect, individual)`.
    - `names`, `labels`: the parameters that differ, and the individuals.
    - `means`: where the means stand in `theta`; `first`: how many numbers stand before the spreads.
    - `log`: which parameters are log-normally distributed; `owners`: whose effect each is.
    - `correlated`: which of the parameters are correlated with each other.
    """

    covariates: Float[Array, "effect individual"]
    names: tuple[str, ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    means: tuple[int, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)
    log: tuple[bool, ...] = eqx.field(static=True)
    owners: tuple[int, ...] = eqx.field(static=True)
    correlated: tuple[int, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)  # the individual of each experiment
    units: tuple[str, ...] = eqx.field(static=True)

    @property
    def shared(self) -> int:
        """Number of the free parameters of the population; the deviations follow."""
        pairs = len(self.correlated) * (len(self.correlated) - 1) // 2
        return self.first + len(self.names) + len(self.owners) + pairs

    def deviations(self, theta: Float[Array, " parameters"]) -> Float[Array, "individual effect"]:
        """The deviations of every individual."""
        return theta[self.shared :].reshape(len(self.names), len(self.labels)).T

    def with_deviations(
        self, theta: Float[Array, " parameters"], deviations: Float[Array, "individual effect"]
    ) -> Float[Array, " parameters"]:
        """The free parameters with other deviations."""
        return jnp.concatenate([theta[: self.shared], deviations.T.ravel()])

    def root(self, theta: Float[Array, " parameters"]) -> Float[Array, "effect effect"]:
        """The lower triangular root of the correlation matrix, made of partial correlations.

        Lewandowski, Kurowicka & Joe (2009), doi:10.1016/j.jmva.2009.04.008.
        """
        size = len(self.correlated)
        partial = iter(theta[self.shared - size * (size - 1) // 2 : self.shared])
        root = jnp.eye(len(self.names), dtype=theta.dtype)
        for i, row in enumerate(self.correlated):
            left = jnp.ones((), theta.dtype)
            for column in self.correlated[:i]:
                share = next(partial)
                root = root.at[row, column].set(share * jnp.sqrt(left))
                left = left * (1 - share**2)
            root = root.at[row, row].set(jnp.sqrt(left))
        return root

    def correlation(self, theta: Float[Array, " parameters"]) -> Float[Array, "effect effect"]:
        """The correlations of the parameters in the population."""
        root = self.root(theta)
        return root @ root.T

    def values(self, theta: Float[Array, " parameters"]) -> Float[Array, "effect individual"]:
        """The parameters of every individual, natural units."""
        count = len(self.names)
        mean, log = theta[np.array(self.means)], np.array(self.log)
        spread = theta[self.first : self.first + count]
        moved = self.root(theta) @ self.deviations(theta).T * spread[:, None]
        if self.owners:
            effects = theta[self.first + count : self.first + count + len(self.owners)]
            owner = (np.array(self.owners)[None] == np.arange(count)[:, None]).astype(theta.dtype)
            moved = moved + jnp.asarray(owner) @ (effects[:, None] * self.covariates)
        shifted = mean[:, None] + moved
        return jnp.where(log[:, None], mean[:, None] * jnp.exp(jnp.where(log[:, None], moved, 0)), shifted)

    def extended(self, theta: Float[Array, " parameters"]) -> Float[Array, " more"]:
        """The free parameters, and behind them the values of all individuals, to which tables point."""
        return jnp.concatenate([theta, self.values(theta).ravel()])

    def redirected(self, table: Table) -> Table:
        """A table in which the mean of a population is replaced by the value of the individual."""
        total = self.shared + len(self.names) * len(self.labels)
        found = {}
        for path, (index, constant) in table.items():
            places = np.asarray(index).copy()
            for k, mean in enumerate(self.means):
                own = total + k * len(self.labels) + np.array(self.rows)
                places = np.where(np.asarray(index) == mean, own, places)
            found[path] = jnp.asarray(places), constant
        return found

    def place(self, position: int) -> int:
        """Return the place in the tables of a free parameter: for a mean, that of the first individual."""
        total = self.shared + len(self.names) * len(self.labels)
        return total + self.means.index(position) * len(self.labels) if position in self.means else position

    def unit(self, position: int) -> str | None:
        """The unit of a free parameter that the population adds; None for others."""
        return self.units[position - self.first] if position >= self.first else None


def separated(free: Mapping[str, Any]) -> tuple[dict[str, Free], dict[str, Individual]]:
    """Free parameters with the means in place of what differs, and what differs."""
    individuals = {name: value for name, value in free.items() if isinstance(value, Individual)}
    return {name: _mean(value) if isinstance(value, Individual) else value for name, value in free.items()}, individuals


def _mean(individual: Individual) -> Free:
    """Return prior and bounds of the mean: it is positive where logarithms differ."""
    mean = individual.mean
    if individual.transform != "log" or not isinstance(mean, Free):
        return mean
    lower, upper = mean.bounds
    return mean._replace(transform=mean.transform or "log", bounds=(0.0 if lower is None else lower, upper))


def population_of(
    individuals: Mapping[str, Individual],
    found: Sequence[Unknown],
    metadata: Mapping[str, Any],
    experiments: Sequence[Experiment],
) -> tuple[Population | None, list[Unknown]]:
    """The population, if there is one, and the free parameters that it adds."""
    if not individuals:
        return None, []
    names, places = tuple(individuals), {u.name: i for i, u in enumerate(found)}
    owners = [e.individual for e in experiments]
    labels = tuple(dict.fromkeys(owners))
    if len(labels) < 2:
        raise ArgumentError(f"A population must have at least two individuals, but there is only `{owners[0]}`.")
    log, units = [], []
    for name, individual in individuals.items():
        support: Support = metadata[name].support
        if not (support.positive or (math.isinf(support.lower) and math.isinf(support.upper))):
            raise ArgumentError(
                f"`{name}` must be positive or unbounded to differ between individuals, but its support is {support}."
            )
        if individual.transform == "linear" and support.positive:
            raise ArgumentError(
                f"`{name}` must be positive, so its logarithm must differ between individuals, but its transform is linear."
            )
        log.append(support.positive if individual.transform is None else individual.transform == "log")
        units.append("1" if log[-1] else metadata[name].unit)
    spreads = [individuals[name].spread or Free(dist.HalfNormal(1.0)) for name in names]
    added = [unknown(f"{name}.spread", spread, POSITIVE) for name, spread in zip(names, spreads, strict=True)]
    owned = [(k, c) for k, name in enumerate(names) for c in individuals[name].effects]
    added += [unknown(f"{names[k]}.{c}", individuals[names[k]].effects[c], REAL) for k, c in owned]
    units += [f"{units[k]}" for k, _ in owned]
    correlated = tuple(k for k, name in enumerate(names) if individuals[name].correlated)
    if len(correlated) == 1:
        alone = next(name for name in names if individuals[name].correlated)
        raise ArgumentError(f"At least two parameters must be correlated, but only `{alone}` is.")
    pairs = [(row, column) for i, row in enumerate(correlated) for column in correlated[:i]]
    between = Free(bounds=(-1.0, 1.0), start=0.0)
    added += [
        unknown(f"correlation.{names[row]}.{names[column]}", between, Support(-1.0, 1.0)) for row, column in pairs
    ]
    each = Free(dist.Normal(0.0, 1.0), start=0.0)
    added += [unknown(f"eta.{name}.{label}", each, REAL) for name in names for label in labels]
    units += ["1"] * (len(added) - len(units))
    covariates = np.array([_covariate(c, labels, owners, experiments) for _, c in owned]).reshape(-1, len(labels))
    population = Population(
        as_float_array(covariates),
        names,
        labels,
        tuple(places[name] for name in names),
        len(found),
        tuple(log),
        tuple(k for k, _ in owned),
        correlated,
        tuple(labels.index(owner) for owner in owners),
        tuple(units),
    )
    return population, added


def _covariate(
    name: str, labels: Sequence[str], owners: Sequence[str], experiments: Sequence[Experiment]
) -> list[float]:
    """One covariate of all individuals."""
    values: dict[str, float] = {}
    for owner, experiment in zip(owners, experiments, strict=True):
        check_known(name, experiment.covariates, f"covariate (of experiment `{experiment.name}`)")
        value = experiment.covariates[name]
        if values.setdefault(owner, value) != value or not math.isfinite(value):
            raise ArgumentError(
                f"The covariate `{name}` of `{owner}` must be one finite number in all of its experiments, but it is "
                f"{values[owner]:g} and {value:g}."
            )
    return [values[label] for label in labels]
