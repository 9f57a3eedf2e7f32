"""One step of a bounded trust region, from a factored Gauss-Newton model."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from ..linear import eigenvalues, singular_values
from ._inside import inside
from ._method import select
from ._prior_model import root_of_prior
from ._quadratic import LocalModel

NEWTON_ITERATIONS = 20


NEAR = 3.0
"""Standard errors from the model's minimum within which second derivatives matter; from further off they mislead."""


class Step(NamedTuple):
    """A proposed step.

    - `step`: in the coordinates of the fit, strictly inside the bounds.
    - `promised`: the reduction of the objective that the model promises.
    - `length`: its length in the scaled coordinates, in which the radius is measured.
    - `decrement`: how far the model's minimum is away, in standard errors; small at a minimum, also at one on a bound.
    """

    step: Array
    promised: Array
    length: Array
    decrement: Array


class _Spectrum(NamedTuple):
    """A Gauss-Newton model in its singular basis."""

    basis: Array
    gradient: Array
    values: Array  # squared singular values
    decrement: Array


def reflective_step(
    model: LocalModel,
    z: Float[Array, " parameters"],
    bounds: Float[Array, "parameters 2"],
    scale: Float[Array, " parameters"],
    held: Bool[Array, " parameters"],
    radius: Float[Array, ""],
    missing: Float[Array, "parameters parameters"],
) -> Step:
    """The best of the shortened, the clipped, the reflected and the steepest step inside the trust region and the bounds.

    Coordinates near a bound towards which the objective falls are scaled by the root of their distance to it (Coleman & Li
    1996, doi:10.1137/0806023; Branch, Coleman & Li 1999, doi:10.1137/S1064827595289108). `held` coordinates do not move.
    `missing` is the curvature that the model lacks, 0 where it is not to count; near the minimum alone it does.
    """
    slope = scale * model.gradient
    place, walls = z / scale, bounds / scale[:, None]
    falling = jnp.where(slope < 0, walls[:, 1], walls[:, 0])
    distance = jnp.where(jnp.isfinite(falling) & (slope != 0), jnp.abs(falling - place), jnp.inf)
    closest = 4 * jnp.where(
        slope < 0, (inside(bounds[:, 1], bounds) - bounds[:, 1]), (inside(bounds[:, 0], bounds) - bounds[:, 0])
    )
    pinned = held | (distance <= jnp.abs(closest) / scale)
    faced = distance < 1
    shrink = jnp.where(pinned, 0, jnp.where(faced, jnp.sqrt(jnp.where(faced, distance, 1)), 1)).astype(z.dtype)
    total = scale * shrink
    bend = jnp.diag(jnp.where(faced & ~pinned, jnp.sqrt(jnp.abs(slope)), 0))
    rows = jnp.concatenate([model.rows * total[None], root_of_prior(model.curvature) * total[None], bend])
    gradient = shrink * slope
    spectrum = _decompose(rows, model.pull, total * model.slope)
    bent = _bent(rows, total[:, None] * missing * total[None], gradient)
    use = jnp.any(missing != 0) & (spectrum.decrement < NEAR)
    spectrum = select(use, bent, spectrum)
    whole = jnp.sqrt(bent.values)[:, None] * bent.basis
    rows = jnp.where(use, jnp.concatenate([whole, jnp.zeros((2 * z.size, z.size), z.dtype)]), rows)

    def room(origin: Array, step: Array) -> Array:
        move = shrink * step
        gap = jnp.where(move > 0, walls[:, 1] - origin, walls[:, 0] - origin)
        return jnp.where(move == 0, jnp.inf, gap / jnp.where(move == 0, 1, move))

    def cut(origin: Array, step: Array) -> Array:
        return jnp.minimum(1, 0.995 * room(origin, step).min()) * step

    newton = _trust_step(spectrum, radius)
    limit = jnp.minimum(1, room(place, newton).min())
    before = 0.999 * limit * newton
    turned = jnp.where(room(place, newton) <= limit, -newton, newton) * (1 - limit)
    reflected = before + cut(place + shrink * before, turned)
    clipped = newton * jnp.minimum(1, 0.995 * room(place, newton))
    tiny = jnp.finfo(z.dtype).tiny
    size, curve = jnp.linalg.norm(gradient), jnp.linalg.norm(rows @ gradient)
    steepest = -gradient / (size + tiny) * jnp.minimum(radius, size * (size / (curve + tiny)) ** 2)
    steps = jnp.stack([cut(place, newton), clipped, reflected, cut(place, steepest)])
    gains = -(steps @ gradient) - 0.5 * jnp.sum((steps @ rows.T) ** 2, axis=1)
    lengths = jnp.linalg.norm(steps, axis=1)
    best = jnp.argmax(jnp.where(lengths <= 1.001 * radius, gains, -jnp.inf))
    return Step(total * steps[best], gains[best], lengths[best], spectrum.decrement)


def _decompose(rows: Array, pull: Array, slope: Array) -> _Spectrum:
    left, values, basis = singular_values(rows)
    # Directions that the model does not see hold only rounding errors, which a small singular value would blow up.
    eps = jnp.finfo(rows.dtype).eps
    blind = values <= 4 * eps * rows.shape[1] * values[0]
    rest = basis @ slope
    rest = jnp.where(blind & (jnp.abs(rest) <= 16 * eps * jnp.linalg.norm(slope)), 0, rest)
    gradient = jnp.where(blind, 0, values * (pull @ left[: pull.size])) + rest
    floor = jnp.maximum(values, eps * values[0]) + jnp.sqrt(jnp.finfo(rows.dtype).tiny)
    return _Spectrum(basis, gradient, floor**2, jnp.linalg.norm(gradient / floor))


def _bent(rows: Array, missing: Array, gradient: Array) -> _Spectrum:
    """The model with the curvature that it lacks: where the sum curves downwards its size counts."""
    values, basis = eigenvalues(rows.T @ rows + missing)
    eps = jnp.finfo(rows.dtype).eps
    sizes = jnp.maximum(jnp.abs(values), 4 * eps * rows.shape[1] * jnp.max(jnp.abs(values)))
    sizes = sizes + jnp.finfo(rows.dtype).tiny
    own = basis.T @ gradient
    return _Spectrum(basis.T, own, sizes, jnp.linalg.norm(own / jnp.sqrt(sizes)))


def _trust_step(spectrum: _Spectrum, radius: Array) -> Array:
    """The model's minimum inside the ball: Newton's method on the secular equation, which nears the shift from below."""

    def improve(_: ArrayLike, shift: Array) -> Array:
        step = spectrum.gradient / (spectrum.values + shift)
        length = jnp.linalg.norm(step)
        share = (step / jnp.where(length > 0, length, 1)) ** 2
        rise = (length / radius - 1) / jnp.maximum(
            jnp.sum(share / (spectrum.values + shift)), jnp.finfo(step.dtype).tiny
        )
        return jnp.where(length > radius, shift + rise, shift)

    lowest = jnp.maximum(0, jnp.linalg.norm(spectrum.gradient) / radius - jnp.max(spectrum.values))
    shift = jax.lax.fori_loop(0, NEWTON_ITERATIONS, improve, lowest)
    step = -spectrum.gradient / (spectrum.values + shift)
    length = jnp.linalg.norm(step)
    return (step * jnp.minimum(1, radius / jnp.where(length > 0, length, 1))) @ spectrum.basis
