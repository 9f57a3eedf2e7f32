"""Definitions of computations, in words that can be compared and hashed."""

import ast
import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import json
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

# Classes from here are told by their names: their source changes with the version, which is part of the definition.
LIBRARIES = (
    "simkit.core",
    "simkit.engine",
    "simkit.solvers",
    "simkit.sweeps",
    "equinox",
    "diffrax",
    "jax",
    "numpy",
    "numpyro",
    "optax",
    "builtins",
    "abc",
    "collections",
    "typing",
)


def describe(parts: Mapping[str, Any]) -> dict[str, str]:
    """One line of text for every number, array, setting and piece of source in `parts`, by dotted name.

    Arrays are told by shape, float type and SHA-256, small ones by their values as well; functions and classes by their
    source without comments and docstrings. What a function calls is not followed.
    """
    version = importlib.metadata.version("simkit").split(".")
    found = {"simkit version": ".".join(version[: 2 if version[0] == "0" else 1])}
    for name, value in parts.items():
        _walk(name, value, found, ())
    return found


def fingerprint(definition: Mapping[str, str]) -> str:
    """The SHA-256 of a definition."""
    return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """List the differences between the definition in a store and the present one, in words."""
    found = []
    for name in sorted({*there, *here}, key=lambda name: (name.startswith("the source"), name)):
        before, now = there.get(name), here.get(name)
        if before == now:
            continue
        if name.startswith("the source"):
            found.append(f"{name} differs")
        elif before is None or now is None:
            found.append(f"`{name}` is {before or 'absent'} there and {now or 'absent'} here")
        else:
            found.append(f"`{name}` is {_short(before)} there and {_short(now)} here")
    return found


def _walk(name: str, node: Any, found: dict[str, str], above: tuple[int, ...]) -> None:
    if id(node) in above:  # a function that closes over itself
        return
    above = (*above, id(node))
    walk = functools.partial(_walk, found=found, above=above)
    if eqx.is_array_like(node) and not isinstance(node, int | float | complex):
        found[name] = _array(node)
    elif isinstance(node, functools.partial):
        found[name] = "partial"
        walk(f"{name}.func", node.func)
        walk(f"{name}.args", node.args)
        walk(f"{name}.keywords", node.keywords)
    elif isinstance(node, type):
        _class(name, node, found)
    elif dataclasses.is_dataclass(node):
        _class(name, type(node), found)
        for field in dataclasses.fields(node):
            walk(_join(name, field.name), getattr(node, field.name, None))
    elif isinstance(node, Mapping):
        found[name] = f"mapping of {', '.join(map(str, node)) or 'nothing'}"
        for key, value in node.items():
            walk(_join(name, str(key)), value)
    elif isinstance(node, list | tuple):
        found[name] = f"{type(node).__name__} of {len(node)}"
        for index, value in enumerate(node):
            walk(f"{name}.{index}", value)
    elif isinstance(node, types.ModuleType):
        found[name] = node.__name__
    elif callable(node):
        _function(name, node, found, walk)
    else:
        text = repr(node)
        found[name] = type(node).__qualname__ if " at 0x" in text else text


def _join(name: str, field: str) -> str:
    """A system's own fields go by their names alone, as paths do."""
    return field if name == "system" else f"{name}.{field}"


def _class(name: str, kind: type, found: dict[str, str]) -> None:
    found[name] = f"{kind.__module__}.{kind.__qualname__}"
    for part in kind.__mro__:
        if not (part.__module__ + ".").startswith(tuple(f"{library}." for library in LIBRARIES)):
            found[f"the source of {part.__qualname__}"] = _hash(_source(part))
            for method in vars(part):
                function = inspect.unwrap(getattr(part, method)) if callable(getattr(part, method, None)) else None
                # What `dataclasses` makes differs from Python to Python.
                if isinstance(function, types.FunctionType) and function.__globals__.get("__name__") != "dataclasses":
                    for variable, value in _constants_read(function).items():
                        found[f"{part.__qualname__}.{variable}"] = value


def _function(name: str, function: Callable[..., Any], found: dict[str, str], walk: Callable[..., None]) -> None:
    plain: Any = inspect.unwrap(function)
    if isinstance(plain, types.MethodType):
        walk(f"{name}.self", plain.__self__)
        plain = plain.__func__
    label = getattr(plain, "__qualname__", type(plain).__qualname__)
    found[name] = f"{getattr(plain, '__module__', None)}.{label}"
    if not isinstance(plain, types.FunctionType):
        return
    found[f"the source of {name} ({label})"] = _hash(_source(plain))
    for place, value in enumerate((*(plain.__defaults__ or ()), *(plain.__kwdefaults__ or {}).values())):
        walk(f"{name}.default{place}", value)
    for variable, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        walk(f"{name}.{variable}", value)
    for variable, value in _constants_read(plain).items():
        found[f"{name}.{variable}"] = value


def _constants_read(function: types.FunctionType) -> dict[str, str]:
    """Numbers, texts and arrays of its module that a function reads, by name."""
    todo, names = [function.__code__], set()
    while todo:
        code = todo.pop()
        names.update(code.co_names)
        todo += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    found = {}
    for name in sorted(names & set(function.__globals__)):
        value = function.__globals__[name]
        if isinstance(value, np.ndarray | jax.Array):
            found[name] = _array(value)
        elif isinstance(value, bool | int | float | complex | str | np.generic):
            found[name] = repr(value)
    return found


def _array(value: ArrayLike) -> str:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        kind = str(jax.random.key_impl(value))
        return f"{kind} {_array(jax.random.key_data(value))}"
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array[()]!s} ({array.dtype})"
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    shown = f" {array.tolist()}" if array.size <= 4 else ""
    return f"{array.dtype}{list(array.shape)}{shown} with hash {digest}"


def _source(thing: Callable[..., Any]) -> str:
    """The source without comments and docstrings, or the compiled code where no source is at hand."""
    code = getattr(inspect.unwrap(thing), "__code__", None)
    if (
        code is not None and code.co_filename == "<string>"
    ):  # made by `exec`; Python 3.13 takes `python -c` for its source
        return _code(thing)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):  # typed into a prompt, or a lambda in the middle of an expression
        return _code(thing)
    if isinstance(thing, types.FunctionType) and thing.__name__ == "<lambda>":
        lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return ast.unparse(lambdas[0]) if len(lambdas) == 1 else _code(thing)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _code(thing: Callable[..., Any]) -> str:
    if isinstance(thing, type):
        own = {name: getattr(thing, name) for name in sorted(vars(thing)) if not name.startswith("__")}
        return "\n".join(f"{name} {_code(value)}" for name, value in own.items() if callable(value))
    code = getattr(inspect.unwrap(thing), "__code__", None)
    return type(thing).__qualname__ if code is None else _constants(code)


def _constants(code: types.CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} {[_constant(constant) for constant in code.co_consts]}"


def _constant(constant: object) -> str:
    if isinstance(constant, types.CodeType):
        return _constants(constant)
    # The order of a set differs from process to process.
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _short(text: str) -> str:
    head, mark, digest = text.partition(" with hash ")
    return f"{head} with hash {digest[:8]}..." if mark else text if len(text) < 80 else f"{text[:77]}..."
