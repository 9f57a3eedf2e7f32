"""The state of incompressible flow, and how one starts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, PyTree

from ...core import as_float_array, quantity
from ._ends import balanced, with_ends
from ._free_body import BodyState
from ._obstacle import bodies_of
from ._projection import project
from ._staggered import Components, to_faces


def _components(value: Iterable[ArrayLike]) -> Any:
    return tuple(as_float_array(u) for u in value)


class StaggeredFlow(eqx.Module):
    """The state of `IncompressibleFlow`: components of the velocity on the faces across their axes, and scalars at the centres.

    Along its own axis a component has one value more than there are cells where the axis has ends. `IncompressibleFlow.start` makes
    one from values at the centres, `outputs` has the velocity there. `scalar` is that of a system with a `diffusivity`, `scalars`
    are those of one with `scalars`, by name. `body` is the state of a free `obstacle`, `bodies` are those of the free ones among
    `obstacles`, by name.
    """

    velocity: Components = eqx.field(converter=_components)
    scalar: Any = quantity(None, optional=True)
    scalars: dict[str, Array] = eqx.field(default_factory=dict)
    body: BodyState | None = None
    bodies: dict[str, BodyState] = eqx.field(default_factory=dict)


@eqx.filter_jit
def started(
    system: Any,
    velocity: Array | np.ndarray | Callable[..., Sequence[ArrayLike]] | None,
    scalar: ArrayLike | Callable[..., ArrayLike] | None,
    scalars: Mapping[str, ArrayLike | Callable[..., ArrayLike]],
) -> tuple[StaggeredFlow, Array, Components]:
    """A state, which share of the energy of the velocity would not be admitted without an obstacle, and the velocity itself."""
    at, dtype = system.at, jnp.asarray(system.viscosity).dtype
    axes = range(at.dimensions)
    if velocity is None:
        parts = [jnp.zeros(at.shape(i), dtype) for i in axes]
    elif callable(velocity):
        parts = [_filled(called(velocity, at.mesh(i, dtype))[i], at.shape(i), dtype) for i in axes]
    else:
        parts = [to_faces(at, as_float_array(u), i) for i, u in enumerate(velocity)]

    def field(given: ArrayLike | Callable[..., ArrayLike]) -> Array:
        return _filled(called(given, at.mesh(None, dtype)) if callable(given) else given, system.grid.shape, dtype)

    one = None if system.diffusivity is None else field(0.0 if scalar is None else scalar)
    state = system.encode(
        StaggeredFlow(tuple(parts), one, {name: field(scalars.get(name, 0.0)) for name in system.scalars})
    )
    given = balanced(at, system.boundaries, tuple(with_ends(at, system.boundaries, u, i) for i, u in enumerate(parts)))
    admitted = project(at, given).velocity if bodies_of(system) else state.velocity
    square = lambda part: jnp.sum(part * part)
    lost = sum(square(a - b) for a, b in zip(parts, admitted, strict=True))
    whole = sum(square(part) for part in parts)
    return state, jnp.where(whole > 0, lost / jnp.where(whole > 0, whole, 1), 0), given


def called(function: Callable[..., PyTree], *arguments: PyTree) -> Any:
    """The value of a function that a user gave."""
    return function(*arguments)


def _filled(value: ArrayLike, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    value = jnp.asarray(value, dtype)
    return value if value.shape == shape else jnp.full(shape, value)
