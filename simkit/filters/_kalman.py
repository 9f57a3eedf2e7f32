"""KalmanFilter: the likelihood of a stochastic system whose states are nearly normal."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray

from .._doors import check_mapping, shown
from .._errors import ArgumentError, check_known
from ..core import PlainSystem, Setup, Status, StochasticSystem, held, named_leaves, refuse_jumps
from ..engine import Adaptive, Method, integrate
from ..linear import eigenvalues, inverse, log_determinant
from ..problem import AbstractLikelihood, Dataset, ForwardModel, Normal
from ..solvers import SolverLike, Tsit5, as_solver
from ._moments import Moments
from ._rows import Row, check_filtered, drawn_data, first_failed, located, noise_at, rows_of


class Seen(NamedTuple):
    """Data of one time as the update sees them, each output in units of its spread, and the covariance ahead of them."""

    slope: Array  # H
    gain: Array  # K
    precision: Array  # S^-1
    variance: Array  # diagonal of R
    ahead: Array


class Passed(NamedTuple):
    """An experiment at one datum time, or with a leading axis at all of them."""

    density: Array  # log density of the row's data given those before
    status: Array
    mean: Array  # given the data up to and with this row
    covariance: Array
    score: Array  # H^T S^-1 r, by which the row's data pull at the state
    weight: Array  # H^T S^-1 H
    kept: Array  # I - K H, the share of a deviation that the row's data leave
    transition: Array | None  # derivative of the mean by that of the row before
    seen: Seen | None = None  # where states are smoothed


class KalmanFilter(AbstractLikelihood):
    r"""The likelihood of a stochastic system $dx = f\,dt + G\,dW$ that is seen at some times with normal errors.

    The density of each datum given those before it is normal, by the mean and the covariance of the state: between data they follow
    their differential equations (`Moments`), at data Kalman's update. It is exact where f and the outputs are linear in the
    state and G does not depend on it. Elsewhere f and the outputs are expanded to first order around the mean (the extended
    Kalman filter, which for a diffusion approximation of reactions is the linear noise approximation, started anew at every
    datum); that is good while the state's spread between data is small beside the distances over which f bends.

    **Arguments:**

    - `start`: standard deviations of the initial state by the names of its numbers, as in `{"x": 0.5}`; 0 for those without. The
        mean is the experiment's `y0`.
    - `rtol`: relative tolerance of mean and covariance between data; 1e-10 by default, 1e-5 for a shorter float type.
    - `solver`: for the moments; Tsit5 by default, `"rodas5p"` where they are stiff.

    Data need noise models `Normal`; they may be missing. Derivatives by all free parameters, also of higher order, are those of
    the program. The cost grows as the cube of the number of states.

    **Reference:** Kalman and Bucy (1961), J. Basic Eng. 83:95, doi:10.1115/1.3658902; Jazwinski (1970), Stochastic Processes and
    Filtering Theory, chapter 8; Fearnhead, Giagos and Sherlock (2014), Biometrics 70:457, doi:10.1111/biom.12152.
    """

    start: dict[str, Any]
    rtol: float | None = eqx.field(static=True)
    solver: Any

    def __init__(
        self, start: Mapping[str, Any] | None = None, *, rtol: float | None = None, solver: SolverLike | None = None
    ):
        if start is not None:
            check_mapping("start", start, "standard deviations", '{"x": 0.5}')
        self.start = {name: as_widths(name, value) for name, value in (start or {}).items()}
        if rtol is not None and not (isinstance(rtol, int | float) and 1e-14 <= rtol < 1):
            raise ArgumentError(f"Argument `rtol` must be a number from 1e-14 to 1, but it is {shown(rtol)}.")
        self.rtol = None if rtol is None else float(rtol)
        self.solver = Tsit5() if solver is None else as_solver(solver)
        if not (issubclass(PlainSystem, self.solver.family) and self.solver.adaptive):
            raise ArgumentError(
                f"Argument `solver` must step any differential equation with an error estimate, as `Tsit5` and `Rodas5P` do, but "
                f"`{type(self.solver).__name__}` does not."
            )

    def check(self, model: ForwardModel, data: Dataset) -> None:
        check_filtered(type(self).__name__, model, data)
        if not isinstance(system := model.base.system, StochasticSystem):
            raise ArgumentError(
                f"`KalmanFilter` needs a StochasticSystem, but `{type(system).__name__}` jumps: take its diffusion approximation, "
                "`ChemicalLangevin(system)`, or `ParticleFilter`."
            )
        refuse_jumps(system, "`KalmanFilter` knows states that are nearly normal", "take `ParticleFilter`.")
        if model.method.solver is not None:
            raise ArgumentError(
                "`KalmanFilter` solves for moments, not for paths: leave `solver` and `step` of the problem out, and give `solver` "
                "and `rtol` to the filter."
            )
        for name in data.values:
            noise = model.base.noise[name]
            if not isinstance(noise, Normal):
                raise ArgumentError(
                    f"`KalmanFilter` needs `Normal` for every output, but `{name}` has {type(noise).__name__}. `ParticleFilter` "
                    "takes any noise model."
                )
        known = named_leaves(model.start_shapes())
        for name, width in self.start.items():
            check_known(name, known, "state")
            shape = known[name].shape[1:]
            if width.shape not in ((), shape):
                raise ArgumentError(
                    f"The standard deviation of `{name}` at the start must be one number or have the shape {shape} of the state, "
                    f"but its shape is {width.shape}."
                )

    def log_prob(self, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset) -> Any:
        def one(setup: Setup, times: Array, row: Row) -> tuple[Array, Array]:
            passed = self.passed(setup, times, row, smooth=False)
            return jnp.sum(passed.density), passed.status[first_failed(passed.status)]

        density, status = eqx.filter_vmap(one)(model.setups(theta), data.times, rows_of(data))
        return jnp.sum(density), status

    def sample(
        self, key: PRNGKeyArray, theta: Float[Array, " parameters"], model: ForwardModel, data: Dataset
    ) -> dict[str, Array]:
        """Random data by random states, each drawn from the moments that follow from the one before."""

        def one(setup: Setup, times: Array, rows: Row, key: PRNGKeyArray) -> dict[str, Array]:
            moments, begin = self.begun(setup, smooth=False)
            unravel = ravel_pytree(setup.y0)[1]

            def step(x: Array, now: tuple[Array, Array, Row, PRNGKeyArray]) -> tuple[Array, dict[str, Array]]:
                t, until, row, key = now
                known = Moments.State(x, jnp.zeros_like(begin.covariance))
                after, status = self.moved(moments, setup, known, t, until)
                for_state, for_data = jax.random.split(key)
                x = jnp.where(status == Status.OK, drawn(for_state, after), jnp.nan)
                return x, drawn_data(for_data, setup, until, unravel(x), row)

            first, rest = jax.random.split(key)
            keys = jax.random.split(rest, times.shape[0] - 1)
            return jax.lax.scan(step, drawn(first, begin), (times[:-1], times[1:], rows, keys))[1]

        keys = jax.random.split(key, len(data.labels))
        return eqx.filter_vmap(one)(model.setups(theta), data.times, rows_of(data), keys)

    # ---- one experiment ----

    def begun(self, setup: Setup, *, smooth: bool) -> tuple[Moments, Moments.State]:
        """The system of the moments, and its state at the start."""
        mean, _ = ravel_pytree(setup.y0)
        moments = Moments(setup.system, setup.y0)
        shapes = named_leaves(setup.y0)
        widths = [jnp.broadcast_to(self.start.get(name, jnp.zeros(())), x.shape) for name, x in shapes.items()]
        width = jnp.concatenate([x.ravel() for x in widths]).astype(mean.dtype)
        unit = jnp.eye(mean.size, dtype=mean.dtype) if smooth else None
        return moments, Moments.State(mean, jnp.diag(width**2), unit)

    def moved(self, moments: Moments, setup: Setup, state: Moments.State, t: Array, until: Array) -> tuple[Any, Array]:
        """The moments at the next time, and a status."""
        t, until = t.astype(state.mean.dtype), until.astype(state.mean.dtype)
        sizes = moments.sizes(*held((state, setup.inputs, t, until)))
        rtol = self.rtol or (1e-10 if jnp.finfo(state.mean.dtype).eps < 1e-12 else 1e-5)
        step = Adaptive(rtol).scaled(held(ravel_pytree(sizes)[0]).astype(t.dtype))
        ran = integrate(Setup(moments, state, setup.inputs), jnp.stack([t, until]), Method(self.solver, step))
        return jax.tree.map(lambda x: x[-1], ran.ys), ran.status

    def passed(self, setup: Setup, times: Array, rows: Row, *, smooth: bool) -> Passed:
        """Pass over the data of one experiment, from the first to the last."""
        moments, begin = self.begun(setup, smooth=smooth)

        def step(state: Moments.State, now: tuple[Array, Array, Row]) -> tuple[Moments.State, Passed]:
            t, until, row = now
            if smooth:
                state = Moments.State(state.mean, state.covariance, begin.transition)
            ahead, status = self.moved(moments, setup, state, t, until)
            passed = updated(setup, until, ahead, row)._replace(status=status)
            passed = passed if smooth else passed._replace(seen=None)
            return Moments.State(passed.mean, passed.covariance, ahead.transition), passed

        return jax.lax.scan(step, begin, (times[:-1], times[1:], rows))[1]


def as_widths(name: str, value: Any) -> Array:
    """The standard deviation of a state at the start.

    **Raises:** an `ArgumentError` where it is none.
    """
    try:
        width = np.asarray(value, float)
    except (TypeError, ValueError):
        width = np.array(np.nan)
    if not (np.isfinite(width) & (width >= 0)).all():
        raise ArgumentError(
            f"The standard deviation of `{name}` at the start must be finite and not negative, but it is {shown(value)}."
        )
    return jnp.asarray(width, float)


def updated(setup: Setup, t: Array, ahead: Moments.State, row: Row) -> Passed:
    """Moments given the data of a row too, from those ahead of it."""
    unravel = ravel_pytree(setup.y0)[1]
    dtype = ahead.mean.dtype
    flat = lambda tree: ravel_pytree(tree)[0].astype(dtype)
    outputs = lambda x: located(setup, t, unravel(x), row.values)
    places, slope = outputs(ahead.mean), jax.jacfwd(lambda x: flat(outputs(x)))(ahead.mean)
    noise = {
        name: noise_at(setup.noise[name], place, row.errors.get(name)).scale  # pyright: ignore[reportAttributeAccessIssue]
        for name, place in places.items()
    }
    value = flat(row.values)
    seen = jnp.isfinite(value)
    variance = jnp.where(seen, flat(noise) ** 2, 1)
    slope = jnp.where(seen[:, None], slope, 0)
    apart = jnp.where(seen, jnp.where(seen, value, 0) - flat(places), 0)
    gain = ahead.covariance @ slope.T
    spread = slope @ gain + jnp.diag(variance)
    # From here on each output is in units of its own spread, so that nothing leaves the range of the float type.
    unit = held(jnp.sqrt(jnp.diag(spread)))
    spread, variance = spread / unit[:, None] / unit[None], variance / unit / unit
    slope, gain, apart = slope / unit[:, None], gain / unit[None], apart / unit
    precision = inverse(spread)
    pull = precision @ apart
    count = jnp.sum(seen, dtype=dtype)
    size = log_determinant(spread) + 2 * jnp.sum(jnp.where(seen, jnp.log(unit), 0))
    density = -0.5 * (apart @ pull + size + count * math.log(2 * math.pi))
    gain = gain @ precision
    kept = jnp.eye(ahead.mean.size, dtype=dtype) - gain @ slope
    covariance = kept @ ahead.covariance @ kept.T + (gain * variance[None]) @ gain.T
    return Passed(
        density,
        jnp.zeros((), jnp.int32),
        ahead.mean + gain @ apart,
        0.5 * (covariance + covariance.T),
        slope.T @ pull,
        slope.T @ precision @ slope,
        kept,
        ahead.transition,
        Seen(slope, gain, precision, variance, ahead.covariance),
    )


def drawn(key: PRNGKeyArray, moments: Any) -> Array:
    """A random state with these moments; the covariance may be singular."""
    width = jnp.sqrt(jnp.diag(moments.covariance))
    unit = jnp.where(width > 0, width, 1)
    values, vectors = eigenvalues(moments.covariance / (unit[:, None] * unit[None]))
    white = jax.random.normal(key, values.shape, values.dtype)
    return moments.mean + unit * (vectors @ (jnp.sqrt(jnp.maximum(values, 0)) * white))
