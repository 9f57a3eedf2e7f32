"""What an installation contains."""

import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, stdin=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("simkit-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA")]
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "simkit").rglob("*.py")}
    own = {name for name in names if not name.startswith("simkit/_gallery/")}
    assert {name for name in own if name.endswith(".py")} == sources
    assert "simkit/py.typed" in names
    gallery = {name.removeprefix("simkit/_gallery/") for name in names if name.startswith("simkit/_gallery/")}
    stories = [path for folder in ("examples", "data") for path in (ROOT / folder).rglob("*") if path.is_file()]
    assert gallery == {str(path.relative_to(ROOT)) for path in stories if ".ipynb_checkpoints" not in path.parts}
    assert len(licences) == 1
    assert "License-Expression: Apache-2.0" in metadata


@pytest.mark.slow
def test_sdist_holds_what_a_reader_and_a_packager_need(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    (archive,) = tmp_path.glob("simkit-*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    wanted = {
        "LICENSE",
        "CITATION.cff",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "pyproject.toml",
        ".ci/run",
    }
    wanted |= {"docs/conf.py", "docs/getting_started.md", "tests/conftest.py", "simkit/py.typed", "data/README.md"}
    wanted |= {f"examples/{path.name}" for path in (ROOT / "examples").iterdir() if path.suffix in (".ipynb", ".toml")}
    assert wanted <= names
    assert not any("__pycache__" in name or name.startswith((".venv", "docs/_build")) for name in names)


def test_extras_that_messages_and_pages_name_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    files = [*(ROOT / "simkit").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {name for file in files for name in re.findall(r"simkit\[([a-z0-9]+)\]", file.read_text(encoding="utf-8"))}
    assert {"dask", "md", "mp4", "view"} <= named <= set(extras)


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    source = (ROOT / "simkit" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)
    assert f"version: {version}\n" in citation
