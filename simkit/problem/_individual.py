"""Populations: parameters that differ from individual to individual, drawn from a distribution whose numbers are unknown."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int

from .._errors import ArgumentError, check_known
from ..core import POSITIVE, REAL, Support, as_float_array
from ._condition_table import Table
from ._experiment import Experiment
from ._free import Free, Transform, Unknown, unknown
from ._unknowns import blocks_of, size_of


class Individual(NamedTuple):
    r"""A parameter that every individual has for itself.

    $$g(\theta_{ik}) = g(\mathrm{mean}) + \sum_c \mathrm{effect}_c x_{ic} + \mathrm{spread} \cdot \eta_i
    + \mathrm{occasion\ spread} \cdot \kappa_{ik}, \qquad \eta_i, \kappa_{ik} \sim N(0, 1)$$

    for individual i on occasion k, where g is the logarithm (the parameter is log-normally distributed around its median) or the
    identity. What is estimated are the mean, the spreads, the effects of covariates and, non-centred, each $\eta_i$ and
    $\kappa_{ik}$. Without `occasion_spread` a parameter is the same on all occasions.

    **Arguments:**

    - `mean`: what is known of the median, or mean, of the population.
    - `spread`: what is known of the standard deviation of g; a half-normal prior of scale 1 by default.
    - `effects`: covariate -> what is known of its effect on g. Experiments bring the values: `Experiment(covariates=)`. Centre
        them, so that the mean is that of a usual individual.
    - `correlated`: whether the parameter is correlated with all others that are.
    - `transform`: g, "log" or "linear"; by default "log" where the support is positive.
    - `occasion_spread`: what is known of the standard deviation of g between the occasions of one individual (inter-occasion
        variability). Experiments say which occasions there are: `Experiment(occasions=)`.

    Karlsson & Sheiner (1993), doi:10.1007/BF01113502, for occasions.
    """

    mean: Free = Free()
    spread: Free | None = None
    effects: Mapping[str, Free] = {}
    correlated: bool = False
    transform: Transform | None = None
    occasion_spread: Free | None = None


class Visit(NamedTuple):
    """An occasion of an individual: the place of the individual, its name for it, and which of its occasions it is, from 0 on."""

    individual: int
    name: str
    number: int


class Population(eqx.Module):
    """The individuals of a problem, and how their parameters follow from the numbers of the population.

    `theta` holds, in this order: all other free parameters with the means, spreads, effects, spreads of occasions, correlations,
    and the deviations: $\\eta$, of each parameter those of all individuals, then $\\kappa$, of each those of all occasions.

    - `covariates`: shape `(effect, individual)`.
    - `names`, `labels`: the parameters that differ, and the individuals.
    - `means`: where the means stand in `theta`; `first`: how many numbers stand before the spreads.
    - `log`: which parameters are log-normally distributed; `owners`: whose effect each is.
    - `correlated`: which of the parameters are correlated with each other.
    - `switching`: which of them differ between occasions; `visits`: the occasions of all individuals.
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
    switching: tuple[int, ...] = eqx.field(static=True, default=())
    visits: tuple[Visit, ...] = eqx.field(static=True, default=())

    @property
    def shared(self) -> int:
        """Number of the free parameters of the population; the deviations follow."""
        pairs = len(self.correlated) * (len(self.correlated) - 1) // 2
        return self.first + len(self.names) + len(self.owners) + len(self.switching) + pairs

    @property
    def total(self) -> int:
        """Number of all free parameters."""
        return self.shared + self.places.size

    @property
    def effects(self) -> int:
        """Number of the deviations of the individual that has most."""
        return len(self.names) + len(self.switching) * max((visit.number + 1 for visit in self.visits), default=0)

    @property
    def places(self) -> Int[np.ndarray, " deviations"]:
        """The place of each deviation of `theta` in the flat array `(effect, individual)`; some have fewer occasions."""
        size, most = len(self.labels), (self.effects - len(self.names)) // max(len(self.switching), 1)
        own = np.array([visit.number * size + visit.individual for visit in self.visits], int)
        base = len(self.names) * size
        return np.concatenate([np.arange(base), *(base + m * most * size + own for m in range(len(self.switching)))])

    def deviations(self, theta: Float[Array, " parameters"]) -> Float[Array, "individual effect"]:
        """The deviations of every individual: of each parameter, then of each occasion; 0 for an occasion that it does not have."""
        found, size = theta[self.shared :], self.effects * len(self.labels)
        if self.switching:
            found = jnp.zeros_like(found, shape=(size,)).at[self.places].set(found)
        return found.reshape(self.effects, len(self.labels)).T

    def with_deviations(
        self, theta: Float[Array, " parameters"], deviations: Float[Array, "individual effect"]
    ) -> Float[Array, " parameters"]:
        """The free parameters with other deviations."""
        found = deviations.T.ravel()
        return jnp.concatenate([theta[: self.shared], found[self.places] if self.switching else found])

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
        """The parameters of every individual, natural units, as they are without the deviations of occasions."""
        return self._natural(theta, self._moved(theta), range(len(self.names)))

    def occasion_values(self, theta: Float[Array, " parameters"]) -> Float[Array, "effect occasion"]:
        """The parameters that differ between occasions, on all occasions in the order of `visits`, natural units."""
        each, owners = np.array(self.switching, int), np.array([visit.individual for visit in self.visits], int)
        first = self.first + len(self.names) + len(self.owners)
        spread = theta[first : first + len(each)]
        own = theta[self.shared + len(self.names) * len(self.labels) :].reshape(len(each), len(self.visits))
        return self._natural(theta, self._moved(theta)[each][:, owners] + spread[:, None] * own, self.switching)

    def _moved(self, theta: Array) -> Array:
        """Return what is added to each mean, on the scale of g, for each individual."""
        count, size = len(self.names), len(self.names) * len(self.labels)
        own = theta[self.shared : self.shared + size].reshape(count, len(self.labels))
        moved = self.root(theta) @ own * theta[self.first : self.first + count][:, None]
        if self.owners:
            effects = theta[self.first + count : self.first + count + len(self.owners)]
            owner = (np.array(self.owners)[None] == np.arange(count)[:, None]).astype(theta.dtype)
            moved = moved + jnp.asarray(owner) @ (effects[:, None] * self.covariates)
        return moved

    def _natural(self, theta: Array, moved: Array, which: Sequence[int]) -> Array:
        """Return parameters from what is added to their means on the scale of g."""
        mean, log = theta[np.array(self.means)[list(which)]][:, None], np.array(self.log)[list(which)][:, None]
        return jnp.where(log, mean * jnp.exp(jnp.where(log, moved, 0)), mean + moved)

    def extended(self, theta: Float[Array, " parameters"]) -> Float[Array, " more"]:
        """The free parameters, and behind them the values of all individuals and occasions, to which tables point."""
        more = [self.occasion_values(theta).ravel()] if self.switching else []
        return jnp.concatenate([theta, self.values(theta).ravel(), *more])

    def redirected(self, table: Table, visits: Sequence[Sequence[int]] = ()) -> Table:
        """A table in which the mean of a population is replaced by the value of the individual, on its first occasion there.

        `visits`: the occasions of each experiment, by their places in `self.visits`.
        """
        size, found = len(self.labels), {}
        first = [own[0] for own in visits]
        for path, (index, constant) in table.items():
            places = np.asarray(index).copy()
            for k, mean in enumerate(self.means):
                own = self.total + k * size + np.array(self.rows)
                if k in self.switching:
                    own = self.visited(k) + np.array(first)
                places = np.where(np.asarray(index) == mean, own, places)
            found[path] = jnp.asarray(places), constant
        return found

    def visited(self, k: int) -> int:
        """The place in `extended` of a parameter that differs between occasions, on the first of all occasions."""
        return self.total + len(self.names) * len(self.labels) + self.switching.index(k) * len(self.visits)

    def place(self, position: int) -> int:
        """Return the place in the tables of a free parameter: for a mean, that of the first individual."""
        if position not in self.means:
            return position
        k = self.means.index(position)
        return self.visited(k) if k in self.switching else self.total + k * len(self.labels)

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
    blocks = blocks_of(found)
    names, places = tuple(individuals), {block.name: block.offset for block in blocks}
    owners = [e.individual for e in experiments]
    labels = tuple(dict.fromkeys(owners))
    if len(labels) < 2:
        raise ArgumentError(f"A population must have at least two individuals, but there is only `{owners[0]}`.")
    log = [_is_log(name, individual, metadata[name].support) for name, individual in individuals.items()]
    units = ["1" if logs else metadata[name].unit for name, logs in zip(names, log, strict=True)]
    spreads = [individuals[name].spread or Free(dist.HalfNormal(1.0)) for name in names]
    added = [unknown(f"{name}.spread", spread, POSITIVE) for name, spread in zip(names, spreads, strict=True)]
    owned = [(k, c) for k, name in enumerate(names) for c in individuals[name].effects]
    added += [unknown(f"{names[k]}.{c}", individuals[names[k]].effects[c], REAL) for k, c in owned]
    units += [f"{units[k]}" for k, _ in owned]
    anew = {k: given for k, name in enumerate(names) if (given := individuals[name].occasion_spread) is not None}
    visits = visits_of(experiments, labels) if anew else ()
    added += [unknown(f"{names[k]}.occasion_spread", given, POSITIVE) for k, given in anew.items()]
    units += [units[k] for k in anew]
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
    added += [
        unknown(f"kappa.{names[k]}.{labels[visit.individual]}.{visit.name}", each, REAL)
        for k in anew
        for visit in visits
    ]
    units += ["1"] * (len(added) - len(units))
    covariates = np.array([_covariate(c, labels, owners, experiments) for _, c in owned]).reshape(-1, len(labels))
    population = Population(
        as_float_array(covariates),
        names,
        labels,
        tuple(places[name] for name in names),
        size_of(blocks),
        tuple(log),
        tuple(k for k, _ in owned),
        correlated,
        tuple(labels.index(owner) for owner in owners),
        tuple(units),
        tuple(anew),
        visits,
    )
    return population, added


def _is_log(name: str, individual: Individual, support: Support) -> bool:
    """Tell whether the logarithm of a parameter differs between individuals."""
    if not (support.positive or (math.isinf(support.lower) and math.isinf(support.upper))):
        raise ArgumentError(
            f"`{name}` must be positive or unbounded to differ between individuals, but its support is {support}."
        )
    if individual.transform == "linear" and support.positive:
        raise ArgumentError(
            f"`{name}` must be positive, so its logarithm must differ between individuals, but its transform is linear."
        )
    return support.positive if individual.transform is None else individual.transform == "log"


def visits_of(experiments: Sequence[Experiment], labels: Sequence[str]) -> tuple[Visit, ...]:
    """The occasions of all individuals, individual by individual, in the order in which experiments name them."""
    found: dict[str, dict[str, None]] = {label: {} for label in labels}
    for e in experiments:
        if not e.occasions:
            raise ArgumentError(
                f"A parameter has an `occasion_spread`, so each experiment must say its occasions, but `{e.name}` does not. Write "
                '`occasions="first"` where it is one, or `occasions={"first": 0.0, "second": 168.0}` with the times at which they '
                "begin."
            )
        found[e.individual] |= dict.fromkeys(e.occasions)
    visits = tuple(Visit(i, name, number) for i, label in enumerate(labels) for number, name in enumerate(found[label]))
    if len(visits) == len(labels):
        raise ArgumentError(
            "An `occasion_spread` needs an individual with more than one occasion, but none has: between individuals and between "
            "occasions cannot be told apart. Leave `occasion_spread` out."
        )
    return visits


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
