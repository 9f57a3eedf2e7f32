"""Predictions that a problem compares with data: outputs and observables at the rows of all experiments."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ..core import Setup, StaticSystem, Status, Trajectory, at_time, named_leaves
from ._experiment import Observable


def measured(
    setups: Setup,
    trajectories: Trajectory,
    observables: Sequence[tuple[str, Observable]],
    lengths: Sequence[int] = (),
    *,
    hold: bool,
) -> dict[str, Array]:
    """Outputs and observables by experiment at the rows of the data.

    **Arguments:**

    - `setups`, `trajectories`: with a leading experiment axis.
    - `lengths`: how many data times each experiment has, where they differ. An observable may take a mean or the last row, so
        it sees the rows of its experiment alone; those that fill up repeat its last value.
    - `hold`: a failed experiment shows its initial state, so that no NaN reaches a density.
    """
    skip = 0 if isinstance(setups.system, StaticSystem) else 1

    def held(setup: Setup, trajectory: Trajectory) -> Trajectory:
        ok = trajectory.status == Status.OK
        ys = jax.tree.map(lambda y, y0: jnp.where(ok, y, jax.lax.stop_gradient(y0)), trajectory.ys, setup.y0)
        return eqx.tree_at(lambda t: t.ys, trajectory, ys, is_leaf=lambda x: x is None)

    def outputs(setup: Setup, trajectory: Trajectory) -> dict[str, Array]:
        system: Any = setup.system
        measure = lambda t, y: outputs_by_name(system.outputs(t, y, at_time(setup.inputs, t)))
        rows = trajectory.times[skip:], jax.tree.map(lambda y: y[skip:], trajectory.ys)
        together = None if skip else system.together()
        if together is None or together >= rows[0].shape[0]:
            return jax.vmap(measure)(*rows)
        # Reverse mode computes each part again, so that what lies between is held of one part alone.
        return jax.lax.map(jax.checkpoint(lambda row: measure(*row)), rows, batch_size=together)

    def observed(setup: Setup, trajectory: Trajectory) -> dict[str, Array]:
        return {name: function(setup.system, trajectory)[skip:] for name, function in observables}

    if hold:
        trajectories = eqx.filter_vmap(held)(setups, trajectories)
    located = eqx.filter_vmap(outputs)(setups, trajectories)
    if not observables or not lengths:
        return located | eqx.filter_vmap(observed)(setups, trajectories)
    rows = trajectories.times.shape[1] - skip
    each = []
    for i, count in enumerate(lengths):
        setup, own = jax.tree.map(lambda x, i=i: x[i] if eqx.is_array(x) else x, (setups, trajectories))
        cut = lambda x, count=count: x[: count + skip]
        own = eqx.tree_at(lambda t: (t.times, t.ys), own, (cut(own.times), jax.tree.map(cut, own.ys)))
        fill = lambda x, count=count: jnp.pad(x, [(0, rows - count)] + [(0, 0)] * (x.ndim - 1), mode="edge")
        each.append(jax.tree.map(fill, observed(setup, own)))
    return located | jax.tree.map(lambda *values: jnp.stack(values), *each)


def outputs_by_name(outputs: PyTree) -> dict[str, Array]:
    """Outputs by dotted name; a bare array is called `y`."""
    return {name or "y": leaf for name, leaf in named_leaves(outputs).items()}
