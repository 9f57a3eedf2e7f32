"""calibrate: whether posteriors mean what they say, by simulation."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._doors import check_count, check_key
from .._errors import ArgumentError, SamplingError, SimulationError
from ..core import Status
from ..engine import awaited, note_trace, over_members
from ..fitting import AbstractMethod, comparable, fit, masses
from ..problem import Problem, check_problem, named_parts
from ._nuts import NUTS
from ._sample import FROM_PRIORS, Method, check_counts, sample
from ._target import check_proper, prior_draws

BINS = 10
LEAST = 20
"""Fewest simulations for a test of ranks."""


LEFT_OUT = (
    "",
    "whose data could not be simulated or drawn at the true values",
    "in which no start of the fit could be simulated",
    "whose chains stayed stuck",
)
"""Words for each value of `Calibration.outcome`."""

DIVERGENT = 0.2
"""Share of divergent draws from which on a simulation is named."""


class Calibration(eqx.Module):
    """Ranks of the true values among posterior draws; uniform where inference is right.

    - `truths`, `ranks`: shape `(simulation, parameter)`, ranks from 0 to `draws`; -1 in simulations that have none.
    - `outcome`: 0 where a simulation has ranks; 1 where no data could be simulated at its true values, 2 where the fit found no
        start, 3 where chains stayed stuck. What is left out has no part in the p-values.
    - `modes`: how many optima of comparable mass the fit found, 0 without a fit; `diverging`: the share of draws that diverged.
    """

    truths: Float[Array, "simulation parameter"]
    ranks: Int[Array, "simulation parameter"]
    outcome: Int[Array, " simulation"]
    modes: Int[Array, " simulation"]
    diverging: Float[Array, " simulation"]
    draws: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def used(self) -> Bool[Array, " simulation"]:
        """The simulations that have ranks."""
        return self.outcome == 0

    def p_values(self) -> dict[str, float]:
        """Return for every parameter the probability of ranks at least this uneven if inference is right (chi-square, ten
        bins)."""
        from jax.scipy.special import gammaincc

        ranks = np.asarray(self.ranks)[np.asarray(self.used)]
        found = {}
        for i, name in enumerate(self.names):
            counts = np.histogram(ranks[:, i], bins=BINS, range=(-0.5, self.draws + 0.5))[0]
            expected = self._expected() * len(ranks)
            statistic = float(np.sum((counts - expected) ** 2 / expected))
            found[name] = float(gammaincc((BINS - 1) / 2, statistic / 2))
        return found

    def _expected(self) -> np.ndarray:
        """The share of the ranks 0 .. draws that falls in each bin."""
        return np.histogram(np.arange(self.draws + 1), bins=BINS, range=(-0.5, self.draws + 0.5))[0] / (self.draws + 1)

    def __repr__(self) -> str:
        if isinstance(self.ranks, Tracer):
            return f"Calibration(traced, parameters {self.names})"
        used, total = int(np.sum(self.used)), self.outcome.shape[0]
        lines = [
            f"Calibration: {used} of {total} simulations, ranks among {self.draws} draws; p-values of uniform ranks"
        ]
        for name, p in self.p_values().items():
            lines.append(f"  {name:<20} {p:.3f}" + ("  suspicious" if p < 0.01 / len(self.names) else ""))
        for outcome, words in enumerate(LEFT_OUT):
            if outcome and (count := int(np.sum(np.asarray(self.outcome) == outcome))):
                lines.append(f"  {count} simulations are left out {words}: the ranks say nothing of such data")
        if count := int(np.sum(np.asarray(self.modes) > 1)):
            lines.append(f"  {count} simulations had several optima of comparable mass")
        if count := int(np.sum(np.asarray(self.diverging) > DIVERGENT)):
            lines.append(f"  {count} simulations had more than {DIVERGENT:.0%} of divergent draws")
        return "\n".join(lines)


def calibrate(
    problem: Problem,
    *,
    key: PRNGKeyArray,
    simulations: int = 100,
    draws: int = 49,
    thin: int = 5,
    warmup: int = 100,
    chains: int = 4,
    starts: int = 16,
    method: Method | None = None,
    fit_method: AbstractMethod | None = None,
) -> Calibration:
    """Simulation-based calibration: true values from the prior, data from them, and the rank of each true value among draws of
    the posterior given those data, which is uniform exactly when prior, likelihood, fit and sampler are right together.

    Each simulation takes the whole way of `sample`: a fit from starts that know nothing of the true values, chains at the optima
    that it found, and draws of all chains together. So a fit that misses an optimum shows as well: the true value then has no
    draws around it in a part of the simulations, and its rank is one of the ends.

    **Arguments:**

    - `simulations`: 100 find a gross error, 1000 a small one.
    - `draws`: draws kept a simulation, of all chains together, at least 9; 49 make 50 ranks, in ten equal bins.
    - `thin`: draws between those kept, so that they are nearly independent.
    - `warmup`, `chains`, `method`: as in `sample`; `starts`, `fit_method`: as `starts` and `method` in `fit`.

    **Raises:** a `SamplingError` where fewer than half of the simulations have ranks.

    **Reference:** Talts et al. (2018), arXiv:1804.06788.
    """
    check_problem(problem)
    check_key(key, needed=True)
    check_count("simulations", simulations)
    if simulations < LEAST:
        raise ArgumentError(
            f"Argument `simulations` must be at least {LEAST} for ranks to tell anything, but it is {simulations}."
        )
    check_count("draws", draws, least=BINS - 1)
    check_counts(thin=thin, warmup=warmup, chains=chains, starts=starts)
    check_proper(problem)
    method = NUTS() if method is None else method
    each = -(-draws // chains)
    if isinstance(method, NUTS):  # one program for all draws of a simulation
        method = dataclasses.replace(method, block=warmup + each * thin)
    truth_key, data_key, run_key = jax.random.split(key, 3)
    truths = prior_draws(problem, truth_key, simulations)
    found = _simulated(problem, truths, jax.random.split(data_key, simulations))
    data, good = awaited(found, "calibrate", f"while {simulations} data sets were simulated")
    ranks = np.full(truths.shape, -1)
    outcome, modes, diverging = np.where(np.asarray(good), 0, 1), np.zeros(simulations, int), np.zeros(simulations)
    data = {name: np.asarray(values) for name, values in data.items()}
    for i in np.flatnonzero(outcome == 0).tolist():
        again = problem.with_data({name: values[i] for name, values in data.items()})
        one, two = jax.random.split(jax.random.fold_in(run_key, i))
        start = None
        try:
            if type(method) not in FROM_PRIORS:
                start = fit(again, starts=starts, method=fit_method, key=one)
                modes[i] = len(comparable(masses(start)))
            found = sample(again, method=method, chains=chains, draws=each * thin, warmup=warmup, start=start, key=two)
        except SimulationError:
            outcome[i] = 2
        except SamplingError:
            outcome[i] = 3
        else:
            kept = np.asarray(found.draws)[:, thin - 1 :: thin].swapaxes(0, 1).reshape(-1, truths.shape[1])[:draws]
            ranks[i] = (kept < np.asarray(truths[i])).sum(axis=0)
            diverging[i] = np.mean(np.asarray(found.diverging))
    _check_enough(outcome)
    numbers = jnp.asarray(ranks, int), jnp.asarray(outcome, int), jnp.asarray(modes, int)
    return Calibration(truths, *numbers, jnp.asarray(diverging, truths.dtype), draws, problem.names)


def _check_enough(outcome: np.ndarray) -> None:
    used, total = int(np.sum(outcome == 0)), len(outcome)
    if used >= max(LEAST, total // 2):
        return
    counts = [f"{np.sum(outcome == k)} {words}" for k, words in enumerate(LEFT_OUT) if k and np.any(outcome == k)]
    raise SamplingError(
        f"Only {used} of {total} simulations could be used: there were {', '.join(counts)}. Narrow the priors to where the model "
        "can be simulated, or give `method=NUTS(target_accept=0.95)`."
    )


@eqx.filter_jit
def _simulated(problem: Problem, truths: Array, keys: Array) -> tuple[dict[str, Array], Array]:
    """Data at the true values, and whether these could be simulated."""
    note_trace("calibrate", named_parts(problem) | {"simulations": truths})

    def one(problem: Problem, member: tuple[Array, PRNGKeyArray]) -> tuple[dict[str, Array], Array]:
        truth, key = member
        data = problem.simulate_data(truth, key)
        seen = {name: jnp.isfinite(values) for name, values in problem.data.items()}
        drawn = jnp.stack([jnp.isfinite(x).all(where=seen[name]) for name, x in data.items()]).all()
        if not problem.likelihood.independent:
            return data, drawn
        heads, status = problem.heads(truth)
        finite = jnp.stack([jnp.isfinite(location).all() for location, _ in heads.values()]).all()
        return data, drawn & jnp.all(status == Status.OK) & finite

    return over_members(one, problem, (truths, keys))
