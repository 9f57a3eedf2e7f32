"""Starting points of a fit."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import shown
from .._errors import ArgumentError
from ..engine import note_trace
from ..problem import AbstractFieldPrior, Problem, StoredPrior, drawn, named_parts, quantile
from ._inside import inside


def check_left_out(options: Mapping[str, tuple[Any, Any]], what: str) -> None:
    """Refuse arguments of `fit`, name -> (value, default), that were given although `what` does not take them.

    **Raises:** an `ArgumentError`.
    """
    for name, (value, default) in options.items():
        if value != default:
            raise ArgumentError(f"Argument `{name}` does not go with {what}")


def check_count_of_starts(starts: int | np.integer) -> None:
    """Refuse no starts at all.

    **Raises:** an `ArgumentError`.
    """
    if starts < 1:
        raise ArgumentError(f"Argument `starts` must be at least 1, but it is {starts}.")


def given_starts(problem: Problem, starts: ArrayLike | Sequence[Any]) -> Float[Array, "starts parameters"]:
    """Starts that the user gave in natural units, checked, in the coordinates of the fit."""
    try:
        theta = np.asarray(starts, float)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"Argument `starts` must be a number or an array of shape (starts, {problem.size}), but it is {shown(starts)}."
        ) from error
    theta = theta[None] if theta.ndim == 1 else theta
    if theta.ndim != 2 or theta.shape[1] != problem.size or theta.shape[0] == 0:
        raise ArgumentError(
            f"Argument `starts` must be a number or an array of shape (starts, {problem.size}), one column for each of "
            f"{tuple(block.name for block in problem.unknowns.blocks)}, but its shape is {np.shape(starts)}."
        )
    bounds = np.asarray(problem.bounds)
    outside = ~((theta >= bounds[:, 0]) & (theta <= bounds[:, 1]))
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ArgumentError(
            f"Argument `starts` must lie inside the bounds, but start {row} has `{problem.names[column]}` = "
            f"{theta[row, column]:g}, outside ({bounds[column, 0]:g}, {bounds[column, 1]:g})."
        )
    return jax.vmap(problem.coordinates)(jnp.asarray(theta, problem.times.dtype))


def check_drawable(problem: Problem) -> None:
    """Refuse a parameter of which nothing says where it could be."""
    z = np.asarray(problem.coordinate_bounds())
    known = np.isfinite(z).all(axis=1) | np.isfinite(np.asarray(problem.starts))
    for block, prior in problem.unknowns.pairs:
        if prior is None and not known[block.span].all():
            name = block.name
            raise ArgumentError(
                f"The free parameter `{name}` must have a prior, two finite bounds or a start, so that a fit knows where to begin, "
                "but it has none. Give `Free` one of them, or `fit` an array of `starts`."
            )


@eqx.filter_jit
def drawn_starts(problem: Problem, key: PRNGKeyArray, count: int) -> Float[Array, "starts parameters"]:
    """Random starts in the coordinates of the fit.

    From the prior where there is one, else evenly between finite bounds, else around the given start: a factor of e where
    the parameter moves by its logarithm, its own size where it moves linearly (1 where it is zero, which has no size).
    """
    note_trace("fit, starts", named_parts(problem) | {"starts": count})
    bounds = problem.coordinate_bounds()
    one, two, three = jax.random.split(key, 3)
    lower, upper, log = bounds[:, 0], bounds[:, 1], jnp.array(problem.log, bool)
    finite = jnp.isfinite(lower) & jnp.isfinite(upper)
    floor, width = jnp.where(finite, lower, 0), jnp.where(finite, upper - lower, 1)
    shape = (count, problem.size)
    even = floor[None] + width[None] * jax.random.uniform(one, shape, bounds.dtype)
    known = jnp.where(jnp.isfinite(problem.starts), problem.starts, 1)
    spread = jnp.where(log | (known == 0), 1, jnp.abs(known))
    around = problem.coordinates(known)[None] + spread[None] * jax.random.normal(two, shape, bounds.dtype)
    fallback = jnp.where(finite[None], even, around)
    drawn = jax.vmap(problem.coordinates)(_prior_draws(problem, three, count).T)
    fine = jnp.isfinite(drawn) & (drawn > lower[None]) & (drawn < upper[None])
    return jax.vmap(inside, in_axes=(0, None))(jnp.where(fine, drawn, fallback), bounds)


def _prior_draws(problem: Problem, key: PRNGKeyArray, count: int) -> Array:
    """Draws from each prior, of shape (parameters, count); NaN where there is none. Priors of a kind are drawn together."""
    kinds: dict[Any, list[int]] = {}
    unknowns = problem.unknowns
    blocks = unknowns.blocks
    for i, prior in enumerate(unknowns.stored):
        if isinstance(prior, StoredPrior) and not blocks[i].shape:
            kinds.setdefault(jax.tree.structure(prior), []).append(i)
    draws = jnp.full((problem.size, count), jnp.nan, problem.times.dtype)
    for members in kinds.values():
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(unknowns.stored[i] for i in members))
        keys = jax.random.split(jax.random.fold_in(key, members[0]), len(members))
        with jax.numpy_dtype_promotion("standard"):  # numbers of priors may have another float type than the default
            found = jax.vmap(lambda prior, key: drawn(prior.distribution(), key, (count,)))(together, keys)
        draws = draws.at[np.array([blocks[i].offset for i in members])].set(found.astype(draws.dtype))
    for i, prior in enumerate(unknowns.stored):
        own, shape = jax.random.fold_in(key, i), (blocks[i].size, count)
        if isinstance(prior, StoredPrior) and blocks[i].shape:
            draws = draws.at[blocks[i].span].set(jnp.asarray(drawn(prior.distribution(), own, shape), draws.dtype))
        elif isinstance(prior, AbstractFieldPrior):
            draws = draws.at[blocks[i].span].set(jax.random.normal(own, shape, draws.dtype))
    for i, joint in enumerate(unknowns.joints):
        z = joint.drawn(jax.random.fold_in(key, len(blocks) + i), count, draws.dtype)
        for place, row in zip(joint.places, z, strict=True):
            draws = draws.at[place].set(quantile(unknowns.prior_at(place), row))
    # Fields alone are drawn in the coordinates of the fit, which are white.
    natural = unknowns.natural(draws.T).T
    for block, _ in unknowns.fields:
        draws = draws.at[block.span].set(natural[block.span])
    return draws


def first_start(problem: Problem, z: Float[Array, "starts parameters"]) -> Float[Array, "starts parameters"]:
    """The starts with the first one moved to the values that `Free.start` gives."""
    known = jnp.isfinite(problem.starts)
    if not known.any():
        return z
    return z.at[0].set(jnp.where(known, problem.coordinates(jnp.where(known, problem.starts, 1)), z[0]))


def some_start(problem: Problem) -> Float[Array, " parameters"]:
    """One point to look at a problem from, in the coordinates of the fit: the given starts, or what a prior draws."""
    return first_start(problem, drawn_starts(problem.lean(), jax.random.key(0), 1))[0]
