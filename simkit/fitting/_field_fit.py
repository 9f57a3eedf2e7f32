"""Fits of fields from their starts, or from what an earlier fit has found."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .._errors import ArgumentError, SimulationError
from .._progress import Progress
from ..problem import Problem, check_dense, check_gaussian, check_independent
from ._carried import carried, check_carried
from ._field_descent import Descent, Known, descend
from ._field_lbfgs import FieldLBFGS
from ._field_method import AbstractFieldMethod
from ._field_result import FieldFit
from ._fit_result import NOWHERE_LEFT
from ._gauss_newton_cg import GaussNewtonCG
from ._method import FAILED
from ._newton_cg import low_rank
from ._prior_model import prior_model
from ._secant_descent import descend_through
from ._starts import check_drawable, check_left_out, drawn_starts, first_start, given_starts

DENSE_COPIES = 8.0
"""Number of matrices over all unknowns that a fit by matrices holds: local models of two points, decompositions, covariances."""

COARSE = 1e-3
"""Tolerance of the fit of a coarser problem, some tenth of what grids differ by."""

DRAWN = 31
"""Number of draws of which the median is where a fit starts."""


def check_matrices(problem: Problem, method: str) -> None:
    """Refuse a method with matrices for a field, and where they do not fit.

    **Raises:** an `ArgumentError`.
    """
    if problem.unknowns.fields:
        raise ArgumentError(
            f"`{problem.unknowns.fields[0][0].name}` has a prior of fields, which `{method}` does not know. Take "
            "`method=simkit.GaussNewtonCG()` or `simkit.FieldLBFGS()`."
        )
    check_dense(problem.size, problem.times.dtype, f"The method `{method}`", DENSE_COPIES)


def fit_fields(
    problem: Problem,
    method: AbstractFieldMethod,
    starts: Any,
    key: PRNGKeyArray,
    options: dict[str, Any],
    counter: Progress,
) -> FieldFit:
    """Fit fields from given starts or from the middle of the priors; the best one is the result.

    **Raises:** an `ArgumentError` for `options` that belong to methods with matrices, a `SimulationError` where no start ended.
    """
    spoken = f"`{type(method).__name__}`"
    check_independent(problem, spoken)
    check_left_out(options, f"{spoken}, which descends once from each start.")
    if method.modes or not isinstance(method, FieldLBFGS):
        check_gaussian(problem, f"{spoken}, which" if not method.modes else "The uncertainty by `modes`, which")
    lean = problem.lean()
    if isinstance(method, FieldLBFGS):
        for other in method.coarse:
            check_carried(other.unknowns, problem, "coarse")
        coarse = [other.lean() for other in method.coarse]
        near, descent = None, lambda z: descend_through(lean, coarse, method, z, key, counter)
    else:
        assert isinstance(method, GaussNewtonCG)
        near, known, reference = _known(problem, method, key, counter)
        inner = None if method.coarse is None else method.coarse.lean()
        descent = lambda z: descend(lean, inner, method, z, known, reference, counter)
    if drawn := isinstance(starts, int | np.integer):
        begins = [_middle(problem) if near is None else near]
    else:
        begins = list(given_starts(problem, starts))
    if method.modes:
        _check_proper(problem, begins[0], spoken)
    origin = "the given starts" if not drawn else "the middle of the priors" if near is None else "the coarser fit"
    return _finished(problem, method, [descent(z) for z in begins], origin, key)


def _known(
    problem: Problem, method: GaussNewtonCG, key: PRNGKeyArray, counter: Progress
) -> tuple[Array | None, Known, float]:
    """The place, the directions and the norm of the first gradient of an earlier fit, or of that of a coarser problem."""
    known, earlier = Known.of(problem.size, problem.times.dtype, method.max_products), method.known
    if method.coarse is not None:
        check_carried(method.coarse.unknowns, problem, "coarse")
        earlier = _coarse_fit(method, key, counter) if earlier is None else earlier
    if earlier is None:
        return None, known, 0.0
    check_carried(earlier.unknowns, problem, "known")
    rows = carried(earlier.directions, earlier.unknowns, problem)
    return carried(earlier.z, earlier.unknowns, problem), known.after(rows, earlier.cuts), earlier.first


def _finished(
    problem: Problem, method: AbstractFieldMethod, ends: list[Descent], origin: str, key: PRNGKeyArray
) -> FieldFit:
    """The result of some descents, with its uncertainty; `origin`: where they began, in words."""
    alive = [end for end in ends if end.status != FAILED]
    if not alive:
        raise SimulationError(f"{NOWHERE_LEFT} Tried: all data at once, from {origin} ({len(ends)}).")
    best = min(alive, key=lambda end: end.value)
    dtype = best.z.dtype
    values, vectors, sizes = jnp.zeros((0,), dtype), jnp.zeros((0, best.z.size), dtype), jnp.ones_like(best.z)
    if method.modes:
        values, vectors, sizes = low_rank(problem.lean(), best.z, min(method.modes, best.z.size), key)
    total = lambda name: sum(int(getattr(end, name)) for end in ends)
    units = tuple(problem.model.unit(block.offset, block.name) for block in problem.unknowns.blocks)
    return FieldFit(
        problem.unknowns,
        units,
        problem.data_count,
        problem.natural(best.z),
        best.z,
        best.value,
        best.log_likelihood,
        best.chi_squared,
        tuple(best.gradients),
        best.first,
        best.status,
        total("products") + int(values.size),
        total("coarse"),
        total("runs") + bool(values.size),
        total("linearisations") + bool(values.size),
        total("failures"),
        method.name,
        values,
        vectors,
        sizes,
        best.known.rows[: best.known.filled],
        best.known.cuts[: best.known.filled],
        total("before"),
    )


def _coarse_fit(method: GaussNewtonCG, key: PRNGKeyArray, counter: Progress) -> FieldFit:
    """The fit of the coarser problem, no closer than its difference from the finer one."""
    assert method.coarse is not None
    first = GaussNewtonCG(COARSE, method.max_steps, method.max_products)
    return fit_fields(method.coarse, first, 1, key, {}, counter)


def _middle(problem: Problem) -> Array:
    """The start that is given, and elsewhere the middle of the priors: of fields their mean."""
    check_drawable(problem)
    z = jnp.median(drawn_starts(problem.lean(), jax.random.key(0), DRAWN), axis=0)
    for block, _ in problem.unknowns.fields:
        z = z.at[block.span].set(0)
    return first_start(problem, z[None])[0]


def _check_proper(problem: Problem, z: Array, method: str) -> None:
    """Refuse an uncertainty in which the prior of an unknown has no width."""
    curvature = np.asarray(prior_model(problem, z)[2])
    for block in problem.unknowns.blocks:
        if not (curvature[block.span] > 0).all():
            raise ArgumentError(
                f"The uncertainty of {method} by `modes` starts from the priors, but that of `{block.name}` has no "
                "curvature. Give it a prior such as a normal or log-normal one, or take `modes=0`."
            )
