"""trust_line: one line beside a gradient through a long run."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PRNGKeyArray

from .._doors import check_count, check_key, shown
from .._errors import ArgumentError
from ..core import tracing
from ._gradients import compare_slopes, directional_slopes, random_ways
from ._trust import Growth


class TrustLine(eqx.Module):
    """Result of `trust_line`; it prints one line.

    - `value`, `gradient`: of the loss, the gradient as a pytree of the arguments; `norm`, its Euclidean norm.
    - `agreement`: the relative difference between reverse mode and central differences along a random direction; NaN where the
        gradient or the loss is not finite. `agrees`: whether that is as small as differences can show.
    - `growth`: that of a small displacement of the state, where it was given.
    """

    value: float = eqx.field(static=True)
    gradient: Any
    norm: float = eqx.field(static=True)
    numbers: int = eqx.field(static=True)
    agreement: float = eqx.field(static=True)
    agrees: bool = eqx.field(static=True)
    growth: Growth | None

    @property
    def trusted(self) -> bool:
        """Tell whether both estimators agree and the run ends before its horizon."""
        return self.agrees and (self.growth is None or self.growth.trusted)

    def __repr__(self) -> str:
        verdict = "trusted" if self.trusted else "NOT trusted"
        line = f"gradient {verdict}: norm {self.norm:.3g} of {self.numbers} numbers, reverse mode and differences "
        line += f"{'agree' if self.agrees else 'differ'} to {self.agreement:.1e}"
        if self.growth is None:
            return line + "; growth not asked for"
        exponent, horizon, span = self.growth.exponent, self.growth.horizon, self.growth.span
        return line + f"; displacements grow as exp({exponent:.3g} t), meaningful to {horizon:.3g} of {span:.3g}"


def trust_line(
    loss: Callable[[Any], Any],
    arguments: Any,
    *,
    growth: Any = None,
    directions: int = 1,
    key: PRNGKeyArray | None = None,
) -> TrustLine:
    """The gradient of a loss with one line that says whether to believe it.

    Three things decide: whether reverse mode and central differences agree along random directions, how large the gradient is,
    and how fast displacements grow over the run. The first can hold where the gradient is useless: of a chaotic run beyond its
    horizon, both estimators find the same slope of a function that nobody can descend. `check_gradient` does the same for a
    `Problem`, experiment by experiment.

    **Arguments:**

    - `loss`: `loss(arguments)`, one float. It is evaluated 1 + 6 `directions` times, six at once, and once differentiated.
    - `arguments`: a pytree; all float arrays in it vary, each number in proportion to its size.
    - `growth`: what `perturbation_growth` found of the same run; without it the line says that nobody asked.
    - `directions`, `key`: how many random directions, at least 1, and their key, by default `jax.random.key(0)`.

    **Returns:** a `TrustLine`, with the gradient.

    **Raises:** an `ArgumentError` where the arguments hold no float array or one of half precision, the loss is not one float,
    `directions` is below 1, or the call is inside `jit`, `vmap` or `grad`.

    **Reference:** Metz, Freeman, Schoenholz and Kachman (2021), Gradients are not all you need, arXiv:2111.05803.

    ```python
    import numpy as np
    import simkit

    simkit.enable_x64()
    system, y0, _, _ = simkit.odes.Lorenz63.example()
    times = np.linspace(0.0, 20.0, 81)
    loss = lambda system: simkit.simulate(system, y0, times, step=0.01).final().z
    growth = simkit.testing.perturbation_growth(system, y0, times, step=0.01)
    print(simkit.testing.trust_line(loss, system, growth=growth))
    ```
    """
    if not callable(loss):
        raise ArgumentError(f"Argument `loss` must be a function of the arguments, but it is {loss!r}.")
    check_count("directions", directions)
    check_key(key)
    if tracing(arguments):
        raise ArgumentError(
            "Argument `arguments` of `trust_line` must hold known numbers, but the call is inside `jit`, `vmap` or `grad`: its "
            "line is text. Call it outside, of members of a batch one by one; it compiles itself."
        )
    arguments = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, arguments)
    moving, fixed = eqx.partition(arguments, eqx.is_inexact_array)
    point, restore = ravel_pytree(moving)
    if point.size == 0 or not jnp.issubdtype(point.dtype, jnp.floating):
        raise ArgumentError("Argument `arguments` must hold float arrays to differentiate by, but it holds none.")
    if point.dtype not in (jnp.float32, jnp.float64):
        raise ArgumentError(
            f"Argument `arguments` must hold float32 or float64, but it holds {point.dtype}, of which differences show nothing. "
            "Convert it, as by `simkit.cast(arguments, 'float32')`."
        )
    if growth is not None and not isinstance(growth, Growth):
        raise ArgumentError(f"Argument `growth` must be what `perturbation_growth` returns, but it is {growth!r}.")

    def flat(x: Any) -> Any:
        return _one(loss(eqx.combine(restore(x), fixed))).reshape(1)

    ways = random_ways(point, directions, key)
    both = jax.jit(lambda x, ways: (directional_slopes(flat, x, ways, ("reverse",)), jax.grad(lambda x: flat(x)[0])(x)))
    slopes, gradient = both(point, ways)
    try:
        agreement, agrees = compare_slopes(slopes, [f"direction {i}" for i in range(directions)], None)[1], True
    except AssertionError:
        agreement, agrees = _difference(slopes), False
    return TrustLine(
        float(slopes.value), restore(gradient), float(jnp.linalg.norm(gradient)), point.size, agreement, agrees, growth
    )


def _one(found: Any) -> Any:
    """The number that a loss returns, which must be one float."""
    if not isinstance(found, jax.Array | np.ndarray | np.generic | float | int):
        raise ArgumentError(f"Argument `loss` must return one number, a float, but it returns {shown(found)}.")
    found = jnp.asarray(found)
    if found.size != 1:
        raise ArgumentError(
            f"Argument `loss` must return one number, but its shape is {found.shape}. Take a sum or a mean."
        )
    if found.dtype not in (jnp.float32, jnp.float64):
        raise ArgumentError(
            f"Argument `loss` must return a float32 or float64, but its type is {found.dtype}, which has no derivative or shows "
            "none by differences."
        )
    return found


def _difference(slopes: Any) -> float:
    """The relative difference of the nearest of the central differences; NaN where something is not finite."""
    error = jnp.min(jnp.abs(slopes.differences - slopes.reverse[None]), axis=0)
    largest = float(jnp.max(error / jnp.abs(slopes.reverse)))
    return largest if math.isfinite(largest) else math.nan
