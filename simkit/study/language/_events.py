"""[[events]] of a study file: conditions or known times at which the state changes or a simulation ends, as formulas."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._errors import StudyError, UnknownNameError
from ..._types import Inputs, State, Time
from ...core import Event, Setup
from ...md import Particles
from ...networks import RELATIONS, Formulas
from ...problem import Experiment
from ._formula import VALUE, Known, formula_text, read_formulas, values_of
from ._section import Section, at_place, entries, is_number

EXAMPLE = 'Write [[events]] with name = "bounce", condition = "height < 0" and change = { speed = "-0.9 * speed" }.'
MOST_TIMES = 100_000
"""Most known times that one event of a study may have."""
DIRECTIONS = {"lt": "down", "leq": "down", "gt": "up", "geq": "up"}
"""The direction in which the difference of both sides passes zero where a comparison becomes true."""


class Condition(eqx.Module):
    """The number that passes zero at an event, a formula; for a comparison the difference of both sides."""

    formulas: Formulas = eqx.field(static=True)
    roots: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, system: Any, t: Time, y: State, inputs: Inputs) -> Any:
        left, *right = values_of(self.formulas, self.roots, system, t, y, inputs)
        return left - right[0] if right else left


class Change(eqx.Module):
    """The state after an event: some of its components by formulas, all of the state before."""

    formulas: Formulas = eqx.field(static=True)
    roots: tuple[int, ...] = eqx.field(static=True)
    paths: tuple[str, ...] = eqx.field(static=True)

    @property
    def takes_value(self) -> bool:
        """Tell whether a formula uses the value of a known time."""
        return f"value:{VALUE}" in self.formulas.symbols(self.roots)

    def __call__(self, system: Any, t: Time, y: State, inputs: Inputs, value: Any = None) -> Any:
        found = values_of(self.formulas, self.roots, system, t, y, inputs, value)
        setup = Setup(system, y)
        return setup.put(
            {p: jnp.broadcast_to(x, setup.get(p).shape) for p, x in zip(self.paths, found, strict=True)}
        ).y0


def check_events_table(given: Any, file: str) -> list[Section]:
    """The tables of [[events]], in their order; each must have a name of its own."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise StudyError(f"[[events]] of `{file}` must be an array of tables, but it is a table. {EXAMPLE}")
    sections: list[Section] = []
    for i, table in enumerate(given):
        part = Section(table, f"events.{i}", file)
        part.need("name")
        name = str(part.get("name", "text"))
        if not name or "." in name:
            raise part.error("name", f"must be a word without dots, since it stands in paths, but it is `{name}`.")
        if name in [one.table["name"] for one in sections]:
            raise part.error("name", f"must be given once, but two events are called `{name}`.")
        part.place = f"events.{name}"
        sections.append(part)
    return sections


def read_events(sections: Sequence[Section], known: Known, last: float | None) -> dict[str, Event]:
    """Events by name.

    **Arguments:**

    - `known`: the names that formulas may use.
    - `last`: the last time of the study, up to which an event with `every` repeats; None where it says no times.
    """
    if sections and isinstance(known.system, Particles):
        raise StudyError(
            f"{sections[0].where()}: studies of particles have no events, since their states have no numbers by name. Write a "
            "`simkit.Event` in Python."
        )
    return {str(one.table["name"]): _event(one, known, last) for one in sections}


def with_events(experiments: Sequence[Experiment], events: Mapping[str, Event], sections: Sequence[Section]) -> None:
    """Put the events of the study behind the doses of experiments that have any; others take them from the problem."""
    for experiment in experiments:
        if events and experiment.events is not None:
            if "dose" in events:
                named = next(one for one in sections if one.table["name"] == "dose")
                raise named.error("name", "must be another one than `dose`, since experiments have doses.")
            experiment.events = {**experiment.events, **events}


def input_names(inputs: Mapping[str, Any] | None, experiments: Sequence[Experiment]) -> list[str]:
    """The names of inputs that every simulation of the study has: its own, and where experiments have others those of all."""
    each = [inputs if e.inputs is None else e.inputs for e in experiments] or [inputs]
    return [name for name in each[0] or {} if all(name in (own or {}) for own in each)]


def last_time(times: Sequence[np.ndarray]) -> float | None:
    """The last time that a study asks for; None where it asks for none."""
    return max((float(np.max(t)) for t in times if np.size(t)), default=None)


def _event(section: Section, known: Known, last: float | None) -> Event:
    ends = bool(section.get("ends", "true or false", False))
    timed = "at" in section
    if timed == ("condition" in section):
        given = "both" if timed else "neither"
        raise StudyError(
            f"{section.where()} must give a `condition` or times, `at`, one of them, but gives {given}. {EXAMPLE}"
        )
    if "change" not in section and not ends:
        raise StudyError(
            f'{section.where()} must say what it does, `change`, such as {{ speed = "-0.9 * speed" }}, or `ends = true`, but says '
            "neither."
        )
    at = _times(section, last) if timed else None
    values = _values(section, at)
    change = _change(section, known, values is not None) if "change" in section else None
    if values is not None and (change is None or not change.takes_value):
        raise section.error("values", f"must be used by a formula of `change`, as `{VALUE}`, but none names it.")
    direction: Any = None
    condition = None
    if timed:
        if "direction" in section:
            raise section.error("direction", "goes with a `condition`, but the event has known times, `at`.")
    else:
        condition, direction = _condition(section, known)
    section.finish("name", "condition", "change", "at", "every", "additional", "values", "direction")
    with at_place(section.where()):
        return Event(condition, direction, change, ends=ends, at=at, values=values)


def _condition(section: Section, known: Known) -> tuple[Condition, Any]:
    for key in ("every", "additional", "values"):
        if key in section:
            raise section.error(key, "goes with known times, `at`, but the event has a `condition`.")
    text = section.get("condition", "text")
    place = section.where("condition")
    formulas, (root,) = read_formulas([(place, text)], known)
    kind, *sides = formulas.nodes[root]
    direction = section.name("direction", ("up", "down"), "direction")
    if kind in RELATIONS or kind in ("and", "or", "xor", "not"):
        if kind not in DIRECTIONS:
            raise section.error(
                "condition",
                f"must be a number that passes zero, or one comparison by <, <=, > or >=, but it is `{text}`. Write one event for "
                "each comparison.",
            )
        if direction is not None:
            raise section.error(
                "direction", f"must be left out of a comparison, which says it itself: `{text}` becomes true."
            )
        direction = DIRECTIONS[kind]
    roots = tuple(sides) if kind in DIRECTIONS else (root,)
    if not any(name.partition(":")[0] in ("state", "time", "inputs") for name in formulas.symbols(roots)):
        raise section.error(
            "condition", f"must depend on the state, an input or t, or it never passes zero, but it is `{text}`."
        )
    found = Condition(formulas, roots)
    shape = _shape(lambda t, y, u: found(known.system, t, y, u), known)
    if shape.shape:
        raise section.error(
            "condition",
            f"must be one number, but `{text}` is an array of the shape {shape.shape}. Take elements, such as x.0.",
        )
    return found, direction


def _shape(function: Callable[..., Any], known: Known) -> Any:
    """The shape of a function of (t, y, inputs), without a number computed."""
    dtype = jnp.result_type(*jax.tree.leaves(known.y0))
    number = jax.ShapeDtypeStruct((), dtype)
    return jax.eval_shape(function, number, known.y0, dict.fromkeys(known.inputs, number))


def _change(section: Section, known: Known, value: bool) -> Change:
    table = section.section("change")
    given = entries(table, lambda entry: False)
    if not given:
        raise section.error("change", 'must give a component of the state, such as { speed = "-0.9 * speed" }.')
    paths, texts = [], []
    for name, text in given.items():
        try:
            path = known.state(name)
        except UnknownNameError as error:
            raise UnknownNameError(f"{table.where(name)}: {error}") from error
        paths.append(path)
        texts.append((table.where(name), formula_text(table, name, text)))
    formulas, roots = read_formulas(texts, known, value=value)
    made = Change(formulas, tuple(roots), tuple(paths))
    for name, path, root in zip(given, paths, roots, strict=True):
        setup = Setup(None, known.y0)
        where, index = setup.locate(path)
        wanted = () if index else setup.leaves()[where].shape
        shape = _shape(lambda t, y, u, root=root: values_of(formulas, [root], known.system, t, y, u, t)[0], known).shape
        if shape not in ((), wanted):
            raise table.error(name, f"must be a number or have the shape {wanted}, but its shape is {shape}.")
    return made


def _times(section: Section, last: float | None) -> np.ndarray:
    """`at`: a time or times; with `every` repeated, `additional` times or up to the end of the study."""
    given = section.table["at"]
    times = [section.number("at")] if is_number(given) else section.numbers("at")
    if not times or any(isinstance(t, list) for t in times):
        raise section.error("at", f"must be a time or an array of times, but it is `{given}`.")
    at = np.asarray(times, float)
    if "every" not in section:
        if "additional" in section:
            raise section.error("additional", "goes with an interval, `every`, which is not given.")
        return at
    every, more = section.number("every"), section.count("additional", least=0, most=MOST_TIMES)
    assert every is not None
    if every <= 0:
        raise section.error("every", f"must be positive, but it is {every:g}.")
    if len(at) != 1:
        raise section.error("every", f"goes with one time, `at`, that of the first, but there are {len(at)}.")
    if more is None:
        if last is None:
            raise section.error("every", "must come with `additional`, how many follow, since the study says no times.")
        more = max(0, int((last - at[0]) / every))
        more += bool(at[0] + (more + 1) * every <= last)  # what the quotient rounded away
    if more > MOST_TIMES:
        raise section.error("every", f"makes {more:,} times up to {last:g}, but at most {MOST_TIMES:,} are allowed.")
    return at[0] + every * np.arange(more + 1)


def _values(section: Section, at: np.ndarray | None) -> np.ndarray | None:
    """`values`: a number for each time, or one for all, which formulas of `change` call `value`."""
    if "values" not in section or at is None:
        return None
    given = section.table["values"]
    numbers = [section.number("values")] if is_number(given) else section.numbers("values")
    if any(isinstance(x, list) for x in numbers) or len(numbers) not in (1, len(at)):
        raise section.error("values", f"must be one number for each of {len(at)} times, but it is `{given}`.")
    return np.broadcast_to(np.asarray(numbers, float), at.shape).copy()
