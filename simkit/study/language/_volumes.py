"""[system] and [y0] of a study of finite volumes: boundaries, bodies, beds, and starts with walls and jumps."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ... import fluids
from ..._errors import StudyError, check_known
from ...core import System
from ._flow_parts import (
    AXES,
    read_bodies,
    read_closure,
    read_contact,
    read_obstacle,
    read_obstacles,
    read_reaction,
    read_scalars,
    read_wall_model,
)
from ._grids import FIELDS, VELOCITIES, Make, built, read_grid
from ._section import Section, at_place, is_number

VOLUMES = (fluids.IncompressibleFlow, fluids.CompressibleFlow, fluids.ShallowWater, fluids.MultilayerShallowWater)
WATERS = (fluids.ShallowWater, fluids.MultilayerShallowWater)
Ends = Mapping[str, Callable[[Section], Any]]


def read_volumes(section: Section, y0: Section, kind: type[System], seed: int, *, given: bool) -> tuple[Any, Any]:
    """The system that [system] describes, and the start that [y0] does, or None. Random numbers follow from the seed.

    What is left out is as when the system is built in Python. Numbers of [system.parameters] without which it is built otherwise,
    such as a diffusivity, are given to it here and checked with the others.
    """
    example = kind.example()
    grid, key = read_grid(section, example.system.grid), jax.random.key(seed)  # pyright: ignore[reportAttributeAccessIssue]
    options = {name: section.get(name, "text") for name in TEXTS[kind] if name in section}
    table = section.section("parameters").table
    options |= {name: np.asarray(table[name], float) for name in OPTIONAL[kind] if _is_numeric(table.get(name))}
    for name, ends in BOUNDARIES[kind].items():
        if name in section:
            options[name] = _boundaries(section.section(name), grid, ends)
    if kind is fluids.IncompressibleFlow:
        options |= _parts_of_flow(section, grid)
    if kind is fluids.MultilayerShallowWater and "density" not in options:
        raise section.error("parameters", "must give `density`, a number for each layer from the surface down.")
    if "bed" in section and kind in WATERS:
        options["bed"] = jnp.asarray(built(section, "bed", SHAPES, grid, jax.random.fold_in(key, 1)))
    with at_place(section.where()):
        system: Any = kind(grid, **options)  # pyright: ignore[reportCallIssue]
    return system, _start(y0, system, key) if given else None


def _parts_of_flow(section: Section, grid: fluids.Grid) -> dict[str, Any]:
    """Bodies and their contact, scalars by name, their reaction, and closure of incompressible flow."""
    options: dict[str, Any] = {}
    if "obstacle" in section:
        options["obstacle"] = read_obstacle(section.section("obstacle"), grid)
    if "obstacles" in section:
        options["obstacles"] = read_obstacles(section.section("obstacles"), grid)
    if "contact" in section:
        options["contact"] = read_contact(section.section("contact"))
    if "scalars" in section:
        ends = lambda table: _boundaries(table, grid, SCALAR)
        options["scalars"] = read_scalars(section.section("scalars"), ends, _numbers)
    if "reaction" in section:
        options["reaction"] = read_reaction(section.section("reaction"), options.get("scalars", {}), grid)
    if "smagorinsky" in section:
        options["smagorinsky"] = read_closure(section.section("smagorinsky"), grid)
    return options


TEXTS: Mapping[type[System], tuple[str, ...]] = {
    fluids.IncompressibleFlow: ("flux", "diffusion"),
    fluids.CompressibleFlow: ("reconstruction", "riemann", "variables"),
    fluids.ShallowWater: ("reconstruction",),
    fluids.MultilayerShallowWater: ("reconstruction",),
}
OPTIONAL: Mapping[type[System], tuple[str, ...]] = {
    fluids.IncompressibleFlow: ("viscosity", "force", "diffusivity", "buoyancy", "smagorinsky"),
    fluids.CompressibleFlow: ("viscosity", "gravity"),
    fluids.ShallowWater: ("roughness", "coriolis", "beta"),
    fluids.MultilayerShallowWater: ("density", "coriolis", "beta"),
}
"""Numbers without which a system is built differently."""


def _is_numeric(value: object) -> bool:
    return is_number(value) or (isinstance(value, list) and all(is_number(x) for x in value))


def _numbers(table: Section, key: str) -> Any:
    """A number, or one for each component."""
    return np.asarray(table.number(key) if is_number(table.table.get(key)) else table.numbers(key), float)


def _optional(kind: Callable[[Any], Any], key: str, default: ArrayLike | None = 0.0) -> Callable[[Section], Any]:
    return lambda table: kind(_numbers(table, key) if key in table else default)


def _needed(kind: Callable[[Any], Any], key: str) -> Callable[[Section], Any]:
    def make(table: Section) -> Any:
        table.need(key)
        return kind(_numbers(table, key))

    return make


WALLS: Ends = {"periodic": lambda _: fluids.Periodic(), "free_slip": lambda _: fluids.FreeSlip()}
STICKY: Ends = {"no_slip": _optional(fluids.NoSlip, "velocity")}
MODELLED: Ends = {"wall_model": read_wall_model}
OPEN: Ends = {"open": lambda _: fluids.Open()}
FLOWING: Ends = {
    "inflow": _needed(fluids.Inflow, "velocity"),
    "outflow": _optional(fluids.Outflow, "speed", None),
    "fixed_pressure": _optional(fluids.FixedPressure, "pressure"),
}
SCALAR: Ends = {
    "periodic": WALLS["periodic"],
    "dirichlet": _optional(fluids.Dirichlet, "value"),
    "neumann": _optional(fluids.Neumann, "gradient"),
}
BOUNDARIES: Mapping[type[System], Mapping[str, Ends]] = {
    fluids.IncompressibleFlow: {"boundaries": {**WALLS, **STICKY, **MODELLED, **FLOWING}, "scalar_boundaries": SCALAR},
    fluids.CompressibleFlow: {"boundaries": {**WALLS, **STICKY, **OPEN}},
    fluids.ShallowWater: {"boundaries": {**WALLS, **OPEN, "level": _needed(fluids.Level, "surface")}},
    fluids.MultilayerShallowWater: {"boundaries": {**WALLS, **OPEN}},
}
"""The conditions that ends of axes may have, by their `model`."""


def _boundaries(section: Section, grid: fluids.Grid, known: Ends) -> Any:
    """One condition for all ends, or a table with one an axis, of which each is for both ends or has a `lower` and an `upper`."""
    if "model" in section:
        return _end(section, known)
    found = []
    for name in AXES[: grid.dimensions]:
        section.need(name)
        table = section.section(name)
        if "model" in table:
            found.append(_end(table, known))
            continue
        table.need("lower", "upper")
        found.append(tuple(_end(table.section(side), known) for side in ("lower", "upper")))
        table.finish()
    section.finish()
    return found


def _end(table: Section, known: Ends) -> Any:
    table.need("model")
    model = str(table.name("model", known, "boundary condition"))
    with at_place(table.where()):
        found = known[model](table)
    table.finish()
    return found


def _place(grid: fluids.Grid, table: Section) -> tuple[np.ndarray, float, float]:
    """Coordinates along the `axis` of a table, and where that begins and ends."""
    axis = AXES.index(str(table.name("axis", AXES[: grid.dimensions], "axis", "x")))
    return np.asarray(grid.mesh()[axis]), grid.origin[axis], grid.origin[axis] + grid.lengths[axis]


def _jump(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    table.need("below", "above")
    x, start, end = _place(grid, table)
    below, above = (float(table.number(name) or 0.0) for name in ("below", "above"))
    place = table.number("at", 0.5 * (start + end))
    assert place is not None
    return np.where(x < place, below, above)


def _linear(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    table.need("below", "above")
    x, start, end = _place(grid, table)
    low, high = (float(table.number(name) or 0.0) for name in ("below", "above"))
    return low + (high - low) * (x - start) / (end - start)


SHAPES: Mapping[str, Make] = {**FIELDS, "jump": _jump, "linear": _linear}


def _uniform(grid: fluids.Grid, table: Section, key: jax.Array) -> Any:
    table.need("values")
    values = np.asarray(table.numbers("values"), float)
    if values.shape != (grid.dimensions,):
        raise table.error("values", f"must have one number for each of {grid.dimensions} axes, but it is `{values}`.")
    return values.reshape(-1, *[1] * grid.dimensions) * np.ones(grid.shape)


FLOWS: Mapping[str, Make] = {**VELOCITIES, "uniform": _uniform}


def _start(section: Section, system: Any, key: jax.Array) -> Any:
    """The state of the system; velocities at the centres of cells, the surface of water by its `level` or its `height`."""
    if isinstance(system, fluids.MultilayerShallowWater):
        return _layers(section, system, key)
    grid, keys = system.grid, iter(jax.random.split(key, 8))
    scalar = lambda name: jnp.asarray(built(section, name, SHAPES, grid, next(keys)), float)
    velocity = jnp.asarray(built(section, "velocity", FLOWS, grid, next(keys)), float)
    with at_place(section.where()):
        if isinstance(system, fluids.IncompressibleFlow):
            named = _named(section.section("scalars"), system, jax.random.fold_in(key, 2))
            one = scalar("scalar") if system.diffusivity is not None else None
            state = system.start(velocity, one, scalars=named, **read_bodies(section, system))
        elif isinstance(system, fluids.CompressibleFlow):
            state = fluids.CompressibleFlow.State(scalar("density"), velocity, scalar("pressure"))
        else:
            if ("level" in section) == ("height" in section):
                raise StudyError(f"{section.where()} must give the `height` of the water or its `level`, one of them.")
            height = scalar("height") if "height" in section else jnp.maximum(scalar("level") - system.bed, 0.0)
            state = fluids.ShallowWater.State(height, velocity)
    section.finish()
    return state


def _named(section: Section, system: fluids.IncompressibleFlow, key: jax.Array) -> dict[str, Any] | None:
    """The starts of scalars by name; what is left out starts at 0."""
    if not section.table:
        return None
    if not system.scalars:
        raise StudyError(f"{section.where()} starts scalars by name, but [system.scalars] gives none.")
    found = {}
    for index, name in enumerate(section.table):
        check_known(name, system.scalars, "scalar")
        found[name] = jnp.asarray(built(section, name, SHAPES, system.grid, jax.random.fold_in(key, index)), float)
    return found


def _layers(section: Section, system: fluids.MultilayerShallowWater, key: jax.Array) -> Any:
    """Layers of water from the surface down: by `levels` of their upper ends, or by `heights`; a velocity each, or one for all."""
    grid, count = system.grid, system.density.shape[0]
    if ("levels" in section) == ("heights" in section):
        raise StudyError(
            f"{section.where()} must give the `heights` of the layers or the `levels` of their tops, one of them."
        )
    kind = "levels" if "levels" in section else "heights"
    made = lambda name, tables, known, at: jnp.stack(
        [
            jnp.asarray(built(Section({name: table}, section.place, section.file), name, known, grid, part), float)
            for table, part in zip(tables, jax.random.split(jax.random.fold_in(key, at), count), strict=True)
        ]
    )
    found = made(kind, _each(section, kind, count), SHAPES, 0)
    if kind == "levels":
        under = jnp.concatenate([found[1:], jnp.broadcast_to(system.bed, found[:1].shape)])
        crossed = np.argwhere(np.asarray(found[:-1] < found[1:]).reshape(count - 1, -1).any(axis=1))
        if len(crossed):
            upper = int(crossed[0, 0]) + 1
            raise StudyError(
                f"{section.where()} gives `levels` of the tops of layers from the surface down, but that of layer {upper + 1} lies "
                f"above that of layer {upper} somewhere."
            )
        bottom = jnp.maximum(under, jnp.broadcast_to(system.bed, under.shape))
        found = jnp.maximum(found - bottom, 0.0)
    section.need("velocity")
    flows = section.table["velocity"]
    tables = _each(section, "velocity", count) if isinstance(flows, list) else [flows] * count
    section.read.add("velocity")
    state = system.State(found, jnp.moveaxis(made("velocity", tables, FLOWS, 1), 0, 1))
    section.finish()
    return state


def _each(section: Section, key: str, count: int) -> list[Any]:
    """An array with a table for each layer."""
    tables = section.get(key, "an array")
    if len(tables) != count:
        raise section.error(key, f"must have a table for each of {count} layers, but it has {len(tables)}.")
    return tables
