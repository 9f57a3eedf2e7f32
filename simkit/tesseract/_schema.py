"""Schemas of a component: nested models of pydantic for arrays that have dotted names."""

import importlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._errors import missing_package


def _packages() -> tuple[Any, Any]:
    """Return pydantic and the runtime of Tesseract Core."""
    try:
        return importlib.import_module("pydantic"), importlib.import_module("tesseract_core.runtime")
    except ImportError as error:
        raise missing_package("A Tesseract", "tesseract-core", "tesseract") from error


def schema(name: str, doc: str, arrays: Mapping[str, Any], words: Mapping[str, str]) -> Any:
    """A model with one differentiable array for each name; the parts of a dotted name are nested models.

    **Arguments:**

    - `name`, `doc`: of the model.
    - `arrays`: dotted name -> an array, which is the default, or a `jax.ShapeDtypeStruct`, which has none.
    - `words`: dotted name -> description.
    """
    pydantic, runtime = _packages()
    inner: dict[str, dict[str, Any]] = {}
    fields: dict[str, Any] = {}
    for path, array in arrays.items():
        first, _, rest = path.partition(".")
        if rest:
            inner.setdefault(first, {})[rest] = array
        else:
            fields[field(first)] = _field(pydantic, runtime, array, words.get(path, ""))
    for first, below in inner.items():
        said = {rest: words.get(f"{first}.{rest}", "") for rest in below}
        model = schema(f"{name}_{first}", f"The parts of `{first}`.", below, said)
        known = all(isinstance(array, np.ndarray) for array in below.values())
        fields[field(first)] = (model, pydantic.Field(default_factory=model) if known else ...)
    made = types.new_class(name, (pydantic.BaseModel,), {}, lambda space: space.update(_space(pydantic, doc, fields)))
    return made


def field(word: str) -> str:
    """The name of a field for a part of a dotted name: a position n in a list becomes `item_n`."""
    return f"item_{word}" if word.isdigit() else word


def nested(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries of arrays that have dotted names."""
    found: dict[str, Any] = {}
    for path, array in arrays.items():
        *heads, last = map(field, path.split("."))
        inner = found
        for head in heads:
            inner = inner.setdefault(head, {})
        inner[last] = array
    return found


def _field(pydantic: Any, runtime: Any, array: Any, doc: str) -> Any:
    kind = getattr(runtime, str(np.dtype(array.dtype)).capitalize())
    annotation = runtime.Differentiable[runtime.Array[tuple(array.shape), kind]]
    if not isinstance(array, np.ndarray):
        return annotation, pydantic.Field(description=doc)
    return annotation, pydantic.Field(default_factory=lambda: array, description=doc)


def _space(pydantic: Any, doc: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the namespace of a model."""
    space: dict[str, Any] = {
        "__doc__": doc,
        "__module__": __name__,
        "model_config": pydantic.ConfigDict(extra="forbid"),
    }
    return (
        space
        | {"__annotations__": {k: a for k, (a, _) in fields.items()}}
        | {k: f for k, (_, f) in fields.items() if f is not ...}
    )
