r"""Data whose residuals are correlated in time: an Ornstein-Uhlenbeck process around the prediction, and white noise.

With residuals $r_i = y_i - f_i$ at times $t_i$,

$$\mathrm{cov}(r_i, r_j) = \sigma_i \sigma_j e^{-|t_i - t_j| / \tau} + w^2 \delta_{ij}$$

which for equal steps and w = 0 is an autoregressive process of first order with $\rho = e^{-\Delta t / \tau}$.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PRNGKeyArray

from .._errors import ArgumentError
from .._types import Scalar
from ..core import POSITIVE, Support, quantity
from ..linear import inverse
from ._compile import check_outputs
from ._cumulative import Sides
from ._dataset import Dataset
from ._dense import check_dense
from ._forward import ForwardModel, Heads
from ._information import Information
from ._likelihood import AbstractLikelihood, LogProb, information_of_single_data, misfit, sensitivities
from ._noise import NOISES, AbstractNoise, Domain, LogTails, Normal, Values


@NOISES.named("autocorrelated")
class Autocorrelated(AbstractNoise):
    r"""Residuals that are correlated in time: an Ornstein-Uhlenbeck process of standard deviation `scale` and correlation time
    `time`, $\rho(\Delta t) = e^{-\Delta t / \tau}$, and beside it white noise of standard deviation `white`.

    For equal steps and no white noise it is an autoregressive process of first order. Times may be uneven and data missing. Each
    experiment, and each number of an output with several, has a process of its own. A problem with it takes `fit` (by Fisher
    scoring), `profile`, `sample`, `predict`, `calibrate`, `check`, `plan`, an `Individual` and `compare` by evidence, and with
    censored data some of them.

    **Good values:** `time` between the step between data and a fifth of their span: below it is white noise, above it nothing tells
    it from a constant. With `white` at 0, its default, no two data may have one time.

    **References:** Jones (1993), Longitudinal Data with Serial Correlation: A State-space Approach, chapter 3; Pinheiro & Bates
    (2000), Mixed-Effects Models in S and S-PLUS, section 5.3 (`corCAR1`, with a nugget).
    """

    scale: Scalar = quantity(1.0, support=POSITIVE, doc="standard deviation of the correlated part")
    time: Scalar = quantity(1.0, support=POSITIVE, doc="correlation time, in the unit of time")
    white: Scalar = quantity(0.0, support=Support(0.0, math.inf), doc="standard deviation of the white part")
    domain: ClassVar[Domain] = "real"
    dependent: ClassVar[bool] = True

    @property
    def _alone(self) -> Normal:
        """The distribution of one datum, whatever the others."""
        return Normal(jnp.hypot(self.scale, self.white))

    def log_prob(self, value: Values, location: Values) -> Values:
        return self._alone.log_prob(value, location)

    def information(self, location: Values) -> Information:
        """The information of one datum, whatever the others; the problem's is found from all of them."""
        s, w = self.scale, self.white
        variance = s**2 + w**2
        own = lambda a, b: 2 * a * b / variance**2
        rows = [[1 / variance + 0 * location], [0, own(s, s)], [0, 0, 0], [0, own(s, w), 0, own(w, w)]]
        return Information(rows)

    def log_cumulative(self, value: Values, location: Values) -> Sides:
        return self._alone.log_cumulative(value, location)

    def log_tails(self, value: np.ndarray, location: np.ndarray) -> LogTails:
        return Normal(np.hypot(self.scale, self.white)).log_tails(value, location)

    def sample(self, key: PRNGKeyArray, location: Values) -> Values:
        return self._alone.sample(key, location)


class AutocorrelatedData(AbstractLikelihood):
    """The likelihood of a deterministic simulation of which some outputs have `Autocorrelated` residuals.

    The log density of each datum given those before it comes from a Kalman filter of one state, in a time that grows as the number
    of data; the Fisher information from the covariance matrix of each series.
    """

    def check(self, model: ForwardModel, data: Dataset) -> None:
        check_series(model, data)

    @property
    def sequential(self) -> bool:
        return True

    def conditional(self, heads: Heads, data: Dataset) -> Heads:
        """Locations and standard deviations that a Kalman filter predicts one step ahead."""
        found = dict(heads)
        for name, (location, noise) in heads.items():
            if isinstance(noise, Autocorrelated):
                shift, spread = jax.vmap(_one_step_ahead)(series_of(data, name, location, noise))
                found[name] = location + unfolded(shift, location.shape), Normal(unfolded(spread, location.shape))
        return found

    def left_out(self, rows: Mapping[str, Array], heads: Heads, data: Dataset) -> Mapping[str, Array]:
        found = dict(rows)
        for name, (location, noise) in heads.items():
            if isinstance(noise, Autocorrelated):
                one = lambda each: _deleted(*each)
                own = jax.lax.map(one, (series_of(data, name, location, noise), folded(rows[name], 1)))
                columns = [unfolded(own[..., i], location.shape) for i in range(own.shape[-1])]
                found[name] = jnp.stack(columns, axis=-1)
        return found

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> LogProb:
        heads, status = model.heads(theta, data)
        return -misfit(self.conditional(heads, data), data), status

    def information(
        self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> Float[Array, "parameters parameters"] | None:
        rows = sum(x.size * x.shape[1] for x in data.values.values())
        check_dense(theta.size, theta.dtype, "The Fisher information", 1 + rows / max(theta.size, 1))
        jacobian, heads = sensitivities(theta, model, data)
        total = jnp.zeros((theta.size, theta.size), theta.dtype)
        for name, (location, noise) in heads.items():
            if isinstance(noise, Autocorrelated):
                known = series_of(data, name, location, noise)
                slopes = series_of(data, name, *jacobian[name], derivative=True)
                total = total + jnp.sum(jax.lax.map(lambda each: series_information(*each), (known, slopes)), axis=0)
            else:
                total = total + information_of_single_data(data, name, location, noise, jacobian[name])
        return total

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array] | None:
        return drawn_series(key, model.heads(theta, data)[0], data)


def check_series(model: ForwardModel, data: Dataset) -> None:
    """Refuse data that are no series in time.

    **Raises:** an `ArgumentError`.
    """
    if data.times.ndim > 2:
        raise ArgumentError(
            "`Autocorrelated` needs data at times, but the predictors of these have several columns. Give one, or take "
            "`Normal`."
        )
    check_outputs(model, data)
    for name in data.values:
        noise = model.base.noise[name]
        if not isinstance(noise, Autocorrelated):
            continue
        if not isinstance(noise.time, Tracer) and not np.all(np.asarray(noise.time) > 0):
            raise ArgumentError(
                f"The correlation time of `{name}` must be positive, but it is {np.asarray(noise.time):g}. Residuals that do "
                "not depend on each other are those of `Normal`."
            )
        times, seen = np.asarray(_times(data, name)), np.isfinite(np.asarray(data.values[name]))
        rows = np.atleast_2d(seen.reshape(*seen.shape[:2], -1).any(axis=2))
        for label, at, known in zip(data.labels, times, rows, strict=True):
            twice = np.diff(np.sort(at[known])) == 0
            if twice.any() and not isinstance(noise.white, Tracer) and not np.all(np.asarray(noise.white) > 0):
                raise ArgumentError(
                    f"Experiment `{label}` has two data of `{name}` at time {np.sort(at[known])[1:][twice][0]:g}, which "
                    "without white noise would have to be equal. Give `Autocorrelated(..., white=...)` a positive number, or "
                    "put replicates into experiments of their own."
                )
            if np.any(np.diff(at[known]) < 0):
                raise ArgumentError(f"`Autocorrelated` needs increasing times, but those of `{label}` are not.")


def drawn_series(key: PRNGKeyArray, heads: Heads, data: Dataset) -> dict[str, Array]:
    """Random data of all outputs, in series where their residuals depend on each other."""
    found = {}
    for k, (name, (location, noise)) in zip(jax.random.split(key, len(heads)), heads.items(), strict=True):
        found[name] = noise.sample(k, location)
        if isinstance(noise, Autocorrelated):
            known = series_of(data, name, location, noise)
            drawn = jax.vmap(_drawn)(jax.random.split(k, known.times.shape[0]), known)
            found[name] = location + unfolded(drawn, location.shape)
    return found


class Series(eqx.Module):
    """Series of one output: a row for each experiment and number of it, with its residuals in time."""

    times: Array
    seen: Array
    residual: Array
    scale: Array
    time: Array
    white: Array


def _times(data: Dataset, name: str) -> Array:
    """The times of the data, without the start."""
    return data.times[:, -data.values[name].shape[1] :]


def folded(x: Array, count: int) -> Array:
    """Experiments, times, numbers, and `count` axes behind -> series, times, and these axes."""
    moved = x.reshape(*x.shape[:2], -1, *x.shape[x.ndim - count :])
    return jnp.moveaxis(moved, 2, 1).reshape(-1, x.shape[1], *moved.shape[3:])


def unfolded(x: Array, shape: tuple[int, ...]) -> Array:
    return jnp.moveaxis(x.reshape(shape[0], -1, shape[1]), 1, 2).reshape(shape)


def series_of(data: Dataset, name: str, location: Array, noise: Any, derivative: bool = False) -> Any:
    """The series of an output; of derivatives, with an axis of parameters behind, those of the location in place of residuals."""
    values = data.values[name]
    extra = int(derivative)
    fold = lambda x: folded(x, extra)
    shape = location.shape
    spread = lambda x: fold(jnp.broadcast_to(x, shape))
    if derivative:
        return fold(location), spread(noise.scale), spread(noise.time), spread(noise.white)
    times = _times(data, name)
    times = jnp.broadcast_to(times.reshape(*times.shape, *[1] * (values.ndim - 2)), values.shape)
    seen = jnp.isfinite(values)
    residual = jnp.where(seen, values - location, 0)
    return Series(fold(times), fold(seen), fold(residual), *map(spread, (noise.scale, noise.time, noise.white)))


def _one_step_ahead(series: Series) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
    """The mean and the standard deviation of each residual of a series given those before it.

    They come from a Kalman filter whose state is the process over its standard deviation; 0 and 1 where a datum is missing.
    """

    def step(carry: Filtered, row: Series) -> tuple[Filtered, tuple[Array, Array]]:
        ahead, total = predicted(carry, row)
        error = jnp.where(row.seen, row.residual - row.scale * ahead.mean, 0)
        place = jnp.where(row.seen, row.scale * ahead.mean, 0)
        return corrected(ahead, row, error, total), (place, jnp.sqrt(total))

    return jax.lax.scan(step, at_rest(series), series)[1]


class Filtered(NamedTuple):
    """Mean and variance of the process over its standard deviation, as they are known at a time."""

    mean: Array
    variance: Array
    time: Array


def at_rest(series: Series) -> Filtered:
    """The process before the first datum, which has always been going on."""
    return Filtered(jnp.zeros_like(series.scale[0]), jnp.ones_like(series.scale[0]), series.times[0])


def predicted(known: Filtered, row: Series) -> tuple[Filtered, Array]:
    """The process at the time of a row, and the variance of its datum; 1 where it is missing."""
    elapsed = (row.times - known.time) / row.time
    variance = jnp.exp(-2 * elapsed) * known.variance - jnp.expm1(-2 * elapsed)
    total = jnp.where(row.seen, row.scale**2 * variance + row.white**2, 1)
    return Filtered(jnp.exp(-elapsed) * known.mean, variance, row.times), total


def corrected(ahead: Filtered, row: Series, error: Array, total: Array) -> Filtered:
    """The process after a datum that is so far from its prediction; as it was where the datum is missing."""
    mean = ahead.mean + ahead.variance * row.scale * error / total
    left = ahead.variance * row.white**2 / total
    return Filtered(jnp.where(row.seen, mean, ahead.mean), jnp.where(row.seen, left, ahead.variance), ahead.time)


def _drawn(key: PRNGKeyArray, series: Series) -> Float[Array, " times"]:
    """Residuals drawn at all times of a series."""
    one, two = jax.random.normal(key, (2, *series.scale.shape), series.scale.dtype)

    def step(carry: tuple[Array, Array], row: tuple[Series, Array]) -> tuple[tuple[Array, Array], Array]:
        (x, before), (known, fresh) = carry, row
        elapsed = (known.times - before) / known.time
        x = jnp.exp(-elapsed) * x + jnp.sqrt(-jnp.expm1(-2 * elapsed)) * fresh
        return (x, known.times), x

    first = (one[0], series.times[0])
    return series.scale * jax.lax.scan(step, first, (series, one))[1] + series.white * two


def series_information(
    series: Series, slopes: tuple[Array, Array, Array, Array]
) -> Float[Array, "parameters parameters"]:
    r"""The Fisher information of one series on all parameters.

    $I_{ab} = \mu_a^T \Sigma^{-1} \mu_b + \tfrac12 \mathrm{tr}\, \Sigma^{-1} \Sigma_a \Sigma^{-1} \Sigma_b$, subscripts for
    derivatives.
    """
    known = series.scale, series.time, series.white
    covariance = lambda *numbers: _covariance(series, *numbers)
    slope = lambda *directions: jax.jvp(covariance, known, directions)[1]
    moved = jax.vmap(slope, in_axes=-1)(*slopes[1:])
    matrix = covariance(*known)
    size = jnp.sqrt(jnp.diagonal(matrix))
    unit = size[:, None] * size[None]
    weight = inverse(matrix / unit)
    place = jnp.where(series.seen[:, None], slopes[0], 0) / size[:, None]
    turned = weight @ (moved / unit[None])
    return place.T @ weight @ place + 0.5 * jnp.einsum("pij,qji->pq", turned, turned)


def _covariance(series: Series, scale: Array, time: Array, white: Array) -> Float[Array, "times times"]:
    """The covariance of the residuals of one series; what is missing is independent of all, with the variance 1."""
    both = series.seen[:, None] & series.seen[None]
    apart = jnp.abs(series.times[:, None] - series.times[None])
    own = jnp.eye(apart.shape[0], dtype=apart.dtype)
    found = scale[:, None] * scale[None] * jnp.exp(-apart / time[0]) + own * white[:, None] ** 2
    return jnp.where(both, found, own)


def _deleted(series: Series, rows: Float[Array, "times numbers"]) -> Float[Array, "times numbers"]:
    """Information of each datum of a series given all others, from that given those before it."""
    matrix = _covariance(series, series.scale, series.time, series.white)
    size = jnp.sqrt(jnp.diagonal(matrix))
    root = jnp.linalg.cholesky(matrix / (size[:, None] * size[None]))
    turn = jax.scipy.linalg.solve_triangular(root, jnp.eye(root.shape[0], dtype=root.dtype), lower=True)
    return (turn / jnp.linalg.norm(turn, axis=0, keepdims=True)).T @ rows
