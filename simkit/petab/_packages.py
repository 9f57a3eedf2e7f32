"""The packages that this room needs, looked for before any part of it is loaded."""

import importlib

from .._errors import missing_package

for _name in ("libsbml", "yaml"):
    try:
        importlib.import_module(_name)
    except ModuleNotFoundError as error:
        raise missing_package("A PEtab problem", error.name, "petab") from error
