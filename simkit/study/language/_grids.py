"""[system] and [y0] of a study of fields on a grid: the grid, the force, and what a start is made of."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import fluids
from ..._errors import StudyError
from ..._types import State
from ...core import System
from ._section import Section, at_place

Make = Callable[[fluids.Grid, Section, jax.Array], Any]


MOST_CELLS = 2**31
"""Cells of a grid: 1,290 along each of three axes, of which one scalar takes 17 GB."""


def read_on_grid(section: Section, y0: Section, kind: type[System], seed: int, *, given: bool) -> tuple[Any, Any]:
    """The system on the grid that [system] describes, and the start that [y0] does, or None. Random numbers follow from the seed.

    What is left out is that of the model's example.
    """
    example = kind.example()
    system: Any = example.system
    grid = read_grid(section, system.grid)
    with at_place(section.where()):
        system = _on_grid(section, system, grid)
    if not given:
        return system, None
    return system, _start(y0, system.grid, example.y0, jax.random.key(seed))


def read_grid(section: Section, standard: fluids.Grid) -> fluids.Grid:
    """The grid of [system]; `clustering` of an axis above 0 draws its cells towards both ends, for walls."""
    if "grid" not in section:
        return standard
    table = section.section("grid")
    table.need("shape")
    options: dict[str, Any] = {key: table.numbers(key) for key in ("lengths", "origin") if key in table}
    shape = table.numbers("shape")
    clustering = table.numbers("clustering") if "clustering" in table else [0.0] * len(shape)
    table.finish("lengths", "origin")
    if not all(isinstance(n, int) for n in shape):
        raise table.error("shape", f"must be whole numbers of cells, but it is `{shape}`.")
    if math.prod(shape) > MOST_CELLS:
        raise table.error("shape", f"must have at most {MOST_CELLS:,} cells, but it has {math.prod(shape):,}.")
    if len(clustering) != len(shape):
        raise table.error(
            "clustering", f"must have one number for each of {len(shape)} axes, but it is `{clustering}`."
        )
    with at_place(table.where()):
        grid = fluids.Grid(shape, **options)
        if not any(clustering):
            return grid
        along = zip(shape, grid.lengths, grid.origin, clustering, strict=True)
        faces = [fluids.stretched_faces(n, a, origin=o, clustering=c) if c else None for n, a, o, c in along]
        return fluids.Grid(shape, grid.lengths, grid.origin, faces=faces)


def _on_grid(section: Section, system: Any, grid: fluids.Grid) -> Any:
    """The example's system with the grid, force and mean flow of the study; its numbers come later."""
    names = {field.name for field in dataclasses.fields(system)}
    if "flow" in names:
        build = fluids.SpectralFlow3D if grid.dimensions == 3 else fluids.SpectralFlow2D
        flow = build(grid, viscosity=system.flow.viscosity)  # pyright: ignore[reportCallIssue]
        return dataclasses.replace(system, flow=_on_grid(section, flow, grid))
    changed: dict[str, Any] = {"grid": grid}
    if "force" in names:
        changed["force"] = _force(section)
    if "mean_flow" in section and "mean_flow" in names:
        changed["mean_flow"] = np.asarray(section.numbers("mean_flow"), float)
    if "beta" in section and "beta" in names:
        changed["beta"] = section.number("beta")
    if isinstance(system, fluids.AdvectionDiffusion):
        changed["velocity"] = jnp.ones(grid.dimensions)
    return dataclasses.replace(system, **changed)


def _number(table: Section, key: str, default: float) -> float:
    found = table.number(key, default)
    return default if found is None else found


def _count(table: Section, key: str, default: int) -> int:
    found = table.count(key, default)
    return default if found is None else found


def _force(section: Section) -> Any:
    if "force" not in section:
        return None
    table = section.section("force")
    table.need("model")
    table.name("model", ("kolmogorov",), "force")
    amplitude, waves = _number(table, "amplitude", 1.0), _count(table, "waves", 4)
    table.finish()
    return fluids.KolmogorovForce(amplitude=amplitude, waves=waves)  # pyright: ignore[reportCallIssue]


def _random_velocity(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    return fluids.random_velocity(grid, key, peak=_number(table, "peak", 4.0), speed=_number(table, "speed", 1.0))


def _double_shear_layer(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    options = {"thickness": _number(table, "thickness", 1 / 30), "perturbation": _number(table, "perturbation", 0.05)}
    return fluids.double_shear_layer(grid, _number(table, "amplitude", 1.0), **options)


def _vortices(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    table.need("positions", "circulations")
    where, strength = table.numbers("positions"), table.numbers("circulations")
    return fluids.vortices(grid, where, strength, radius=_number(table, "radius", 0.3), velocity=True)


VELOCITIES: Mapping[str, Make] = {
    "taylor_green": lambda g, t, _: fluids.taylor_green(g, _number(t, "amplitude", 1.0), waves=_count(t, "waves", 1)),
    "double_shear_layer": _double_shear_layer,
    "kolmogorov": lambda g, t, _: fluids.kolmogorov_profile(
        g, _number(t, "amplitude", 1.0), waves=_count(t, "waves", 4)
    ),
    "random": _random_velocity,
    "vortices": _vortices,
    "rest": lambda g, t, _: jnp.zeros((g.dimensions, *g.shape)),
}
"""Velocities that a start can have, by their `builder`."""


def _constant(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    return np.full(grid.shape, _number(table, "value", 0.0))


def _cosine(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    waves = table.numbers("waves") if "waves" in table else [1] + [0] * (grid.dimensions - 1)
    if len(waves) != grid.dimensions:
        raise table.error("waves", f"must have one number for each of {grid.dimensions} axes, but it is `{waves}`.")
    parts = zip(waves, grid.mesh(), grid.origin, grid.lengths, strict=True)
    phase = sum(2 * np.pi * n * (x - o) / length for n, x, o, length in parts) + _number(table, "phase", 0.0)
    return _number(table, "background", 0.0) + _number(table, "amplitude", 1.0) * np.cos(phase)


def _gaussian(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    middle = [o + 0.5 * length for o, length in zip(grid.origin, grid.lengths, strict=True)]
    centre = table.numbers("centre") if "centre" in table else middle
    if len(centre) != grid.dimensions:
        raise table.error("centre", f"must have one number for each of {grid.dimensions} axes, but it is `{centre}`.")
    width = _number(table, "width", 0.1 * min(grid.lengths))
    square = sum((x - c) ** 2 for x, c in zip(grid.mesh(), centre, strict=True))
    return _number(table, "background", 0.0) + _number(table, "amplitude", 1.0) * np.exp(-square / (2 * width**2))


def _noise(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    """Smooth noise: white noise behind a Gaussian filter of a width, of a root mean square."""
    waves = fluids.Waves(grid, 2)
    width = _number(table, "width", 0.05 * min(grid.lengths))
    square = np.asarray(waves.square())
    modes = (
        np.asarray(waves.modes(jax.random.normal(key, grid.shape))) * np.exp(-0.5 * square * width**2) * (square > 0)
    )
    field = np.asarray(waves.field(jnp.asarray(modes)))
    return _number(table, "background", 0.0) + _number(table, "amplitude", 1.0) * field / np.sqrt(np.mean(field**2))


FIELDS: Mapping[str, Make] = {"constant": _constant, "cosine": _cosine, "gaussian": _gaussian, "noise": _noise}
"""Fields that a start can have, by their `builder`."""


def _start(section: Section, grid: fluids.Grid, like: State, key: jax.Array) -> Any:
    """The state, field by field: `velocity` of flows, every other by its name."""
    keys = iter(jax.random.split(key, 8))
    if isinstance(like, fluids.SpectralFlow2D.State | fluids.SpectralFlow3D.State):
        velocity = built(section, "velocity", VELOCITIES, grid, next(keys))
        section.finish()
        if grid.dimensions == 3:
            return fluids.SpectralFlow3D.State(velocity)
        return fluids.SpectralFlow2D.State(fluids.vorticity(grid, velocity))
    found: dict[str, Any] = {}
    for field in dataclasses.fields(like):
        if field.name == "flow":
            velocity = built(section, "velocity", VELOCITIES, grid, next(keys))
            found["flow"] = (
                fluids.SpectralFlow3D.State(velocity)
                if grid.dimensions == 3
                else fluids.SpectralFlow2D.State(fluids.vorticity(grid, velocity))
            )
        else:
            found[field.name] = built(section, field.name, FIELDS, grid, next(keys))
    section.finish()
    if isinstance(like, fluids.Burgers.State) and np.ndim(like.u) > grid.dimensions:
        raise StudyError(f"{section.where()} cannot make a field of several components yet.")
    return type(like)(**found)


def built(section: Section, name: str, known: Mapping[str, Make], grid: fluids.Grid, key: jax.Array) -> Any:
    """Make the fields of a table by its `builder`."""
    section.need(name)
    table = section.section(name)
    table.need("builder")
    builder = str(table.name("builder", known, "builder"))
    with at_place(table.where()):
        values = known[builder](grid, table, key)
    table.finish()
    return values
