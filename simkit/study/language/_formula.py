"""Formulas of a study file: text that becomes data over states, parameters and inputs, and is never run as code."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._errors import DataError, StudyError, UnknownNameError, check_known, close_matches
from ..._types import Inputs, State, Time
from ...core import Setup, dotted, started
from ...networks import TIME, Formulas, Graph, Reader
from ._section import Section, at_place

SORTS = ("state", "parameters", "inputs")
"""Words before a name and a dot, where a name alone has two meanings."""
VALUE = "value"
"""The name of the value of a known time."""


class Known(NamedTuple):
    """The names that formulas of a study may use, as a simulation has them.

    - `system`, `y0`: as they are given. `inputs`: the names of the inputs.
    """

    system: Any
    y0: State
    inputs: tuple[str, ...] = ()

    @classmethod
    def of(cls, system: Any, y0: State, inputs: Collection[str]) -> "Known":
        """The names of a system with a state and inputs, those with a default included."""
        state = jax.tree.map(jnp.asarray, started(y0))
        declared = {name: one for name, one in (system.reads() or {}).items() if one.default is not None}
        return cls(system, state, tuple(dict.fromkeys([*inputs, *declared])))

    def names(self, *also: str) -> list[str]:
        """All names, those with two meanings with what they belong to."""
        found = [*_states(self.y0), *(p for p in Setup(self.system).names()), *self.inputs, "t", *also]
        twice = {name for name in found if found.count(name) > 1}
        sorted_out = [f"{sort}.{name}" for name in twice for sort, _ in self.meanings(name)]
        return [name for name in found if name not in twice] + sorted_out

    def meanings(self, name: str) -> list[tuple[str, str]]:
        """Meanings of a name: sorts with paths of a `Setup`, or the names of inputs."""
        found = []
        if (path := _located(Setup(None, self.y0), _state_path(self.y0, name))) is not None:
            found.append(("state", path))
        if (path := _located(Setup(self.system), name)) is not None:
            found.append(("parameters", path))
        if name in self.inputs:
            found.append(("inputs", name))
        return found

    def symbol(self, name: str, *, value: bool = False) -> str:
        """The symbol of a name in a graph: a sort and a path.

        **Raises:** an `UnknownNameError` that lists the names, or a `DataError` for one with two meanings.
        """
        found = self.meanings(name)
        if name in ("t", "time()"):
            found = [("time", TIME)] if name == "time()" else [*found, ("time", TIME)]
        if value and name == VALUE:
            found.append(("value", VALUE))
        sort, _, rest = name.partition(".")
        if not found and sort in SORTS:
            found = [one for one in self.meanings(rest) if one[0] == sort]
        if len(found) > 1:
            ways = " or ".join("`time()`" if kind == "time" else f"`{kind}.{name}`" for kind, _ in found)
            raise DataError(f"The name `{name}` has {len(found)} meanings: write {ways}.")
        if not found:
            known = self.names(*([VALUE] if value else []))
            raise UnknownNameError(
                f"There is no state, parameter or input `{name}`. {close_matches(name, known)}{_all(name, known)}"
            )
        return ":".join(found[0])

    def state(self, name: str) -> str:
        """The path of a number or an array of the state, in a `Setup`.

        **Raises:** an `UnknownNameError`.
        """
        path = _located(Setup(None, self.y0), _state_path(self.y0, name.removeprefix("state.")))
        if path is None:
            known = _states(self.y0)
            raise UnknownNameError(
                f"There is no component of the state `{name}`. {close_matches(name, known)}{_all(name, known)}"
            )
        return path


def _all(name: str, known: Collection[str]) -> str:
    """A sentence that lists all names, where the close matches do not."""
    if close_matches(name, known).startswith("Close"):
        return " There are: " + ", ".join(f"`{one}`" for one in sorted(known)[:20]) + "."
    return ""


def _states(y0: State) -> list[str]:
    return [name.removeprefix("y0.") if name != "y0" else "y" for name in Setup(None, y0).names()]


def _state_path(y0: State, name: str) -> str:
    """The path of a component; a state that is one array is called y."""
    if eqx.is_array_like(y0):
        return f"y0{name[1:]}" if name.partition(".")[0] == "y" else "y0. "
    return f"y0.{name}"


def _located(setup: Setup, path: str) -> str | None:
    try:
        setup.locate(path)
    except KeyError:
        return None
    return path


def read_formulas(texts: Sequence[tuple[str, str]], known: Known, *, value: bool = False) -> tuple[Formulas, list[int]]:
    """Formulas, each with its place in messages, as data.

    **Arguments:** `value`: whether `value` is a name, that of the value of a known time.

    **Raises:** a `StudyError` that says what cannot be read, or which name does not exist.
    """
    graph = Graph()
    read = Reader(graph, lambda name: graph.symbol(known.symbol(name, value=value)), _no_call, {}, "the study")
    roots = []
    for place, text in texts:
        with at_place(place):
            roots.append(read.read(text, "It"))
    return Formulas(tuple(graph.nodes)), roots


def _no_call(name: str, operands: Sequence[int]) -> int:
    raise StudyError(f"the function `{name}` is not known")


def values_of(
    formulas: Formulas, roots: Sequence[int], system: Any, t: Time, y: State, inputs: Inputs, value: Any = None
) -> list[Any]:
    """The values of formulas in a simulation, in the float type of the state."""
    dtype = jnp.result_type(*jax.tree.leaves(y))
    setup = Setup(system, y)

    def lookup(symbol: str) -> Any:
        sort, _, name = symbol.partition(":")
        if sort == "inputs":
            found = dotted(inputs or {})[name]
        elif sort == "value":
            found = value
        else:
            found = t if sort == "time" else setup.get(name)
        return jnp.asarray(found).astype(dtype)

    return [jnp.asarray(one, dtype) for one in formulas.evaluate(roots, lookup)]


def number_of_formula(text: str, values: Mapping[str, float], place: str, varying: Collection[str] = ()) -> float:
    """The value of a formula of numbers by name.

    **Arguments:** `varying`: names of columns that have no single number, which messages tell from unknown ones.

    **Raises:** a `StudyError` that begins with the place.
    """
    graph = Graph()

    def symbol(name: str) -> int:
        if name in varying:
            raise DataError(f"The column `{name}` changes within the subject, so it is no covariate of one number.")
        check_known(name, values, "covariate")
        return graph.symbol(name)

    with at_place(place):
        root = Reader(graph, symbol, _no_call, {}, "the dosing table").read(text, "It")
    (found,) = Formulas(tuple(graph.nodes)).evaluate([root], values.__getitem__)
    return float(found)


def formula_text(section: Section, key: str, given: Any) -> str:
    """The text of a formula; a number counts as one."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise section.error(key, f'must be a formula such as "-0.9 * speed", but it is `{given!r}`.')
    return given if isinstance(given, str) else repr(float(given))
