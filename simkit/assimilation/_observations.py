"""Observations of a running system, and ensembles around a state."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_count, check_function, check_key, shown
from .._errors import ArgumentError, check_known
from .._types import Inputs, State, Time
from ..core import System, as_float_array, at_time, traced
from ..linear import inverse_root, symmetric_root
from ..problem import outputs_by_name


class Seen(NamedTuple):
    """Observations of one time in units of their own errors: uncorrelated, each of variance 1."""

    innovation: Float[Array, " m"]  # observed less expected; 0 where missing
    sensitivity: Float[Array, "rows m"]  # of the expected ones to members or directions; 0 where missing


class Observations(eqx.Module):
    r"""Observations $y_k = H(x(t_k)) + \varepsilon_k$ of a state, with normal errors.

    **Arguments:**

    - `times`: shape `(times,)`, increasing, in the system's unit of time.
    - `values`: output name -> values, of shape `(times, ...)`; or, with `operator`, one array of shape `(times, m)`. NaN is a
        missing observation.
    - `errors`: standard deviations: one number, or an array that has the shape of the values or broadcasts to it; for a
        dictionary of values a dictionary where they differ.
    - `covariance`: instead of `errors`, the matrix of shape `(m, m)` over the m numbers of one time, names of outputs sorted.
    - `operator`: a pure function of a state that returns m numbers, as in `lambda y: y.x[::2]`.
    - `start`: the time of the state from which assimilation starts; by default the first of `times`.

    **Raises:** an `ArgumentError` for times out of order or before the start, shapes that do not fit, errors that are not
    positive, or a covariance that is not positive definite.
    """

    times: Float[Array, " times"]
    values: Any
    errors: Any
    covariance: Float[Array, "m m"] | None
    operator: Callable[..., Any] | None = eqx.field(static=True)
    start: Float[Array, ""]

    def __init__(
        self,
        times: Any,
        values: Any,
        *,
        errors: Any = None,
        covariance: Any = None,
        operator: Callable[..., Any] | None = None,
        start: Any = None,
    ):
        self.times = _numbers("times", times)
        if self.times.ndim != 1 or self.times.size < 1:
            raise ArgumentError(f"Argument `times` must have the shape (times,), but its shape is {self.times.shape}.")
        self.start = self.times[0] if start is None else _numbers("start", start)
        named = isinstance(values, Mapping)
        if named == (operator is not None):
            raise ArgumentError(
                "Argument `values` must be a dictionary of values by output name, or an array together with `operator`, a function "
                "of the state that returns the m numbers of one time."
            )
        if operator is not None:
            check_function("operator", operator, ("y",))
        self.operator = operator
        self.values = (
            {str(k): _numbers(f"values.{k}", v) for k, v in values.items()} if named else _numbers("values", values)
        )
        for label, leaf in self._each():
            if leaf.ndim < 1 or leaf.shape[0] != self.times.size or (not named and leaf.ndim != 2):
                raise ArgumentError(
                    f"{label} must have a row for each of the {self.times.size} times, but their shape is {leaf.shape}."
                )
            if not traced(leaf) and np.isinf(np.asarray(leaf)).any():
                raise ArgumentError(f"{label} must be finite, or NaN where missing, but one is infinite.")
        if (errors is None) == (covariance is None):
            raise ArgumentError("Give either `errors`, the standard deviations of observations, or `covariance`.")
        self.errors = None if errors is None else _as_errors(errors, self.values)
        self.covariance = None if covariance is None else as_covariance(covariance, self.size)
        _check_order(self.times, self.start)

    def _each(self) -> list[tuple[str, Array]]:
        if isinstance(self.values, dict):
            return [(f"The values of `{name}`", leaf) for name, leaf in self.values.items()]
        return [("The values", self.values)]

    @property
    def size(self) -> int:
        """Number m of observations of one time, missing ones counted."""
        return sum(int(np.prod(leaf.shape[1:])) for _, leaf in self._each())

    def __repr__(self) -> str:
        names = ", ".join(self.values) if isinstance(self.values, dict) else "operator"
        return f"Observations({self.times.size} times of {self.size} numbers: {names})"

    # ---- used while traced ----

    def rows(self, dtype: Any) -> tuple[Array, Array | None]:
        """Values and standard deviations of all times, flat; the latter None where a covariance holds."""
        flat = lambda tree: jnp.concatenate(
            [leaf.reshape(self.times.size, -1).astype(dtype) for leaf in jax.tree.leaves(tree)], axis=1
        )
        return flat(self.values), None if self.errors is None else flat(self.errors)

    def expected(self, system: System, t: Time, y: State, inputs: Inputs) -> Float[Array, " m"]:
        """The observations of a state, flat."""
        if self.operator is not None:
            return ravel_pytree(self.operator(y))[0]
        outputs = outputs_by_name(system.outputs(t, y, at_time(inputs, t)))
        return jnp.concatenate([outputs[name].reshape(-1) for name in sorted(self.values)])

    def whitened(self, value: Array, error: Array | None, expected: Array, sensitivity: Array) -> Seen:
        """Observations of one time in units of their errors."""
        seen = jnp.isfinite(value)
        apart = jnp.where(seen, jnp.where(seen, value, 0) - expected, 0)
        moved = jnp.where(seen[None], sensitivity, 0)
        if error is not None:
            return Seen(apart / error, moved / error[None])
        both = seen[:, None] & seen[None]
        unit = jnp.eye(value.size, dtype=value.dtype)
        assert self.covariance is not None
        root = inverse_root(jnp.where(both, self.covariance.astype(value.dtype), unit))
        return Seen(root @ apart, moved @ root)

    def check(self, system: System, y0: State, inputs: Inputs) -> None:
        """Refuse observations that the system does not make.

        **Raises:** an `ArgumentError` or an `UnknownNameError`.
        """
        t = jnp.zeros((), self.times.dtype)
        if self.operator is not None:
            found = eqx.filter_eval_shape(lambda y: ravel_pytree(self.operator(y))[0], y0)  # pyright: ignore[reportOptionalCall]
            if found.shape != (self.size,):
                raise ArgumentError(
                    f"Argument `operator` returns {found.shape[0]} numbers for a state, but the values have {self.size} at each "
                    "time."
                )
            return
        outputs = eqx.filter_eval_shape(lambda y: outputs_by_name(system.outputs(t, y, at_time(inputs, t))), y0)
        for name, leaf in self.values.items():
            check_known(name, outputs, "output of the system")
            if outputs[name].shape != leaf.shape[1:]:
                raise ArgumentError(
                    f"The values of `{name}` must have the shape (times, {', '.join(map(str, outputs[name].shape))}), but their "
                    f"shape is {leaf.shape}. An operator, such as `lambda y: y.{name}[::2]`, observes a part."
                )


def members_around(
    y0: State, count: int, *, key: PRNGKeyArray, deviation: Any = None, covariance: Any = None, root: Any = None
) -> State:
    """Draw an ensemble of states around one, normally distributed.

    **Arguments:**

    - `y0`: the mean, a state.
    - `count`: number of members, at least 2.
    - `deviation`: the standard deviation of all numbers of the state, or a state of standard deviations.
    - `covariance`: instead of it, a matrix over the numbers of the flat state.
    - `root`: instead of both, a matrix L of shape (n, k) over these numbers, of the covariance $L L^T$.

    **Returns:** a state with a leading axis of members.
    """
    check_count("count", count, 2)
    check_key(key, needed=True)
    mean, unravel = ravel_pytree(jax.tree.map(as_float_array, y0))
    if sum(x is not None for x in (deviation, covariance, root)) != 1:
        raise ArgumentError(
            "Give one of `deviation`, a number or a state of standard deviations, `covariance`, and `root`."
        )
    if root is not None:
        known = as_root(root).astype(mean.dtype)
        if known.shape[0] != mean.size:
            raise ArgumentError(
                f"Argument `root` must have a row for each of the {mean.size} numbers of the state, but its shape is {known.shape}."
            )
        draws = jax.random.normal(key, (count, known.shape[1]), mean.dtype)
        return jax.vmap(unravel)(mean[None] + draws @ known.T)
    white = jax.random.normal(key, (count, mean.size), mean.dtype)
    if covariance is not None:
        spread = as_covariance(covariance, mean.size).astype(mean.dtype)
        apart = white @ symmetric_root(spread)
    else:
        width = jnp.broadcast_to(ravel_pytree(jax.tree.map(as_float_array, deviation))[0], mean.shape)
        apart = white * width[None].astype(mean.dtype)
    return jax.vmap(unravel)(mean[None] + apart)


def _numbers(name: str, value: Any) -> Array:
    try:
        return as_float_array(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold numbers, but it is {shown(value)}.") from error


def _as_errors(errors: Any, values: Any) -> Any:
    if isinstance(values, dict):
        given = errors if isinstance(errors, Mapping) else dict.fromkeys(values, errors)
        for name in given:
            check_known(str(name), values, "observed output")
        if missing := sorted(set(values) - set(given)):
            raise ArgumentError(f"Argument `errors` must hold all observed outputs, but `{missing[0]}` is missing.")
        return {name: _one_error(f"errors.{name}", given[name], leaf) for name, leaf in values.items()}
    return _one_error("errors", errors, values)


def _one_error(name: str, error: Any, values: Array) -> Array:
    found = _numbers(name, error)
    if not traced(found) and not (np.isfinite(found) & (np.asarray(found) > 0)).all():
        raise ArgumentError(f"Argument `{name}` must be finite and positive, but it is {shown(error)}.")
    try:
        return jnp.broadcast_to(found.reshape((1,) * (values.ndim - found.ndim) + found.shape), values.shape)
    except (TypeError, ValueError) as wrong:
        raise ArgumentError(
            f"Argument `{name}` must broadcast to the shape {values.shape} of the values, but its shape is {found.shape}."
        ) from wrong


def as_covariance(covariance: Any, size: int, name: str = "covariance") -> Array:
    """A covariance matrix of this size.

    **Raises:** an `ArgumentError` where it is none.
    """
    found = _numbers(name, covariance)
    if found.shape != (size, size):
        raise ArgumentError(f"Argument `{name}` must have the shape {(size, size)}, but its shape is {found.shape}.")
    if traced(found):
        return found
    known = np.asarray(found, float)
    spread = np.sqrt(np.abs(np.diag(known)))
    least = (
        np.linalg.eigvalsh(known / np.outer(spread, spread)).min()
        if np.isfinite(known).all() and spread.all()
        else -1.0
    )
    if least <= size * np.finfo(found.dtype).eps or not np.allclose(known, known.T, atol=0, rtol=1e-4):
        raise ArgumentError(
            f"Argument `{name}` must be symmetric and positive definite, but it is not: check it with `np.linalg.eigvalsh`. Of "
            "fewer samples than numbers it is singular: add a share of its diagonal."
        )
    return found


def as_root(root: Any) -> Array:
    """A root of a covariance, of shape (n, k).

    **Raises:** an `ArgumentError` where it is no matrix of finite numbers.
    """
    found = _numbers("root", root)
    if found.ndim != 2 or not found.size:
        raise ArgumentError(
            f"Argument `root` must be a matrix of a row for each number of the state, but its shape is {found.shape}."
        )
    if not traced(found) and not np.isfinite(np.asarray(found)).all():
        raise ArgumentError("Argument `root` must hold finite numbers, but one is not.")
    return found


def _check_order(times: Array, start: Array) -> None:
    if traced((times, start)):
        return
    known, begin = np.asarray(times), float(start)
    if not (np.isfinite(known).all() and np.isfinite(begin)):
        raise ArgumentError("Argument `times` must be finite, and `start` too.")
    if known.size > 1 and np.diff(known).min() <= 0:
        place = int(np.argmin(np.diff(known)))
        raise ArgumentError(
            f"Argument `times` must increase, but entry {place} is {known[place]:g} and entry {place + 1} is {known[place + 1]:g}."
        )
    if known[0] < begin:
        raise ArgumentError(
            f"Observations must not lie before the start, but the first time is {known[0]:g} and `start` is {begin:g}."
        )
