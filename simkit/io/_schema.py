"""The shapes and types of what result files hold: a file may come from anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from ..core import Events, Trajectory
from ..infer import Posterior, Prediction
from ..md import Averages
from ..problem import Observed

REAL = (
    "estimate",
    "standard_error",
    "z",
    "covariance",
    "information",
    "curvature",
    "bounds",
    "objective",
    "thetas",
    "values",
)
"""Fields that hold real numbers, and no whole ones."""


def check_fields(fields: dict[str, Any], dimensions: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The fields of a module, whose arrays have the named dimensions; "parameter" counts its `names`.

    **Raises:** a `ValueError`, which the reader of the file turns into a sentence.
    """
    names = _names(fields.get("names"), "names")
    sizes = {"parameter": len(names), "other_parameter": len(names), "side": 2}
    for name, dims in dimensions.items():
        if name not in fields:
            continue
        array = np.asarray(fields[name])
        if array.ndim != len(dims):
            raise ValueError(f"`{name}` must have the dimensions {', '.join(dims)}, but it has the shape {array.shape}")
        wanted = tuple(sizes.setdefault(dim, size) for dim, size in zip(dims, array.shape, strict=True))
        _need_shape(name, array, wanted)
        if array.dtype.kind not in ("f" if name in REAL else "fiub"):
            raise ValueError(f"`{name}` must hold real numbers, but it is of type {array.dtype}")
    return fields


def check_posterior(posterior: Posterior) -> Posterior:
    """A posterior whose statistics have one number a draw."""
    _names(posterior.names, "names")
    _names(posterior.units, "units_by_name", len(posterior.names))
    _names(posterior.warnings, "warnings")
    _need_real("draws", posterior.draws)
    if posterior.log_evidence is not None and np.ndim(posterior.log_evidence) > 1:
        raise ValueError("`log_evidence` must be one number a chain, but it is an array of several dimensions")
    for name in ("log_density", "diverging", "steps", "accept"):
        _need_shape(name, getattr(posterior, name), posterior.draws.shape[:2])
    if posterior.draws.ndim != 3:
        raise ValueError(f"the draws must be by chain and draw, but their shape is {posterior.draws.shape}")
    return posterior


def check_prediction(prediction: Prediction) -> Prediction:
    """A prediction whose curves are by draw, experiment and time."""
    _names(prediction.labels, "experiment", prediction.times.shape[0])
    draws = {np.shape(x)[0] for x in prediction.curves.values()}
    for series in (prediction.curves, prediction.samples):
        for name, values in series.items():
            _need_shape(name, values, (min(draws), *prediction.times.shape[:2]), rest=True)
            _need_real(name, values)
    return prediction


def check_observed(seen: Observed) -> Observed:
    """Data by experiment and time."""
    _names(seen.labels, "experiment", seen.times.shape[0])
    for series in (seen.data, seen.errors):
        for name, values in series.items():
            _need_shape(name, values, seen.times.shape[:2], rest=True)
    for name, ends in seen.sets.items():
        for values in ends:
            _need_shape(name, values, np.shape(seen.data[name]))
    return seen


def check_trajectory(trajectory: Trajectory) -> Trajectory:
    """States by time, of an ensemble by member and time."""
    lead = (*np.shape(trajectory.status), np.shape(trajectory.times)[-1])
    _need_shape("time", trajectory.times, lead)
    for name, values in trajectory.ys.items():
        _need_shape(name, values, lead, rest=True)
    for name in ("steps", "rejected", "evaluations"):
        _need_shape(name, getattr(trajectory, name), lead[:-1])
    if trajectory.events is not None:
        _check_events(trajectory.events, lead[:-1], list(trajectory.ys))
    return trajectory


def _check_events(events: Events, members: tuple[int, ...], components: list[str]) -> None:
    """Events by place in their list, of an ensemble by member and place, whose states are those of the trajectory."""
    _names(events.names, "names of events")
    _need_shape("count", events.count, members)
    lead = (*members, np.shape(events.times)[-1] if np.ndim(events.times) else 0)
    _need_shape("times of events", events.times, lead)
    _need_shape("which", events.which, lead)
    for name, kinds in (("times", "f"), ("which", "i"), ("count", "i")):
        if np.asarray(getattr(events, name)).dtype.kind not in kinds:
            raise ValueError(f"`{name}` of events has the type {np.asarray(getattr(events, name)).dtype}")
    which = np.asarray(events.which)
    if which.size and (which.min() < -1 or which.max() >= len(events.names)):
        raise ValueError(f"`which` must count {len(events.names)} names of events, but it goes to {which.max()}")
    for side, states in (("before", events.before), ("after", events.after)):
        if list(states) != components:
            raise ValueError(f"the states {side} events must have the components {', '.join(components)}")
        for name, values in states.items():
            _need_shape(f"{side} {name}", values, lead, rest=True)


def check_averages(averages: Averages) -> Averages:
    """Series over time, g(r) over distance, displacements over lag."""
    for name, values in averages.series.items():
        _need_shape(name, values, np.shape(averages.times))
    for name in ("g", "g_error", "coordination"):
        if getattr(averages, name) is not None:
            _need_shape(name, getattr(averages, name), np.shape(averages.distance))
    if averages.displacement is not None:
        _need_shape("displacement", averages.displacement, np.shape(averages.lag))
    return averages


def _names(found: object, what: str, count: int | None = None) -> Sequence[str]:
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"`{what}` must be a list of texts, but it is {str(found)[:60]!r}")
    if count is not None and len(found) != count:
        raise ValueError(f"`{what}` must hold {count} texts, but it holds {len(found)}")
    return found


def _need_real(name: str, values: ArrayLike) -> None:
    if np.asarray(values).dtype.kind == "c":
        raise ValueError(f"`{name}` must hold real numbers, but it is of type {np.asarray(values).dtype}")


def check_array(name: str, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuse an array of another shape, or of other than real numbers."""
    _need_shape(name, values, shape)
    _need_real(name, values)


def _need_shape(name: str, values: ArrayLike, shape: tuple[int, ...], *, rest: bool = False) -> None:
    found = np.shape(values)
    if (found[: len(shape)] if rest else found) != tuple(shape):
        more = ", ..." if rest else ""
        raise ValueError(f"`{name}` must have the shape ({', '.join(map(str, shape))}{more}), but it has {found}")
