"""Data of one experiment at one time, as filters take them in."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import shown
from .._errors import ArgumentError, check_known
from .._types import State, Time
from ..core import RandomSystem, Setup, Status, at_time, started
from ..problem import AbstractNoise, Dataset, ForwardModel, Problem, multiplied, outputs_by_name


class Row(NamedTuple):
    """The data of one experiment: at one time, or with a leading axis at all of them."""

    values: dict[str, Array]  # by output; NaN where missing
    errors: dict[str, Array]  # relative sizes of the scatter, of outputs that have some


def rows_of(data: Dataset) -> Row:
    """The data of all experiments, with leading axes of experiments and times."""
    return Row(dict(data.values), dict(data.errors))


def located(setup: Setup, t: Time, y: State, names: Any) -> dict[str, Array]:
    """The outputs of a state with these names."""
    outputs = outputs_by_name(setup.system.outputs(t, y, at_time(setup.inputs, t)))
    return {name: outputs[name] for name in names}


def noise_at(noise: AbstractNoise, location: Array, error: Array | None) -> AbstractNoise:
    """The noise model of every number of a location: its numbers in that shape, the scale times the known error."""
    spread: Any = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, location.shape), noise)
    return spread if error is None else multiplied(spread, error)


def first_failed(statuses: Array) -> Array:
    """The place of the first status that tells of a failure; 0 where none does."""
    return jnp.argmax(statuses != Status.OK)


def log_density(setup: Setup, t: Time, y: State, row: Row) -> Float[Array, ""]:
    """The log density of the data of a row that are not missing, given the state."""
    total = jnp.zeros((), jax.tree.leaves(y)[0].dtype)
    for name, location in located(setup, t, y, row.values).items():
        value = row.values[name].astype(location.dtype)
        noise = noise_at(setup.noise[name], location, row.errors.get(name))
        seen = jnp.isfinite(value)
        found = noise.log_prob(jnp.where(seen, value, 1), jnp.where(seen, location, 1))
        total = total + jnp.sum(jnp.where(seen, found, 0))
    return total


def drawn_data(key: PRNGKeyArray, setup: Setup, t: Time, y: State, row: Row) -> dict[str, Array]:
    """Random data of a row around a state."""
    places = located(setup, t, y, row.values)
    keys = jax.random.split(key, len(places))
    return {
        name: noise_at(setup.noise[name], place, row.errors.get(name)).sample(k, place)
        for k, (name, place) in zip(keys, places.items(), strict=True)
    }


def as_parameters(problem: Problem, theta: Any) -> Float[Array, " parameters"]:
    """Free parameters as an array.

    **Raises:** an `ArgumentError` where they are none.
    """
    try:
        found = jnp.asarray(theta, problem.bounds.dtype)
    except (TypeError, ValueError):
        found = None
    if found is None or found.shape != (problem.size,):
        raise ArgumentError(
            f"Argument `theta` must hold the {problem.size} free parameters {problem.names} in natural units, such as "
            f"`fit.estimate`, but it is {shown(theta)}."
        )
    return found


def check_filtered(name: str, model: ForwardModel, data: Dataset) -> None:
    """Refuse a problem whose states no filter can follow.

    **Raises:** an `ArgumentError` or an `UnknownNameError`.
    """
    system, base = model.base.system, model.base_setup(0)
    if not isinstance(system, RandomSystem):
        raise ArgumentError(
            f"`{name}` follows the states of a stochastic system, but `{type(system).__name__}` has no noise of its own: leave "
            "`likelihood` out."
        )
    for what, part in (("protocol", model.protocol), ("measurement", model.measurement), ("events", base.events)):
        if part is not None:
            raise ArgumentError(
                f"`{name}` goes from datum to datum by itself, so argument `{what}` must be left out, but it is given."
            )
    if model.observables:
        raise ArgumentError(
            f"`{name}` sees one state at a time, but the observable `{model.observables[0][0]}` is a function of a whole "
            "trajectory: make it an output of the system."
        )

    def outputs(setup: Setup) -> dict[str, Array]:
        t = jnp.zeros((), data.times.dtype)
        return outputs_by_name(setup.system.outputs(t, started(setup.y0), at_time(setup.inputs, t)))

    known = eqx.filter_eval_shape(outputs, base)
    for key in data.values:
        check_known(key, known, "output of the system")
        check_known(key, base.noise, "noise model for the output")
