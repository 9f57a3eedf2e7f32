"""Cycles of forecast and correction, as one loop of a compiled program."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from .._types import State
from ..core import Setup, Status
from ..engine import Method, integrate
from ._filters import AbstractEnsembleFilter, rotated
from ._hybrid import Hybrid
from ._observations import Observations
from ._result import Assimilation
from ._variational import FourDVar


class Run(eqx.Module):
    """Everything of an assimilation but start and method."""

    setup: Setup  # with one state, whose numbers do not matter
    observations: Observations
    integration: Method
    key: Any

    @property
    def dtype(self) -> Any:
        return jnp.result_type(*jax.tree.leaves(self.setup.y0))

    def flat(self, y: State) -> Float[Array, " n"]:
        """A state as one array."""
        return ravel_pytree(y)[0]

    def unflat(self, x: Float[Array, " n"]) -> State:
        """The state of an array."""
        return ravel_pytree(self.setup.y0)[1](x)

    def path(self, x: Array, times: Array, key: Any = None) -> tuple[Float[Array, "times n"], Int[Array, ""]]:
        """Flat states at all of these times but the first, at which x holds, and how the forecast ended."""
        setup = Setup(self.setup.system, self.unflat(x), self.setup.inputs)
        ran = integrate(setup, times.astype(self.dtype), self.integration, key=key)
        return jax.vmap(self.flat)(jax.tree.map(lambda y: y[1:], ran.ys)), ran.status

    def expected(self, t: Array, x: Array) -> Float[Array, " m"]:
        """The observations of a flat state."""
        setup = self.setup
        return self.observations.expected(setup.system, t.astype(self.dtype), self.unflat(x), setup.inputs).astype(
            self.dtype
        )

    def rows(self) -> tuple[Array, Array | None]:
        """Values and errors of all times."""
        return self.observations.rows(self.dtype)


class Figures(NamedTuple):
    """Flat states and statistics of one time, or with a leading axis of all of them."""

    found: Array
    deviation: Array
    forecast: Array
    forecast_deviation: Array
    innovation: Array
    chi_square: Array
    observed: Array
    effective_rank: Array
    status: Array
    smoothed: Array | None = None  # of the time `lag` before
    smoothed_deviation: Array | None = None

    def result(self, run: Run, last: State, members: Any, method: str) -> Assimilation:
        """The figures as a user sees them; those of the first times where the time was up."""
        states, times, count = jax.vmap(run.unflat), run.observations.times, self.status.shape[0]
        known = lambda x: None if x is None else states(x)
        if count < times.shape[0]:
            method = f"{method}; the time was up after {count} of {times.shape[0]} times"
        return Assimilation(
            times=times[:count],
            mean=states(self.found),
            deviation=states(self.deviation),
            forecast=states(self.forecast),
            forecast_deviation=states(self.forecast_deviation),
            last=last,
            innovation=self.innovation,
            chi_square=self.chi_square,
            observed=self.observed,
            effective_rank=self.effective_rank,
            status=self.status,
            smoothed=known(self.smoothed),
            smoothed_deviation=known(self.smoothed_deviation),
            members=members,
            method=method,
        )


class Work(NamedTuple):
    """An assimilation as a loop: what goes from turn to turn, the turns, and figures that are there before them.

    - `carry`: at the start. `turns`: what each turn reads, arrays with a leading axis of turns.
    - `turn`: the function of a scan; its results are figures, with members where they are kept.
    - `begun`: figures of the first window, None for filters.
    """

    carry: Any
    turns: Any
    turn: Callable[[Any, Any], tuple[Any, tuple[Figures, Any]]]
    begun: Figures | None = None

    def all(self) -> tuple[Any, tuple[Figures, Any]]:
        """The last carry, and the figures of all turns."""
        return jax.lax.scan(self.turn, self.carry, self.turns)


class Ensemble(NamedTuple):
    """An ensemble, and what it was at the last times, corrected by all that was seen since: `past[:, 0]` is one time before."""

    members: Float[Array, "members n"]
    past: Float[Array, "members lag n"]


def work_of(
    run: Run, start: State, method: AbstractEnsembleFilter | FourDVar | Hybrid, keep: bool, lag: int = 0
) -> Work:
    """The loop of a method from its start."""
    if isinstance(method, FourDVar | Hybrid):
        windows = _variational(method)
        first = jnp.zeros((), int)
        begin = jax.vmap(run.flat)(start) if isinstance(method, Hybrid) else run.flat(start)
        carry, begun = _fitted(run, method)(begin, first, windows.window)
        later = 1 + (run.observations.times.size - windows.window) // windows.shift
        return Work(carry, windows.shift * jnp.arange(1, later), _window_turn(run, method), begun)
    begin = jax.vmap(run.flat)(start)
    past = jnp.zeros((begin.shape[0], lag, begin.shape[1]), begin.dtype)
    return Work(Ensemble(begin, past), _known_of(run), turn_of(run, method, keep))


def _known_of(run: Run) -> Any:
    """Inputs of each cycle of a filter, with a leading axis of times."""
    times, (values, errors) = run.observations.times, run.rows()
    before = jnp.concatenate([run.observations.start[None].astype(times.dtype), times[:-1]])
    keys = None if run.key is None else jax.random.split(run.key, times.size)
    return (before, times), values, errors, keys


def _variational(method: FourDVar | Hybrid) -> FourDVar:
    return method.variational if isinstance(method, Hybrid) else method


def turn_of(
    run: Run, method: AbstractEnsembleFilter | FourDVar | Hybrid, keep: bool
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """One turn of the loop: a cycle of a filter, or a window."""
    return _window_turn(run, method) if isinstance(method, FourDVar | Hybrid) else _cycle(run, method, keep)


def finished(
    run: Run,
    method: AbstractEnsembleFilter | FourDVar | Hybrid,
    begun: Figures | None,
    carry: Any,
    figures: Figures,
    members: Any,
) -> Assimilation:
    """The figures of all turns as a user sees them."""
    states = jax.vmap(run.unflat)
    if isinstance(method, FourDVar | Hybrid):
        own = _variational(method)
        joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b.reshape(-1, *b.shape[2:])]), begun, figures)
        weak = "" if own.model_error is None else ", weak constraint"
        text = f"FourDVar, windows of {own.window} moved by {own.shift}, {own.iterations} iterations{weak}"
        if isinstance(method, Hybrid):
            text += f", with {carry[0].shape[0]} members by {type(method.ensemble).__name__}"
        return joined.result(run, run.unflat(carry[1]), None, text)
    kept = None if members is None else jax.vmap(states)(members)
    text = f"{type(method).__name__} with {carry.members.shape[0]} members"
    if lag := carry.past.shape[1]:
        figures, text = _with_last(figures, carry), f"{text}, smoothed by the next {lag} times"
    return figures.result(run, states(carry.members), kept, text)


def _with_last(figures: Figures, carry: Ensemble) -> Figures:
    """Smoothed states of all times: those that left the ensemble's past, and those that it still holds."""
    count, lag = figures.status.shape[0], carry.past.shape[1]
    held = jnp.flip(carry.past[:, : min(count, lag)], axis=1)
    mean = jnp.mean(held, axis=0)
    joined = lambda left, here: jnp.concatenate([left[lag:], here])
    return figures._replace(
        smoothed=joined(figures.smoothed, mean),
        smoothed_deviation=joined(figures.smoothed_deviation, _width(held - mean[None])),
    )


def _width(anomalies: Array) -> Array:
    """Standard deviations of an ensemble, with derivatives of 0 where it has none."""
    variance = jnp.sum(anomalies**2, axis=0) / (anomalies.shape[0] - 1)
    return jnp.where(variance > 0, jnp.sqrt(jnp.where(variance > 0, variance, 1)), 0)


def _cycle(run: Run, method: AbstractEnsembleFilter, keep: bool) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Forecast an ensemble to the next time, and correct it and its past by the observations there."""

    def cycle(carry: Ensemble, now: Any) -> tuple[Ensemble, Any]:
        (members, past), ((t, until), value, error, key) = carry, now
        lag, size = past.shape[1:]
        count, inflation = members.shape[0], method.inflation.astype(members.dtype)
        for_paths, for_update, for_turn = (None,) * 3 if key is None else jax.random.split(key, 3)
        member_keys = None if for_paths is None else jax.random.split(for_paths, count)
        one = lambda x, k: run.path(x, jnp.stack([t, until]), k)
        paths, statuses = jax.vmap(one, in_axes=(0, None if member_keys is None else 0))(members, member_keys)
        ahead = jnp.where(until > t, paths[:, 0], members)
        mean = jnp.mean(ahead, axis=0)
        anomalies = ahead - mean[None]
        places = jax.vmap(lambda x: run.expected(until, x))(ahead)
        centre = jnp.mean(places, axis=0)
        seen = run.observations.whitened(value, error, centre, places - centre[None])
        before = jnp.mean(past, axis=0)
        whole = jnp.concatenate([anomalies, (past - before[None]).reshape(count, -1)], axis=1)
        pull, turned, chi = method.analysed(for_update, whole, seen)
        if method.rotation:
            assert for_turn is not None
            turned = rotated(for_turn, turned)
        # What lies back is corrected like the present, and not inflated again.
        smoothed, spread = before + pull[size:].reshape(before.shape), turned[:, size:].reshape(past.shape)
        pull, turned = pull[:size], inflation * turned[:, :size]
        found = mean + pull
        after = found[None] + turned
        gram = turned @ turned.T
        rank = jnp.trace(gram) ** 2 / jnp.sum(gram**2)
        there, failed = jnp.sum(jnp.isfinite(value)), statuses[jnp.argmax(statuses != Status.OK)]
        figures = Figures(found, _width(turned), mean, _width(anomalies), seen.innovation, chi, there, rank, failed)
        if lag:
            figures = figures._replace(smoothed=smoothed[-1], smoothed_deviation=_width(spread[:, -1]))
            past = jnp.concatenate([after[:, None], smoothed[None, :-1] + spread[:, :-1]], axis=1)
        return Ensemble(after, past), (figures, after if keep else None)

    return cycle


def _window_turn(run: Run, method: FourDVar | Hybrid) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Fit the start of the next window; it uses its last `shift` observations, the first one all of its own."""
    fitted, shift = _fitted(run, method), _variational(method).shift

    def turn(carry: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], Any]:
        after, figures = fitted(carry[0], k, shift)
        return after, (figures, None)

    return turn


def _fitted(run: Run, method: FourDVar | Hybrid) -> Callable[[Array, Array, int], tuple[tuple[Array, Array], Figures]]:
    """One window from its background, a state or an ensemble: the background of the next, the last state, and figures."""
    shift = _variational(method).shift
    if isinstance(method, FourDVar):
        window = _window(run, method, method.roots(run.dtype)[0])

        def alone(begin: Array, k: Array, used: int) -> tuple[tuple[Array, Array], Figures]:
            rows, figures = window(begin, k, used)
            return (rows[shift - 1], rows[-1]), figures

        return alone
    cycle, known = _cycle(run, method.ensemble, False), _known_of(run)

    def together(begin: Array, k: Array, used: int) -> tuple[tuple[Array, Array], Figures]:
        rows, figures = _window(run, method.variational, method.root(begin))(jnp.mean(begin, axis=0), k, used)
        some = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, k, shift), known)
        members = jax.lax.scan(cycle, Ensemble(begin, begin[:, None][:, :0]), some)[0].members
        return (members + (rows[shift - 1] - jnp.mean(members, axis=0))[None], rows[-1]), figures

    return together


def _window(
    run: Run, method: FourDVar, root: Float[Array, "n k"]
) -> Callable[[Array, Array, int], tuple[Array, Figures]]:
    error_root, times = method.roots(run.dtype)[1], run.observations.times
    values, errors = run.rows()
    length, free = method.window, root.shape[1]
    grid = jnp.concatenate([run.observations.start[None].astype(times.dtype), times])

    def window(x: Array, k: Array, used: int) -> tuple[Array, Any]:
        """The window from entry k of the grid; its last so many observations are used."""
        part = lambda a, first, size: jax.lax.dynamic_slice_in_dim(a, k + first, size)
        clock = part(grid, 0, length + 1)
        value = part(values, length - used, used)
        error = None if errors is None else part(errors, length - used, used)

        def ahead(control: Array) -> tuple[Array, Array]:
            begin = x + root @ control[:free]
            if error_root is not None:
                return disturbed(run, begin, clock, control[free:].reshape(length, -1) @ error_root)
            rows, status = run.path(begin, clock)
            # An observation at the start needs no forecast.
            rows = jnp.where(clock[1:, None] > clock[0], rows, begin[None])
            return rows, status

        def whitened(rows: Array) -> Array:
            places = jax.vmap(run.expected)(clock[-used:], rows[-used:])
            nothing = jnp.zeros((1, value.shape[1]), run.dtype)
            one = lambda v, e, p: run.observations.whitened(v, e, p, nothing).innovation
            return jax.vmap(one, in_axes=(0, None if error is None else 0, 0))(value, error, places)

        residuals = lambda control: whitened(ahead(control)[0]).reshape(-1)
        numbers = free + (0 if error_root is None else length * x.size)
        control, covariance, chi = method.minimised(residuals, numbers, run.dtype)

        def spread(at: Array) -> tuple[Array, Array, Array]:
            """States of the window, the status, and the exact tangent linear of the rows that are used, by columns."""
            rows, status = ahead(at)
            push = lambda v: jax.jvp(lambda at: ahead(at)[0][-used:], (at,), (v,))[1]
            return rows, status, jax.vmap(push, out_axes=-1)(jnp.eye(numbers, dtype=x.dtype))

        (before, rows), (_, status), (first, last) = jax.vmap(spread)(jnp.stack([jnp.zeros_like(control), control]))
        width = jnp.sqrt(jnp.sum(first**2, axis=-1))
        after = jnp.einsum("tij,jk,tlk->til", last, covariance, last)
        variance = jnp.diagonal(after, axis1=1, axis2=2)
        rank = jnp.sum(variance, axis=1) ** 2 / jnp.sum(after**2, axis=(1, 2))
        observed = jnp.sum(jnp.isfinite(value), axis=1)
        share = chi * (observed / jnp.maximum(jnp.sum(observed), 1)).astype(run.dtype)
        deviation, status = jnp.sqrt(jnp.maximum(variance, 0)), jnp.full((used,), status)
        missed = whitened(before)
        return rows, Figures(rows[-used:], deviation, before[-used:], width, missed, share, observed, rank, status)

    return window


def disturbed(
    run: Run, begin: Float[Array, " n"], clock: Float[Array, " times"], errors: Float[Array, "intervals n"]
) -> tuple[Float[Array, "intervals n"], Int[Array, ""]]:
    """Flat states at all of these times but the first, each the forecast from the one before and an error, and how they ended."""

    def forecast(x: Array, now: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        t, until, error = now
        rows, status = run.path(x, jnp.stack([t, until]))
        # A second observation at one time needs no forecast.
        x = jnp.where(until > t, rows[0] + error, x)
        return x, (x, status)

    _, (rows, statuses) = jax.lax.scan(forecast, begin, (clock[:-1], clock[1:], errors))
    return rows, statuses[jnp.argmax(statuses != Status.OK)]
