"""Localisation: the observations near each place, and how much each of them counts there."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._doors import check_function, shown
from .._errors import ArgumentError

LEAST_TAPER = 1e-3
"""Observations that would count less than this share of a near one are left out."""

REACH = {"gaspari_cohn": 2 * (10 / 3) ** 0.5, "gaussian": (2 * np.log(1 / LEAST_TAPER)) ** 0.5, "step": 1.0}
"""Radii at which each taper ends, or falls below the least share that counts."""

TAPERS = tuple(REACH)


class Localisation(eqx.Module):
    r"""Weights by which observations near a place count there; farther ones are left out.

    The inverse variance of an observation at distance d is multiplied by a taper that is 1 at d = 0 and falls to
    $e^{-1/2} = 0.61$ near `radius`. The taper of Gaspari and Cohn is a fifth-order spline that is zero from 3.65 radii on.

    **Arguments:**

    - `radius`: in the unit of the coordinates.
    - `places`: coordinates of the n numbers of the flat state, of shape `(n,)` or `(n, d)`.
    - `observed`: coordinates of the m observations of one time, of shape `(m,)` or `(m, d)`; by default those of `places`.
    - `period`: length of a periodic domain, one number or one a coordinate; coordinates lie from 0 to it.
    - `distance`: instead of the Euclidean one, a function of the coordinates of places, `(n, 1, d)`, and observations, `(1, m, d)`,
        that returns an array `(n, m)`. It is computed with NumPy, once.
    - `sphere`: the radius of a sphere, on which distances go along great circles. Coordinates are then longitude and latitude in
        radians, as of `fluids.Sphere.places` and `fluids.Stations.places`, and the taper must end within half a great circle.
    - `taper`: "gaspari_cohn", "gaussian" or "step", which is 1 up to `radius`.

    **Good values:** Lorenz-96 with 40 places, all observed: radius 4 with 7 members.

    **Raises:** an `ArgumentError` for observations outside of the domain, shapes that do not fit, a radius that is not positive;
    on a sphere for angles in degrees, and for a taper that reaches around it.

    **Reference:** Gaspari and Cohn (1999), Q. J. R. Meteorol. Soc. 125:723, doi:10.1002/qj.49712555417, eq. 4.10; Hunt, Kostelich
    and Szunyogh (2007), Physica D 230:112, doi:10.1016/j.physd.2006.11.008; Gneiting (2013), Bernoulli 19:1327,
    doi:10.3150/12-BEJSP06, for tapers of great circles: one that ends within half a great circle stays a covariance.
    """

    index: Int[Array, "n near"]
    weight: Float[Array, "n near"]
    radius: float = eqx.field(static=True)
    observations: int = eqx.field(static=True)

    def __init__(
        self,
        radius: float,
        *,
        places: Any,
        observed: Any = None,
        period: Any = None,
        distance: Callable[..., Any] | None = None,
        sphere: float | None = None,
        taper: str = "gaspari_cohn",
    ):
        if not (isinstance(radius, int | float) and np.isfinite(radius) and radius > 0):
            raise ArgumentError(f"Argument `radius` must be a positive number, but it is {shown(radius)}.")
        if taper not in TAPERS:
            raise ArgumentError(f"Argument `taper` must be one of {', '.join(TAPERS)}, but it is {shown(taper)}.")
        here = _coordinates("places", places)
        there = here if observed is None else _coordinates("observed", observed)
        if here.shape[1] != there.shape[1]:
            raise ArgumentError(
                f"Places have {here.shape[1]} coordinates and observations {there.shape[1]}: they must have as many."
            )
        if sphere is not None:
            if period is not None or distance is not None:
                raise ArgumentError(
                    "Arguments `period` and `distance` must be left out on a `sphere`, which has its own."
                )
            distance = _on_sphere(sphere, here, there, float(radius), taper)
        lengths = None if period is None else np.broadcast_to(np.asarray(period, float), here.shape[1:])
        for name, where in (("places", here), ("observed", there)):
            outside = np.zeros(len(where), bool) if lengths is None else ((where < 0) | (where > lengths)).any(axis=1)
            if lengths is not None and outside.any():
                worst = int(np.argmax(outside))
                raise ArgumentError(
                    f"Coordinates in `{name}` must lie from 0 to the period {lengths.tolist()}, but entry {worst} is "
                    f"{where[worst].tolist()}."
                )
        self.radius, self.observations = float(radius), len(there)
        lists = _near(here, there, lengths, distance, self.radius, taper)
        width = max(1, max(len(found) for found, _ in lists))
        index, weight = np.zeros((len(here), width), np.int32), np.zeros((len(here), width))
        for row, (found, taken) in enumerate(lists):
            index[row, : len(found)], weight[row, : len(found)] = found, taken
        self.index, self.weight = jnp.asarray(index), jnp.asarray(weight, float)

    @property
    def matrix(self) -> Float[Array, "n m"]:
        """The weights of all observations at all places."""
        rows = jnp.arange(self.index.shape[0])[:, None]
        empty = jnp.zeros((self.index.shape[0], self.observations), self.weight.dtype)
        return empty.at[rows, self.index].add(self.weight)

    @property
    def effective(self) -> Float[Array, " n"]:
        """Sum of weights: the number of observations that count at each place."""
        return jnp.sum(self.weight, axis=1)


def _coordinates(name: str, value: Any) -> np.ndarray:
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold coordinates, but it is {shown(value)}.") from error
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or not found.size or not np.isfinite(found).all():
        raise ArgumentError(
            f"Argument `{name}` must hold finite coordinates of shape (n,) or (n, d), but its shape is {found.shape}."
        )
    return found


def _on_sphere(
    sphere: Any, here: np.ndarray, there: np.ndarray, radius: float, taper: str
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The distance along great circles.

    **Raises:** an `ArgumentError` for a sphere that has no radius, coordinates that are no angles in radians, a taper too wide.
    """
    if not (isinstance(sphere, int | float) and np.isfinite(sphere) and sphere > 0):
        raise ArgumentError(
            f"Argument `sphere` must be the radius of a sphere, a positive number, but it is {shown(sphere)}. Write "
            "`sphere=sphere.radius`."
        )
    for name, where in (("places", here), ("observed", there)):
        if where.shape[1] != 2:
            raise ArgumentError(
                f"Argument `{name}` must hold longitude and latitude on a sphere, the shape (n, 2), but its shape is {where.shape}."
            )
        slack = 1 + 4 * np.finfo(np.float32).eps  # angles that were rounded to float32 on the way
        low, high = np.array([-np.pi, -np.pi / 2]) * slack, np.array([2 * np.pi, np.pi / 2]) * slack
        outside = ((where < low) | (where > high)).any(axis=1)
        if outside.any():
            worst = int(np.argmax(outside))
            raise ArgumentError(
                f"Argument `{name}` must hold longitudes from -pi to 2 pi and latitudes from -pi/2 to pi/2 in radians, but entry "
                f"{worst} is {where[worst].tolist()}. Degrees become radians by `np.deg2rad`; longitude comes first."
            )
    reach = REACH[taper]
    if reach * radius > np.pi * sphere:
        raise ArgumentError(
            f"Argument `radius` must be at most {np.pi * sphere / reach:.4g} on a sphere of radius {sphere:g}, so that the taper, "
            f"which ends after {reach:.3g} radii, ends within half a great circle, but it is {radius:g}. Take `ETKF` where every "
            "observation counts everywhere."
        )

    def distance(places: np.ndarray, seen: np.ndarray) -> np.ndarray:
        # One product of matrices. Its error near distance 0, of 1e-8 radii, changes no taper, which is flat there.
        cosine = _upright(places[:, 0]) @ _upright(seen[0]).T
        return sphere * np.arccos(np.clip(cosine, -1, 1))

    return distance


def _upright(angles: np.ndarray) -> np.ndarray:
    """Unit vectors of longitudes and latitudes."""
    longitude, latitude = angles[..., 0], angles[..., 1]
    level = np.cos(latitude)
    return np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=-1)


def _near(here: np.ndarray, there: np.ndarray, lengths: Any, distance: Any, radius: float, taper: str) -> list[Any]:
    """The observations near each place and their weights."""
    kept = []
    for row in _distances(here, there, lengths, distance):
        weight = _taper(row / radius, taper)
        near = np.flatnonzero(weight > LEAST_TAPER)
        kept.append((near, weight[near]))
    return kept


def _distances(here: np.ndarray, there: np.ndarray, lengths: Any, distance: Any) -> Iterator[np.ndarray]:
    """The distances of all observations from each place."""
    if distance is not None:
        check_function("distance", distance, ("a", "b"))
        apart = np.asarray(distance(here[:, None], there[None]), float)
        if apart.shape != (len(here), len(there)):
            raise ArgumentError(
                f"Argument `distance` must return an array of shape {(len(here), len(there))}, but its shape is {apart.shape}."
            )
        yield from apart
        return
    for place in here:
        away = np.abs(there - place)
        away = away if lengths is None else np.minimum(away, lengths - away)
        yield np.sqrt(np.sum(away**2, axis=1))


def _taper(r: np.ndarray, taper: str) -> np.ndarray:
    """The weight at distances in units of the radius."""
    if taper == "step":
        return (r <= 1).astype(float)
    if taper == "gaussian":
        return np.exp(-0.5 * r**2)
    z = r / np.sqrt(10 / 3)  # of this length the spline has the curvature of the Gaussian
    inner = 1 + z**2 * (-5 / 3 + z * (5 / 8 + z * (1 / 2 - z / 4)))
    far = np.maximum(z, 1.0)
    outer = 4 - 5 * far + far**2 * (5 / 3 + far * (5 / 8 + far * (-1 / 2 + far / 12))) - 2 / (3 * far)
    return np.where(z <= 1, inner, np.where(z < 2, outer, 0.0))
