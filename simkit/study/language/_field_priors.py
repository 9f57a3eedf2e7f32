"""Priors of fields in [free] of a study file."""

from collections.abc import Mapping, Sequence
from typing import Any

from ... import fields
from ..._errors import StudyError
from ._asked import FIELD_METHODS
from ._keys import Key, Table
from ._section import Section, at_place

ENDS = ("periodic", "neumann", "dirichlet")
MATERN = Table(
    "a Gaussian process on a grid",
    {
        "scale": Key("number", "the standard deviation"),
        "length": Key("number", "the length over which it is correlated"),
        "smoothness": Key("number", "how often it can be differentiated, about; 1.5 without it"),
        "mean": Key("number", "the mean; 0 without it"),
        "average": Key("number", "a factor of the standard deviation of the average over the box, such as 1e-3"),
        "box": Key("numbers", "lengths of the axes; those of the grid without it"),
        "ends": Key("anything", '"periodic", "neumann" or "dirichlet", one or one for each axis'),
    },
)
FIELD_PRIORS: Mapping[str, tuple[Any, Table]] = {"matern": (fields.Matern, MATERN)}
"""Priors of fields by name, and their keys."""


def read_field_prior(part: Section, kind: str, given: object, box: Sequence[float]) -> fields.AbstractField:
    """A prior of fields; `box`: the lengths of the system's grid, where it gives none."""
    make, table = FIELD_PRIORS[kind]
    if not isinstance(given, dict):
        raise part.error(
            "prior", f"must give `{kind}` a table such as {{ scale = 1.0, length = 0.5 }}, but gives `{given!r}`."
        )
    own = Section(given, f"{part.place}.prior.{kind}", part.file)
    asked = table.read(own, "box", "ends")
    if "box" in own:
        box = own.numbers("box")
    ends = own.get("ends", "an array" if isinstance(own.table.get("ends"), list) else "text")
    for one in [ends] if isinstance(ends, str) else ends or []:
        if one not in ENDS:
            raise own.error("ends", f"must be of {', '.join(ENDS)}, but it is `{one}`.")
    own.finish()
    own.need("scale", "length")
    if not box:
        raise own.error("box", "must give the lengths of the axes, since the system has no grid, but is left out.")
    more = {} if ends is None else {"ends": ends}
    with at_place(own.where()):
        return make(box=box, **asked, **more)


def with_field_method(
    name: str, tables: Mapping[str, Any], free: Mapping[str, Any], fit: Mapping[str, Any]
) -> Mapping[str, Any]:
    """[fit] as it is, with `method = "gauss_newton_cg"` where an unknown has a prior of fields and no method is given.

    **Raises:** a `StudyError` for methods that know no prior of fields.
    """
    fields_of = (path for path, one in free.items() if isinstance(getattr(one, "prior", None), fields.AbstractField))
    path = next(fields_of, None)
    if path is None:
        return fit
    if fit.get("method", FIELD_METHODS[0]) not in FIELD_METHODS:
        raise StudyError(
            f"`method` in [fit] of `{name}` must be one of {', '.join(FIELD_METHODS)}, since `{path}` has a prior of fields."
        )
    if tables.get("sample", {}).get("method", "nuts") != "nuts":
        raise StudyError(f'`method` in [sample] of `{name}` must be "nuts", since `{path}` has a prior of fields.')
    return {"method": FIELD_METHODS[0], **fit}
