"""What an installation contains."""

import pathlib
import subprocess
import sys
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
