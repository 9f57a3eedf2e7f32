"""The groups of a result file, each written and read in one place."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import h5py
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._errors import ArgumentError
from .._processes import check_held
from ..core import Trajectory, named_leaves
from ..fitting import FitResult, Profiles
from ..infer import Posterior, Prediction
from ..md import Averages
from ..problem import Observed
from ..stores import attribute
from ._event_group import read_events, unit_of
from ._netcdf import read_json, read_texts, read_variables, write_dimension, write_inner, write_variable, written_name
from ._schema import check_averages, check_fields, check_observed, check_posterior, check_prediction, check_trajectory

FIT_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "estimate": ("parameter",),
    "standard_error": ("parameter",),
    "z": ("parameter",),
    "covariance": ("parameter", "other_parameter"),
    "information": ("parameter", "other_parameter"),
    "curvature": ("parameter",),
    "bounds": ("parameter", "side"),
    "objective": ("start",),
    "thetas": ("start", "parameter"),
    "status": ("start",),
    "iterations": ("start",),
    "failures": ("start",),
    "optimum": ("start",),
    "log_mass": ("mode",),
    "covariances": ("mode", "parameter", "other_parameter"),
}
PROFILE_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "values": ("parameter", "point"),
    "differences": ("parameter", "point"),
    "intervals": ("parameter", "side"),
    "is_open": ("parameter", "side"),
    "smooth": ("parameter", "point"),
    "cutoffs": ("parameter",),
    "errors": ("parameter",),
}
STATISTICS = {"lp": "log_density", "diverging": "diverging", "n_steps": "steps", "acceptance_rate": "accept"}
"""Name in the group `sample_stats`, as ArviZ has it -> field of a Posterior."""


def write_fit(group: h5py.Group, fit: FitResult) -> None:
    write_dimension(group, "parameter", fit.names)
    write_dimension(group, "other_parameter", fit.names)
    write_dimension(group, "start", np.arange(np.shape(fit.objective)[0]))
    write_dimension(group, "side", ["lower", "upper"])
    if fit.log_mass is not None:
        write_dimension(group, "mode", np.arange(np.shape(fit.log_mass)[0]))
    _write_fields(group, fit, FIT_DIMENSIONS)


def read_fit(group: h5py.Group) -> FitResult:
    return FitResult(**check_fields(_read_fields(group, FitResult), FIT_DIMENSIONS))


def write_profiles(group: h5py.Group, profiles: Profiles) -> None:
    write_dimension(group, "parameter", profiles.names)
    write_dimension(group, "point", np.arange(np.shape(profiles.values)[1]))
    write_dimension(group, "side", ["lower", "upper"])
    _write_fields(group, profiles, PROFILE_DIMENSIONS)


def read_profiles(group: h5py.Group) -> Profiles:
    return Profiles(**check_fields(_read_fields(group, Profiles), PROFILE_DIMENSIONS))


def write_posterior(group: h5py.Group, statistics: h5py.Group, posterior: Posterior) -> None:
    chains, draws, _ = posterior.draws.shape
    for place in (group, statistics):
        write_dimension(place, "chain", np.arange(chains))
        write_dimension(place, "draw", np.arange(draws))
    group.attrs["names"] = json.dumps(posterior.names)
    group.attrs["units_by_name"] = json.dumps(posterior.units)
    group.attrs["method"] = posterior.method
    group.attrs["warnings"] = json.dumps(posterior.warnings)
    if posterior.cut:
        group.attrs["cut"] = True
    if posterior.log_evidence is not None:
        group.attrs["log_evidence"] = np.asarray(posterior.log_evidence)
    values = np.asarray(posterior.draws)
    for i, (name, unit) in enumerate(zip(posterior.names, posterior.units, strict=True)):
        write_variable(group, name, values[..., i], ("chain", "draw"), unit)
    for name, field in STATISTICS.items():
        write_variable(statistics, name, getattr(posterior, field), ("chain", "draw"))


def read_posterior(group: h5py.Group, statistics: h5py.Group) -> Posterior:
    names = tuple(read_json(group, "names"))
    values, numbers = read_variables(group), read_variables(statistics)
    found: dict[str, Any] = {field: jnp.asarray(numbers[name]) for name, field in STATISTICS.items()}
    return check_posterior(
        Posterior(
            draws=jnp.asarray(np.stack([values[name] for name in names], axis=-1)),
            names=names,
            units=tuple(read_json(group, "units_by_name")),
            method=str(attribute(group, "method")),
            warnings=tuple(read_json(group, "warnings")),
            log_evidence=jnp.asarray(group.attrs["log_evidence"]) if "log_evidence" in group.attrs else None,
            cut=bool(group.attrs.get("cut", False)),
            **found,
        )
    )


def write_prediction(
    group: h5py.Group, predictive: h5py.Group, prediction: Prediction, units: Mapping[str, str]
) -> None:
    for place, series in ((group, prediction.curves), (predictive, prediction.samples)):
        draws = next(iter(series.values())).shape[0]
        place.attrs["names"] = json.dumps(list(series))
        write_dimension(place, "draw", np.arange(draws))
        dims = _write_points(place, prediction.labels, prediction.times)
        for name, values in series.items():
            inner = write_inner(place, name, values.shape[3:])
            write_variable(place, name, values, ("draw", *dims, *inner), units.get(name, "1"))
    write_variable(group, "failed", prediction.failed, ())


def read_prediction(group: h5py.Group, predictive: h5py.Group) -> Prediction:
    curves, samples = read_variables(group), read_variables(predictive)
    names = read_json(group, "names")
    return check_prediction(
        Prediction(
            times=jnp.asarray(curves["times"]),
            curves={name: jnp.asarray(curves[name]) for name in names},
            samples={name: jnp.asarray(samples[name]) for name in names},
            failed=jnp.asarray(curves["failed"]),
            labels=read_texts(group["experiment"]),
        )
    )


def write_observed(group: h5py.Group, seen: Observed) -> None:
    dims = _write_points(group, seen.labels, seen.times)
    group.attrs["names"] = json.dumps(list(seen.data))
    for name, values in seen.data.items():
        unit, inner = seen.units[name], write_inner(group, name, values.shape[2:])
        write_variable(group, name, values, (*dims, *inner), unit)
        if name in seen.errors:
            write_variable(group, f"{name}.error", seen.errors[name], (*dims, *inner))
        for side, end in zip(("lower", "upper"), seen.sets.get(name, ()), strict=False):
            write_variable(group, f"{name}.{side}", end, (*dims, *inner), unit)


def read_observed(group: h5py.Group) -> Observed:
    values, names = read_variables(group), read_json(group, "names")
    stored: dict[str, Any] = {written_name(d, key): d for key, d in group.items()}  # pyright: ignore
    return check_observed(
        Observed(
            labels=read_texts(group["experiment"]),
            times=values["times"],
            data={name: values[name] for name in names},
            errors={name: values[f"{name}.error"] for name in names if f"{name}.error" in values},
            units={name: _unit(stored[name]) for name in names},
            sets={
                name: (values[f"{name}.lower"], values[f"{name}.upper"])
                for name in names
                if f"{name}.lower" in values and f"{name}.upper" in values
            },
        )
    )


def _unit(dataset: h5py.Dataset) -> str:
    return str(attribute(dataset, "units")) if "units" in dataset.attrs else "1"


COUNTS = ("status", "steps", "rejected", "evaluations")


def write_trajectory(group: h5py.Group, trajectory: Trajectory) -> None:
    """States by dotted name over time; of an ensemble over member and time, with the values that make its members."""
    check_held(trajectory)
    times, members = np.asarray(trajectory.times), np.asarray(trajectory.status).shape
    if trajectory.reduced:
        raise ArgumentError(
            "A trajectory with results of reducers cannot be saved yet; save its `reduced` by yourself, such as with `numpy.savez`."
        )
    lead: tuple[str, ...] = ("time",)
    if members:
        if np.any(times != times[:1]):
            raise ArgumentError(
                "An ensemble whose members have times of their own cannot be saved as one; save each member."
            )
        write_dimension(group, "member", np.arange(members[0]))
        times, lead = times[0], ("member", "time")
    write_dimension(group, "time", times)
    group.attrs["solver"] = trajectory.solver
    leaves = named_leaves(trajectory.ys)
    group.attrs["names"] = json.dumps([name or "y" for name in leaves])
    for name, values in leaves.items():
        inner = write_inner(group, name or "y", values.shape[len(lead) :])
        write_variable(group, name or "y", values, (*lead, *inner), unit_of(trajectory.ys, name))
    for name in COUNTS:
        group.attrs[name] = json.dumps(np.asarray(getattr(trajectory, name)).tolist())
    group.attrs["over"] = json.dumps({path: np.asarray(values).tolist() for path, values in trajectory.over.items()})


def read_trajectory(group: h5py.Group, *eventful: h5py.Group) -> Trajectory:
    """The states come back as a dictionary by dotted name: a file holds data, not classes. `eventful` are the groups of its events,
    where there are any."""
    values = read_variables(group)
    counts = {name: jnp.asarray(read_json(group, name), int) for name in COUNTS}
    ys = {name: jnp.asarray(values[name]) for name in read_json(group, "names")}
    stored: Any = group["time"]
    over = read_json(group, "over") if "over" in group.attrs else {}
    times = jnp.asarray(stored[()])
    if counts["status"].ndim:
        times = jnp.broadcast_to(times, (*counts["status"].shape, *times.shape))
    solver, over = str(attribute(group, "solver")), {path: jnp.asarray(values) for path, values in over.items()}
    status, steps, rejected, evaluations = (counts[name] for name in COUNTS)
    events = read_events(*eventful) if eventful else None
    return check_trajectory(Trajectory(times, ys, status, steps, rejected, evaluations, solver, over, events=events))


RADIAL = ("g", "g_error", "coordination")


def write_averages(group: h5py.Group, averages: Averages) -> None:
    """Outputs over time, g(r) over distance, the mean squared displacement over lag."""
    write_dimension(group, "time", averages.times)
    group.attrs["names"] = json.dumps(list(averages.series))
    group.attrs["units_by_name"] = json.dumps(dict(averages.units))
    group.attrs["after"] = averages.after
    group.attrs["between"] = json.dumps(averages.between)
    for name, values in averages.series.items():
        write_variable(group, name, values, ("time",), averages.unit(name))
    if averages.g is not None:
        write_dimension(group, "distance", averages.distance)
        for name in RADIAL:
            write_variable(group, name, getattr(averages, name), ("distance",))
    if averages.displacement is not None:
        write_dimension(group, "lag", averages.lag)
        write_variable(group, "displacement", averages.displacement, ("lag",))
        write_variable(group, "diffusion", averages.diffusion, ())


def read_averages(group: h5py.Group) -> Averages:
    variables = {name: jnp.asarray(values) for name, values in read_variables(group).items()}
    axes: dict[str, Any] = {name: jnp.asarray(group[name][()]) for name in ("distance", "lag") if name in group}  # pyright: ignore
    times: Any = group["time"]
    after: Any = attribute(group, "after")
    between = read_json(group, "between")
    return check_averages(
        Averages(
            times=jnp.asarray(times[()]),
            series={name: variables[name] for name in read_json(group, "names")},
            after=float(after),
            between=None if between is None else (between[0], between[1]),
            units=tuple(read_json(group, "units_by_name").items()),
            **{name: variables[name] for name in (*RADIAL, "displacement", "diffusion") if name in variables},
            **axes,
        )
    )


def _write_points(group: h5py.Group, labels: tuple[str, ...], times: Array | np.ndarray) -> tuple[str, str]:
    """The dimensions of series by experiment, and their times, which differ between experiments."""
    write_dimension(group, "experiment", labels)
    write_dimension(group, "point", np.arange(times.shape[1]))
    write_variable(group, "times", times, ("experiment", "point", *write_inner(group, "times", times.shape[2:])))
    return "experiment", "point"


def _write_fields(group: h5py.Group, module: Any, dimensions: Mapping[str, tuple[str, ...]]) -> None:
    """A module's arrays as variables, its static fields as attributes in JSON."""
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if field.metadata.get("static", False):
            group.attrs[field.name] = json.dumps(value)
        elif value is not None:
            dims = dimensions.get(field.name) or write_inner(group, field.name, np.shape(value))
            write_variable(group, field.name, value, dims)


def _read_fields(group: h5py.Group, kind: type) -> dict[str, Any]:
    variables, found = read_variables(group), {}
    for field in dataclasses.fields(kind):
        if field.metadata.get("static", False):
            if field.name not in group.attrs:  # of a version that did not have it
                continue
            value = read_json(group, field.name)
            found[field.name] = tuple(value) if isinstance(value, list) else value
        elif field.name in variables:
            found[field.name] = jnp.asarray(variables[field.name])
    return found
