"""The documentation's configuration; `sphinx-build --fail-on-warning docs docs/_build/html` builds it."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "_extensions"))

os.environ["SIMKIT_PROGRESS"] = "0"  # no lines of progress among the outputs of pages

from simkit import __version__

project = "simkit"
author = "The simkit developers"
copyright = author
release = version = __version__

# MathJax is a part of the built pages, so that they need no address outside.
extensions = [
    "myst_nb",
    "public_names",
    "source_pages",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_design",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
# What a cell writes to the error stream is a warning, and warnings end the build.
nb_output_stderr = "warn"
# Docstrings speak of names of other packages, which have no page here.
nitpicky = False

exclude_patterns = ["examples/README.md", "_build", "jupyter_execute", "**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"simkit {version}"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]  # for agents; tests/test_llms.py makes it
html_css_files = ["figures.css"]
html_js_files = ["accessible.js"]
templates_path = []
python_use_unqualified_type_names = True
