"""Reverse mode, forward mode and finite differences, one against the other."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import ArgumentError
from ..core import generator

Mode = Literal["reverse", "forward"]


class Slopes(NamedTuple):
    """A scalar function at a point, and its derivative along directions by every route.

    - `value`: the function; `size`: the sum of the magnitudes that it was added up from, which rounding errors scale with.
    - `reverse`, `forward`: shape `(directions,)`, None for a mode that was not asked for.
    - `differences`: shape `(steps, directions)`, central differences with steps of decreasing length.
    - `values`: shape `(2, steps, directions)`, the function at the points that they were taken from.
    """

    value: Any
    size: Any
    reverse: Any
    forward: Any
    differences: Any
    values: Any


class GradientReport(NamedTuple):
    """Result of `check_gradients`; all modes agree within the tolerance."""

    directions: int
    modes: tuple[str, ...]
    mode_error: float
    difference_error: float

    def __str__(self) -> str:
        return (
            f"Gradients agree along {self.directions} directions: {' and '.join(self.modes)} mode to "
            f"{self.mode_error:.1e}, with finite differences to {self.difference_error:.1e} (relative)."
        )


def check_gradients(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    directions: int = 3,
    tolerance: float | None = None,
    modes: tuple[Mode, ...] = ("reverse", "forward"),
    key: PRNGKeyArray | None = None,
) -> GradientReport:
    r"""Compare reverse mode, forward mode and central finite differences of a function along random directions.

    $$\nabla f \cdot d, \qquad \frac{\partial}{\partial s} f(x + s d) \Big|_0, \qquad \frac{f(x + s d) - f(x - s d)}{2 s}$$

    **Arguments:**

    - `function`: any function of pytrees that returns a pytree of float arrays; what is not a number is added up with fixed
        irregular weights.
    - `arguments`: where to differentiate, one entry an argument; all float arrays in them vary.
    - `directions`: how many random directions; each number moves in proportion to its own size.
    - `tolerance`: largest relative difference to finite differences; by default twice the cube root of the machine epsilon
        (1.2e-5 in float64), which is what central differences can show.
    - `modes`: leave out "forward" for a function that has reverse mode only, such as one with a `custom_vjp`, and the other
        way round.
    - `key`: a random key for the directions; by default `jax.random.key(0)`.

    **Returns** a report that prints, and **raises** an `AssertionError` that says which two routes differ and by how much, or
    what is not finite.

    ```python
    import jax.numpy as jnp
    import simkit
    print(simkit.testing.check_gradients(lambda x: jnp.sin(x) * x, (1.5,)))
    ```
    """
    if unknown := set(modes) - {"reverse", "forward"} or not modes:
        raise ArgumentError(
            f'Argument `modes` must hold "reverse", "forward" or both, but it is {modes!r} ({unknown}).'
        )
    arguments = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, tuple(arguments))
    moving, fixed = eqx.partition(arguments, eqx.is_inexact_array)
    point, restore = ravel_pytree(moving)
    if point.size == 0 or not jnp.issubdtype(point.dtype, jnp.floating):
        raise ArgumentError("Argument `arguments` must hold float arrays to differentiate by, but it holds none.")

    def flat(x: Array) -> Array:
        leaves = [
            leaf for leaf in jax.tree.leaves(function(*eqx.combine(restore(x), fixed))) if eqx.is_inexact_array(leaf)
        ]
        terms = jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])
        return terms * irregular_weights(terms.shape, terms.dtype) if terms.size > 1 else terms

    ways = random_ways(point, directions, key)
    slopes = jax.jit(lambda x, ways: directional_slopes(flat, x, ways, modes))(point, ways)
    labels = [f"random direction {i}" for i in range(directions)]
    mode_error, difference_error = compare_slopes(slopes, labels, tolerance)
    return GradientReport(directions, modes, mode_error, difference_error)


def irregular_weights(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Numbers between 1/2 and 3/2 without a pattern, so that errors of opposite sign do not cancel in a sum."""
    count = int(np.prod(shape))
    return jnp.asarray(1 + 0.5 * np.cos(np.arange(1, count + 1) ** 2), dtype).reshape(shape)


def random_ways(point: Float[Array, " n"], directions: int, key: PRNGKeyArray | None) -> Float[Array, "directions n"]:
    """Random directions at a point, each number in proportion to its size; by `jax.random.key(0)` where there is no key."""
    noise = generator(jax.random.key(0) if key is None else key).standard_normal((directions, point.size))
    return jnp.asarray(noise, point.dtype) * typical_size(point)[None, :]


def typical_size(point: Float[Array, " n"]) -> Float[Array, " n"]:
    """The size of each number, 1 for a zero."""
    return jnp.where(point == 0, 1, jnp.abs(point))


def relative_steps(dtype: DTypeLike) -> tuple[float, ...]:
    """Steps of central differences, relative to the size of a number.

    The first is right for a curved function of full precision, the second for most, the third for a function with a scale far
    below the size of its argument.
    """
    epsilon = float(jnp.finfo(dtype).eps)
    return epsilon ** (1 / 5), epsilon ** (1 / 3), epsilon ** (2 / 5)


def directional_slopes(
    terms: Callable[[Array], Array], point: Array, ways: Float[Array, "directions n"], modes: tuple[str, ...]
) -> Slopes:
    """The derivatives of the sum of `terms` along the rows of `ways`; pure, so that it compiles as one program."""

    def total(x: Array) -> tuple[Array, Array]:
        parts = terms(x)
        return jnp.sum(parts), jnp.sum(jnp.abs(parts))

    reverse = forward = None
    value = size = jnp.zeros((), point.dtype)
    if "forward" in modes:
        (value, size), (forward, _) = jax.vmap(lambda way: jax.jvp(total, (point,), (way,)), out_axes=(None, 0))(ways)
    if "reverse" in modes:
        (value, size), gradient = jax.value_and_grad(total, has_aux=True)(point)
        reverse = ways @ gradient
    steps = jnp.asarray(relative_steps(point.dtype), point.dtype)
    moves = steps[:, None, None] * ways[None, :, :]
    moved = point[None, None, None, :] + jnp.stack([moves, -moves])
    values, _ = jax.vmap(total)(moved.reshape(-1, point.size))
    values = values.reshape(moved.shape[:-1])
    return Slopes(value, size, reverse, forward, (values[0] - values[1]) / (2 * steps[:, None]), values)


def compare_slopes(slopes: Slopes, labels: Sequence[str], tolerance: float | None) -> tuple[float, float]:
    """Raise unless all routes agree; returns the largest relative difference between modes and to finite differences."""
    slopes = jax.tree.map(np.asarray, slopes)
    epsilon = float(np.finfo(slopes.differences.dtype).eps)
    if not np.isfinite(slopes.value):
        raise AssertionError(f"The function is {slopes.value} at the point itself, so it has no gradient there.")
    routes = {"reverse": slopes.reverse, "forward": slopes.forward}
    routes = {mode: slope for mode, slope in routes.items() if slope is not None}
    for mode, slope in routes.items():
        if not np.isfinite(slope).all():
            place = labels[int(np.argmin(np.isfinite(slope)))]
            raise AssertionError(f"The derivative in {mode} mode along {place} is not finite, though the value is.")
    mode_error = 0.0
    if len(routes) == 2:
        # Both modes round differently in each step, and a solve can amplify that by orders of magnitude.
        allowed = 10 * epsilon**0.5 * np.abs(slopes.forward) + 1e5 * epsilon * slopes.size
        mode_error = _compare(slopes.reverse, slopes.forward, allowed, slopes.size, labels, ("reverse", "forward mode"))
    tolerance = 2 * epsilon ** (1 / 3) if tolerance is None else tolerance
    difference_error = 0.0
    for mode, slope in routes.items():
        # The best of the steps: each is wrong somewhere, and a wrong gradient agrees with none of them.
        errors = np.where(np.isfinite(slopes.differences), np.abs(slopes.differences - slope[None, :]), np.inf)
        best = np.take_along_axis(slopes.differences, np.argmin(errors, axis=0)[None, :], axis=0)[0]
        allowed = tolerance * np.abs(slope) + epsilon**0.5 * slopes.size
        error = _compare(slope, best, allowed, slopes.size, labels, (mode, "finite differences"))
        difference_error = max(difference_error, error)
    return mode_error, difference_error


def _compare(
    found: np.ndarray,
    expected: np.ndarray,
    allowed: np.ndarray,
    size: np.ndarray,
    labels: Sequence[str],
    names: tuple[str, str],
) -> float:
    error = np.abs(found - expected)
    bad = ~(error <= allowed)
    if bad.any():
        i = int(np.argmax(np.where(bad, np.nan_to_num(error / allowed, nan=np.inf), 0)))
        raise AssertionError(
            f"The derivative along {labels[i]} is {found[i]:.8g} in {names[0]} mode, but {expected[i]:.8g} by {names[1]}; "
            f"they may differ by {allowed[i]:.1e}."
        )
    return float(np.max(error / np.maximum(np.abs(expected), size), initial=0.0))
