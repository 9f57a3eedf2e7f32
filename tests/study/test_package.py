"""`simkit new --package`: what it writes installs, passes its own tests, and is found by its study."""

import os
import pathlib
import subprocess
import sys
import tomllib
import zipfile

import pytest

import simkit
from simkit.cli import main

ROOT = pathlib.Path(simkit.__file__).parents[1]


@pytest.fixture
def package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "--package", "my-models"]) == 0
    assert 'cd my-models\n  pip install -e ".[test]"\n  pytest' in capsys.readouterr().out
    return tmp_path / "my-models"


def test_what_is_written(package, capsys):
    found = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    assert found == {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "study.toml",
        "src/my_models/__init__.py",
        "src/my_models/_cooling.py",
        "tests/test_cooling.py",
    }
    project = tomllib.loads((package / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["simkit.systems"] == {"my_models_cooling": "my_models:Cooling"}
    assert main(["new", "--package", "my-models"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["new", "--package", "my models"]) == 2
    assert "must be of letters" in capsys.readouterr().err
    assert main(["new", "--package", "simkit"]) == 2
    assert "must not be called `simkit`" in capsys.readouterr().err


def test_six_lines_of_the_system_are_no_physics(package):
    lines = (package / "src" / "my_models" / "_cooling.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith('"""')]
    frame = [line for line in code if line.split()[0] in ("import", "class", "def", "@classmethod")]
    assert len(frame) == 6
    assert len(code) == 10  # two quantities, the field and the example


def test_its_own_tests_pass_once_it_is_installed(package, tmp_path):
    """Its wheel is made by the build backend and unpacked, as an installer does, without the network."""
    build = "import sys\nfrom hatchling.build import build_wheel\nprint(build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(tmp_path)]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(tmp_path / "site")
    paths = os.pathsep.join([str(ROOT), str(tmp_path / "site")])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=package,
        env=environment | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout
