"""The command line: the verbs over study files."""

from ._main import main as main
