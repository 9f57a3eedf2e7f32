"""A JSON schema of study files, by which editors complete and check them while one types."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...core import System
from ._keys import Key, Table
from ._language import LANGUAGE, noise_table
from ._names import SYSTEMS

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The version of the standard that editors for TOML know."""

PLAIN: Mapping[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "number": {"type": "number"},
    "true or false": {"type": "boolean"},
    "an array": {"type": "array"},
    "a table": {"type": "object"},
    "numbers": {"type": "array", "items": {"type": ["number", "array"]}},
    "number or numbers": {"type": ["number", "array"]},
    "times": {"type": ["array", "object"]},
    "anything": {},
}


def study_schema(models: Mapping[str, type[System]] = SYSTEMS) -> dict[str, Any]:
    """The JSON schema (draft 7) of a study file: its tables and keys with kinds, choices, defaults and one line on each.

    Parameters and states are named by model. What one key says of another is left to `simkit check`.

    **Arguments:** `models`: the models that a study may name.

    ```python
    import json
    import simkit
    text = json.dumps(simkit.study.study_schema(), indent=2)
    ```
    """
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {"noise": _nested(noise_table(), "noise"), "free": _nested(LANGUAGE["free"], "free")}
    for name, table in LANGUAGE.items():
        if name in definitions:
            each = {"$ref": f"#/definitions/{name}"}
            properties[name] = {"type": "object", "description": table.doc, "additionalProperties": each}
        elif name == "events":
            properties[name] = {"type": "array", "description": table.doc, "items": _of_table(table)}
        else:
            properties[name] = _of_table(table)
    properties["system"]["properties"]["model"] = {
        "description": LANGUAGE["system"].keys["model"].doc,
        "anyOf": [{"enum": list(models)}, {"type": "string"}],  # a model of `--models` has another name
    }
    return {
        "$schema": DRAFT,
        "title": "A study of simkit",
        "type": "object",
        "required": ["system"],
        "additionalProperties": False,
        "properties": properties,
        "allOf": [_of_model(name, models[name]) for name in models],
        "definitions": definitions,
    }


def _of_table(table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object"}
    if table.doc:
        found["description"] = table.doc
    if table.nested:
        found["additionalProperties"] = {"type": ["object", "array", "number"]}
        return found
    found["properties"] = {key: _of_key(known) for key, known in table.keys.items()}
    found["additionalProperties"] = False if table.others is None else _of_key(table.others)
    return found


def _of_key(key: Key) -> dict[str, Any]:
    if key.kind == "count":
        found: dict[str, Any] = {"type": "integer", "minimum": key.least}
    elif key.kind == "a name":
        assert key.choices is not None
        found = {"enum": list(key.choices())}
    else:
        found = dict(PLAIN[key.kind])
        if key.bounds is not None:
            found |= {"minimum": key.bounds[0], "maximum": key.bounds[1]}
    if key.table is not None:
        inner = _of_table(key.table)
        if key.kind == "an array":
            found["items"] = inner
        else:  # of "anything" the keys count where it is a table
            found.update({name: value for name, value in inner.items() if name not in ("type", "description")})
    if key.doc:
        found["description"] = key.doc
    if key.default is not None:
        found["default"] = key.default
    return found


def _nested(table: Table, name: str) -> dict[str, Any]:
    """Tables in tables, for keys that are dotted paths; what is no key of an entry is a further part of the path."""
    own = {key: _of_key(known) for key, known in table.keys.items()}
    for key, schema in own.items():  # a part of the path may be called like a key, such as `start`
        own[key] = {
            **{k: v for k, v in schema.items() if k in ("description", "default")},
            "anyOf": [
                {k: v for k, v in schema.items() if k not in ("description", "default")},
                {"$ref": f"#/definitions/{name}"},
            ],
        }
    return {"type": "object", "properties": own, "additionalProperties": {"$ref": f"#/definitions/{name}"}}


def _of_model(name: str, kind: type[System]) -> dict[str, Any]:
    """Names of the parameters and states of a model, with units and docs."""
    then: dict[str, Any] = {"system": {"properties": {"parameters": {"properties": _quantities(kind)}}}}
    state = getattr(kind, "State", None)
    if isinstance(state, type) and (states := _quantities(state)):
        then["y0"] = {"properties": states}
    named = {"system": {"properties": {"model": {"const": name}}, "required": ["model"]}}
    return {"if": {"properties": named}, "then": {"properties": then}}


def _quantities(kind: type) -> dict[str, Any]:
    found = {}
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        known = field.metadata.get("simkit")
        if known is not None:
            unit = "" if known.unit == "1" else f" [{known.unit}]"
            found[field.name] = {"description": f"{known.doc}{unit}".strip()}
    return found
