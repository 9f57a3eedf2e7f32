"""Learned densities as arrays and plain settings, for files: their networks are made anew, and take the arrays."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._errors import ArgumentError
from .._calibration import Calibration
from .._coordinates import Unconstrained
from ._density import Density, Line, SplineFlow, Standard, new_networks
from ._features import Features, Mask
from ._neural_likelihood import Inputs, LearnedLikelihood
from ._neural_posterior import LearnedPosterior
from ._places import Places
from ._series import SeriesNetwork, SeriesSummary
from ._validity import new_validity

Parts = tuple[dict[str, np.ndarray], dict[str, Any]]
RANKS = "truths", "ranks", "outcome", "modes", "diverging"
SCALES = "middle", "width", "center", "scale"
POSTERIOR = "names", "units", "definition", "simulations", "failed", "rounds", "steps", "held_out", "warnings"
LIKELIHOOD = "simulations", "failed", "steps", "held_out", "growing"


def parts_of(learned: LearnedPosterior | LearnedLikelihood) -> Parts:
    """Arrays by name, and settings that JSON can hold.

    **Raises:** an `ArgumentError` for what is code: a summary that is a function, and priors of fields.
    """
    likelihood = isinstance(learned, LearnedLikelihood)
    places = learned.inputs.places if isinstance(learned, LearnedLikelihood) else learned.places
    if learned.features.summary is not None:
        raise ArgumentError(
            "A learned density must take all data, or a `SeriesSummary`, to be saved: a `summary` that is a function of yours is "
            "code, which files do not hold."
        )
    if places.coordinates.blocks:
        raise ArgumentError("A learned density of fields with a prior of fields cannot be saved: keep it in memory.")
    arrays, network = _density_parts(learned.density)
    features = learned.features
    arrays |= {f"features.{name}": np.asarray(getattr(features, name)) for name in SCALES}
    arrays |= {f"seen.{i}": mask.there for i, (_, mask) in enumerate(features.seen)}
    arrays |= {f"places.{end}": np.asarray(getattr(places.coordinates, end)) for end in ("lower", "upper")}
    told: dict[str, Any] = {"network": network, "kinds": features.kinds, "whole": features.whole}
    told |= {"seen": [name for name, _ in features.seen], "places": places.coordinates.kinds}
    fields = LIKELIHOOD if likelihood else POSTERIOR
    told |= {name: getattr(learned, name) for name in fields}
    if isinstance(learned, LearnedLikelihood):
        standards = {"inputs": learned.inputs.standard, "standard": learned.outputs}
        told["validity"] = learned.validity is not None
        arrays |= {f"validity.{i}": x for i, x in enumerate(_leaves(learned.validity))}
    else:
        standards = {"inputs": learned.inputs, "standard": learned.standard}
        arrays |= {f"calibration.{name}": np.asarray(getattr(learned.calibration, name)) for name in RANKS}
        arrays |= {"lowest": np.asarray(learned.lowest), "highest": np.asarray(learned.highest)}
        told["ranked"] = learned.calibration.draws
    for name, standard in standards.items():
        arrays |= {f"{name}.center": np.asarray(standard.center), f"{name}.scale": np.asarray(standard.scale)}
        told[f"{name}.dtype"] = standard.dtype
    return arrays, told


def learned_from(arrays: Mapping[str, np.ndarray], told: Mapping[str, Any]) -> LearnedPosterior | LearnedLikelihood:
    """The learned density of parts; a likelihood without its origin, which `learn_likelihood` adds.

    **Raises:** a `ValueError` or `KeyError` where arrays do not have the shapes that the settings say.
    """
    given = {name: jnp.asarray(x) for name, x in arrays.items()}
    seen = tuple((str(name), Mask(np.asarray(arrays[f"seen.{i}"], bool))) for i, name in enumerate(told["seen"]))
    scales = {name: given[f"features.{name}"] for name in SCALES}
    kinds, whole = tuple(map(str, told["kinds"])), tuple(map(bool, told["whole"]))
    features = Features(kinds=kinds, whole=whole, seen=seen, summary=None, **scales)  # pyright: ignore
    ends = given["places.lower"], given["places.upper"]
    places = Places(Unconstrained(*ends, tuple(map(str, told["places"])), (), ()))  # pyright: ignore
    inputs, standard = (
        Standard(given[f"{name}.center"], given[f"{name}.scale"], str(told[f"{name}.dtype"]))
        for name in ("inputs", "standard")
    )
    likelihood = "validity" in told
    sizes = (standard.center.size, inputs.center.size)
    if sizes != ((features.size, len(ends[0])) if likelihood else (len(ends[0]), features.size)):
        raise ValueError(f"a learned density has {features.size} features and {len(ends[0])} parameters, not {sizes}")
    density = _density_from(given, told["network"], *sizes, features)
    fields = {name: _tuples(told[name]) for name in (LIKELIHOOD if likelihood else POSTERIOR)}
    if likelihood:
        template = new_validity(sizes[1], jax.random.key(0)) if told["validity"] else None
        validity = None if template is None else _filled(template, "validity", given)
        return LearnedLikelihood(density, features, standard, Inputs(places, inputs), validity, None, **fields)
    ranks = {name: given[f"calibration.{name}"] for name in RANKS}
    calibration = Calibration(draws=int(told["ranked"]), names=fields["names"], **ranks)
    rest = calibration, given["lowest"], given["highest"]
    return LearnedPosterior(density, features, inputs, standard, places, *rest, **fields)


def _tuples(value: Any) -> Any:
    """Lists of JSON as tuples, at any depth."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _density_parts(density: Density) -> Parts:
    """The arrays of a density, and the settings of its networks."""
    layers = density.networks.flow.layers
    told: dict[str, Any] = {"layers": layers.turn.shape[-3], "width": layers.inward.shape[-1]}
    told |= {"bins": density.networks.flow.bins, "members": density.members, "series": None}
    embedding = density.networks.embedding
    if isinstance(embedding, SeriesNetwork):
        told["series"] = {"channels": embedding.convolutions[0].out_channels, "outputs": embedding.outputs}
    arrays = {f"networks.{i}": x for i, x in enumerate(_leaves(density.networks))}
    return arrays | {"line.slope": np.asarray(density.line.slope), "line.root": np.asarray(density.line.root)}, told


def _density_from(
    given: Mapping[str, Any], told: Mapping[str, Any], size: int, context: int, features: Features
) -> Density:
    flow = SplineFlow(**{name: int(told[name]) for name in ("layers", "width", "bins", "members")})
    series = None if told["series"] is None else SeriesSummary(**told["series"]).maker(features)
    template = new_networks(jax.random.key(0), size, context, flow, series)
    line = Line(given["line.slope"], given["line.root"])
    if line.slope.shape != (context, size) or line.root.shape != (size, size):
        raise ValueError(f"the regression of a learned density has the shapes {line.slope.shape} and {line.root.shape}")
    return Density(line, _filled(template, "networks", given), flow.members)


def _leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def _filled(template: Any, name: str, given: Mapping[str, Any]) -> Any:
    """The template with the stored arrays in place of its own."""
    arrays, static = eqx.partition(template, eqx.is_array)
    leaves, form = jax.tree.flatten(arrays)
    found = [given[f"{name}.{i}"] for i in range(len(leaves))]
    for i, (x, leaf) in enumerate(zip(found, leaves, strict=True)):
        if x.shape != leaf.shape or not jnp.issubdtype(x.dtype, jnp.floating):
            raise ValueError(f"array {i} of the {name} of a learned density has the shape {x.shape}, not {leaf.shape}")
    return eqx.combine(jax.tree.unflatten(form, found), static)
