"""Populations: parameters that differ from individual to individual, drawn from a distribution whose numbers are unknown."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int

from .._doors import check_mapping, shown
from .._errors import ArgumentError
from ..core import POSITIVE, REAL, UNIT_INTERVAL, Support, as_float_array
from ._condition_table import Table
from ._covariates import Missing, missing_covariates
from ._experiment import Experiment
from ._free import Free, Unknown, unknown
from ._groups import Level, Visit, levels_of, visits_of
from ._links import Link, Scale, link_of, moved_by
from ._subpopulation import Subpopulation, check_subpopulation, membership, mixture_quantile
from ._unknowns import blocks_of, size_of


class Individual(NamedTuple):
    r"""A parameter that every individual has for itself.

    $$g(\theta_{ik}) = g(\mathrm{mean}) + \sum_c \mathrm{effect}_c x_{ic} + \mathrm{spread} \cdot \eta_i
    + \mathrm{occasion\ spread} \cdot \kappa_{ik} + \sum_l \mathrm{spread}_l \cdot \zeta_{l, g_l(i)},
    \qquad \eta_i, \kappa_{ik}, \zeta_{lg} \sim N(0, 1)$$

    for individual i on occasion k, in the group $g_l(i)$ of each level l, where g is the logarithm (the parameter is log-normally
    distributed around its median), the logit or probit between two ends, or the identity. What is estimated are the mean, the
    spreads, the effects of covariates and, non-centred, each $\eta_i$, $\kappa_{ik}$ and $\zeta_{lg}$. Without `occasion_spread` a
    parameter is the same on all occasions.

    **Arguments:**

    - `mean`: what is known of the median, or mean, of the population.
    - `spread`: what is known of the standard deviation of g; a half-normal prior of scale 1 by default. 0 where it is the same for
        all members of a group, or for all occasions of all: then `group_spreads` or `occasion_spread` say what differs.
    - `effects`: covariate -> what is known of its effect on g. Experiments bring the values: `Experiment(covariates=)`. Centre
        them, so that the mean is that of a usual individual.
    - `correlated`: whether the parameter is correlated with all others that are.
    - `transform`: g, "linear", "log", or for a parameter between two ends, those of its support or else of the mean's bounds,
        "logit" or "probit"; by default "log" where the support is positive and "logit" where it has two ends.
    - `occasion_spread`: what is known of the standard deviation of g between the occasions of one individual (inter-occasion
        variability). Experiments say which occasions there are: `Experiment(occasions=)`.
    - `subpopulation`: a second kind of individuals whose parameter lies higher, `Subpopulation(share, shift)`; none by default.
    - `group_spreads`: level -> what is known of the standard deviation of g between the groups of that level, such as the hospitals
        of patients. Experiments say whose groups they are: `Experiment(groups={"country": "nl", "hospital": "north"})`, the
        outermost level first; each level lies within the one before.

    Karlsson & Sheiner (1993), doi:10.1007/BF01113502, for occasions.
    """

    mean: Free = Free()
    spread: Free | float | None = None
    effects: Mapping[str, Free] = {}
    correlated: bool = False
    transform: Scale | None = None
    occasion_spread: Free | None = None
    group_spreads: Mapping[str, Free] = {}
    subpopulation: Subpopulation | None = None


class Population(eqx.Module):
    """The individuals of a problem, and how their parameters follow from the numbers of the population.

    `theta` holds, in this order: all other free parameters with the means, spreads, effects, spreads of occasions and of groups,
    correlations, and the deviations: $\\eta$, of each parameter those of all individuals, then $\\kappa$, of each those of all
    occasions, then $\\xi$ of covariates that are missing, then $\\zeta$, of each level and parameter those of all groups.

    - `covariates`: shape `(effect, individual)`.
    - `names`, `labels`: the parameters that differ, and the individuals.
    - `means`: where the means stand in `theta`; `first`: how many numbers stand before the spreads.
    - `links`: the scale on which each is normal; `owners`: whose effect each is.
    - `correlated`: which of the parameters are correlated with each other.
    - `switching`: which of them differ between occasions; `visits`: the occasions of all individuals.
    - `levels`: groups of individuals, the innermost first.
    - `between`: which parameters have a spread between individuals, and so deviations of theirs.
    - `mixed`: which parameters have a second kind of individuals; share and shift of each stand behind the spreads of groups.
    - `missing`: covariates that some individuals lack, which are deviations of theirs too.
    """

    covariates: Float[Array, "effect individual"]
    names: tuple[str, ...] = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)
    means: tuple[int, ...] = eqx.field(static=True)
    first: int = eqx.field(static=True)
    links: tuple[Link, ...] = eqx.field(static=True)
    owners: tuple[int, ...] = eqx.field(static=True)
    correlated: tuple[int, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)  # the individual of each experiment
    units: tuple[str, ...] = eqx.field(static=True)
    switching: tuple[int, ...] = eqx.field(static=True, default=())
    visits: tuple[Visit, ...] = eqx.field(static=True, default=())
    levels: tuple[Level, ...] = eqx.field(static=True, default=())
    between: tuple[int, ...] = eqx.field(static=True, default=())
    missing: tuple[Missing, ...] = eqx.field(static=True, default=())
    mixed: tuple[int, ...] = eqx.field(static=True, default=())

    @property
    def shared(self) -> int:
        """Number of the free parameters of the population; the deviations follow."""
        pairs = len(self.correlated) * (len(self.correlated) - 1) // 2
        return self._mixtures + 2 * len(self.mixed) + pairs

    @property
    def _group_spreads(self) -> int:
        """The place of the first spread between groups."""
        return self.first + len(self.between) + len(self.owners) + len(self.switching)

    @property
    def _mixtures(self) -> int:
        """The place of the first share of a second kind of individuals."""
        return self._group_spreads + sum(len(level.effects) for level in self.levels)

    @property
    def _plain(self) -> bool:
        """True where all individuals have the same deviations, each its own."""
        return not (self.switching or self.levels or self.missing)

    @property
    def total(self) -> int:
        """Number of all free parameters."""
        return self.shared + self.places.size

    @property
    def own_effects(self) -> int:
        """Number of the deviations of the individual that has most: its own, of its occasions and of missing covariates."""
        return len(self.between) + len(self.switching) * self.most_occasions + len(self.missing)

    @property
    def most_occasions(self) -> int:
        """Number of the occasions of the individual that has most."""
        return max((visit.number + 1 for visit in self.visits), default=0)

    @property
    def effects(self) -> int:
        """Number of the deviations on which an individual depends: its own, those of its occasions, and of its groups."""
        return self.own_effects + sum(len(level.effects) for level in self.levels)

    @property
    def places(self) -> Int[np.ndarray, " deviations"]:
        """The place of each deviation of `theta` in the flat array `(effect, individual)`; that of a group at its first member."""
        size, most = len(self.labels), self.most_occasions
        own = np.array([visit.number * size + visit.individual for visit in self.visits], int)
        base, column = len(self.between) * size, self.own_effects
        found = [np.arange(base), *(base + m * most * size + own for m in range(len(self.switching)))]
        column -= len(self.missing)
        found += [(column + k) * size + np.array(one.people) for k, one in enumerate(self.missing)]
        column += len(self.missing)
        for level in self.levels:
            found += [(column + m) * size + level.first for m in range(len(level.effects))]
            column += len(level.effects)
        return np.concatenate(found)

    @property
    def sources(self) -> Int[np.ndarray, "effect individual"]:
        """The place of each deviation of an individual among those of `theta`; behind the last for an occasion that it lacks."""
        size, places = len(self.labels), self.places
        found = np.full(self.effects * size, places.size)
        found[places] = np.arange(places.size)
        found, column = found.reshape(self.effects, size), self.own_effects
        for level in self.levels:
            for row in found[column : column + len(level.effects)]:
                row[:] = row[level.first][np.array(level.owners)]
            column += len(level.effects)
        return found

    @property
    def shares(self) -> Float[np.ndarray, "individual effect"]:
        """The share of each individual in the density of a deviation: the members of a group have equal shares in the group's."""
        own = np.ones((len(self.labels), self.own_effects))
        groups = [
            np.tile((1 / level.members)[np.array(level.owners)], (len(level.effects), 1)).T for level in self.levels
        ]
        return np.concatenate([own, *groups], axis=1)

    def deviations(self, theta: Float[Array, " parameters"]) -> Float[Array, "individual effect"]:
        """The deviations on which each individual depends: of each parameter, of each occasion, of its groups.

        0 for an occasion that it does not have.
        """
        found = theta[self.shared :]
        if not self._plain:
            found = jnp.concatenate([found, jnp.zeros_like(found, shape=(1,))])[self.sources]
        return found.reshape(self.effects, len(self.labels)).T

    def with_deviations(
        self, theta: Float[Array, " parameters"], deviations: Float[Array, "individual effect"]
    ) -> Float[Array, " parameters"]:
        """The free parameters with other deviations; those of a group are those of its first member."""
        found = deviations.T.ravel()
        return jnp.concatenate([theta[: self.shared], found if self._plain else found[self.places]])

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
        first = self.first + len(self.between) + len(self.owners)
        spread = theta[first : first + len(each)]
        start = self.shared + len(self.between) * len(self.labels)
        own = theta[start : start + len(each) * len(self.visits)].reshape(len(each), len(self.visits))
        return self._natural(theta, self._moved(theta)[each][:, owners] + spread[:, None] * own, self.switching)

    def _moved(self, theta: Array) -> Array:
        """Return what is added to each mean, on the scale of g, for each individual."""
        count, size, places = len(self.between), len(self.between) * len(self.labels), np.array(self.between, int)
        own = theta[self.shared : self.shared + size].reshape(count, len(self.labels))
        moved = jnp.zeros((len(self.names), len(self.labels)), theta.dtype)
        root = self.root(theta)[places][:, places]
        spread, scores = theta[self.first : self.first + count], root @ own
        for k, share, apart in self._kinds(theta):
            row = self.between.index(k)
            scores = scores.at[row].set(mixture_quantile(scores[row], share, apart))
        moved = moved.at[places].set(scores * spread[:, None])
        if self.owners:
            effects = theta[self.first + count : self.first + count + len(self.owners)]
            owner = (np.array(self.owners)[None] == np.arange(len(self.names))[:, None]).astype(theta.dtype)
            start = self.shared + size + len(self.switching) * len(self.visits)
            moved = moved + jnp.asarray(owner) @ (effects[:, None] * self._known(theta, start))
        spread = self._group_spreads
        start = self.shared + size + len(self.switching) * len(self.visits) + sum(len(m.people) for m in self.missing)
        for level in self.levels:
            for k in level.effects:
                own = theta[start : start + len(level.labels)]
                moved = moved.at[k].add(theta[spread] * own[np.array(level.owners)])
                spread, start = spread + 1, start + len(level.labels)
        return moved

    def _kinds(self, theta: Array) -> list[tuple[int, Array, Array]]:
        """The parameters with a second kind of individuals: its share, and its distance in spreads."""
        found = []
        for i, k in enumerate(self.mixed):
            share, shift = theta[self._mixtures + 2 * i], theta[self._mixtures + 2 * i + 1]
            found.append((k, share, shift / theta[self.first + self.between.index(k)]))
        return found

    def memberships(self, theta: Float[Array, " parameters"]) -> dict[str, Float[Array, " individual"]]:
        """The probability that each individual is of the second kind, by parameter with a `Subpopulation`."""
        count, size = len(self.between), len(self.between) * len(self.labels)
        own = theta[self.shared : self.shared + size].reshape(count, len(self.labels))
        places = np.array(self.between, int)
        scores = self.root(theta)[places][:, places] @ own
        row = self.between.index
        at = lambda k, *kind: membership(mixture_quantile(scores[row(k)], *kind), *kind)
        return {self.names[k]: at(k, *kind) for k, *kind in self._kinds(theta)}

    def _known(self, theta: Array, start: int) -> Array:
        """Return the covariates, those that are missing by their deviations."""
        found = self.covariates
        for one in self.missing:
            found = one.filled(found, theta[start : start + len(one.people)])
            start += len(one.people)
        return found

    def _natural(self, theta: Array, moved: Array, which: Sequence[int]) -> Array:
        """Return parameters from what is added to their means on the scale of g."""
        return moved_by([self.links[k] for k in which], theta[np.array(self.means)[list(which)]], moved)

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
    ends = {one.name: (one.lower, one.upper) for one in found}
    links = tuple(link_of(n, one.transform, ends[n], metadata[n].support) for n, one in individuals.items())
    scales = [metadata[name].unit if link.scale == "linear" else "1" for name, link in zip(names, links, strict=True)]
    spreads = {k: spread for k, name in enumerate(names) if (spread := _spread(name, individuals[name])) is not None}
    added = [unknown(f"{names[k]}.spread", spread, POSITIVE) for k, spread in spreads.items()]
    units = [scales[k] for k in spreads]
    owned = [(k, c) for k, name in enumerate(names) for c in individuals[name].effects]
    added += [unknown(f"{names[k]}.{c}", individuals[names[k]].effects[c], REAL) for k, c in owned]
    units += [scales[k] for k, _ in owned]
    anew = {k: given for k, name in enumerate(names) if (given := individuals[name].occasion_spread) is not None}
    visits = visits_of(experiments, labels) if anew else ()
    added += [unknown(f"{names[k]}.occasion_spread", given, POSITIVE) for k, given in anew.items()]
    units += [scales[k] for k in anew]
    for name in names:
        check_mapping("group_spreads", individuals[name].group_spreads, "unknowns", '{"hospital": simkit.Free()}')
    levels = levels_of([individuals[name].group_spreads for name in names], experiments, labels)
    grouped = [(level, k) for level in levels for k in level.effects]
    for level, k in grouped:
        given = individuals[names[k]].group_spreads[level.name]
        added.append(unknown(f"{names[k]}.{level.name}_spread", given, POSITIVE))
        units.append(scales[k])
    mixed = {k: kind for k, name in enumerate(names) if (kind := individuals[name].subpopulation) is not None}
    for k, kind in mixed.items():
        check_subpopulation(names[k], kind, k in spreads)
        added += [
            unknown(f"{names[k]}.share", kind.share, UNIT_INTERVAL),
            unknown(f"{names[k]}.shift", kind.shift, REAL),
        ]
        units += ["1", scales[k]]
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
    added += [unknown(f"eta.{names[k]}.{label}", each, REAL) for k in spreads for label in labels]
    added += [
        unknown(f"kappa.{names[k]}.{labels[visit.individual]}.{visit.name}", each, REAL)
        for k in anew
        for visit in visits
    ]
    covariates, missing = missing_covariates([c for _, c in owned], labels, owners, experiments)
    added += [unknown(f"xi.{one.name}.{labels[i]}", each, REAL) for one in missing for i in one.people]
    added += [
        unknown(f"zeta.{names[k]}.{level.name}.{group}", each, REAL) for level, k in grouped for group in level.labels
    ]
    units += ["1"] * (len(added) - len(units))
    population = Population(
        as_float_array(covariates),
        names,
        labels,
        tuple(places[name] for name in names),
        size_of(blocks),
        links,
        tuple(k for k, _ in owned),
        correlated,
        tuple(labels.index(owner) for owner in owners),
        tuple(units),
        tuple(anew),
        visits,
        levels,
        tuple(spreads),
        missing,
        tuple(mixed),
    )
    return population, added


def _spread(name: str, individual: Individual) -> Free | None:
    """The spread between individuals, a `Free`; None where there is none."""
    given = individual.spread
    if given is None or isinstance(given, Free):
        return Free(dist.HalfNormal(1.0)) if given is None else given
    if isinstance(given, bool) or not isinstance(given, int | float) or given != 0:
        raise ArgumentError(f"The spread of `{name}` must be a `Free` or 0, but it is {shown(given)}.")
    if individual.correlated or not (individual.group_spreads or individual.occasion_spread):
        raise ArgumentError(
            f"The spread of `{name}` between individuals is 0, so it must have `group_spreads` or an `occasion_spread` and "
            "cannot be `correlated`. Write a `Free` in place of the `Individual` where nothing differs."
        )
    return None
