"""Starts of flows in a layer."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PRNGKeyArray

from ..._errors import ArgumentError
from ..grids._checks import check_value
from ..grids._compiled import compiled
from ._modes import Modes
from ._profiles import spread
from ._tables import wavenumbers


def started(
    flow: Any,
    velocity: ArrayLike | None,
    scalars: Mapping[str, ArrayLike] | None,
    key: PRNGKeyArray | None,
    noise: float,
) -> Any:
    """A state of a flow in a layer, as `PlaneLayerFlow.start` describes it."""
    layer, dtype = flow.layer, flow.viscosity.dtype
    given: dict[str, ArrayLike] = {} if scalars is None else dict(scalars)
    if unknown := sorted(set(given) - set(flow.scalars)):
        raise ArgumentError(
            f"Argument `scalars` must name scalars of the flow, {', '.join(flow.scalars) or 'which has none'}, but names "
            f"{', '.join(unknown)}."
        )
    if velocity is not None:
        layer.check_field(velocity, "velocity", (layer.dimensions,))
    for name, field in given.items():
        layer.check_field(field, f"scalars.{name}")
    check_value("noise", noise)
    state = _alone(flow)
    moving = state.velocity if velocity is None else jnp.asarray(velocity, dtype)
    fields = {name: jnp.asarray(given.get(name, field), dtype) for name, field in state.scalars.items()}
    if key is not None:
        more = _disturbed(flow, key, jnp.asarray(noise, dtype))
        moving, fields = moving + more.velocity, {name: field + more.scalars[name] for name, field in fields.items()}
    return flow.State(moving, fields)


@compiled
def _alone(flow: Any) -> Any:
    """The state in which fluid moves along the walls alone."""
    return flow.decode(_steady(flow, flow.viscosity.dtype))


@compiled
def _disturbed(flow: Any, key: PRNGKeyArray, noise: Array) -> Any:
    """Random fields without the profiles."""
    modes = _noise(flow, key, noise, noise.dtype)
    return jax.tree.map(jnp.subtract, flow.decode(modes), flow.decode(jax.tree.map(jnp.zeros_like, modes)))


def _steady(flow: Any, dtype: Any) -> Modes:
    """The modes of the flow along the walls that force and viscosity balance; 0 where nothing holds it."""
    rates, transforms = flow.linear(), flow.transforms
    push, slowing = flow.pushed(dtype), -transforms.mean_modes(rates)
    mean = jnp.where(slowing > 0, push / jnp.where(slowing > 0, slowing, 1), 0)
    zeros = lambda rate: jnp.zeros((*rate.shape[:2], 2, rate.shape[-1]), dtype)
    velocity = transforms.joined([zeros(rates.velocity)], mean)
    return Modes(velocity, {name: zeros(rate) for name, rate in rates.scalars.items()})


def _noise(flow: Any, key: PRNGKeyArray, noise: Array, dtype: Any) -> Modes:
    """Modes of smooth random fields."""
    layer, transforms = flow.layer, flow.transforms
    speed = spread(flow.profile(dtype)) + _range(flow, dtype) + flow.viscosity / layer.depth
    waves = wavenumbers(layer).size > 0
    keys = iter(jax.random.split(key, 2 + len(flow.scalars)))
    three = layer.dimensions == 3
    shape = lambda rates: (*waves.shape[:2], 2, rates.shape[-1])

    def drawn(rates: np.ndarray, size: Array) -> Array:
        """Numbers that become small for fast modes, of a given root mean square."""
        slowest = np.min(rates, where=waves & (rates > 0), initial=np.inf)
        weight = np.where(waves & (rates > 0), (slowest / np.where(rates > 0, rates, 1)) ** 2, 0.0)
        twice = np.where(np.arange(weight.shape[0]) > 0, 2.0, 1.0)[:, None, None, None]
        total = np.sqrt(np.sum(2 * twice * weight**2))
        weight = jnp.asarray(weight / total if total else weight, dtype)
        return noise * size * weight * jax.random.normal(next(keys), shape(rates), dtype)

    size = wavenumbers(layer).size
    poloidal = drawn(transforms.stokes.rates, speed)
    parts = [poloidal, drawn(size**2 + transforms.across.rates, speed)] if three else [poloidal]
    scalars = {}
    for name, profile in flow.scalar_profiles(dtype).items():
        scalars[name] = drawn(size**2 + flow.carried(name).modes.rates, spread(profile))
    still = jnp.zeros((layer.dimensions - 1, transforms.mean.rates.size), dtype)
    return Modes(transforms.joined(parts, still), scalars)


def _range(flow: Any, dtype: Any) -> Array:
    """The difference between the largest and the smallest velocity of what force and viscosity add to the profile."""
    values = flow.transforms.mean_modes(_steady(flow, dtype)) @ jnp.asarray(flow.transforms.mean.values[0], dtype)
    return jnp.max(jnp.max(values, axis=-1) - jnp.min(values, axis=-1))
