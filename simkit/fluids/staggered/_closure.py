"""The constant of Smagorinsky's closure from the flow itself."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..._doors import shown
from ..._errors import ArgumentError
from ..grids._ghost import cells
from ..grids._grid import Grid
from ._momentum import Surrounded, shear, strain, stretching
from ._staggered import Staggered

RATIO = 6**0.5
"""Width of the test filter, in cells: of the box that has the second moment of the weights 1/4, 1/2, 1/4 (Lund 1997)."""


class DynamicSmagorinsky(eqx.Module):
    r"""Smagorinsky's closure with a constant that the resolved flow tells (Germano's identity, Lilly's least squares):

    $$\nu_t = C \Delta^2 |S|, \qquad C = \max\Big(\frac{\langle L_{ij} M_{ij} \rangle}{\langle M_{ij} M_{ij} \rangle}, 0\Big),
    \qquad L_{ij} = \widehat{u_i u_j} - \hat u_i \hat u_j, \qquad
    M_{ij} = 2 \Delta^2 \big(\widehat{|S| S_{ij}} - 6\, |\hat S| \hat S_{ij}\big)$$

    with $\Delta$ the cube root of a cell's volume (in two dimensions the square root) and a hat for the test filter, means with
    weights 1/4, 1/2, 1/4 along each axis. L is taken without its trace. $C^{1/2}$ is Smagorinsky's constant: 0 in laminar flow and
    at walls, about 0.17 in isotropic turbulence. An `IncompressibleFlow` takes it as `smagorinsky=DynamicSmagorinsky()`, and has
    the output `smagorinsky`.

    - `average`: the axes over which the means $\langle\rangle$ go, along which the statistics of the flow are the same. None (the
        default) takes all periodic ones, and where there is none the test filter twice.

    **Good values:** all axes for isotropic turbulence, those along the walls for a channel.

    **Raises:** an `ArgumentError` for axes that are none.

    Germano, Piomelli, Moin and Cabot (1991), Phys. Fluids A 3:1760; Lilly (1992), Phys. Fluids A 4:633; Lund (1997), CTR Annual
    Research Briefs, 83, for the width of the test filter, which makes the 6.
    """

    average: tuple[int, ...] | None = eqx.field(static=True)

    def __init__(self, average: Sequence[int] | None = None):
        some = isinstance(average, Sequence) and not isinstance(average, str)
        wrong = average is not None and not (some and all(isinstance(axis, int) and 0 <= axis < 3 for axis in average))
        if wrong:
            raise ArgumentError(
                f"Argument `average` must hold axes of the grid, but it is {shown(average)}. Write `(0, 2)`, or leave it out."
            )
        self.average = None if average is None else tuple(average)


def check_closure(grid: Grid, closure: DynamicSmagorinsky | None) -> None:
    """Refuse averages over axes that a grid has not, and grids over devices.

    **Raises:** an `ArgumentError`.
    """
    if closure is None:
        return
    if any(axis >= grid.dimensions for axis in closure.average or ()):
        raise ArgumentError(
            f"Argument `average` of DynamicSmagorinsky must hold axes of the grid, which has {grid.dimensions}, but it is "
            f"{closure.average}."
        )
    if grid.devices:
        raise ArgumentError("Argument `smagorinsky` must be a number on a grid over several devices.")


def turbulent_viscosity(
    at: Staggered, flow: Surrounded, closure: DynamicSmagorinsky | None, given: Array | None
) -> Array | None:
    """The viscosity of a closure at the centres, with a given constant or the flow's own; None without a closure."""
    if closure is None and given is None:
        return None
    rate = strain(at, flow)
    width = (at.grid.volumes() ** (1 / at.dimensions)).astype(rate.dtype)
    found = given if closure is None else constant(at, flow, closure)
    return (found * width) ** 2 * rate


def constant(at: Staggered, flow: Surrounded, closure: DynamicSmagorinsky) -> Array:
    """Smagorinsky's constant at the centres, or one for each place across the axes of the average."""
    d = at.dimensions
    periodic = tuple(not wall for wall in at.walls)
    hat = lambda x: _filtered(x, periodic)
    velocity = at.centred(flow.velocity)
    rate, parts = strain(at, flow), _strains(at, flow)
    width = jnp.asarray(at.grid.volumes() ** (2 / d), rate.dtype)
    smooth = {key: hat(part) for key, part in parts.items()}
    coarse = jnp.sqrt(jnp.maximum(2 * _contracted(smooth, smooth), jnp.finfo(rate.dtype).tiny))
    means = [hat(u) for u in velocity]
    stress = {(i, j): hat(velocity[i] * velocity[j]) - means[i] * means[j] for i, j in parts}
    trace = sum(stress[i, i] for i in range(d)) / d
    stress = {(i, j): part - trace if i == j else part for (i, j), part in stress.items()}
    model = {key: 2 * width * (hat(rate * part) - RATIO**2 * coarse * smooth[key]) for key, part in parts.items()}
    top, bottom = _contracted(stress, model), _contracted(model, model)
    axes = closure.average
    if axes is None:
        axes = tuple(axis for axis in range(d) if periodic[axis])
    if axes:
        top, bottom = (jnp.mean(x, axis=axes, keepdims=True) for x in (top, bottom))
    else:
        top, bottom = hat(hat(top)), hat(hat(bottom))
    square = jnp.where(bottom > 0, top / jnp.where(bottom > 0, bottom, 1), 0)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _strains(at: Staggered, flow: Surrounded) -> dict[tuple[int, int], Array]:
    """The rates of strain S_ij, i >= j, at the centres."""
    found = {}
    for i in range(at.dimensions):
        found[i, i] = cells(stretching(at, flow, i), i, 1, at.grid.shape[i] + 1)
        for j in range(i):
            edges = shear(at, flow, i, j)
            for axis in (i, j):
                count = at.grid.shape[axis]
                edges = 0.5 * (cells(edges, axis, 0, count) + cells(edges, axis, 1, count + 1))
            found[i, j] = 0.5 * edges
    return found


def _contracted(a: dict[tuple[int, int], Array], b: dict[tuple[int, int], Array]) -> Any:
    """The sum over both indices of symmetric tensors."""
    return sum((1 if i == j else 2) * a[i, j] * b[i, j] for i, j in a)


def _filtered(x: Array, periodic: tuple[bool, ...]) -> Array:
    """Means with the weights 1/4, 1/2, 1/4 along each axis; beyond ends the last value."""
    for axis, around in enumerate(periodic):
        n = x.shape[axis]
        widths = [(int(k == axis),) * 2 for k in range(x.ndim)]
        wide = jnp.pad(x, widths, mode="wrap" if around else "edge")
        x = 0.25 * (cells(wide, axis, 0, n) + cells(wide, axis, 2, n + 2)) + 0.5 * x
    return x
