"""The group of a fit of fields: arrays over all numbers, and the unknowns that they belong to with their priors of fields."""

import dataclasses
import json
from typing import Any

import h5py
import jax.numpy as jnp
import numpy as np

from .._errors import ArgumentError
from ..fitting import FieldFit
from ..problem import AbstractFieldPrior, Block, Matern, TotalVariation, Unknowns, size_of
from ._netcdf import read_json, read_variables, write_dimension, write_inner, write_variable
from ._schema import check_array

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "estimate": ("number",),
    "z": ("number",),
    "deviations": ("number",),
    "eigenvalues": ("mode",),
    "vectors": ("mode", "number"),
    "cuts": ("direction",),
    "directions": ("direction", "number"),
}
BOUNDS = ("number", "side")
KINDS: dict[str, type[AbstractFieldPrior]] = {"Matern": Matern, "TotalVariation": TotalVariation}
"""Priors of fields whose numbers a file holds, by the name of the class."""


def write_field_fit(group: h5py.Group, fit: FieldFit) -> None:
    """Write a fit of fields; univariate priors are not kept, since all that a fit needs of them stands in its arrays.

    **Raises:** an `ArgumentError` for a prior of fields of a user's own class.
    """
    sizes = {"number": fit.z.size, "mode": fit.eigenvalues.size, "direction": fit.cuts.size}
    for name, size in sizes.items():
        write_dimension(group, name, np.arange(size))
    write_dimension(group, "side", ["lower", "upper"])
    for name, dims in DIMENSIONS.items():
        write_variable(group, name, getattr(fit, name), dims)
    write_variable(group, "bounds", fit.unknowns.bounds, BOUNDS)
    for field in dataclasses.fields(fit):
        if field.metadata.get("static", False):
            group.attrs[field.name] = json.dumps(getattr(fit, field.name))
    told = []
    for block, prior in fit.unknowns.pairs:
        one: dict[str, Any] = {"name": block.name, "shape": block.shape, "log": block.log, "ends": None}
        if isinstance(prior, AbstractFieldPrior):
            one |= {"ends": _write_prior(group, block, prior), "prior": type(prior).__name__}
        told.append(one)
    group.attrs["unknowns"] = json.dumps(told)
    group.attrs["shared"] = json.dumps(fit.unknowns.shared)


def read_field_fit(group: h5py.Group) -> FieldFit:
    """A fit of fields as it was written.

    **Raises:** a `ValueError` or `KeyError` where arrays or unknowns are not those of one, which the reader of the file turns into
    a sentence.
    """
    arrays, told = read_variables(group), read_json(group, "unknowns")
    blocks: list[Block] = []
    for x in told:
        blocks.append(Block(str(x["name"]), tuple(map(int, x["shape"])), size_of(blocks), bool(x["log"])))
    if any(size < 1 for block in blocks for size in block.shape) or len({b.name for b in blocks}) < len(blocks):
        raise ValueError("the unknowns of a fit of fields must have names of their own and positive shapes")
    sizes = {"number": size_of(blocks), "side": 2, "mode": arrays["eigenvalues"].size, "direction": arrays["cuts"].size}
    for name, dims in (DIMENSIONS | {"bounds": BOUNDS}).items():
        check_array(name, arrays[name], tuple(sizes[dim] for dim in dims))
    priors = tuple(
        # Files of before there were others have `Matern` alone.
        None if x["ends"] is None else _read_prior(arrays, block, x["ends"], str(x.get("prior", "Matern")))
        for block, x in zip(blocks, told, strict=True)
    )
    bounds, shared = jnp.asarray(arrays["bounds"]), read_json(group, "shared")
    if not isinstance(shared, int) or not 0 <= shared <= sizes["number"]:
        raise ValueError(f"`shared` of a fit of fields must count its numbers, but it is {shared}")
    unknowns = Unknowns(priors, bounds, jnp.full(sizes["number"], jnp.nan, bounds.dtype), tuple(blocks), shared)
    static: dict[str, Any] = {}
    for field in dataclasses.fields(FieldFit):
        # Files of before a field existed have its default.
        if field.metadata.get("static", False) and (field.name in group.attrs or field.default is dataclasses.MISSING):
            value = read_json(group, field.name)
            static[field.name] = tuple(value) if isinstance(value, list) else value
    _check_static(static, len(blocks))
    static |= {name: jnp.asarray(arrays[name]) for name in DIMENSIONS}
    return FieldFit(unknowns=unknowns, **static)


def _write_prior(group: h5py.Group, block: Block, prior: AbstractFieldPrior) -> tuple[str, ...]:
    """Write the numbers of a prior of fields, and return its ends."""
    if type(prior) not in KINDS.values():
        raise ArgumentError(
            f"The prior of `{block.name}` must be a `simkit.fields.Matern` or `TotalVariation` for the fit to be saved, but it is "
            f"a `{type(prior).__name__}`, of which a file cannot hold the code. Keep the arrays of the fit, such as "
            f'`fit["{block.name}"]`, by `numpy.savez`.'
        )
    for name in _numbers(type(prior)):
        values, path = getattr(prior, name), f"{block.name}.prior.{name}"
        write_variable(group, path, values, write_inner(group, path, values.shape))
    return prior.ends


def _numbers(kind: type[AbstractFieldPrior]) -> tuple[str, ...]:
    """The quantities of a prior of fields, in the order of its class."""
    return tuple(f.name for f in dataclasses.fields(kind) if f.name != "ends")


def _read_prior(arrays: dict[str, np.ndarray], block: Block, ends: Any, kind: str) -> AbstractFieldPrior:
    """The prior of a field; its own checks refuse numbers that are none of one."""
    names = _numbers(KINDS[kind])
    given: dict[str, Any] = {name: jnp.asarray(arrays[f"{block.name}.prior.{name}"]) for name in names}
    make: Any = KINDS[kind]
    prior = make(given.pop(names[0]), ends=ends, **given)
    prior.check(block.name, block.shape)
    return prior


def _check_static(static: dict[str, Any], unknowns: int) -> None:
    """Refuse numbers and texts of other kinds."""
    texts, counts = (
        ("method",),
        ("status", "products", "coarse", "simulations", "linearisations", "failures", "data_count"),
    )
    for name, value in static.items():
        if name in ("units", "gradients"):
            kind, values = (str, value) if name == "units" else (int | float, value)
            right = isinstance(values, tuple) and all(isinstance(x, kind) for x in values) and len(values) > 0
        else:
            right = isinstance(value, str if name in texts else int if name in counts else int | float)
        if not right:
            raise ValueError(f"`{name}` of a fit of fields is {str(value)[:60]!r}")
    if len(static["units"]) != unknowns:
        raise ValueError("a fit of fields must have one unit for each unknown")
