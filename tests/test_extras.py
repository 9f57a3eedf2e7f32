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
except ImportError as error:
    print(type(error).__name__, isinstance(error, __import__("simkit").SimkitError), error)
"""


@pytest.mark.parametrize("names", [("libsbml",), ("yaml",)])
def test_petab(names):
    """In a process of its own: here the room is loaded."""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(simkit.__file__).parents[1])}
    code = HIDDEN.format(names=names, code="import simkit; simkit.petab.load")
    made = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert made.stdout == (
        f"MissingPackageError True A PEtab problem needs the package `{names[0]}`, which is not installed. "
        'Install it with `pip install "simkit[petab]"`.\n'
    )


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("arviz", "arviz", lambda: synthetic.posterior().to_arviz()),
        ("xarray", "xarray", lambda: simkit.io.to_xarray(synthetic.posterior())),
        ("ase", "md", lambda: simkit.io.to_ase(FRAME)),
        ("py3Dmol", "view", lambda: simkit.viz.view_atoms(FRAME.space, FRAME.position)),
    ],
)
def test_others(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(simkit.MissingPackageError, match=rf'Install it with `pip install "simkit\[{extra}\]"`'):
        call()
