"""The conda recipe says of dependencies, versions, script and licence what pyproject.toml says."""

import pathlib
import re
import tomllib

import pytest

import simkit

yaml = pytest.importorskip("yaml")
ROOT = pathlib.Path(__file__).parents[1]
CONDA_NAMES = {"matplotlib": "matplotlib-base"}
"""Packages that conda-forge has under another name: this one leaves out the windows of Matplotlib."""


def recipe():
    return yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def split(requirement):
    name, version = re.fullmatch(r"([A-Za-z0-9_-]+)\s*(.*)", requirement).groups()
    return name, version


def test_dependencies_agree():
    held = dict(map(split, recipe()["requirements"]["run"]))
    wanted = {
        CONDA_NAMES.get(name, name): version for name, version in map(split, project()["project"]["dependencies"])
    }
    assert held.pop("python") == ">=${{ python_min }}"
    assert held == wanted
    host = dict(map(split, recipe()["requirements"]["host"]))
    (builder,) = project()["build-system"]["requires"]
    assert ("hatchling", host["hatchling"]) == split(builder)


def test_version_python_script_and_licence_agree():
    made, known = recipe(), project()["project"]
    assert made["schema_version"] == 1
    assert made["context"]["version"] == simkit.__version__
    assert known["requires-python"] == f">={made['context']['python_min']}"
    scripts = [f"{name} = {target}" for name, target in known["scripts"].items()]
    assert made["build"]["python"]["entry_points"] == scripts
    assert made["build"]["noarch"] == "python"
    assert made["about"]["license"] == known["license"]
    assert (ROOT / made["about"]["license_file"]).exists()
