"""Result of a fit."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._doors import check_kind
from .._errors import ArgumentError, SimulationError, check_known
from ..core import (
    StaticSystem,
    System,
    Trajectory,
    data_frame,
    html_notes,
    html_page,
    html_table,
    name_width,
    with_fields,
)
from ..problem import Problem, check_problem
from ._fitted import AbstractFit, row_texts
from ._identifiability import findings, null_directions
from ._method import CONVERGED, FAILED, HOPELESS, LIMIT, STALLED, End
from ._optima import Again, Ends, optima_of, root_of
from ._optima_in_words import ambiguities, optima_rows, optima_texts
from ._prior_model import diagonal_of_prior, root_of_prior
from ._residuals import SCATTER, misfits

NOWHERE_LEFT = (
    "No simulation ended at any start, or none had finite derivatives. Check the system with `simulate` at a value that you "
    "trust, then narrow the priors and the bounds around it; `simkit.inspect.locate` names the line of a model whose derivative is "
    "not finite."
)

UNFINISHED = {
    LIMIT: "the best start had not converged. Raise the number of steps of the method.",
    STALLED: "the best start stopped where steps gained nothing any more, though the likelihood slopes there: it has kinks or is "
    "noisy. Take fixed steps, smaller tolerances of the solve, or a larger tolerance of the method.",
}


class FitResult(AbstractFit):
    """The best of all starts, its uncertainty, and how the starts went.

    - `estimate`, `standard_error`: shape `(parameters,)`, natural units. The error is infinite where neither data nor prior
        constrain a parameter.
    - `z`, `covariance`: the best point and its covariance in the coordinates of the fit, in which the parameters marked in
        `log` are logarithms. The covariance is the inverse of Fisher information plus the prior's curvature (the
        pseudo-inverse where that is singular).
    - `information`, `curvature`: the two parts, of the second its diagonal, shapes `(parameters, parameters)` and `(parameters,)`.
    - `objective`: shape `(starts,)`, the negative log posterior where each start ended, best first; infinite where it failed.
    - `thetas`: shape `(starts, parameters)`, where they ended, natural units.
    - `status`: shape `(starts,)`: 0 converged, 1 stopped before, 2 no simulation ended, 3 stopped since steps gained nothing,
        4 given up as hopeless: far from the best, at a pace that would not have led there.
    - `iterations`, `failures`: shape `(starts,)`, over all stages. `cut`: True where `within` was up before all starts began.
    - `log_likelihood`, `chi_squared`, `data_count`: at the best point; the second is the sum of squared standardised residuals.
        `log_likelihood_error`: the standard error of a log likelihood that is estimated with random numbers, else None.
    - `data_checksum`: of times and values of the data, by which other data are told; None in results of earlier versions.
    - `bounds`: shape `(parameters, 2)`, natural units.
    - `optimum`: shape `(starts,)`, the number of the optimum at which each start ended, 0 for the best, -1 for none. Starts are at
        one optimum where their objectives differ by less than 0.1 and their places by less than a standard error.
    - `log_mass`: shape `(optima,)`, the logarithm of the integral of likelihood times prior around each optimum, in Laplace's
        approximation; `covariances`: their covariances, as `covariance`, shape `(optima, parameters, parameters)`. All three are
        None in results of versions that did not tell optima apart.
    - `integrated`: how many parameters, the last ones, are deviations of individuals, over which the likelihood is integrated
        (`Marginal`).
    - `misfit`: what residuals say against the model, in sentences, for tests that fail with p < 0.001: chi-square against stated
        scatter, runs of equal sign, autocorrelation, the largest residual. `simkit.check` tells more.
    """

    def __getitem__(self, name: str) -> Float[Array, ""]:
        """Return the estimate of a parameter by its name, such as `fit["growth"]`; close matches are told for a wrong one."""
        check_kind("name", name, str, "the name of a parameter", 'Write `fit["growth"]`.')
        check_known(name, self.names, "parameter of this fit")
        return self.estimate[self.names.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        return True

    def system(self, problem: Problem, experiment: int | str = 0) -> System:
        """Return the system with the estimate put in, as it is in one experiment: `simulate` takes it.

        **Arguments:** `problem`: that of the fit. A result holds numbers alone, so that it can be saved, loaded and compared; one
        out of a file takes the problem of its study, `load_study(...).problem()`.

        **Raises:** an `ArgumentError` for a problem with other parameters, an `UnknownNameError` for an unknown experiment.
        """
        self._check_names(problem)
        return problem.setup(self.estimate, experiment).system

    def trajectory(
        self, problem: Problem, times: ArrayLike | Sequence[Any] | None = None, *, experiment: int | str = 0
    ) -> Trajectory:
        """Return the simulation of one experiment at the estimate, with its start, inputs, doses and events.

        **Arguments:**

        - `problem`: that of the fit, as in `system`.
        - `times`: shape `(times,)`, not before the start of the experiment; by default the start and the times of the data.

        **Raises:** as `system`; a `SimulationError` where the simulation fails, an `ArgumentError` for a random system.
        """
        self._check_names(problem)
        place = problem.dataset.index(experiment)
        asked = problem if times is None else problem.at(times)
        found = jax.tree.map(lambda x: x[place], _simulated(asked, self.estimate))
        if times is not None and not isinstance(problem.base.system, StaticSystem):  # without the start, its first row
            found = with_fields(found, times=found.times[1:], ys=jax.tree.map(lambda y: y[1:], found.ys))
        if not isinstance(found.status, Tracer) and (failed := found.failures()):
            raise SimulationError(f"The simulation at the estimate failed. {failed[0]}")
        return found

    def _check_names(self, problem: Problem) -> None:
        check_problem(problem)
        if problem.names != self.names:
            raise ArgumentError(
                f"Argument `problem` must be that of the fit, with the parameters {self.names}, but it has {problem.names}."
            )

    @property
    def correlation(self) -> Float[Array, "parameters parameters"]:
        """The correlations of the estimates, in the coordinates of the fit."""
        size = jnp.sqrt(jnp.diag(self.covariance))
        size = jnp.where(size > 0, size, 1)
        return self.covariance / size[:, None] / size[None]

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 k - 2 log L with k free parameters and L the likelihood."""
        return 2 * self.free_count - 2 * float(self.log_likelihood)

    @property
    def aicc(self) -> float:
        """Akaike's criterion for small samples, AIC + 2 k (k + 1) / (n - k - 1) with n data; infinite where n <= k + 1."""
        count, size = self.free_count, int(self.data_count)
        return self.aic + 2 * count * (count + 1) / (size - count - 1) if size > count + 1 else math.inf

    @property
    def bic(self) -> float:
        """The Bayesian information criterion, k log(n) - 2 log L."""
        return self.free_count * math.log(int(self.data_count)) - 2 * float(self.log_likelihood)

    def interval(self, level: float = 0.9) -> Float[Array, "parameters 2"]:
        """Approximate intervals in natural units, inside the bounds: normal in the coordinates of the fit, so positive where these
        are logarithms, and cut off at the bounds. Where one is cut off, `profile` says more.
        """
        if not 0 < level < 1:
            raise ArgumentError(f"Argument `level` must lie between 0 and 1, but it is {level}.")
        width = NormalDist().inv_cdf(0.5 + level / 2)
        log = jnp.array(self.log, bool)
        spread = self.standard_error / jnp.where(log, self.estimate, 1)
        ends = self.z[:, None] + spread[:, None] * jnp.array([[-width, width]], self.z.dtype)
        ends = jnp.where(log[:, None], jnp.exp(jnp.where(log[:, None], ends, 0)), ends)
        return jnp.clip(ends, self.bounds[:, :1], self.bounds[:, 1:])

    def table(self) -> list[dict[str, Any]]:
        """One row a parameter: name, estimate, standard_error, lower and upper (90 %), unit."""
        rows = zip(self.names, self.estimate, self.standard_error, self.interval(), self.units, strict=True)
        return [
            {
                "name": name,
                "estimate": float(estimate),
                "standard_error": float(error),
                "lower": float(ends[0]),
                "upper": float(ends[1]),
                "unit": unit,
            }
            for name, estimate, error, ends, unit in rows
        ]

    def to_frame(self) -> Any:
        """Return `table` as a `pandas.DataFrame` with the names as index; pandas comes with the extra `pandas`."""
        return data_frame(self.table(), "to_frame", "name")

    def waterfall(self) -> list[dict[str, Any]]:
        """One row a start, best first: objective, above_best, status, iterations, failures."""
        words = {
            CONVERGED: "converged",
            LIMIT: "step limit",
            FAILED: "failed",
            STALLED: "no gain",
            HOPELESS: "given up",
        }
        columns = (np.asarray(x) for x in (self.objective, self.status, self.iterations, self.failures))
        best = float(self.objective[0])
        return [
            {
                "objective": float(value),
                "above_best": float(value) - best,
                "status": words[int(status)],
                "iterations": int(count),
                "failures": int(failed),
            }
            for value, status, count, failed in zip(*columns, strict=True)
        ]

    def optima(self) -> list[dict[str, Any]]:
        """One row a distinct optimum, best first: objective, above_best, log_mass, share, starts, image, estimate.

        `share` is its part of the mass of all that were found, by Laplace's approximation; `starts` how many ended there; `image`
        a text that says of which better optimum it is a mirror image or a relabelling, empty where it is none; `estimate` its
        parameters by name. A ridge, along which the objective is constant, is one optimum.
        """
        return optima_rows(self)

    def identifiability(self) -> list[str]:
        """Sentences about what the data do not determine, each with what to change; empty when all is well.

        Directions that no data constrain, several optima of comparable mass, parameters on bounds, priors in charge.
        """
        plain = self.of_population() if self.integrated else self
        return ambiguities(plain) + findings(plain)

    def of_population(self) -> "FitResult":
        """The fit without the deviations of individuals, over which the likelihood is integrated."""
        count, info = self.free_count, np.asarray(self.information)
        # What is left of the joint information once the deviations follow.
        own, cross = info[count:, count:], info[count:, :count]
        left = info[:count, :count] - cross.T @ np.linalg.solve(own, cross)
        return dataclasses.replace(
            self,
            estimate=self.estimate[:count],
            standard_error=self.standard_error[:count],
            z=self.z[:count],
            covariance=self.covariance[:count, :count],
            information=jnp.asarray(left, self.information.dtype),
            curvature=self.curvature[:count],
            thetas=self.thetas[:, :count],
            bounds=self.bounds[:count],
            names=self.names[:count],
            units=self.units[:count],
            log=self.log[:count],
            integrated=0,
            covariances=None if self.covariances is None else self.covariances[:, :count, :count],
        )

    def rescale_errors(self) -> "FitResult":
        """Covariance and errors times chi^2 / (n - p): for least squares whose noise scale is known up to a factor only.

        With `Normal(1.0)` as fixed noise these are the standard errors of ordinary regression. Do not use it where a scale is free.
        """
        freedom = int(self.data_count) - len(self.names)
        if freedom < 1:
            raise ArgumentError(
                f"The errors must be rescaled with more data than parameters, but there are {int(self.data_count)} data and "
                f"{len(self.names)} parameters."
            )
        factor = self.chi_squared / freedom
        covariances = self.covariances
        return dataclasses.replace(
            self,
            covariance=self.covariance * factor,
            standard_error=self.standard_error * jnp.sqrt(factor),
            covariances=None if covariances is None else covariances * factor,
            misfit=tuple(text for text in self.misfit if not text.startswith(SCATTER)),
        )

    def _repr_html_(self) -> str:
        if isinstance(self.objective, Tracer):
            return html_page(repr(self))
        heads = ("parameter", "estimate", "std. error", "5 %", "95 %", "unit")
        rows = [
            (
                row["name"],
                *row_texts(row),
                "" if row["unit"] == "1" else row["unit"],
            )
            for row in self.table()[: self.free_count]
        ]
        found = ("optimum", "objective", "share of mass", "starts", "")
        optima = html_table(found, optima_texts(self)) if self._count() > 1 else ""
        return html_page(self._title(), html_table(heads, rows), optima, html_notes(self._notes()))

    def __repr__(self) -> str:
        if isinstance(self.objective, Tracer):
            return f"FitResult(traced, parameters {self.names})"
        width = name_width(self.names[: self.free_count])
        lines = [self._title(), f"  {'':<{width}} {'estimate':>12} {'std. error':>12}  90 % interval"]
        for row in self.table()[: self.free_count]:
            unit = "" if row["unit"] == "1" else row["unit"]
            estimate, error, lower, upper = row_texts(row)
            lines.append(f"  {row['name']:<{width}} {estimate:>12} {error:>12}  {lower} to {upper} {unit}".rstrip())
        if self._count() > 1:
            lines.append(f"  {'optimum':<8} {'objective':>12} {'of mass':>8} {'starts':>7}")
            lines += [
                f"  {number:<8} {value:>12} {share:>8} {starts:>7}  {about}".rstrip()
                for number, value, share, starts, about in optima_texts(self)
            ]
        return "\n".join(lines + [f"  {note}" for note in self._notes()])

    def _count(self) -> int:
        return 1 if self.log_mass is None else len(self.log_mass)

    def _title(self) -> str:
        return f"FitResult: {self.method}, {self.free_count} parameters, {int(self.data_count)} data"

    def _notes(self) -> list[str]:
        """Return notes below the table, a sentence a line."""
        status, lines = np.asarray(self.status), []
        if self.integrated:
            lines.append(f"and {self.integrated} deviations of individuals, over which the likelihood is integrated")
        lines.append(
            f"log likelihood {self.log_likelihood_text}, AIC {self.aic:.5g}, BIC {self.bic:.5g}, objective "
            f"{float(self.objective[0]):.6g}"
        )
        lines.append(
            f"{self.agreeing()} of {status.size} starts agree; {int((status == CONVERGED).sum())} converged, "
            f"{int(((status == LIMIT) | (status == STALLED)).sum())} stopped before, {int((status == HOPELESS).sum())} given up, "
            f"{int((status == FAILED).sum())} failed; "
            f"{int(np.asarray(self.failures).sum())} failed simulations"
        )
        if self.cut:
            what = "the draws have not settled" if status.size == 1 else "the starts above are the first ones"
            lines.append(f"warning: the time of `within` was up: {what}. With a `store` the same call goes on")
        lines.extend(f"warning: {sentence}" for sentence in (*self.identifiability(), *self.misfit))
        if status[0] in UNFINISHED:
            lines.append(f"warning: {UNFINISHED[int(status[0])]}")
        return lines


@eqx.filter_jit
def _simulated(problem: Problem, theta: Array) -> Trajectory:
    return problem.trajectories(theta)


def summarise(
    problem: Problem,
    method: str,
    end: End,
    iterations: Array,
    failures: Array,
    integrated: int = 0,
    again: Again | None = None,
    spread: Array | None = None,
) -> FitResult:
    """The result from where all starts ended; `again` as for `optima_of`, `spread`: standard errors of estimated objectives."""
    value = np.asarray(end.model.value)
    if not np.isfinite(value).any():
        raise SimulationError(NOWHERE_LEFT)
    order = np.argsort(value, kind="stable")
    best = int(order[0])
    z = np.asarray(end.z)[best]
    rows, curvature = _information(end, best)
    covariance, open_ended = _inverse(rows, curvature)
    # The trace of the share that data have in what is known; numbers of the noise take no degree of freedom from residuals.
    noise = _of_noise(problem)
    spent = np.sum(np.where(noise, 0, np.diag(covariance @ (rows.T @ rows))))
    predicted = {name: np.asarray(values)[best] for name, values in end.model.predicted.items()}
    estimate = problem.natural(end.z[best])
    size = np.where(np.array(problem.log, bool), np.asarray(estimate), 1)
    error = np.where(open_ended, np.inf, np.abs(size) * np.sqrt(np.diag(covariance)))
    dtype = problem.times.dtype
    ends = _ends(end, order, problem.size - integrated, spread)
    found = optima_of(ends, *_box(problem, integrated), again)
    each = [covariance] + [_inverse(*_information(end, int(order[i])))[0] for i in found.first[1:]]
    return FitResult(
        estimate=estimate,
        standard_error=jnp.asarray(error, dtype),
        z=jnp.asarray(z, dtype),
        covariance=jnp.asarray(covariance, dtype),
        information=jnp.asarray(rows.T @ rows, dtype),
        curvature=jnp.asarray(diagonal_of_prior(curvature), dtype),
        objective=end.model.value[order],
        thetas=jax.vmap(problem.natural)(end.z[order]),
        status=end.status[order],
        iterations=jnp.asarray(iterations)[order],
        failures=jnp.asarray(failures)[order],
        log_likelihood=end.model.penalty[best] - end.model.value[best],
        chi_squared=end.model.chi_squared[best],
        bounds=problem.bounds,
        data_count=jnp.asarray(problem.data_count, int),
        data_checksum=jnp.asarray(problem.dataset.checksum(), int),
        names=problem.names,
        units=problem.units,
        log=problem.log,
        method=method,
        integrated=integrated,
        misfit=misfits(problem.lean(), problem.labels, predicted, float(spent)),
        optimum=jnp.asarray(found.optimum, int),
        log_mass=jnp.asarray(found.log_mass, dtype),
        covariances=jnp.asarray(np.stack(each), dtype),
        log_likelihood_error=None if ends.error is None else jnp.asarray(ends.error[0], dtype),
    )


def _of_noise(problem: Problem) -> np.ndarray:
    """Tell which parameters belong to noise models alone."""
    places: dict[bool, set[int]] = {True: set(), False: set()}
    for path, (index, _) in problem.table.items():
        places[path.startswith("noise.")].update(np.unique(np.asarray(index)).tolist())
    return np.isin(np.arange(problem.size), list(places[True] - places[False]))


def _ends(end: End, order: np.ndarray, count: int, spread: Array | None) -> Ends:
    """Return the end points of the starts, best first, in their first `count` coordinates."""
    rows, curvature = (np.asarray(x)[order] for x in (end.model.rows, end.model.curvature))
    pull, slope = (np.asarray(x)[order] for x in (end.model.pull, end.model.slope))
    gradient = np.einsum("si,sij->sj", pull, rows) + slope
    roots = np.stack([root_of(*pair, count) for pair in zip(rows, curvature, strict=True)])
    value, z = np.asarray(end.model.value, float)[order], np.asarray(end.z, float)[order, :count]
    error = None if spread is None else np.asarray(spread, float)[order]
    return Ends(z, value, np.asarray(end.status)[order], roots, gradient[:, :count], error)


def _box(problem: Problem, integrated: int) -> tuple[np.ndarray, np.ndarray]:
    """The bounds in the coordinates of the fit, and which of these are logarithms."""
    count = problem.size - integrated
    return np.asarray(problem.coordinate_bounds(), float)[:count], np.array(problem.log[:count], bool)


def _information(end: End, start: int) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(end.model.rows)[start], np.asarray(end.model.curvature)[start]


def _inverse(rows: np.ndarray, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The (pseudo-)inverse of R^T R + diag(c), and which parameters take part in a direction that nothing constrains."""
    stacked = np.concatenate([rows, root_of_prior(curvature)])
    size = np.linalg.norm(stacked, axis=0)
    size = np.where(size > 0, size, 1)
    _, values, basis = np.linalg.svd(stacked / size, full_matrices=False)
    free = null_directions(values, rows.dtype)
    half = np.where(free, 0, 1 / np.where(free, 1, values))[:, None] * basis / size
    return half.T @ half, np.any(np.abs(basis[free]) > 1e-3, axis=0)
