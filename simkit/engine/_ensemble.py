"""ensemble: many members of one system, solved together."""

from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._errors import ArgumentError
from .._types import Inputs, State
from ..core import Setup, System, Trajectory, as_float_array, as_signals
from ..solvers import Stepper
from ._integrate import Gradient, Method, integrate
from ._simulate import resolve
from ._step import Adaptive, Fixed


def ensemble(
    system: System,
    y0: State,
    times: Any,
    *,
    over: Mapping[str, Any],
    lanes: int | None = None,
    devices: Any = None,
    solver: Stepper | None = None,
    step: float | Adaptive | Fixed | None = None,
    inputs: Inputs = None,
    key: Any = None,
    gradient: Gradient = "reverse",
    on_failure: Literal["raise", "mark"] = "mark",
) -> Trajectory:
    """Integrate many members that differ in the quantities named by `over`."""
    setup = Setup(system, jax.tree.map(as_float_array, y0), as_signals(inputs))
    values = {path: jnp.asarray(value, setup.get(path).dtype) for path, value in over.items()}
    sizes = {path: value.shape[0] for path, value in values.items()}
    if len(set(sizes.values())) != 1:
        raise ArgumentError(f"All values of `over` must have one number of members, but they are {sizes}.")
    method = resolve(system, setup.y0, times, solver=solver, step=step, inputs=setup.inputs)
    times = jnp.asarray(times, jax.tree.leaves(setup.y0)[0].dtype)

    def one(values: dict[str, Array], key: Any) -> Trajectory:
        return integrate(setup.put(values), times, Method(method.solver, method.step), gradient=gradient, key=key)

    keys = None if key is None else jax.random.split(key, next(iter(sizes.values())))
    return eqx.filter_vmap(one, in_axes=(0, None if key is None else 0))(values, keys)
