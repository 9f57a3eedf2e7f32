"""Systems and states as verbs take them, checked before anything is traced."""

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._doors import class_name, shown
from .._errors import ArgumentError, check_known
from .._types import State
from ._coupled_system import CoupledSystem
from ._names import named_leaves
from ._patched_system import PatchedSystem
from ._quantity import as_float_array
from ._system import ConstrainedSystem, SeparableSystem, StaticSystem, System
from ._trajectory import Trajectory


def check_system(system: Any, y0: Any = None) -> None:
    """Refuse what is no system, such as its class; and arguments that have changed places.

    **Raises:** an `ArgumentError`.
    """
    if isinstance(system, System):
        if isinstance(system, ConstrainedSystem):
            _check_mass(system)
        return
    if isinstance(y0, System):
        raise ArgumentError(
            f"Argument `system` must be a system and `y0` a state, but they are {shown(system)} and {shown(y0)}. The order is "
            "system, state, times."
        )
    remedy = "`simkit.odes.LotkaVolterra()` is one; `simkit.from_function(f, parameters)` makes one of a function."
    if isinstance(system, type) and issubclass(system, System):
        remedy = (
            f"Make one: `{class_name(system)}(...)`; `{class_name(system)}.example()` gives one with a state and times."
        )
    elif callable(system):
        remedy = "`simkit.from_function(f, parameters)` makes a system of a function `f(t, y, parameters)`."
    raise ArgumentError(f"Argument `system` must be a system, but it is {shown(system)}. {remedy}")


def _check_mass(system: ConstrainedSystem) -> None:
    """Refuse a mass matrix that reads more than the time."""
    signature = inspect.signature(system.mass)
    try:
        signature.bind(0.0)
    except TypeError as error:
        raise ArgumentError(
            f"`mass` of {type(system).__name__} must be a function of (t), since M must not depend on the state, but it takes "
            f"{signature}. Take the slopes z as further states: y' = z and the algebraic equations 0 = M(t, y) z - f(t, y)."
        ) from error


def as_state(system: System, y0: Any, name: str = "y0") -> State:
    """The state with float arrays for leaves; a dictionary becomes the state that the system declares.

    **Raises:** an `ArgumentError` or an `UnknownNameError` that names the components of the state.
    """
    if isinstance(system, CoupledSystem):
        return _of_parts(system, y0, name)
    if isinstance(system, PatchedSystem):
        return _of_patches(system, y0, name)
    if not isinstance(y0, eqx.Module):
        y0 = _declared(system, y0, name)
    elif isinstance(y0, System | Trajectory):
        remedy = "The last state of a trajectory is `trajectory.final()`." if isinstance(y0, Trajectory) else ""
        raise ArgumentError(f"Argument `{name}` must be a state, but it is {shown(y0)}. {remedy}".strip())
    try:
        return jax.tree.map(as_float_array, y0)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold numbers, but {_no_number(y0)}.") from error


def _of_parts(system: CoupledSystem, y0: Any, name: str) -> State:
    """The states of the parts of a coupled system, each as its part declares it."""
    names = ", ".join(f"`{part}`" for part in system.parts)
    if not isinstance(y0, Mapping):
        raise ArgumentError(
            f"Argument `{name}` must be a dictionary of the states of the parts, {names}, but it is {shown(y0)}."
        )
    for key in y0:
        check_known(str(key), system.parts, "part of the coupled system")
    for part in system.parts:
        if part not in y0:
            raise ArgumentError(
                f"Argument `{name}` must hold the states of all parts, {names}, but `{part}` is missing."
            )
    return {part: as_state(known, y0[part], f"{name}.{part}") for part, known in system.parts.items()}


def _of_patches(system: PatchedSystem, y0: Any, name: str) -> State:
    """The states of all patches along a first axis, those of one patch as the model declares them."""
    try:
        arrays = jax.tree.map(as_float_array, y0, is_leaf=lambda x: isinstance(x, list))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold numbers, but {_no_number(y0)}.") from error
    shapes = {path: np.shape(leaf) for path, leaf in named_leaves(arrays).items()}
    for path, shape in shapes.items() or {"": ()}.items():
        if shape[:1] != (system.count,):
            where = f" at `{path}`" if path else ""
            raise ArgumentError(
                f"Argument `{name}` must hold the states of all {system.count} patches along a first axis, but{where} its shape is "
                f"{shape}."
            )
    state = jax.vmap(lambda one: as_state(system.patch, one, name))(arrays)
    if isinstance(system.exchange, Mapping):
        check_movers(system.patch, system.exchange, named_leaves(state))
    return state


def check_movers(system: System, names: Iterable[str], known: Iterable[str] | None = None) -> None:
    """Refuse an exchange by names of states that a model does not have, as far as the model declares its state.

    **Arguments:** `known`: the names of all states, where one is at hand.

    **Raises:** an `UnknownNameError` that lists the names.
    """
    if known is None:
        kind = _state_kind(type(system))
        if kind is None:
            return
        known = [field.name for field in dataclasses.fields(kind)]
        names = [name.split(".")[0] for name in names]
    known = list(known)
    for name in names:
        if not any(f"{path}.".startswith(f"{name}.") for path in known):
            check_known(name, known, f"state of `{type(system).__name__}`, which `exchange` moves,")


def _declared(system: System, y0: Any, name: str) -> Any:
    """Convert a mapping or a sequence to the state type that the system's field declares, if it declares one."""
    kind = None if isinstance(system, StaticSystem) else _state_kind(type(system))
    if isinstance(y0, type):
        raise ArgumentError(
            f"Argument `{name}` must be a state, but it is {shown(y0)}. Make one: `{class_name(y0)}(...)`."
        )
    if kind is None:
        if y0 is None and not isinstance(system, StaticSystem):
            raise ArgumentError(f"Argument `{name}` must be the state at the first time, but it is None.")
        if isinstance(y0, dict | list | tuple) and not isinstance(system, StaticSystem):
            _check_whole(y0, name)
        return y0
    label = _label(system, kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    names = [field.name for field in fields]
    if not isinstance(y0, Mapping):
        example = ", ".join(f"{field}=..." for field in names)
        raise ArgumentError(
            f"Argument `{name}` must be the state of {type(system).__name__}, a `{label}`, but it is {shown(y0)}. Write "
            f"`{label}({example})`, or a dictionary with these names."
        )
    for key in y0:
        check_known(str(key), names, f"component of `{label}`, the state of {type(system).__name__},")
    needed = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    missing = [field for field in needed if field not in y0]
    if missing:
        raise ArgumentError(
            f"Argument `{name}` must hold all components of `{label}`, {', '.join(names)}, but `{missing[0]}` is missing."
        )
    try:
        return kind(**y0)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"Argument `{name}` must hold numbers, but {_no_number(dict(y0))}.") from error


def _label(system: System, kind: type) -> str:
    """The name of a state's class as a user reaches it."""
    nested = getattr(type(system), "State", None) is kind
    return f"{class_name(type(system))}.State" if nested else class_name(kind)


def _check_whole(y0: Any, name: str) -> None:
    """Refuse a state without numbers, or with None for one."""
    leaves = jax.tree_util.tree_flatten_with_path(y0, is_leaf=lambda x: x is None)[0]
    if not leaves:
        raise ArgumentError(f"Argument `{name}` must hold the numbers of the state, but it is {shown(y0)}.")
    for path, leaf in leaves:
        if leaf is None:
            raise ArgumentError(
                f"Argument `{name}` must hold numbers, but at `{jax.tree_util.keystr(path)}` it is None."
            )


@functools.cache
def _state_kind(kind: type[System]) -> Any:
    """The module that a class of systems declares as its state by the annotations of its methods; None where it declares none."""
    own = [getattr(kind, name) for name in ("drift", "delayed_field") if hasattr(kind, name)]  # of families
    for method in (*own, kind.vector_field, kind.outputs, kind.encode):
        try:
            found = inspect.get_annotations(inspect.unwrap(method), eval_str=True).get("y")
        except NameError:  # an annotation that stands for type checkers alone
            continue
        if isinstance(found, type) and issubclass(found, eqx.Module) and not inspect.isabstract(found):
            return found if dataclasses.is_dataclass(found) and dataclasses.fields(found) else None
    return kind.State if issubclass(kind, SeparableSystem) else None


def _no_number(tree: Any) -> str:
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        try:
            as_float_array(leaf)
        except (TypeError, ValueError):
            place = jax.tree_util.keystr(path)
            return f"{f'at `{place}` ' if place else ''}it is {shown(leaf)}"
    return "one of them is none"


def told(tree: Any) -> str:
    """The names that a state or the values of inputs have, for a message."""
    if tree is None:
        return "None"
    names = [name for name in named_leaves(tree) if name]
    if not names:
        return f"an array of shape {np.shape(tree)}" if hasattr(tree, "shape") else shown(tree)
    return f"{class_name(type(tree))} with {', '.join(f'`{name}`' for name in names[:8])}" + (
        " ..." if len(names) > 8 else ""
    )


MISTAKES = (KeyError, TypeError, AttributeError, IndexError)
"""The exceptions of a function that is given a state or inputs of another form than it expects."""


def misfit(error: Exception, system: System, y: Any, inputs: Any) -> str | None:
    """A sentence on an exception of a system's own function that a state or inputs of another form explains; None for others."""
    name = f"`{type(system).__name__}`"
    text = str(error)
    given = f"The state is {told(y)}, the inputs are {told(inputs)}."
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        own = getattr(system, "parameters", None)
        given = f"{given[:-1]}, the parameters are {told(own)}." if isinstance(own, Mapping) else given
        return f"{name} asks for `{error.args[0]}`, which nothing that it is given has. {given}"
    if "NoneType" in text and inputs is None:
        return (
            f"{name} reads inputs, so argument `inputs` must give them, but it is None ({text}). "
            "Write `inputs={name: signal}`."
        )
    kinds = [type(tree).__name__ for tree in (y, inputs) if tree is not None]
    if isinstance(error, TypeError | AttributeError | IndexError) and any(
        f"'{kind}'" in text or kind in text for kind in kinds
    ):
        return f"{name} cannot work with the form of its state or inputs ({type(error).__name__}: {text}). {given}"
    return None
