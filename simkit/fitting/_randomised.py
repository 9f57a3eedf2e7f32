"""Draws of fields by randomised maximum a posteriori: the fit again, of data and prior that are disturbed by their own errors."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_count, check_key, check_kind
from .._errors import ArgumentError, SimulationError
from .._progress import Progress, Say
from ..core import full_products
from ..engine import Options
from ..problem import (
    AbstractFieldPrior,
    Normal,
    Problem,
    StoredPrior,
    check_gaussian,
    check_independent,
    check_problem,
)
from ._carried import carried, check_carried
from ._field_lbfgs import FieldLBFGS
from ._field_result import FieldFit
from ._method import CONVERGED
from ._newton_cg import white_sizes
from ._prior_model import prior_model
from ._secant_descent import Changes, Way, begin, descended


@full_products
def randomised_draws(
    problem: Problem,
    fit: FieldFit,
    count: int,
    *,
    key: PRNGKeyArray,
    method: FieldLBFGS | None = None,
    progress: Say = None,
) -> Float[Array, "draws parameters"]:
    r"""Draw fields from the posterior by randomised maximum a posteriori: each draw is the optimum of a disturbed problem,

    $$u_i = \arg\min_u \tfrac12 |R^{-1/2} (y + \varepsilon_i - H(u))|^2 + \tfrac12 |\xi(u) - \eta_i|^2, \qquad
    \varepsilon_i \sim N(0, R), \quad \eta_i \sim N(0, 1)$$

    with $\xi$ the white coordinates of the prior. Where H is linear these are exact and independent draws of the posterior; where
    it bends they follow it, as the normal approximation of `modes` does not, but have no exact density of their own. It needs no
    `modes`: all directions are drawn, at the price of a fit each, from the optimum and with what earlier draws taught of curvature.

    **Arguments:**

    - `problem`: data with normal errors of known size; unknowns with priors of fields, normal ones, log-normal ones that move by
        their logarithm, or none.
    - `fit`: the fit of the problem.
    - `count`: number of draws. `key`: a random key.
    - `method`: `FieldLBFGS` with its tolerance and coarser problems; by default `FieldLBFGS()`.
    - `progress`: as in `fit`.

    **Returns:** shape `(draws, parameters)`, natural units, as `fit.draws` and for `predict`.

    **Errors:** standard deviations from n draws are off by $1 / \sqrt{2 n}$ of themselves; the optimum of each draw by the
    tolerance.

    **Raises:** an `ArgumentError` for noise or priors that are not normal, a `SimulationError` where a draw does not converge.

    **Reference:** Kitanidis (1995), Water Resour. Res. 31:2411, doi:10.1029/95WR01945; Bardsley, Solonen, Haario and Laine (2014),
    SIAM J. Sci. Comput. 36:A1895, doi:10.1137/140964023.
    """
    check_problem(problem)
    remedy = "It is what `simkit.fit` returns with `GaussNewtonCG` or `FieldLBFGS`."
    check_kind("fit", fit, FieldFit, "a fit of fields", remedy)
    check_count("count", count)
    check_key(key, needed=True)
    method = FieldLBFGS() if method is None else method
    check_kind("method", method, FieldLBFGS, "an L-BFGS for fields", "Take `simkit.FieldLBFGS()`.")
    if fit.unknowns.blocks != problem.unknowns.blocks:
        raise ArgumentError("Argument `fit` must be a fit of the same problem, but its unknowns are others.")
    check_independent(problem, "A randomised draw")
    check_gaussian(problem, "A randomised draw")
    _check_priors(problem)
    for other in method.coarse:
        check_carried(other.unknowns, problem, "coarse")
    errors = _errors(problem, fit)
    proper, level = _slopes(problem, fit)
    probe, *keys = jax.random.split(key, count + 1)
    coarse = _coarse(method, problem, fit, probe)
    rows, learnt = [], Changes.of(fit.z.size, fit.z.dtype, method.memory)
    shells = None if coarse is None else coarse.shells
    with Progress(None, 0, progress, verb="draw") as counter:
        for i, own in enumerate(keys):
            for_data, for_prior = jax.random.split(own)
            lean = problem.with_data(_disturbed(problem, errors, for_data)).lean()
            tilt = level - proper * jax.random.normal(for_prior, fit.z.shape, fit.z.dtype)
            way, _ = begin(lean, fit.z, learnt, shells, probe, tilt)
            end = descended(way, coarse, method, float(method.tolerance), fit.first, counter)
            if end.status != CONVERGED:
                raise SimulationError(
                    f"Draw {i} of {count} did not converge: its gradient is {end.gradients[-1]:.1e} of the first after "
                    f"{way.looks} looks. Raise `max_steps` or `tolerance` of `method`."
                )
            shells, learnt = way.shells, way.changes
            rows.append(end.z)
            counter.tell(f"{i + 1} of {count} draws")
    return jax.vmap(problem.natural)(jnp.stack(rows))


def _check_priors(problem: Problem) -> None:
    """Refuse priors whose disturbance is not that of their mean.

    **Raises:** an `ArgumentError`.
    """
    if problem.unknowns.joints:
        raise ArgumentError("A randomised draw knows no `dependence` of unknowns: leave it out.")
    for block, prior in problem.unknowns.pairs:
        if prior is None or isinstance(prior, AbstractFieldPrior):
            continue
        assert isinstance(prior, StoredPrior)
        if not issubclass(prior.kind, dist.LogNormal if block.log else dist.Normal):
            raise ArgumentError(
                f"A randomised draw needs normal priors in the coordinates of the fit, but that of `{block.name}` is a "
                f'`{prior.kind.__name__}`. Take a normal one, or a log-normal one with `transform="log"`.'
            )


def _slopes(problem: Problem, fit: FieldFit) -> tuple[Array, Array]:
    """Mask of where the prior has a deviation, and the gradient in white coordinates of what makes densities those of logarithms.

    A fit maximises the density of a number, not of its logarithm, which is what is normal there; of fields it is the latter.
    """
    curvature = prior_model(problem, fit.z)[2]
    logs = np.zeros(fit.z.size, bool)
    for block, prior in problem.unknowns.pairs:
        logs[block.span] = block.log and not isinstance(prior, AbstractFieldPrior)
    proper = (curvature > 0).astype(fit.z.dtype)
    return proper, jnp.where(logs, -white_sizes(curvature), 0).astype(fit.z.dtype)


def _errors(problem: Problem, fit: FieldFit) -> dict[str, Array]:
    """Standard deviations of the data, by output.

    **Raises:** an `ArgumentError` for other than normal noise of known size.
    """
    heads, found = problem.model.heads(problem.natural(fit.z), problem.dataset, Options()), {}
    moved = {path for block in problem.unknowns.blocks if (path := block.name).startswith("noise.")}
    for name, (location, noise) in heads[0].items():
        if type(noise) is not Normal or moved or name not in problem.data:
            raise ArgumentError(
                f"A randomised draw needs data with normal errors of known size, but `{name}` has "
                f"`{type(noise).__name__}`{' with unknown numbers' * bool(moved)}. Take `simkit.noise.Normal(scale)` with a number."
            )
        found[name] = jnp.broadcast_to(noise.scale, location.shape)
    return found


def _disturbed(problem: Problem, errors: dict[str, Array], key: PRNGKeyArray) -> dict[str, Any]:
    """Data with errors added once more; missing ones stay missing."""
    keys = jax.random.split(key, len(errors))
    found = {}
    for (name, sizes), own in zip(errors.items(), keys, strict=True):
        data = jnp.asarray(problem.data[name], sizes.dtype)
        found[name] = np.asarray(data + sizes * jax.random.normal(own, data.shape, data.dtype))
    return found


def _coarse(method: FieldLBFGS, problem: Problem, fit: FieldFit, key: PRNGKeyArray) -> Way | None:
    """The nearest coarser problem at the fit, from which steps of all draws are made."""
    if not method.coarse:
        return None
    lean = method.coarse[0].lean()
    z = carried(fit.z, problem.unknowns, lean)
    return begin(lean, z, Changes.of(z.size, z.dtype, method.memory), None, key, jnp.zeros_like(z))[0]
