"""Packages of extras that are not installed: one sentence with the command that installs them."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import synthetic

import simkit

FRAME = simkit.md.Frame(simkit.md.OpenSpace(), np.zeros((2, 3)))
HIDDEN = """
import sys
for name in {names}:
    sys.modules[name] = None  # importing it raises a ModuleNotFoundError
try:
    {code}
except {kind} as error:
    print(type(error).__name__, error)
"""
WAYS = {
    "from simkit import petab": "MissingPackageError",
    "import simkit.petab": "MissingPackageError",
    "import simkit; simkit.petab.load": "MissingRoomError",
}


def run_without(names, code, kind="ImportError"):
    """In a process of its own: here the room is loaded."""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(simkit.__file__).parents[1])}
    text = HIDDEN.format(names=names, code=code, kind=kind)
    return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("names", [("libsbml",), ("yaml",)])
@pytest.mark.parametrize("code", WAYS)
def test_petab(names, code):
    kind = WAYS[code]
    made = run_without(names, code, "AttributeError" if kind == "MissingRoomError" else "ImportError")
    assert made.stdout == (
        f"{kind} A PEtab problem needs the package `{names[0]}`, which is not installed. "
        'Install it with `pip install "simkit[petab]"`.\n'
    )


def test_a_room_without_its_packages_is_no_attribute():
    made = run_without(
        ("libsbml",), "import simkit, inspect; inspect.getmembers(simkit); print(hasattr(simkit, 'petab'))"
    )
    assert made.stdout == "False\n"


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("arviz", "arviz", lambda: synthetic.posterior().to_arviz()),
        ("xarray", "xarray", lambda: simkit.io.to_xarray(synthetic.posterior())),
        ("fmpy", "fmi", lambda: simkit.networks.read_fmu(__file__)),
        ("ase", "md", lambda: simkit.io.to_ase(FRAME)),
        ("tesseract_core", "tesseract", lambda: simkit.tesseract.Component(None, {}, {}, {}).schemas()),
        ("petab_select", "select", lambda: simkit.petab.select("problem.yaml", lambda problem: problem)),
        ("py3Dmol", "view", lambda: simkit.viz.view_atoms(FRAME.space, FRAME.position)),
        (
            "plotly.graph_objects",
            "interactive",
            lambda: simkit.viz.interactive(simkit.viz.plot_waterfall(synthetic.fit_result())),
        ),
    ],
)
def test_others(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(simkit.MissingPackageError, match=rf'Install it with `pip install "simkit\[{extra}\]"`'):
        call()
