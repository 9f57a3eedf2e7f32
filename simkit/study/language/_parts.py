"""Conversion of the tables of a study file to the parts of a Problem."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ..._errors import StudyError, UnknownNameError, close_matches
from ..._types import State
from ...core import (
    AbstractSignal,
    Constant,
    Interpolated,
    PiecewiseConstant,
    Pulses,
    System,
    as_float_array,
    field_metadata,
    named_leaves,
)
from ...engine import Adaptive, Courant, Fixed
from ...md import REDUCED
from ...problem import SCALES, AbstractNoise, Free, Individual, Subpopulation, prior_from_text
from ...solvers import as_solver
from ._built import check_support, read_potential
from ._field_priors import FIELD_PRIORS, read_field_prior
from ._files import Files
from ._names import NOISES, SOLVERS
from ._section import Section, at_place, check_given, entries, is_number

FREE_KEYS = ("prior", "bounds", "transform", "start", "individual")


def read_system(section: Section, name: str, good: System, files: Files) -> System:
    """[system]: the model with the fixed parameters that differ from its good values.

    A model that has a potential takes it as a table, and whole fields that are plain numbers by their names.
    """
    fields = {field.name: field for field in dataclasses.fields(good)} if dataclasses.is_dataclass(good) else {}
    given: dict[str, Any] = {}
    for key in section.table:
        if key == "potential" and key in fields:
            given[key] = read_potential(section, key, REDUCED, files)
        elif key in fields and fields[key].metadata.get("static") and fields[key].type is float:
            given[key] = section.number(key)
    system = dataclasses.replace(good, **given) if given else good  # pyright: ignore
    return read_parameters(section, name, system)


def read_parameters(section: Section, name: str, system: System) -> System:
    """The system with the numbers of `parameters`; keys that nothing reads are refused."""
    given = entries(section.section("parameters"), lambda value: False)
    section.finish()
    return replace_leaves(system, given, section, "parameters", f"parameter of `{name}`") if given else system


def read_state(section: Section, base: State, complete: bool, optional: Sequence[str] = ()) -> Any:
    """[y0]: the state, by field.

    `base` gives the structure, and the values of fields that are not given: allowed where `complete` is false, or where a path
    such as `y0.hare` is among `optional`.
    """
    given = entries(section, lambda value: False)
    if complete:
        for name in named_leaves(base):
            if name not in given and f"y0.{name}" not in optional:
                raise StudyError(
                    f"{section.where()} must give `{name}`, but it does not. The state has "
                    f"{', '.join(f'`{leaf}`' for leaf in named_leaves(base))}."
                )
    return replace_leaves(base, given, section, "", "component of the state")


def replace_leaves(tree: PyTree, given: Mapping[str, Any], section: Section, key: str, what: str) -> Any:
    """The tree with the numbers or arrays that the study file gives, by dotted path."""
    known = named_leaves(tree)
    prefix = f"{key}." if key else ""
    for name, value in given.items():
        if name not in known:
            raise UnknownNameError(f"{section.where()}: there is no {what} `{name}`. {close_matches(name, known)}")
        depth = _depth(value)
        if not (is_number(value) or isinstance(value, list)) or depth != np.ndim(known[name]):
            kind = ("a number", "an array of numbers", "an array of arrays of numbers")[min(np.ndim(known[name]), 2)]
            raise section.error(prefix + name, f"must be {kind}, but it is `{value!r}`.")
        check_given(section, prefix + name, value)
    order = list(known)
    paths, treedef = jax.tree_util.tree_flatten(tree)
    if len(paths) != len(order):
        raise StudyError(
            f"{section.where()}: the model holds something else than arrays, which a study file cannot give."
        )
    leaves = [
        as_float_array(_array(section, prefix + name, given[name])) if name in given else leaf
        for name, leaf in zip(order, paths, strict=True)
    ]
    return jax.tree_util.tree_unflatten(treedef, leaves)


def read_inputs(section: Section) -> dict[str, AbstractSignal] | None:
    """[inputs]: signals by name; None where there are none."""
    signals: dict[str, AbstractSignal] = {}
    for name, value in section.table.items():
        if is_number(value):
            value = {"constant": value}
        if not isinstance(value, dict):
            raise section.error(
                name,
                f"must be a number or a table such as {{ times = [0, 5], values = [0, 1] }}, but it is `{value!r}`.",
            )
        part = Section(value, f"{section.place}.{name}", section.file)
        with at_place(part.where()):
            signals[name] = _signal(part)
    return signals or None


def _signal(part: Section) -> AbstractSignal:
    if "constant" in part:
        value: Any = part.number("constant")
        part.finish("times", "values", "kind")
        return Constant(value)
    kind: Any = part.name("kind", ("linear", "cubic", "monotone", "steps", "pulses"), "kind of input", "linear")
    if kind == "pulses":
        part.need("times", "amounts", "duration")
        duration: Any = part.number("duration")
        signal = Pulses(_floats(part, "times"), _floats(part, "amounts"), duration)
        if not float(signal.duration) > 0:
            raise part.error("duration", f"must be positive, but it is {float(signal.duration):g}.")
    else:
        part.need("times", "values")
        table: Any = _floats(part, "times"), _floats(part, "values")
        if kind == "steps":
            signal = PiecewiseConstant(*table)
        else:
            signal = Interpolated(*table, kind=kind, periodic=bool(part.get("periodic", "true or false", False)))
    part.finish("constant")
    return signal


def read_solve(section: Section) -> dict[str, Any]:
    """[solve]: the arguments `solver` and `step` of a Problem."""
    name = section.name("solver", SOLVERS, "solver")
    step: Any = None
    rule = section
    if isinstance(section.table.get("step"), dict):
        rule = section.section("step")
    elif "step" in section:
        step = section.number("step")
    rtol, atol, limit = rule.number("rtol"), rule.number("atol"), rule.count("max_steps")
    substeps, courant = rule.count("substeps"), rule.number("courant")
    if sum(given is not None for given in (step, substeps, courant, rtol if rtol is not None else atol)) > 1:
        raise StudyError(
            f"{rule.where()} must give one of `step`, `substeps`, `courant` or `rtol` with `atol`, but gives more."
        )
    with at_place(section.where("solver")):
        solver = as_solver(name)
    with at_place(rule.where()):
        if substeps is not None:
            step = Fixed(substeps)
        elif courant is not None:
            step = Courant(courant) if limit is None else Courant(courant, limit)
        elif rtol is not None or atol is not None or limit is not None:
            if step is not None:
                raise rule.error("max_steps", "goes with `rtol` and `atol`, but the step is fixed.")
            given = {"rtol": rtol, "atol": atol, "max_steps": limit}
            step = Adaptive(**{key: value for key, value in given.items() if value is not None})  # pyright: ignore
    rule.finish("step")
    section.finish("rtol", "atol", "max_steps", "substeps", "courant")
    return {"solver": solver, "step": step}


def read_noise(section: Section) -> dict[str, AbstractNoise]:
    """[noise]: output name -> noise model."""
    found: dict[str, AbstractNoise] = {}
    is_entry = lambda value: isinstance(value.get("model"), str) or not any(isinstance(x, dict) for x in value.values())
    for name, value in entries(section, is_entry).items():
        if not isinstance(value, dict):
            raise section.error(name, f"{_NOISE_EXAMPLE}, but it is `{value!r}`.")
        if "model" not in value:
            raise section.error(name, f"{_NOISE_EXAMPLE}, but it names no model.")
        found[name] = _noise_model(Section(value, f"{section.place}.{name}", section.file))
    return found


_NOISE_EXAMPLE = 'must be a table such as { model = "normal", scale = 0.1 }'


def _noise_model(part: Section) -> AbstractNoise:
    """One noise model; one of its numbers may be a table of numbers, or a noise model itself."""
    model = str(part.name("model", NOISES, "noise model"))
    with at_place(part.where("model")):
        kind: Any = NOISES[model]
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    several = [key for key, f in fields.items() if isinstance(f.default, tuple)]
    given: dict[str, Any] = {}
    for key in fields:
        inner = part.table.get(key)
        if key in part and not isinstance(inner, dict) and fields[key].default_factory is not dataclasses.MISSING:
            example = "{ hare = 0.5 }" if key == "correlations" else '{ model = "normal", scale = 0.1 }'
            raise part.error(key, f"must be a table such as {example}, but it is `{inner!r}`.")
        if isinstance(inner, dict):
            own = Section(inner, f"{part.place}.{key}", part.file)
            part.get(key, "a table")
            given[key] = (
                _noise_model(own) if "model" in own else {name: own.number(name) for name in entries(own, bool)}
            )
        elif key in part:
            given[key] = part.numbers(key) if key in several else part.number(key)
            for one in given[key] if key in several else [given[key]]:
                check_support(part, key, one, field_metadata(kind, key).support, f"{one:g}")
    part.need(*(key for key, f in fields.items() if f.default is f.default_factory is dataclasses.MISSING))
    part.finish(*fields)
    with at_place(part.where()):
        return kind(**given)


def _is_entry(value: dict[str, Any]) -> bool:
    named = "prior" in value or "individual" in value
    return not value or named or any(k in value and not isinstance(value[k], dict) for k in FREE_KEYS)


def free_names(section: Section) -> tuple[str, ...]:
    """The names in [free]."""
    return tuple(entries(section, _is_entry))


def read_free(section: Section, box: Sequence[float] = ()) -> dict[str, Free | Individual]:
    """[free]: path or name -> what is known about it; an `Individual` where it differs from individual to individual.

    `box`: the lengths of the system's grid, for priors of fields that give none.
    """
    free: dict[str, Free | Individual] = {}
    for name, value in entries(section, _is_entry).items():
        if not isinstance(value, dict):
            slips = [word for word in name.split(".")[1:] if close_matches(word, FREE_KEYS).startswith("Close")]
            hint = f" There is no key `{slips[0]}`. {close_matches(slips[0], FREE_KEYS)}" if slips else ""
            raise section.error(
                name, f"must be a table such as {{ prior = {{ normal = [1.0, 0.5] }} }}, but it is `{value!r}`.{hint}"
            )
        part = Section(value, f"{section.place}.{name}", section.file)
        free[name] = _individual(name, part) if "individual" in part else _free(name, part, box)
    return free


def _individual(name: str, part: Section) -> Free | Individual:
    """A parameter that each individual has for itself: `individual = true`, or a table with the arguments of `Individual`."""
    given = part.table.pop("individual")
    mean = _free(name, part)
    if isinstance(given, bool):
        return Individual(mean) if given else mean
    if not isinstance(given, dict):
        raise part.error(
            "individual",
            "must be true, or a table such as { spread = { prior = { half_normal = 0.5 } }, correlated = true }, but it is "
            f"`{given!r}`.",
        )
    own = Section(given, f"{part.place}.individual", part.file)
    if isinstance(own.table.get("spread"), int | float):
        wide = own.number("spread")
    else:
        spread = own.section("spread")
        wide = _free(f"{name}.spread", spread) if "spread" in own else None
    effects = own.section("effects")
    found = {covariate: _free(f"{name}.{covariate}", effects.section(covariate)) for covariate in effects.table}
    correlated = bool(own.get("correlated", "true or false", False))
    transform: Any = own.name("transform", SCALES, "transform")
    anew = own.section("occasion_spread")
    occasions = _free(f"{name}.occasion_spread", anew) if "occasion_spread" in own else None
    above = own.section("group_spreads")
    groups = {level: _free(f"{name}.{level}_spread", above.section(level)) for level in above.table}
    kinds = own.section("subpopulation")
    given = {key: _free(f"{name}.{key}", kinds.section(key)) for key in ("share", "shift") if key in kinds}
    second = Subpopulation(**given) if "subpopulation" in own else None
    kinds.finish(*given)
    own.finish()
    return Individual(mean, wide, found, correlated, transform, occasions, groups, second)


def _free(name: str, part: Section, box: Sequence[float] = ()) -> Free:
    prior = None
    table = part.get("prior", "a table")
    if table is not None:
        kind, numbers = _one_distribution(part, "prior", table)
        if kind in FIELD_PRIORS:
            prior = read_field_prior(part, kind, numbers, box)
        else:
            prior = _univariate(name, part, "prior", kind, numbers)
    bounds = part.get("bounds", "an array", [None, None])
    if "bounds" in part and (len(bounds) != 2 or not all(map(is_number, bounds))):
        raise part.error("bounds", f"must be two numbers, [lower, upper] (inf is allowed), but they are `{bounds}`.")
    transform: Any = part.name("transform", ("linear", "log"), "transform")
    start = part.number("start")
    part.finish()
    return Free(prior, (bounds[0], bounds[1]), transform, start)


def read_covariate(section: Section, name: str) -> Any:
    """A covariate of an individual: a number, or a distribution where it is missing."""
    value = section.table[name]
    if not isinstance(value, dict):
        return section.number(name)
    return _univariate(name, section, name, *_one_distribution(section, name, section.get(name, "a table")))


def _one_distribution(part: Section, key: str, table: dict[str, Any]) -> tuple[str, Any]:
    if len(table) != 1:
        raise part.error(key, f"must name one distribution, such as {{ normal = [1.0, 0.5] }}, but it is `{table}`.")
    ((kind, numbers),) = table.items()
    return kind, numbers


def _univariate(name: str, part: Section, key: str, kind: str, numbers: object) -> Any:
    numbers = [numbers] if is_number(numbers) else numbers
    if not isinstance(numbers, list) or not all(map(is_number, numbers)):
        raise part.error(key, f"must give `{kind}` an array of numbers, but gives `{numbers!r}`.")
    with at_place(part.where(key)):
        return prior_from_text(name, kind, numbers)


def read_conditions(section: Section) -> dict[str, float | str]:
    """[set]: path -> a number or the name of a free parameter."""
    found = entries(section, lambda value: False)
    for path, value in found.items():
        if not (is_number(value) or isinstance(value, str)):
            raise section.error(path, f"must be a number or the name of a free parameter, but it is `{value!r}`.")
    return found


def _floats(part: Section, key: str) -> np.ndarray:
    return _array(part, key, part.numbers(key))


def _array(section: Section, key: str, value: object) -> np.ndarray:
    try:
        return np.asarray(value, float)
    except ValueError as error:
        raise section.error(key, f"must be a table of numbers with rows of one length, but: {error}.") from error


def _depth(value: object) -> int:
    return 1 + (_depth(value[0]) if value else 0) if isinstance(value, list) else 0
