"""[assimilate] of a study file: how the states of a running system are found from its data."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..._errors import StudyError, check_known
from ..._types import State
from ...assimilation import ETKF, LETKF, AbstractEnsembleFilter, EnKF, FourDVar, Localisation, Observations
from ...core import named_leaves
from ...problem import Experiment, Normal
from ._keys import Key, Table
from ._section import Section, at_place

ENSEMBLES, WINDOWS = ("enkf", "etkf", "letkf"), "four_d_var"
METHODS = (*ENSEMBLES, WINDOWS)
OWN: Mapping[str, tuple[str, ...]] = {
    "members": ENSEMBLES,
    "inflation": ENSEMBLES,
    "rotation": ENSEMBLES,
    "lag": ENSEMBLES,
    "update": ("enkf",),
    "radius": ("letkf",),
    "periodic": ("letkf",),
    "window": (WINDOWS,),
    "shift": (WINDOWS,),
    "iterations": (WINDOWS,),
    "model_error": (WINDOWS,),
}
"""Keys that go with some methods alone."""

OTHERS = ("free", "filter", "fit", "profile", "sample", "predict", "sweep", "dosing", "events", "set")
"""Tables of a study that finds numbers, not states."""

UNREAD = ("y0", "set", "inputs", "individual", "covariates", "occasions", "groups", "doses", "resets")
"""Keys of an experiment that have no meaning here."""

_WIDTH = Table("", {}, Key("anything", "a standard deviation"))
ASSIMILATE = Table(
    "states of a running system found from its data",
    {
        "method": Key("a name", "how states are corrected", choices=lambda: METHODS, what="method of assimilation"),
        "deviation": Key(
            "anything", "standard deviation of the start: a number, or a table of state -> number", table=_WIDTH
        ),
        "members": Key("count", "members of the ensemble; 40 without it", least=2),
        "inflation": Key("number", "factor of the ensemble's spread after each correction; 1 without it"),
        "rotation": Key("true or false", "whether members are mixed after each correction"),
        "update": Key("a name", "how enkf corrects members", choices=lambda: ("perturbed", "deterministic")),
        "lag": Key("count", "how many earlier times are corrected too, for smoothed states", least=0),
        "radius": Key("number", "of letkf: how far observations count, in cells of the arrays of the state"),
        "periodic": Key("true or false", "of letkf: whether the last cell lies beside the first"),
        "window": Key("count", "of four_d_var: times of a window; 1 without it"),
        "shift": Key("count", "of four_d_var: times by which a window lies after the last; `window` without it"),
        "iterations": Key("count", "of four_d_var: Gauss-Newton steps in each window"),
        "model_error": Key(
            "anything", "of four_d_var: standard deviation of the error between two times", table=_WIDTH
        ),
    },
)


def read_assimilate(
    section: Section, tables: Mapping[str, Any], y0: Any, experiments: Sequence[Experiment], noise: Mapping[str, Any]
) -> dict[str, Any]:
    """[assimilate]: its keys, with `method` built and `observations` made of the data; nothing where it is not asked for.

    **Raises:** a `StudyError` for keys of other methods, and for tables and data that do not go with it.
    """
    if "assimilate" not in tables:
        return {}
    section.need("method", "deviation")
    asked = ASSIMILATE.read(section, "deviation", "model_error")
    for key, methods in OWN.items():
        if key in section and asked["method"] not in methods:
            words = " or ".join(f'"{method}"' for method in methods)
            raise section.error(key, f'goes with `method` {words}, but the method is "{asked["method"]}".')
    _check_alone(section, tables, y0, experiments)
    (data,) = experiments
    deviation = _widths(section, "deviation", y0)
    error = _widths(section, "model_error", y0) if "model_error" in section else None
    section.finish("deviation", "model_error")
    with at_place(section.where()):
        observations = Observations(
            data.times, dict(data.data), errors=_errors(data, noise, section.file), start=data.start
        )
        return {
            "method": _built(asked, section, y0, data, deviation, error),
            "observations": observations,
            "deviation": deviation,
            "members": asked.get("members", 40),
            "lag": asked.get("lag", 0),
        }


def _check_alone(section: Section, tables: Mapping[str, Any], y0: Any, experiments: Sequence[Experiment]) -> None:
    """Refuse what does not go with an assimilation."""
    for other in OTHERS:
        if tables.get(other) not in (None, []):
            raise StudyError(
                f"[{other}] of `{section.file}` does not go with [assimilate], which finds the states of one run with known "
                "numbers: leave it out."
            )
    if y0 is None:
        raise StudyError(
            f"`{section.file}` must give the state in [y0], around which [assimilate] starts, but it does not."
        )
    if len(experiments) != 1:
        raise StudyError(
            f"`{section.file}` must hold one experiment, whose data [assimilate] follows, but it holds {len(experiments)}."
        )
    own = tables["experiments"][experiments[0].name]
    for key in UNREAD:
        if key in own:
            raise StudyError(
                f"`{key}` in [experiments.{experiments[0].name}] of `{section.file}` does not go with [assimilate]. Give the "
                "state in [y0] and inputs in [inputs], and leave the rest out."
            )


def _widths(section: Section, key: str, y0: State) -> State:
    """A state of standard deviations from one number or a number by state."""
    if not isinstance(section.table[key], dict):
        given: dict[str, float | None] = dict.fromkeys(named_leaves(y0), section.number(key))
    else:
        part = section.section(key)
        given = {name: part.number(name) for name in part.table}
        for name in given:
            check_known(name, named_leaves(y0), f"state for {section.where(key)}")
        for name in named_leaves(y0):
            if name not in given:
                raise section.error(key, f"must give a number for every state, but `{name}` has none.")
    found: dict[str, float] = {}
    for name, width in given.items():
        if width is None or not (np.isfinite(width) and width > 0):
            raise section.error(key, f"must be positive, but that of `{name}` is {width}.")
        found[name] = width
    leaves, structure = jax.tree.flatten(y0)
    widths = [jnp.full_like(leaf, found[name]) for name, leaf in zip(named_leaves(y0), leaves, strict=True)]
    return jax.tree.unflatten(structure, widths)


def _errors(data: Experiment, noise: Mapping[str, Any], study: str) -> dict[str, Any]:
    """Standard deviations of the data by output, of the experiment or of a normal noise with a number."""
    found = {}
    for name, values in data.data.items():
        own, model = data.errors.get(name), noise.get(name)
        if name in data.limits:
            raise StudyError(f"`{name}` of `{study}` is censored, which [assimilate] does not take.")
        if not isinstance(model, Normal) or isinstance(model.scale, str):
            raise StudyError(
                f'`{name}` of `{study}` must have normal errors of known size for [assimilate]: `{name} = {{ model = "normal", '
                "scale = 0.2 }` in [noise], which `errors` of the experiment multiply."
            )
        # Errors of values that are missing do not count.
        relative = np.ones(np.shape(values)) if own is None else np.where(np.isfinite(own), own, 1.0)
        found[name] = float(model.scale) * relative
    return found


def _built(
    asked: Mapping[str, Any], section: Section, y0: State, data: Experiment, deviation: State, error: State | None
) -> AbstractEnsembleFilter | FourDVar:
    """The method with its numbers."""
    covariance = lambda widths: jnp.diag(ravel_pytree(widths)[0] ** 2)
    kind = asked["method"]
    if kind == WINDOWS:
        own = {key: asked[key] for key in ("window", "shift", "iterations") if key in asked}
        return FourDVar(covariance(deviation), **own, model_error=None if error is None else covariance(error))
    own = {key: asked[key] for key in ("inflation", "rotation") if key in asked}
    if kind == "etkf":
        return ETKF(**own)
    if kind == "enkf":
        return EnKF(**own, **({"update": asked["update"]} if "update" in asked else {}))
    section.need("radius")
    return LETKF(_near(section, asked, y0, data), **own)


def _near(section: Section, asked: Mapping[str, Any], y0: State, data: Experiment) -> Localisation:
    """Distances in cells, of states that are arrays on one grid."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(y0)]
    seen = [np.shape(data.data[name])[1:] for name in sorted(data.data)]
    if len({*shapes, *seen}) != 1 or not shapes[0]:
        raise section.error(
            "method",
            'must be "etkf" or "enkf" where states and data are no arrays of one shape: "letkf" counts distances in cells of such '
            f"arrays, but the shapes are {sorted({*shapes, *seen})}.",
        )
    cells = np.indices(shapes[0]).reshape(len(shapes[0]), -1).T.astype(float)
    return Localisation(
        float(asked["radius"]),
        places=np.tile(cells, (len(shapes), 1)),
        observed=np.tile(cells, (len(seen), 1)),
        period=shapes[0] if asked.get("periodic") else None,
    )
