"""Studies as components, and the folder from which a Tesseract is built or served."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from .._doors import check_kind
from .._errors import ArgumentError
from ..study import Study
from ._component import Component, from_problem, from_system

API = '''"""The study `{study}` as a Tesseract."""

import pathlib

import simkit
from simkit.tesseract import from_study

HERE = pathlib.Path(__file__).parent
simkit.enable_x64()
component = from_study(simkit.load_study(HERE / {study!r}{models}))
InputSchema, OutputSchema = component.schemas()
apply, jacobian, jacobian_vector_product, vector_jacobian_product, abstract_eval = component.endpoints
'''

CONFIG = """name: {name}
version: "0.1.0"
description: {description}
build_config:
  package_data:
{data}
"""


def from_study(study: Study) -> Component:
    """Make a component of a study: of its problem, where it has data and unknowns, else of its simulation.

    **Raises:** what `from_problem` and `from_system` raise, and an `ArgumentError` where the study has neither a problem nor an
    initial state.
    """
    _check(study)
    if study.given is not None or (study.experiments and study.free):
        return from_problem(study.problem())
    if study.y0 is None:
        raise ArgumentError(
            f"Argument `study` must have data and unknowns, or an initial state in [y0], but `{study.name}` has neither."
        )
    return from_system(study.system, study.y0, study.simulation_times, inputs=study.inputs, **study.solve)


def study_files(study: Study) -> Mapping[Path, str]:
    """The files of a Tesseract of a study, by their paths within its folder: `tesseract build FOLDER` makes an image of it.

    They are `tesseract_api.py`, which `Tesseract.from_tesseract_api` takes without an image, its configuration and requirements,
    and the study itself with its data and the Python files of its own models.

    **Raises:** an `ArgumentError` where a file of the study lies outside its folder.
    """
    _check(study)
    kept = {study.name: study.text, **study.files, **study.sources}
    for name in kept:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ArgumentError(f"Files of `{study.name}` must lie in its folder to go with it, but `{name}` does not.")
    sources = ", ".join(f"HERE / {name!r}" for name in study.sources)
    models = f", models=simkit.study.load_models({sources})" if sources else ""
    stem = "".join(c if c.isalnum() else "_" for c in Path(study.name).stem).lower()
    made = {
        "tesseract_api.py": API.format(study=study.name, models=models),
        "tesseract_config.yaml": CONFIG.format(
            name=stem,
            description=json.dumps(study.title or study.name),
            data="\n".join(f"    - [{json.dumps(name)}, {json.dumps(name)}]" for name in kept),
        ),
        "tesseract_requirements.txt": "simkit\n",
    }
    return {Path(name): text for name, text in (kept | made).items()}


def _check(study: object) -> None:
    check_kind("study", study, Study, "a study", "Read one: `simkit.load_study('study.toml')`.")
