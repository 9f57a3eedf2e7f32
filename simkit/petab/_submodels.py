"""Submodels of SBML documents, the package `comp`: written out by libSBML, where they are not too many."""

import math

import libsbml

from .._errors import DataError

MOST_SUBMODELS = 10_000
"""Number of submodels that are written out: each may hold several, so that a short file may stand for more than any memory."""

MOST_KINDS = 400
"""Number of models that others are made of."""


def flattened(document: libsbml.SBMLDocument, name: str) -> libsbml.Model:
    """The model of a document with its submodels written out, as the package `comp` of SBML says."""
    if document.getPlugin("comp").getNumExternalModelDefinitions():
        raise DataError(
            f"The SBML file `{name}` must hold all of its submodels, but takes some from other files: not supported. Flatten it."
        )
    if _instances(document) > MOST_SUBMODELS:
        raise DataError(
            f"The submodels of the SBML file `{name}` must be at most {MOST_SUBMODELS} when written out, of at most {MOST_KINDS} "
            "kinds, none of which holds itself."
        )
    asked = libsbml.ConversionProperties()
    asked.addOption("flatten comp", True)
    asked.addOption("performValidation", False)
    done = document.convert(asked)
    model = document.getModel()
    if done != libsbml.LIBSBML_OPERATION_SUCCESS or model is None:
        errors = document.getNumErrors()
        said = document.getError(errors - 1).getMessage() if errors else "of no given reason"
        raise DataError(
            f"The submodels of the SBML file `{name}` cannot be written out, because: {' '.join(said.split())}"
        )
    return model


def _instances(document: libsbml.SBMLDocument) -> float:
    """The number of models in a document with all submodels written out; infinite where one holds itself."""
    models = [document.getModel(), *document.getPlugin("comp").getListOfModelDefinitions()]
    if len(models) > MOST_KINDS:
        return math.inf
    inner = {model.getId(): [x.getModelRef() for x in model.getPlugin("comp").getListOfSubmodels()] for model in models}
    sizes = dict.fromkeys(inner, 1.0)
    grown = lambda sizes: {name: 1.0 + sum(sizes.get(x, 1.0) for x in held) for name, held in inner.items()}
    for _ in models:
        sizes = grown(sizes)
    own = models[0].getId()
    return sizes[own] if grown(sizes)[own] == sizes[own] else math.inf
