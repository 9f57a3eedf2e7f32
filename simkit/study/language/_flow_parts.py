"""Bodies, scalars with reactions, closures and modelled walls of a study of incompressible flow."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array

from ... import fluids
from ..._errors import StudyError, check_known
from ...core import as_float_array
from ...networks import Formulas, Graph, Reader
from ._formula import formula_text
from ._section import Section, at_place, is_number

AXES = ("x", "y", "z")


class _Read(NamedTuple):
    """Formulas of named values and of own numbers, which are parameters with gradients."""

    formulas: Formulas
    roots: tuple[int, ...]
    parameters: dict[str, Array]


class FormulaMotion(eqx.Module):
    """Motion of a body by formulas of time `t`: the coordinates of its centre and, with one formula more, its angle."""

    formulas: Formulas = eqx.field(static=True)
    roots: tuple[int, ...] = eqx.field(static=True)
    parameters: dict[str, Array]
    dimensions: int = eqx.field(static=True)

    def __call__(self, t: ArrayLike) -> Any:
        values: Mapping[str, Any] = {**self.parameters, "t": t}
        found = [jnp.asarray(x) for x in self.formulas.evaluate(self.roots, values.__getitem__)]
        dtype = jnp.result_type(*found, jnp.asarray(t))
        found = [x.astype(dtype) for x in found]
        centre = jnp.stack(found[: self.dimensions])
        return centre if len(found) == self.dimensions else (centre, found[-1])


class FormulaReaction(eqx.Module):
    """Rates of scalars by formulas of time `t`, coordinates `x`, `y`, `z` and the scalars."""

    formulas: Formulas = eqx.field(static=True)
    roots: tuple[int, ...] = eqx.field(static=True)
    parameters: dict[str, Array]
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, t: ArrayLike, x: Sequence[Any], scalars: Mapping[str, Array]) -> dict[str, Array]:
        values: Mapping[str, Any] = {**self.parameters, **dict(zip(AXES, x, strict=False)), "t": t, **scalars}
        found = self.formulas.evaluate(self.roots, values.__getitem__)
        like = next(iter(scalars.values()))
        return {
            name: jnp.broadcast_to(jnp.asarray(rate, like.dtype), like.shape)
            for name, rate in zip(self.names, found, strict=True)
        }


def _functions(table: Section, texts: Sequence[tuple[str, str]], names: Collection[str]) -> _Read:
    """Formulas, each with its place in messages, of the names and of the numbers in `parameters` of a table."""
    own = table.section("parameters")
    numbers = {key: as_float_array(own.number(key)) for key in own.table}
    if twice := sorted({*numbers} & {*names}):
        raise own.error(twice[0], "is the name of something else. Choose another.")
    graph = Graph()

    def symbol(name: str) -> int:
        check_known(name, [*names, *numbers], "name")
        return graph.symbol(name)

    def no_call(name: str, operands: Sequence[int]) -> int:
        raise StudyError(f"the function `{name}` is not known")

    read, roots = Reader(graph, symbol, no_call, {}, "the study"), []
    for place, text in texts:
        with at_place(place):
            roots.append(read.read(text, "It"))
    return _Read(Formulas(tuple(graph.nodes)), tuple(roots), numbers)


def _vector(table: Section, key: str, grid: fluids.Grid) -> Array:
    found = np.asarray(table.number(key) if is_number(table.table.get(key)) else table.numbers(key), float)
    if found.shape != (grid.dimensions,):
        raise table.error(key, f"must have one number for each of {grid.dimensions} axes, but it is `{found}`.")
    return as_float_array(found)


def read_obstacle(table: Section, grid: fluids.Grid) -> fluids.Obstacle:
    """A disk or a box, at rest, moved by formulas of time or free; one that moves has its centre at the origin of its own
    coordinates."""
    table.need("shape")
    shape = table.name("shape", ("disk", "box"), "shape")
    motion = _motion(table.section("motion"), grid) if "motion" in table else None
    table.need("radius" if shape == "disk" else "lengths", *(() if motion is not None else ("centre",)))
    centre = _vector(table, "centre", grid) if "centre" in table else jnp.zeros(grid.dimensions)
    if shape == "disk":
        body: Any = fluids.Disk(centre, as_float_array(table.number("radius")))
    else:
        body = fluids.Box(centre, _vector(table, "lengths", grid))
    pivot = _vector(table, "pivot", grid) if "pivot" in table else None
    table.finish()
    return fluids.Obstacle(body, pivot=pivot, motion=motion)


def read_obstacles(section: Section, grid: fluids.Grid) -> dict[str, fluids.Obstacle]:
    """Bodies by name."""
    return {name: read_obstacle(section.section(name), grid) for name in section.table}


def read_contact(table: Section) -> fluids.Contact:
    """The force that holds bodies off each other and off walls."""
    table.need("strength", "reach")
    with at_place(table.where()):
        found = fluids.Contact(np.asarray(table.number("strength")), np.asarray(table.number("reach")))
    table.finish()
    return found


def read_bodies(section: Section, system: fluids.IncompressibleFlow) -> dict[str, Any]:
    """The starts of free bodies: `body` of an obstacle that is alone, `bodies` by name."""
    found: dict[str, Any] = {}
    if "body" in section:
        found["body"] = _state_of_body(section.section("body"), system.grid)
    if "bodies" in section:
        tables = section.section("bodies")
        for name in tables.table:
            check_known(name, system.obstacles, "body")
        found["bodies"] = {name: _state_of_body(tables.section(name), system.grid) for name in tables.table}
    return found


def _state_of_body(table: Section, grid: fluids.Grid) -> fluids.BodyState:
    table.need("centre")
    velocity = _vector(table, "velocity", grid) if "velocity" in table else jnp.zeros(grid.dimensions)
    turned = {name: as_float_array(table.number(name)) for name in ("angle", "spin") if name in table}
    if turned and grid.dimensions != 2:
        raise table.error(next(iter(turned)), "must be left out in three dimensions, where bodies do not turn.")
    found = fluids.BodyState(_vector(table, "centre", grid), velocity, turned.get("angle"), turned.get("spin"))
    table.finish()
    return found


def _motion(table: Section, grid: fluids.Grid) -> Any:
    """The motion of a body: by formulas of time, or by the fluid and forces."""
    if table.name("model", ("formulas", "free"), "motion", "formulas") == "free":
        return _free_motion(table, grid)
    table.need("centre")
    centre = table.get("centre", "an array")
    if len(centre) != grid.dimensions:
        raise table.error(
            "centre", f"must have a formula for each of {grid.dimensions} axes, but it has {len(centre)}."
        )
    texts = [(table.where("centre"), formula_text(table, "centre", one)) for one in centre]
    if "angle" in table:
        if grid.dimensions != 2:
            raise table.error("angle", "must be left out in three dimensions, where bodies do not turn.")
        texts.append((table.where("angle"), formula_text(table, "angle", table.table["angle"])))
    found = FormulaMotion(*_functions(table, texts, ("t",)), grid.dimensions)
    table.finish("model", "centre", "angle", "parameters")
    return found


def _free_motion(table: Section, grid: fluids.Grid) -> fluids.FreeMotion:
    options: dict[str, Any] = {name: _vector(table, name, grid) for name in ("gravity", "anchor") if name in table}
    for name in ("stiffness", "damping"):
        if name in table:
            one = is_number(table.table.get(name))
            options[name] = as_float_array(table.number(name)) if one else _vector(table, name, grid)
    if "axes" in table:
        options["axes"] = _axes(table, "axes", grid)
    if "turns" in table:
        options["turns"] = table.get("turns", "true or false")
    with at_place(table.where()):
        found = fluids.FreeMotion(np.asarray(table.number("density", 1.0)), **options)
    table.finish()
    return found


def _axes(table: Section, key: str, grid: fluids.Grid) -> list[int]:
    """Axes by their names."""
    known, found = AXES[: grid.dimensions], []
    for name in table.get(key, "an array"):
        with at_place(table.where(key)):
            check_known(str(name), known, "axis")
        found.append(known.index(str(name)))
    return found


def read_scalars(
    section: Section, ends: Callable[[Section], Any], numbers: Callable[[Section, str], Any]
) -> dict[str, fluids.FlowScalar]:
    """Scalars by name, `ends` being what reads their `boundaries` and `numbers` a number or one for each component."""
    found = {}
    for name in section.table:
        table = section.section(name)
        table.need("diffusivity")
        options = {"buoyancy": numbers(table, "buoyancy")} if "buoyancy" in table else {}
        boundaries = ends(table.section("boundaries")) if "boundaries" in table else None
        with at_place(table.where()):
            found[name] = fluids.FlowScalar(table.number("diffusivity"), boundaries=boundaries, **options)
        table.finish("boundaries")
    return found


def read_reaction(table: Section, scalars: Collection[str], grid: fluids.Grid) -> FormulaReaction:
    """Rates of scalars by name, formulas, with their own `parameters`."""
    table.need("rates")
    rates = table.section("rates")
    texts = []
    for name in rates.table:
        check_known(name, scalars, "scalar")
        texts.append((rates.where(name), formula_text(rates, name, rates.table[name])))
    names = ("t", *AXES[: grid.dimensions], *scalars)
    if twice := sorted(name for name in names if names.count(name) > 1):
        raise StudyError(f"{table.where()}: no scalar may be called `{twice[0]}` where there is a reaction.")
    found = FormulaReaction(*_functions(table, texts, names), tuple(rates.table))
    table.finish("rates", "parameters")
    return found


def read_closure(table: Section, grid: fluids.Grid) -> fluids.DynamicSmagorinsky:
    """A closure for large eddies whose constant the flow tells."""
    table.need("model")
    table.name("model", ("dynamic",), "closure")
    average = _axes(table, "average", grid) if "average" in table else None
    table.finish()
    return fluids.DynamicSmagorinsky(average)


def read_wall_model(table: Section) -> fluids.WallModel:
    """A wall with the stress of the law of the wall."""
    options: dict[str, Any] = {key: table.number(key) for key in ("roughness", "kappa", "intercept") if key in table}
    if "velocity" in table:
        one = is_number(table.table.get("velocity"))
        options["velocity"] = np.asarray(table.number("velocity") if one else table.numbers("velocity"), float)
    if "cell" in table:
        options["cell"] = table.count("cell")
    return fluids.WallModel(**options)
