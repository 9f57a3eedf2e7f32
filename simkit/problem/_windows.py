"""A problem cut into windows: each experiment is simulated in pieces that start from states of their own."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._types import State
from ..core import Setup, Status, Trajectory, named_leaves, started
from ..engine import Method, integrate
from ._closed_form import ClosedForm
from ._experiment import Observable
from ._free import Unknown
from ._measure import measured
from ._measurement import AbstractMeasurement
from ._noise import Normal
from ._problem import Problem
from ._protocol import AbstractProtocol

GAPS = "(gaps)"
"""Name of the gaps between windows among data and noise models."""


class Windows(eqx.Module):
    """An initial state, and for each window after the first the state that it starts from, or the gap before it."""

    first: Any
    later: Any


class Shooting(AbstractProtocol):
    """An experiment in windows, each simulated from a state of its own.

    - `spread`: by what the gaps between windows are divided, with the structure of the state.
    - `rows`: the rows of the times at which the windows after the first start.
    """

    spread: Any
    rows: tuple[int, ...] = eqx.field(static=True)

    def run(self, setup: Setup, times: Array, method: Method) -> tuple[Setup, Trajectory]:
        first, later = started(setup.y0.first), setup.y0.later
        begins = np.array([0, *self.rows])
        ends = np.array([*self.rows, times.shape[0] - 1])
        length = int((ends - begins).max()) + 1
        rows = np.minimum(begins[:, None] + np.arange(length), ends[:, None])
        starts = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)
        one = lambda y0, times: integrate(Setup(setup.system, y0, setup.inputs), times, method)
        parts = eqx.filter_vmap(one)(starts, times[rows])
        row = np.arange(times.shape[0])
        window = np.searchsorted(begins, row, side="right") - 1
        place = row - begins[window]
        fine = jnp.all(parts.status == Status.OK)
        gap = lambda y, start, size: jnp.where(fine, (y[:-1, -1] - start) / size, 0)
        gaps = jax.tree.map(gap, parts.ys, later, self.spread)
        trajectory = Trajectory(
            times,
            jax.tree.map(lambda y: y[window, place], parts.ys),
            jnp.max(parts.status),
            jnp.sum(parts.steps),
            jnp.sum(parts.rejected),
            jnp.sum(parts.evaluations),
        )
        return Setup(setup.system, Windows(first, gaps), setup.inputs, setup.noise), trajectory


class Joined(AbstractMeasurement):
    """Predictions of a problem, and the gaps between the windows, each of which should be 0."""

    inner: AbstractMeasurement | None
    observables: tuple[tuple[str, Observable], ...] = eqx.field(static=True)
    lengths: tuple[int, ...] = eqx.field(static=True)

    def locate(
        self, setups: Setup, trajectories: Trajectory, *, hold: bool
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        own = Setup(setups.system, setups.y0.first, setups.inputs, setups.noise)
        if self.inner is None:
            located, scales = measured(own, trajectories, self.observables, self.lengths, hold=hold), {}
        else:
            located, scales = self.inner.locate(own, trajectories, hold=hold)
        rows = trajectories.times.shape[1] - 1
        gaps = jnp.concatenate(
            [x.reshape(*x.shape[:2], -1) for x in jax.tree.leaves(setups.y0.later)], axis=2
        )  # experiments, windows, numbers of the state
        return {**located, GAPS: jnp.pad(gaps, [(0, 0), (0, rows - gaps.shape[1]), (0, 0)])}, scales

    @property
    def closed_forms(self) -> tuple[ClosedForm, ...]:
        return () if self.inner is None else self.inner.closed_forms

    def filled(self, more: int) -> "Joined":
        return Joined(None if self.inner is None else self.inner.filled(more), self.observables, self.lengths)

    def at(self, count: int) -> "Joined":
        return Joined(None if self.inner is None else self.inner.at(count), self.observables, self.lengths)


def windowed(problem: Problem, rows: Sequence[int], spread: State) -> Problem:
    """A problem whose experiments are simulated in windows, with the states at their starts as free parameters after its own.

    Gaps between windows are data like any other: normal around 0, their scale that of the noise model `GAPS`.

    **Arguments:**

    - `problem`: a problem without a protocol or individuals.
    - `rows`: the rows of `problem.times` at which the windows after the first start.
    - `spread`: the unit in which gaps are measured, with the structure of the state.
    """
    experiments, later = len(problem.labels), len(rows)
    setup = problem.model.base_setup(0)
    state = Setup(None, started(setup.y0))
    count = problem.size
    table = {_moved(path): row for path, row in problem.table.items()}
    names, bounds, log = [], [], []
    for leaf, value in named_leaves(state.y0).items():
        path = ".".join(filter(None, ["y0", leaf]))
        support = state.metadata(path).support
        for place in np.ndindex(later, *jnp.shape(value)):
            first = count + len(names)
            names += [f"{path} of window {'.'.join(map(str, place))} in {label}" for label in problem.labels]
            bounds += [[support.lower, support.upper]] * experiments
            log += [support.positive] * experiments
            at = ".".join(filter(None, ["y0.later", leaf, *map(str, place)]))
            table[at] = jnp.arange(first, first + experiments), jnp.zeros(experiments, problem.times.dtype)
    more = [jnp.zeros((experiments, later, *jnp.shape(x)), jnp.result_type(x)) for x in jax.tree.leaves(state.y0)]
    numbers = sum(int(np.prod(jnp.shape(x), dtype=int)) for x in jax.tree.leaves(state.y0))
    gaps = np.full((experiments, problem.times.shape[1] - 1, numbers), np.nan)
    gaps[:, :later] = 0
    more_unknowns = [
        Unknown(name, None, lower, upper, is_log, None)
        for name, (lower, upper), is_log in zip(names, bounds, log, strict=True)
    ]
    unknowns = problem.unknowns.with_more(more_unknowns)
    base = problem.base
    y0 = Windows(base.y0, jax.tree.unflatten(jax.tree.structure(state.y0), more))
    model = dataclasses.replace(
        problem.model,
        base=Setup(base.system, y0, base.inputs, {**base.noise, GAPS: Normal(1.0)}),
        table=table,
        protocol=Shooting(spread, tuple(int(row) for row in rows)),
        measurement=Joined(problem.measurement, problem.observables, problem.dataset.lengths),
        blocks=unknowns.blocks,
    )
    values = {**problem.data, GAPS: jnp.asarray(gaps, problem.times.dtype)}
    return problem.with_parts(
        model=model, unknowns=unknowns, dataset=dataclasses.replace(problem.dataset, values=values)
    )


def with_gaps(problem: Problem, scale: float) -> Problem:
    """A problem in windows with another scale of the gaps between them."""
    where = lambda p: p.base.noise[GAPS].scale
    return eqx.tree_at(where, problem, jnp.asarray(scale, where(problem).dtype))


def _moved(path: str) -> str:
    root, _, rest = path.partition(".")
    return ".".join(filter(None, ["y0.first", rest])) if root == "y0" else path
