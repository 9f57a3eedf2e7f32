"""The public names: a stored snapshot, the documentation, and what importing simkit costs.

`python tests/test_api.py` writes the snapshot anew.
"""

import functools
import json
import pathlib
import re
import subprocess
import sys

import simkit

ROOT = pathlib.Path(__file__).parents[1]
SNAPSHOT = ROOT / "tests" / "api.txt"


def exported(folder: pathlib.Path) -> set[str]:
    """What a package's `__init__` exports (`X as X`) or defines."""
    source = (folder / "__init__.py").read_text()
    found = re.findall(r"^from .* as (\w+)$|^(?:def |class )?([A-Za-z]\w*)(?:\b[^=\n(]*=|\()", source, re.MULTILINE)
    return {name for pair in found for name in pair if name and name[0] != "_"}


def modules() -> list[str]:
    """The public submodules."""
    return sorted(name for name, home in simkit._LAZY.items() if name == home)


def public_names() -> list[str]:
    """Every public name of simkit and of its public submodules, dotted; each by one path, the shorter."""
    names = exported(ROOT / "simkit") | set(simkit._LAZY)
    found = {f"simkit.{name}" for name in names.difference(modules())}
    for module in modules():
        above = {name for name, home in simkit._LAZY.items() if home == module}
        found |= {f"simkit.{module}.{name}" for name in exported(ROOT / "simkit" / module) - above}
    return sorted(found)


def test_snapshot():
    assert public_names() == SNAPSHOT.read_text().split(), "run `python tests/test_api.py` if the change is meant"


def test_every_public_name_exists():
    assert {name.split(".")[1] for name in public_names()} | {"__version__"} == set(dir(simkit))
    for name in public_names():
        functools.reduce(getattr, name.split(".")[1:], simkit)


def test_every_public_name_is_documented():
    page = (ROOT / "docs" / "api.md").read_text()
    listed = set(re.findall(r"^simkit\.[\w.]+$", page, re.MULTILINE))
    whole = set(re.findall(r"^```\{public-module\} (simkit\.\w+)$", page, re.MULTILINE))
    names = {name for name in public_names() if name.rpartition(".")[0] not in whole}
    assert names == listed
    assert whole == {f"simkit.{name}" for name in modules()}


def _in_fresh_process(source: str) -> dict:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_is_light():
    heavy = {"numpyro", "optax", "matplotlib", "h5py", "pandas", "scipy.optimize", "arviz", "xarray"}
    source = "import sys, json, simkit; {use}print(json.dumps(sorted(sys.modules)))"
    assert not set(_in_fresh_process(source.format(use=""))) & {*heavy, "jax"}
    loaded = set(_in_fresh_process(source.format(use="simkit.simulate; ")))
    assert not loaded & heavy
    assert "simkit.engine" in loaded


def test_import_leaves_jax_configuration_alone():
    source = """
import json, diffrax, equinox, jax
before = dict(jax.config.values)
import simkit, simkit.odes, simkit.solvers, simkit.problem
print(json.dumps([name for name, value in jax.config.values.items() if before.get(name) != value]))
"""
    assert _in_fresh_process(source) == []


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(public_names()) + "\n")
