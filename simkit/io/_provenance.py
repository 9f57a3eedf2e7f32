"""Where a result comes from: enough to make it again."""

import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import jax
import jax.numpy as jnp

from ._models import MODELS
from ._study import Study, study_from_text

PACKAGES = ("simkit", "jax", "jaxlib", "diffrax", "equinox", "numpyro", "optax", "numpy", "h5py")


@dataclasses.dataclass(frozen=True)
class Provenance:
    """What a result was made from, with what, when and how.

    - `versions`: of Python and of the packages that compute.
    - `platform`, `device`, `devices`, `float_type`: what it ran on.
    - `study_name`, `study`, `study_sha256`: the study file; `files`: the texts of its data files, `files_sha256` their hashes.
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

    def load_study(self, models: Mapping[str, Any] = MODELS) -> Study:
        """The study as it was, with the data as they were.

        **Raises:** a `StudyError` where the result was not made from a study file.
        """
        return study_from_text(
            self.study, name=self.study_name or "no study", read=self.files, models=models, seed=self.seed
        )


def provenance(
    study: Study | None = None,
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
    )


def write_provenance(group: h5py.Group, made: Provenance) -> None:
    """One dataset of text a field; what is no text as JSON."""
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        text = value if isinstance(value, str) else json.dumps(value)
        group.create_dataset(field.name, data=text, dtype=h5py.string_dtype())


def read_provenance(group: h5py.Group) -> Provenance:
    """What `write_provenance` wrote."""
    texts = {str(name): dataset.asstr()[()] for name, dataset in group.items()}
    plain = {field.name for field in dataclasses.fields(Provenance) if field.type in (str, "str")}
    return Provenance(**{name: text if name in plain else json.loads(text) for name, text in texts.items()})


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def installed_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
