"""Priors of fields in [free] of a study file."""

from collections.abc import Mapping, Sequence
from typing import Any

from ... import fields
from ..._errors import StudyError
from ...problem import AbstractFieldPrior
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
TOTAL_VARIATION = Table(
    "total variation: flat with edges, for field_lbfgs",
    {
        "weight": Key("number", "the cost of a jump"),
        "slope": Key("number", "the slope from which on a gradient is an edge"),
        **{key: MATERN.keys[key] for key in ("mean", "box", "ends")},
    },
)
FIELD_PRIORS: Mapping[str, tuple[Any, Table, tuple[str, str]]] = {
    "matern": (fields.Matern, MATERN, ("scale", "length")),
    "total_variation": (fields.TotalVariation, TOTAL_VARIATION, ("weight", "slope")),
}
"""Priors of fields by name, their keys, and those that must be given."""


def read_field_prior(part: Section, kind: str, given: object, box: Sequence[float]) -> AbstractFieldPrior:
    """A prior of fields; `box`: the lengths of the system's grid, where it gives none."""
    make, table, needed = FIELD_PRIORS[kind]
    if not isinstance(given, dict):
        raise part.error(
            "prior",
            f"must give `{kind}` a table such as {{ {needed[0]} = 1.0, {needed[1]} = 0.5 }}, but gives `{given!r}`.",
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
    own.need(*needed)
    if not box:
        raise own.error("box", "must give the lengths of the axes, since the system has no grid, but is left out.")
    more = {} if ends is None else {"ends": ends}
    with at_place(own.where()):
        return make(box=box, **asked, **more)


def with_field_method(
    name: str, tables: Mapping[str, Any], free: Mapping[str, Any], fit: Mapping[str, Any]
) -> Mapping[str, Any]:
    """[fit] as it is, with `method` where an unknown has a prior of fields and none is given.

    It is "gauss_newton_cg", and "field_lbfgs" where a prior is not Gaussian.

    **Raises:** a `StudyError` for methods that know no prior of fields.
    """
    fields_of = (path for path, one in free.items() if isinstance(getattr(one, "prior", None), AbstractFieldPrior))
    path = next(fields_of, None)
    if path is None:
        return fit
    if fit.get("method", FIELD_METHODS[0]) not in FIELD_METHODS:
        raise StudyError(
            f"`method` in [fit] of `{name}` must be one of {', '.join(FIELD_METHODS)}, since `{path}` has a prior of fields."
        )
    if tables.get("sample", {}).get("method", "nuts") != "nuts":
        raise StudyError(f'`method` in [sample] of `{name}` must be "nuts", since `{path}` has a prior of fields.')
    newton, descent = FIELD_METHODS
    edges = any(isinstance(getattr(one, "prior", None), fields.TotalVariation) for one in free.values())
    return {"method": descent if edges else newton, **fit}
