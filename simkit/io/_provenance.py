"""Provenance of a result: enough to make it again."""

import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import h5py
import jax
import jax.numpy as jnp

from ..stores import texts

PACKAGES = ("simkit", "jax", "jaxlib", "diffrax", "equinox", "numpyro", "optax", "numpy", "h5py")


@runtime_checkable
class StudyFile(Protocol):
    """The part of a study that provenance keeps: its text, those of its data files and own models, and the seed."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def files(self) -> Mapping[str, str]: ...
    @property
    def seed(self) -> int: ...
    @property
    def sources(self) -> Mapping[str, str]: ...


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Origin of a result: its study, versions, time and command.

    - `versions`: of Python and of the packages that compute.
    - `platform`, `device`, `devices`, `float_type`: what it ran on.
    - `study_name`, `study`, `study_sha256`: the study file; `files`: the texts of its data files, `files_sha256` their hashes.
    - `models`: the texts of the user's own Python files with models, by name; `models_sha256` their hashes.
    - `seed`: from which every random number followed.
    - `command`, `date`, `seconds`: how it was started, when (UTC), and how long each phase took.
    """

    versions: Mapping[str, str]
    platform: str
    device: str
    devices: int
    float_type: str
    study_name: str
    study: str
    study_sha256: str
    files: Mapping[str, str]
    files_sha256: Mapping[str, str]
    seed: int | None
    command: str
    date: str
    seconds: Mapping[str, float]
    models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    models_sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)


LATER = ("models", "models_sha256")
"""Fields that files have only where they hold something; files of earlier versions have none."""


def provenance(
    study: StudyFile | None = None,
    *,
    seed: int | None = None,
    command: str | Sequence[str] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> Provenance:
    """The provenance of what this process computes now."""
    device = jax.devices()[0]
    command = sys.argv if command is None else command
    return Provenance(
        versions={"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}},
        platform=platform.platform(),
        device=f"{device.platform}, {device.device_kind}",
        devices=jax.device_count(),
        float_type=str(jnp.zeros(()).dtype),
        study_name="" if study is None else study.name,
        study="" if study is None else study.text,
        study_sha256="" if study is None else study.sha256,
        files={} if study is None else dict(study.files),
        files_sha256={} if study is None else {name: _sha256(text) for name, text in study.files.items()},
        seed=seed if seed is not None or study is None else study.seed,
        command=command if isinstance(command, str) else " ".join(command),
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=dict(seconds or {}),
        models={} if study is None else dict(study.sources),
        models_sha256={} if study is None else {name: _sha256(text) for name, text in study.sources.items()},
    )


def write_provenance(group: h5py.Group, made: Provenance) -> None:
    """One dataset of text a field; what is no text as JSON."""
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if field.name in LATER and not value:
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        group.create_dataset(field.name, data=text, dtype=h5py.string_dtype())


def read_provenance(group: h5py.Group) -> Provenance:
    """Read the result of `write_provenance`."""
    fields = [field for field in dataclasses.fields(Provenance) if field.name not in LATER or field.name in group]
    found = {field.name: _only(texts(group[field.name], group.file.id.get_filesize())) for field in fields}  # pyright: ignore
    plain = {field.name for field in fields if field.type in (str, "str")}
    values: dict[str, Any] = {name: text if name in plain else json.loads(text) for name, text in found.items()}
    kinds = {
        "devices": int,
        "seed": int | None,
        **dict.fromkeys(("versions", "files", "files_sha256", "seconds", *LATER), dict),
    }
    for name, kind in kinds.items():
        if name not in values:
            continue
        if not isinstance(values[name], kind):
            raise ValueError(f"`{name}` of the provenance is of another kind: {values[name]!r:.60}")
    return Provenance(**values)


def _only(found: Sequence[str]) -> str:
    (text,) = found
    return text


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def installed_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
