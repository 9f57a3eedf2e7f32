"""Phase portraits: one state over another, with the directions of the vector field."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._doors import check_count, check_kind
from .._errors import ArgumentError, check_known
from .._types import Inputs
from ..core import PlainSystem, System, Trajectory, named_leaves, unit_of
from ._style import Drawing, color, labelled, new_figure, styled, theme


@styled
def plot_phase(
    trajectory: Trajectory,
    x: str,
    y: str,
    *,
    system: System | None = None,
    inputs: Inputs = None,
    arrows: int = 17,
) -> Drawing:
    """One state of a trajectory over another; with the `system`, arrows of its vector field and the lines where it does not move.

    **Arguments:**

    - `trajectory`: what `simulate` or `ensemble` returns; each member is a line, with a circle where it begins.
    - `x`, `y`: two states that are numbers, by dotted name.
    - `system`: a plain system of these two states alone, whose vector field is drawn at the first time.
    - `inputs`: its inputs, as in `simulate`.
    - `arrows`: arrows along each axis.

    **Returns:** the figure; its table has member, time, x and y.
    """
    check_kind("trajectory", trajectory, Trajectory, "a trajectory", "`simkit.simulate(system, y0, times)` gives one.")
    check_count("arrows", arrows, least=2)
    leaves = {name or "y": np.asarray(values) for name, values in named_leaves(trajectory.ys).items()}
    times = np.asarray(trajectory.times)
    for name in (x, y):
        check_known(name, leaves, "component of the state")
        if leaves[name].shape != (*leaves[name].shape[: times.ndim - 1], times.shape[-1]) and leaves[name].ndim > 2:
            raise ArgumentError(f"The state `{name}` must be a number at each time to be drawn, but it is an array.")
    rows = {name: leaves[name].reshape(-1, times.shape[-1]) for name in (x, y)}
    figure = new_figure(5.2, 4.6)
    panel = figure.subplots()
    for member, (own_x, own_y) in enumerate(zip(rows[x], rows[y], strict=True)):
        panel.plot(own_x, own_y, color=color(member), lw=1.3, zorder=2, label="trajectory" if not member else None)
        panel.plot(own_x[:1], own_y[:1], "o", color=color(member), zorder=3)
    panel.set_xlabel(labelled(x, unit_of(trajectory.ys, x)))
    panel.set_ylabel(labelled(y, unit_of(trajectory.ys, y)))
    panel.margins(0.08)
    if system is not None:
        _field(panel, trajectory, system, inputs, (x, y), arrows)
    members = np.repeat(np.arange(len(rows[x])), times.shape[-1])
    at = np.broadcast_to(times, rows[x].shape).ravel()
    figure.table = {"member": members, "time": at, x: rows[x].ravel(), y: rows[y].ravel()}
    return figure


def _field(
    panel: Any, trajectory: Trajectory, system: System, inputs: Inputs, names: tuple[str, str], arrows: int
) -> None:
    """Arrows of unit length where the field points, and lines where one of its components is zero."""
    check_kind("system", system, PlainSystem, "a plain system", "Leave it out for others: the path is drawn alone.")
    assert isinstance(system, PlainSystem)
    leaves = named_leaves(trajectory.ys)
    if set(leaves) != set(names) or any(np.ndim(values) != np.ndim(trajectory.times) for values in leaves.values()):
        raise ArgumentError(
            f"Argument `system` must have the two drawn states alone for arrows in a plane, but it has {tuple(leaves)}. Leave it "
            "out."
        )
    first = jnp.ravel(jnp.asarray(trajectory.times))[0]
    (low_x, high_x), (low_y, high_y) = panel.get_xlim(), panel.get_ylim()
    lines_x, lines_y = np.linspace(low_x, high_x, 6 * arrows), np.linspace(low_y, high_y, 6 * arrows)
    mesh = np.stack(np.meshgrid(lines_x, lines_y), axis=-1).reshape(-1, 2)
    structure = jax.tree.structure(jax.tree.map(lambda leaf: leaf, trajectory.ys))
    order = list(leaves)

    def slope(point: jax.Array) -> jax.Array:
        state = jax.tree.unflatten(structure, [point[names.index(name)] for name in order])
        moved = named_leaves(system.vector_field(first, state, inputs))
        return jnp.stack([moved[name] for name in names])

    found = np.asarray(jax.vmap(slope)(jnp.asarray(mesh, first.dtype))).reshape(len(lines_y), len(lines_x), 2)
    for place, name in enumerate(names):
        values = found[..., place]
        if np.isfinite(values).all() and values.min() < 0 < values.max():
            panel.contour(lines_x, lines_y, values, [0.0], colors=[color(place + 1)], linestyles="--", linewidths=1.0)
            panel.plot([], [], "--", color=color(place + 1), lw=1.0, label=f"{name} at rest")
    few = found[3::6, 3::6]
    # Directions as they look: slopes over the width and the height of the panel.
    size = np.hypot(few[..., 0] / (high_x - low_x), few[..., 1] / (high_y - low_y))
    size = np.where(size > 0, size, 1)[..., None]
    few = few / size
    panel.quiver(
        lines_x[3::6], lines_y[3::6], few[..., 0], few[..., 1], color=theme().edge, angles="xy", width=0.003, alpha=0.6
    )
    panel.set_xlim(low_x, high_x)
    panel.set_ylim(low_y, high_y)
    panel.legend(loc="upper right")
