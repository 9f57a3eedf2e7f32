"""The entry of the package: its lazy names, what a checker sees of them, and `python -m simkit`."""

import ast
import pathlib
import subprocess
import sys

import simkit


def test_checkers_see_the_names_that_load_on_first_use():
    """A name that only one of the two knows would be an error for users of checkers, or a wrong completion."""
    tree = ast.parse(pathlib.Path(simkit.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name: module or name for name, module in seen.items()} == simkit._LAZY


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "simkit", "--version"], capture_output=True, text=True, check=True)
    assert simkit.__version__ in done.stdout
