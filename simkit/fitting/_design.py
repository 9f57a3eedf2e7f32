"""plan: which measurement would teach most."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from .._doors import shown
from .._errors import ArgumentError, check_known
from ..core import StaticSystem, Status, full_products, name_width
from ..engine import note_trace
from ..problem import (
    AutocorrelatedData,
    Correlated,
    CorrelatedData,
    Problem,
    check_independent,
    check_problem,
    correlated_groups,
    information_of,
    informed_rows,
    named_parts,
    weighted,
)
from ._design_series import SeriesPlan
from ._fit_result import FitResult
from ._given_fit import check_fit


class Plan(eqx.Module):
    """Information of each possible measurement, and the order in which to take them.

    - `gain`: shape `(outputs, experiments, times)`, the expected information of a single new measurement, in nats: the logarithm of
        the factor by which it shrinks the volume of the confidence region.
    - `chosen`: (output, experiment, time) of the best measurement, of the best one after that, and so on.
    - `chosen_gain`: shape `(chosen,)`, what each of them adds to those before.
    - `standard_error`: shape `(chosen + 1, parameters)`, in the coordinates of the fit, before any and after each of them.
    """

    gain: Float[Array, "outputs experiments times"]
    times: Float[Array, " times"]
    chosen_gain: Float[Array, " chosen"]
    standard_error: Float[Array, "more parameters"]
    chosen: tuple[tuple[str, str, float], ...] = eqx.field(static=True)
    outputs: tuple[str, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __repr__(self) -> str:
        lines = ["Plan: what to measure next, the best first"]
        for (output, experiment, time), gain in zip(self.chosen, np.asarray(self.chosen_gain), strict=True):
            lines.append(f"  `{output}` of `{experiment}` at {time:<10.5g} {gain:8.3f} nats")
        errors = np.asarray(self.standard_error, float)
        lines.append("  standard errors then, relative to now:")
        width = name_width(self.names)
        for name, before, after in zip(self.names, errors[0], errors[-1], strict=True):
            lines.append(f"    {name:<{width}} {after / before if before > 0 else 1.0:.3f}")
        return "\n".join(lines)


@full_products
def plan(
    problem: Problem,
    fit: FitResult,
    times: ArrayLike | Sequence[Any],
    *,
    outputs: Sequence[str] | None = None,
    count: int = 1,
) -> Plan:
    r"""Find the measurements, of many possible ones, that would teach most about the parameters as the fit knows them now.

    $$\mathrm{gain} = \tfrac12 \log\det(I + W^{1/2} J C J^T W^{1/2})$$

    with the covariance C of the fit, the sensitivities J of a possible datum, of its scatter too, and their Fisher information W.
    For a model that is linear in its parameters with normal noise this is the expected information gain, and maximising it is
    D-optimality; for others it is both at the estimate. Where residuals are `Autocorrelated` it is what a datum adds to the Fisher
    information of its series, so that one beside others tells little.

    **Arguments:**

    - `problem`, `fit`: a problem and the result of fitting it.
    - `times`: the times at which could be measured, in all experiments.
    - `outputs`: what could be measured, of the outputs with data; by default all. Those whose residuals are `Correlated` with each
        other are measured together, as numbers of one sample, `drug and metabolite`.
    - `count`: how many measurements to choose, one after the other; one may be chosen repeatedly.

    **Returns:** a `Plan`. **Reference:** Lindley (1956), doi:10.1214/aoms/1177728069; Chaloner & Verdinelli (1995),
    doi:10.1214/ss/1177009939.

    **Good values:** twenty times over the span in which an experiment can last. Where a parameter is not identified at all, give it
    a prior: the gain counts from what is known.
    """
    check_problem(problem)
    if not isinstance(problem.likelihood, CorrelatedData | AutocorrelatedData):
        check_independent(problem, "`plan`")
    check_fit(fit, problem)
    if outputs is not None and not (
        isinstance(outputs, Sequence) and outputs and all(isinstance(name, str) for name in outputs)
    ):
        raise ArgumentError(f"Argument `outputs` must hold names of outputs with data, but it is {shown(outputs)}.")
    outputs = tuple(problem.data) if outputs is None else (outputs,) if isinstance(outputs, str) else tuple(outputs)
    # As a plan itself calls those that are measured together.
    outputs = tuple(part for name in outputs for part in ([name] if name in problem.data else str(name).split(" and ")))
    for name in outputs:
        check_known(name, problem.data, "output with data")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ArgumentError(f"Argument `count` must be a positive integer, but it is {count!r}.")
    try:
        times = np.atleast_1d(np.asarray(times, float))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `times` must be numbers, but it is {shown(times)}.") from error
    if times.ndim > 1 and not isinstance(problem.base.system, StaticSystem):
        raise ArgumentError(f"Argument `times` must be numbers in one row, but it has the shape {times.shape}.")
    asked = problem.at(times)
    kinds = _measured(asked, outputs)
    outputs = tuple(" and ".join(kind) for kind in kinds)
    rows, status, possible = _sensitivities(asked, fit.z, kinds)
    if not np.all(np.asarray(status) == Status.OK):
        raise ArgumentError("Some experiment cannot be simulated at the estimate until the last of `times`.")
    single = np.asarray(rows, float)  # outputs, experiments, times, numbers of a datum, parameters
    dependent = isinstance(problem.likelihood, AutocorrelatedData)
    series = SeriesPlan(problem, asked.dataset, possible, fit.z, count) if dependent else None
    covariance, gains = np.asarray(fit.covariance, float), []
    chosen, errors = [], [np.sqrt(np.diag(covariance))]
    for _ in range(count):
        block = single if series is None else series.rows(single, outputs)
        inner = np.einsum("oetip,pq,oetjq->oetij", block, covariance, block)
        gain = 0.5 * np.linalg.slogdet(np.eye(block.shape[3]) + inner)[1]
        gains.append(gain)
        best = np.unravel_index(int(np.argmax(gain)), gain.shape)
        chosen.append((outputs[best[0]], problem.labels[best[1]], float(times[best[2]])))
        seen = block[best] @ covariance
        middle = np.eye(block.shape[3]) + seen @ block[best].T
        covariance = covariance - seen.T @ np.linalg.solve(middle, seen)
        errors.append(np.sqrt(np.maximum(np.diag(covariance), 0)))
        if series is not None:
            series.measure(outputs[best[0]], int(best[1]), int(best[2]))
    dtype = problem.times.dtype
    return Plan(
        jnp.asarray(gains[0], dtype),
        jnp.asarray(times, dtype),
        jnp.asarray([np.max(gain) for gain in gains], dtype),
        jnp.asarray(np.array(errors), dtype),
        tuple(chosen),
        outputs,
        problem.names,
    )


def _measured(asked: Problem, outputs: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Outputs that are measured together: those that are correlated with each other, and each of the others alone."""
    if not isinstance(asked.likelihood, CorrelatedData):
        return tuple((name,) for name in outputs)
    groups = [tuple(n for n in group if n in outputs) for group in correlated_groups(asked.base.noise, asked.dataset)]
    return tuple(dict.fromkeys(next((group for group in groups if name in group), (name,)) for name in outputs))


@eqx.filter_jit
def _sensitivities(asked: Problem, z: Array, kinds: tuple[tuple[str, ...], ...]) -> tuple[Array, Array, Any]:
    """The sensitivities of all possible data, each in its standard deviations, of location and scatter; the status of each
    simulation; and derivatives and values of locations and noise models."""
    note_trace("plan", named_parts(asked) | {"outputs": kinds})

    def run(z: Array) -> Any:
        heads, status = asked.heads(asked.natural(z))
        return heads, (heads, status)

    jacobian, (heads, status) = jax.jacfwd(run, has_aux=True)(z)
    joint = isinstance(asked.likelihood, CorrelatedData)
    found: list[Array] = []
    for names in kinds:
        first = names[0]
        location, noise = heads[first]
        if joint and (len(names) > 1 or isinstance(noise, Correlated)):
            found.append(informed_rows(list(names), heads, jacobian, jnp.ones((*location.shape, len(names)), bool)))
            continue
        found_here = information_of(noise, location)
        blocks, _, _ = weighted(
            found_here,
            jnp.ones(location.shape, bool),
            [0 * location] * found_here.size,
            jax.tree.leaves(jacobian[first]),
        )
        found.append(jnp.stack(blocks, axis=2))
    most = max(x.shape[2] for x in found)
    pad = lambda x: jnp.pad(x, [(0, 0), (0, 0), (0, most - x.shape[2]), *[(0, 0)] * (x.ndim - 3)])
    return jnp.stack([pad(x) for x in found]), status, (jacobian, heads)
