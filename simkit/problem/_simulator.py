"""Problems whose model is a simulator: data can be drawn, their density is unknown."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_mapping, shown
from .._errors import ArgumentError, DataError
from .._types import Inputs, Outputs, State
from ..core import Example, StaticSystem, as_float_array
from ._dataset import Dataset
from ._experiment import Experiment
from ._forward import ForwardModel
from ._free import Free
from ._likelihood import AbstractLikelihood
from ._problem import Problem

Simulate = Callable[[dict[str, Array], PRNGKeyArray], Any]


ALSO = ("set", "dependence", "derived")
"""Arguments of `Problem` that go with a simulator."""


class SimulatorParameters(StaticSystem):
    """The parameters of a simulator by name; it answers nothing without random numbers."""

    parameters: dict[str, Any] = eqx.field(converter=lambda found: {k: as_float_array(v) for k, v in found.items()})

    def outputs(self, t: ArrayLike, y: State, inputs: Inputs) -> Outputs:
        return {}

    @classmethod
    def example(cls) -> "Example[SimulatorParameters]":
        raise ArgumentError("The parameters of a simulator have no example: `from_simulator` was given some.")


class Simulator(AbstractLikelihood):
    """The distribution of data of which nothing but draws is known.

    - `simulate`: what `from_simulator` was given.
    """

    simulate: Simulate = eqx.field(static=True)

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> NoReturn:
        raise ArgumentError(
            "A simulator has no density of its data, which this verb needs. Take `simkit.sample(problem, "
            "method=simkit.NeuralPosterior(), key=key)`, or `NeuralLikelihood()`, which learns a density, or `ABCSMC()`."
        )

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array]:
        one = jax.tree.map(lambda x: x[0], model.setups(theta).system.parameters)
        found = by_output(self.simulate(dict(one), key))
        like = {name: values[0, 0] for name, values in data.values.items()}
        if {name: x.shape for name, x in found.items()} != {name: x.shape for name, x in like.items()}:
            shapes = [", ".join(f"`{name}` of shape {x.shape}" for name, x in part.items()) for part in (found, like)]
            raise DataError(f"The simulator returns {shapes[0]}, but the data are {shapes[1]}.")
        if name := next((name for name, x in found.items() if jnp.iscomplexobj(x)), None):
            raise DataError(f"The simulator must return real numbers, but `{name}` is complex.")
        drawn = {name: jnp.asarray(x, like[name].dtype) for name, x in found.items()}
        return {name: jnp.where(jnp.isfinite(like[name]), x, jnp.nan)[None, None] for name, x in drawn.items()}


def from_simulator(
    simulate: Simulate, parameters: Mapping[str, Any], data: Any, *, free: Mapping[str, Free], **more: Any
) -> Problem:
    """A problem of a program that draws data, where their density is not known.

    **Arguments:**

    - `simulate`: `simulate(parameters, key)`, pure JAX: one random data set, an array or a dictionary of arrays by output name, at
        parameters by name. NaN says that it failed. What is no JAX goes through
        `jax.pure_callback` with `vmap_method="sequential"`.
    - `parameters`: numbers or arrays by name; those that are not free stay as they are.
    - `data`: the observed data, in the shape of what `simulate` returns; NaN where one is missing. One array is called `x`.
    - `free`: name -> `Free`, each with a prior or two bounds.
    - `more`: `set`, `dependence` and `derived`, as of `Problem`.

    **Returns:** a `Problem` for `sample` with `NeuralPosterior`, `NeuralLikelihood` and `ABCSMC`, and for `calibrate`.
    **Raises:** an `ArgumentError` or a `DataError`.

    ```python
    import jax
    import simkit
    noisy = lambda p, key: p["level"] + p["spread"] * jax.random.normal(key, (3,))
    unknown = {"level": simkit.Free(bounds=(-5.0, 5.0)), "spread": simkit.Free(bounds=(0.1, 3.0))}
    problem = simkit.from_simulator(noisy, {"level": 0.0, "spread": 1.0}, [0.3, 1.1, 0.7], free=unknown)
    ```
    """
    if not callable(simulate):
        raise ArgumentError(
            f"Argument `simulate` must be a function of (parameters, key) that returns data, but it is {shown(simulate)}."
        )
    if aside := sorted(set(more) - set(ALSO)):
        raise ArgumentError(
            f"`from_simulator` takes {', '.join(f'`{name}`' for name in ALSO)} beside its own arguments, but not `{aside[0]}`: the "
            "simulator alone says how data arise."
        )
    check_mapping("parameters", parameters, "numbers", '{"level": 0.0}')
    for name, value in parameters.items():
        if not eqx.is_array_like(value) and not isinstance(value, list | tuple):
            raise ArgumentError(f"The parameter `{name}` must be a number or an array, but it is {shown(value)}.")
    if not free:
        raise ArgumentError("Argument `free` must name at least one parameter, but it is empty.")
    given = dict(data) if isinstance(data, Mapping) else {"x": data}
    if not given:
        raise DataError("Argument `data` must hold observed data, but it is empty.")
    rows = {}
    for name, values in given.items():
        try:
            rows[name] = np.asarray(values, float)[None]
        except (TypeError, ValueError):
            raise DataError(f"The data of `{name}` must be numbers, but they are {shown(values)}.") from None
    problem = Problem(
        SimulatorParameters(dict(parameters)),
        Experiment("data", [0.0], rows),
        free=free,
        likelihood=Simulator(simulate),
        **more,
    )
    theta = jnp.asarray(np.zeros(problem.size), problem.bounds.dtype)
    try:
        eqx.filter_eval_shape(problem.simulate_data, theta, jax.random.key(0))  # refuses what does not fit
    except (ArgumentError, DataError):
        raise
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise ArgumentError(
            f"The simulator could not be traced: {type(error).__name__}: {first} "
            "It must be a function of (parameters, key) in JAX; what is not goes through `jax.pure_callback`."
        ) from error
    return problem


def by_output(found: Any) -> dict[str, Array]:
    """The arrays that a simulator returned, by output name."""
    try:
        return {str(k): jnp.asarray(x) for k, x in (found.items() if isinstance(found, Mapping) else [("x", found)])}
    except (TypeError, ValueError) as error:
        raise DataError(
            f"A simulator must return an array, or arrays by output name, but it returns {shown(found)}."
        ) from error
