"""Fits of averages over draws: draw, minimise as far as the draws count, draw anew."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import ArgumentError, SimulationError
from .._progress import Progress
from ..problem import Problem, effective_shares, errors_of_draws, without_limit
from ._fit_result import FitResult
from ._inside import inside
from ._kept_draws import kept_refresh
from ._starts import check_left_out, drawn_starts, first_start, given_starts

ROUNDS = 30
"""Most times that draws are made anew."""

SETTLED = 0.9
"""The effective share of the draws, at the optimum, with which a fit ends: they are nearly draws of the optimum itself."""

FREE = 0.55
"""The effective share at the optimum from which on it was not the share that ended the descent there."""

BEGUN = 0.5
"""Effective share at the start from which on draws that a problem has already are used."""

NOTABLE = 0.1
"""The part of a standard error from which on what the finite number of draws adds is said."""

SPREAD = 4
"""References of the draws of a posterior, beside that at its optimum."""

COVERED = 0.5
"""The effective share, over draws of one reference, with which a place of the posterior is covered."""

Once = Callable[[Problem, Array], FitResult]


def fit_sampled(
    problem: Problem,
    once: Once,
    starts: ArrayLike | Sequence[Any],
    key: PRNGKeyArray,
    others: Mapping[str, tuple[Any, Any]],
    counter: Progress,
    held: Any,
) -> FitResult:
    """Minimise, with draws that are made anew wherever too few of them count, until they are those of the optimum.

    **Arguments:** `once`: the fit of a problem with draws, from one start; `others`: name -> (value, default) of arguments
    that only other problems take; `held`: what `kept_in` gives, in which draws are kept.

    **Raises:** an `ArgumentError` for such an argument, or more than one start.
    """
    check_left_out(others, "averages over draws, which are fitted from one start. Leave it out.")
    theta = problem.natural(_start(problem, starts, key))
    shares = effective_shares(problem, theta)
    total, rounds, cut, found, own = 0, 0, False, None, None
    while True:
        if rounds or not (shares >= BEGUN).all():  # NaN: nothing was drawn yet
            drawn = kept_refresh(problem, theta, jax.random.fold_in(key, rounds), held, f"draws-{rounds:06d}")
            if drawn is None:
                cut = True
                break
            problem = drawn
        try:
            found = once(problem, theta[None])
        except SimulationError:
            _check_finite(problem, theta)
            raise
        total += int(np.asarray(found.iterations).sum())
        shares, rounds = effective_shares(problem, found.estimate), rounds + 1
        best = float(found.objective[0])
        counter.tell(f"draws {rounds}: objective {best:.6g}, {shares.min():.0%} of the draws count there")
        # A descent that the share of its draws stopped says nothing of how far the optimum is.
        own = _own_errors(problem, found) if (shares >= FREE).all() else None
        if (shares >= SETTLED).all() or rounds == ROUNDS or (own is not None and _within(found, theta, own)):
            break
        theta = found.estimate
    assert found is not None  # the first draws are always made
    words = _sentences(problem, found, shares, rounds, own)
    method = f"{found.method}, draws made {rounds} times" if rounds > 1 else found.method
    return dataclasses.replace(
        found, iterations=jnp.full_like(found.iterations, total), misfit=(*found.misfit, *words), method=method, cut=cut
    )


def covering(problem: Problem, found: FitResult, key: PRNGKeyArray, held: Any) -> Problem | None:
    """The problem with draws of several references, which cover the posterior around a fit; outputs have no limit. None where the
    time of the verb is up before them.

    References are the optimum and draws of the normal approximation. `held` is what `kept_in` gives.
    """
    _, spread = jax.random.split(key)
    rows = np.asarray(found.covariance, float)
    values, basis = np.linalg.eigh(rows)
    root = basis * np.sqrt(np.maximum(values, 0))
    normal = np.asarray(jax.random.normal(spread, (SPREAD // 2, problem.size)), float)
    steps = np.concatenate([np.zeros((1, problem.size)), normal, -normal])
    bounds = problem.coordinate_bounds()
    z = jnp.asarray(np.asarray(found.z, float) + steps @ root.T, problem.times.dtype)
    z = jax.vmap(inside, in_axes=(0, None))(z, bounds)
    drawn = kept_refresh(problem, problem.natural(z), key, held, "frames")
    return None if drawn is None else without_limit(drawn)


def uncovered(problem: Problem, thetas: Float[np.ndarray, "draws parameters"]) -> float:
    """The part of these draws of the posterior at which too few of the frames count."""
    shares = [effective_shares(problem, jnp.asarray(theta, problem.times.dtype)).min() for theta in thetas]
    return float(np.mean(np.array(shares) < COVERED))


def _check_finite(problem: Problem, theta: Array) -> None:
    """Refuse outputs that are not finite where the draws were made."""
    for name, (location, _) in problem.heads(theta)[0].items():
        bad = ~np.isfinite(np.asarray(location)).reshape(len(problem.labels), -1).all(axis=1)
        if bad.any():
            raise SimulationError(
                f"The average `{name}` of `{problem.labels[int(np.argmax(bad))]}` is not finite at the parameters at which its "
                "draws were made. Look at the observable for some of the frames: one of them that is not finite is enough."
            )


def _start(problem: Problem, starts: ArrayLike | Sequence[Any], key: PRNGKeyArray) -> Array:
    """One start, in the coordinates of the fit: given, that of `Free`, or where the system stands."""
    if not isinstance(starts, int | np.integer):
        given = given_starts(problem, starts)
        if len(given) != 1:
            raise ArgumentError(
                f"Argument `starts` must be one row for averages over draws, which are fitted from one start, but it has "
                f"{len(given)}."
            )
        return given[0]
    z = first_start(problem, drawn_starts(problem.lean(), key, 1))[0]
    setup, bounds = problem.model.base_setup(0), problem.coordinate_bounds()
    for i, name in enumerate(problem.names):
        if np.isfinite(float(problem.starts[i])):
            continue
        try:
            standing = setup.get(problem.target(name))
        except ArgumentError:  # a parameter that is none of the system's
            continue
        if standing.ndim:
            continue
        own = problem.coordinates(jnp.full_like(z, standing))[i]
        within = jnp.isfinite(own) & (own > bounds[i, 0]) & (own < bounds[i, 1])
        z = z.at[i].set(jnp.where(within, own, z[i]))
    return z


def _within(found: FitResult, theta: Array, own: np.ndarray) -> bool:
    """Tell whether a descent went no farther than draws scatter: two of their errors.

    Where observables fluctuate, as the density of a hundred molecules does, draws can count nowhere near the optimum that other
    draws say: more rounds would go to and fro.
    """
    away = np.abs(np.asarray(found.estimate, float) - np.asarray(theta, float))
    return bool((away <= 2 * own).all())


def _own_errors(problem: Problem, found: FitResult) -> Float[np.ndarray, " parameters"]:
    """Errors of an estimate that come from the finite number of draws, in natural units."""
    size = np.where(np.array(problem.log, bool), np.asarray(found.estimate), 1)
    covariance = np.asarray(found.covariance) * size[:, None] * size[None]
    return errors_of_draws(problem, found.estimate, jnp.asarray(covariance, problem.times.dtype))


def _sentences(
    problem: Problem, found: FitResult, shares: np.ndarray, rounds: int, own: np.ndarray | None
) -> list[str]:
    """Error that the finite number of draws adds to the estimate, and whether the fit settled."""
    words = []
    if not (shares >= FREE).all():
        worst = problem.labels[int(np.argmin(shares))]
        words.append(
            f"after {rounds} rounds only {shares.min():.0%} of the draws of `{worst}` count at the estimate, so that it has not "
            "settled. Draw more frames, or begin nearer."
        )
    own = _own_errors(problem, found) if own is None else own
    error = np.asarray(found.standard_error, float)
    for name, part, whole in zip(problem.names, own, error, strict=True):
        if np.isnan(part):
            words.append(
                f"the draws are too few for an error of their own on `{name}`: fewer than 8 a reference. Draw more."
            )
        elif part > NOTABLE * whole:
            words.append(
                f"the finite number of draws adds an error of {part:.2g} to `{name}`, beside the {whole:.2g} of the data: draw "
                "more frames for less."
            )
    return words
