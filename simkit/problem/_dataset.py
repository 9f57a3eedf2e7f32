"""Data of all experiments as arrays."""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._errors import ArgumentError, DataError, check_known
from ..core import as_float_array
from ._censored import Limits, log_density, stacked_limits
from ._censored_information import informed
from ._experiment import Experiment
from ._information import Information
from ._noise import AbstractNoise


def covariates_of(experiments: Sequence[Experiment]) -> tuple[tuple[tuple[str, float], ...], ...]:
    """Name and number of what is known of the individual of each experiment, hashable; NaN where it is missing."""
    number = lambda value: value if isinstance(value, float) else float("nan")
    return tuple(tuple((key, number(e.covariates[key])) for key in sorted(e.covariates)) for e in experiments)


class Dataset(eqx.Module):
    """Data of all experiments, padded to one length.

    - `times`: shape `(experiments, rows)`: the start, unless nothing moves in time, and the times of the data, padded with the
        last. Predictors of a regression have more axes.
    - `values`: output name -> shape `(experiments, times, ...)`, NaN where a datum is missing.
    - `errors`: output name -> known relative sizes of the scatter, in the same shape.
    - `labels`: the names of the experiments.
    - `lengths`: numbers of data times by experiment, where they differ and observables ask for them.
    - `limits`: output name -> limits beyond which data are censored, of outputs with such data. The value of a censored datum is
        its limit.
    - `covariates`: name -> number of each experiment, to make groups by; compiled programs are without them.
    """

    times: Float[Array, "experiments rows ..."]
    values: dict[str, Float[Array, "experiments times ..."]]
    errors: dict[str, Float[Array, "experiments times ..."]]
    labels: tuple[str, ...] = eqx.field(static=True)
    lengths: tuple[int, ...] = eqx.field(static=True, default=())
    limits: dict[str, Limits] = eqx.field(default_factory=dict)
    covariates: tuple[tuple[tuple[str, float], ...], ...] = eqx.field(static=True, default=())

    @property
    def rows(self) -> int:
        """The number of data of an output in one experiment, with padding."""
        return next(iter(self.values.values())).shape[1]

    @property
    def count(self) -> int:
        """The number of data that are not missing."""
        return int(sum(np.isfinite(np.asarray(values)).sum() for values in self.values.values()))

    def checksum(self) -> int:
        """A number that tells data apart: of times and values that are not missing, in single precision, whatever their names."""
        found = []
        for values in self.values.values():
            known = np.asarray(values)
            seen = np.isfinite(known)
            times = np.asarray(self.times)[:, -known.shape[1] :]
            rows = seen.reshape(*seen.shape[:2], -1).any(axis=2)
            with np.errstate(over="ignore"):
                found.append(known[seen].astype(np.float32).tobytes() + times[rows].astype(np.float32).tobytes())
        return zlib.crc32(b"".join(sorted(found))) >> 1  # which an integer of 32 bits holds

    @property
    def censored_count(self) -> int:
        """The number of data that are censored."""
        return int(sum(np.asarray(own.censored(self.values[name])).sum() for name, own in self.limits.items()))

    def exact(self, name: str) -> np.ndarray:
        """The values of an output without those that are censored, which are NaN."""
        values = np.asarray(self.values[name], float)
        return np.where(self.limits[name].censored(values), np.nan, values) if name in self.limits else values

    def log_density(self, name: str, location: Array, noise: AbstractNoise) -> Array:
        """The log density of every datum of an output, of a censored one the log probability of its set; 0 where missing."""
        seen = jnp.isfinite(self.values[name])
        own = self.limits[name].of(seen) if name in self.limits else None
        found = log_density(noise, own, jnp.where(seen, self.values[name], 1), jnp.where(seen, location, 1))
        return jnp.where(seen, found, 0)

    def information(self, name: str, location: Array, noise: AbstractNoise) -> Information:
        """The Fisher information of every datum of an output; of a missing one that at a location of 1."""
        seen = jnp.isfinite(self.values[name])
        own = self.limits[name].of(seen) if name in self.limits else None
        return informed(noise, own, jnp.where(seen, self.values[name], 1), jnp.where(seen, location, 1))

    def index(self, experiment: int | str) -> int:
        """The place of an experiment, given by it or by its name."""
        if isinstance(experiment, int):
            return experiment
        check_known(experiment, self.labels, "experiment")
        return self.labels.index(experiment)

    def until(self, fraction: Float[Array, ""] | float) -> "Dataset":
        """The data without those after `fraction` of each experiment's span, which are missing."""
        first, last = self.times[:, :1], self.times[:, -1:]
        seen = self.times[:, 1:] <= first + fraction * (last - first) * (1 + 1e-6)

        def hide(values: Array) -> Array:
            return jnp.where(seen.reshape(seen.shape + (1,) * (values.ndim - 2)), values, jnp.nan)

        return dataclasses.replace(self, values={name: hide(values) for name, values in self.values.items()})

    def filled_with(self, values: Mapping[str, Any]) -> "Dataset":
        """Other data in place of these, by output name; what is missing stays missing, what is beyond a limit is censored."""
        for name in values:
            check_known(name, self.values, "output with data")
        given = {name: in_shape(name, values.get(name, old), old.shape, old.dtype) for name, old in self.values.items()}
        new = {name: jnp.where(jnp.isfinite(old), given[name], old) for name, old in self.values.items()}
        new |= {name: own.coarse(new[name]) for name, own in self.limits.items()}
        return dataclasses.replace(self, values=new)

    def emptied(self, rows: Array | np.ndarray, count: int) -> "Dataset":
        """No data, at other times: `rows` as in `times`, of which `count` are times of data."""
        empty = lambda x: jnp.asarray(np.full((x.shape[0], count, *x.shape[2:]), np.nan, x.dtype), x.dtype)
        values = {name: empty(x) for name, x in self.values.items()}
        return Dataset(jnp.asarray(rows, self.times.dtype), values, {}, self.labels)


def in_shape(name: str, values: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Data of one output in the shape of a problem's, whose leading axes of length 1 may be left out.

    **Raises:** a `DataError` for data of another shape.
    """
    found = jnp.asarray(values)
    found = found.astype(dtype if dtype is not None or jnp.issubdtype(found.dtype, jnp.floating) else float)
    ones = shape[: len(shape) - found.ndim]
    if found.shape != shape and (set(ones) - {1} or found.shape != shape[len(ones) :]):
        short = shape[next((i for i, size in enumerate(shape) if size != 1), len(shape)) :]
        also = f" or {short}" if short != shape else ""
        raise DataError(
            f"The data of `{name}` must have the shape {shape}{also} of the problem's, but they have {found.shape}."
        )
    return found.reshape(shape)


def padded_times(experiments: Sequence[Experiment], static: bool) -> np.ndarray:
    rows = []
    for e in experiments:
        start = [] if static else [e.times[0] if e.start is None else e.start]
        rows.append(np.concatenate([start, e.times]) if e.times.ndim == 1 else e.times)
    length = max(len(row) for row in rows)
    return np.stack([np.pad(row, [(0, length - len(row))] + [(0, 0)] * (row.ndim - 1), mode="edge") for row in rows])


def padded_data(
    experiments: Sequence[Experiment], length: int
) -> tuple[dict[str, Array], dict[str, Array], dict[str, Limits]]:
    data, errors, limits = {}, {}, {}
    for name in dict.fromkeys(name for e in experiments for name in e.data):
        shapes = {e.data[name].shape[1:] for e in experiments if name in e.data}
        if len(shapes) > 1:
            raise ArgumentError(
                f"The data of `{name}` must have one shape in all experiments, but they have {sorted(shapes)}."
            )
        block = np.full((len(experiments), length, *shapes.pop()), np.nan)
        sizes = np.ones_like(block)
        for row, size, e in zip(block, sizes, experiments, strict=True):
            if name in e.data:
                row[: len(e.times)] = e.data[name]
            if name in e.errors:
                given = e.errors[name]
                size[: len(e.times)] = np.where(np.isfinite(given) & (given > 0), given, 1.0)
        data[name] = as_float_array(block)
        if any(name in e.errors for e in experiments):
            errors[name] = as_float_array(sizes)
        own = stacked_limits([e.limits.get(name) for e in experiments], data[name])
        if own is not None:
            limits[name] = own
    return data, errors, limits
