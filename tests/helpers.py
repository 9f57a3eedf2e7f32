"""Helpers that more than one test file needs."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import jax
import numpy as np

from simkit.stores import seal


def tree_allclose(found: Any, expected: Any, *, rtol: float = 1e-7, atol: float = 0.0) -> bool:
    """Whether two pytrees have the same structure, shapes, and values within a tolerance."""
    if jax.tree.structure(found) != jax.tree.structure(expected):
        return False
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=rtol, atol=atol) for a, b in pairs)


def tree_bitwise_equal(found: Any, expected: Any) -> bool:
    """Whether two pytrees have the same structure, shapes, dtypes and values, NaN equal to NaN."""
    if jax.tree.structure(found) != jax.tree.structure(expected):
        return False
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(
        np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
        for a, b in pairs
    )


def mean_within(samples: Any, expected: float, *, sigmas: float = 5.0) -> bool:
    """Whether the mean of independent samples lies within so many of its own standard errors of the expected value.

    Five standard errors: a right program fails once in two million draws, and with a fixed key always or never.
    """
    samples = np.asarray(samples, float)
    return bool(abs(samples.mean() - expected) <= sigmas * samples.std(ddof=1) / np.sqrt(samples.size))


@contextlib.contextmanager
def resealed(path: Path, *, sealed: bool = True) -> Iterator[h5py.File]:
    """Change a file of results as a program may that knows how simkit's checksum is made, or leave the checksum away."""
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b"\nsimkit sha256 ")])
    with h5py.File(path, "r+") as file:
        yield file
    if sealed:
        seal(path)


def schema_faults(value, schema, root=None, place=""):
    """Places at which a value breaks a JSON schema, for the words of draft 7 that simkit writes."""
    root = schema if root is None else root
    if "$ref" in schema:
        return schema_faults(value, root["definitions"][schema["$ref"].rpartition("/")[2]], root, place)
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    found, wanted = [], schema.get("type", list(kinds))
    allowed = [kinds[kind] for kind in ([wanted] if isinstance(wanted, str) else wanted)]
    plain = isinstance(value, bool) and bool not in allowed
    if plain or not any(isinstance(value, kind) for kind in allowed):
        return [f"{place}: {value!r} is not {wanted}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        found.append(f"{place}: {value!r} is not among the choices")
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        found.append(f"{place}: {value!r} is too small")
    if "anyOf" in schema and all(schema_faults(value, one, root, place) for one in schema["anyOf"]):
        found.append(f"{place}: {value!r} is none of the kinds")
    for rule in schema.get("allOf", ()):
        if not schema_faults(value, rule["if"], root, place):
            found += schema_faults(value, rule["then"], root, place)
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += schema_faults(item, schema["items"], root, f"{place}.{i}")
    if isinstance(value, dict):
        found += [f"{place}: {key} is missing" for key in schema.get("required", ()) if key not in value]
        rest = schema.get("additionalProperties", {})
        for key, item in value.items():
            inner = f"{place}.{key}".lstrip(".")
            own = schema.get("properties", {}).get(key, rest)
            found += [f"{inner}: is not known"] if own is False else schema_faults(item, own, root, inner)
    return found


def in_processes(script, folder, count=2):
    """The files that some processes have written which run a script together."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    flags = os.environ.get("XLA_FLAGS", "").replace("--xla_force_host_platform_device_count=2", "")
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    results = [folder / f"{number}.npz" for number in range(count)]
    children = [
        subprocess.Popen(
            [sys.executable, script, address, str(number), result, str(count)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, result in enumerate(results)
    ]
    try:
        for child in children:
            output, _ = child.communicate(timeout=400)
            assert child.returncode == 0, output
    finally:
        for child in children:
            child.kill()
            child.communicate()
    return results


def check_units_and_precision(measured: Callable[..., np.ndarray]) -> None:
    """Ask for what does not depend on units: the same with lengths and times of 1e-12, and in single precision.

    **Arguments:** `measured`: function of the units of length and time, and of `dtype`.
    """
    known = measured()
    # Lengths of 1e-9 have moments of inertia of 1e-36; shorter ones are for double precision.
    np.testing.assert_allclose(measured(1e-12, 1e-12), known, rtol=1e-5)
    single = measured(dtype=np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, known, rtol=1e-3)
