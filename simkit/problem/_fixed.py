"""Unknowns of a problem that are held at given values."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import ArgumentError, check_known
from ._closed_search import closed_forms
from ._condition_table import Table
from ._forward import ForwardModel
from ._problem import Problem
from ._unknowns import Block, Unknowns


def with_fixed(problem: Problem, values: Mapping[str, Any]) -> Problem:
    """The same problem with some unknowns held at given values, and one parameter less for each.

    **Raises:** an `ArgumentError` as `check_fixed`.
    """
    check_fixed(problem, values)
    unknowns, model = _unknowns(problem.unknowns, values), _model(problem.model, problem.unknowns, values)
    other = problem.with_parts(unknowns=unknowns, model=model)
    if problem.closed:
        object.__setattr__(other, "closed", closed_forms(unknowns, model, problem.dataset.limits))
    return other


def check_fixed(problem: Problem, values: Mapping[str, Any]) -> None:
    """Refuse values of what is no single number of its own, or of which other parts of the problem are made.

    A value is None where it is not known yet.

    **Raises:** an `ArgumentError`, or an `UnknownNameError` with the close matches.
    """
    unknowns = problem.unknowns
    blocks = {block.name: block for block in unknowns.blocks}
    if problem.population is not None or unknowns.joints or problem.model.derived is not None:
        raise ArgumentError(
            "Unknowns cannot be fixed beside an `Individual`, a `dependence` or `derived` numbers, which may be made of them: give "
            "`Problem` the value in `set` in place of a `Free`."
        )
    for name, value in values.items():
        check_known(name, blocks, "free parameter")
        if blocks[name].shape:
            raise ArgumentError(
                f"Only single numbers can be fixed, but `{name}` is an array of shape {blocks[name].shape}."
            )
        if value is None:
            continue
        lower, upper = np.asarray(unknowns.bounds)[blocks[name].offset]
        if not lower <= float(value) <= upper:
            raise ArgumentError(
                f"The value of `{name}` must lie between its bounds {lower:g} and {upper:g}, but it is {float(value):g}."
            )


def _unknowns(unknowns: Unknowns, values: Mapping[str, Any]) -> Unknowns:
    """The unknowns that are left."""
    kept = [i for i, block in enumerate(unknowns.blocks) if block.name not in values]
    places = np.concatenate([np.arange(unknowns.size)[unknowns.blocks[i].span] for i in kept] + [np.zeros(0, int)])
    places = places.astype(int)
    return Unknowns(
        tuple(unknowns.stored[i] for i in kept),
        unknowns.bounds[places],
        unknowns.starts[places],
        _moved_up([unknowns.blocks[i] for i in kept]),
        len(places),
    )


def _model(model: ForwardModel, unknowns: Unknowns, values: Mapping[str, Any]) -> ForwardModel:
    """The forward model of the unknowns that are left, the others constants; `unknowns`: all."""
    given = {block.offset: float(values[block.name]) for block in unknowns.blocks if block.name in values}
    gone = np.array(sorted(given), int)
    table: Table = {}
    for path, (index, constant) in model.table.items():
        old, known = np.asarray(index), np.asarray(constant)
        new = np.where(old >= 0, old - np.searchsorted(gone, old), old)
        for offset, value in given.items():
            here = (old == offset).reshape(old.shape + (1,) * (known.ndim - old.ndim))
            known, new = np.where(here, value, known), np.where(old == offset, -1, new)
        table[path] = jnp.asarray(new, index.dtype), jnp.asarray(known, constant.dtype)
    blocks = _moved_up([block for block in model.blocks if block.name not in values])
    return dataclasses.replace(model, table=table, blocks=blocks)


def _moved_up(blocks: list[Block]) -> tuple[Block, ...]:
    """Blocks one behind the other."""
    found, offset = [], 0
    for block in blocks:
        found.append(block._replace(offset=offset))
        offset += block.size
    return tuple(found)
