"""Multiple shooting: starts are fitted in short windows that are drawn together, then go on as those of the whole."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._errors import ArgumentError
from ..core import DelayedSystem, Setup, StaticSystem, named_leaves, started
from ..problem import Problem, check_independent, windowed, with_gaps
from ._smoothing import curve_of, measured_states
from ._starts import some_start

GAPS = (1.0, 0.1, 1e-2, 1e-4, 1e-6)
"""The scale of the gaps between windows, in standard deviations of each state, stage after stage. The first leaves windows to
their data, the last is below what the data of most measurements resolve."""

FLOOR = 1e-2
"""Least start of a window of a positive state, in standard deviations: a curve through noisy data may lie below 0."""


def check_windows(problem: Problem, windows: object) -> int:
    """Refuse numbers of windows that leave none of them with data enough, and problems that cannot be cut."""
    if not isinstance(windows, int | np.integer) or isinstance(windows, bool) or windows < 1:
        raise ArgumentError(f"Argument `windows` must be a whole number of at least 1, but it is {windows!r}.")
    if windows == 1:
        return 1
    if isinstance(problem.base.system, StaticSystem):
        raise ArgumentError(
            f"Argument `windows` needs a system that moves in time, but `{type(problem.base.system).__name__}` is static. Leave "
            "it out."
        )
    if isinstance(problem.base.system, DelayedSystem):
        raise ArgumentError(
            f"Argument `windows` starts windows from a state alone, but `{type(problem.base.system).__name__}` needs its past, "
            "too. Leave it out and take more `starts`."
        )
    check_independent(problem, "Argument `windows`")
    for what, there in (
        ("a protocol", problem.protocol),
        ("individuals", problem.population),
        ("events", problem.base.events),
    ):
        if there is not None:
            raise ArgumentError(
                f"Argument `windows` cuts single simulations, but the problem has {what}. Leave it out and take more `starts`."
            )
    most = (problem.times.shape[1] - 1) // 2
    if windows > most:
        raise ArgumentError(
            f"Argument `windows` must leave each window two data times, so it is at most {most} here, but it is {windows}."
        )
    return int(windows)


class Shot:
    """A problem in windows, and how starts of the problem become starts there."""

    def __init__(self, problem: Problem, windows: int):
        rows = np.round(np.linspace(0, problem.times.shape[1] - 1, windows + 1)[1:-1]).astype(int)
        state = started(problem.model.base_setup(0).y0)
        theta = problem.natural(some_start(problem))
        measured, times = measured_states(problem, theta), np.asarray(problem.times[:, rows], float)
        y0 = named_leaves(problem.model.setups(theta).y0)
        spread: list[Array] = []
        self.known: dict[str, np.ndarray] = {}  # of the states with data: shape (experiments, later windows, ...)
        self.limits: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for path, leaf in named_leaves(state).items():
            if path in measured:
                values, size = _from_curves(problem, measured[path], jnp.shape(leaf), times)
                self.known[path] = values
            else:
                size = np.abs(np.asarray(y0[path], float)).max(axis=0)
            size = np.where(size > 0, size, 1.0)
            support = Setup(None, state).metadata(".".join(filter(None, ["y0", path]))).support
            self.limits[path] = support.lower + FLOOR * size, support.upper - FLOOR * size
            spread.append(jnp.asarray(size, jnp.result_type(leaf)))
        self.problem = windowed(problem, rows.tolist(), jax.tree.unflatten(jax.tree.structure(state), spread))
        self.whole, self.later = problem, len(rows)
        held = [np.zeros(problem.size, bool)]
        for path, leaf in named_leaves(state).items():
            held.append(np.full(np.size(leaf) * len(rows) * len(problem.labels), path in self.known))
        self.held = np.concatenate(held)

    def lifted(self, z: Float[Array, "starts parameters"]) -> Float[Array, "starts more"]:
        """Starts with those of the windows added: on the curves through the data, or at the initial state where there are none."""
        theta = self.whole.natural(z)
        y0 = jax.vmap(lambda theta: named_leaves(self.whole.model.setups(theta).y0))(theta)
        parts = [np.asarray(theta)]
        for path, leaf in y0.items():
            known = self.known.get(path)
            if known is None:
                known = np.repeat(np.asarray(leaf)[:, :, None], self.later, axis=2)
            else:
                known = np.broadcast_to(known, (len(z), *known.shape))
            known = np.clip(known, *self.limits[path])
            # As the names are: by window, then by number of the state, then by experiment.
            parts.append(np.moveaxis(known, 1, -1).reshape(len(z), -1))
        return self.problem.coordinates(jnp.asarray(np.concatenate(parts, axis=1), z.dtype))

    def stages(self) -> list[tuple[float, Problem, np.ndarray]]:
        """The scales of the gaps, the problem with these, ready for compiled code, and what is held there.

        At first windows stay where the data are: short simulations from nearly the right states have few local optima.
        """
        lean, free = self.problem.lean(), np.zeros(self.problem.size, bool)
        stages = [(scale, with_gaps(lean, scale), free) for scale in GAPS]
        return [(GAPS[0], stages[0][1], self.held), *stages] if self.held.any() else stages


def _from_curves(
    problem: Problem, name: str, shape: tuple[int, ...], times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The values of curves through data where windows start, and how much the data scatter in time."""
    values = np.zeros((*times.shape, *shape))
    size = np.ones(shape)
    for place in np.ndindex(shape):
        data = problem.dataset.exact(name)[(..., *place)]
        if not np.isfinite(data).any():  # all are censored: their limits tell the size at least
            data = np.asarray(problem.data[name], float)[(..., *place)]
        size[place] = np.nanstd(data)
        for e in range(len(times)):
            curve, knots = curve_of(problem, name, e, place)
            # Beyond its data a curve says nothing.
            values[(e, slice(None), *place)] = (
                curve(np.clip(times[e], knots[0], knots[-1])) if len(knots) else np.nanmean(data)
            )
    return values, size
